# SPDX-License-Identifier: GPL-2.0
"""Build and install our kselftests by the kernel's own rules, and run them in guests.

The lean kernel runs all of them, the debug kernel those of overlay/kselftest.debug.
`make soak` runs all for longer, racing ones under KCSAN, and all on upstream's kernel.
"""

import fnmatch
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from engine import arm64 as arm
from engine import (
    build,
    disks,
    fsx,
    guest,
    host,
    kernels,
    ktap,
    kunit,
    lay,
    limits,
    races,
    repository,
    reuse,
    series,
)
from engine.host import UserError
from engine.kernels import HARDWARE, KERNELS
from engine.ktap import Case
from engine.share import PACKAGES, Share

TOP = PurePosixPath("tools/testing/selftests")
NVME = "uq"
MODULES = "test_modules"
# Tests that no guest runs, and the reason.
NOWHERE = {
    "uq: uq_mmap_reset: life.*.module_stays":
        "nvme is built into all of our kernels",
    "uq: uq_error: error.*.subsystem_reset":
        "QEMU has no NVM subsystem reset (CAP.NSSRS)",
}


def targets() -> list[str]:
    """Return our directories of selftests; their Makefiles build those below them."""
    found = {}
    for item in lay.items():
        path = PurePosixPath(item.target)
        if path.is_relative_to(TOP) and path.name == "Makefile" \
                and item.kind == "file":
            found[str(path.parent.relative_to(TOP))] = path.parent
    if not found:
        raise UserError("the tree has no kselftests")
    return sorted(name for name, path in found.items()
                  if path.parent not in found.values())


def subset(mode: str) -> list[str] | None:
    """The tests that a kernel runs in `make check`, None if it runs all."""
    if not KERNELS[mode].subset:
        return None
    path = host.ROOT / "overlay" / KERNELS[mode].subset
    if not path.exists():
        return []
    lines = [line.strip() for line in
             path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def make(mode: str, into: Path, *args: str, folders: Sequence[str], kdir: Path,
         log: Path, what: str, env: Mapping[str, str] | None = None) -> None:
    """Build kselftests, with modules for the kernel in `kdir`.

    Programs do not contain the path of their build directory.
    """
    root = f"--sysroot={arm.root()}" if mode in kernels.ARM64 else ""
    build.make(mode, f"TARGETS={' '.join(folders)}", f"KSFT_INSTALL_PATH={into}",
               f"KDIR={kdir}", f"USERLDFLAGS={root}",
               f"USERCFLAGS={root} -ffile-prefix-map={build.folder(mode)}=.", *args,
               log=log, what=what, env=env)


def build_log(mode: str) -> Path:
    """Return the log of building a kernel's tests."""
    return host.OUT / "build" / f"{mode}.kselftests.log"


def modules() -> list[PurePosixPath]:
    """Return the modules that tests load, as paths below the installed tests."""
    paths = (PurePosixPath(item.target) for item in lay.items())
    return [path.relative_to(TOP).with_suffix(".ko") for path in paths
            if path.parent.name == MODULES and path.suffix == ".c"]


def install(mode: str) -> tuple[Path, list[str]]:
    """Build the tests and install them; returns the folder and the list."""
    host.need(*PACKAGES)
    folder, log = build.folder(mode), build_log(mode)
    into = folder / "kselftest-installed"
    listing, note = into / "kselftest-list.txt", folder / "kselftest.key"
    key = reuse.key(mode)
    if not (listing.exists() and note.exists() and note.read_text("ascii") == key):
        host.remove(note)
        host.remove(into)
        with host.step(f"building the kselftests ({host.short(log)})"):
            host.remove(log)
            # kbuild builds no module elsewhere that was also built in the tree.
            repository.run("clean", "-fdqX", "--", f":(glob){TOP}/**/{MODULES}/**",
                           at=build.tree())
            make(mode, into, "FORCE_TARGETS=1", "kselftest-install",
                 folders=targets(), kdir=folder, log=log,
                 what="building the kselftests")
            if lost := [path for path in modules() if not (into / path).exists()]:
                raise UserError(f"{lost[0]} was not built: see {host.short(log)}")
        host.write(note, f"{key}")
    return into, listing.read_text("utf-8").split()


def without_kernel(mode: str, out: Path) -> list[Case]:
    """Are tests installed where there is no kernel to build modules for?"""
    into = build.folder(mode) / "kselftest-without-kernel"
    host.remove(into)
    name, log = "installing without a kernel", out / f"{mode}.without.log"
    with host.step(f"{name} ({host.short(log)})"):
        try:
            make(mode, into, "kselftest-install", folders=["uq"],
                 kdir=Path("/nonexistent"), log=log, what=name)
        except UserError as error:
            return [Case(name, ktap.FAIL, str(error))]
    wrong = [f"no {part}" for part in ("config", "settings", "uq_io")
             if not (into / "uq" / part).exists()]
    if (into / "uq" / MODULES).exists():
        wrong.append("a folder of modules that cannot be there")
    return [Case(name, ktap.FAIL if wrong else ktap.PASS, ", ".join(wrong))]


def missing_options(mode: str, target: str) -> list[str]:
    """Return the options of a target's `config` that the mode's kernel lacks."""
    path = build.tree() / TOP / target / "config"
    if not path.exists():
        return []
    have = build.settings((build.folder(mode) / ".config").read_text("utf-8"))
    wanted = build.settings(path.read_text(encoding="utf-8"))
    elsewhere = {} if mode == kernels.HAS_ALL \
        else build.wanted_config(kernels.HAS_ALL)
    return [name for name, value in wanted.items()
            if not {have.get(name, "n"), elsewhere.get(name, "n")}
            & {value, "y"}]


def prepare(mode: str, chosen: list[str] | None = None) -> tuple[
        Path, list[str], list[Case]]:
    """Build a kernel and the tests: the folder, the tests, failing cases."""
    build.build(mode)
    if KERNELS[mode].below:     # It has no tests of its own.
        return prepare("lean", chosen)
    into, listed = install(mode)
    cases = []
    for target in targets():
        if lost := missing_options(mode, target):
            cases.append(Case(target, ktap.FAIL, f"NOT RUN: the {mode} kernel has no "
                              + " ".join(lost)))
        if not any(test.startswith(f"{target}:") for test in listed):
            cases.append(Case(target, ktap.FAIL, "NOT RUN: it has no tests"))
    tests = listed
    if chosen is not None:
        cases += [Case(test, ktap.FAIL, "NOT RUN: it was not installed; see "
                       + host.short(build_log(mode)))
                  for test in chosen if test not in listed]
        tests = [test for test in chosen if test in listed]
    if not tests:
        cases.append(Case(mode, ktap.FAIL, "NOT RUN: there is no test"))
    return into, tests, cases


def given(mode: str, tests: list[str]) -> list[str]:
    """Those tests that a kernel's guests run."""
    without = KERNELS[mode].left_out
    return [test for test in tests if without.get(test, "") is not None]


def shares(mode: str, into: Path, tests: list[str], guests: int,
           scale: int = 1) -> list[Share]:
    """The tests, dealt out to so many guests."""
    hands = reuse.deal(mode, tests, guests)
    return [Share(mode, mode if guests == 1 else f"{mode}-{number}", into,
                  hand, scale) for number, hand in enumerate(hands, 1) if hand]


def apart(mode: str, into: Path, tests: list[str]) -> Iterator[Share]:
    """The tests that need NVMe controllers, and the others in a guest without."""
    need = [test for test in tests if test.startswith(f"{NVME}:")]
    hands = KERNELS[mode].nvme_guests
    yield from shares(mode, into, need,
                      max(hands, hands * limits.processors() // 4))
    rest = tuple(test for test in tests if test not in need)
    if rest:
        yield Share(mode, f"{mode}-dax", into, rest, nvme=False)


def others(mode: str, into: Path, tests: list[str]) -> Iterator[Share]:
    """The shares of guests with other hardware."""
    if not KERNELS[mode].other_hardware:
        return
    for name, other in HARDWARE.items():
        hand = tuple(test for test in other.tests if test in tests)
        if hand:
            yield Share(mode, f"{mode}-{name}", into, hand, 1, other.append,
                        kind=name)


def restarts(mode: str, into: Path, tests: list[str]) -> Iterator[Share]:
    """A guest that goes down with commands in flight, which ends any other."""
    if KERNELS[mode].restarts and "uq:uq_reset" in tests:
        yield Share(mode, f"{mode}-restart", into, ("restart",), restart=True)


def said(todo: Sequence[Share]) -> str:
    """How many tests run in how many guests."""
    count = sum(len(share.tests) for share in todo)
    return f"{count} runs of kselftests in {len(todo)} guests"


def run(todo: list[Share], out: Path) -> list[Case]:
    """Run the guests, several at a time, the longest first; return all cases."""
    if not todo:
        return []
    host.need(*guest.PACKAGES)
    host.pytool("vng")
    # A guest waits for clocks and answers: one more than there are processors.
    takes = max(KERNELS[share.mode].takes() for share in todo)
    workers = min(limits.processors() + 1, limits.memory() // takes)
    todo = sorted(todo, key=lambda share: -sum(
        reuse.seconds(share.mode, share.tests).values()))
    with host.step(f"{said(todo)} ({host.short(out)}/*.boot.log)"):
        done = host.at_once(_boot, [(share, out) for share in todo], workers)
    return [case for cases in done for case in cases]


def _script(share: Share, out: Path) -> str:
    """Return the script of a guest: its tests, and commands of its kernel."""
    if share.restart:
        image = build.folder(share.mode) / KERNELS[share.mode].image
        return f"exec sh {guest.SCRIPTS}/restart.sh {share.into} {image}\n"
    kernel = KERNELS[share.mode]
    timeout = kernel.test_timeout * share.scale
    options = [part for test in share.tests for part in ("-t", test)]
    after = kernel.after.format(
        build=build.folder(share.mode), scripts=guest.SCRIPTS,
        into=out / f"{share.name}.gcda")
    exports = " ".join(f"{name}={shlex.quote(str(value))}" for name, value
                       in share.variables().items())
    return (f"export {exports}\n"
            f"sh {guest.SCRIPTS}/kselftest.sh {share.into} "
            f"{shlex.join([*options, '-o', str(timeout)])}\n"
            f"{after}")


def command(mode: str) -> guest.Command:
    """Return what makes the command line of a kernel's guests."""
    return arm.command if mode in kernels.ARM64 else guest.command


def _boot(share: Share, out: Path) -> list[Case]:
    """One guest that runs its share, judged."""
    kernel = KERNELS[share.mode]
    start = time.monotonic()
    append, qemu = share.hardware()
    machine = guest.Machine(append=append, qemu=qemu,
                            timeout=kernel.guest_timeout * share.scale)
    if share.nvme:
        machine = machine.adding(qemu=disks.attach(out / f"{share.name}.disks"))
    keys, watch = reuse.keys(share), reuse.Watch()
    ran = guest.boot(share.mode, _script(share, out), name=share.name, out=out,
                     machine=machine, folder=build.folder(share.mode),
                     programs=len(share.tests), watch=watch.line,
                     command=command(share.mode))
    kind = f"{share.mode}, {' '.join(share.append)}" if share.append \
        else share.mode
    raced = []
    if kernel.races:
        raced = races.cases(share.name, ran.log, out)
        ran.log = races.without(ran.log)
    cases = [*(Case(f"{kind}: {case.name.removeprefix('selftests: ')}", case.status,
                    case.detail) for case in ktap.parse(ran.ktap)),
             *ran.cases(), *raced]
    if share.restart:
        cases.append(Case(f"{share.name}: the guest powered off",
                          ktap.PASS if ran.left else ktap.FAIL, ran.why))
    reuse.keep(share, keys, cases)
    watch.save(share)
    took = time.monotonic() - start
    host.took(f"guest {share.name}", took)
    host.say(f"    {share.name}: {ktap.total(cases)} in {host.elapsed(took)}")
    return cases


def never_ran(tests: list[str], cases: list[Case]) -> list[Case]:
    """Return a failing case for each test, or variant, that no guest ran.

    Tests in NOWHERE are exempt.
    """
    ran, skipped = set(), {}
    for case in cases:
        name = case.name.partition(": ")[2]
        if case.status == ktap.SKIP:
            skipped[name] = case.detail
        else:
            ran.add(name)
    def is_in(name: str, these: Iterable[str]) -> bool:
        return any(one == name or one.startswith(f"{name}: ") for one in these)

    names = [name for name in skipped if not is_in(name, ran) and not any(
        fnmatch.fnmatchcase(name, known) for known in NOWHERE)]
    names += [name for name in (test.replace(":", ": ") for test in tests)
              if not is_in(name, (*ran, *skipped))]
    return [Case(name, ktap.FAIL, "NOT RUN: it was skipped in all guests: "
                 f"{skipped.get(name) or 'none was given it'}")
            for name in names]


def _chosen(args: list[str]) -> tuple[list[str], list[str]]:
    """Return the kernels and the tests that the arguments name."""
    modes = [arg for arg in args if ":" not in arg]
    checked = kernels.having("checked")
    for mode in modes:
        if mode not in checked:
            raise UserError(f"kselftests run on {' or '.join(checked)}, not on "
                            f"{mode}; a test is named with its folder, such as "
                            "uq:uq_reset")
    named = [arg for arg in args if ":" in arg]
    return modes or (checked[:1] if named else checked), named


def soak(args: list[str]) -> list[Case]:
    """`soak`: all on the debug kernel and upstream's, and racing ones on kcsan's.

    Arguments name one of these kernels, or tests; fsx is one, and arches stands for
    the series. Without any, KUnit runs under UML too.
    """
    out = host.fresh("soak")
    cases = series.main([series.ARCHES]) if not args or series.ARCHES in args else []
    known = kernels.having("soak")
    modes = [name for name in args if name in known] or known
    named = [name for name in args if name not in (*known, fsx.NAME, series.ARCHES)]
    if args == [series.ARCHES]:
        return cases
    if not named or fsx.NAME in args:
        for mode in modes:
            if KERNELS[mode].fsx:
                build.build(mode)
                cases += fsx.run(mode, out)
    if fsx.NAME in args and not named:
        return cases
    cases += [] if args else kunit.main([kunit.UM])
    todo: list[Share] = []
    for mode in modes:
        kernel = KERNELS[mode]
        into, tests, bad = prepare(mode, named or None)
        if kernel.soak_tests and not named:
            tests = [test for test in kernel.soak_tests if test in tests]
        todo += shares(mode, into, tests, kernel.guests, kernel.soak)
        cases += bad
    return cases + run(todo, out)


def arm64(args: list[str]) -> list[Case]:
    """`arm64`: all kselftests and KUnit suites, or some tests, on kernels of arm64."""
    out = host.fresh("arm64")
    named = [name for name in args if name not in kernels.ARM64]
    todo: list[Share] = []
    cases: list[Case] = []
    for mode in [name for name in args if name in kernels.ARM64] or kernels.ARM64:
        into, tests, bad = prepare(mode, named or None)
        todo += apart(mode, into, given(mode, tests))
        cases += bad + ([] if named else
                        kunit.run_guest(out / "kunit", mode, arm.command))
    return cases + run(todo, out)


def main(args: list[str]) -> list[Case]:
    """`kselftest`: of all kernels that are checked, or some tests alone."""
    out = host.fresh("kselftest")
    modes, named = _chosen(args)
    if not named:
        return _kselftest(modes, out)
    todo: list[Share] = []
    cases: list[Case] = []
    for mode in modes:
        into, tests, bad = prepare(mode, named)
        todo += shares(mode, into, tests, 1)
        cases += bad
    return cases + run(todo, out)


def _kselftest(modes: list[str], out: Path) -> list[Case]:
    """All tests of these kernels."""
    cases: list[Case] = []
    every: list[str] = []
    todo: list[Share] = []
    for mode in modes:
        chosen = subset(mode)
        if chosen == []:
            host.say(f"    overlay/{KERNELS[mode].subset} names no test")
            continue
        into, tests, bad = prepare(mode, chosen)
        if chosen is None:
            every.extend(tests)
        if KERNELS[mode].installs_without:
            bad += without_kernel(mode, out)
        tests = given(mode, tests)
        left, kept = reuse.sift([*apart(mode, into, tests),
                                 *others(mode, into, tests),
                                 *restarts(mode, into, tests)])
        todo += left
        cases += [*bad, *kept]
    cases += run(todo, out)
    # Some need what only one of the kernels has.
    return cases + (never_ran(every, cases) if len(modes) > 1 else [])
