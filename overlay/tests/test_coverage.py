# SPDX-License-Identifier: GPL-2.0
"""Check that a line that is not reached fails, or has a valid reason."""

import unittest
from unittest import mock

from engine import build, coverage, host, kselftest, ktap, lay
from tests.test_host import Folder

FILE = "drivers/nvme/host/uq/core.c"
SOURCE = """\
#include <linux/x.h>

/* one(two) */
static int one(int a,
               int b)
{
	if (a)
		return -ENOMEM;
	return 0;
}
EXPORT_SYMBOL_GPL(one);

int __must_check two(void)
{
	return -ENOMEM;
}
"""
LEFT = f"""\
# why
[{FILE} one]
return -ENOMEM;
: There is always memory
: here.

[{FILE} two]
*
: sometimes: when the moon is full.
"""


class Reasons(unittest.TestCase):
    """The file of reasons."""

    def test_the_file(self):
        one, two = coverage.reasons(LEFT)
        self.assertEqual((one.function, one.texts, one.why),
                         ("one", ["return -ENOMEM;"],
                          "There is always memory here."))
        self.assertFalse(one.sometimes())
        self.assertTrue(two.sometimes())

    def test_ours_can_be_read(self):
        if coverage.LEFT.exists():
            targets = coverage.targets()
            for reason in coverage.reasons(coverage.LEFT.read_text("utf-8")):
                self.assertIn(reason.target, targets)


class Judge(Folder):
    """Lines that are reached, and those that are not."""

    known = coverage.reasons(LEFT)
    texts = {FILE: SOURCE}

    def stale(self, lines):
        """The reasons that do not hold when lines were run so often."""
        return [case.detail for case in
                coverage.stale(self.known, {FILE: lines}, self.texts)]

    def test_nine_of_ten(self):
        lines = dict.fromkeys(range(1, 11), 1)
        lines[1] = 0
        self.assertEqual(coverage.judge(FILE, lines).status, ktap.PASS)
        lines[2] = 0
        case = coverage.judge(FILE, lines)
        self.assertEqual((case.status, case.detail), (ktap.FAIL, "80.0 % are"))

    def test_what_is_left(self):
        lines = {7: 1, 8: 0, 9: 1, 13: 0, 15: 0}
        found = coverage.left(FILE, SOURCE, lines, self.known)
        self.assertEqual(
            [entry[:3] for entry in found],
            [(8, 8, "one"), (13, 15, "two")])
        self.assertEqual(found[0][4], "There is always memory here.")

    def test_an_unexplained_line_is_red(self):
        def judged(lines):
            return coverage.unexplained(FILE, SOURCE, lines, self.known[:1])
        self.assertEqual(judged({7: 1, 8: 0, 15: 3}).status, ktap.PASS)
        case = judged({8: 0, 13: 0, 15: 0})
        self.assertEqual(case.status, ktap.FAIL)
        self.assertEqual(case.detail, "line 13 to 15: two(): "
                         "int __must_check two(void)")

    def test_a_run_judges_it(self):
        with mock.patch.object(coverage, "collect", return_value=[1]), \
                mock.patch.object(build, "tree", return_value=self.top), \
                mock.patch.object(coverage, "targets", return_value=[FILE]), \
                mock.patch.object(coverage, "count", return_value={
                    FILE: {7: 1, 8: 1, 9: 1, 13: 1, 15: 0}}):
            host.write(self.top / FILE, SOURCE)
            cases = coverage.evaluate(self.top / "out", [])
        self.assertIn(f"{FILE}: every line that is not reached has a reason",
                      [case.name for case in cases
                       if case.status == ktap.FAIL])

    def test_a_line_that_is_gone(self):
        known = coverage.reasons(f"[{FILE} one]\nreturn 1;\n: why\n")
        case, = coverage.stale(known, {FILE: {}}, self.texts)
        self.assertIn("there is no line", case.detail)
        known = coverage.reasons("[fs/gone.c one]\nreturn 1;\n: why\n")
        self.assertEqual(
            len(coverage.stale(known, {FILE: {}}, self.texts)), 1)


class Guests(Folder):
    """Check the counters of guests, and the variables of the build."""

    def test_notes_come_beside_what_was_counted(self):
        built = self.top / "built"
        host.write(built / "fs/ext4/dax-read.gcno", "note")
        for name in ("coverage-1", "coverage-2"):
            host.write(self.top / f"out/{name}.gcda/fs/ext4/dax-read.gcda",
                       "data")
        with mock.patch.object(build, "folder", return_value=built):
            found = coverage.collect(self.top / "out")
        self.assertEqual(len(found), 2)
        for path in found:
            self.assertTrue(path.with_suffix(".gcno").exists())

    def test_no_guest_has_counted(self):
        (self.top / "out").mkdir()
        with mock.patch.object(build, "folder", return_value=self.top):
            case, = coverage.evaluate(self.top / "out", [])
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("NOT RUN", case.detail)

    def test_a_guest_saves_its_counters(self):
        share = kselftest.Share("coverage", "coverage-1", self.top, ("a:b",))
        lean = kselftest.Share("lean", "lean", self.top, ("a:b",))
        with mock.patch.object(build, "folder", return_value="/built"):
            script = kselftest._script(share, self.top)
            other = kselftest._script(lean, self.top)
        self.assertIn(f"coverage.sh /built {self.top}/coverage-1.gcda",
                      script)
        self.assertNotIn("coverage.sh", other)

    def test_only_our_objects_count(self):
        items = [lay.Item(path, path, "file") for path in (
            "fs/ext4/dax-read.c", "fs/ext4/dax-read-test.c",
            "fs/ext4/dax-read.h", "drivers/nvme/host/uq/core.c",
            "drivers/nvme/host/tests/nvme_uq_dptr_kunit.c",
            "tools/testing/selftests/uq/uq_io.c")]
        items.append(lay.Item("fs/dax.c.a.patch", "fs/dax.c", "patch"))
        for name in ("drivers/nvme/host", "fs/ext4"):
            host.write(self.top / name / "Makefile", "")
        with mock.patch.object(lay, "items", return_value=items), \
                mock.patch.object(build, "tree", return_value=self.top):
            # kbuild's name of an object goes from its Makefile on: a core.o
            # of upstream's is another one.
            self.assertEqual(build.variables("coverage"),
                             ["GCOV_PROFILE_uq/core.o=y",
                              "GCOV_PROFILE_dax-read.o=y"])
            self.assertEqual(coverage.targets(),
                             ["drivers/nvme/host/uq/core.c",
                              "fs/ext4/dax-read.c", "fs/ext4/dax-read.h"])
            self.assertEqual(build.variables("lean"), [])


if __name__ == "__main__":
    unittest.main()
