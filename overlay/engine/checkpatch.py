# SPDX-License-Identifier: GPL-2.0
"""checkpatch --strict, less what overlay/exceptions/checkpatch argues away.

Both we and b4 call it: `python3 -m engine.checkpatch [FILE]` in a kernel tree
checks a patch, from standard input without FILE, prints what is left, and
ends with 1 if that is anything.
"""

import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from engine import store
from engine.host import ROOT, UserError

EXCEPTIONS = ROOT / "overlay" / "exceptions" / "checkpatch"
# New files that MAINTAINERS already covers need no change of it, which
# checkpatch cannot tell: series.py looks MAINTAINERS up itself.
COMMAND = ("scripts/checkpatch.pl", "-q", "--terse", "--strict",
           "--no-summary", "--showfile", "--show-types", "--mailback",
           "--ignore=FILE_PATH_CHANGES")
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


def judge(output: str, code: int, exceptions: list[Rule]) -> list[str]:
    """What is wrong with a patch, given what checkpatch said."""
    complaints = left(output, exceptions)
    if code and not output.strip():
        complaints.append(f"checkpatch ended with {code}")
    return complaints


# It asks this for each file of each patch whether it is obsolete, which was half of
# its time: `make lint` asks once for all files.
ASKED_APART = "get_maintainer.pl"
_making = threading.Lock()


def _root(tree: Path) -> Path:
    """A small repository as checkpatch is to see it: without ASKED_APART."""
    root = tree.with_name(f"{tree.name}.checkpatch")
    with _making:
        if not root.exists():
            made = root.with_name(f"{root.name}.new")
            (made / "scripts").mkdir(parents=True, exist_ok=True)
            for path in (*tree.iterdir(), *(tree / "scripts").iterdir()):
                if path.name not in (".git", "scripts", ASKED_APART):
                    link = made / path.relative_to(tree)
                    link.unlink(missing_ok=True)
                    link.symlink_to(path)
            made.rename(root)
    return root


def command(tree: Path, *files: Path | str) -> list[Path | str]:
    """How to call checkpatch.

    The repository contains no history. Without .git in sight, checkpatch does not
    report the commits that a message cites as unknown.
    """
    return ["env", "GIT_DIR=none", *COMMAND, f"--root={_root(tree)}", *files]


# What checkpatch goes by, in a kernel tree.
READS = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")


# What checkpatch looks at in the head of a patch; what it does not look at: how
# many lines each file gets, and the version of git; and how a head says that the
# text is encoded.
HEAD = ("From:", "Subject:")
STAT = re.compile(r"(?<=\n---\n).*?(?=^diff --git )", re.DOTALL | re.MULTILINE)
SIGNATURE = re.compile(r"\n-- \n[\d.]+\n*\Z")
ENCODED = re.compile(r"^Content-Transfer-Encoding:(?! *[78]bit$)", re.MULTILINE)


def plain(text: str) -> str:
    """A patch as git and b4 both write it: author, subject, message, diff.

    Neither which commit it was, of how many, nor when says anything, nor who
    wrote it into a file.
    """
    head, blank, body = text.partition("\n\n")
    if ENCODED.search(head):
        return text
    lines = re.sub(r"\n[ \t]+", " ", head).splitlines()
    kept = sorted(re.sub(r"\[PATCH[^]]*\] *", "", line, count=1)
                  for line in lines if line.startswith(HEAD))
    body = STAT.sub("", SIGNATURE.sub("\n", body), count=1).rstrip("\n")
    return "\n".join(kept) + blank + body


def key(tree: Path, text: str) -> str:
    """What checkpatch's word on a patch is kept under."""
    return store.digest({
        "command": COMMAND, "patch": plain(text), "scripts": store.of_files(
            (Path(tree) / "scripts" / name for name in READS), tree),
        "keeps": ("output", "code")})


def judged(kept: store.Kept) -> list[str]:
    """What is wrong with a patch, by what checkpatch said when it last ran."""
    return judge(kept.more["output"], kept.more["code"], load())


def note(name: str | None, output: str, code: int) -> None:
    """Keep what checkpatch said, if it left nothing to complain of."""
    if not judge(output, code, load()):
        store.keep("checkpatch", name, (), {"output": output, "code": code})


def load() -> list[Rule]:
    """The exceptions of this tree."""
    if not EXCEPTIONS.exists():
        return []
    return rules(EXCEPTIONS.read_text(encoding="utf-8"))


def main(args: list[str]) -> int:
    """Check a patch for b4."""
    text = Path(args[0]).read_text("utf-8", "replace") if args \
        else sys.stdin.buffer.read().decode("utf-8", "replace")
    tree = Path.cwd()
    name = key(tree, text)
    kept = store.take("checkpatch", name)
    if kept:
        complaints = judged(kept)
    else:
        done = subprocess.run(command(tree, "-"), input=text,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              encoding="utf-8", errors="replace", check=False)
        complaints = judge(done.stdout, done.returncode, load())
        note(name, done.stdout, done.returncode)
    for line in complaints:
        print(line)
    return 1 if complaints else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        sys.exit(f"overlay: {error}")
    except FileNotFoundError:
        sys.exit(f"overlay: {Path.cwd()} is no kernel tree")
