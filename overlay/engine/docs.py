# SPDX-License-Identifier: GPL-2.0
"""Our documentation pages: `make docs`.

Our pages and the pages that lead to them, up to the index of their folder, are
built by the kernel's own makefiles with Sphinx, out of the tree and from
nothing, because Sphinx does not repeat the warnings of a page that it has built
before. The hundreds of other pages beside them would take minutes.

Pages built alone cannot see the others, so Sphinx complains of every link to
them. Such a complaint counts only if the rest of Documentation/ has no such
page or label. What Sphinx says of the same pages without us is upstream's, not
ours.
"""

import collections
import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from engine import build, host, lay, source
from engine.host import UserError
from engine.ktap import FAIL, PASS, Case
from engine.lay import Item
from engine.source import Source

PACKAGES = ("python3-sphinx", "python3-yaml", "make", "gcc")
DOCS = PurePosixPath("Documentation")
# Folders, and the pages in them that are built.
Plan = dict[str, list[str]]
ABI = DOCS / "ABI"


# -- what to build ----------------------------------------------------------

def pages(items: list[Item]) -> list[str]:
    """Our pages, and the ones of others that we change.

    A text such as kernel-parameters.txt is part of the page that includes it.
    """
    return sorted({item.target for item in items
                   if PurePosixPath(item.target).is_relative_to(DOCS)
                   and not PurePosixPath(item.target).is_relative_to(ABI)
                   and item.target.endswith((".rst", ".txt"))})


def sources(items: list[Item]) -> list[str]:
    """Our files with comments that a page may show."""
    return sorted({item.target for item in items
                   if item.target.endswith((".c", ".h"))})


def abi_files(items: list[Item]) -> list[str]:
    """Our descriptions of files in sysfs and the like."""
    return sorted({item.target for item in items
                   if PurePosixPath(item.target).is_relative_to(ABI)
                   and item.target != str(ABI / "README")})


def folder(target: str, tree: Path) -> str | None:
    """The nearest folder above a page that has an index, or None."""
    for above in PurePosixPath(target).relative_to(DOCS).parents:
        if str(above) != "." and (tree / DOCS / above / "index.rst").exists():
            return str(above)
    return None


def plan(targets: list[str], tree: Path) -> Plan:
    """What to build: folder -> pages in it, as paths from the folder."""
    found: dict[str, set[str]] = {}
    for target in targets:
        where = folder(target, tree)
        if where:
            name = PurePosixPath(target).relative_to(DOCS / where)
            found.setdefault(where, set()).add(str(name))
    return {where: leading_to(tree / DOCS / where, names)
            for where, names in sorted(found.items())}


def leading_to(top: Path, names: Iterable[str]) -> list[str]:
    """These pages and all that lead to them: what includes or lists them."""
    texts = {str(path.relative_to(top)): path.read_text("utf-8", "replace")
             for path in sorted(top.rglob("*.rst"))}
    wanted = {"index.rst"}
    new = set(names)
    while new:
        wanted |= new
        new = {page for page, text in texts.items() if page not in wanted
               and any(_mentions(page, text, name) for name in new)}
    return sorted(name for name in wanted if name.endswith(".rst"))


def _mentions(page: str, text: str, name: str) -> bool:
    """Whether a page lists another in a toctree, or includes it."""
    above = PurePosixPath(page).parent
    try:
        name = str(PurePosixPath(name).relative_to(above))
    except ValueError:
        return False
    word = re.escape(name.removesuffix(".rst"))
    return re.search(rf"^ +{word}(\.rst)?$|<{word}>$|include:: *{word}",
                     text, re.MULTILINE) is not None


def read(items: list[Item], tree: Path, wanted: Plan) -> list[Item]:
    """Our files that Sphinx reads for these pages.

    Pages, and what a page names, such as a source of comments that it shows.
    """
    text = "".join((tree / DOCS / where / name).read_text("utf-8", "replace")
                   for where, names in wanted.items() for name in names
                   if (tree / DOCS / where / name).exists())
    return [item for item in items if item.target in text
            or PurePosixPath(item.target).is_relative_to(DOCS)]


# -- Sphinx -----------------------------------------------------------------

def sphinx(tree: Path, wanted: Plan, into: Path, log: Path) -> tuple[str, bool]:
    """Build these pages from a tree; what Sphinx said, and if it failed."""
    host.remove(into)
    into.mkdir(parents=True)
    output, failed = "", False
    for where, names in wanted.items():
        # A tree without us lacks the pages that we add.
        there = [name for name in names
                 if (tree / DOCS / where / name).exists()]
        if "index.rst" not in there:
            continue
        done = host.run(
            ["make", "-C", tree, f"O={into}", f"SPHINXDIRS={where}",
             f"SPHINXOPTS=-j{host.jobs()} -D "
             f"include_patterns={','.join(there)}",
             "SPHINXBUILD=/usr/bin/sphinx-build", "PYTHON3=/usr/bin/python3",
             "htmldocs"], log=log, check=False, progress=Progress(),
            what=f"make htmldocs for {where}")
        output += done.stdout
        failed = failed or bool(done.returncode)
    return output, failed


class Progress:
    """Shows that Sphinx, which is silent when all is well, goes on."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, line: str) -> str:
        self.count += 1
        return f"{self.count} lines from Sphinx"


def complaints(text: str, tree: Path) -> collections.Counter[str]:
    """Warnings and errors as a multiset of (file, what) without numbers.

    What is said of Documentation/ABI as a whole, once for each folder with a
    page that names a file in sysfs, counts once.
    """
    found: collections.Counter[str] = collections.Counter()
    prefix = f"{tree}/"
    for line in text.splitlines():
        if not re.search(r"\b(WARNING|ERROR|SEVERE|CRITICAL|error):", line,
                         re.IGNORECASE):
            continue
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line).replace(prefix, "")
        plain = re.sub(r"(?<=[\w.]):\d+", "", plain).strip()
        if found[plain] and re.search(r" is defined \d+ times: ", plain):
            continue
        found[plain] += 1
    return found


class Labels:
    """Pages and labels of the whole of Documentation/."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    @functools.cached_property
    def _labels(self) -> dict[str, list[str]]:
        """Each label with the pages that define it."""
        known: dict[str, list[str]] = {}
        for path in sorted((self.tree / DOCS).rglob("*.rst")):
            page = str(path.relative_to(self.tree))
            for name in labels_in(path.read_text("utf-8", "replace")):
                known.setdefault(name, []).append(page)
        return known

    def elsewhere(self, complaint: str) -> bool:
        """Whether a link only leads to what was not built."""
        label = re.search(r"undefined label: '?([^'\s]+)", complaint)
        if label:
            return label.group(1).strip("'\"").lower() in self._labels
        page = re.search(r"(?:unknown|nonexisting|excluded) document:? "
                         r"'?([^'\s]+)", complaint)
        if not page:
            return False
        name = page.group(1).strip("'\"")
        here = complaint.partition(".rst:")[0]
        base = self.tree / DOCS if name.startswith("/") else \
            (self.tree / here).parent
        return (base / f"{name.lstrip('/')}.rst").is_file()

    def twice(self, target: str) -> Iterator[str]:
        """Labels of a page that another page has as well.

        Sphinx would say so if it built both.
        """
        for name, pages_of in self._labels.items():
            if target in pages_of and len(pages_of) > 1:
                yield f"label {name} is also in " + ", ".join(
                    page for page in pages_of if page != target)


def labels_in(text: str) -> set[str]:
    """The labels that a page defines."""
    return {name.strip("`").lower() for name in
            re.findall(r"^\s*\.\. _([^:`]+|`[^`]+`):\s*$", text,
                       re.MULTILINE)}


def dead_references(tree: Path, text: str) -> list[str]:
    """Documentation files that a text names and that are not there."""
    named = re.findall(r"\bDocumentation/[\w./-]+?\.(?:rst|txt)\b", text)
    return [f"it names {name}, which is not there"
            for name in sorted(set(named)) if not (tree / name).exists()]


def ours(found: collections.Counter[str], before: collections.Counter[str],
         labels: Labels) -> list[str]:
    """The complaints that are there because of us."""
    return sorted(line for line, count in found.items()
                  if count > before[line] and not labels.elsewhere(line))


def of_file(lines: list[str], target: str) -> list[str]:
    """Those complaints that name a file."""
    return [line for line in lines if target in line]


class Built:
    """Our pages as Sphinx last wrote them, and what it said of them.

    It takes minutes, so what would come out the same is not built again: same
    kernel, same Sphinx, same files of ours that Sphinx reads.
    """

    def __init__(self, tree: Path, wanted: Plan, items: list[Item],
                 out: Path) -> None:
        self.tree, self.wanted, self.log = tree, wanted, out / "log"
        self.into = build.top() / "build" / "docs"
        self.note = build.top() / "build" / "docs.output"
        self.key = self._key(items)

    def _key(self, items: list[Item]) -> str | None:
        kernel = source.kernel()
        if kernel.origin != "debian":
            return None             # a KDIR may change under us
        version = host.output(["/usr/bin/sphinx-build", "--version"])
        key = hashlib.sha256(repr((kernel.version, version,
                                   self.wanted)).encode())
        for item in read(items, self.tree, self.wanted):
            key.update(item.target.encode())
            key.update((self.tree / item.target).read_bytes())
        return key.hexdigest()

    def _kept(self) -> str | None:
        """What Sphinx said when it last built just this, or None."""
        try:
            key, _, output = self.note.read_text("utf-8").partition("\n")
        except OSError:
            return None
        return output if key == self.key and self.into.is_dir() else None

    def output(self) -> tuple[str, bool]:
        """What Sphinx says, and whether it failed."""
        kept = self._kept()
        if kept is not None:
            host.say("    nothing changed since these pages were built")
            host.write(self.log, kept)
            return kept, False
        host.remove(self.note)
        output, failed = sphinx(self.tree, self.wanted, self.into, self.log)
        if self.key and not failed:
            host.write(self.note, f"{self.key}\n{output}")
        return output, failed


# -- upstream's own complaints ----------------------------------------------

def base(kernel: Source, wanted: Plan, log: Path) -> str:
    """What Sphinx says of these pages without us; kept per version."""
    version = host.output(["/usr/bin/sphinx-build", "--version"]) or ""
    key = hashlib.sha256(repr((version, wanted)).encode()).hexdigest()[:16]
    top = build.top() / "build"
    kept = top / "docs.base" / f"{kernel.version}-{key}"
    if kept.exists() and kernel.origin == "debian":
        return kept.read_text(encoding="utf-8")
    into = top / "docs-upstream"
    output, failed = sphinx(kernel.path, wanted, into, log)
    if failed:
        raise UserError("Sphinx cannot build upstream's own pages; see "
                        f"{host.short(log)}")
    host.write(kept, output)
    host.remove(into)
    return output


# -- make docs --------------------------------------------------------------

def _case(name: str, found: list[str]) -> Case:
    return Case(name, FAIL if found else PASS, "\n".join(found))


def html_of(into: Path, target: str) -> Path:
    """Where the page of a target was written."""
    name = PurePosixPath(target).relative_to(DOCS).with_suffix(".html")
    return Path(into) / DOCS / "output" / name


def check_pages(tree: Path, items: list[Item], out: Path) -> list[Case]:
    """Build our pages; a case for each page, and each source they show."""
    kernel, log = source.kernel(), out / "log"
    targets = pages(items)
    if not targets:
        return [Case("pages", FAIL, "the tree has no page in Documentation/")]
    wanted = plan(targets, tree)
    built = Built(tree, wanted, items, out)
    with host.step(f"docs: {' '.join(wanted)}"):
        # Sphinx keeps one processor busy.
        theirs, (text, failed) = host.at_once(lambda job: job(), [
            (functools.partial(base, kernel, wanted, out / "upstream.log"),),
            (built.output,)], 2)
    labels = Labels(tree)
    found = ours(complaints(text, tree), complaints(theirs, kernel.path), labels)
    whole = {item.target for item in items if item.kind == "file"}
    cases = []
    for target in targets:
        lines = _page(found, built.into, target)
        if folder(target, tree) is None:
            lines = ["NOT RUN: no index.rst stands above it"]
        if target in whole:
            text = (tree / target).read_text(encoding="utf-8")
            lines += [*labels.twice(target), *dead_references(tree, text)]
        cases.append(_case(f"page {target}", lines))
    cases += [_case(f"comments in {target}", lines)
              for target in sources(items)
              if (lines := of_file(found, target))]
    named = [*targets, *sources(items)]
    rest = [line for line in found
            if not any(target in line for target in named)]
    cases.append(_case("nothing else is complained of", rest))
    if failed:
        cases.append(Case("make htmldocs", FAIL,
                          f"it failed; see {host.short(log)}"))
    return cases


def _page(found: list[str], into: Path, target: str) -> list[str]:
    lines = of_file(found, target)
    if not lines and target.endswith(".rst") \
            and not html_of(into, target).exists():
        return ["no page was written for it"]
    return lines


def check_abi(tree: Path, items: list[Item], out: Path) -> list[Case]:
    """The kernel's own checker on our files of Documentation/ABI."""
    targets = abi_files(items)
    if not targets:
        return []
    done = host.run(
        ["/usr/bin/python3", tree / "tools" / "docs" / "get_abi.py", "--dir",
         tree / ABI, "validate"], cwd=tree, log=out / "log", check=False,
        what="checking Documentation/ABI")
    return [_case(f"ABI {target}", of_file(done.stdout.splitlines(), target))
            for target in targets]


def main(args: list[str]) -> list[Case]:
    """Build our pages and say what is wrong with them."""
    host.need(*PACKAGES)
    out = host.fresh("docs")
    tree = build.lay_tree()
    items = lay.items()
    cases = check_pages(tree, items, out) + check_abi(tree, items, out)
    host.say(f"    pages in {build.top()}/build/docs/{DOCS}/output")
    return cases
