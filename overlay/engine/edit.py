# SPDX-License-Identifier: GPL-2.0
"""Edit the series with git: `make edit`, `make save` and `make rebase ONTO=`.

`make edit` creates a work tree of the kernel outside the clone: the base commit,
one branch per series, stacked in order. `make save` writes the tree form and the
mails from these commits back into the clone. An edit of a final file in the clone
is first moved into the work tree, and git absorb finds the commit that it fixes.

Two kinds of refs describe the last state in which clone and work tree matched:
refs/overlay/saved/NAME, the tip of each series, and refs/overlay/taken, the laid
commit of the clone's files. Neither side is overwritten while it differs from them.
"""

import os
import re
import tempfile
from pathlib import Path

from engine import host, lay, repository, source
from engine import stack as series
from engine.host import UserError
from engine.stack import Stack

PATH = Path(os.environ.get("EDIT_TREE") or host.WORK / "edit")
SCRATCH = host.WORK / "build" / "parts" / "tree"
SAVED = "refs/overlay/saved"
TAKEN = "refs/overlay/taken"
MAILS = PATH.with_name(f"{PATH.name}.mails")
PACKAGES = ("git", "git-absorb")


def _git(*args: object) -> str:
    return repository.git(*args, at=PATH)


def exists() -> bool:
    """Whether `make edit` has created the work tree."""
    return (PATH / ".git").exists()


def _saved() -> dict[str, str]:
    """Return the saved tip of each series."""
    text = repository.git("for-each-ref",
                          "--format=%(refname:lstrip=3) %(objectname)", SAVED)
    return dict(line.split() for line in text.splitlines())


def _branches() -> dict[str, str]:
    """Return the branches that users edit, with their tips."""
    text = repository.git("for-each-ref",
                          "--format=%(refname:lstrip=2) %(objectname)", "refs/heads")
    found = dict(line.split() for line in text.splitlines())
    found.pop("base", None)
    return found


def _busy() -> str | None:
    """Return why the work tree is not at a commit, or None."""
    for name, command in (("rebase-merge", "rebase"), ("rebase-apply", "rebase"),
                          ("CHERRY_PICK_HEAD", "cherry-pick"), ("MERGE_HEAD", "merge")):
        if Path(PATH, _git("rev-parse", "--git-path", name)).exists():
            return f"a git {command} is not finished there"
    edited = repository.edited(PATH)
    return edited and f"{edited} has an uncommitted change"


def _must_be_idle() -> None:
    if why := _busy():
        raise UserError(f"{PATH}: {why}: finish it (git rebase --continue, or git "
                        "commit --fixup=COMMIT), or discard it")


def unsaved() -> str | None:
    """Return why the work tree contains work that is not in the clone, or None."""
    if not exists():
        return None
    if why := _busy():
        return why
    old, new = _saved(), _branches()
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            return f"branch {name} has commits that are not saved"
    return None


def _base() -> str:
    """Return the base commit of the branches."""
    return _git("rev-list", "--max-parents=0", "HEAD")


def branches() -> Stack:
    """Return the branches as a stack; refuses a shape that mails cannot express."""
    names, there = series.order(), _branches()
    for name in sorted(there.keys() - set(names)):
        raise UserError(f"branch {name} is not listed in overlay/series/order: add a "
                        f"line there and write overlay/series/{name}/{series.COVER}")
    root = ""
    below = None
    for name in names:
        if name not in there:
            raise UserError(f"overlay/series/order lists {name}, and {PATH} has no "
                            "branch with this name")
        if below is None:
            root = repository.git("rev-list", "--max-parents=0", there[name])
            below = root
        if repository.run("merge-base", "--is-ancestor", below, there[name],
                          check=False).returncode:
            raise UserError(f"branch {name} is not stacked on the series before it: "
                            "rebase with --update-refs, or move the branch")
        below = there[name]
    found = Stack(root, {name: there[name] for name in names})
    _check_shape(found)
    return found


def _check_shape(found: Stack) -> None:
    if "\n" in found.base or repository.git("rev-list", "--merges",
                                            f"{found.base}..{found.top}"):
        raise UserError("the branches contain a merge, and mails cannot express one")
    head = _git("rev-parse", "HEAD")
    known = repository.git("rev-list", f"{found.base}..{found.top}").split()
    if head not in (*known, found.base):
        raise UserError(f"HEAD of {PATH} has commits that are on no branch of a series")


def _note(found: Stack, everything: list[series.Series], taken: str) -> None:
    """Note that clone and work tree match."""
    for name in _saved().keys() - found.tips.keys():
        repository.git("update-ref", "-d", f"{SAVED}/{name}")
    for name, tip in found.tips.items():
        repository.git("update-ref", f"{SAVED}/{name}", tip)
    repository.git("update-ref", TAKEN, taken)
    repository.git("update-ref", "refs/heads/base", found.base)
    host.write(MAILS, f"{series.digest(everything)}\n")


def _same_mails(everything: list[series.Series]) -> bool:
    return MAILS.exists() and MAILS.read_text("ascii").strip() \
        == series.digest(everything)


def _identity() -> None:
    """Let commits in the work tree use the identity of the clone."""
    for key in ("user.name", "user.email"):
        text = host.output(["git", "-C", host.ROOT, "config", key])
        if text and text.strip():
            repository.git("config", key, text.strip())


def _create(everything: list[series.Series]) -> None:
    """Apply the mails and let the branches point at them."""
    why = unsaved()
    if why:
        raise UserError(f"overlay/series changed, and {PATH} contains unsaved work "
                        f"({why}): save it from the clone that it belongs to, or "
                        f"remove {PATH}")
    base = repository.base(source.kernel())
    with host.step("applying the mails with git am"):
        found = series.apply(everything, base, SCRATCH)
    for name in _branches().keys() - found.tips.keys():
        repository.git("update-ref", "-d", f"refs/heads/{name}")
    top = list(found.tips)[-1]
    if exists():
        repository.run("checkout", "--quiet", "--detach", found.top, at=PATH)
    else:
        with host.step(f"creating the work tree {PATH}"):
            repository.checkout(PATH, found.top)
    _identity()
    for name, tip in found.tips.items():
        repository.git("update-ref", f"refs/heads/{name}", tip)
    repository.run("checkout", "--quiet", top, at=PATH)
    _note(found, everything, repository.commit(
        repository.tree_of(found.top), "saved", found.base))


def _refresh() -> list[series.Series]:
    """Create the work tree, or bring it to the clone's mails."""
    everything = series.read()
    if not (exists() and _same_mails(everything)):
        _create(everything)
    return everything


def main(args: list[str]) -> None:
    """Create or refresh the work tree, and print its path."""
    _refresh()
    host.say(f"{PATH}\n"
             f"    one branch per series on branch base: edit, then commit with\n"
             "    git commit --fixup=COMMIT (or git absorb --base base); fold with\n"
             "    git rebase -i --autosquash --update-refs base\n"
             "    `make save` writes the tree and the mails; EDIT=1 makes other\n"
             "    commands build and test this work tree, with uncommitted changes")


def _take_from_clone() -> None:
    """Move edits of the clone's final files into the work tree.

    Raises UserError if a person has to choose the commit.
    """
    laid = lay.laid(source.kernel())
    if repository.tree_of(laid) == repository.tree_of(TAKEN):
        return
    host.need(*PACKAGES)
    _must_be_idle()
    if repository.git("rev-list", "--max-parents=0", laid) != _base():
        raise UserError("the clone has an edit, and the series in "
                        f"{PATH} are on another kernel: undo the edit in the clone, "
                        "and make it there")
    # The change of the clone's files since the last save.
    with tempfile.NamedTemporaryFile(suffix=".patch") as file:
        text = repository.run("diff", "--binary", "--full-index", TAKEN, laid).stdout
        Path(file.name).write_text(text, encoding="utf-8")
        done = repository.run("apply", "--3way", "--index", file.name, at=PATH,
                              check=False)
    if done.returncode:
        repository.run("reset", "--quiet", "--hard", at=PATH)
        raise UserError("an edit of the clone conflicts with commits in "
                        f"{PATH}: make the same edit there, and undo it in the clone")
    repository.git("update-ref", TAKEN, laid)
    before = _git("rev-parse", "HEAD")
    host.run(["git", "absorb", "--force", "--base", _base()], cwd=PATH,
             env={**repository.environment(), **_committer()}, log=repository.LOG,
             what="git absorb")
    for line in _git("log", "--reverse", "--format=%s", f"{before}..HEAD").splitlines():
        host.say(f"    your edit belongs to: {line.removeprefix('fixup! ')}")
    name = repository.edited(PATH)
    if name:
        raise UserError(f"git absorb finds no single commit for the edit of {name}: it "
                        f"is now an uncommitted change in {PATH}; commit it there with "
                        "git commit --fixup=COMMIT, then run `make save` again")


def _committer() -> dict[str, str]:
    """Return an identity for commits of a machine whose git has none."""
    named = repository.run("var", "GIT_COMMITTER_IDENT", at=PATH, check=False)
    return {} if named.returncode == 0 else {
        key: value for key, value in repository.ENGINE.items() if "DATE" not in key}


def _fold() -> None:
    """Fold fixup commits into the commits that they fix."""
    base = _base()
    subjects = _git("log", "--format=%s", f"{base}..HEAD")
    if not any(line.startswith(("fixup! ", "squash! ", "amend! "))
               for line in subjects.splitlines()):
        return
    top = series.order()[-1]
    if _git("rev-parse", "--abbrev-ref", "HEAD") != top:
        raise UserError(f"fixup commits are not on the top branch: run `git checkout "
                        f"{top}` in {PATH} and move them there")
    with host.step("git rebase -i --autosquash --update-refs base"):
        done = repository.run(
            "rebase", "--quiet", "-i", "--autosquash", "--update-refs", base, at=PATH,
            check=False, env={"GIT_SEQUENCE_EDITOR": "true", **_committer()})
    if done.returncode:
        raise UserError(f"git rebase stopped at a conflict in {PATH}: solve it there, "
                        "run `git rebase --continue`, then `make save` again")


def save(args: list[str]) -> None:
    """Write the tree form and the mails, and print the range-diff."""
    if not exists():
        _refresh()
    everything = series.read()
    if not _same_mails(everything):
        _refresh()
    _take_from_clone()
    _must_be_idle()
    _fold()
    found, old = branches(), _saved()
    changed = _write(found)
    _note(found, series.read(), repository.commit(
        repository.tree_of(found.top), "saved", found.base))
    _report(found, old, changed)


def _write(found: Stack) -> list[str]:
    """Write both forms into the clone; returns the paths that changed."""
    changed = lay.write(lay.form(found.base, found.top))
    for name in found.tips:
        into = series.FOLDER / name
        with tempfile.TemporaryDirectory() as folder:
            new = {path.name: path.read_bytes() for path in
                   series.format_mails(found, name, Path(folder) / name)}
        for path in into.glob("[0-9]*.patch"):
            if path.name not in new:
                host.remove(path)
                changed.append(host.short(path))
        for file, content in new.items():
            path = into / file
            if not path.exists() or path.read_bytes() != content:
                host.write(path, content)
                changed.append(host.short(path))
    version = repository.version(found.base)
    if version != source.BASE:
        host.write(host.ROOT / "overlay" / "base", f"{version}\n")
        changed.append("overlay/base")
    return changed


def _report(found: Stack, old: dict[str, str], changed: list[str]) -> None:
    tips = [old[name] for name in series.order() if name in old]
    root = repository.git("rev-list", "--max-parents=0", tips[-1]) if tips else ""
    if tips and tips[-1] not in (root, found.top):
        text = repository.git("range-diff", "--no-color", f"{root}..{tips[-1]}",
                              f"{found.base}..{found.top}")
        for line in text.splitlines():
            if not re.match(r"\s*\d+:\s+\w+ = ", line):
                host.say(line)
    host.say(f"    {len(changed)} files changed in the clone")


def rebase(args: list[str]) -> None:
    """Move all series to another kernel source; stops at a conflict like git."""
    onto = os.environ.get("ONTO")
    if not onto:
        raise UserError("name a kernel source tree: make rebase ONTO=/path/to/linux")
    src = source.tree_at("ONTO", Path(onto).expanduser())
    _refresh()
    why = unsaved()
    if why:
        raise UserError(f"{PATH} contains unsaved work ({why}): run `make save` first")
    if repository.tree_of(lay.laid(source.kernel())) != repository.tree_of(TAKEN):
        raise UserError("the clone has an edit: run `make save` first")
    new, old = repository.base(src), _base()
    top = series.order()[-1]
    repository.run("checkout", "--quiet", top, at=PATH)
    with host.step(f"git rebase --onto Linux {src.version}"):
        done = repository.run("rebase", "--update-refs", "--onto", new, old, top,
                              at=PATH, check=False, env=_committer())
    if done.returncode:
        for line in done.stdout.splitlines():
            if line.startswith(("CONFLICT", "error: could not apply")):
                host.say(f"    {line}")
        raise UserError(f"git rebase stopped at a conflict in {PATH}: solve it there "
                        "and run `git rebase --continue` (or `--abort`), then "
                        "`make save`")
    repository.git("update-ref", "refs/heads/base", new)
    host.say(f"    all series are on Linux {src.version} in {PATH}; `make save` "
             "writes them into the clone")


def snapshot() -> str:
    """Return a commit of the work tree as it is, with uncommitted changes."""
    if not exists():
        raise UserError("EDIT=1 builds the work tree of `make edit`, and there is none")
    index = Path(PATH, _git("rev-parse", "--git-path", "index"))
    with tempfile.TemporaryDirectory(dir=host.WORK) as folder:
        copy = Path(folder) / "index"
        copy.write_bytes(index.read_bytes())
        env = {"GIT_INDEX_FILE": str(copy)}
        repository.run("add", "--all", at=PATH, env=env)
        tree = repository.git("write-tree", at=PATH, env=env)
    return repository.commit(tree, "The work tree of make edit", _base())
