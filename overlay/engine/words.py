# SPDX-License-Identifier: GPL-2.0
"""Measure how often the tree's prose says "who" where a subject has a name.

A sentence about the task, the open file, the queue or the controller names it.
A few pronouns are fine; many are a sign of riddles. So the measure is their
number in 1000 words, of comments and of documentation, each over the whole
tree.

What is quoted is not prose: "..." on one line, and ``...`` in reStructuredText.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from engine import entries, rules

PRONOUN = re.compile(
    r"\b(who|whom|whose|whoever|nobody|everybody|anybody|somebody|he|him|his)"
    r"\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][\w'-]*")
QUOTED = re.compile(r'``[^`]*``|"[^"\n]*"')
LIMIT = 1.0                 # pronouns in 1000 words
WORST = 10                  # files that a failure names

COMMENTS, DOCUMENTATION = KINDS = ("comments", "documentation")

C = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
               |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
               re.DOTALL | re.VERBOSE)
# The middle of a comment that a patch adds to: its ends are upstream's.
INSIDE = re.compile(r"^[ \t]*\*(?:[ \t].*)?$", re.MULTILINE)
HASH = re.compile(r"(?<!\S)#(?!!)")


# -- what is prose ----------------------------------------------------------

def of_c(text: str) -> str:
    """The comments of C."""
    return "\n".join(match["comment"] for match in C.finditer(text)
                     if match["comment"])


def of_piece_of_c(text: str) -> str:
    """The comments of C that may begin or end elsewhere."""
    code = C.sub(lambda found: " " if found["comment"] else found[0], text)
    return "\n".join([of_c(text), *INSIDE.findall(code)])


def of_python(text: str) -> str:
    """The comments and docstrings of Python."""
    found = [token.string for token in
             tokenize.generate_tokens(io.StringIO(text).readline)
             if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            found.append(ast.get_docstring(node) or "")
    return "\n".join(found)


def of_hash(text: str) -> str:
    """The comments of shell scripts, makefiles and the like."""
    return "\n".join(_after_hash(line) for line in text.splitlines())


def _after_hash(line: str) -> str:
    for match in HASH.finditer(line):
        if not any(line[:match.start()].count(mark) % 2 for mark in "\"'"):
            return line[match.end():]
    return ""


CODE = {".c": of_c, ".h": of_c, ".S": of_c, ".py": of_python}
PAGES = (".rst", ".md", ".txt")
SCRIPTS = (".sh", ".config", ".toml")
MAKE = ("Makefile", "Kbuild", "config")
ABI = PurePosixPath("Documentation/ABI")


def of_message(text: str) -> str:
    """The message of a commit or of a series, without the list of files."""
    return text.partition("\nFiles:\n")[0]


def of_kconfig(text: str) -> str:
    """The help texts and prompts of Kconfig."""
    return "\n".join(line for line in text.splitlines()
                     if not re.match(r"\s*(?:config|depends|default)\b", line))


def of_patch(name: str, text: str) -> tuple[str | None, str]:
    """The kind and the prose of what a patch adds to the file it names."""
    path = PurePosixPath(name).with_suffix("")
    target = path.with_suffix("") if path.with_suffix("").suffix else path
    for stem in (path, target):
        if stem.suffix in (*CODE, *PAGES, ".sh"):
            target = stem
    text = rules.added(text)
    if target.suffix in CODE:
        # A piece of Python does not parse.
        return COMMENTS, (of_hash if target.suffix == ".py"
                          else of_piece_of_c)(text)
    return prose(str(target), text)


def prose(name: str, text: str) -> tuple[str | None, str]:
    """The kind of a file's prose, and its prose; (None, "") if it has none."""
    path = PurePosixPath(name)
    if path.suffix == ".patch":
        return of_patch(name, text)
    if path.suffix in CODE:
        return COMMENTS, CODE[path.suffix](text)
    if path.suffix == entries.WITHOUT:
        return None, ""             # lines of files that are counted themselves
    if path.parts[:2] == ("overlay", "series"):
        return DOCUMENTATION, of_message(text)
    if path.name.startswith("Kconfig"):
        return DOCUMENTATION, of_kconfig(text)
    if path.suffix in PAGES or path.name == "README" or ABI in path.parents:
        return DOCUMENTATION, text
    if path.suffix in SCRIPTS or path.name.startswith(MAKE) \
            or text.startswith("#!"):
        return COMMENTS, of_hash(text)
    return None, ""


# -- how much of it ---------------------------------------------------------

@dataclass
class Measure:
    """Words of prose and pronouns among them."""

    words: int = 0
    pronouns: int = 0
    where: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, text: str) -> None:
        """Count the prose of one file."""
        text = QUOTED.sub(" ", text)
        found = len(PRONOUN.findall(text))
        self.words += len(WORD.findall(text))
        self.pronouns += found
        if found:
            self.where[name] += found

    @property
    def rate(self) -> float:
        """Pronouns in 1000 words."""
        return 1000 * self.pronouns / self.words if self.words else 0.0

    def __str__(self) -> str:
        return (f"{self.rate:.2f} in 1000 words "
                f"({self.pronouns} in {self.words})")


def measure(texts: Iterable[tuple[str, str]]) -> dict[str, Measure]:
    """The measure of each kind, of pairs of a file's name and text."""
    found = {kind: Measure() for kind in KINDS}
    for name, text in texts:
        kind, sentences = prose(name, text)
        if kind:
            found[kind].add(name, sentences)
    return found


def complaints(found: Measure) -> list[str]:
    """What is wrong with a measure: nothing, or the figure and the worst files."""
    if found.rate <= LIMIT:
        return []
    return [f"who, nobody, he and the like: {found}, where {LIMIT} is the most",
            *(f"{count:4} in {name}"
              for name, count in found.where.most_common(WORST))]
