# SPDX-License-Identifier: GPL-2.0
"""Check rules of this tree that other linters do not know.

Files contain no path of the machine that wrote them, no host name of a package
registry, and no e-mail address of a person. Sources state their licence.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from engine import host, source

# Joined here, so that this file does not break its own rule.
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
# Addresses of lists: in a section of MAINTAINERS, and in the trailer for stable kernels
# (Documentation/process/stable-kernel-rules.rst).
LIST = re.compile(r"\+L:\t\S+@\S+$|Cc: stable@vger\.kernel\.org$")
LICENCE = "SPDX-License-" + "Identifier:"
SOURCES = (".c", ".h", ".S", ".py", ".sh", ".rst", ".toml", ".yaml", ".yml")
NAMES = ("Makefile", "Kconfig", "Kbuild", "requirements.txt")


def files(root: Path) -> list[str]:
    """Return all files that git tracks or would add."""
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
    """Return the text of a file, or None if it is not text."""
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
    """Return whether a file must state its licence."""
    return (path.suffix in SOURCES or path.name in NAMES or is_shell(path)
            or is_python(path))


def added(patch: str) -> str:
    """Return the lines that a patch adds."""
    return "".join(f"{line[1:]}\n" for line in patch.splitlines()
                   if line.startswith("+") and not line.startswith("+++"))


def check(name: str, text: str, *, places: Sequence[str] = (),
          addresses: Collection[str] = (),
          licence: bool = False) -> Iterator[str]:
    """Yield the complaints about one file."""
    patch = name.endswith(".patch")
    for number, line in enumerate(text.splitlines(), 1):
        # Upstream wrote the context of a patch.
        if patch and line.startswith((" ", "@@ ")):
            continue
        for complaint in _line(line, places, addresses):
            yield f"{name}:{number}: {complaint}"
    if licence and not any(LICENCE in line
                           for line in text.splitlines()[:4]):
        yield f"{name}: no {LICENCE} line at its top"
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"


def _line(line: str, places: Sequence[str],
          addresses: Collection[str]) -> Iterator[str]:
    for place in places:
        # A short path such as /root does not identify a machine.
        if place.count("/") > 1 and re.search(
                re.escape(place) + r"(?![\w-])", line):
            yield f"a path of this machine: {place}"
    for found in HOMES.findall(line):
        yield f"a path of a home folder: {found}"
    for found in REGISTRIES.findall(line):
        yield f"a package registry's host name: {found}"
    if LIST.match(line):
        return
    # A link to a list archive ends with a message ID, which looks like an address.
    for found in ADDRESS.findall(re.sub(r"https?://\S+", "", line)):
        if not ALLOWED.search(found) and found not in addresses:
            yield f"an e-mail address: {found}"
