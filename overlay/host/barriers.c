// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that gives guests their memory barriers.
 *
 * If all CPUs of a guest share one thread (-icount, thread=single), QEMU emits no
 * code for a barrier, as the CPUs see each other's writes in order anyway. But the
 * devices run in another thread. A driver with shadow doorbells writes a doorbell,
 * executes a barrier, and reads the event index. The device writes the event index,
 * executes a barrier, and reads the doorbell. The host's CPU may read before it
 * writes. Without the driver's barrier, both can miss the other's write: the driver
 * does not ring, the device does not check again, and the command is lost. Virtio's
 * event index uses the same protocol.
 *
 * QEMU 8.1 emits code for fence instructions ("tcg: Do not elide memory barriers for
 * !CF_PARALLEL in system mode", c914d46d0a64), but not for locked instructions. This
 * plugin executes a barrier of the host before each barrier of Linux on x86: mfence
 * for mb(), lock addl of 0 to the stack for smp_mb(), and xchg with memory for
 * smp_store_mb().
 *
 * Usage: -plugin barriers.so
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "plugin.h"

static void barrier(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	atomic_thread_fence(memory_order_seq_cst);
}

static bool is_mfence(const unsigned char *is, size_t len)
{
	return len == 3 && is[0] == 0x0f && is[1] == 0xae && is[2] == 0xf0;
}

/* lock addl $0,-4(%rsp) */
static bool is_smp_mb(const unsigned char *is, size_t len)
{
	static const unsigned char bytes[] = { 0xf0, 0x83, 0x44, 0x24, 0xfc, 0x00 };

	return len == sizeof(bytes) && !memcmp(is, bytes, sizeof(bytes));
}

/* With a prefix for the size of the operand or none; two registers order nothing. */
static bool is_xchg(const unsigned char *is, size_t len)
{
	size_t at = 0;

	if (len && is[0] == 0x66)
		at++;
	if (at < len && (is[at] & 0xf0) == 0x40)
		at++;
	return at + 1 < len && (is[at] & 0xfe) == 0x86 && is[at + 1] >> 6 != 3;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);
	unsigned char is[LONGEST];

	(void)id;
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		size_t len = bytes_of(insn, is);

		if (is_mfence(is, len) || is_smp_mb(is, len) || is_xchg(is, len))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, barrier, 0,
							       NULL);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			int argc, char **argv)
{
	(void)info;
	(void)argc;
	(void)argv;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
