/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counting instructions in a guest that runs under QEMU's -icount shift=0.
 *
 * There, one guest nanosecond is one executed instruction, and QEMU's time
 * stamp counter counts guest nanoseconds: the difference of two readings is
 * the number of instructions in between. Reading it costs no exit and is
 * exact, which counter_is_exact() verifies before anything is believed.
 */
#ifndef OVERLAY_BENCH_ICOUNT_H
#define OVERLAY_BENCH_ICOUNT_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t insns(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return ((uint64_t)hi << 32) | lo;
}

/*
 * Long no-operations that nothing else uses: QEMU's plugins know them (plugin.h).
 * Instructions between the first and the second are counted.
 */
#define PLUGIN_MARK(number)						\
	__asm__ volatile(".byte 0x0f,0x1f,0x80," #number ",0x00,0xed,0x5e" : : : "memory")

static inline __attribute__((always_inline)) void profile_start(void)
{
	PLUGIN_MARK(1);
}

static inline __attribute__((always_inline)) void profile_stop(void)
{
	PLUGIN_MARK(2);
}

/* What two readings with nothing in between are apart. */
static inline uint64_t counter_floor(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 64; i++) {
		uint64_t t = insns();

		t = insns() - t;
		if (t < least)
			least = t;
	}
	return least;
}

/* A thousand no-operations have to count as a thousand. */
static inline int counter_is_exact(void)
{
	uint64_t floor = counter_floor();

	for (int i = 0; i < 64; i++) {
		uint64_t t = insns();

		__asm__ volatile(".rept 1000\n\tnop\n\t.endr");
		t = insns() - t;
		if (t == floor + 1000)
			return 1;
	}
	return 0;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sort the values. */
static inline double median(double *values, int n)
{
	qsort(values, n, sizeof(*values), by_value);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
