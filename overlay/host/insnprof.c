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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

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
		int m = mark_of(insn);

		block->pc[i] = qemu_plugin_insn_vaddr(insn);
		if (m == MARK_START || m == MARK_STOP)
			qemu_plugin_register_vcpu_insn_exec_cb(insn,
				m == MARK_START ? started : stopped, 0, NULL);
	}
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_executed, 0, block);
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			int argc, char **argv)
{
	(void)info;
	out = open_output("insnprof", argc, argv);
	if (!out)
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
