// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer of NVMe user queues: messages, values and fields, and the errnos
 * that are documented. See uq_fuzz.c.
 */
#define _GNU_SOURCE
#include <stdarg.h>

#include "uq_fuzz.h"

/* -- messages */

void fuzz_bad(struct fuzz *f, const char *fmt, ...)
{
	va_list ap;

	f->bad++;
	printf("# %s, seed %llu, after %u operations: ",
	       f->root ? "root" : "unprivileged", (unsigned long long)f->seed, f->ops);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

/* Print the progress of long runs. */
#define TELL	20000

void fuzz_count(struct fuzz *f, unsigned int n)
{
	unsigned long done;

	f->ops += n;
	done = __atomic_add_fetch(&f->all->done, n, __ATOMIC_RELAXED);
	if (done / TELL != (done - n) / TELL) {
		printf("# %lu operations\n", done);
		fflush(stdout);
	}
}

/* -- values */

__u64 fuzz_address(struct fuzz *f)
{
	static const __u64 odd[] = {
		0, 1, 4, 4096, ~0ull, ~0ull << 12, 1ull << 47,
		(1ull << 47) - 4096, 0xffff888000000000ull,
		0xffffffff81000000ull, 1ull << 32,
	};

	switch (uq_below(&f->rng, 8)) {
	case 0:
		return uq_1in(&f->rng, 2) ? uq_rnd(&f->rng) :
			(uintptr_t)f->map[uq_below(&f->rng, FUZZ_MAPS)].p;
	case 1:
		return (uintptr_t)f->hole;
	case 2:
		return (uintptr_t)f->guard[uq_below(&f->rng, 2)];
	case 3:
		return (uintptr_t)f->area + FUZZ_AREA - 512;
	case 4:
		return (uintptr_t)f->area - 512;
	case 5:
		return (uintptr_t)f->ranges + uq_below(&f->rng, 3) * 4096;
	case 6:
		return (uintptr_t)f->area + uq_below(&f->rng, FUZZ_AREA);
	default:
		return UQ_PICK(&f->rng, odd);
	}
}

__u32 fuzz_length(struct fuzz *f)
{
	static const __u32 lengths[] = {
		0, 1, 2, 3, 4, 16, 511, 512, 516, 1025, 4092, 4095, 4096, 4097,
		8192, 65536, 131072, 131076, FUZZ_AREA, 1 << 20, 8 << 20,
		1 << 30, 1u << 31, ~0u - 3, ~0u,
	};

	if (uq_1in(&f->rng, 8))
		return uq_rnd(&f->rng);
	return UQ_PICK(&f->rng, lengths);
}

int fuzz_file(struct fuzz *f)
{
	return f->file[uq_below(&f->rng, FUZZ_FDS)].fd;
}

/* -- fields */

static __u64 any_value(struct fuzz *f, const struct fuzz_field *field)
{
	unsigned int n = 0;

	switch (field->kind) {
	case FUZZ_BIT:
		return 1ull << uq_below(&f->rng, field->size * 8);
	case FUZZ_ADDRESS:
		return fuzz_address(f);
	case FUZZ_AREA_ADDRESS:
		return (uintptr_t)f->area + uq_below(&f->rng, FUZZ_AREA);
	case FUZZ_LENGTH:
		return fuzz_length(f);
	case FUZZ_LIST:
		/* the first value may be 0, the others are not */
		do {
			n++;
		} while (n < ARRAY_SIZE(field->list) && field->list[n]);
		return field->list[uq_below(&f->rng, n)];
	case FUZZ_ANY:
		break;
	}
	return uq_rnd(&f->rng);
}

void fuzz_bend(struct fuzz *f, void *base, const struct fuzz_field *fields,
	       unsigned int nr)
{
	const struct fuzz_field *field = &fields[uq_below(&f->rng, nr)];
	__u64 val = any_value(f, field);
	char *at = (char *)base + field->at;

	switch (field->size) {
	case 1:
		__atomic_store_n((__u8 *)at, val, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((__u16 *)at, val, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((__u32 *)at, val, __ATOMIC_RELAXED);
		break;
	case 8:
		__atomic_store_n((__u64 *)at, val, __ATOMIC_RELAXED);
		break;
	}
}

/* -- errnos */

/* All that <linux/nvme_uq.h> lists, except those that the caller checks. */
static const short documented[][16] = {
	[FUZZ_COMMAND]	= { EACCES, EBUSY, EFAULT, EINTR, EINVAL, ENODEV,
			    ENOMEM, ENOTTY, ENXIO, EOPNOTSUPP, ESHUTDOWN,
			    EBADF,	/* file of the SQE */
			    ECANCELED,	/* link or cancel */
			    EOVERFLOW	/* length of a registered vector */ },
	[FUZZ_CLAIM]	= { EBADF, EBUSY, ENOMEM, ENXIO, EOPNOTSUPP, ESHUTDOWN,
			    EPERM },
	[FUZZ_UNCLAIM]	= { EBADF, ENXIO, EPERM },
	[FUZZ_MMAP]	= { EPERM,	/* the claim has ended */
			    EAGAIN,	/* too many locked pages */
			    EBADF, ENOMEM, ENXIO,
			    EOPNOTSUPP,	/* flags that exclude each other */
			    EOVERFLOW	/* offset overflow */ },
	[FUZZ_ALLOC]	= { EBADF, EBUSY, ENOMEM, ENOSPC, ENXIO, EOPNOTSUPP },
};

bool fuzz_is_documented(enum fuzz_call call, int err)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(documented[call]); i++)
		if (err && documented[call][i] == err)
			return true;
	return false;
}
