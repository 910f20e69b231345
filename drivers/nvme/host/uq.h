/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: hooks that core.c, ioctl.c and pci.c call, with stubs for
 * kernels without CONFIG_NVME_UQ, and functions of these files that uq/ calls.
 * The headers in uq/ declare everything else.
 */
#ifndef _NVME_UQ_H
#define _NVME_UQ_H

#include "nvme.h"

struct irq_affinity;

#ifdef CONFIG_NVME_UQ
/* uq/core.c and uq/node.c, called by core.c */
void nvme_uq_unquiesce(struct nvme_ctrl *ctrl);
void nvme_uq_unfreeze(struct nvme_ctrl *ctrl);
long nvme_uq_wait_freeze(struct nvme_ctrl *ctrl, long timeout);
void nvme_uq_passthru_start(struct nvme_ctrl *ctrl, u32 effects);
void nvme_uq_passthru_end(struct nvme_ctrl *ctrl, u32 effects);
void nvme_uq_start_update(struct nvme_subsystem *subsys);
void nvme_uq_end_update(struct nvme_subsystem *subsys);
void nvme_uq_update_nodes(struct nvme_ns *ns);
void nvme_uq_remove_nodes(struct nvme_ns *ns);

/* uq/pci-reserve.c, uq/pci.c and uq/pci-complete.c, called by pci.c */
int nvme_uq_set_queue_count(struct nvme_ctrl *ctrl, int *count);
unsigned int nvme_uq_planned(struct nvme_ctrl *ctrl);
bool nvme_uq_drop_one(struct nvme_ctrl *ctrl);
int nvme_uq_alloc_irqs(struct nvme_ctrl *ctrl, unsigned int blk_vecs,
		       unsigned int flags, struct irq_affinity *affd);
int nvme_uq_create(struct nvme_ctrl *ctrl, struct mutex *shutdown_lock,
		   u32 __iomem *dbs, u32 db_stride, u32 depth,
		   unsigned int qid, unsigned int vector);
void nvme_uq_set_dbbuf(struct nvme_ctrl *ctrl, __le32 *dbs, __le32 *eis,
		       u32 db_stride);
unsigned int nvme_uq_max(void);
void nvme_uq_quiesce(struct nvme_ctrl *ctrl);
bool nvme_uq_delete_queues(struct nvme_ctrl *ctrl);
void nvme_uq_free_irqs(struct nvme_ctrl *ctrl);
void nvme_uq_cancel(struct nvme_ctrl *ctrl);
void nvme_uq_end_disable(struct nvme_ctrl *ctrl);
void nvme_uq_free_queues(struct nvme_ctrl *ctrl);
void nvme_uq_free(struct nvme_ctrl *ctrl);

/* core.c and ioctl.c, called by uq/ */
int nvme_uq_status_to_errno(u16 status);
int nvme_uq_init_devt(struct device *dev);
void nvme_uq_free_devt(struct device *dev);
int nvme_uq_check_cmd(struct nvme_ns *ns, u8 opcode, u32 nsid,
		      bool open_for_write);
long nvme_uq_forward_ioctl(struct nvme_ns *ns, unsigned int cmd,
			   void __user *argp, bool open_for_write);

/* pci.c, called by uq/pci-reserve.c */
void nvme_uq_disable(struct nvme_ctrl *ctrl);

#else /* !CONFIG_NVME_UQ */
static inline void nvme_uq_unquiesce(struct nvme_ctrl *ctrl) { }

static inline void nvme_uq_unfreeze(struct nvme_ctrl *ctrl) { }

static inline long nvme_uq_wait_freeze(struct nvme_ctrl *ctrl, long timeout)
{
	return timeout;
}

static inline void nvme_uq_passthru_start(struct nvme_ctrl *ctrl,
					  u32 effects) { }

static inline void nvme_uq_passthru_end(struct nvme_ctrl *ctrl,
					u32 effects) { }

static inline void nvme_uq_start_update(struct nvme_subsystem *subsys) { }

static inline void nvme_uq_end_update(struct nvme_subsystem *subsys) { }

static inline void nvme_uq_update_nodes(struct nvme_ns *ns) { }

static inline void nvme_uq_remove_nodes(struct nvme_ns *ns) { }

static inline int nvme_uq_set_queue_count(struct nvme_ctrl *ctrl, int *count)
{
	return nvme_set_queue_count(ctrl, count);
}

static inline unsigned int nvme_uq_planned(struct nvme_ctrl *ctrl)
{
	return 0;
}

static inline bool nvme_uq_drop_one(struct nvme_ctrl *ctrl)
{
	return false;
}

static inline int nvme_uq_alloc_irqs(struct nvme_ctrl *ctrl,
				     unsigned int blk_vecs, unsigned int flags,
				     struct irq_affinity *affd)
{
	return 0;
}

static inline int nvme_uq_create(struct nvme_ctrl *ctrl,
				 struct mutex *shutdown_lock,
				 u32 __iomem *dbs, u32 db_stride, u32 depth,
				 unsigned int qid, unsigned int vector)
{
	return 0;
}

static inline void nvme_uq_set_dbbuf(struct nvme_ctrl *ctrl, __le32 *dbs,
				     __le32 *eis, u32 db_stride) { }

static inline unsigned int nvme_uq_max(void)
{
	return 0;
}

static inline void nvme_uq_quiesce(struct nvme_ctrl *ctrl) { }

static inline bool nvme_uq_delete_queues(struct nvme_ctrl *ctrl)
{
	return true;
}

static inline void nvme_uq_free_irqs(struct nvme_ctrl *ctrl) { }

static inline void nvme_uq_cancel(struct nvme_ctrl *ctrl) { }

static inline void nvme_uq_end_disable(struct nvme_ctrl *ctrl) { }

static inline void nvme_uq_free_queues(struct nvme_ctrl *ctrl) { }

static inline void nvme_uq_free(struct nvme_ctrl *ctrl) { }
#endif /* CONFIG_NVME_UQ */

#endif /* _NVME_UQ_H */
