/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared code of our QEMU plugins: the part of QEMU's plugin interface that they
 * use, and the marks of icount.h. Debian packages no header for the interface.
 *
 * PLUGIN_API is the version of the installed QEMU's interface.
 */
#ifndef OVERLAY_HOST_PLUGIN_H
#define OVERLAY_HOST_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef PLUGIN_API
#define PLUGIN_API 1
#endif

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_info_t;

/* enum qemu_plugin_mem_rw */
#define QEMU_PLUGIN_MEM_RW	3

void qemu_plugin_reset(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, qemu_plugin_meminfo_t info,
			   uint64_t vaddr, void *data),
		int flags, int rw, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
		size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
		uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);
#if PLUGIN_API >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
			     size_t len);
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#endif

/* Each plugin defines these. */
extern int qemu_plugin_version;
int qemu_plugin_version = PLUGIN_API;

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			int argc, char **argv);

/* Marks that a program in the guest sets, see icount.h. */
#define MARK_START	1	/* start counting this CPU */
#define MARK_STOP	2	/* stop counting */
#define MARK_TURN	3	/* the turn is complete */
#define MARK_DETAIL	4	/* the same, and write each line */
#define MARK_SHOW	5	/* the next accesses show the program's own memory */
#define MARK_ARM	6	/* a measurement follows: empty the caches */
#define NR_MARKS	6

/* The length of the longest instruction. */
#define LONGEST		15

/* Get the bytes of an instruction. Return their number, or 0 if unknown. */
static size_t bytes_of(const struct qemu_plugin_insn *insn,
		       unsigned char bytes[LONGEST])
{
	size_t len = qemu_plugin_insn_size(insn);

	if (len > LONGEST)
		return 0;
#if PLUGIN_API >= 3
	if (qemu_plugin_insn_data(insn, bytes, len) != len)
		return 0;
#else
	memcpy(bytes, qemu_plugin_insn_data(insn), len);
#endif
	return len;
}

/* One of these, 0 for any other instruction. */
static inline int mark_of(const struct qemu_plugin_insn *insn)
{
	static const unsigned char bytes[7] = { 0x0f, 0x1f, 0x80, 0, 0x00, 0xed, 0x5e };
	unsigned char is[LONGEST];

	if (bytes_of(insn, is) != sizeof(bytes) || memcmp(is, bytes, 3) ||
	    memcmp(is + 4, bytes + 4, 3))
		return 0;
	return is[3] <= NR_MARKS ? is[3] : 0;
}

/* The file that the only argument names, or NULL and a message. */
static inline FILE *open_output(const char *plugin_name, int argc, char **argv)
{
	FILE *file;

	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "%s: the argument out=FILE is missing\n",
			plugin_name);
		return NULL;
	}
	file = fopen(argv[0] + 4, "w");
	if (!file)
		perror(argv[0] + 4);
	return file;
}

#endif
