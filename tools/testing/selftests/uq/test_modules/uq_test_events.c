// SPDX-License-Identifier: GPL-2.0
/*
 * Events of PCI devices, on demand, for the tests of NVMe user queues.
 *
 * Emulated devices do not support Advanced Error Reporting. They also do not
 * vanish while the kernel assumes that they are present. So a write to the
 * parameter "event" calls the driver as the PCI core does during error recovery
 * and shutdown. The value is the name of an event and of a device.
 */
#include <linux/cleanup.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pid.h>
#include <linux/pm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

/* Report a state of the channel to the driver, as pcie_do_recovery() does. */
static pci_ers_result_t uq_test_detected(struct pci_dev *pdev,
					 pci_channel_state_t state)
{
	guard(device)(&pdev->dev);
	if (state != pci_channel_io_perm_failure)
		WRITE_ONCE(pdev->error_state, state);
	if (!pdev->driver || !pdev->driver->err_handler)
		return PCI_ERS_RESULT_NONE;
	return pdev->driver->err_handler->error_detected(pdev, state);
}

static int uq_test_slot_reset(struct pci_dev *pdev)
{
	guard(device)(&pdev->dev);
	WRITE_ONCE(pdev->error_state, pci_channel_io_normal);
	if (!pdev->driver)
		return -ENODEV;
	return pdev->driver->err_handler->slot_reset(pdev) ==
		PCI_ERS_RESULT_RECOVERED ? 0 : -EIO;
}

static int uq_test_resume(struct pci_dev *pdev)
{
	guard(device)(&pdev->dev);
	if (!pdev->driver)
		return -ENODEV;
	pdev->driver->err_handler->resume(pdev);
	return 0;
}

/* A fatal error: the device is reset and works again. */
static int uq_test_fatal(struct pci_dev *pdev)
{
	if (uq_test_detected(pdev, pci_channel_io_frozen) !=
	    PCI_ERS_RESULT_NEED_RESET)
		return -EIO;
	if (pcie_reset_flr(pdev, PCI_RESET_DO_RESET))
		return -EIO;
	return uq_test_slot_reset(pdev) ?: uq_test_resume(pdev);
}

/*
 * A device that is lost has lost its commands, too. An emulated one would
 * complete them after it is found again, in memory that others use by then.
 */
static void uq_test_drop_commands(struct pci_dev *pdev)
{
	pci_save_state(pdev);
	pcie_reset_flr(pdev, PCI_RESET_DO_RESET);
	pci_restore_state(pdev);
}

/* A permanent error: the device does not work again after its reset. */
static int uq_test_lasting(struct pci_dev *pdev)
{
	if (uq_test_detected(pdev, pci_channel_io_frozen) !=
	    PCI_ERS_RESULT_NEED_RESET)
		return -EIO;
	uq_test_drop_commands(pdev);
	uq_test_detected(pdev, pci_channel_io_perm_failure);
	return 0;
}

/* An error that requires no recovery. */
static int uq_test_nonfatal(struct pci_dev *pdev)
{
	if (uq_test_detected(pdev, pci_channel_io_normal) !=
	    PCI_ERS_RESULT_CAN_RECOVER)
		return -EIO;
	return uq_test_resume(pdev);
}

/*
 * The device is gone and has not been removed yet. A device that is gone does
 * not access memory, so disable DMA.
 */
static int uq_test_gone(struct pci_dev *pdev)
{
	pci_write_config_word(pdev, PCI_COMMAND, 0);
	uq_test_drop_commands(pdev);
	WRITE_ONCE(pdev->error_state, pci_channel_io_perm_failure);
	return 0;
}

/* Restore the state, so that the device can be removed and found again. */
static int uq_test_back(struct pci_dev *pdev)
{
	WRITE_ONCE(pdev->error_state, pci_channel_io_normal);
	return 0;
}

/* A reboot and kexec call this, too. */
static int uq_test_shutdown(struct pci_dev *pdev)
{
	guard(device)(&pdev->dev);
	if (!pdev->driver)
		return -ENODEV;
	pdev->driver->shutdown(pdev);
	return 0;
}

/* Restart the device after uq_test_shutdown(), as no reboot follows. */
static int uq_test_start(struct pci_dev *pdev)
{
	guard(device)(&pdev->dev);
	if (!pdev->driver)
		return -ENODEV;
	pdev->driver->err_handler->reset_done(pdev);
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(struct pci_dev *pdev);
} uq_test_events[] = {
	{ "fatal", uq_test_fatal },
	{ "lasting", uq_test_lasting },
	{ "nonfatal", uq_test_nonfatal },
	{ "gone", uq_test_gone },
	{ "back", uq_test_back },
	{ "shutdown", uq_test_shutdown },
	{ "start", uq_test_start },
};

static int uq_test_event(const char *val, const struct kernel_param *kp)
{
	unsigned int domain, bus, slot, fn, i;
	char word[16];

	if (sscanf(val, "%15s %x:%x:%x.%x", word, &domain, &bus, &slot, &fn) != 5)
		return -EINVAL;

	struct pci_dev *pdev __free(pci_dev_put) =
		pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, fn));
	if (!pdev)
		return -ENODEV;
	for (i = 0; i < ARRAY_SIZE(uq_test_events); i++)
		if (!strcmp(word, uq_test_events[i].name))
			return uq_test_events[i].fn(pdev);
	return -EINVAL;
}

static const struct kernel_param_ops uq_test_event_ops = {
	.set = uq_test_event,
};

module_param_cb(event, &uq_test_event_ops, NULL, 0200);
MODULE_PARM_DESC(event, "What happens to which device, as in \"fatal 0000:00:04.0\"");

/*
 * The root disk and the console of a guest are virtio devices, and not all of
 * these survive a suspend. Exclude them from it.
 */
static int uq_test_spare(const char *val, const struct kernel_param *kp)
{
	struct pci_dev *pdev = NULL;
	bool spare;

	if (kstrtobool(val, &spare))
		return -EINVAL;
	for_each_pci_dev(pdev)
		if (pdev->vendor == PCI_VENDOR_ID_REDHAT_QUMRANET)
			dev_pm_syscore_device(&pdev->dev, spare);
	return 0;
}

static const struct kernel_param_ops uq_test_spare_ops = {
	.set = uq_test_spare,
};

module_param_cb(spare, &uq_test_spare_ops, NULL, 0200);
MODULE_PARM_DESC(spare, "1: virtio devices do not take part in a suspend");

/*
 * Set TIF_NOTIFY_SIGNAL of a thread. Task work and live patching set this flag,
 * and io_uring when it cancels the work of one of its workers.
 */
static int uq_test_notify(const char *val, const struct kernel_param *kp)
{
	struct task_struct *task;
	struct pid *pid;
	int nr;

	if (kstrtoint(val, 10, &nr))
		return -EINVAL;
	pid = find_get_pid(nr);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return -ESRCH;
	set_tsk_thread_flag(task, TIF_NOTIFY_SIGNAL);
	wake_up_process(task);
	put_task_struct(task);
	return 0;
}

static const struct kernel_param_ops uq_test_notify_ops = {
	.set = uq_test_notify,
};

module_param_cb(notify, &uq_test_notify_ops, NULL, 0200);
MODULE_PARM_DESC(notify, "Id of a thread that is told of task work");

static int __init uq_test_init(void)
{
	return 0;
}
module_init(uq_test_init);

static void __exit uq_test_exit(void)
{
}
module_exit(uq_test_exit);

MODULE_DESCRIPTION("Events of PCI devices, for tests of NVMe user queues");
MODULE_LICENSE("GPL");
