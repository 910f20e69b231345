# SPDX-License-Identifier: GPL-2.0
"""Words: what is prose in a file, and the measure of its pronouns."""

import unittest
from types import SimpleNamespace
from unittest import mock

from engine import lint, words
from engine.ktap import FAIL, PASS

C = """/* The task who waits. */
int who;	// nobody
char *s = "somebody /* whom */"; /* one
 * of his
 */
int a = b
	* who;
"""
PATCH = """--- a/fs/x.c
+++ b/fs/x.c
@@ -1,4 +1,5 @@
 /*
- * Somebody.
+ * A task that waits for him.
+ *
  */
+int whoever;
"""
PYTHON = '''"""Who is it?"""
nobody = "whose"    # everybody


def his():
    """For anybody."""
    return """he"""
'''
SHELL = """#!/bin/sh -who
# whom it may concern
who='a # his'	# nobody
echo ${#he}
"""
ENTRY = """Subject: fs: do it

For whoever reads it.

Files:
fs/who/nobody.c
"""
KCONFIG = "config WHO\n\tbool \"Who\"\n\tdepends on HE\n\thelp\n\t  For him.\n"


def pronouns(text):
    return words.PRONOUN.findall(words.QUOTED.sub(" ", text))


class Prose(unittest.TestCase):

    def found(self, name, text):
        kind, sentences = words.prose(name, text)
        return kind, pronouns(sentences)

    def test_comments_of_c(self):
        self.assertEqual(self.found("fs/x.c", C),
                         (words.COMMENTS, ["who", "nobody", "his"]))

    def test_what_a_patch_adds(self):
        self.assertEqual(self.found("fs/x.c.patch", PATCH),
                         (words.COMMENTS, ["him"]))
        self.assertEqual(self.found("fs/x.c.what-it-does.patch", PATCH),
                         (words.COMMENTS, ["him"]))

    def test_what_a_patch_adds_to_other_files(self):
        text = "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n who\n+# for him\n+he\n"
        for name, kind, wanted in (
                ("Documentation/x.rst.patch", words.DOCUMENTATION,
                 ["him", "he"]),
                ("Documentation/x.txt.uq.patch", words.DOCUMENTATION,
                 ["him", "he"]),
                ("fs/Makefile.patch", words.COMMENTS, ["him"]),
                ("fs/Kconfig.uq.patch", words.DOCUMENTATION, ["him", "he"]),
                ("tools/x.py.patch", words.COMMENTS, ["him"]),
                ("MAINTAINERS.uq.patch", None, [])):
            self.assertEqual(self.found(name, text), (kind, wanted), name)

    def test_python(self):
        self.assertEqual(self.found("overlay/engine/x.py", PYTHON),
                         (words.COMMENTS, ["everybody", "Who", "anybody"]))

    def test_shell(self):
        self.assertEqual(self.found("overlay/x", SHELL),
                         (words.COMMENTS, ["whom", "nobody"]))

    def test_message_of_a_commit(self):
        self.assertEqual(self.found("overlay/series/a/0001-b", ENTRY),
                         (words.DOCUMENTATION, ["whoever"]))

    def test_kconfig(self):
        self.assertEqual(self.found("fs/Kconfig", KCONFIG),
                         (words.DOCUMENTATION, ["him"]))

    def test_pages(self):
        for name in ("Documentation/x.rst", "README.md", "tools/x/README",
                     "Documentation/ABI/testing/sysfs-x"):
            self.assertEqual(self.found(name, "Who is it?\n"),
                             (words.DOCUMENTATION, ["Who"]), name)

    def test_other_files_have_none(self):
        self.assertEqual(words.prose("Documentation/x.svg", "<!-- he -->"),
                         (None, ""))

    def test_quotes_are_no_prose(self):
        self.assertEqual(pronouns('as "nobody", or ``nobody``\n'), [])

    def test_words_that_only_look_like_it(self):
        self.assertEqual(pronouns("the whole header, this, nobody_uid\n"), [])


class Measure(unittest.TestCase):

    def measure(self, pronouns_in, others):
        found = words.Measure()
        found.add("x.rst", "nobody " * pronouns_in + "word " * others)
        return found

    def test_rate(self):
        self.assertEqual(self.measure(2, 998).rate, 2.0)
        self.assertEqual(words.Measure().rate, 0.0)

    def test_limit(self):
        self.assertEqual(words.complaints(self.measure(1, 999)), [])
        complaints = words.complaints(self.measure(2, 998))
        self.assertIn("2.00 in 1000 words (2 in 1000)", complaints[0])
        self.assertEqual(complaints[1].split(), ["2", "in", "x.rst"])

    def test_kinds_are_measured_apart(self):
        found = words.measure([("a.rst", "nobody\n"), ("b.c", "/* a b */\n"),
                               ("MAINTAINERS", "he\n")])
        self.assertEqual(found[words.DOCUMENTATION].pronouns, 1)
        self.assertEqual((found[words.COMMENTS].pronouns,
                          found[words.COMMENTS].words), (0, 2))


class Lint(unittest.TestCase):

    def test_both_figures_are_shown_and_one_fails(self):
        texts = {"a.rst": "nobody\n", "b.c": "/* a task */\n"}
        job = SimpleNamespace(files=list(texts))
        with mock.patch.object(lint.rules, "text_of",
                               lambda path: texts[path.name]), \
                mock.patch.object(lint.host, "say") as say:
            cases = list(lint.subjects(job))
        self.assertEqual([(case.name, case.status) for case in cases],
                         [("words: comments", PASS),
                          ("words: documentation", FAIL)])
        output = "\n".join(call.args[0] for call in say.call_args_list)
        self.assertRegex(output, r"comments: 0\.00 in 1000 words")
        self.assertRegex(output, r"documentation: 1000\.00 in 1000 words")
