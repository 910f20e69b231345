# SPDX-License-Identifier: GPL-2.0
"""checkpatch --strict without the complaints of overlay/exceptions/checkpatch."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from engine import store
from engine.host import ROOT, UserError

EXCEPTIONS = ROOT / "overlay" / "exceptions" / "checkpatch"
# checkpatch asks for a change of MAINTAINERS for each new file. lint.py checks that
# MAINTAINERS covers the file.
COMMAND = ("scripts/checkpatch.pl", "-q", "--terse", "--strict",
           "--no-summary", "--showfile", "--show-types", "--mailback",
           "--ignore=FILE_PATH_CHANGES")
# Files in scripts/ that checkpatch reads.
READS = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")
# path:line: LEVEL:TYPE: message; the path is empty in the commit's message
COMPLAINT = re.compile(r"(?P<path>.*?):\d+: (?:ERROR|WARNING|CHECK):"
                       r"(?P<type>\w+): (?P<text>.*)")


@dataclass(frozen=True)
class Rule:
    """One exception: a type of complaint, in some files."""

    type: str
    files: str
    word: str

    def covers(self, match: re.Match[str]) -> bool:
        """Whether a complaint is of this kind."""
        return (match["type"] == self.type
                and fnmatchcase(match["path"], self.files)
                and self.word in match["text"])


def rules(text: str) -> list[Rule]:
    """Read the exceptions; each must stand below a comment that says why."""
    found, why = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            why = False
        elif line.startswith("#"):
            why = True
        else:
            words = line.split(None, 2)
            if len(words) < 2 or not why:
                raise UserError(f"overlay/exceptions/checkpatch, line {number}: "
                                "a type and files are wanted, below a comment "
                                "that says why")
            found.append(Rule(words[0], words[1], [*words, ""][2]))
    return found


def left(output: str, exceptions: list[Rule]) -> list[str]:
    """Those lines of checkpatch that no exception covers."""
    kept = []
    for line in output.splitlines():
        match = COMPLAINT.match(line)
        if line.strip() and not (match and any(
                rule.covers(match) for rule in exceptions)):
            kept.append(line)
    return kept


def judge(output: str, code: int) -> list[str]:
    """Return the complaints of checkpatch that no exception covers."""
    known = rules(EXCEPTIONS.read_text("utf-8")) if EXCEPTIONS.exists() else []
    complaints = left(output, known)
    if code and not output.strip():
        complaints.append(f"checkpatch ended with {code}")
    return complaints


def key(tree: Path, mail: Path) -> str:
    """Return the key of the result for one mail."""
    files = (mail, EXCEPTIONS, *(tree / "scripts" / name for name in READS))
    return store.digest([COMMAND, mail.parent.name, mail.name,
                         [store.of_file(path) for path in files]])
