# SPDX-License-Identifier: GPL-2.0
"""The git repository that stores kernels, series and laid trees.

It is a bare repository in the work folder, and all trees that the engine builds
in are work trees of it. A kernel source is one root commit. Its author and date
are fixed, so the same source always yields the same commit.
"""

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine import host, source
from engine.host import UserError
from engine.source import Source

NOBODY = "nobody@example.invalid"
PATH = host.WORK / "git"
LOG = host.OUT / "git.log"
# Options that another git version, or a user's configuration, could set otherwise.
FIXED = {
    "core.abbrev": "12", "core.autocrlf": "false", "core.hooksPath": "/dev/null",
    "commit.gpgSign": "false", "gc.auto": "0", "maintenance.auto": "false",
    "diff.algorithm": "myers", "diff.context": "3", "diff.interHunkContext": "0",
    "diff.indentHeuristic": "true", "diff.mnemonicPrefix": "false",
    "diff.noPrefix": "false", "diff.renames": "true", "diff.renameLimit": "1000",
    "diff.suppressBlankEmpty": "false", "format.encodeEmailHeaders": "true",
    "format.forceInBodyFrom": "false", "format.from": "false",
    "format.numbered": "auto", "advice.detachedHead": "false",
    "apply.whitespace": "nowarn", "rerere.enabled": "false",
}
# The engine's own commits: the same content yields the same commit.
ENGINE = {
    "GIT_AUTHOR_NAME": "overlay", "GIT_AUTHOR_EMAIL": NOBODY,
    "GIT_COMMITTER_NAME": "overlay", "GIT_COMMITTER_EMAIL": NOBODY,
    "GIT_AUTHOR_DATE": "@0 +0000", "GIT_COMMITTER_DATE": "@0 +0000",
}


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the engine's git commands, without user settings."""
    found = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
             "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true",
             "GIT_CONFIG_COUNT": str(len(FIXED))}
    for number, (key, value) in enumerate(FIXED.items()):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**found, **(env or {})}


def run(*args: object, at: Path | None = None, check: bool = True,
        env: Mapping[str, str] | None = None, log: Path | None = None) -> host.Done:
    """Run git in the repository, or in the work tree `at`."""
    where: dict[str, str] = {} if at else {"GIT_DIR": str(_there())}
    return host.run(["git", *args], cwd=at, log=log or LOG, check=check,
                    env=environment({**where, **(env or {})}),
                    what=f"git {args[0]}")


def git(*args: object, at: Path | None = None,
        env: Mapping[str, str] | None = None) -> str:
    """Return the output of a git command, without the last newline."""
    return run(*args, at=at, env=env).stdout.rstrip("\n")


def _there() -> Path:
    """Create the repository on first use."""
    if not (PATH / "HEAD").exists():
        host.need("git")
        host.run(["git", "init", "--quiet", "--bare", "--initial-branch=none", PATH],
                 env=environment(), log=LOG, what="git init")
        # Users' own git commands in `make edit`'s work tree write the same diffs.
        for key in ("core.abbrev", "gc.auto"):
            host.run(["git", "-C", PATH, "config", key, FIXED[key]], log=LOG,
                     env=environment())
    return PATH


def commit(tree: str, message: str, *parents: str) -> str:
    """Commit a tree object with a fixed author and date."""
    above = [word for parent in parents for word in ("-p", parent)]
    return git("commit-tree", tree, *above, "-m", message, env=ENGINE)


def tree_of(revision: str) -> str:
    """Return the tree object of a commit."""
    return git("rev-parse", f"{revision}^{{tree}}")


def resolve(name: str) -> str | None:
    """Return the commit that a name means, or None."""
    done = run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def changed(old: str, new: str) -> dict[str, str]:
    """Return the files that differ between two commits, with git's letter."""
    text = git("diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
    words = text.split("\0")
    return dict(zip(words[1::2], words[::2], strict=False))


def read(revision: str, path: str, env: Mapping[str, str] | None = None) -> str:
    """Return the text of one file of a commit, or of the index ("")."""
    return run("cat-file", "blob", f"{revision}:{path}", env=env).stdout


def _index(path: Path) -> Path:
    name = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return _there() / "overlay" / name


def _add(src: Source, env: Mapping[str, str]) -> None:
    """Bring an index up to date with a source tree, which is only read."""
    if not src.is_git:
        # A tarball may contain files that .gitignore lists; a build may leave some.
        hidden = run("check-ignore", "--quiet", "--no-index", "Makefile",
                     at=src.path, env=env, check=False).returncode == 0
        force = ("--force",) if src.origin == "debian" or hidden else ()
        run("add", "--all", *force, ".", f":!/{source.WHOLE}", at=src.path, env=env)
        if hidden:
            _show_files(env)
        return
    names = source.git(src.path, "ls-files", "-z") or ""
    paths = Path(env["GIT_INDEX_FILE"]).with_suffix(".names")
    host.write(paths, names if names.endswith("\0") else f"{names}\0")
    host.run(["sh", "-c", 'git update-index -z --add --remove --stdin <"$1"', "sh",
              paths], cwd=src.path, env=environment(env), log=LOG,
             what=f"reading {src.path}")


def _show_files(env: Mapping[str, str]) -> None:
    """Drop the rule of Debian's .gitignore that hides all files from git."""
    text = read("", ".gitignore", env)
    changed_file = Path(env["GIT_INDEX_FILE"]).with_suffix(".gitignore")
    host.write(changed_file, "".join(line for line in text.splitlines(keepends=True)
                                     if line != "/*\n"))
    blob = git("hash-object", "-w", "--no-filters", changed_file)
    run("update-index", "--cacheinfo", f"100644,{blob},.gitignore", env=env)


def base(src: Source) -> str:
    """Return the root commit of a kernel source, imported on first use."""
    index = _index(src.path)
    note = f"refs/overlay/base/{index.name}"
    known = resolve(note)
    if known and src.origin == "debian":
        return known
    return _import(src, index, note, known)


@functools.cache
def _import(src: Source, index: Path, note: str, known: str | None) -> str:
    index.parent.mkdir(parents=True, exist_ok=True)
    env = {"GIT_DIR": str(_there()), "GIT_WORK_TREE": str(src.path),
           "GIT_INDEX_FILE": str(index)}
    if known:
        _add(src, env)
    else:
        host.need_space(PATH, 4, "the kernel's source and one laid tree")
        with host.step(f"importing Linux {src.version} into git"):
            _add(src, env)
    tree = git("write-tree", env={"GIT_INDEX_FILE": str(index)})
    found = commit(tree, f"Linux {src.version}")
    git("update-ref", note, found)
    return found


def version(revision: str) -> str:
    """Return the kernel version of a commit, as its Makefile states it."""
    return source.version_in(read(revision, "Makefile")) or "unknown"


class Index:
    """A git index in a file of its own, to compute a tree without a work tree."""

    def __init__(self, start: str, name: str = "scratch") -> None:
        self.env = {"GIT_INDEX_FILE": str(_there() / "overlay" / f"{name}.index")}
        (PATH / "overlay").mkdir(exist_ok=True)
        host.remove(self.env["GIT_INDEX_FILE"])
        run("read-tree", start, env=self.env)

    def apply(self, patches: Iterable[Path], *options: str) -> host.Done:
        """Apply patches to the index; the caller judges the result."""
        return run("apply", "--cached", *options, *patches, env=self.env,
                   check=False)

    def add(self, files: Mapping[str, Path]) -> None:
        """Add files from outside under the given paths."""
        if not files:
            return
        listed = PATH / "overlay" / "paths"
        host.write(listed, "".join(f"{path}\n" for path in files.values()))
        done = host.run(["sh", "-c", 'git hash-object -w --no-filters --stdin-paths '
                         '<"$1"', "sh", listed], log=LOG, what="git hash-object",
                        env=environment({"GIT_DIR": str(PATH)}))
        lines = [f"{'100755' if os.access(path, os.X_OK) else '100644'} {blob}\t"
                 f"{name}\n" for (name, path), blob in
                 zip(files.items(), done.stdout.split(), strict=True)]
        host.write(listed, "".join(lines))
        host.run(["sh", "-c", 'git update-index --index-info <"$1"', "sh", listed],
                 log=LOG, what="git update-index",
                 env=environment({"GIT_DIR": str(PATH), **self.env}))

    def names(self) -> set[str]:
        """Return all paths in the index."""
        return set(git("ls-files", "-z", env=self.env).split("\0"))

    def tree(self) -> str:
        """Write the index as a tree object."""
        return git("write-tree", env=self.env)


def edited(path: Path) -> str | None:
    """Return a tracked file of a work tree that differs from its commit, or None."""
    text = run("status", "--porcelain", "-z", "--untracked-files=no", at=path).stdout
    return text[3:].split("\0")[0] if text else None


def checkout(path: Path, revision: str, force: bool = False) -> bool:
    """Bring a work tree to a commit; only changed files get a new time stamp.

    A work tree with edits is refused unless `force`. Returns whether it changed.
    """
    if not (path / ".git").exists() \
            or run("rev-parse", "--verify", "HEAD", at=path, check=False).returncode:
        return _create(path, revision)
    if not force and (name := edited(path)):
        raise UserError(f"{path} has an edit in {name}, and this command would "
                        f"overwrite it: move the edit into the clone or into the work "
                        f"tree of `make edit`, then run `git -C {path} reset --hard`")
    if git("rev-parse", "HEAD", at=path) == revision and not force:
        return False
    options = ("--force",) if force else ()
    run("checkout", "--quiet", "--detach", *options, revision, at=path)
    return True


def _create(path: Path, revision: str) -> bool:
    host.remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    run("worktree", "prune")
    run("worktree", "add", "--quiet", "--force", "--detach", path, revision)
    return True
