# SPDX-License-Identifier: GPL-2.0
"""What a commit can change of a folder of the kernel.

A folder is compiled where a commit changes one of its headers, and of one that was
not compiled before that is all of it: a hundred objects of XFS, for a declaration
that three of them see. What sees nothing of the commit was compiled with the commit
that it sees, or is upstream's alone. Where a commit only adds to a header, what
includes the header and mentions nothing of that sees nothing of it.

Includes are looked for by their names alone, whatever the preprocessor would leave
out, so that rather too much is compiled.
"""

import collections
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:[^">\n]*/)?([^">/\n]+)[">]',
                     re.MULTILINE)
# A line of a Makefile that names objects, or says nothing.
NAMES = re.compile(r"[\w/-]+\.o\b")
SILENT = re.compile(r"\s*(?:#.*)?$")


# What a header may bring that is seen by what does not mention it.
FOR_ALL = re.compile(r"\s*#\s*(?:include|undef|pragma)\b")
COMMENT = re.compile(r"\s*(?:/?\*.*)?$")
WORD = re.compile(r"\b[A-Za-z_]\w*")


def brought(patch: str, text: str, taken_away: bool = False) -> set[str] | None:
    """The words that a patch brings to a header, which has this text with them.

    None if what does not mention them may see it too. `taken_away`: the patch is
    the one that takes them away again.
    """
    adds, drops = ("-", "+") if taken_away else ("+", "-")
    lines = patch[patch.find("\n@@"):].splitlines()
    added = [line[1:] for line in lines if line.startswith(adds)]
    code = [line for line in added if not COMMENT.match(line)]
    if any(line.startswith(drops) for line in lines) \
            or any(FOR_ALL.match(line) for line in code):
        return None
    before = collections.Counter(WORD.findall(text))
    before.subtract(WORD.findall("\n".join(added)))
    new = {word for word in WORD.findall("\n".join(code)) if before[word] <= 0}
    return new if new or not code else None


def readers(tree: Path, folder: PurePosixPath | str,
            headers: Mapping[str, set[str] | None]) -> set[str]:
    """The objects of those C files below a folder that see what changes in headers.

    `headers` are paths, each with the words that it has now and had not; or None,
    and all that includes it sees the change. Whether one header includes another is
    asked in this folder alone.
    """
    texts = {path: path.read_text("utf-8", "replace")
             for path in (tree / folder).rglob("*.[ch]")}
    includes = {path: set(INCLUDE.findall(text)) for path, text in texts.items()}

    def including(names: set[str]) -> set[Path]:
        """What includes one of these, by whatever way."""
        found: set[Path] = set()
        while new := {path for path, others in includes.items()
                      if path not in found and others & names}:
            found |= new
            names = {path.name for path in new}
        return found

    found: set[Path] = set()
    for header, words in headers.items():
        seen = including({PurePosixPath(header).name})
        if words is not None:
            seen = {path for path in seen
                    if not words.isdisjoint(WORD.findall(texts[path]))}
            seen |= including({path.name for path in seen})
        found |= seen
    return {str(path.relative_to(tree).with_suffix(".o"))
            for path in found if path.suffix == ".c"}


def named(patch: str, folder: PurePosixPath | str) -> set[str] | None:
    """The objects that the changed lines of a Makefile of a folder name.

    None if such a line names none: it may change how all of them are compiled.
    """
    found: set[str] = set()
    for line in patch.splitlines():
        if re.match(r"[+-](?!\+\+ |-- )", line) and not SILENT.match(line[1:]):
            names = NAMES.findall(line)
            if not names:
                return None
            found.update(f"{folder}/{name}" for name in names)
    return found
