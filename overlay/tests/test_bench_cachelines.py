# SPDX-License-Identifier: GPL-2.0
"""Check that the plugin counts correctly, and that each cell gets its turns."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from bench import cachelines, guests
from engine import host, ktap
from engine.host import UserError

START, STOP, TURN, DETAIL, SHOW, ARM = range(1, 7)
USER = 0x401000


class Plugin(unittest.TestCase):
    """The plugin under a program that stands in for QEMU."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = Path(cls.folder.name) / "drive"
        for api in (3, 1):
            subprocess.run(
                ["gcc", "-O1", "-Wall", "-Wextra", "-Werror",
                 f"-DPLUGIN_API={api}", f"-I{host.PROGRAMS}",
                 "-include", host.PROGRAMS / "cachelines.c",
                 "-o", cls.program, Path(__file__).with_name("plugin_drive.c")],
                check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def turns(self, *words):
        """Return the plugin's turns of these instructions."""
        raw = Path(self.folder.name) / "raw"
        subprocess.run([self.program, f"out={raw}"], check=True, text=True,
                       input="".join(f"{word}\n" for word in
                                     (f"mark 0 {ARM}", *words)))
        return cachelines.read_turns(raw.read_text())

    @staticmethod
    def turn(cpu, *words, end=TURN):
        """A processor's turn."""
        return (f"mark {cpu} {START}", *words, f"mark {cpu} {STOP}",
                f"mark {cpu} {end}")

    def figures(self, name, *words):
        """One figure of each turn."""
        return [turn[name] for turn in self.turns(*words)]

    def test_loop_over_lines_touches_as_many(self):
        loop = [f"{kind} 0 {64 * line:x} 8" for line in range(100)
                for kind in ("load", "store")]
        found, = self.turns(*self.turn(0, *loop, *loop))
        self.assertEqual(found["lines"], 100)
        self.assertEqual(found["taken"], 0)

    def test_windows_of_a_turn_do(self):
        self.assertEqual(self.figures(
            "lines", f"mark 0 {START}", "load 0 0 8", "load 0 40 8",
            f"mark 0 {STOP}", *self.turn(0, "load 0 40 8", "load 0 80 8")), [3])

    def test_access_to_two_lines(self):
        self.assertEqual(self.figures("lines", *self.turn(
            0, "load 0 3c 4", "load 0 7c 8")), [3])
        # The second one is of another page, wherever that is.
        self.assertEqual(self.figures("lines", *self.turn(0, "load 0 ffc 8")), [1])

    def test_bounced_line_is_taken_once_a_turn(self):
        turns = [word for cpu in (0, 1, 0, 1) for word in self.turn(
            cpu, f"load {cpu} 0 8", f"store {cpu} 0 8", f"store {cpu} 8 8")]
        self.assertEqual(self.figures("taken", *turns), [0, 1, 1, 1])

    def test_line_of_each_is_not(self):
        turns = [word for cpu in (0, 1, 0, 1) for word in self.turn(
            cpu, f"load {cpu} {64 * cpu:x} 8", f"store {cpu} {64 * cpu:x} 8")]
        self.assertEqual(self.figures("taken", *turns), [0, 0, 0, 0])

    def test_readers_take_what_was_written_once(self):
        turns = [*self.turn(0, "store 0 0 8")]
        for cpu in (1, 2, 1, 2, 0):
            turns += self.turn(cpu, f"load {cpu} 0 8")
        self.assertEqual(self.figures("taken", *turns), [0, 1, 1, 0, 0, 0])

    def test_writer_takes_what_others_have_read(self):
        turns = [*self.turn(0, "store 0 0 8"), *self.turn(1, "load 1 0 8"),
                 *self.turn(0, "store 0 0 8"), *self.turn(0, "store 0 0 8")]
        self.assertEqual(self.figures("taken", *turns), [0, 1, 1, 0])

    def test_new_cell_begins_with_empty_caches(self):
        turns = [*self.turn(0, "store 0 0 8"), f"mark 0 {ARM}",
                 *self.turn(1, "store 1 0 8"), *self.turn(0, "store 0 0 8")]
        self.assertEqual(self.figures("taken", *turns), [0, 0, 1])

    def test_own_lines_and_user_space(self):
        found, = self.turns(
            f"mark 0 {SHOW}", f"load 0 0 8 {USER:x}", f"mark 0 {STOP}",
            *self.turn(0, "load 0 0 8", "load 0 40 8", f"load 0 80 8 {USER:x}"))
        self.assertEqual(found["lines"], 2)
        self.assertEqual(found["own"], 1)
        self.assertEqual(found["user"], 1)

    def test_instructions_and_lines_of_code(self):
        pc = 0xffffffff81000000
        found, = self.turns(*self.turn(
            0, f"load 0 0 8 {pc:x}", f"load 0 0 8 {pc + 7:x}",
            f"load 0 0 8 {pc + 60:x}", f"load 0 0 8 {USER:x}"))
        self.assertEqual(found["insns"], 3)
        self.assertEqual(found["code"], 2)

    def test_unknown_addresses_and_devices(self):
        found, = self.turns(*self.turn(0, "load 0 10040 8", "load 0 20000000 8"))
        self.assertEqual(found["lines"], 0)
        self.assertEqual(found["lost"], 1)


def turn(cpu=0, lost=0, **figures):
    """Return the plugin's output of a turn."""
    values = {"insns": 700, "lines": 50, "own": 2, "user": 0, "code": 40,
              "taken": 1, **figures}
    words = " ".join(f"{name}={value}" for name, value in values.items())
    return f"turn {cpu} {words} lost={lost}\n"


def told(variant="read", turns=2, bench="dax-read", warm=1, run=0, **params):
    """Return a program's description of turns."""
    params = {"size": 8, "extents": 1, "cpus": 4, "files": "own", **params}
    words = " ".join(f"{name}={value}" for name, value in params.items())
    return (f"turns {bench} {variant} {words} run={run} ops=1 warm={warm} "
            f"turns={turns}\n")


KNOWN = told("bounce", bench="known", warm=0)
BOUNCED = turn(taken=1) * 2


def rows(output, raw):
    """Results of what program and plugin said."""
    return cachelines.results(cachelines.match(KNOWN + output + "complete\n",
                                     BOUNCED + raw), "lean")


class Turns(unittest.TestCase):
    def test_median_without_those_that_warm_up(self):
        row, = rows(told(turns=3), turn(taken=9) + turn(taken=1)
                    + turn(taken=1) + turn(taken=3, lines=52))
        self.assertEqual(row["transfers_per_op"], 1)
        self.assertEqual(row["lines_per_op"], 50)
        self.assertEqual(row["code_lines_per_op"], 40)
        self.assertEqual(row["insn_per_op"], 700)
        self.assertEqual(row["params"], {"size": 8, "extents": 1, "cpus": 4,
                                         "files": "own", "config": "lean"})

    def test_too_few_and_too_many(self):
        with self.assertRaisesRegex(UserError, "fewer turns"):
            rows(told(), turn() * 2)
        with self.assertRaisesRegex(UserError, "not those"):
            rows(told(), turn() * 4)

    def test_what_cannot_be_read(self):
        with self.assertRaisesRegex(UserError, "cannot be read"):
            cachelines.read_turns("turn 0 insns=many\n")
        with self.assertRaisesRegex(UserError, "cannot be read"):
            cachelines.read_turns("other 0\n")

    def test_the_known_has_to_be_right(self):
        right = {"touch": turn(user=101), "apart": turn(taken=0),
                 "bounce": turn(taken=1)}
        wrong = {"touch": turn(user=99), "apart": turn(taken=1),
                 "bounce": turn(taken=2)}
        for name, good in right.items():
            cell = told(name, 3, "known", 0, size=100)
            # One turn may have a tick of the timer in it.
            rows(cell + told(), good * 2 + wrong[name] + turn() * 3)
            with self.assertRaisesRegex(UserError, "does not count right"):
                rows(cell + told(), good + wrong[name] * 2 + turn() * 3)


def command(found_lines, own=4, taken=6):
    """A user queue's rows of a batch of 32, and of one command on two CPUs."""
    return [*rows(told("uq", bench="nvme", mode="poll", batch=32, cpus=1),
                  turn(lines=found_lines, own=own) * 3),
            *rows(told("uq", bench="nvme", mode="poll", batch=1, cpus=2),
                  turn(taken=taken) * 3)]


def readers(generic=5, read_iter=4, read=4, scattered=4):
    """Rows of four readers of one extent, and of 100."""
    return [row for extents, variant, taken in (
                (1, "generic", generic), (1, "read_iter", read_iter), (1, "read", read),
                (100, "generic", generic), (100, "read", scattered))
            for row in rows(told(variant, extents=extents), turn(taken=taken) * 3)]


class Judge(unittest.TestCase):
    def failed(self, found):
        return [case.name for case in cachelines.judge(found)
                if case.status == ktap.FAIL]

    def test_met(self):
        self.assertEqual(self.failed(command(18) + readers()), [])

    def test_too_many_lines(self):
        self.assertIn("at most 14", self.failed(command(19) + readers())[0])
        self.assertIn("at most 6", self.failed(command(18, taken=7) + readers())[0])

    def test_more_taken_than_before(self):
        red = self.failed(command(18) + readers(read=6))
        self.assertEqual(len(red), 1)
        self.assertIn("extents 1", red[0])
        red = self.failed(command(18) + readers(scattered=6))
        self.assertEqual(len(red), 1)
        self.assertIn("extents 100", red[0])

    def test_section(self):
        text = cachelines.section(command(18) + readers())
        self.assertIn("stand in for time", text)
        self.assertIn("| read ", text)
        self.assertEqual(cachelines.section([]), "")


class Programs(unittest.TestCase):
    def test_marks_are_the_same_on_both_sides(self):
        header = (host.PROGRAMS / "plugin.h").read_text()
        turns = (guests.PROGRAMS / "turns.h").read_text()
        for name, number in (("TURN", TURN), ("DETAIL", DETAIL),
                             ("SHOW", SHOW), ("ARM", ARM)):
            self.assertRegex(header, rf"#define MARK_{name}\s+{number}\b")
            self.assertIn(f"PLUGIN_MARK({number})", turns)
