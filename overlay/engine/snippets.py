# SPDX-License-Identifier: GPL-2.0
"""C in our pages and headers: every example compiles.

A code block with an #include is a program of its own. The other blocks of a page
form the body of one function, in their order. The client header compiles as C++.
"""

import re
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path

from engine import build, host
from engine.ktap import FAIL, PASS, Case

PACKAGES = ("gcc", "g++", "make", "rsync", "liburing-dev")
CLIENT = "tools/nvme/uq_cq.h"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-O2", "-Wno-unused-variable",
            "-Wno-unused-parameter", "-Wno-unused-but-set-variable")
# The variables that the pages introduce in prose.
PRELUDE = """\
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/nvme_ioctl.h>
#include <linux/nvme_uq.h>

int page(int fd, struct nvme_uring_cmd *cmd, uint32_t entries_mapped);
int page(int fd, struct nvme_uring_cmd *cmd, uint32_t entries_mapped)
{
"""


def blocks(text: str) -> list[str]:
    """Return the C code blocks of a page."""
    found = re.findall(r"^( *)\.\. code-block:: c\n\n((?:\1 +.*\n|\n)+)", text,
                       re.MULTILINE)
    return [textwrap.dedent(block).strip("\n") + "\n" for _, block in found]


def programs(text: str) -> list[str]:
    """Return the C files that a page contains."""
    whole = [block for block in blocks(text) if "#include" in block]
    parts = [block for block in blocks(text) if "#include" not in block]
    if parts:
        whole.append(f"{PRELUDE}{''.join(parts)}return 0;\n}}\n")
    return whole


def _compile(compiler: str, path: Path, headers: Path, log: Path) -> str:
    """Return the messages of a compiler; no message is success."""
    done = host.run([compiler, *WARNINGS, "-isystem", headers, "-c", "-o", "/dev/null",
                     path], log=log, check=False, what=f"{compiler} of {path.name}")
    return done.stdout if done.returncode else ""


def _headers(tree: Path, log: Path) -> Path:
    """Install the kernel's headers; return their directory."""
    into = build.top() / "build" / "headers"
    host.run(["make", "-C", tree, f"O={into}", "headers"], log=log,
             progress=lambda _: None, what="make headers")
    return into / "usr" / "include"


def check(tree: Path, pages: Iterable[str], out: Path) -> list[Case]:
    """Compile the examples of our pages, and the client header as C++."""
    host.need(*PACKAGES)
    log = out / "snippets.log"
    headers = _headers(tree, log)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            said = ""
            found = programs((tree / page).read_text(encoding="utf-8"))
            for number, text in enumerate(found):
                path = Path(folder) / f"{Path(page).stem}-{number}.c"
                path.write_text(text, encoding="utf-8")
                said += _compile("gcc", path, headers, log)
            if found:
                cases.append(Case(f"snippets of {page}", FAIL if said else PASS, said))
        if (tree / CLIENT).exists():
            path = Path(folder) / "client.cc"
            path.write_text(f'#include "{tree / CLIENT}"\n', encoding="utf-8")
            said = _compile("g++", path, headers, log)
            cases.append(Case(f"{CLIENT} as C++", FAIL if said else PASS, said))
    return cases
