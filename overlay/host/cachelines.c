// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that follows cache lines. It counts how many lines a CPU touches
 * while it is counted, and how many it takes from another CPU.
 *
 * A program in the guest sets marks (plugin.h): before the first measurement, where
 * the counting of its CPU starts and stops, and at the end of its turn. For each
 * turn the plugin writes
 *
 *	turn CPU insns=.. lines=.. own=.. user=.. code=.. taken=.. lost=..
 *
 * insns	instructions of the kernel
 * lines	distinct lines of data that the kernel has touched
 * own		those lines that the program has shown as its own: rings, buffers
 * user		distinct lines of data that user space has touched
 * code		distinct lines with instructions that the kernel has executed
 * taken	lines of data taken from another CPU, by the model below
 * lost		accesses whose address QEMU did not know: there should be none
 *
 * If the mark asks for details, these lines come first, one for each line of data,
 * in the order of first touches:
 *
 *	line PC ADDRESS FLAGS
 *
 * PC and ADDRESS are the instruction and the virtual address of the first touch.
 * FLAGS are "k" by the kernel, "u" by user space, "o" own and "t" taken.
 *
 * A line is 64 bytes of physical memory. With virtual addresses, a line of a ring
 * would count twice, because the program and the kernel map it at two addresses.
 * Lines of two processes at the same address would count as one.
 *
 * The model. Each CPU has a cache that is never full. A load gets a copy of the
 * line. A store takes the line from all other CPUs, and they lose their copies. A
 * CPU takes a line if it touches a line without having a copy, and another CPU
 * wrote it last. It also takes a line if it writes to it and another CPU has a
 * copy. A line counts once per turn. First touches, and loads of memory that no
 * CPU has written, do not count: they miss, but no CPU loses anything. Accesses of
 * a CPU that is not counted do not change the model. Neither do devices and page
 * walks. So a turn depends only on other turns since the last mark before a
 * measurement.
 *
 * QEMU must run all CPUs in one thread (-icount, or -accel tcg,thread=single), so
 * that accesses have an order. Turns must not overlap, or the order is arbitrary:
 * QEMU lets a CPU run for milliseconds before it switches to another one.
 *
 * Usage: -plugin cachelines.so,out=FILE
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define MAX_CPUS	8
#define LINE_SHIFT	6
#define LINE_SIZE	(1u << LINE_SHIFT)
#define GUEST_PAGE	4096u
#define BUCKETS		(1u << 18)
#define KERNEL		(1ull << 63)

#define BY_KERNEL	1
#define BY_USER		2
#define TAKEN		4

/*
 * @life: the life of the model that @holders and @writer belong to
 * @seen: for each CPU, the turn of the last touch, and the index in its list
 */
struct line {
	struct line	*next;
	uint64_t	nr;
	uint32_t	life;
	uint8_t		holders;
	int8_t		writer;
	bool		own;
	struct {
		uint32_t turn, at;
	} seen[MAX_CPUS];
};

struct map {
	struct line	*bucket[BUCKETS];
};

struct touched {
	struct line	*line;
	uint64_t	pc, addr;
	unsigned int	flags;
};

/* The lines of one turn. */
struct list {
	struct touched	*touched;
	size_t		nr, room;
};

enum state { OFF, COUNTING, SHOWING };

struct cpu {
	enum state	state;
	uint32_t	turn;
	uint64_t	insns, lost;
	struct list	data, code;
};

/* QEMU's unit of translation: always executed from its first instruction. */
struct block {
	uint64_t	pc;
	size_t		insns, nr;
	struct line	*lines[];
};

static struct map data_lines, code_lines;
static struct cpu cpus[MAX_CPUS];
static qemu_plugin_id_t plugin;
static bool armed;
static uint32_t life;
static FILE *out;

static void __attribute__((noreturn)) give_up(const char *why)
{
	fprintf(stderr, "cachelines: %s\n", why);
	abort();	/* figures with holes would be a lie */
}

static void *zeroed(size_t nr, size_t size)
{
	void *p = calloc(nr, size);

	if (!p)
		give_up("there is no memory left");
	return p;
}

static struct line *find_line(struct map *map, uint64_t nr)
{
	struct line **bucket = &map->bucket[(nr ^ nr >> 18) % BUCKETS];
	struct line *line;

	for (line = *bucket; line; line = line->next)
		if (line->nr == nr)
			return line;
	line = zeroed(1, sizeof(*line));
	line->nr = nr;
	line->writer = -1;
	line->next = *bucket;
	*bucket = line;
	return line;
}

/* The processor, if it is one that can be counted. */
static struct cpu *cpu_of(unsigned int cpu)
{
	if (cpu >= MAX_CPUS)
		return NULL;
	if (!cpus[cpu].turn)
		cpus[cpu].turn = 1;
	return &cpus[cpu];
}

/* Return the line's entry in the list of this turn. Add it if there is none. */
static struct touched *touch(struct list *list, struct line *line,
			     unsigned int cpu, uint64_t pc, uint64_t addr)
{
	uint32_t turn = cpus[cpu].turn;
	struct touched *t;

	if (line->seen[cpu].turn == turn)
		return &list->touched[line->seen[cpu].at];
	if (list->nr == list->room) {
		list->room = list->room ? 2 * list->room : 1024;
		list->touched = realloc(list->touched,
					list->room * sizeof(*list->touched));
		if (!list->touched)
			give_up("there is no memory left");
	}
	line->seen[cpu].turn = turn;
	line->seen[cpu].at = list->nr;
	t = &list->touched[list->nr++];
	*t = (struct touched){ .line = line, .pc = pc, .addr = addr };
	return t;
}

/* Apply one access to the model. Return whether the CPU took the line. */
static bool take(struct line *line, unsigned int cpu, bool store)
{
	uint8_t me = 1u << cpu;
	bool taken;

	if (line->life != life) {
		line->life = life;
		line->holders = 0;
		line->writer = -1;
	}
	taken = !(line->holders & me) && line->writer >= 0 &&
		line->writer != (int)cpu;
	if (store) {
		taken |= (line->holders & ~me) != 0;
		line->holders = me;
		line->writer = cpu;
	} else {
		line->holders |= me;
	}
	return taken;
}

static void access_line(unsigned int cpu, uint64_t nr, uint64_t pc,
			uint64_t addr, bool store)
{
	struct line *line = find_line(&data_lines, nr);
	struct touched *t;

	if (cpus[cpu].state == SHOWING) {
		line->own |= pc < KERNEL;
		return;
	}
	t = touch(&cpus[cpu].data, line, cpu, pc, addr);
	t->flags |= pc < KERNEL ? BY_USER : BY_KERNEL;
	if (take(line, cpu, store))
		t->flags |= TAKEN;
}

/* Two threads have no order of accesses. */
static void check_thread(void)
{
	static pthread_t thread;
	static bool known;

	if (!known) {
		thread = pthread_self();
		known = true;
	}
	if (!pthread_equal(thread, pthread_self()))
		give_up("the guest's processors run in several threads");
}

static void accessed(unsigned int cpu, qemu_plugin_meminfo_t info,
		     uint64_t addr, void *data)
{
	const struct qemu_plugin_hwaddr *hwaddr;
	struct cpu *c = cpu_of(cpu);
	uint64_t pc = (uintptr_t)data, phys;
	unsigned int size;
	bool store;

	if (!c || c->state == OFF)
		return;
	check_thread();
	hwaddr = qemu_plugin_get_hwaddr(info, addr);
	if (!hwaddr) {
		c->lost++;
		return;
	}
	if (qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	phys = qemu_plugin_hwaddr_phys_addr(hwaddr);
	size = 1u << qemu_plugin_mem_size_shift(info);
	store = qemu_plugin_mem_is_store(info);
	access_line(cpu, phys >> LINE_SHIFT, pc, addr, store);
	/* An access across pages is rare, and the second address is unknown. */
	if (phys % LINE_SIZE + size > LINE_SIZE &&
	    phys % GUEST_PAGE + size <= GUEST_PAGE)
		access_line(cpu, (phys >> LINE_SHIFT) + 1, pc,
			    (addr | (LINE_SIZE - 1)) + 1, store);
}

static void executed(unsigned int cpu, void *data)
{
	const struct block *block = data;
	struct cpu *c = cpu_of(cpu);

	if (!c || c->state != COUNTING)
		return;
	c->insns += block->insns;
	for (size_t i = 0; i < block->nr; i++)
		touch(&c->code, block->lines[i], cpu, block->pc, 0);
}

static size_t count(const struct list *list, unsigned int flags, bool own)
{
	size_t nr = 0;

	for (size_t i = 0; i < list->nr; i++)
		nr += (list->touched[i].flags & flags) == flags &&
			(!own || list->touched[i].line->own);
	return nr;
}

static void print_lines(const struct list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		const struct touched *t = &list->touched[i];

		fprintf(out, "line %" PRIx64 " %" PRIx64 " %s%s%s%s\n",
			t->pc, t->addr, t->flags & BY_KERNEL ? "k" : "",
			t->flags & BY_USER ? "u" : "", t->line->own ? "o" : "",
			t->flags & TAKEN ? "t" : "");
	}
}

static void end_turn(unsigned int cpu, struct cpu *c, bool detail)
{
	if (detail)
		print_lines(&c->data);
	fprintf(out, "turn %u insns=%" PRIu64 " lines=%zu own=%zu user=%zu "
		"code=%zu taken=%zu lost=%" PRIu64 "\n", cpu, c->insns,
		count(&c->data, BY_KERNEL, false),
		count(&c->data, BY_KERNEL, true),
		count(&c->data, BY_USER, false), c->code.nr,
		count(&c->data, TAKEN, false), c->lost);
	fflush(out);
	c->turn++;
	c->insns = 0;
	c->lost = 0;
	c->data.nr = 0;
	c->code.nr = 0;
}

static void marked(unsigned int cpu, void *data)
{
	struct cpu *c = cpu_of(cpu);
	int mark = (intptr_t)data;

	if (!c)
		give_up("a processor with a number too high is to be counted");
	if (mark == MARK_ARM) {
		life++;
		return;
	}
	c->state = mark == MARK_START ? COUNTING :
		mark == MARK_SHOW ? SHOWING : OFF;
	if (mark == MARK_TURN || mark == MARK_DETAIL)
		end_turn(cpu, c, mark == MARK_DETAIL);
}

/* Find the lines of a block's instructions. */
static struct block *new_block(struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);
	struct block *block = zeroed(1, sizeof(*block) +
				     2 * nr * sizeof(block->lines[0]));
	uint64_t last = UINT64_MAX;

	block->insns = nr;
	block->pc = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t at = (uintptr_t)qemu_plugin_insn_haddr(insn);
		uint64_t end;

		if (!at)	/* not in memory */
			at = qemu_plugin_insn_vaddr(insn);
		end = (at + qemu_plugin_insn_size(insn) - 1) >> LINE_SHIFT;
		for (at >>= LINE_SHIFT; at <= end; at++) {
			if (at != last)
				block->lines[block->nr++] =
					find_line(&code_lines, at);
			last = at;
		}
	}
	return block;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t pc = qemu_plugin_insn_vaddr(insn);
		intptr_t mark = mark_of(insn);

		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, 0,
							       (void *)mark);
		qemu_plugin_register_vcpu_mem_cb(insn, accessed, 0,
						 QEMU_PLUGIN_MEM_RW, (void *)pc);
	}
	/* Instructions and code of user space do not count. */
	if (qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)) >= KERNEL)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0,
						     new_block(tb));
}

/* QEMU forgets all translated code, and translates it again. */
static void reset(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
}

static void arm(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	if (!armed)
		qemu_plugin_reset(plugin, reset);
	armed = true;
}

/*
 * Before the first measurement, only check for marks. A callback for each access
 * would make the guest's start several times as long.
 */
static void translated_early(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (mark_of(insn) == MARK_ARM)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, arm, 0,
							       NULL);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			int argc, char **argv)
{
	(void)info;
	out = open_output("cachelines", argc, argv);
	if (!out)
		return 1;
	plugin = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated_early);
	return 0;
}
