// SPDX-License-Identifier: GPL-2.0
/*
 * A replacement for QEMU. It calls the plugin as QEMU would for the instructions
 * that it reads, one per line:
 *
 *	mark CPU NUMBER
 *	load|store CPU ADDRESS SIZE [PC]
 *	bytes BYTE...
 *	at PC BYTE...
 *	again TIMES
 *
 * For "bytes" it prints whether the plugin is called when they are executed.
 * "again" executes the instruction at the last PC so many times. Virtual addresses
 * equal physical addresses. An address that begins with 0x10000 is unknown, and an
 * address that begins with 0x2 belongs to a device. All numbers except marks and
 * sizes are hexadecimal. Each instruction is a block of its own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

struct callback {
	void (*exec)(unsigned int cpu, void *data);
	void (*mem)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		    void *data);
	void *data;
};

struct qemu_plugin_insn {
	uint64_t vaddr;
	unsigned char bytes[15];
	size_t size;
	struct callback exec, mem;
};

struct qemu_plugin_tb {
	struct qemu_plugin_insn insn;
	struct callback exec;
};

static void (*translate)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb))
{
	(void)id;
	translate = cb;
}

void qemu_plugin_reset(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id))
{
	translate = NULL;
	cb(id);
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data)
{
	(void)flags;
	tb->exec = (struct callback){ .exec = cb, .data = data };
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data)
{
	(void)flags;
	insn->exec = (struct callback){ .exec = cb, .data = data };
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, qemu_plugin_meminfo_t info,
			   uint64_t vaddr, void *data),
		int flags, int rw, void *data)
{
	(void)flags;
	(void)rw;
	insn->mem = (struct callback){ .mem = cb, .data = data };
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	(void)tb;
	return 1;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
		size_t idx)
{
	(void)idx;
	return (struct qemu_plugin_insn *)&tb->insn;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->vaddr;
}

void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn)
{
	return (void *)(uintptr_t)insn->vaddr;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

#if PLUGIN_API >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
			     size_t len)
{
	memcpy(dest, insn->bytes, len);
	return len;
}
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	return insn->bytes;
}
#endif

/* The size as a power of two, plus 16 for a store. */
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info)
{
	return info & 15;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info & 16;
}

static uint64_t last_access;

struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
		uint64_t vaddr)
{
	(void)info;
	last_access = vaddr;
	return vaddr >> 16 == 1 ? NULL : (struct qemu_plugin_hwaddr *)&last_access;
}

bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr)
{
	(void)haddr;
	return last_access >> 28 == 2;
}

uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr)
{
	(void)haddr;
	return last_access;
}

/* Blocks are never freed, as the plugin may keep pointers to them. */
static struct qemu_plugin_tb *new_tb(uint64_t pc)
{
	struct qemu_plugin_tb *tb = calloc(1, sizeof(*tb));

	if (!tb)
		abort();
	tb->insn.vaddr = pc;
	tb->insn.size = 7;
	return tb;
}

static void run(struct qemu_plugin_tb *tb, unsigned int cpu, uint64_t addr,
		qemu_plugin_meminfo_t info, bool access)
{
	translate(0, tb);
	if (tb->exec.exec)
		tb->exec.exec(cpu, tb->exec.data);
	if (tb->insn.exec.exec)
		tb->insn.exec.exec(cpu, tb->insn.exec.data);
	if (access)
		tb->insn.mem.mem(cpu, info, addr, tb->insn.mem.data);
}

/* Execute an instruction with these bytes once. */
static struct qemu_plugin_tb *run_bytes(uint64_t pc, const char *text)
{
	struct qemu_plugin_tb *tb = new_tb(pc);
	unsigned int byte;
	int read;

	tb->insn.size = 0;
	for (; sscanf(text, "%x%n", &byte, &read) == 1; text += read)
		tb->insn.bytes[tb->insn.size++] = byte;
	run(tb, 0, 0, 0, false);
	return tb;
}

/* Handle a line with bytes. Return false if it is another line. */
static bool read_bytes(const char *line)
{
	static struct qemu_plugin_tb *last;
	unsigned long long pc;
	unsigned int times;
	int read;

	if (!strncmp(line, "bytes ", 6)) {
		last = run_bytes(0x400000, line + 6);
		printf("%s\n", last->insn.exec.exec ? "called" : "not");
	} else if (sscanf(line, "at %llx%n", &pc, &read) == 1) {
		last = run_bytes(pc, line + read);
	} else if (last && sscanf(line, "again %u", &times) == 1) {
		while (times--)
			last->exec.exec(0, last->exec.data);
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	unsigned long long addr, pc;
	unsigned int cpu, number;
	char line[128];

	if (argc != 2 || qemu_plugin_install(0, NULL, 1, &argv[1]))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		struct qemu_plugin_tb *tb;
		bool store = line[0] == 's';

		if (sscanf(line, "mark %u %u", &cpu, &number) == 2) {
			static const unsigned char bytes[7] = {
				0x0f, 0x1f, 0x80, 0, 0x00, 0xed, 0x5e
			};

			tb = new_tb(0x400000);
			memcpy(tb->insn.bytes, bytes, sizeof(bytes));
			tb->insn.bytes[3] = number;
			run(tb, cpu, 0, 0, false);
			continue;
		}
		if (read_bytes(line))
			continue;
		pc = 0xffffffff81000000ull;
		if (sscanf(line, "%*s %u %llx %u %llx", &cpu, &addr, &number, &pc) < 3)
			return 2;
		run(new_tb(pc), cpu, addr,
		    __builtin_ctz(number) | (store ? 16 : 0), true);
	}
	return 0;
}
