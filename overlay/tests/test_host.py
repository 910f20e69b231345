# SPDX-License-Identifier: GPL-2.0
"""The machine: errors are one sentence, nothing half-written is left."""

import contextlib
import errno
import io
import os
import select
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import build, cli, host, ktap, packages
from engine.host import UserError


class Folder(unittest.TestCase):
    """A test with a folder of its own, and a silent engine."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="overlay-test-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        for name, value in (("OUT", self.top / "out"),
                            ("WORK", self.top / "work"),
                            ("say", mock.Mock())):
            patch = mock.patch.object(host, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def engine(self, *args, **env):
        """Run the engine as a user would; return the finished process."""
        return subprocess.run(
            [sys.executable, "-m", "engine", *args], cwd=self.top,
            capture_output=True, text=True, check=False,
            env=dict(os.environ, PYTHONPATH=str(host.ROOT / "overlay"),
                     OVERLAY_WORK=str(self.top / "work"),
                     OVERLAY_OUT=str(self.top / "out"), **env))


class Run(Folder):
    """Programs: their output is kept, their failures are explained."""

    def sh(self, script, **how):
        """Run a shell script."""
        return host.run(["sh", "-c", script], log=self.top / "log", **how)

    def test_output_and_log(self):
        done = self.sh("echo one; echo two >&2")
        self.assertEqual(done.stdout, "one\ntwo\n")
        self.assertIn("two\n", (self.top / "log").read_text("utf-8"))

    def test_failure_names_what_why_and_the_log(self):
        with self.assertRaises(UserError) as caught:
            self.sh("echo 'a.c:1: error: no such thing'; exit 2",
                    what="compiling a.c")
        output = str(caught.exception)
        self.assertIn("compiling a.c failed", output)
        self.assertIn("no such thing", output)
        self.assertIn("log", output)
        self.assertNotIn("\n", output)

    def test_no_space_is_said(self):
        with self.assertRaisesRegex(UserError, "no space left"):
            self.sh("echo 'x: No space left on device'; exit 1")

    def test_flags_of_the_user_change_no_build(self):
        with mock.patch.dict(os.environ, {
                "CFLAGS": "-fsanitize=address", "KCFLAGS": "-O1", "KEPT": "yes"}):
            said = host.run(["sh", "-c", "echo $CFLAGS$KCFLAGS$KEPT"]).stdout
        self.assertEqual(said, "yes\n")

    def test_a_program_that_is_not_there(self):
        with self.assertRaisesRegex(UserError, "nosuch is not installed"):
            host.run(["nosuch"])

    def test_a_signal_is_said(self):
        with self.assertRaisesRegex(UserError, "SIGKILL"):
            self.sh("kill -9 $$")

    def test_a_program_that_does_not_end(self):
        with self.assertRaisesRegex(UserError, "did not end"):
            self.sh("sleep 1000 & wait", timeout=0.2)

    def test_a_program_that_is_not_up_in_time(self):
        done = host.run(["sleep", "1000"], check=False,
                        early=(0.1, lambda: False))
        self.assertLess(done.returncode, 0)

    def test_what_it_started_ends_with_it(self):
        def stop(line):
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            self.sh(f"sleep 1000 & echo $! >{self.top}/pid; echo go; wait",
                    progress=stop)
        pid = int((self.top / "pid").read_text("ascii"))
        try:
            ended = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self.addCleanup(os.close, ended)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        self.assertTrue(poll.poll(60_000), "it still runs")

    def test_a_job_that_fails_ends_the_others_and_no_more(self):
        def job(fail):
            if fail:
                raise UserError("no luck")
            self.sh("sleep 1000 & wait")
        with self.assertRaisesRegex(UserError, "no luck"):
            host.at_once(job, [(True,), (False,), (False,)], 2)
        self.assertEqual(self.sh("echo on").stdout, "on\n")

    def test_output_of_a_failing_program_is_none(self):
        self.assertIsNone(host.output(["false"]))
        self.assertIsNone(host.output(["nosuch"]))
        self.assertEqual(host.output(["echo", "x"]), "x\n")


class Beats(Folder):
    """Programs show their progress."""

    def test_files_of_make(self):
        progress = build.Counter()
        self.assertEqual(progress("  CC      fs/dax.o\n"), "1 files, fs/dax.o")
        self.assertIsNone(progress("make: nothing\n"))

    def test_counts_of_kunit(self):
        progress, output = ktap.Progress("um"), ""
        for line in ("    ok 1 a", "[    0.100000]     # module: x",
                     "[    0.100000]         ok 1 b"):
            output = progress(line) or output
        self.assertEqual(output, "um: 2 results, 0 failed")


class Files(Folder):
    """Files are whole or not there."""

    def test_write_is_whole_or_not_at_all(self):
        path = self.top / "deep" / "file"
        host.write(path, "one")
        with mock.patch.object(Path, "replace", side_effect=OSError):
            with self.assertRaises(OSError):
                host.write(path, "two")
        self.assertEqual(path.read_text("ascii"), "one")
        host.write(path, b"three")
        self.assertEqual(path.read_text("ascii"), "three")
        self.assertEqual(len(list(path.parent.iterdir())), 1)

    def test_no_space(self):
        with self.assertRaisesRegex(UserError, "not enough space in .*needs"):
            host.need_space(self.top / "not" / "yet", 10**9, "a build")
        host.need_space(self.top, 0, "nothing")

    def test_errors_of_the_system_are_plain(self):
        self.assertEqual(host.explain(OSError(errno.ENOSPC, "x", "/a")),
                         "no space left on the device (/a)")
        self.assertEqual(host.explain(OSError(errno.EROFS, "x", "/a")),
                         "the file system is read-only (/a)")
        self.assertIsNone(host.explain(OSError(errno.EINVAL, "x")))


class Packages(Folder):
    """Missing packages are installed, or what to do is said."""

    def need(self, missing=("fio",), root=(), apt=((),), there=True):
        """host.need() on a machine as described."""
        with mock.patch.object(packages, "missing",
                               lambda p: {name: ["x"] for name in missing}), \
                mock.patch.object(host, "_as_root", lambda: root), \
                mock.patch.object(host, "_may", lambda root: True), \
                mock.patch.object(host.shutil, "which",
                                  lambda name: there and name), \
                mock.patch.object(host, "_apt", side_effect=apt) as run:
            host.need("fio")
        return run.call_args_list

    def test_all_there(self):
        self.assertEqual(self.need(missing=()), [])

    def test_installed_at_once(self):
        self.assertEqual(len(self.need()), 1)

    def test_installed_after_an_update(self):
        calls = self.need(apt=(["Unable to locate"], [], []))
        self.assertEqual([call.args[1] for call in calls],
                         ["install", "update", "install"])

    def test_apts_own_errors_are_said(self):
        with self.assertRaisesRegex(UserError, "install fio: Failed to fetch x"):
            self.need(apt=(["Unable to locate"], ["Failed to fetch x"],
                           ["Unable to locate"]))

    def test_neither_root_nor_sudo(self):
        with self.assertRaisesRegex(UserError, "apt-get install fio"):
            self.need(root=None)

    def test_no_apt(self):
        with self.assertRaisesRegex(UserError, "^x .*there is no apt-get"):
            self.need(there=False)


class Apt(Folder):
    """apt itself: its errors are read, and it is never cut short."""

    def apt(self, text):
        """Return a PATH with this script as apt-get."""
        (self.top / "bin").mkdir()
        path = self.top / "bin" / "apt-get"
        path.write_text(f"#!/bin/sh\n{text}\n", "ascii")
        path.chmod(0o755)
        return f"{self.top}/bin:{os.environ['PATH']}"

    def test_errors_of_this_call_alone(self):
        path = self.apt('echo "E: old $1" >&2; echo "E: $9 is not there"\n'
                        "[ $4 = update ]")
        with mock.patch.dict(os.environ, PATH=path):
            self.assertEqual(host._apt([], "update"), [])
            self.assertEqual(len(host._apt([], "install")), 2)

    def test_an_end_without_a_word(self):
        with mock.patch.dict(os.environ, PATH=self.apt("exit 100")):
            self.assertEqual(host._apt([], "update"),
                             ["apt-get ended with 100"])

    def test_interrupt_lets_apt_end(self):
        os.mkfifo(self.top / "up")
        os.mkfifo(self.top / "go")
        os.mkfifo(self.top / "done")
        path = self.apt(f"echo up >{self.top}/up; read -r go <{self.top}/go\n"
                        f"echo done >{self.top}/done")
        child = subprocess.Popen(
            [sys.executable, "-c", "import engine.host as h, signal\n"
             "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
             "h.OUT = h.Path('out')\n"
             "try: h._apt([], 'install')\n"
             "except KeyboardInterrupt: print('interrupted', flush=True)"],
            cwd=self.top, stdout=subprocess.PIPE, text=True, process_group=0,
            env=dict(os.environ, PATH=path,
                     PYTHONPATH=str(host.ROOT / "overlay")))
        self.addCleanup(child.stdout.close)
        with open(self.top / "up", encoding="ascii") as up:
            up.read()
        # A terminal's Ctrl-C goes to all of the foreground group.
        os.killpg(child.pid, signal.SIGINT)
        self.assertEqual(child.stdout.read(), "interrupted\n")
        self.assertEqual(child.wait(), 0)
        with open(self.top / "go", "w", encoding="ascii") as go:
            go.write("go\n")
        with open(self.top / "done", encoding="ascii") as done:
            done.read()


class Commands(Folder):
    """The command line, as a user meets it."""

    def test_help(self):
        done = self.engine("help")
        self.assertEqual(done.returncode, 0)
        for name in ("demo", "check", "kunit", "kselftest", "lint", "docs",
                     "bench", "series", "soak", "coverage", "artifacts", "lava",
                     "results", "clean"):
            self.assertIn(f"\n  {name} ", done.stdout)
        self.assertIn("kselftest ARGS=uq:uq_reset", done.stdout)
        self.assertIn("DAX_TEST_SEED=", done.stdout)

    def test_unknown_command(self):
        done = self.engine("chekc")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("chekc", done.stderr)

    def test_two_runs_at_once(self):
        (self.top / "work").mkdir()
        holder = subprocess.Popen(
            [sys.executable, "-c", "import engine.host as h, sys; h.lock(); "
             "print('held', flush=True); sys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, PYTHONPATH=str(host.ROOT / "overlay"),
                     OVERLAY_WORK=str(self.top / "work"),
                     OVERLAY_OUT=str(self.top / "other")))
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.stdin.close)
        self.assertEqual(holder.stdout.readline(), "held\n")
        done = self.engine("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"process {holder.pid}", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_kdir_that_is_none(self):
        (self.top / "empty").mkdir()
        for named, output in (("/nonexistent", "is not a directory"),
                              (str(self.top / "empty"),
                               "not a kernel source tree")):
            done = self.engine("build", KDIR=named)
            self.assertEqual(done.returncode, 1)
            self.assertIn(output, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertNotIn("Traceback", done.stderr)

    def main(self, cases=(), error=None):
        """cli.main() of a command that ends so; its code and last line."""
        output = io.StringIO()
        module = mock.Mock()
        module.main = mock.Mock(side_effect=error, return_value=list(cases))
        with mock.patch.object(cli.importlib, "import_module",
                               return_value=module), \
                mock.patch.object(host, "lock"), \
                contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(output):
            code = cli.main(["lint"])
        return code, output.getvalue().splitlines()[-1]

    def test_a_total_and_an_exit_code(self):
        good, bad = ktap.Case("a", "pass"), ktap.Case("b", "fail", "why")
        self.assertEqual(self.main([good]), (0, "1 passed, 0 failed"))
        self.assertEqual(self.main([good, bad]), (1, "1 passed, 1 failed"))
        self.assertEqual(self.main([]), (1, "0 passed, 1 failed"))

    def test_errors_are_one_sentence(self):
        self.assertEqual(self.main(error=UserError("no luck")),
                         (1, "overlay: no luck"))
        code, output = self.main(error=KeyboardInterrupt)
        self.assertEqual(code, 1)
        self.assertIn("interrupted", output)
        code, output = self.main(error=OSError(errno.ENOSPC, "x", "/a"))
        self.assertEqual((code, output),
                         (1, "overlay: no space left on the device (/a)"))


if __name__ == "__main__":
    unittest.main()
