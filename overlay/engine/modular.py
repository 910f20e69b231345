# SPDX-License-Identifier: GPL-2.0
"""Check that our code links as modules.

The kernels that boot have it built in. This compiles modules, and looks for their
undefined symbols among the EXPORT_SYMBOLs of the laid tree. Built-in objects must not
need symbols of modules.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from engine import host
from engine.host import UserError
from engine.objects import Shop

CONFIGS = ("modular.config",)
FOLDERS = ("drivers/dax/", "drivers/nvme/host/")
# EXPORT_SYMBOL(x), EXPORT_SYMBOL_NS_GPL(x, "X"), EXPORT_PER_CPU_SYMBOL(x), ...
EXPORTS = r"EXPORT_([A-Z0-9_]+_)?SYMBOL[A-Z0-9_]*\(\s*\w+"
# Symbols of modpost, and symbols that macros export by pasting names: static calls,
# _dev_err() and similar ones, module parameters of simple types.
GENERATED = re.compile(r"__this_module|__SC[KT]__\w+|_dev_[a-z]+"
                       r"|param_(ops|get|set)_[a-z]+")
# Large directories that export nothing for these modules.
APART = ("Documentation", "gpu", "media", "samples", "sound", "staging",
         "tools")


def exports(text: str) -> set[str]:
    """Return the symbols of EXPORT_SYMBOL lines."""
    return set(re.findall(r"\(\s*(\w+)", text))


def undefined(text: str) -> set[str]:
    """Return the undefined symbols in the output of nm."""
    return set(re.findall(r"^\s+U (\S+)$", text, re.MULTILINE))


def defined(text: str) -> set[str]:
    """Return the defined symbols in the output of nm."""
    return set(re.findall(r"^[0-9a-f]+ [A-TV-Z] (\S+)$", text, re.MULTILINE))


def _exported(shop: Shop) -> set[str]:
    done = host.run(["grep", "-rhoE", "--include=*.[chS]",
                     *[f"--exclude-dir={name}" for name in APART],
                     EXPORTS, shop.tree], log=shop.log,
                    what="looking for EXPORT_SYMBOLs")
    return exports(done.stdout)


def _nm(shop: Shop, path: Path, *options: str) -> str:
    return host.run(["nm", *options, path], log=shop.log, what="nm").stdout


def _built_in(shop: Shop) -> Iterator[Path]:
    """Yield the built-in objects of our directories."""
    for folder in FOLDERS:
        archive = shop.build / folder / "built-in.a"
        if archive.exists():
            done = host.run(["ar", "t", archive], cwd=shop.build,
                            log=shop.log, what="ar")
            yield from (shop.build / name for name in done.stdout.split())


def _compile(shop: Shop) -> Iterator[Path]:
    """Compile our directories, and yield their modules."""
    shop.configure()
    # Remove results of other trees and configurations.
    for name in ("*.mod", "built-in.a"):
        for path in shop.build.glob(f"drivers/**/{name}"):
            path.unlink()
    done = shop.make("-k", *FOLDERS, check=False, progress=True)
    if done.returncode:
        raise UserError("the modules do not compile; see the log")
    for folder in FOLDERS:
        found = sorted(shop.build.joinpath(folder).rglob("*.mod"))
        if not found:
            raise UserError(f"{folder} has no module with {CONFIGS[0]}")
        yield from found


def missing(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    """Yield each module, and a line for each symbol that it cannot find."""
    modules = list(_compile(shop))
    exported = _exported(shop)
    where = {}
    for path in modules:
        name = str(path.relative_to(shop.build).with_suffix(".ko"))
        theirs = _nm(shop, path.with_suffix(".o"))
        where.update(dict.fromkeys(defined(theirs), name))
        yield name, [f"{symbol} is not exported"
                     for symbol in sorted(undefined(theirs) - exported)
                     if not GENERATED.fullmatch(symbol)]
    for path in _built_in(shop):
        needs = undefined(_nm(shop, path, "-u"))
        yield (str(path.relative_to(shop.build)),
               [f"{symbol} is in {where[symbol]}, and this is built in"
                for symbol in sorted(needs & where.keys())])
