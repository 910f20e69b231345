// SPDX-License-Identifier: GPL-2.0
/*
 * A program that is run from a DAX mount. It prints its first argument. With
 * --build-id it asks the kernel for the build id of its own mapping. The kernel
 * reads the build id from the file. If the kernel cannot do that, the program
 * exits with 4.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Copied from linux/fs.h: installed headers may lack the ioctl. */
struct query {
	__u64 size;
	__u64 query_flags;
	__u64 query_addr;
	__u64 vma_start;
	__u64 vma_end;
	__u64 vma_flags;
	__u64 vma_page_size;
	__u64 vma_offset;
	__u64 inode;
	__u32 dev_major;
	__u32 dev_minor;
	__u32 vma_name_size;
	__u32 build_id_size;
	__u64 vma_name_addr;
	__u64 build_id_addr;
};

#define QUERY _IOWR('f', 17, struct query)

static int print_build_id(void)
{
	unsigned char id[20];
	struct query q = {
		.size = sizeof(q),
		.query_addr = (unsigned long)print_build_id,
		.build_id_size = sizeof(id),
		.build_id_addr = (unsigned long)id,
	};
	unsigned int i;
	int fd;

	fd = open("/proc/self/maps", O_RDONLY);
	if (fd < 0 || ioctl(fd, QUERY, &q)) {
		printf("PROCMAP_QUERY: %s\n", strerror(errno));
		return errno == ENOTTY || errno == ENOENT ? 4 : 1;
	}
	for (i = 0; i < q.build_id_size; i++)
		printf("%02x", id[i]);
	printf("\n");
	close(fd);
	return q.build_id_size ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "--build-id"))
		return print_build_id();
	printf("%s\n", argv[1]);
	return 0;
}
