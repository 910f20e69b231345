# SPDX-License-Identifier: GPL-2.0
"""LAVA's jobs: one for each kernel and group of tests.

Tests are dealt out by the seconds that each takes by overlay/kselftest.seconds,
so that a farm's dispatchers end at about the same time. A job is made for a
device of type qemu; it has all that it needs, and depends on no other.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import artifacts, disks, guest, host, kernels, kselftest, lay, reuse
from engine.kernels import HARDWARE, KERNELS
from engine.share import Share

CI = host.ROOT / "overlay" / "ci"
# The limit of the longest job's time over the average.
BALANCE = 1.3
# Seconds for the download of artifacts, and for a start without KVM.
DEPLOY, BOOT = 900, 900
# How many times a job's usual time it may take, beside one test that hangs.
PATIENCE = 4
PROMPT = "kselftest# "
# Where a guest has the kselftests.
INSTALLED = "/opt/kselftest"
# A list that make computes repeats names.
PROGRAMS = re.compile(r"^TEST_(?:GEN_)?PROGS\s*[:+]?=[ \t]*(?![\s$])((?:[^\n]|\\\n)*)",
                      re.MULTILINE)
# As guest/run.sh: kmemleak takes an object for lost when it is some seconds old, and
# wants to see it lost twice. Its findings go to the kernel's log. If it gave up, a scan
# fails, and must not end LAVA's shell.
LEAKS = """leaks=/sys/kernel/debug/kmemleak
if [ -w $leaks ]; then
	sleep 6
	echo scan >$leaks || true
	echo scan >$leaks || true
	sed 's/^/kmemleak: /' $leaks | while IFS= read -r line; do
		echo "$line" >/dev/kmsg
	done
fi
"""
CLEAR = ("if [ -w /sys/kernel/debug/kmemleak ]; then "
         "echo clear >/sys/kernel/debug/kmemleak || true; fi")

Job = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """The tests of one job, and the seconds that they are thought to take."""

    name: str
    mode: str
    tests: tuple[str, ...]
    seconds: float
    # A name in HARDWARE, if its guest is to have other hardware.
    kind: str = ""

    def share(self) -> Share:
        """The same as what one guest of `make kselftest` has to do."""
        return Share(self.mode, self.name, Path(INSTALLED), self.tests, kind=self.kind,
                     append=HARDWARE[self.kind].append if self.kind else ())


def tests() -> list[str]:
    """All kselftests that the tree's Makefiles name; no kernel is built."""
    found: dict[str, None] = {}
    targets = kselftest.targets()
    for item in lay.items():
        for target in targets:
            if item.target == f"{kselftest.TOP}/{target}/Makefile":
                text = (host.ROOT / item.path).read_text("utf-8")
                if item.kind == "patch":
                    text = re.sub(r"^\+", "", text, flags=re.MULTILINE)
                for names in PROGRAMS.findall(text):
                    for name in names.replace("\\\n", " ").split():
                        found.setdefault(f"{target}:{name}")
    return list(found)


def _given(mode: str) -> list[str]:
    """The tests that a kernel's jobs have."""
    subset = kselftest.subset(mode)
    return kselftest.given(mode, tests() if subset is None else subset)


def _deal(mode: str, took: Mapping[str, float], target: float) -> Iterator[Group]:
    """A kernel's tests in groups that take about so many seconds."""
    count = max(1, round(sum(took.values()) / target))
    for number, hand in enumerate(reuse.deal_by(took, list(took), count), 1):
        if hand:
            yield Group(f"{mode}-{number}", mode, hand,
                        sum(took[test] for test in hand))
    for kind, other in HARDWARE.items():
        hand = tuple(test for test in other.tests if test in took)
        if KERNELS[mode].other_hardware and hand:
            yield Group(f"{mode}-{kind}", mode, hand,
                        sum(took[test] for test in hand), kind)


def balance(found: Sequence[Group]) -> float:
    """How many times the average the longest one takes."""
    seconds = [group.seconds for group in found]
    return max(seconds) * len(seconds) / sum(seconds)


def groups() -> list[Group]:
    """As many groups as can be that are balanced over all kernels."""
    known = reuse.noted(reuse.USUAL)
    took = {}
    for mode in kernels.having("checked"):
        usual = known.get(mode, {})
        mean = sum(usual.values()) / len(usual) if usual else reuse.UNKNOWN
        took[mode] = {test: usual.get(test, mean) for test in _given(mode)}
    # A group can take no less than its longest test.
    target = max(max(tests.values()) for tests in took.values()) / BALANCE
    most = sum(sum(tests.values()) for tests in took.values())
    while True:
        found = [group for mode in took for group in _deal(mode, took[mode], target)]
        if target > most or balance(found) <= BALANCE:
            return found
        target *= 1.02


def _minutes(seconds: float) -> dict[str, int]:
    return {"minutes": int(seconds // 60) + 1}


def _of_settings(target: str) -> int:
    """The seconds that a target's settings let each test take; 0: no limit."""
    path = host.ROOT / str(kselftest.TOP) / target / "settings"
    text = path.read_text("utf-8") if path.exists() else ""
    found = re.search(r"^timeout=(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 45


def test_timeout(mode: str, tests: Sequence[str]) -> int:
    """Seconds for one test: the kernel's, or more if settings say so."""
    return max([KERNELS[mode].test_timeout,
                *(_of_settings(test.partition(":")[0]) for test in tests)])


def _steps(group: Group) -> list[str]:
    """Return the guest's steps: run the tests, and report to LAVA."""
    exports = " ".join(f"{name}={shlex.quote(str(value))}" for name, value
                       in group.share().variables().items())
    options = [part for test in group.tests for part in ("-t", test)]
    timeout = test_timeout(group.mode, group.tests)
    awk = {name: (CI / f"{name}.awk").read_text("utf-8")
           for name in ("ktap", "splats")}
    return [
        *(f"cat >/tmp/{name}.awk <<'END'\n{text}END\n"
          for name, text in awk.items()),
        CLEAR,
        f"export {exports}",
        f"cd {INSTALLED}",
        f"./run_kselftest.sh {shlex.join(options)} -o {timeout} 2>&1 | "
        "tee /tmp/ktap",
        # LAVA's shell ends at a step that fails: what cannot be judged has failed.
        f"awk -v programs={len(group.tests)} -f /tmp/ktap.awk /tmp/ktap "
        ">/tmp/results || echo all_programs_ended fail >>/tmp/results",
        'while read -r name result; do lava-test-case "$name" --result '
        '"$result"; done </tmp/results',
        LEAKS,
        "dmesg >/tmp/dmesg && awk -f /tmp/splats.awk /tmp/dmesg >/tmp/splats && "
        "test ! -s /tmp/splats && result=pass || result=fail",
        "cat /tmp/splats || true",
        'lava-test-case no_splat --result "$result"',
    ]


def _image(url: str, name: str, sums: Mapping[str, str], **more: Any) -> Job:
    """A file to download, with its checksum if it is known."""
    image: Job = {"url": f"{url}/{name}"}
    if name.endswith(".gz"):
        image["compression"] = "gz"
    if name in sums:
        image["sha256sum"] = sums[name]
    return image | more


def _images(group: Group, url: str, sums: Mapping[str, str]) -> Job:
    """The kernel, the root file system with the tests in it, the disks."""
    mode = group.mode
    drives = " ".join(disks.options()).replace("blank.img", "{blank}")
    cmdline = " ".join([*artifacts.cmdline(mode), *group.share().append])
    return {
        "kernel": _image(url, f"{mode}/bzImage", sums,
                         image_arg=f'-kernel {{kernel}} -append "{cmdline}"'),
        # LAVA does not unpack an image named ramdisk; our kernels need it unpacked.
        "rootfs": _image(
            url, "rootfs.cpio.gz", sums, image_arg="-initrd {rootfs}",
            format="cpio.newc", overlays={
                "lava": True,
                "kselftest": _image(url, f"{mode}/kselftest.tar.gz", sums,
                                    format="tar", path=INSTALLED),
                "modules": _image(url, f"{mode}/modules.tar.gz", sums,
                                  format="tar", path="/usr")}),
        "blank": _image(url, "blank.img.gz", sums, image_arg=drives),
    }


def _context(group: Group) -> Job:
    """What LAVA's template of a device of type qemu is told."""
    kernel = KERNELS[group.mode]
    context: Job = {"arch": "amd64", "memory": f"{kernel.memory}G"}
    # A kernel that panicked restarts: QEMU ends instead, and the job with it.
    options = ["-machine q35", "-smp 2", "-no-reboot", *group.share().hardware()[1]]
    # It is the dispatchers that have it, and this machine need not.
    if not guest.asked_for_kvm():
        context["no_kvm"] = 1
        # A dispatcher may well have one of the versions that need it; what they can
        # lose nevertheless is in ci/README.md.
        options.append(guest.ONE_THREAD)
    return context | {"extra_options": options}


def job(group: Group, url: str, sums: Mapping[str, str]) -> Job:
    """One job: deploy, boot, test."""
    test = PATIENCE * group.seconds + test_timeout(group.mode, group.tests)
    return {
        "job_name": f"kselftest on the {group.mode} kernel: {group.name}",
        "device_type": "qemu",
        "visibility": "public",
        "priority": "medium",
        "timeouts": {"job": _minutes(DEPLOY + BOOT + test + 300),
                     "action": _minutes(DEPLOY),
                     "connection": _minutes(BOOT)},
        "context": _context(group),
        "metadata": {"kernel": group.mode, "tests": list(group.tests),
                     "seconds": round(group.seconds)},
        "actions": [
            {"deploy": {"timeout": _minutes(DEPLOY), "to": "tmpfs",
                        "os": "debian",
                        "images": _images(group, url, sums)}},
            {"boot": {"timeout": _minutes(BOOT), "method": "qemu",
                      "media": "tmpfs", "prompts": [PROMPT]}},
            {"test": {"timeout": _minutes(test), "definitions": [{
                "from": "inline", "name": "kselftest",
                "path": "inline/kselftest.yaml", "lava-signal": "kmsg",
                "repository": {
                    "metadata": {
                        "format": "Lava-Test Test Definition 1.0",
                        "name": "kselftest",
                        "description": " ".join(group.tests)},
                    "run": {"steps": _steps(group)}}}]}}],
    }
