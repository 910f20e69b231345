# SPDX-License-Identifier: GPL-2.0
"""The rules of this tree that no other linter knows.

No path of the machine it was written on, no host name of a package registry,
no e-mail address of a person, and a licence line in every source.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from engine import host, source

# Put together here, so that this file does not break its own rule.
REGISTRIES = re.compile(r"\b(?:[\w-]+\.)*(?:" + "|".join(
    re.escape(".".join(words)) for words in (
        ("debian", "org"), ("ubuntu", "com"), ("pypi", "org"),
        ("pythonhosted", "org"), ("crates", "io"), ("npmjs", "org"),
        ("npmjs", "com"), ("golang", "org"), ("docker", "io"),
        ("quay", "io"), ("ghcr", "io"))) + r")\b")
HOMES = re.compile(r"(?<![\w.$~)}])/(?:home|Users)/[\w.-]+")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
ALLOWED = re.compile(r"[@.]example\.(?:invalid|com|org)$|noreply",
                     re.IGNORECASE)
# Lists: of a section of MAINTAINERS, which a patch of it adds, and the trailer that
# asks for a fix in stable kernels (Documentation/process/stable-kernel-rules.rst).
LIST = re.compile(r"\+L:\t\S+@\S+$|Cc: stable@vger\.kernel\.org$")
LICENCE = "SPDX-License-" + "Identifier:"
SOURCES = (".c", ".h", ".S", ".py", ".sh", ".rst", ".toml", ".yaml", ".yml")
NAMES = ("Makefile", "Kconfig", "Kbuild", "requirements.txt")


def files(root: Path) -> list[str]:
    """Every file of the tree that git has or would take, as paths."""
    text = source.git(root, "ls-files", "-z", "--cached", "--others",
                      "--exclude-standard")
    names = text.split("\0") if text is not None else [
        str(path.relative_to(root)) for path in root.rglob("*")]
    return sorted(name for name in set(names)
                  if (root / name).is_file()
                  and Path(name).parts[0] not in (".git", "out")
                  and not any(host.JUNK.search(part)
                              for part in Path(name).parts))


def text_of(path: Path) -> str | None:
    """The text of a file, or None if it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return None


def _shebang(path: Path) -> str:
    with open(path, "rb") as file:
        line = file.readline(100)
    return line.decode("ascii", "replace") if line[:2] == b"#!" else ""


def is_shell(path: Path) -> bool:
    """Whether a file is a shell script."""
    return path.suffix == ".sh" or bool(
        re.search(r"\b(?:ba|da)?sh\b", _shebang(path)))


def is_python(path: Path) -> bool:
    """Whether a file is Python."""
    return path.suffix == ".py" or "python" in _shebang(path)


def carries_licence(path: Path) -> bool:
    """Whether a file is of a kind that states its licence."""
    return (path.suffix in SOURCES or path.name in NAMES or is_shell(path)
            or is_python(path))


def added(patch: str) -> str:
    """The lines that a patch adds."""
    return "".join(f"{line[1:]}\n" for line in patch.splitlines()
                   if line.startswith("+") and not line.startswith("+++"))


def check(name: str, text: str, *, places: Sequence[str] = (),
          addresses: Collection[str] = (),
          licence: bool = False) -> Iterator[str]:
    """What is wrong with one file, a sentence each."""
    patch = name.endswith(".patch")
    for number, line in enumerate(text.splitlines(), 1):
        # The context of a patch is upstream's text.
        if patch and line.startswith((" ", "@@ ")):
            continue
        for complaint in _line(line, places, addresses):
            yield f"{name}:{number}: {complaint}"
    if licence and not any(LICENCE in line
                           for line in text.splitlines()[:4]):
        yield f"{name}: no {LICENCE} line at its top"
    if text and not text.endswith("\n"):
        yield f"{name}: its last line does not end"


def _line(line: str, places: Sequence[str],
          addresses: Collection[str]) -> Iterator[str]:
    for place in places:
        # A short one such as / or /root says nothing about this machine.
        if place.count("/") > 1 and re.search(
                re.escape(place) + r"(?![\w-])", line):
            yield f"a path of this machine: {place}"
    for found in HOMES.findall(line):
        yield f"a path of a home folder: {found}"
    for found in REGISTRIES.findall(line):
        yield f"a package registry's host name: {found}"
    if LIST.match(line):
        return
    # An archive's link ends in a message's name, which looks like an address.
    for found in ADDRESS.findall(re.sub(r"https?://\S+", "", line)):
        if not ALLOWED.search(found) and found not in addresses:
            yield f"an e-mail address: {found}"
