# SPDX-License-Identifier: GPL-2.0
"""Our documentation pages: `make docs`.

The kernel's makefiles build our pages and the pages that lead to them with Sphinx, in
a new directory: Sphinx does not repeat the warnings of a page that it built before.

Sphinx complains of links to pages that were not built. Such a complaint counts only
if Documentation/ lacks the page or label. Complaints about upstream's own text do not
count.
"""

import collections
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from engine import build, host, lay, repository, snippets, source, store
from engine.host import UserError
from engine.ktap import FAIL, PASS, Case
from engine.lay import Item

PACKAGES = ("python3-sphinx", "python3-yaml", "make", "gcc")
DOCS = PurePosixPath("Documentation")
# Directories, and the pages in them that are built.
Plan = dict[str, list[str]]
ABI = DOCS / "ABI"


def pages(items: list[Item]) -> list[str]:
    """Return the pages, and texts that pages include, that we add or change."""
    return sorted({item.target for item in items
                   if PurePosixPath(item.target).is_relative_to(DOCS)
                   and not PurePosixPath(item.target).is_relative_to(ABI)
                   and item.target.endswith((".rst", ".txt"))})


def sources(items: list[Item]) -> list[str]:
    """Return our files whose comments a page may show."""
    return sorted({item.target for item in items
                   if item.target.endswith((".c", ".h"))})


def abi_files(items: list[Item]) -> list[str]:
    """Return our files in Documentation/ABI."""
    return sorted({item.target for item in items
                   if PurePosixPath(item.target).is_relative_to(ABI)
                   and item.target != str(ABI / "README")})


def folder(target: str, tree: Path) -> str | None:
    """Return the nearest directory above a page with an index, or None."""
    for above in PurePosixPath(target).relative_to(DOCS).parents:
        if str(above) != "." and (tree / DOCS / above / "index.rst").exists():
            return str(above)
    return None


def plan(targets: list[str], tree: Path) -> Plan:
    """Return the pages to build in each directory."""
    found: dict[str, set[str]] = {}
    for target in targets:
        where = folder(target, tree)
        if where:
            name = PurePosixPath(target).relative_to(DOCS / where)
            found.setdefault(where, set()).add(str(name))
    return {where: leading_to(tree / DOCS / where, names)
            for where, names in sorted(found.items())}


def leading_to(top: Path, names: Iterable[str]) -> list[str]:
    """Return these pages, and all pages that include or list them."""
    texts = {PurePosixPath(path.relative_to(top)): path.read_text("utf-8", "replace")
             for path in top.rglob("*.rst")}
    wanted: set[PurePosixPath] = set()
    new = {PurePosixPath("index.rst"), *map(PurePosixPath, names)}
    while new:
        wanted |= new
        new = {page for page, text in texts.items() if page not in wanted and any(
            _mentions(text, name.relative_to(page.parent)) for name in new
            if name.is_relative_to(page.parent))}
    return sorted(str(name) for name in wanted if name.suffix == ".rst")


def _mentions(text: str, name: PurePosixPath) -> bool:
    """Return whether a page lists another in a toctree, or includes it."""
    word = re.escape(str(name.with_suffix("")))
    return re.search(rf"^ +{word}(\.rst)?$|<{word}>$|include:: *{word}",
                     text, re.MULTILINE) is not None


def sphinx(tree: Path, wanted: Plan, into: Path, log: Path) -> tuple[str, bool]:
    """Build pages of a tree; return Sphinx's output, and whether it failed."""
    host.remove(into)
    into.mkdir(parents=True)
    output, failed = "", False
    for where, names in wanted.items():
        # Upstream's tree lacks our pages.
        there = [name for name in names if (tree / DOCS / where / name).exists()]
        if "index.rst" not in there:
            continue
        done = host.run(
            ["make", "-C", tree, f"O={into}", f"SPHINXDIRS={where}",
             f"SPHINXOPTS=-j{host.jobs()} -D include_patterns={','.join(there)}",
             "SPHINXBUILD=/usr/bin/sphinx-build", "PYTHON3=/usr/bin/python3",
             "htmldocs"], log=log, check=False,
            progress=lambda _: None, what=f"make htmldocs for {where}")
        output += done.stdout
        failed = failed or bool(done.returncode)
    return output, failed


def complaints(text: str, tree: Path) -> collections.Counter[str]:
    """Count warnings and errors, without line numbers.

    Complaints about Documentation/ABI come once for each directory, and count once.
    """
    found: collections.Counter[str] = collections.Counter()
    for line in text.splitlines():
        if not re.search(r"\b(WARNING|ERROR|SEVERE|CRITICAL):", line, re.IGNORECASE):
            continue
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line).replace(f"{tree}/", "")
        plain = re.sub(r"(?<=[\w.]):\d+", "", plain).strip()
        if not (found[plain] and re.search(r" is defined \d+ times: ", plain)):
            found[plain] += 1
    return found


def labels(tree: Path) -> dict[str, list[str]]:
    """Return all labels in Documentation/, and the pages that define them."""
    known: dict[str, list[str]] = {}
    for path in sorted((tree / DOCS).rglob("*.rst")):
        for name in re.findall(r"^\s*\.\. _([^:`]+|`[^`]+`):\s*$",
                               path.read_text("utf-8", "replace"), re.MULTILINE):
            known.setdefault(name.strip("`").lower(), []).append(
                str(path.relative_to(tree)))
    return known


def elsewhere(tree: Path, known: Iterable[str], complaint: str) -> bool:
    """Return whether a complaint is about a link to a page that was not built."""
    if label := re.search(r"undefined label: '?([^'\s]+)", complaint):
        return label.group(1).strip("'\"").lower() in known
    page = re.search(r"(?:unknown|nonexisting|excluded) document:? '?([^'\s]+)",
                     complaint)
    if not page:
        return False
    name = page.group(1).strip("'\"")
    base = tree / DOCS if name.startswith("/") else \
        (tree / complaint.partition(".rst:")[0]).parent
    return (base / f"{name.lstrip('/')}.rst").is_file()


def text_of(tree: Path, target: str, known: dict[str, list[str]]) -> list[str]:
    """Report labels that another page defines, and names of missing pages."""
    found = [f"label {name} is also in "
             f"{', '.join(page for page in there if page != target)}"
             for name, there in known.items() if target in there and len(there) > 1]
    named = re.findall(r"\bDocumentation/[\w./-]+?\.(?:rst|txt)\b",
                       (tree / target).read_text("utf-8"))
    return found + [f"it names {name}, which is not there"
                    for name in sorted(set(named)) if not (tree / name).exists()]


def ours(found: collections.Counter[str], before: collections.Counter[str],
         tree: Path, known: Iterable[str]) -> list[str]:
    """Return the complaints that upstream's tree does not cause."""
    return sorted(line for line in found - before
                  if not elsewhere(tree, known, line))


def of_file(lines: Iterable[str], target: str) -> list[str]:
    """Return the complaints that name a file."""
    return [line for line in lines if target in line]


def _case(name: str, found: list[str]) -> Case:
    return Case(name, FAIL if found else PASS, "\n".join(found))


def html_of(into: Path, target: str) -> Path:
    """Return the path of the written page of a target."""
    name = PurePosixPath(target).relative_to(DOCS).with_suffix(".html")
    return Path(into) / DOCS / "output" / name


def check_pages(tree: Path, items: list[Item], out: Path) -> list[Case]:
    """Build our pages; return a case for each page, and each source they show."""
    kernel, top = source.kernel(), build.top() / "build"
    targets, shown = pages(items), sources(items)
    if not targets:
        return [Case("pages", FAIL, "the tree has no page in Documentation/")]
    wanted = plan(targets, tree)
    with host.step(f"docs: {' '.join(wanted)}"):
        # Sphinx keeps one processor busy.
        (theirs, broken), (text, failed) = host.at_once(sphinx, [
            (kernel.path, wanted, top / "docs-upstream", out / "upstream.log"),
            (tree, wanted, top / "docs", out / "log")], 2)
    if broken:
        raise UserError("Sphinx cannot build upstream's own pages; see "
                        f"{host.short(out / 'upstream.log')}")
    known = labels(tree)
    found = ours(complaints(text, tree), complaints(theirs, kernel.path), tree, known)
    whole = {item.target for item in items if item.kind == "file"}
    cases = []
    for target in targets:
        lines = of_file(found, target)
        if folder(target, tree) is None:
            lines = ["NOT RUN: no index.rst stands above it"]
        elif not lines and target.endswith(".rst") \
                and not html_of(top / "docs", target).exists():
            lines = ["no page was written for it"]
        if target in whole:
            lines += text_of(tree, target, known)
        cases.append(_case(f"page {target}", lines))
    cases += [_case(f"comments in {target}", lines) for target in shown
              if (lines := of_file(found, target))]
    cases.append(_case("nothing else is complained of", [
        line for line in found
        if not any(target in line for target in (*targets, *shown))]))
    if failed:
        cases.append(Case("make htmldocs", FAIL,
                          f"it failed; see {host.short(out / 'log')}"))
    return cases


def check_abi(tree: Path, items: list[Item], out: Path) -> list[Case]:
    """Run the kernel's checker on our files of Documentation/ABI."""
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
    """Build and check our pages."""
    host.need(*PACKAGES)
    out = host.fresh("docs")
    tree = build.lay_tree()
    items = lay.items()
    built = build.top() / "build" / "docs" / DOCS / "output"
    # A page can include a comment of any of our files.
    key = store.digest([repository.tree_of(lay.current()), store.installed(),
                        store.of_file(__file__), store.of_file(snippets.__file__),
                        ]) if built.exists() else None
    cases = store.once("docs", key, lambda: [
        *check_pages(tree, items, out), *check_abi(tree, items, out),
        *snippets.check(tree, pages([item for item in items if item.kind == "file"]),
                        out)])
    host.say(f"    pages in {built}")
    return cases
