# SPDX-License-Identifier: GPL-2.0
"""kselftests of ours, installed by the kernel's own rules, run in guests.

The lean kernel runs all of them, the debug kernel those that
overlay/kselftest.debug names. `make soak` runs all of them there, for longer,
and those that race in the kernel that watches for data races.
"""

import fnmatch
import os
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from engine import build, disks, guest, host, ktap, lay, limits, races, reuse
from engine.host import UserError
from engine.ktap import Case

TOP = PurePosixPath("tools/testing/selftests")
SUBSET = host.ROOT / "overlay" / "kselftest.debug"
PACKAGES = ("gcc", "make", "perl", "liburing-dev", "dmsetup", "e2fsprogs",
            "xfsprogs", "rsync", "linux-libc-dev", "coreutils", "fio",
            "nvme-cli", "diffutils", "findutils", "libc-bin", "mount")
# Seconds for one test, and for the guest. The tests' own `settings` are for
# processors; TCG is slower, and with the debug kernel several times slower.
PATIENCE = {"lean": (900, 3600), "debug": (2700, 4 * 3600),
            "coverage": (1800, 2 * 3600), "kcsan": (2700, 2 * 3600)}
# Into how many guests the tests of a kernel go, and what one takes of memory.
# In `make check` those that need no NVMe controller have one guest more, without
# any, so that an edit of NVMe's driver does not run them again; from 8 processors
# on they have more.
GUESTS = {"lean": 2, "debug": 2, "coverage": 2, "kcsan": 2}
GUESTS_NVME = {"lean": 1, "debug": 2}
GUEST_TAKES = 4 << 30
NVME = "uq"
# What a kernel's guests have more than others: parameters, options of QEMU.
# debug: an IOMMU, which stops transfers to memory that is not mapped for them.
HARDWARE = {
    "debug": (("intel_iommu=on", "iommu.strict=1"), ("-device intel-iommu",)),
}
# What a guest's script does after its tests.
AFTER = {"coverage": "sh {scripts}/coverage.sh {build} {into}\n"}
# How many times the usual rounds the tests do in `make soak`, and what else
# they are told there: a fuzzer has more to do than more rounds. It runs twice,
# so this makes a million.
SOAK = {"debug": 4, "kcsan": 2}
SOAK_MORE = {"debug": {"UQ_TEST_FUZZ_OPS": "500000"}}
# What tests that leave it to chance what they do may be told in order to see a
# failure again.
PASSED_ON = ("UQ_TEST_SEED", "UQ_TEST_FUZZ_OPS", "DAX_TEST_SEED")
# The tests that race on purpose: what kcsan's kernel runs of those there are.
RACING = ("filesystems/dax:read_moves", "uq:uq_stress", "uq:uq_fuzz",
          "uq:uq_reset", "uq:uq_limit", "uq:uq_mmap_reset", "uq:uq_fault",
          "uq:uq_io", "uq:uq_mmap", "uq:uq_claim", "filesystems/dax:read_race",
          "filesystems/dax:mmap_race", "filesystems/dax:read_flag")
# Guests with other hardware, and the tests of the lean kernel that are about
# it. intx: no message signalled interrupts, and all DMA is bounced.
OTHERS = {
    "intx": (("pci=nomsi", "swiotlb=force"),
             ("uq:uq_io", "uq:uq_mmap", "uq:uq_errno", "uq:uq_setup")),
}
WITH_OTHERS = ("lean", "coverage")
# The kernel that has all that tests can need: what another lacks of it, only
# tests need that do not run there.
HAS_ALL = "debug"
# What the guests of `make check` and `make coverage` leave to others, by kernel
# or kind of guest: whole tests (None), or the options of the harness that do so.
# lean has no faults, no metadata in a buffer of its own, no suspend. The longest
# tests are not for debug. intx has no interrupt for a user queue.
LEFT_OUT = {
    "lean": {
        "uq:uq_fail_nth": None, "uq:uq_fault": None, "uq:uq_suspend": None,
        "uq:uq_timeout": None, "uq:uq_fuzz": "-V prp",
        "uq:uq_meta": "-V irq_separate -V poll_separate",
        "uq:uq_setup": "-T controller_memory_buffer",
    },
    "coverage": {"uq:uq_suspend": "-t quiet_when_idle"},
    "debug": {"uq:uq_fuzz": "-V sgl",
              "uq:uq_setup": "-t controller_memory_buffer"},
    "intx": {
        "uq:uq_io": "-V irq", "uq:uq_mmap": "-V irq", "uq:uq_errno": "-V irq",
        "uq:uq_setup": "-T affinity_of_the_interrupt -T full_irq_queue "
        "-T full_irq_queue_and_workers -T killed_on_a_slow_irq_queue",
    },
}
# What tests are told once only, beside SOAK_MORE: so that a fuzzer ends in time.
ONCE = {"debug": {"UQ_TEST_FUZZ_OPS": "2000"}}
# What runs in no guest, and why that is so.
NOWHERE = {
    "uq: uq_mmap_reset: life.*.module_stays":
        "nvme is built into all of our kernels",
    "uq: uq_error: error.*.subsystem_reset":
        "QEMU has no NVM subsystem reset (CAP.NSSRS)",
}


def targets():
    """The selftest folders that are ours: those with a Makefile of ours.

    What is below one of them, such as modules, is built by it.
    """
    found = {}
    for item in lay.items():
        path = PurePosixPath(item.target)
        if path.is_relative_to(TOP) and path.name == "Makefile" \
                and item.kind == "file":
            found[str(path.parent.relative_to(TOP))] = path.parent
    return sorted(name for name, path in found.items()
                  if path.parent not in found.values())


def subset():
    """The tests that the debug kernel runs in `make check`."""
    if not SUBSET.exists():
        return []
    lines = [line.strip() for line in
             SUBSET.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def install(mode, log):
    """Build the tests and install them; returns the folder and the list."""
    host.need(*PACKAGES)
    folder = build.folder(mode)
    into = folder / "kselftest-installed"
    listing, note = into / "kselftest-list.txt", folder / "kselftest.key"
    key = reuse.built_from(mode, targets(), PACKAGES)
    if not (key and listing.exists() and note.exists()
            and note.read_text("ascii") == key):
        host.remove(note)
        host.remove(into)
        with host.step(f"building the kselftests ({host.short(log)})"):
            build.make(mode, f"TARGETS={' '.join(targets())}",
                       "FORCE_TARGETS=1", f"KSFT_INSTALL_PATH={into}",
                       f"KDIR={folder}", "kselftest-install",
                       log=log, what="building the kselftests")
        if key:
            host.write(note, key)
    return into, listing.read_text("utf-8").split()


def without_kernel(mode, out):
    """Are tests installed where there is no kernel to build modules for?"""
    into = build.folder(mode) / "kselftest-without-kernel"
    host.remove(into)
    name, log = "installing without a kernel", out / f"{mode}.without.log"
    with host.step(f"{name} ({host.short(log)})"):
        try:
            build.make(mode, "TARGETS=uq", f"KSFT_INSTALL_PATH={into}",
                       "KDIR=/nonexistent", "kselftest-install", log=log,
                       what=name)
        except UserError as error:
            return [Case(name, ktap.FAIL, str(error))]
    wrong = [f"no {part}" for part in ("config", "settings", "uq_io")
             if not (into / "uq" / part).exists()]
    if (into / "uq" / "test_modules").exists():
        wrong.append("a folder of modules that cannot be there")
    return [Case(name, ktap.FAIL if wrong else ktap.PASS, ", ".join(wrong))]


def missing_options(mode, target):
    """What a target's `config` asks for and the mode's kernel lacks."""
    path = build.tree() / TOP / target / "config"
    if not path.exists():
        return []
    have = build.settings((build.folder(mode) / ".config").read_text("utf-8"))
    wanted = build.settings(path.read_text(encoding="utf-8"))
    elsewhere = {} if mode == HAS_ALL else build.wanted_config(HAS_ALL)
    return [name for name, value in wanted.items()
            if not {have.get(name, "n"), elsewhere.get(name, "n")}
            & {value, "y"}]


def _not_run(mode, target):
    lost = missing_options(mode, target)
    if not lost:
        return []
    return [Case(f"{target}", ktap.FAIL,
                 f"NOT RUN: the {mode} kernel has no {' '.join(lost)}")]


def _not_listed(listed, chosen, out):
    """A test that was asked for and not built must not just be absent."""
    return [Case(test, ktap.FAIL, f"NOT RUN: it was not installed; see "
                 f"{host.short(out / 'build.log')}")
            for test in chosen if test not in listed]


@dataclass(frozen=True)
class Share:
    """What one guest has to do."""

    mode: str
    name: str
    into: Path
    tests: tuple
    scale: int = 1
    append: tuple = ()
    restart: bool = False
    kind: str = ""
    nvme: bool = True

    def left_out(self):
        """What the kernel's own runner is told to leave out of tests.

        The same for all shares of a kind, so that results can be kept.
        """
        options = LEFT_OUT.get(self.mode, {}) | LEFT_OUT.get(self.kind, {})
        return {"KSELFTEST_" + re.sub(r"[^A-Z0-9_]", "_", test.partition(":")[2]
                                      .upper()) + "_ARGS": args
                for test, args in options.items() if args}

    def variables(self):
        """What the tests find in their environment."""
        found = {"DAX_TEST_SCALE": self.scale, "UQ_TEST_SCALE": self.scale}
        if self.scale > 1:
            found |= SOAK_MORE.get(self.mode, {})
        else:
            found |= ONCE.get(self.mode, {}) | self.left_out()
        return found | {name: os.environ[name] for name in PASSED_ON
                        if os.environ.get(name)}

    def hardware(self):
        """What its guest has: parameters of its kernel, options of QEMU."""
        append, qemu = HARDWARE.get(self.mode, ((), ()))
        return (*guest.PMEM, *append, *self.append), qemu

    def packages(self):
        """The packages that its tests call."""
        return PACKAGES


def prepare(mode, out, chosen=None):
    """Build a kernel and the tests: the folder, the tests, failing cases."""
    build.build(mode)
    into, listed = install(mode, out / f"{mode}.build.log")
    cases = [case for target in targets()
             for case in _not_run(mode, target)]
    for target in targets():
        if not any(test.startswith(f"{target}:") for test in listed):
            cases.append(Case(target, ktap.FAIL, "NOT RUN: it has no tests"))
    tests = listed
    if chosen is not None:
        cases += _not_listed(listed, chosen, out)
        tests = [test for test in chosen if test in listed]
    if not tests:
        cases.append(Case(mode, ktap.FAIL, "NOT RUN: there is no test"))
    return into, tests, cases


def given(mode, tests):
    """Those tests that a kernel's guests run."""
    without = LEFT_OUT.get(mode, {})
    return [test for test in tests if without.get(test, "") is not None]


def shares(mode, into, tests, guests, scale=1):
    """The tests, dealt out to so many guests."""
    hands = reuse.deal(mode, tests, guests)
    return [Share(mode, mode if guests == 1 else f"{mode}-{number}", into,
                  hand, scale) for number, hand in enumerate(hands, 1) if hand]


def apart(mode, into, tests):
    """The tests that need NVMe controllers, and the others in a guest without."""
    need = [test for test in tests if test.startswith(f"{NVME}:")]
    hands = GUESTS_NVME[mode]
    yield from shares(mode, into, need,
                      max(hands, hands * limits.processors() // 4))
    rest = tuple(test for test in tests if test not in need)
    if rest:
        yield Share(mode, f"{mode}-dax", into, rest, nvme=False)


def others(mode, into, tests):
    """The shares of guests with other hardware."""
    for name, (append, some) in OTHERS.items():
        hand = tuple(test for test in some if test in tests)
        if mode in WITH_OTHERS and hand:
            yield Share(mode, f"{mode}-{name}", into, hand, 1, append,
                        kind=name)


def restarts(mode, into, tests):
    """A guest that goes down with commands in flight, which ends any other."""
    if mode == "lean" and "uq:uq_reset" in tests:
        yield Share(mode, f"{mode}-restart", into, ("restart",), restart=True)


def run(todo, out):
    """Run the guests, several at a time; returns all cases."""
    if not todo:
        return []
    host.need(*guest.PACKAGES)
    host.pytool("vng")
    gate = reuse.Gate(GUEST_TAKES)
    count = sum(len(share.tests) for share in todo)
    with host.step(f"{count} runs of kselftests in {len(todo)} guests "
                   f"({host.short(out)}/*.boot.log)"):
        # The longest first, so that none is left to run alone at the end.
        order = sorted(todo, key=reuse.expected, reverse=True)
        done = host.at_once(_in_turn, [(gate, share, out) for share in order],
                            min(gate.most, len(order)))
    return [case for cases in done for case in cases]


def _script(share, out):
    """What a guest runs: its tests, and what its kernel wants about them."""
    if share.restart:
        kernel = build.folder(share.mode) / "arch/x86/boot/bzImage"
        return f"exec sh {guest.SCRIPTS}/restart.sh {share.into} {kernel}\n"
    each, _ = PATIENCE[share.mode]
    options = [part for test in share.tests for part in ("-t", test)]
    after = AFTER.get(share.mode, "").format(
        build=build.folder(share.mode), scripts=guest.SCRIPTS,
        into=out / f"{share.name}.gcda")
    exports = " ".join(f"{name}={shlex.quote(str(value))}" for name, value
                       in share.variables().items())
    return (f"export {exports}\n"
            f"sh {guest.SCRIPTS}/kselftest.sh {share.into} "
            f"{shlex.join([*options, '-o', str(each * share.scale)])}\n"
            f"{after}")


def _in_turn(gate, share, out):
    """One guest, when there is room for it."""
    with gate:
        return _boot(share, out)


def _boot(share, out):
    """One guest that runs its share, judged."""
    together = PATIENCE[share.mode][1]
    start = time.monotonic()
    append, qemu = share.hardware()
    if share.nvme:
        qemu = (*qemu, *disks.attach(out / f"{share.name}.disks"))
    keys, watch = reuse.keys(share), reuse.Watch()
    ran = guest.boot(share.mode, _script(share, out), name=share.name, out=out,
                     append=append, watch=watch.line, qemu=qemu,
                     folder=build.folder(share.mode),
                     programs=len(share.tests), timeout=together * share.scale)
    kind = f"{share.mode}, {' '.join(share.append)}" if share.append \
        else share.mode
    raced = []
    if share.mode == "kcsan":
        raced = races.cases(share.name, ran.log, out)
        ran.log = races.without(ran.log)
    cases = _rename(kind, ktap.parse(ran.ktap)) + ran.cases() + raced
    if share.restart:
        cases.append(Case(f"{share.name}: the guest powered off",
                          ktap.PASS if ran.left else ktap.FAIL, ran.why))
    reuse.keep(share, keys, cases)
    watch.save(share)
    took = time.monotonic() - start
    host.took(f"guest {share.name}", took)
    host.say(f"    {share.name}: {ktap.total(cases)} in {host.elapsed(took)}")
    return cases


def never_ran(tests, cases):
    """A failing case for each test that skipped itself wherever it was.

    Each variant counts for itself, and so does a program that no guest was
    given. What is known to run nowhere is not asked for.
    """
    ran, skipped = set(), {}
    for case in cases:
        name = case.name.partition(": ")[2]
        if case.status == ktap.SKIP:
            skipped[name] = case.detail
        else:
            ran.add(name)
    def is_in(name, these):
        return any(one == name or one.startswith(f"{name}: ") for one in these)

    names = [name for name in skipped if not is_in(name, ran) and not any(
        fnmatch.fnmatchcase(name, known) for known in NOWHERE)]
    names += [name for name in (test.replace(":", ": ") for test in tests)
              if not is_in(name, (*ran, *skipped))]
    return [Case(name, ktap.FAIL, "NOT RUN: it was skipped in all guests: "
                 f"{skipped.get(name) or 'none was given it'}")
            for name in names]


def _rename(mode, cases):
    """Test names with their kernel before them."""
    return [Case(f"{mode}: {re.sub(r'^selftests: ', '', case.name)}",
                 case.status, case.detail) for case in cases]


def _chosen(args):
    """What `make kselftest` is asked for: kernels, and tests of one folder."""
    modes = [arg for arg in args if ":" not in arg]
    for mode in modes:
        if mode not in ("lean", "debug"):
            raise UserError(f"kselftests run on lean or debug, not on {mode}; a "
                            "test is named with its folder, such as uq:uq_reset")
    named = [arg for arg in args if ":" in arg]
    return modes or (["lean"] if named else ["lean", "debug"]), named


def _soak(args, out):
    """Everything on the debug kernel and what races on kcsan's, for longer.

    Arguments name one of these kernels, or tests.
    """
    modes = [name for name in args if name in SOAK] or list(SOAK)
    named = [name for name in args if name not in SOAK]
    todo, cases = [], []
    for mode in modes:
        into, tests, bad = prepare(mode, out, named or None)
        if mode == "kcsan" and not named:
            tests = [test for test in RACING if test in tests]
        todo += shares(mode, into, tests, GUESTS[mode], SOAK[mode])
        cases += bad
    return cases + run(todo, out)


def main(args):
    """`kselftest`, or `soak` for more of it and for longer."""
    soak = args[:1] == ["soak"]
    out = host.fresh("soak" if soak else "kselftest")
    if not targets():
        return [Case("kselftest", ktap.FAIL, "NOT RUN: the tree has none")]
    if soak:
        return _soak(args[1:], out)
    modes, named = _chosen(args)
    return _named(modes, named, out) if named else _kselftest(modes, out)


def _named(modes, named, out):
    """Some tests alone, each in one guest of a kernel."""
    todo, cases = [], []
    for mode in modes:
        into, tests, bad = prepare(mode, out, named)
        todo += shares(mode, into, tests, 1)
        cases += bad
    return cases + run(todo, out)


def _kselftest(modes, out):
    todo, cases, every = [], [], []
    for mode in modes:
        chosen = subset() if mode == "debug" else None
        if chosen == []:
            host.say("    overlay/kselftest.debug names no test")
            continue
        into, tests, bad = prepare(mode, out, chosen)
        if mode == "lean":
            every = tests
            bad += without_kernel(mode, out)
        tests = given(mode, tests)
        todo += apart(mode, into, tests)
        todo += others(mode, into, tests)
        todo += restarts(mode, into, tests)
        cases += bad
    todo, kept = reuse.sift(todo)
    cases += kept + run(todo, out)
    # Some need what only one of the kernels has.
    return cases + (never_ran(every, cases) if len(modes) > 1 else [])
