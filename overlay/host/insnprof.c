// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that counts exactly how often each guest instruction is
 * executed between profile_start() and profile_stop() of icount.h.
 *
 * A sampling profiler in the guest would have to be spread over the very
 * instructions it measures; this one stands outside and sees every one of
 * them, so its sum is what the instruction counter says, to the instruction.
 *
 * For each pair of marks it writes "round", then "ADDRESS COUNT" lines.
 * Usage: -plugin insnprof.so,out=FILE
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of QEMU's plugin interface that is used here. Debian packages no
 * header for it. PLUGIN_API is the version of the QEMU at hand.
 */
#ifndef PLUGIN_API
#define PLUGIN_API 1
#endif

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
		size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
#if PLUGIN_API >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
			     size_t len);
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#endif

extern int qemu_plugin_version;
int qemu_plugin_version = PLUGIN_API;

/* QEMU's unit of translation: always executed from its first instruction. */
struct block {
	struct block	*next;
	uint64_t	count;
	size_t		nr;
	uint64_t	pc[];
};

static struct block *blocks;
static bool counting;
static FILE *out;

static void block_executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	if (counting)
		block->count++;
}

static void started(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (struct block *b = blocks; b; b = b->next)
		b->count = 0;
	counting = true;
}

static void stopped(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	counting = false;
	fprintf(out, "round\n");
	for (struct block *b = blocks; b; b = b->next)
		for (size_t i = 0; b->count && i < b->nr; i++)
			fprintf(out, "%" PRIx64 " %" PRIu64 "\n", b->pc[i], b->count);
	fflush(out);
}

/* 1 and 2 for the two marks, 0 for any other instruction. */
static int mark(const struct qemu_plugin_insn *insn)
{
	static const unsigned char bytes[7] = { 0x0f, 0x1f, 0x80, 0, 0x00, 0xed, 0x5e };
	unsigned char is[7];

	if (qemu_plugin_insn_size(insn) != sizeof(is))
		return 0;
#if PLUGIN_API >= 3
	if (qemu_plugin_insn_data(insn, is, sizeof(is)) != sizeof(is))
		return 0;
#else
	memcpy(is, qemu_plugin_insn_data(insn), sizeof(is));
#endif
	if (memcmp(is, bytes, 3) || memcmp(is + 4, bytes + 4, 3))
		return 0;
	return is[3] == 1 || is[3] == 2 ? is[3] : 0;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);
	struct block *block = calloc(1, sizeof(*block) + nr * sizeof(block->pc[0]));

	(void)id;
	if (!block)
		abort();	/* a profile with holes would be a lie */
	block->nr = nr;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		int m = mark(insn);

		block->pc[i] = qemu_plugin_insn_vaddr(insn);
		if (m)
			qemu_plugin_register_vcpu_insn_exec_cb(insn,
				m == 1 ? started : stopped, 0, NULL);
	}
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_executed, 0, block);
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			int argc, char **argv);
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "insnprof: the argument out=FILE is missing\n");
		return 1;
	}
	out = fopen(argv[0] + 4, "w");
	if (!out) {
		perror(argv[0] + 4);
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
