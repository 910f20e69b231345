// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: check that tools/nvme/uq_read.c, the example of a client
 * that maps a completion queue, reads a namespace.
 */
#define _GNU_SOURCE
#include "uq_safe.h"
#include "kselftest.h"

/* Exit code of the example if completion queues cannot be mapped. */
#define NOT_MAPPED	2

/* Return the exit code of the example, or -1. */
static int run_example(const char *node)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		execl("./uq_read", "uq_read", node, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

int main(void)
{
	struct uq_node node;
	char why[256];
	int ret;

	ksft_print_header();
	ret = uq_prepare(why, sizeof(why));
	if (ret == KSFT_SKIP)
		ksft_exit_skip("%s\n", why);
	if (ret)
		ksft_exit_fail_msg("%s\n", why);
	if (!uq_find(&node, true) || node.ns.lba != 512)
		ksft_exit_skip("no polled queue with blocks of 512 bytes\n");
	ksft_set_plan(1);
	/* not with uq_safe.h, so this program sets it back */
	uq_allow_claims(node.name, true);
	ret = run_example(node.path);
	uq_allow_claims(node.name, false);
	uq_put_back();
	if (ret == NOT_MAPPED)
		ksft_exit_skip("completion queues cannot be mapped here\n");
	ksft_test_result(!ret, "reads through a mapped queue\n");
	ksft_finished();
}
