# SPDX-License-Identifier: GPL-2.0
"""LAVA's jobs: one for each kernel and group of tests.

overlay/kselftest.seconds contains the time of each test, and the groups take about as
long as each other. A job runs on a device of type qemu, and depends on no other job.
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
# The timeout of a job is its usual time multiplied by this, plus one test timeout.
PATIENCE = 4
PROMPT = "kselftest# "
# The directory of the kselftests in a guest.
INSTALLED = "/opt/kselftest"
# A list that make computes repeats names.
PROGRAMS = re.compile(r"^TEST_(?:GEN_)?PROGS\s*[:+]?=[ \t]*(?![\s$])((?:[^\n]|\\\n)*)",
                      re.MULTILINE)
# As in guest/run.sh: kmemleak reports an object that is some seconds old, after two
# scans. A scan fails if kmemleak is disabled, and must not end LAVA's shell.
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
    """The tests of one job, and their expected time in seconds."""

    name: str
    mode: str
    tests: tuple[str, ...]
    seconds: float
    # A name in HARDWARE, for a guest with other hardware.
    kind: str = ""

    def share(self) -> Share:
        """Return the tests as the share of a guest of `make kselftest`."""
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
    """Return the tests of a kernel's jobs."""
    subset = kselftest.subset(mode)
    return kselftest.given(mode, tests() if subset is None else subset)


def _deal(mode: str, took: Mapping[str, float], target: float) -> Iterator[Group]:
    """Yield groups of a kernel's tests that take about TARGET seconds."""
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
    """Return the time of the longest group over the average."""
    seconds = [group.seconds for group in found]
    return max(seconds) * len(seconds) / sum(seconds)


def groups() -> list[Group]:
    """Return as many balanced groups as possible, over all kernels."""
    known = reuse.noted(reuse.USUAL)
    took = {}
    for mode in kernels.having("checked"):
        usual = known.get(mode, {})
        mean = sum(usual.values()) / len(usual) if usual else reuse.UNKNOWN
        took[mode] = {test: usual.get(test, mean) for test in _given(mode)}
    # A group takes at least as long as its longest test.
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
    """Return the timeout of a target's settings in seconds; 0 is no limit."""
    path = host.ROOT / str(kselftest.TOP) / target / "settings"
    text = path.read_text("utf-8") if path.exists() else ""
    found = re.search(r"^timeout=(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 45


def test_timeout(mode: str, tests: Sequence[str]) -> int:
    """Return the timeout of one test: the kernel's, or more if settings say so."""
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
        # A failing step would end LAVA's shell.
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
    """Return the entry of a file to download, with its checksum if known."""
    image: Job = {"url": f"{url}/{name}"}
    if name.endswith(".gz"):
        image["compression"] = "gz"
    if name in sums:
        image["sha256sum"] = sums[name]
    return image | more


def _images(group: Group, url: str, sums: Mapping[str, str]) -> Job:
    """Return the kernel, the root file system with the tests, and the disks."""
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
    """Return the variables for LAVA's template of a device of type qemu."""
    kernel = KERNELS[group.mode]
    context: Job = {"arch": "amd64", "memory": f"{kernel.memory}G"}
    # After a panic, QEMU and the job end instead of a restart.
    options = ["-machine q35", "-smp 2", "-no-reboot", *group.share().hardware()[1]]
    # The dispatchers need KVM, this machine does not.
    if not guest.asked_for_kvm():
        context["no_kvm"] = 1
        # Old versions of QEMU need this; ci/README.md explains their limits.
        options.append(guest.ONE_THREAD)
    return context | {"extra_options": options}


def job(group: Group, url: str, sums: Mapping[str, str]) -> Job:
    """Return one job: deploy, boot, test."""
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
