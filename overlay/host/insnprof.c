// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that counts how often each guest instruction is executed between
 * profile_start() and profile_stop() of icount.h, and records the order.
 *
 * A sampling profiler in the guest adds instructions to the code that it measures.
 * This plugin runs outside of the guest and sees every instruction, so its sum
 * equals the instruction counter exactly.
 *
 * For each pair of marks it writes "round" and two lines of "ID*TIMES...". "sums"
 * is the number of runs of each block. "ran" lists all runs in order, and so shows
 * callers. New blocks come before these lines, as
 * "block ID call|ret|iret|- NEXT ADDRESS...": how the block ends, the address
 * behind it, and its instructions.
 *
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
	unsigned int	id;		/* 0 if it was not described yet */
	const char	*end;
	uint64_t	behind;
	size_t		nr;
	uint64_t	pc[];
};

/* A block and the number of its runs in a row. */
struct ran {
	struct block	*block;
	uint64_t	times;
};

static struct block *blocks;
static unsigned int described;
static struct ran *trace;
static size_t nr_ran, room;
static bool counting;
static FILE *out;

static void add_to_trace(struct block *block)
{
	if (nr_ran && trace[nr_ran - 1].block == block) {
		trace[nr_ran - 1].times++;
		return;
	}
	if (nr_ran == room) {
		room = room ? 2 * room : 4096;
		trace = realloc(trace, room * sizeof(*trace));
		if (!trace)
			abort();	/* a profile with holes would be a lie */
	}
	trace[nr_ran++] = (struct ran){ block, 1 };
}

static void block_executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	if (!counting)
		return;
	block->count++;
	add_to_trace(block);
}

static void started(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (struct block *b = blocks; b; b = b->next)
		b->count = 0;
	nr_ran = 0;
	counting = true;
}

static void describe(struct block *block)
{
	block->id = ++described;
	fprintf(out, "block %u %s %" PRIx64, block->id, block->end,
		block->behind);
	for (size_t i = 0; i < block->nr; i++)
		fprintf(out, " %" PRIx64, block->pc[i]);
	fprintf(out, "\n");
}

static void write_times(const struct block *block, uint64_t times)
{
	fprintf(out, " %u", block->id);
	if (times > 1)
		fprintf(out, "*%" PRIu64, times);
}

static void write_sums(void)
{
	for (struct block *b = blocks; b; b = b->next)
		if (b->count && !b->id)
			describe(b);
	fprintf(out, "sums");
	for (struct block *b = blocks; b; b = b->next)
		if (b->count)
			write_times(b, b->count);
	fprintf(out, "\n");
}

static void write_trace(void)
{
	fprintf(out, "ran");
	for (size_t i = 0; i < nr_ran; i++)
		write_times(trace[i].block, trace[i].times);
	fprintf(out, "\n");
}

static void stopped(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	counting = false;
	fprintf(out, "round\n");
	write_sums();
	write_trace();
	fflush(out);
}

/* Return whether an instruction calls a function, or returns. */
static const char *kind_of(const struct qemu_plugin_insn *insn)
{
	unsigned char bytes[LONGEST];
	size_t len = bytes_of(insn, bytes), at = 0;

	/* The prefixes rep, bnd, cs and notrack and the size in REX do not matter. */
	while (at < len && (bytes[at] == 0xf2 || bytes[at] == 0xf3 ||
			    bytes[at] == 0x2e || bytes[at] == 0x3e ||
			    (bytes[at] & 0xf0) == 0x40))
		at++;
	if (at == len)
		return "-";
	switch (bytes[at]) {
	case 0xc2:
	case 0xc3:
		return "ret";
	case 0xcf:
		return "iret";
	case 0xe8:
		return "call";
	case 0xff:	/* a group; number 2 is a call */
		return at + 1 < len && (bytes[at + 1] >> 3 & 7) == 2 ? "call" : "-";
	default:
		return "-";
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);
	struct block *block = calloc(1, sizeof(*block) + nr * sizeof(block->pc[0]));

	(void)id;
	if (!block)
		abort();
	block->nr = nr;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		int m = mark_of(insn);

		block->pc[i] = qemu_plugin_insn_vaddr(insn);
		block->behind = block->pc[i] + qemu_plugin_insn_size(insn);
		block->end = kind_of(insn);
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
