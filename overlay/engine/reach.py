# SPDX-License-Identifier: GPL-2.0
"""What a commit can change of a folder of the kernel.

A folder is compiled where a commit changes one of its headers, and of one that was
not compiled before that is all of it: a hundred objects of XFS, for a declaration
that three of them see. What sees nothing of the commit was compiled with the commit
that it sees, or is upstream's alone.

Includes are looked for by their names alone, whatever the preprocessor would leave
out, so that rather too much is compiled.
"""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:[^">\n]*/)?([^">/\n]+)[">]',
                     re.MULTILINE)
# A line of a Makefile that names objects, or says nothing.
NAMES = re.compile(r"[\w/-]+\.o\b")
SILENT = re.compile(r"\s*(?:#.*)?$")


def readers(tree: Path, folder: PurePosixPath | str,
            headers: Iterable[str]) -> set[str]:
    """The objects of those C files below a folder that include one of these headers.

    `headers` are paths; whether one header includes another is asked in this folder
    alone.
    """
    includes = {path: set(INCLUDE.findall(path.read_text("utf-8", "replace")))
                for path in (tree / folder).rglob("*.[ch]")}
    reached: set[str] = set()
    found = {PurePosixPath(name).name for name in headers}
    while not found <= reached:
        reached |= found
        found = {path.name for path, names in includes.items() if names & reached}
    return {str(path.relative_to(tree).with_suffix(".o"))
            for path, names in includes.items()
            if path.suffix == ".c" and names & reached}


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
