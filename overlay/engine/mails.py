# SPDX-License-Identifier: GPL-2.0
"""The mails of a series in out/series/, prepared by b4 and never sent.

The kernel requires the Signed-off-by of a person who answers for the patches
(Documentation/process/submitting-patches.rst). The identity in the stored mails is
not a person. SEND=1 refuses to write such mails.
"""

import email
import email.policy
import email.utils
import json
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import nvme, parts, tables
from bench.parts import LINES
from bench.results import Row, bare
from engine import build, host, ktap, lay, repository, rules, source
from engine.host import UserError
from engine.ktap import Case
from engine.repository import NOBODY
from engine.source import Source
from engine.stack import WIDTH, Series, Stack

# In a cover's Bench: line: also print the ratios without the call and the copy. LINES
# before the name of a measurement selects the cache lines of its rows.
BARE = "bare"
# Domains and addresses that belong to no person.
NO_PERSON = re.compile(r"no-?reply|@(?:[\w.-]+\.)?example(?:\.\w+)?$|"
                       r"\.(?:example|invalid|test|localhost|local)$", re.IGNORECASE)
PLACEHOLDER = re.compile(r"^\+M:\s.*<(\S+)>", re.MULTILINE)
AUTHOR = re.compile(r"^From: .*?<(\S+)>", re.MULTILINE | re.DOTALL)
# checkpatch and b4 expect these at the top of a kernel tree.
ANCHORS = ("COPYING", "CREDITS", "Kbuild", "Kconfig", "MAINTAINERS", "Makefile",
           "README", "arch/Kconfig", "Documentation/index.rst", "drivers/Kconfig",
           "fs/Kconfig", "include/linux/kernel.h", "init/Kconfig", "ipc/Makefile",
           "kernel/Makefile", "lib/Kconfig", "LICENSES/", "scripts/")


def is_stand_in(address: str) -> bool:
    """Whether an address belongs to no person."""
    return "@" not in address or NO_PERSON.search(address) is not None


def check_sender(everything: Iterable[Series]) -> None:
    """Refuse SEND=1 for mails that name no person as author or maintainer."""
    if os.environ.get("SEND", "") in ("", "0"):
        return
    for one in everything:
        for path in one.mails:
            found = AUTHOR.search(path.read_text("utf-8"))
            if found and is_stand_in(found[1]):
                raise UserError(
                    f"SEND=1: the author <{found[1]}> of {host.short(path)} is not a "
                    "person; CONTRIBUTING.md shows how to sign the series")
    maintainers = rules.text_of(host.ROOT / "MAINTAINERS.patch") or ""
    for address in PLACEHOLDER.findall(maintainers):
        if is_stand_in(address):
            raise UserError(f"SEND=1: MAINTAINERS.patch names <{address}> as a "
                            "maintainer, and that is not a person")


def base_text(kernel: Source) -> str:
    """Describe the base of the series."""
    if kernel.is_git:
        return f"Linux {kernel.version} (commit {kernel.head})"
    return f"Linux {kernel.version}"


def base_line(kernel: Source, one: Series) -> str:
    """Return the machine-readable last lines of the cover."""
    line = f"base-commit: {kernel.head}" if kernel.is_git \
        else f"base: Linux {kernel.version}"
    return "\n".join([line, *(f"prerequisite-series: {name}" for name in
                              one.cover.headers.get("requires", "").split())])


def bench_rows(results: list[Row], wanted: str) -> Iterator[Row]:
    """Yield the results that a cover's Bench: line selects."""
    words = wanted.split()
    name = words[0] if words else None
    only = [word.partition("=") for word in words[1:]]
    for result in results:
        params = {**(result.get("params") or {}),
                  "variant": result["variant"]}
        if name and result.get("bench") != name:
            continue
        if all(_word(params.get(key)) in value.split(",")
               for key, _, value in only):
            yield result


def _word(value: Any) -> str:
    """Return the value of a parameter as text."""
    return json.dumps(value) if isinstance(value, bool | None) else str(value)


def _grid(caption: str, params: list[dict[str, Any]], heads: list[str],
          cells: list[list[str]]) -> str:
    """Return a table. The caption contains parameters with one value in all rows."""
    names = sorted({name for one in params for name in one})
    shown = [name for name in names
             if len({_word(one.get(name)) for one in params}) > 1]
    same = [f"{name} {_word(params[0][name])}" for name in names
            if name not in shown and params[0].get(name) is not None]
    grid = [[*shown, *heads], *(
        [*(_word(one[name]) if name in one else "-" for name in shown), *line]
        for one, line in zip(params, cells, strict=True))]
    columns = [[cell.rjust(max(map(len, column))) for cell in column]
               for column in zip(*grid, strict=True) if set(column[1:]) != {"-"}]
    before, after = caption.split("*")
    constants = f" ({', '.join(same)})" if same else ""
    return "\n".join([
        textwrap.fill(f"{before}{constants}{after}:", WIDTH,
                      break_on_hyphens=False), "",
        *(f"  {'  '.join(row)}".rstrip() for row in zip(*columns, strict=True))])


def table(rows: list[Row], every: list[Row] | None = None) -> str:
    """Return a table of variants, each with its ratio to the first one.

    Variants after trimmed passthrough show the ratio to it. With EVERY result, the
    table also shows the ratios without the call and the copy.
    """
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    found: dict[tuple[str, tuple[tuple[str, Any], ...]], dict[str, Row]] = {}
    for row in rows:
        params = tuple(sorted((row.get("params") or {}).items()))
        found.setdefault((row["bench"], params), {})[row["variant"]] = row
    ratios = ["ratio"] if every is None else ["ratio", "bare"]
    heads = [head for name in variants for head in (name, *ratios)]
    del heads[1:1 + len(ratios)]
    lines = []
    for cells in found.values():
        line, first = [], cells.get(variants[0], {})
        for name in variants:
            row = cells.get(name, {})
            line += [f"{row['insn_per_op']:.0f}" if row else "-",
                     _ratio(row.get("insn_per_op"), first.get("insn_per_op"))]
            if every is not None:
                line.append(_ratio(*(bare(every, one) if one else None
                                     for one in (row, first))))
            if name == nvme.TRIMMED:
                first = row
        del line[1:1 + len(ratios)]
        lines.append(line)
    return _grid("Instructions per operation*", [dict(params) for _, params in found],
                 heads, lines)


def _ratio(value: float | None, first: float | None) -> str:
    return f"{value / first:.2f}" if value and first else "-"


def lines_table(rows: list[Row]) -> str:
    """Return a table of cache lines, a row for each variant."""
    return _grid(
        "Cache lines per operation*, of data without the program's own, of code, and "
        "taken from other processors", [row["params"] for row in rows],
        ["variant", "data", "code", "taken"],
        [[row["variant"], f"{row['lines_per_op'] - row['own_lines_per_op']:.1f}",
          f"{row['code_lines_per_op']:.1f}", f"{row['transfers_per_op']:.1f}"]
         for row in rows])


def measured(wanted: str | None) -> str:
    """Return the text for @TABLE@: tables, and the kernel and tree of the figures."""
    data = json.loads(tables.RESULTS.read_text(encoding="utf-8"))
    found: list[str] = []
    counted: set[str] = set()
    every = [one.split() for one in (wanted or "").split(";")]
    for words in every:
        of_lines = words[:1] == [LINES]
        rows = list(bench_rows(data[LINES if of_lines else "results"], " ".join(
            word for word in words[of_lines:] if word != BARE)))
        if not rows:
            raise UserError("overlay/bench/results.json has no row for the table "
                            f"'{' '.join(words)}' of a cover")
        if of_lines:
            found.append(lines_table(rows))
            continue
        found.append(table(rows, data["results"] if BARE in words else None))
        counted.update(map(parts.of, rows))
    if counted:
        found.append(f"Measured on {_origin(data, counted)}.\nInstructions are not "
                     "cycles: cache misses and contended atomics do not\nshow.")
    if [LINES] in (words[:1] for words in every):
        found.append(f"Cache lines of {_origin(data, [LINES])}.\nThey are those of "
                     "a model whose caches are never full, in an emulator. They\n"
                     "stand in for time where there is no hardware, and are not "
                     "time.")
    return "\n\n".join(found)


def _origin(data: dict[str, Any], names: Iterable[str]) -> str:
    """Return the kernel and the tree that the figures of these parts come from."""
    texts, names = list[str](), sorted(names, key=parts.NAMES.index)
    for one in map(data["parts"].get, names):
        text = f"Linux {one['kernel']}"
        if match := re.fullmatch(r"([0-9a-f]{12,})(-dirty)?", one["commit"]):
            text += f", tree at {match[1][:12]}{' with changes' if match[2] else ''}"
        texts.append(text)
    return "; ".join(dict.fromkeys(texts)) + f'\nby make bench ARGS="{" ".join(names)}"'


def tested(out: Path | None = None, since: float = 0) -> str:
    """Return the text for @TESTED@: results in out/ that are newer than our files."""
    lines = []
    for path in sorted((out or host.OUT).glob("*/junit.xml")):
        step = path.parent.name
        if path.stat().st_mtime >= since and step not in ("series", "check"):
            lines.append(f"  {step}: {ktap.total(ktap.read(path))}")
    return "\n".join(lines) or "  (no results in out/: run `make check`)"


def cover_text(one: Series, kernel: Source) -> str:
    """Return the cover letter with its placeholders filled in."""
    text = one.cover.body
    newest = max(((host.ROOT / item.path).stat().st_mtime for item in lay.items()),
                 default=0)
    values: dict[str, Callable[[], str]] = {
        "@BASE@": lambda: base_text(kernel),
        "@TABLE@": lambda: measured(one.cover.headers.get("bench")),
        "@TESTED@": lambda: tested(since=newest),
    }
    for word, value in values.items():
        if word in text:
            text = text.replace(word, value())
    return f"{one.cover.subject}\n\n{text}"


class Mailer:
    """b4 in a sparse clone of the repository, with a branch for each series."""

    def __init__(self, stack: Stack, log: Path) -> None:
        self.stack, self.log = stack, log
        self.kernel = source.kernel()
        self.path = build.top() / "build" / "mails"
        self.program = host.pytool("b4")
        self._clone()

    def env(self) -> dict[str, str]:
        """Return the environment of b4 and git, without settings of the user."""
        home = str(self.path / ".git" / "home")
        return {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "XDG_CACHE_HOME": home,
                "XDG_DATA_HOME": home, "XDG_CONFIG_HOME": home,
                # Debian's python3 can import ply for spdxcheck.
                "PATH": "/usr/bin:/bin:" + os.environ.get("PATH", "")}

    def run(self, *cmd: object, env: dict[str, str] | None = None,
            what: str = "") -> host.Done:
        """Run a command in the clone."""
        return host.run(cmd, cwd=self.path, log=self.log,
                        env={**self.env(), **(env or {})}, what=what or None)

    def _clone(self) -> None:
        host.remove(self.path)
        # The repository may lack a branch to check out.
        host.run(["git", "clone", "--quiet", "--shared", "--no-checkout", "--no-tags",
                  repository.PATH, self.path], log=self.log,
                 env=repository.environment(), what="git clone")
        touched = repository.changed(self.stack.base, self.stack.top)
        self.run("git", "sparse-checkout", "set", "--no-cone",
                 *(f"/{name}" for name in (*ANCHORS, *touched)))
        author = repository.git("log", "-1", "--format=%an%n%ae", self.stack.top)
        self.name, self.address = author.split("\n")
        for key, value in {
                **repository.FIXED, "user.name": self.name, "user.email": self.address,
                "sendemail.smtpserver": "localhost", "b4.send-no-patatt-sign": "yes",
                "b4.send-series-to": NOBODY, "b4.send-auto-to-cmd": f"echo {NOBODY}",
                "b4.send-auto-cc-cmd": "true",
        }.items():
            self.run("git", "config", key, value)

    def b4(self, *args: object, env: dict[str, str] | None = None) -> host.Done:
        """Run b4 without a network."""
        return self.run(self.program, "-n", "--offline-mode", *args, env=env,
                        what=f"b4 {args[0]}")

    def prepare(self, one: Series) -> None:
        """Create the branch of a series with its cover letter."""
        private = self.path / ".git"
        below = self.stack.below(one.name)
        self.run("git", "checkout", "--quiet", "--force", "-B", f"b4/{one.name}",
                 self.stack.tips[one.name])
        template, letter = private / "cover-template", private / "cover"
        # The template of b4 would name a commit of this clone as the base.
        host.write(template, "${cover}\n\n---\n${shortlog}\n\n${diffstat}\n---\n"
                   + base_line(self.kernel, one)
                   + "\nchange-id: ${change_id}\n")
        host.write(letter, cover_text(one, self.kernel))
        self.run("git", "config", "b4.prep-cover-template", template)
        self.b4("prep", "-e", below)
        if prefix := one.cover.headers.get("prefix"):
            self.b4("prep", "--set-prefixes", prefix)
        self.b4("prep", "--edit-cover",
                env={"GIT_EDITOR": f"cp {shlex.quote(str(letter))}"})

    def write(self, out: Path) -> list[Path]:
        """Let b4 write the mails into a directory; nothing is sent."""
        host.remove(out)
        out.mkdir(parents=True)
        self.b4("send", "--no-trailer-to-cc", "-o", out)
        return sorted(out.glob("*.eml"))


def write(chosen: list[Series], stack: Stack, out: Path) -> list[Case]:
    """Write the mails of some series; returns their cases."""
    mailer = Mailer(stack, out / "log")
    cases = []
    for one in chosen:
        host.Status.show(f"b4 for {one.name}")
        try:
            mailer.prepare(one)
            written = mailer.write(out / one.name)
        except UserError as error:
            cases.append(Case(f"{one.name}: b4", "fail", str(error)))
            continue
        # b4 puts the cover of a single patch below its message.
        count = len(one.mails) + 1 if len(one.mails) > 1 else 1
        wrong = list(mail_complaints(
            written, count, mailer.address, mailer.kernel.is_git))
        if wrong:
            # Nobody can send them by mistake.
            host.remove(out / one.name)
        cases.append(Case(f"{one.name}: the mails go to nobody",
                          "fail" if wrong else "pass", "\n".join(wrong)))
    host.say(f"    branches b4/* in {mailer.path}")
    if is_stand_in(mailer.address):
        host.say(f"    the author {mailer.name} is not a person: these mails must not "
                 "be sent (CONTRIBUTING.md)")
    return cases


def stray_addresses(path: Path, own: str) -> list[str]:
    """Return recipients that are not the placeholder; rules.py checks the text."""
    with open(path, "rb") as file:
        mail = email.message_from_binary_file(file,
                                              policy=email.policy.default)
    found = []
    for key in ("To", "Cc", "Bcc", "Reply-To", "From", "Sender"):
        allowed = {NOBODY} | ({own} if key in ("From", "Sender") else set())
        pairs = email.utils.getaddresses(mail.get_all(key, []))
        found += [f"{key}: {address}" for _, address in pairs
                  if address not in allowed]
    return found


def mail_complaints(mails: list[Path], count: int, own: str,
                    is_git: bool) -> Iterator[str]:
    """Yield the errors in the mails of one series."""
    if len(mails) != count:
        yield f"{len(mails)} mails were written where {count} were expected"
    for path in mails:
        for found in stray_addresses(path, own):
            yield f"{path.name} has an address that is not {NOBODY}: {found}"
        text = path.read_text(encoding="utf-8", errors="replace")
        if not re.search(r"^To: .*" + re.escape(NOBODY), text, re.MULTILINE):
            yield f"{path.name} is not addressed to {NOBODY}"
        if not is_git and re.search(r"^base-commit:", text, re.MULTILINE):
            yield f"{path.name} states a base-commit that does not exist elsewhere"
        if "EDITME" in text or re.search(r"@(BASE|TABLE|TESTED)@", text):
            yield f"{path.name} still contains a placeholder"
