# SPDX-License-Identifier: GPL-2.0
"""The kernels: how each is built, booted and tested.

A kernel is an entry of KERNELS, and a mode is the name of an entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Objects that share data with ours, wherever an object of such a name is. core.o must
# not be among them: KCSAN has one itself.
NEIGHBOURS = ("ioctl", "multipath", "pci", "uring_cmd", "io_uring", "rw",
              "cancel", "rsrc", "dax", "file", "inode", "extents",
              "extents_status", "block_validity")
# Objects that are not watched, and whose barriers order accesses of those that are.
BARRIERS = ("mutex", "spinlock", "rwsem", "percpu-rwsem", "qspinlock", "qrwlock",
            "tree", "srcutree", "workqueue", "filemap")
# The tests that race on purpose.
RACING = ("filesystems/dax:read_moves", "uq:uq_stress", "uq:uq_fuzz", "uq:uq_reset",
          "uq:uq_limit", "uq:uq_mmap_reset", "uq:uq_fault", "uq:uq_io", "uq:uq_ring",
          "uq:uq_mmap", "uq:uq_claim", "filesystems/dax:read_race",
          "filesystems/dax:mmap_race", "filesystems/dax:read_flag")

# Options of QEMU that give a guest an IOMMU, if its kernel is told to use it.
IOMMU = ("-device intel-iommu",)
# The kernel's parameters for one: each unmapping waits for it, or they are collected.
STRICT = ("intel_iommu=on", "iommu.strict=1")
LAZY = ("intel_iommu=on", "iommu.strict=0")

# Built-in objects without tracepoints, which no test uses: with them and lockdep an
# object compiles and runs slower. An object that defines tracepoints can stand here
# only if all objects that call them do.
UNTRACED = ("fs/%", "io_uring/%", "kernel/locking/%", "kernel/time/%",
            "kernel/trace/trace_preemptirq.o", "mm/%", "net/core/%", "net/sched/%",
            "net/socket.o")
# Objects among these that keep tracepoints: others include the headers of 9p and
# linux/mmap_lock.h, and mmap_sync counts the tracepoints of DAX.
TRACED = ("fs/9p/%", "fs/dax.o", "mm/mmap_lock.o")
# Objects that KASAN does not watch: they read and write memory of their own.
UNWATCHED = ("arch/x86/events/%", "arch/x86/kernel/cpu/%", "drivers/acpi/%",
             "drivers/char/%", "drivers/pnp/%", "drivers/tty/%", "drivers/virtio/%",
             "fs/9p/%", "fs/netfs/%", "fs/overlayfs/%", "kernel/trace/%", "net/%")
# -fno-sanitize is an error beside KASAN's other options.
NOT_WATCHED = " ".join(f"--param asan-{what}=0" for what in (
    "instrument-reads", "instrument-writes", "stack", "globals"))

# Upstream's kernel, below all series.
BASE = "base"

# Tests that a guest leaves to other guests: the whole test (None), or options of the
# harness that omit a part.
LeftOut = Mapping[str, str | None]


@dataclass(frozen=True)
class Hardware:
    """Guests of other hardware, and the tests that are about it."""

    # Parameters of the kernel, and options of QEMU, that make it.
    append: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: LeftOut = field(default_factory=dict)
    qemu: tuple[str, ...] = ()
    # May they copy by words, if the kernel's other guests do?
    by_words: bool = True


@dataclass(frozen=True)
class Kernel:
    """A kernel of ours."""

    # -- built

    # Names of overlay/configs/*.config; of two values of an option the last
    # one holds.
    fragments: tuple[str, ...]
    # Compilers and linkers that make calls, until a build was counted.
    steps: int
    # The size of its build directory.
    gigabytes: int = 2
    # Variables for every make, and the image in the build directory.
    make: tuple[str, ...] = ()
    image: str = "arch/x86/boot/bzImage"
    # kbuild's variable that instruments an object, set for ours and for those
    # that are called so.
    instrument: str = ""
    neighbours: tuple[str, ...] = ()
    # Is it set for files of upstream that we patch, too?
    patched: bool = False
    # The series that it lacks, with all that are stacked on it; BASE: all of them.
    below: str = ""

    # -- booted

    # GiB that its guests have.
    memory: int = 3
    # Parameters, and options of QEMU, that its guests have beside those that
    # all have.
    append: tuple[str, ...] = ()
    qemu: tuple[str, ...] = ()

    # -- tested

    # Do its guests in `make check` copy and clear memory by words (guest.by_words())?
    by_words: bool = False

    # Does `make kselftest` run it, and keep its results?
    checked: bool = False
    # A file in overlay/ with the tests that it runs there, if not all.
    subset: str = ""
    # Seconds for one test, and for a guest. The tests' own `settings` are for
    # processors; TCG is slower, and with checks in the kernel several times
    # slower.
    test_timeout: int = 900
    guest_timeout: int = 3600
    # Into how many guests its tests go; and those that need NVMe controllers in
    # `make check`, where the others have a guest without.
    guests: int = 2
    nvme_guests: int = 1
    # Tests that it leaves to others in `make check` and `make coverage`.
    left_out: LeftOut = field(default_factory=dict)
    # Variables for tests, so that a fuzzer ends in time.
    variables: Mapping[str, str] = field(default_factory=dict)
    # Are there guests of HARDWARE too, and one that restarts with commands in
    # flight? Is it shown that tests install where no kernel was built?
    other_hardware: bool = False
    restarts: bool = False
    installs_without: bool = False
    # Commands of a guest after its tests.
    after: str = ""
    # Is its log searched for KCSAN's reports?
    races: bool = False

    # -- tested for long

    # The factor of the rounds of tests in `make soak`, 0 for a kernel without it; its
    # tests, if not all; and variables for them.
    soak: int = 0
    soak_tests: tuple[str, ...] = ()
    soak_variables: Mapping[str, str] = field(default_factory=dict)
    # How many operations fsx does there on each DAX file system (engine/fsx.py).
    fsx: int = 0

    def takes(self) -> int:
        """Bytes of this machine's memory for a guest, and the QEMU around it."""
        return (self.memory + 1) << 30


KERNELS: dict[str, Kernel] = {
    "lean": Kernel(
        fragments=("lean",),
        steps=2300,
        by_words=True,
        checked=True,
        # It has no faults, no metadata in a buffer of its own, no suspend, no
        # tracing.
        left_out={
            "filesystems/dax:mmap_sync": None,
            "uq:uq_admin_timeout": None, "uq:uq_fail_nth": None,
            "uq:uq_fail_work": None, "uq:uq_fault": None, "uq:uq_stopped": None,
            "uq:uq_suspend": None, "uq:uq_timeout": None,
            "uq:uq_fuzz": "-V prp",
            "uq:uq_memory": "-V irq_no_sgl -V poll_no_sgl",
            "uq:uq_memory_life": "-V irq_no_sgl -V poll_no_sgl",
            "uq:uq_meta": "-V irq_separate -V poll_separate",
            "uq:uq_rw_life": "-T lost_and_sent_again -T killed_in_flight "
                             "-T killed_with_a_ring -T given_up",
            "uq:uq_setup": "-T controller_memory_buffer",
        },
        nvme_guests=4,
        other_hardware=True,
        restarts=True,
        installs_without=True,
    ),
    "debug": Kernel(
        fragments=("lean", "debug"),
        steps=2500,
        # For speed, omit walks of the stack for each allocation, and UBSAN in files
        # that we neither add nor patch.
        make=(*(f"KASAN_SANITIZE_{name}.o=n"
                for name in ("unwind_frame", "stacktrace", "extable")),
              "UBSAN_SANITIZE=n",
              "CFLAGS_KERNEL="
              f"$(if $(filter-out {' '.join(TRACED)},"
              f"$(filter {' '.join(UNTRACED)},$@)),-DNOTRACE) "
              f"$(if $(filter {' '.join(UNWATCHED)},$@),{NOT_WATCHED})"),
        instrument="UBSAN_SANITIZE",
        patched=True,
        gigabytes=4,
        # An IOMMU stops transfers to memory that is not mapped for them. no5lvl:
        # identify_cpu() clears all features for a moment, and KASAN then reports each
        # address as wild. acpi=noirq: evaluating _PRT for each enabled device was a
        # third of the instructions of uq_reset.
        append=(*STRICT, "no5lvl", "acpi=noirq"),
        qemu=IOMMU,
        by_words=True,
        checked=True,
        subset="kselftest.debug",
        test_timeout=2700,
        guest_timeout=4 * 3600,
        nvme_guests=2,
        # Left to the lean kernel: the longest tests, upstream's own ways to read and
        # write, and variants that take the same paths in the kernel as others.
        left_out={"filesystems/dax:mmap_race":
                  "-V ext4_store_punch -V xfs_write_punch -V xfs_store_truncate",
                  "filesystems/dax:read_race":
                  "-V generic -V generic_xfs -V fast_nojournal -V fast_xfs",
                  "filesystems/dax:read_flag": "-V generic",
                  "filesystems/dax:write_over": "-V generic",
                  "filesystems/dax:mmap_zero_page": "-T page_cache_takes_a_gib "
                  "-T gib_by_single_pages -T gib_without_huge_pages",
                  "uq:uq_claim": "-V poll", "uq:uq_limit": "-V poll",
                  "uq:uq_errno": "-V poll", "uq:uq_reset": "-V poll_plain",
                  "uq:uq_fuzz": "-V sgl",
                  "uq:uq_setup": "-t controller_memory_buffer"},
        variables={"UQ_TEST_FUZZ_OPS": "2000"},
        soak=4,
        soak_variables={"UQ_TEST_FUZZ_OPS": "500000"},
        fsx=60_000,
    ),
    "distro": Kernel(
        fragments=("lean", "distro"),
        steps=2500,
        gigabytes=3,
    ),
    "coverage": Kernel(
        fragments=("lean", "coverage"),
        steps=2400,
        instrument="GCOV_PROFILE",
        test_timeout=1800,
        guest_timeout=2 * 3600,
        other_hardware=True,
        after="sh {scripts}/coverage.sh {build} {into}\n",
    ),
    "kcsan": Kernel(
        fragments=("lean", "kcsan"),
        steps=2300,
        make=("KCSAN_SANITIZE=n",
              *(f"KCSAN_INSTRUMENT_BARRIERS_{name}.o=y" for name in BARRIERS)),
        instrument="KCSAN_SANITIZE",
        neighbours=NEIGHBOURS,
        test_timeout=2700,
        guest_timeout=2 * 3600,
        races=True,
        soak=2,
        soak_tests=RACING,
    ),
}


# The kernels of `make arm64`, and their variables.
ARM64 = ("arm64", "arm64-64k")
KERNELS |= {name: Kernel(
    fragments=("lean", *ARM64[:number]),
    steps=2300,
    make=("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"),
    image="arch/arm64/boot/Image",
    test_timeout=2700,
    guest_timeout=2 * 3600,
    variables={"DAX_TEST_DEV": "/dev/pmem0", "DAX_TEST_DEV2": "/dev/pmem1"},
) for number, name in enumerate(ARM64, 1)}


def below(mode: str, series: str) -> Kernel:
    """A kernel of ours as it was below a series, or BASE; `make check` has none."""
    return replace(KERNELS[mode], below=series, checked=False)


def pristine(mode: str) -> str:
    """The name of upstream's kernel, built like a kernel of ours."""
    return f"{mode}-{BASE}"


def generic(mode: str) -> str:
    """The name of the kernel that ends below the fast paths of DAX reads."""
    return f"{mode}-generic"


def simple(mode: str) -> str:
    """The name of the kernel whose only fast path of DAX reads is dax_read_simple()."""
    return f"{mode}-simple"


for _mode in ("lean", "distro"):
    KERNELS |= {pristine(_mode): below(_mode, BASE),
                generic(_mode): below(_mode, "dax-read-simple"),
                simple(_mode): below(_mode, "ext4-extent-lookup")}
KERNELS[pristine("lean")] = replace(KERNELS[pristine("lean")], soak=1)
# The kernel that has all that tests can need: what another lacks of it, only
# tests need that do not run there.
HAS_ALL = "debug"
# The kernel that has all KUnit suites as modules, which a guest of `make kunit`
# loads and no other guest does.
SUITES = "debug"

HARDWARE: dict[str, Hardware] = {
    # No message signalled interrupts, so that a user queue has none; and all DMA is
    # bounced. QEMU may leave the line raised until the next command, which the kernel
    # would report.
    "intx": Hardware(
        append=("pci=nomsi", "swiotlb=force", "noirqdebug"),
        tests=("uq:uq_io", "uq:uq_ring", "uq:uq_mmap", "uq:uq_errno",
               "uq:uq_setup", "uq:uq_rw"),
        left_out={
            "uq:uq_io": "-V irq", "uq:uq_ring": "-V irq",
            "uq:uq_mmap": "-V irq",
            "uq:uq_errno": "-V irq",
            # Those two wait for queues of both kinds on another controller.
            "uq:uq_rw": "-V irq -T metadata -T large_blocks",
            "uq:uq_setup": "-T affinity_of_the_interrupt -T full_irq_queue "
            "-T full_irq_queue_and_workers -T killed_on_a_slow_irq_queue",
        },
    ),
    # All DMA is translated; the debug kernel's guests have the strict way. And the
    # kernel copies by bytes, which can stop half-way: read_edges has it do so.
    "iommu": Hardware(
        append=LAZY,
        qemu=IOMMU,
        by_words=False,
        tests=("uq:uq_io", "uq:uq_ring", "uq:uq_mmap", "uq:uq_rw",
               "uq:uq_memory", "filesystems/dax:read_edges"),
        left_out={"filesystems/dax:read_edges": "-V indirect -V xfs"},
    ),
}


def having(what: str) -> list[str]:
    """Return the kernels with this field set, in order."""
    return [name for name, kernel in KERNELS.items() if getattr(kernel, what)]
