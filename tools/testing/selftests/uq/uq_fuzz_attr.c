// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer of NVMe user queues: attributes. See uq_fuzz.c.
 */
#define _GNU_SOURCE
#include <dirent.h>

#include "uq_safe.h"
#include "uq_fuzz.h"

void fuzz_attr_path(const struct uq_node *node, const char *attr, char *buf,
		    size_t len)
{
	snprintf(buf, len, "/sys/class/nvme-generic/%s/user_queue/%s",
		 node->name, attr);
}

/* The @n'th attribute of a node; false if there are fewer. */
bool fuzz_nth_attr(const struct uq_node *node, unsigned int n, char *name,
		   size_t len)
{
	struct dirent *e;
	bool found = false;
	char path[128];
	DIR *d;

	fuzz_attr_path(node, "", path, sizeof(path));
	d = opendir(path);
	while (d && !found && (e = readdir(d)))
		if (e->d_name[0] != '.' && !n--) {
			snprintf(name, len, "%.63s", e->d_name);
			found = true;
		}
	if (d)
		closedir(d);
	return found;
}

/* Values that all attributes reject, and values that some accept. */
static const char * const no_number[] = {
	"0", "-1", "4294967296", "18446744073709551616", "x", "1x", "live",
	"poll", "%s%n", "1 2",
};

static const char * const number[] = {
	"1", "2", "16", "298", "299", "300", "\n", " 7", "0x10", "",
};

static void write_attr(struct fuzz *f, const char *path)
{
	const char *val = UQ_PICK(&f->rng, no_number);
	char many[4096];

	if (uq_1in(&f->rng, 2)) {
		uq_write_line(path, UQ_PICK(&f->rng, number));
		return;
	}
	if (uq_1in(&f->rng, 8)) {
		memset(many, '1', sizeof(many) - 1);
		many[sizeof(many) - 1] = 0;
		val = many;
	}
	if (!uq_write_line(path, val))
		fuzz_bad(f, "%s took %.20s", path, val);
}

/* Any read of a limit returns a valid one. */
static void read_attr(struct fuzz *f, const struct uq_node *node,
		      const char *name, const char *path)
{
	char val[4096];
	long long n;

	uq_read_line(path, val, sizeof(val));
	if (strcmp(name, "limit") && strcmp(name, "file_limit"))
		return;
	n = atoll(val);
	if (n < 1 || n > node->depth)
		fuzz_bad(f, "%s is %s", path, val);
}

void fuzz_attr(struct fuzz *f)
{
	const struct fuzz_target *t =
		&f->target[uq_below(&f->rng, f->nr_target)];
	char name[64], path[256];
	int fd;

	if (!fuzz_nth_attr(&t->node, uq_below(&f->rng, 20), name, sizeof(name)))
		return;
	fuzz_attr_path(&t->node, name, path, sizeof(path));
	if (uq_1in(&f->rng, 2)) {
		read_attr(f, &t->node, name, path);
		return;
	}
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return;
	close(fd);
	if (!f->root)
		fuzz_bad(f, "%s can be written to", path);
	else if (!strcmp(name, "claim"))
		uq_write_line(path, uq_1in(&f->rng, 4) ? "0" : "1");
	else
		write_attr(f, path);
}
