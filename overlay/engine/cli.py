# SPDX-License-Identifier: GPL-2.0
"""The commands. Each ends with a total and an exit code, or one line of error."""

import importlib
import os
import signal
import sys

from engine import edit, host, ktap, ran, store
from engine.host import UserError
from engine.ktap import Case

# name: (module, its function unless main; help text)
COMMANDS = {
    "demo": ("demo", "build and boot a patched kernel and show its gains"),
    "check": ("check", "selftest, lint, kunit, kselftest, docs, series, lava and "
              "results, and one total"),
    "lint": ("lint", "checkpatch, W=1 (arm64 and i386 too), sparse, kernel-doc, "
             "spdx, shellcheck, ruff, mypy, codespell"),
    "selftest": ("selftest", "the engine's own tests"),
    "kunit": ("kunit", "KUnit in the debug kernel, or under UML"),
    "kselftest": ("kselftest", "kselftests: all on the lean kernel, a subset "
                  "on the debug kernel"),
    "soak": ("kselftest:soak", "all kselftests for longer: on the debug kernel, "
             "for data races, and on upstream's kernel; KUnit under UML; each commit "
             "for other architectures"),
    "arm64": ("kselftest:arm64", "kselftests and KUnit on arm64, with pages of 4 and "
              "64 KiB"),
    "coverage": ("coverage", "which lines of our kernel files the tests "
                 "reach"),
    "docs": ("docs", "build our documentation pages with Sphinx"),
    "bench": ("bench.command", "count instructions per operation"),
    "here": ("here", "measure reads of the named files and namespaces on this "
             "machine"),
    "series": ("series", "check the patch series and write their mails"),
    "edit": ("edit", "create a git work tree with one branch per series"),
    "save": ("edit:save", "write the tree and the mails back from that work tree"),
    "rebase": ("edit:rebase", "move all series to another kernel (ONTO=directory)"),
    "report": ("page", "write a page with results, times and figures of the "
               "last runs"),
    "build": ("build", "lay the tree and build kernels: lean, debug, distro"),
    "artifacts": ("artifacts", "kernels, kselftests and a root file system for "
                  "any CI"),
    "lava": ("lava", "jobs for a LAVA farm; run one of them here"),
    "results": ("results", "the last runs' results for KCIDB; compare two"),
    "clean": ("clean", "remove out/ and all builds (CLEAN=all: downloads, "
              "too)"),
    "help": ("help", "this text"),
}


# Examples of ARGS.
ARGUMENTS = (
    ("check", '"lint docs"', "these steps alone"),
    ("lint", "sparse", "one checker alone"),
    ("kunit", "um", "um or debug"),
    ("kselftest", "uq:uq_reset", "one test, on the lean kernel"),
    ("kselftest", '"debug uq:uq_io"', "one test on another kernel; without "
     "a test all of that kernel's"),
    ("soak", "kcsan", "one of its kernels, fsx, arches, or a test as above"),
    ("arm64", "arm64-64k", "arm64 or arm64-64k, or a test as above"),
    ("coverage", "uq:uq_io", "these tests alone"),
    ("bench", "nvme", "one of dax-read, dax-mmap, nvme, nvme-iommu, "
     "nvme-reap, distro, lines (cache lines); lean is all but distro"),
    ("here", '"FILE /dev/ng0n1q1"', "measure reads of these"),
    ("series", "dax-read", "one series"),
    ("series", '"arches dax-read"', "also compile each commit for arm64 and i386, "
     "and run sparse"),
    ("build", '"lean debug"', "these kernels"),
    ("artifacts", "lean", "these kernels, or all"),
    ("lava", '"run lean-1"', "run this job here; without a name, a short one"),
    ("lava", "record", "update overlay/kselftest.seconds"),
    ("results", '"OLD.json NEW.json"', "compare two reports; without NEW, OLD and "
     "the last runs"),
)


def _help() -> None:
    print("make COMMAND:")
    for name, (_, text) in COMMANDS.items():
        print(f"  {name:10} {text}")
    print("\nmake COMMAND ARGS=...")
    for name, example, text in ARGUMENTS:
        print(f"  {name + ' ARGS=' + example:32} {text}")
    print(f"""
ONTO=directory    the new kernel source tree for `make rebase`
EDIT=1            build and test the work tree of `make edit`, not the clone
EDIT_TREE=        the directory of that work tree (now {edit.PATH})
KDIR=folder       a kernel source tree to lay over (only read); without it
                  Debian's linux-source package is fetched
UQ_TEST_SEED=, DAX_TEST_SEED=
                  the seed that a failed test named, to see it fail again
CLEAN=1           drop kept results, and run everything again
ARTIFACTS_URL=    the URL of out/artifacts for dispatchers of a farm
KCIDB_ORIGIN=     the name of this CI in KCIDB, for `make results`
ACCEL=kvm         use KVM for guests (the default is TCG)
OVERLAY_WORK=     the work folder (now {host.WORK})
Results are in out/COMMAND/: log, KTAP, JUnit XML, boot log.""")


def _clean() -> None:
    host.lock()
    everything = os.environ.get("CLEAN") == "all"
    names = ["build", "tree", "kdir", "kept", "mypy"]
    if everything:
        why = edit.unsaved()
        if why:
            raise UserError(f"{edit.PATH} contains unsaved work ({why}): run `make "
                            "save` first, or remove it")
        host.remove(edit.PATH)
        host.remove(edit.MAILS)
        names += ["src", "deb", "apt", "tools", "lava-root", "venv", "ccache", "git"]
    host.remove(host.OUT)
    for name in names:
        host.remove(host.WORK / name)


def finish(name: str, cases: list[Case]) -> None:
    """Write the results of one step, and print failed and skipped cases."""
    ktap.junit(host.OUT / name / "junit.xml", name, cases)
    ran.end(name)
    for case in cases:
        if case.status == ktap.FAIL:
            lines = case.detail.splitlines() or [""]
            host.say(f"    FAIL {case.name}: {lines[0]}".rstrip(": "))
            for line in lines[1:6]:
                host.say(f"         {line}")
        elif case.status == ktap.SKIP:
            why = (case.detail.splitlines() or ["no reason given"])[0]
            host.say(f"    SKIP {case.name}: {why}")


def _command(name: str, args: list[str]) -> int:
    module, _, function = COMMANDS[name][0].partition(":")
    host.check_machine()
    host.lock()
    host.remove(host.OUT / "engine.log")
    store.forget_if_asked()
    package = "" if module.startswith("bench.") else "engine."
    if args and name in ("selftest", "edit", "save", "rebase", "docs", "demo",
                         "report"):
        raise UserError(f"make {name} takes no argument {args[0]!r}")
    run = importlib.import_module(f"{package}{module}")
    ran.begin(name)
    cases = getattr(run, function or "main")(list(args))
    if cases is None:
        return 0
    if name != "check":
        finish(name, cases)
    if not cases:
        cases = [ktap.Case(name, ktap.FAIL, "nothing ran")]
    print(ktap.total(cases), flush=True)
    return 1 if ktap.tally(cases)[1] else 0


def main(argv: list[str]) -> int:
    """Run one command; expected errors are printed as one sentence."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)
    name = argv[0] if argv else "help"
    try:
        if name in ("help", "--help", "-h"):
            _help()
            return 0
        if name not in COMMANDS:
            print(f"overlay: there is no command {name!r}; `make help` "
                  "lists them", file=sys.stderr)
            return 2
        if name == "clean":
            _clean()
            return 0
        return _command(name, argv[1:])
    except UserError as error:
        text = str(error)
    except KeyboardInterrupt:
        text = "interrupted; the next run continues"
    except BrokenPipeError:
        return 1
    except OSError as error:
        why = host.explain(error)
        if why is None:
            raise
        text = why
    print(f"overlay: {text}", file=sys.stderr, flush=True)
    return 1
