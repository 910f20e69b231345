# SPDX-License-Identifier: GPL-2.0
"""Whose mails these are: `make series SEND=1` writes those that shall be sent.

The kernel wants a person's Signed-off-by, who answers for the patches
(Documentation/process/submitting-patches.rst), and Assisted-by: for tools that
wrote part of them (Documentation/process/coding-assistants.rst). The identity that
a tree like this comes with is no person, and what is written without SEND=1 is
not to leave the machine. Nothing here sends a mail.
"""

import os
import re
from collections.abc import Iterable, Iterator

from engine import host, rules
from engine.host import UserError
from engine.lay import Item

# Domains that no mail ever reaches, and addresses that nothing is sent from.
NO_PERSON = re.compile(r"no-?reply|@(?:[\w.-]+\.)?example(?:\.\w+)?$|"
                       r"\.(?:example|invalid|test|localhost|local)$",
                       re.IGNORECASE)
PLACEHOLDER = re.compile(r"^\+M:\s.*<(\S+)>", re.MULTILINE)
TRAILERS = "trailers"


def asked() -> bool:
    """Whether the mails are to be sent."""
    return os.environ.get("SEND", "") not in ("", "0")


def is_stand_in(address: str) -> bool:
    """Whether an address is no person's."""
    return "@" not in address or NO_PERSON.search(address) is not None


def in_the_way(who: tuple[str, str], items: Iterable[Item]) -> Iterator[str]:
    """Why these mails cannot be sent by this one, a sentence each."""
    name, address = who
    if is_stand_in(address):
        yield (f"git would sign as {name} <{address}>, which is no person: set "
               "user.name and user.email to your own")
    for item in items:
        if item.target == "MAINTAINERS" and item.kind == "patch":
            text = rules.text_of(host.ROOT / item.path) or ""
            for found in PLACEHOLDER.findall(text):
                if is_stand_in(found):
                    yield (f"{item.path} names no maintainer: put your name and "
                           f"address for <{found}>")


def check(who: tuple[str, str], items: Iterable[Item]) -> None:
    """Refuse to write mails that shall be sent and name no person."""
    wrong = list(in_the_way(who, items)) if asked() else []
    if wrong:
        raise UserError("SEND=1: " + "; ".join(wrong))


def trailers() -> list[str]:
    """What stands above Signed-off-by in each message: overlay/series/trailers."""
    path = host.ROOT / "overlay" / "series" / TRAILERS
    if not path.exists():
        return []
    found = [line.strip() for line in path.read_text("utf-8").splitlines()
             if line.strip() and not line.startswith("#")]
    for line in found:
        if not re.match(r"[A-Z][\w-]+: \S", line):
            raise UserError(f"overlay/series/{TRAILERS}: '{line}' is no trailer "
                            "such as 'Assisted-by: LLM sparse'")
    return found
