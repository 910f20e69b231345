# SPDX-License-Identifier: GPL-2.0
"""Our code as modules: what it calls must be exported.

The kernels that boot have it built in, where a function that is not exported
is found all the same. To link modules needs a whole kernel, so this only
compiles them, and looks for what they leave undefined among the EXPORT_SYMBOLs
of the laid tree.
"""

import re
from pathlib import Path

from engine import host, store
from engine.host import Plain

CONFIGS = ("modular.config",)
FOLDERS = ("drivers/dax/", "drivers/nvme/host/")
# EXPORT_SYMBOL(x), EXPORT_SYMBOL_NS_GPL(x, "X"), EXPORT_PER_CPU_SYMBOL(x), ...
EXPORTS = r"EXPORT_([A-Z0-9_]+_)?SYMBOL[A-Z0-9_]*\(\s*\w+"
# What modpost adds, and what macros export that paste names together: static
# calls, _dev_err() and its kin, parameters of the simple types.
GENERATED = re.compile(r"__this_module|__SC[KT]__\w+|_dev_[a-z]+"
                       r"|param_(ops|get|set)_[a-z]+")
# Folders that hold much text and export nothing that these modules could use.
APART = ("Documentation", "gpu", "media", "samples", "sound", "staging",
         "tools")


def files():
    """What the outcome hangs on beside our items."""
    configs = host.ROOT / "overlay" / "configs"
    return [store.of_file(path) for path in (
        Path(__file__), *(configs / name for name in CONFIGS))]


def exports(text):
    """The symbols that these EXPORT_SYMBOL lines name."""
    return set(re.findall(r"\(\s*(\w+)", text))


def undefined(text):
    """The symbols that nm says a module must find elsewhere."""
    return set(re.findall(r"^\s+U (\S+)$", text, re.MULTILINE))


def _exported(shop):
    done = host.run(["grep", "-rhoE", "--include=*.[chS]",
                     *[f"--exclude-dir={name}" for name in APART],
                     EXPORTS, shop.tree], log=shop.log,
                    what="looking for EXPORT_SYMBOLs")
    return exports(done.stdout)


def _needs(shop, path):
    done = host.run(["nm", "-u", path], log=shop.log, what="nm")
    return undefined(done.stdout)


def missing(shop):
    """Each module, and a line for each symbol that it will not find."""
    shop.configure()
    # What was laid before, or for another configuration, says nothing.
    for path in shop.build.glob("drivers/**/*.mod"):
        path.unlink()
    done = shop.make("-k", *FOLDERS, check=False, progress=True)
    if done.returncode:
        raise Plain("the modules do not compile; see the log")
    exported = _exported(shop)
    for folder in FOLDERS:
        found = sorted(shop.build.joinpath(folder).rglob("*.mod"))
        if not found:
            raise Plain(f"{folder} has no module with {CONFIGS[0]}")
        for path in found:
            needs = _needs(shop, path.with_suffix(".o"))
            yield (str(path.relative_to(shop.build).with_suffix(".ko")),
                   [f"{name} is not exported"
                    for name in sorted(needs - exported)
                    if not GENERATED.fullmatch(name)])
