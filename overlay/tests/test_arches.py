# SPDX-License-Identifier: GPL-2.0
"""Each commit for other architectures and by sparse: what is compiled, what is kept."""

import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from engine import arches, host, ktap, lay, lint, objects, reuse, series, source
from engine.entries import Entry
from engine.host import UserError
from engine.lay import Item
from tests.test_series import Scratch
from tests.test_store import Kept

# A kernel tree as far as this is concerned: goals are compiled, and read by sparse.
MAKEFILE = """.PHONY: FORCE
FORCE:
%.o: %.c
allnoconfig prepare:
	mkdir -p $(O)
	echo for $(ARCH) > $(O)/.config
$(O)/fs/%.o: fs/%.c fs/toy.h
	@mkdir -p $(@D)
	@echo "  CC      fs/$*.o"
	cd $(O) && $(CC) $(if $(filter i386,$(ARCH)),-m32) -Wall \\
		-c -o fs/$*.o $(CURDIR)/$<
fs/%.o: $(O)/fs/%.o FORCE
	$(if $(C),@echo "  CHECK   fs/$*.c"; $(CHECK) fs/$*.c)
fs/toy/: $(O)/fs/toy/a.o
.PRECIOUS: $(O)/fs/%.o
"""
# A shift that only a long of 32 bits has no room for.
SHIFT = "unsigned long toy(void)\n{\n\treturn 1UL << 40;\n}\n"
FINE = "unsigned long toy(void)\n{\n\treturn 1UL << 4;\n}\n"


class Tree(Kept):
    """A small tree of a kernel, whose make compiles."""

    def setUp(self):
        super().setUp()
        self.replace(host, "ROOT", self.top / "root")
        self.replace(objects.build, "top", lambda: self.top)
        self.replace(reuse, "versions", lambda names: "gcc 12")
        self.replace(lay, "items", list)
        self.kernel = SimpleNamespace(version="7.3.4", origin="debian",
                                      path=self.top / "linux")
        self.replace(source, "kernel", lambda: self.kernel)
        self.tree = self.top / "build/parts/tree"
        self.laid, self.patched = [], {}
        self.replace(objects.Shop, "lay", self.lay)
        self.put("Makefile", MAKEFILE)
        self.put("fs/toy.h", "")
        host.write(self.top / "sparse", "#!/bin/sh\n")
        (self.top / "sparse").chmod(0o755)

    def lay(self, items=None):
        """In place of laying: what is patched, with our patch or without."""
        self.laid.append(items)
        for name, (ours, theirs) in self.patched.items():
            host.write(self.tree / name, ours if items else theirs)

    def put(self, name, text):
        """A file that lies in the tree, and in ours."""
        host.write(self.tree / name, text)
        host.write(host.ROOT / name, text)

    def sparse(self, says):
        """What stands for sparse says this of each file."""
        host.write(self.top / "sparse", f"#!/bin/sh\n{says}\n")
        (self.top / "sparse").chmod(0o755)

    def tools(self, *names):
        with mock.patch.object(lint, "find_sparse", return_value=self.top / "sparse"):
            return [tool for tool in arches.tools(self.kernel, self.top / "log")
                    if tool.name in names]

    def commit(self, *files, tools=("i386",), name="toys 0001-add"):
        """The complaints of a commit as it is, and its cases elsewhere."""
        builder = series.Builder(self.kernel, self.top / "log",
                                 tools=self.tools(*tools))
        self.builder = builder
        items = {file: Item(file, file.removesuffix(".patch"),
                            "patch" if file.endswith(".patch") else "file")
                 for file in files}
        entry = Entry(Path("0001-add"), "", "", list(files))
        return (builder.check(entry, items),
                list(builder.elsewhere(name, entry, items)))


class Commit(Tree):

    def test_a_shift_that_32_bits_have_no_room_for(self):
        self.put("fs/toy.c", SHIFT)
        plain, (case,) = self.commit("fs/toy.c")
        self.assertEqual(plain, [])
        self.assertEqual((case.name, case.status), (
            "toys 0001-add: i386 compiles without a warning", ktap.FAIL))
        self.assertRegex(case.detail, r"^fs/toy.c:3: warning: left shift count >=")

    def test_silence_is_good(self):
        self.put("fs/toy.c", FINE)
        plain, cases = self.commit("fs/toy.c", tools=("i386", "sparse"))
        self.assertEqual(plain, [])
        self.assertEqual([(case.name, case.status) for case in cases], [
            ("toys 0001-add: i386 compiles without a warning", ktap.PASS),
            ("toys 0001-add: sparse", ktap.PASS)])

    def test_what_does_not_compile(self):
        self.put("fs/toy.c", "_Static_assert(sizeof(long) == 8, \"toy\");\n")
        plain, (case,) = self.commit("fs/toy.c")
        self.assertEqual(plain, [])
        self.assertRegex(case.detail, "fs/toy.c:1: error: static assertion failed")

    def test_what_sparse_says(self):
        self.put("fs/toy.c", FINE)
        self.sparse('echo "$1:3:9: warning: odd types"')
        plain, (case,) = self.commit("fs/toy.c", tools=("sparse",))
        self.assertEqual((plain, case.detail),
                         ([], "fs/toy.c:3: warning: odd types"))

    def test_sparse_that_is_not_called(self):
        self.put("fs/toy.c", FINE)
        self.put("Makefile", MAKEFILE.replace("$(if $(C)", "$(if "))
        _, (case,) = self.commit("fs/toy.c", tools=("sparse",))
        self.assertEqual(case.detail,
                         "fs/toy.c: NOT RUN: make did not call sparse for it")

    def test_what_upstream_says_itself_is_not_ours(self):
        self.patched["fs/toy.c"] = FINE, FINE
        host.write(host.ROOT / "fs/toy.c.patch", "")
        self.sparse('echo "$1:3:9: warning: old"\n'
                    'if grep -q new "$1"; then echo "$1:4:9: warning: new"; fi')
        _, (case,) = self.commit("fs/toy.c.patch", tools=("sparse",))
        self.assertEqual(case.status, ktap.PASS)
        self.assertEqual(self.laid[-2:], [[], self.builder.laid])

        self.patched["fs/toy.c"] = f"{FINE}int new;\n", FINE
        host.write(host.ROOT / "fs/toy.c.patch", "edited")
        _, (case,) = self.commit("fs/toy.c.patch", tools=("sparse",))
        self.assertEqual(case.detail, "fs/toy.c:4: warning: new")

    def test_a_warning_is_said_again(self):
        for name in ("fs/toy/Makefile", "fs/toy/a.c"):
            self.put(name, '#include "../toy.h"\n' if name.endswith(".c") else "")
        self.put("fs/toy.h", "static int odd(void) { return 0; }\n")
        self.put("fs/toy/b.h", "")
        files = ("fs/toy/b.h", "fs/toy.h")
        first = self.commit(*files)
        self.assertRegex(first[0][0], "fs/toy.h:1: warning: .odd. defined but")
        self.assertEqual(first[1][0].detail, first[0][0])
        self.assertEqual(self.commit(*files), first)

    def test_a_compile_that_is_broken_off_leaves_no_object_of_a_folder(self):
        shop = objects.Shop(self.kernel, self.top / "log")
        host.write(shop.build / "fs/toy/a.o", "")
        host.write(shop.build / "fs/b.o", "")
        with mock.patch.object(host, "run", side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            shop.compile(["fs/toy/"])
        self.assertEqual([path.name for path in shop.build.rglob("*.o")], ["b.o"])

    def test_what_an_architecture_does_not_have(self):
        found = {tool.name: tool.goals(["fs/dax.o", "fs/toy.o", "fs/ext4/"])
                 for tool in self.tools("arm64", "i386", "sparse")}
        self.assertEqual(found.pop("i386"), ["fs/toy.o", "fs/ext4/"])
        self.assertEqual(list(found), ["arm64", "sparse"])
        for goals in found.values():
            self.assertEqual(len(goals), 3)
        self.put("fs/dax.c", FINE)
        self.assertEqual(self.commit("fs/dax.c"), ([], []))

    def test_what_is_no_part_of_the_kernel_is_not_compiled(self):
        self.put("tools/testing/selftests/toy/toy.sh", "")
        self.assertEqual(self.commit("tools/testing/selftests/toy/toy.sh"), ([], []))


class Once(Tree):
    """What is compiled once for the same files."""

    def once(self, *tools, says=()):
        """Which tools compiled a commit, and its cases."""
        ran = []

        def complaints(tool, *_):
            ran.append(tool.name)
            return list(says)
        with mock.patch.object(arches.Tool, "complaints", complaints):
            cases = self.commit("fs/toy.c", tools=tools)[1]
        return ran, cases

    def setUp(self):
        super().setUp()
        self.put("fs/toy.c", FINE)

    def test_a_tool_compiles_the_same_files_once(self):
        ran, first = self.once("arm64", "i386", "sparse")
        self.assertEqual(ran, ["arm64", "i386", "sparse"])
        ran, second = self.once("arm64", "i386", "sparse")
        self.assertEqual(ran, [])
        self.assertEqual([case.name for case in second],
                         [case.name for case in first])
        self.assertIn("taken from the store", second[0].detail)
        self.put("fs/toy.c", f"{FINE}/* edited */\n")
        self.assertEqual(self.once("arm64", "sparse")[0], ["arm64", "sparse"])

    def test_each_tool_for_itself(self):
        self.once("i386")
        self.assertEqual(self.once("i386", "arm64")[0], ["arm64"])
        self.sparse("exit 0")
        self.once("sparse")
        self.sparse("exit 0  # newer")
        self.assertEqual(self.once("sparse")[0], ["sparse"])
        self.replace(reuse, "versions", lambda names: "gcc 14 and others")
        self.assertEqual(self.once("arm64")[0], ["arm64"])

    def test_room_for_all_commits(self):
        self.assertEqual(len({tool.kind for tool in self.tools(
            "arm64", "i386", "sparse")} | {"commit"}), 4)

    def test_a_failure_is_not_kept(self):
        self.once("i386", says=["fs/toy.c:1: warning: odd"])
        ran, (case,) = self.once("i386")
        self.assertEqual((ran, case.status), (["i386"], ktap.PASS))

    def test_the_tree_is_laid_once_for_all_tools(self):
        self.once("arm64", "i386", "sparse")
        self.assertEqual(len(self.laid), 1)


class Asked(Scratch):
    """`make series ARGS=...`."""

    def main(self, *args):
        """The series that are made, and whether for other architectures."""
        with mock.patch.object(host, "need") as need, \
                mock.patch.object(series, "_all", return_value=[]) as made, \
                mock.patch.object(series.source, "kernel"), \
                mock.patch.object(series.pristine, "Whole"), \
                mock.patch.object(host, "say"), \
                mock.patch.object(lay.items, "__defaults__", (self.root,)), \
                mock.patch.object(series, "read", self.read):
            series.main(list(args))
        self.needed = need.call_args.args
        chosen, _, _, elsewhere = made.call_args.args
        return [one.name for one in chosen], elsewhere

    def test_with_names_and_without(self):
        self.entry("0000-cover", "Subject: x: y\n\nText.\n", of="zoo")
        self.entry("0001-lion", "Subject: fs: y\n\nText.\n\nFiles:\nfs/lion.c\n",
                   of="zoo")
        self.put("fs/lion.c", "/* a lion */\n")
        self.assertEqual(self.main(), (["toys", "zoo"], False))
        self.assertNotIn("gcc-aarch64-linux-gnu", self.needed)
        self.assertEqual(self.main("arches"), (["toys", "zoo"], True))
        self.assertIn("gcc-aarch64-linux-gnu", self.needed)
        self.assertEqual(self.main("arches", "toys"), (["toys"], True))
        self.assertEqual(self.main("zoo"), (["zoo"], False))

    def test_each_series_has_the_tools(self):
        seen = []

        def check(made, builder):
            seen.append(builder.tools)
            return []

        for asked in ([], ["of a test"]):
            with mock.patch.object(series, "check_series", check), \
                    mock.patch.object(host, "pytool"), \
                    mock.patch.object(arches, "tools", return_value=asked), \
                    mock.patch.object(series.source, "kernel"), \
                    mock.patch.object(series, "Branch"), \
                    mock.patch.object(host, "say"):
                series._all(self.read(), self.read(), [], bool(asked))
        self.assertEqual(seen, [[], ["of a test"]])

    def test_a_series_that_is_not_there(self):
        with self.assertRaisesRegex(UserError, "no series toy: arches, toys"):
            self.main("arches", "toy")


if __name__ == "__main__":
    unittest.main()
