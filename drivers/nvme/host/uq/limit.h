/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: limits of commands in flight. */
#ifndef _NVME_UQ_LIMIT_H
#define _NVME_UQ_LIMIT_H

#include "wait.h"

struct nvme_uq_limit;

void nvme_uq_info_limit(struct nvme_uq *uq);
void nvme_uq_limits_changed(struct nvme_uq *uq);
int nvme_uq_request_limit(struct nvme_uq_file *uf, unsigned int limit,
			  bool may_raise);
int nvme_uq_set_limit(struct nvme_uq *uq, unsigned int *which,
		      unsigned int limit);
unsigned int nvme_uq_get_limit(const struct nvme_uq *uq, unsigned int limit);
int nvme_uq_ioctl_set_limit(struct nvme_uq_file *uf, void __user *argp);
int nvme_uq_ioctl_get_limit(struct nvme_uq_file *uf, void __user *argp);
void nvme_uq_read_limit(struct nvme_uq_file *uf, struct nvme_uq_limit *arg);

#endif /* _NVME_UQ_LIMIT_H */
