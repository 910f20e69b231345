# SPDX-License-Identifier: GPL-2.0
"""Check the report for KCIDB; the path of a test never changes."""

import importlib
import os
import re
import subprocess
import sys
from unittest import mock

from engine import build, cli, host, ktap, lay, ran, results, source
from engine.host import UserError
from engine.ktap import Case
from engine.results import kcidb
from tests.test_host import Folder

PATH = re.compile(r"^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$")
CASES = [
    Case("lean: uq: uq_io: irq.read_write", ktap.PASS),
    Case("lean: uq: uq_io: poll.read_write", ktap.FAIL, "what\0 failed"),
    Case("lean: filesystems/dax: read_dm.sh: a name, with (signs)", ktap.SKIP,
         "no dmsetup"),
    Case("lean, pci=nomsi swiotlb=force: uq: uq_io: irq.read_write", ktap.PASS),
    Case("lean-1: the guest ran to its end", ktap.PASS),
    Case("debug: uq: uq_io: irq.read_write", ktap.PASS,
         "taken from the store: it ran at 2026-01-01 00:00"),
    Case("uq: uq_new", ktap.FAIL, "NOT RUN: it was skipped in all guests"),
]


class Here(Folder):
    """A kernel and files of ours that are here, and runs of them."""

    def setUp(self):
        super().setUp()
        self.here = {"linux": "7.3.4", "configs": "1"}
        # None asks for the kernel's source, which would be fetched.
        for module, name, value in (
                (kcidb, "checkout",
                 lambda: {"id": "overlay:1", "origin": "overlay"}),
                (ran, "now", lambda: dict(self.here)),
                (ran, "begun", lambda: dict(self.here)),
                (ran.source, "fetched", lambda: True)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def ran(self, step, *cases):
        """A step that runs now, and leaves these."""
        ran.begin(step)
        cli.finish(step, list(cases))

    def built(self, mode, word="built"):
        """A build that ends now."""
        host.write(build.status(mode), f"{word}\n")
        ran.note(build.note(mode))

    def report(self):
        """The paths of all tests, and how each kernel's build ended."""
        data = kcidb.report(host.OUT)
        return ([test["path"] for test in data["tests"]],
                {row["config_name"]: row.get("status") for row in data["builds"]})


class Report(Here):
    """Check the report of the results in out/."""

    def setUp(self):
        super().setUp()
        self.ran("kselftest", *CASES)
        self.ran("kunit", Case("um: ext4_inode_test: a case", ktap.PASS))
        self.built("lean")
        self.data = kcidb.report(host.OUT)
        self.tests = {test["path"]: test for test in self.data["tests"]}

    def test_paths(self):
        self.assertEqual([test["path"] for test in self.data["tests"]], [
            "kunit.ext4_inode_test.a_case",
            "kselftest.uq.uq_io.irq.read_write",
            "kselftest.uq.uq_io.poll.read_write",
            "kselftest.filesystems.dax.read_dm.sh.a_name_with_signs",
            "kselftest.uq.uq_io.irq.read_write",
            "kselftest.lean-1.the_guest_ran_to_its_end",
            "kselftest.uq.uq_io.irq.read_write",
            "kselftest.uq.uq_new"])
        for test in self.data["tests"]:
            self.assertRegex(test["path"], PATH)

    def test_ids_are_each_ones_own(self):
        ids = [test["id"] for test in self.data["tests"]]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(ids, [test["id"] for test
                               in kcidb.report(host.OUT)["tests"]])

    def test_status_and_excerpt(self):
        status = [test["status"] for test in self.data["tests"]]
        self.assertEqual(status, ["PASS", "PASS", "FAIL", "SKIP", "PASS", "PASS",
                                  "PASS", "MISS"])
        failed = self.tests["kselftest.uq.uq_io.poll.read_write"]
        self.assertEqual(failed["log_excerpt"], "what? failed")

    def status(self, kernel):
        """A build's row now."""
        row, = [row for row in kcidb.report(host.OUT)["builds"]
                if row["config_name"] == kernel]
        return row.get("status")

    def test_a_kernel_that_does_not_compile_has_a_row_that_fails(self):
        # What `make check` leaves then: one case, about no kernel.
        self.ran("kselftest", Case("kselftest", ktap.FAIL,
                                   "NOT RUN: building the lean kernel failed"))
        host.remove(host.OUT / "kunit")
        host.write(build.status("lean"), "failed\n")
        host.write(host.OUT / "build" / "lean.log", "dax.c:1: error: it is broken")
        rows = {row["config_name"]: row for row in kcidb.report(host.OUT)["builds"]}
        self.assertEqual(rows["lean"]["status"], "FAIL")
        self.assertIn("it is broken", rows["lean"]["log_excerpt"])
        self.assertEqual(rows["debug"]["status"], "MISS")

    def test_a_build_that_was_interrupted_is_an_error(self):
        host.write(build.status("lean"), "began\n")
        self.assertEqual(self.status("lean"), "ERROR")
        host.write(build.status("lean"), "built\n")
        self.assertEqual(self.status("lean"), "PASS")

    def test_environment(self):
        found = [test["environment"]["misc"]["platform"]
                 for test in self.data["tests"]]
        self.assertEqual(found[0], "um")
        self.assertEqual(found[4], "qemu-pci-nomsi-swiotlb-force")
        self.assertTrue(self.data["tests"][6]["misc"]["stored"])


class Old(Here):
    """Check that results of another tree are left out."""

    CASE = Case("lean: uq: uq_io: irq.read_write", ktap.PASS)
    PATH = "kselftest.uq.uq_io.irq.read_write"

    def setUp(self):
        super().setUp()
        self.built("lean")
        self.ran("kselftest", self.CASE)

    def test_over_another_kernel(self):
        self.here["linux"] = "7.4.0"
        paths, builds = self.report()
        self.assertEqual((paths, builds["lean"]), ([], "MISS"))
        self.assertIn("left out: kselftest", host.say.call_args.args[0])

    def test_files_that_change_while_a_step_runs(self):
        with mock.patch.object(ran, "begun", lambda: {"linux": "of the start"}):
            self.ran("kselftest", self.CASE)
        self.assertIn("files changed while kselftest ran",
                      "".join(str(call) for call in host.say.call_args_list))
        self.assertEqual(self.report()[0], [])

    def test_results_that_nothing_was_noted_of(self):
        host.remove(host.OUT / "kselftest" / ran.FILE)
        self.assertEqual(self.report()[0], [])
        for text in (b"[]", b"{", b"\xff"):
            host.write(host.OUT / "kselftest" / ran.FILE, text)
            self.assertEqual(self.report()[0], [])

    def test_what_is_kept_counts_as_of_this_run(self):
        self.here["linux"] = "7.4.0"
        self.ran("kselftest", Case(self.CASE.name, ktap.PASS,
                                   "taken from the store: it ran at 2026-01-01 00:00"))
        self.assertEqual(self.report()[0], [self.PATH])

    def test_soak_speaks_for_user_mode_linux(self):
        host.remove(host.OUT / "kunit")
        host.write(host.OUT / "kunit" / "um.ktap", "")
        self.ran("soak", Case("um: ext4_inode_test: a case", ktap.PASS))
        self.assertEqual(self.report()[1]["um"], "PASS")
        # A later run of KUnit, without UML, has a folder of its own.
        host.remove(host.OUT / "kunit")
        self.ran("kunit", Case("debug: ext4_inode_test: a case", ktap.PASS))
        self.assertEqual(self.report()[1]["um"], "PASS")


class Noted(Folder):
    """Check the inputs that change the sources of results."""

    def of(self, **kernel):
        """Return the sources of a run over this kernel."""
        src = source.Source(self.top, **{"version": "7.3.4", "is_git": False,
                                         "head": None, "origin": "kdir", **kernel})
        items = [lay.Item(name, name, "file") for name in sorted(self.laid)]
        for name, text in self.laid.items():
            host.write(self.top / name, text)
        with mock.patch.object(ran.source, "kernel", return_value=src), \
                mock.patch.object(ran.lay, "items", return_value=items), \
                mock.patch.object(host, "ROOT", self.top):
            return ran.now()

    def setUp(self):
        super().setUp()
        self.laid = {"fs/a.c": "a", "fs/b.c.patch": "b"}
        host.write(self.top / "overlay/configs/lean.config", "CONFIG_A=y\n")
        host.write(self.top / "overlay/guest/run.sh", "true\n")
        host.write(self.top / "overlay/host/plugin.c", "int x;\n")
        host.write(self.top / "overlay/kselftest.debug", "uq:uq_io\n")
        self.first = self.of()

    def changed(self, **kernel):
        """Return the names of the sources that changed."""
        return {name for name, value in self.of(**kernel).items()
                if self.first[name] != value}

    def test_another_kernel(self):
        self.assertEqual(self.changed(version="7.4.0"), {"linux"})
        self.assertEqual(self.changed(head="0" * 40), {"commit"})
        self.assertEqual(self.changed(origin="debian"), {"origin", "folder"})

    def test_a_kernel_that_was_edited(self):
        git = ("git", "-C", self.top, "-c", "user.name=x", "-c", "user.email=x")
        host.write(self.top / "Makefile", "VERSION = 7\n")
        for args in (("init", "-q"), ("add", "Makefile"), ("commit", "-q", "-m", "x")):
            subprocess.run([*git, *args], check=True)
        kernel = {"is_git": True, "head": "0" * 40}
        self.assertEqual(self.changed(**kernel), {"commit"})
        host.write(self.top / "Makefile", "VERSION = 8\n")
        self.assertEqual(self.changed(**kernel), {"commit", "edited"})
        self.first = self.of(**kernel)
        host.write(self.top / "Makefile", "VERSION = 9\n")
        self.assertEqual(self.changed(**kernel), {"edited"})

    def test_what_guests_do(self):
        host.write(self.top / "overlay/guest/run.sh", "false\n")
        self.assertEqual(self.changed(), {"guests"})
        host.write(self.top / "overlay/guest/run.sh", "true\n")
        host.write(self.top / "overlay/kselftest.debug", "uq:uq_cq\n")
        self.assertEqual(self.changed(), {"guests"})


class Bad(Here):
    """Bad input is said in one sentence."""

    def test_results_that_cannot_be_read(self):
        self.ran("kselftest", Old.CASE)
        for text in ("<testsuite><testcase", b"\xff\xfe\x00"):
            host.write(host.OUT / "kselftest" / "junit.xml", text)
            with self.assertRaisesRegex(UserError, "xml is not what a run leaves"):
                kcidb.report(host.OUT)


class Checkout(Folder):
    """The kernel that is reported, and the name that reports it."""

    def checkout(self, **named):
        """A report's checkout over a KDIR, where these variables are set."""
        env = {name: value for name, value in os.environ.items()
               if name != "KCIDB_ORIGIN"}
        with mock.patch.dict(os.environ, {**env, **named}, clear=True), \
                mock.patch.object(source, "kernel", return_value=self.src):
            return kcidb.checkout()

    def setUp(self):
        super().setUp()
        for args in (("init", "-q", "-b", "for-next"), ("add", "."),
                     ("commit", "-q", "-m", "x")):
            host.write(self.top / "kdir" / "Makefile", "VERSION = 7\n")
            self.git(*args)
        self.head = source.git(self.top / "kdir", "rev-parse", "HEAD")
        self.src = source.Source(self.top / "kdir", "7.3.4", True, self.head, "kdir")

    def git(self, *args):
        """Run git in the KDIR."""
        subprocess.run(["git", "-C", self.top / "kdir", "-c", "user.name=x", "-c",
                        "user.email=x", *args], check=True)

    def test_a_git_tree_is_named(self):
        self.git("remote", "add", "origin", "https://git.example.org/linux.git")
        row = self.checkout()
        self.assertEqual(
            (row["git_commit_hash"], row["git_repository_url"],
             row["git_repository_branch"]),
            (self.head, "https://git.example.org/linux.git", "for-next"))

    def test_a_repository_that_others_cannot_read_is_not(self):
        self.assertNotIn("git_repository_url", self.checkout())
        self.git("remote", "add", "origin", "x")
        for url in ("/srv/linux", "git@example.org:linux", "https://localhost/linux",
                    "https://me:secret@example.org/linux", "git://example.org/linux"):
            self.git("remote", "set-url", "origin", url)
            self.assertNotIn("git_repository_url", self.checkout(), url)

    def test_the_origin_is_the_one_that_is_named(self):
        self.assertEqual(self.checkout()["origin"], "overlay")
        row = self.checkout(KCIDB_ORIGIN="my_ci")
        self.assertEqual((row["origin"], row["id"][:6]), ("my_ci", "my_ci:"))


class Command(Folder):
    """Check how `make results` reads the output of the venv."""

    TESTS = ({"path": "kselftest.uq"},)

    def run_with(self, output, *args):
        """The cases, when the venv's module prints this."""
        done = host.Done([], 0, f"1..1\n{output}\n")
        with mock.patch.object(host, "module", return_value=done), \
                mock.patch.object(kcidb, "report",
                                  return_value={"builds": [], "tests": self.TESTS}):
            return results.main(list(args))

    def test_valid(self):
        self.assertEqual(self.run_with("ok 1 - a")[0].status, ktap.PASS)
        case, = self.run_with("# 'x' does not match at $.tests[0].path\nnot ok 1 - a")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("$.tests[0].path", case.detail)

    def test_nothing_to_report(self):
        with mock.patch.object(Command, "TESTS", ()):
            case, = self.run_with("ok 1 - a")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("NOT RUN", case.detail)

    def test_compare(self):
        path = self.top / "a"
        with self.assertRaisesRegex(host.UserError, "not there"):
            self.run_with("", path, path)
        host.write(path, "")
        self.assertEqual(self.run_with("ok 1 - a", path, path)[0].status, ktap.PASS)
        case, = self.run_with("# gone: 1\n# ! lean qemu x: PASS -> -\nnot ok 1 - a",
                              path, path)
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("lean qemu x: PASS -> -", case.detail)
        self.assertNotEqual(self.run_with("Traceback", path, path)[0].status, ktap.PASS)

    def compared(self, old):
        """Return the content of the files that `results OLD` compares."""
        seen = []

        def venv(*paths, what):
            seen.append([host.Path(path).read_text("utf-8") for path in paths])
            return []

        with mock.patch.object(results, "_venv", venv), \
                mock.patch.object(kcidb, "report", return_value={
                    "builds": [], "tests": self.TESTS}):
            results.main([str(old)])
        return seen

    def test_the_last_runs_are_compared_even_with_what_they_replace(self):
        made = host.OUT / "results" / results.FILE
        for old in (self.top / "old.json", made):
            host.write(old, "old")
            (new,), compared = self.compared(old)
            self.assertEqual(compared, ["old", new])
            self.assertEqual(made.read_text("utf-8"), new)
            self.assertIn("kselftest.uq", new)


class Comparison(Folder):
    """Check that lost results fail, whatever kci-dev calls them."""

    ITEMS = (("regression", "PASS", "FAIL", True), ("unstable", "PASS", "MISS", True),
             ("missing", "PASS", None, True), ("unstable", "PASS", "SKIP", False),
             ("missing", "FAIL", None, False), ("missing", "MISS", None, False),
             ("fixed", "FAIL", "PASS", False), ("new", None, "PASS", False),
             ("persistent_fail", "FAIL", "FAIL", False))

    def module(self, found=()):
        """compare.py, where kci-dev has found these."""
        # They are in the venv alone.
        stub = mock.Mock()
        stub.RegressionReport.compare.return_value.items = found
        with mock.patch.dict(sys.modules, {
                "kcidev.libs.regression": stub, "kcidb_io": stub,
                "jsonschema": stub}):
            sys.modules.pop("engine.results.compare", None)
            return importlib.import_module("engine.results.compare")

    def compare(self, *items):
        """Return the lines and the verdict for results of kci-dev."""
        module = self.module([
            {"category": category, "base_status": old, "head_status": new,
             "identity": {"config": "lean", "platform": "qemu",
                          "path": f"uq.{category}"}}
            for category, old, new, _ in items])
        with mock.patch.object(module, "_results"):
            return module.compare("a", "b")

    def test_what_passed_and_did_not_run_or_is_gone_is_named(self):
        for item in self.ITEMS:
            lines, good = self.compare(item)
            self.assertEqual(good, not item[3], item)
            self.assertEqual(any(line.startswith(f"! lean qemu uq.{item[0]}: ")
                                 for line in lines), item[3], item)

    def test_what_is_no_report_is_named(self):
        path = self.top / "x.json"
        for text in (b"", b"{", b"[]", b"[1]", b'{"tests": [1]}', b'{"builds": [{}]}',
                     b'{"builds": null}', b"\xff"):
            host.write(path, text)
            self.assertEqual(self.module().compare(str(path), str(path)),
                             ([f"{path} is not a report for KCIDB"], False), text)
