/* SPDX-License-Identifier: GPL-2.0 */
/* Start and end of each test program. */
#ifndef SELFTESTS_UQ_FIXTURE_H
#define SELFTESTS_UQ_FIXTURE_H

#include <fnmatch.h>

#include "uq_safe.h"
#include "kselftest_harness.h"

/*
 * For tests that hang, not for slow tests: under emulation with a debug kernel,
 * one second may become minutes.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	1800

/*
 * Programs define this as true before they include this file if all their tests
 * affect more than a namespace, see uq_safe.h.
 */
#ifndef UQ_DISRUPTIVE
#define UQ_DISRUPTIVE	false
#endif

/* Reason to skip a single test of another program. */
#define UQ_NEEDS_LEAVE	"reaches beyond the namespace (UQ_TEST_DESTRUCTIVE)"

/*
 * Leave out variants of tests that make no sense: patterns of
 * "fixture.variant.test", see glob(7), and the reason.
 */
static struct {
	const char *pattern, *why;
} uq_left_out[32];

static inline void uq_leave_out(const char *pattern, const char *why)
{
	unsigned int i = 0;

	while (uq_left_out[i].pattern)
		i++;
	if (i + 1 == ARRAY_SIZE(uq_left_out))
		abort();
	uq_left_out[i].pattern = pattern;
	uq_left_out[i].why = why;
}

#define UQ_LEAVE_OUT(pattern, why)	__UQ_LEAVE_OUT(pattern, why, __LINE__)
#define __UQ_LEAVE_OUT(pattern, why, line)				\
	___UQ_LEAVE_OUT(pattern, why, line)
#define ___UQ_LEAVE_OUT(pattern, why, line)				\
static void __attribute__((constructor)) uq_leave_out_##line(void)	\
{									\
	uq_leave_out(pattern, why);					\
}

static inline bool uq_is_left_out(const char *name)
{
	unsigned int i;

	for (i = 0; uq_left_out[i].pattern; i++)
		if (!fnmatch(uq_left_out[i].pattern, name, 0))
			return true;
	return false;
}

static inline void uq_print_left_out(void)
{
	unsigned int i;

	for (i = 0; uq_left_out[i].pattern; i++)
		fprintf(stderr, "# without %s: %s\n", uq_left_out[i].pattern,
			uq_left_out[i].why);
}

#define UQ_MOST_TESTS	1000

/* Run all selected tests that are not left out. */
static inline int uq_run_harness(int argc, char **argv)
{
	struct __fixture_variant_metadata no_variant = { .name = "", };
	static char *args[2 * UQ_MOST_TESTS + 1];
	struct __fixture_variant_metadata *v;
	struct __fixture_metadata *f;
	struct __test_metadata *t;
	char name[256];
	int n = 1;

	if (!uq_left_out[0].pattern ||
	    test_harness_argv_check(argc, argv) != KSFT_PASS)
		return test_harness_run(argc, argv);
	args[0] = argv[0];
	for (f = __fixture_list; f; f = f->next) {
		for (v = f->variant ?: &no_variant; v; v = v->next) {
			for (t = f->tests; t; t = t->next) {
				snprintf(name, sizeof(name), "%s.%s%s%s",
					 f->name, v->name,
					 v->name[0] ? "." : "", t->name);
				if (uq_is_left_out(name) ||
				    !test_enabled(argc, argv, f, v, t))
					continue;
				if (n == 2 * UQ_MOST_TESTS + 1)
					abort();
				args[n++] = "-r";
				args[n++] = strdup(name);
			}
		}
	}
	uq_print_left_out();
	/* without any option, the harness would run all tests */
	if (n == 1) {
		args[n++] = "-r";
		args[n++] = "";
	}
	return test_harness_run(n, args);
}

/* Print the reason why no test can run, and exit. */
static inline void uq_give_up(int ret, const char *why)
{
	ksft_print_header();
	if (ret == KSFT_SKIP)
		ksft_exit_skip("%s\n", why);
	ksft_exit_fail_msg("%s\n", why);
}

static inline int uq_run_tests(int argc, char **argv)
{
	char why[UQ_WHY_LEN];
	int ret = uq_prepare(why, sizeof(why));

	if (!ret && UQ_DISRUPTIVE && !uq_may_disrupt(why, sizeof(why)))
		ret = KSFT_SKIP;
	if (!ret)
		return uq_run_harness(argc, argv);
	uq_give_up(ret, why);
	return ret;
}

static inline int uq_main(int argc, char **argv)
{
	char why[UQ_WHY_LEN];
	int ret;

	if (argc < 2 || (strcmp(argv[1], "-l") && strcmp(argv[1], "-h"))) {
		ret = uq_find_devs(why, sizeof(why));
		if (ret)
			uq_give_up(ret, why);
		return uq_guard(uq_run_tests, argc, argv);
	}
	/* only print; no test runs */
	uq_print_left_out();
	return test_harness_run(argc, argv);
}

#endif /* SELFTESTS_UQ_FIXTURE_H */
