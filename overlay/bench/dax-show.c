// SPDX-License-Identifier: GPL-2.0
/*
 * Read a file through a mapping and print resident pages and faults.
 *
 *	dax-show FILE
 *
 * Prints "RSS FAULTS": kB of the mapping that are resident, and page
 * faults. The mapping is a page out of step with the file, so that no huge
 * page fits. Every page is read, in order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	4096UL
#define HUGE	(2UL << 20)

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "dax-show: %s: %s\n", what, strerror(errno));
	exit(1);
}

static const volatile char *map(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	char *area, *at;

	if (fd < 0 || fstat(fd, &st))
		die(path);
	*size = st.st_size;
	area = mmap(NULL, *size + 2 * HUGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		die("mmap");
	at = (char *)(((uintptr_t)area + HUGE - 1) & ~(HUGE - 1)) + PAGE;
	at = mmap(at, *size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
	if (at == MAP_FAILED)
		die(path);
	return at;
}

static long faults(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return ru.ru_minflt + ru.ru_majflt;
}

static long resident(const volatile char *at)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512], start[32];
	int here = 0;
	long kb;

	if (!f)
		die("/proc/self/smaps");
	snprintf(start, sizeof(start), "%lx-", (unsigned long)at);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, start, strlen(start)))
			here = 1;
		if (here && sscanf(line, "Rss: %ld", &kb) == 1)
			return kb;
	}
	die("the mapping is not in smaps");
}

int main(int argc, char **argv)
{
	const volatile char *at;
	size_t size;
	long before;

	if (argc != 2) {
		fprintf(stderr, "usage: dax-show FILE\n");
		return 2;
	}
	at = map(argv[1], &size);
	before = faults();
	for (size_t i = 0; i < size; i += PAGE)
		(void)at[i];
	before = faults() - before;
	printf("%ld %ld\n", resident(at), before);
	return 0;
}
