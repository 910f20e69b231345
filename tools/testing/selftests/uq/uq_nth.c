// SPDX-License-Identifier: GPL-2.0
/*
 * Let allocations and copies fail, one at a time; see uq_nth.h.
 */
#define _GNU_SOURCE
#include <limits.h>

#include "uq_nth.h"
#include "uq_safe.h"
#include "kselftest.h"

#define DEBUG	"/sys/kernel/debug"

/* -- the kernel's knobs */

static const struct {
	const char *path, *val;
} knobs[] = {
	/* include allocations that can sleep, and those of single pages */
	{ DEBUG "/failslab/ignore-gfp-wait", "N" },
	{ DEBUG "/fail_page_alloc/ignore-gfp-wait", "N" },
	{ DEBUG "/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ DEBUG "/fail_page_alloc/min-order", "0" },
	/* do not log a stack trace for each failure */
	{ DEBUG "/failslab/verbose", "0" },
	{ DEBUG "/fail_page_alloc/verbose", "0" },
	{ DEBUG "/fail_usercopy/verbose", "0" },
	{ DEBUG "/fail_make_request/verbose", "0" },
	{ DEBUG "/fail_futex/verbose", "0" },
	{ DEBUG "/fail_io_timeout/verbose", "0" },
};

static char old[ARRAY_SIZE(knobs)][32];

bool nth_set_knobs(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++) {
		if (uq_read_line(knobs[i].path, old[i], sizeof(old[i]))) {
			/* the tests require the first four */
			if (i < 4)
				return false;
			continue;
		}
		uq_write_line(knobs[i].path, knobs[i].val);
	}
	return true;
}

void nth_restore_knobs(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		if (old[i][0])
			uq_write_line(knobs[i].path, old[i]);
}

/* -- functions, by name */

struct range {
	unsigned long long start, end;
};

struct symbol {
	unsigned long long at;
	char *name;		/* NULL for all other functions */
};

#define OURS_BEGIN	"nvme_uq_"
/* Functions of user queues with another prefix may lie between two of these. */
#define NEAR	0x4000

/* All functions, sorted by address, and an end marker. */
static struct symbol *symbols;
static size_t nr_symbols;

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static bool add_symbol(unsigned long long at, const char *name)
{
	struct symbol *more;

	if (!(nr_symbols & (nr_symbols + 1))) {
		more = realloc(symbols, 2 * (nr_symbols + 1) * sizeof(*more));
		if (!more)
			return false;
		symbols = more;
	}
	symbols[nr_symbols++] = (struct symbol){
		at, name ? strdup(name) : NULL
	};
	return true;
}

void nth_read_symbols(void)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char line[512], name[256], type;
	unsigned long long at;
	bool wanted;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &at, &type, name) != 3 ||
		    (type != 't' && type != 'T'))
			continue;
		wanted = !strncmp(name, OURS_BEGIN, strlen(OURS_BEGIN)) ||
			!strcmp(name, IRQ_FILES) || !strcmp(name, LEAK_RECORDS);
		if (!add_symbol(at, wanted ? name : NULL))
			break;
	}
	if (f)
		fclose(f);
	add_symbol(~0ull, NULL);
	qsort(symbols, nr_symbols, sizeof(*symbols), by_address);
}

static bool is_ours(size_t i)
{
	return symbols[i].name && !strncmp(symbols[i].name, OURS_BEGIN,
					   strlen(OURS_BEGIN));
}

static bool find_symbol(const char *wanted, size_t *i)
{
	for (*i = 0; *i < nr_symbols; ++*i)
		if (symbols[*i].name && !strcmp(symbols[*i].name, wanted))
			return true;
	return false;
}

/* Find the address range of a function. */
static bool find_function(struct range *r, const char *wanted)
{
	size_t i;

	if (!find_symbol(wanted, &i))
		return false;
	r->start = symbols[i].at;
	while (symbols[i].at == r->start)
		i++;
	r->end = symbols[i].at;
	return true;
}

/* Find the range of the functions of user queues around @wanted. */
static bool find_range(struct range *r, const char *wanted)
{
	size_t first, last, i;

	if (!find_symbol(wanted, &i))
		return false;
	for (first = last = i;
	     i && symbols[first].at - symbols[i - 1].at <= NEAR; i--)
		if (is_ours(i - 1))
			first = i - 1;
	for (i = last + 1; symbols[i].at - symbols[last].at <= NEAR; i++)
		if (is_ours(i))
			last = i;
	r->start = symbols[first].at;
	r->end = symbols[last + 1].at;
	return true;
}

/* Fault attributes of allocations, and of copies. */
const char * const nth_filtered[] = {
	"failslab", "fail_page_alloc", "fail_usercopy"
};

static bool set_filters(const char *what, unsigned long long val)
{
	char path[64], line[32];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nth_filtered); i++) {
		snprintf(path, sizeof(path), DEBUG "/%s/%s", nth_filtered[i], what);
		snprintf(line, sizeof(line), "%#llx", val);
		if (uq_write_line(path, line))
			return false;
	}
	return true;
}

/* Allow failures only below functions of @require, and not below @reject. */
static bool set_filter(const struct range *require,
		       const struct range *reject)
{
	return set_filters("stacktrace-depth", 32) &&
		set_filters("reject-start", reject->start) &&
		set_filters("reject-end", reject->end) &&
		set_filters("require-start", require->start) &&
		set_filters("require-end", require->end);
}

bool nth_filter_nothing(void)
{
	const struct range all = { 0, ~0ull }, none = { };

	return set_filter(&all, &none);
}

bool nth_filter_leaks(void)
{
	struct range all = { 0, ~0ull }, leak = { };

	find_function(&leak, LEAK_RECORDS);
	return set_filter(&all, &leak);
}

bool nth_filter_function(const char *function, const char *not)
{
	struct range r, n = { };

	find_function(&n, not);
	return find_function(&r, function) && set_filter(&r, &n);
}

bool nth_filter_ours(void)
{
	struct range core, pci, both, leak = { };

	if (!find_range(&core, "nvme_uq_update_nodes") ||
	    !find_range(&pci, "nvme_uq_create"))
		return false;
	find_function(&leak, LEAK_RECORDS);
	both.start = core.start < pci.start ? core.start : pci.start;
	both.end = core.end > pci.end ? core.end : pci.end;
	return set_filter(&both, &leak);
}

const char *nth_lacks(void)
{
	static const char * const needs[][2] = {
		{ "failslab", "CONFIG_FAILSLAB" },
		{ "fail_page_alloc", "CONFIG_FAIL_PAGE_ALLOC" },
		{ "fail_usercopy", "CONFIG_FAULT_INJECTION_USERCOPY" },
		{ "failslab/require-start",
		  "CONFIG_FAULT_INJECTION_STACKTRACE_FILTER" },
	};
	char path[64];
	unsigned int i;

	if (access("/proc/thread-self/fail-nth", F_OK))
		return "CONFIG_FAULT_INJECTION";
	if (access(DEBUG, F_OK))
		return "CONFIG_FAULT_INJECTION_DEBUG_FS, and debugfs mounted";
	for (i = 0; i < ARRAY_SIZE(needs); i++) {
		snprintf(path, sizeof(path), DEBUG "/%s", needs[i][0]);
		if (access(path, F_OK))
			return needs[i][1];
	}
	return NULL;
}

/* -- the n'th point */

void set_nth(int fd, unsigned int n)
{
	char val[16];
	int len = snprintf(val, sizeof(val), "%u", n);

	/*
	 * this write also copies from user space, so it may be the one that
	 * fails
	 */
	while (pwrite(fd, val, len, 0) < 0 && errno == EFAULT)
		;
}

/* Return true if the point was reached. Nothing fails from now on. */
bool end_nth(int fd)
{
	char val[16] = "";
	ssize_t len = pread(fd, val, sizeof(val) - 1, 0);
	bool reached = len > 0 && atoi(val) == 0;

	set_nth(fd, 0);
	return reached;
}

/* -- one allocation after the other, in any task */

static bool set_attr(const char *attr, const char *name, int val)
{
	char path[64], line[16];

	snprintf(path, sizeof(path), DEBUG "/%s/%s", attr, name);
	snprintf(line, sizeof(line), "%d", val);
	return !uq_write_line(path, line);
}

static int get_attr(const char *attr, const char *name)
{
	char path[64], line[16];

	snprintf(path, sizeof(path), DEBUG "/%s/%s", attr, name);
	return uq_read_line(path, line, sizeof(line)) ? -1 : atoi(line);
}

/*
 * Let allocations fail once @space bytes are used up: @times of them, or all if
 * @times is -1.
 */
bool nth_arm(const char *attr, int space, int times)
{
	return set_attr(attr, "times", 0) && set_attr(attr, "interval", 1) &&
		set_attr(attr, "space", space) &&
		set_attr(attr, "probability", 100) &&
		set_attr(attr, "times", times);
}

/*
 * Return true if an allocation has failed. Subtract the unused bytes from
 * @space.
 */
bool nth_disarm(const char *attr, int *space)
{
	bool failed = get_attr(attr, "times") == 0;

	set_attr(attr, "times", 0);
	set_attr(attr, "probability", 0);
	*space -= get_attr(attr, "space");
	set_attr(attr, "space", 0);
	return failed;
}

void nth_disarm_all(void)
{
	int space = 0;
	unsigned int i;

	for (i = 0; i < NR_ALLOC; i++)
		nth_disarm(nth_filtered[i], &space);
}
