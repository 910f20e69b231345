# SPDX-License-Identifier: GPL-2.0
"""Check that an incomplete kernel source is never used."""

import os
import shutil
import unittest
from pathlib import Path
from unittest import mock

from engine import host, source
from engine.host import UserError
from tests.test_host import Folder

PRINTED = """\
'http://mirror.example.invalid/debian/dists/bookworm/InRelease' a_InRelease 0
'http://mirror.example.invalid/debian/dists/bookworm-updates/InRelease' b 0
'http://s.example.invalid/debian-security/dists/b-security/InRelease' c 0
'http://mirror.example.invalid/debian/dists/bookworm/main/Packages.xz' d 0
'http://other.example.invalid/apt/dists/stable/InRelease' e 0
"""


class Kernel(Folder):
    """Which kernel is taken."""

    def setUp(self):
        super().setUp()
        source.kernel.cache_clear()
        self.addCleanup(source.kernel.cache_clear)

    def tree(self, where, version=("7", "3", "4"), extra=""):
        """A source tree with a version."""
        where.mkdir(parents=True)
        (where / "Kconfig").touch()
        (where / "Makefile").write_text(
            "# SPDX\nVERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = {}\n"
            "EXTRAVERSION ={}\n".format(*version, extra), encoding="ascii")
        return where

    def kernel(self, **env):
        """source.kernel() in an environment."""
        with mock.patch.dict(os.environ, env):
            if not env:
                os.environ.pop("KDIR", None)
            return source.kernel()

    def test_version(self):
        tree = self.tree(self.top / "linux", ("7", "4", "0"), " -rc2")
        self.assertEqual(source.version_of(tree), "7.4.0-rc2")
        with self.assertRaisesRegex(UserError, "not a kernel source tree"):
            source.version_of(self.top)

    def test_kdir(self):
        tree = self.tree(self.top / "linux", ("7", "5", "1"))
        found = self.kernel(KDIR=str(tree))
        self.assertEqual((found.path, found.version, found.origin),
                         (tree, "7.5.1", "kdir"))
        self.assertFalse(found.is_git)
        self.assertIsNone(found.head)
        output = " ".join(call.args[0] for call in host.say.call_args_list)
        self.assertIn("the tree is written for", output)

    def test_a_folder_inside_somebody_elses_git_is_no_clone(self):
        if host.output(["git", "init", "-q", self.top]) is None:
            self.skipTest("git is not installed")
        tree = self.tree(self.top / "linux")
        self.assertFalse(self.kernel(KDIR=str(tree)).is_git)

    def test_work_folder_inside_kdir(self):
        tree = self.tree(self.top / "linux")
        with mock.patch.object(host, "WORK", tree / "work"):
            with self.assertRaisesRegex(UserError, "lies inside KDIR"):
                self.kernel(KDIR=str(tree))

    def test_cached_source_is_used_newest_first(self):
        for version in ("7.3.9", "7.3.10"):
            tree = self.tree(host.WORK / "src" / version, version.split("."))
            (tree / ".overlay-whole").touch()
        with mock.patch.object(source, "unpacked") as fetch:
            self.assertEqual(self.kernel().version, "7.3.10")
        fetch.assert_not_called()

    def test_half_unpacked_source_is_not_used(self):
        self.tree(host.WORK / "src" / "7.3.4")
        with mock.patch.object(source, "unpacked",
                               side_effect=UserError("fetching")):
            with self.assertRaisesRegex(UserError, "fetching"):
                self.kernel()


class Package(Folder):
    """Debian's package, fetched by an apt of our own."""

    def test_mirrors_are_apts_own(self):
        with mock.patch.object(host, "output", return_value=PRINTED):
            self.assertEqual(source.mirrors(), [
                "http://mirror.example.invalid/debian",
                "http://other.example.invalid/apt"])

    def test_no_apt(self):
        with mock.patch.object(host, "output", return_value=None):
            with self.assertRaisesRegex(UserError, "KDIR="):
                source.mirrors()

    def test_no_network(self):
        with mock.patch.object(host, "need"), \
                mock.patch.object(source, "mirrors",
                                  return_value=["http://m.invalid/debian"]), \
                mock.patch.object(source, "KEYRINGS", (__file__,)), \
                mock.patch.object(source, "_update", return_value=False):
            with self.assertRaisesRegex(UserError, "no network"):
                source.private_apt("suite")

    def test_the_private_apt_stays_in_its_folder(self):
        root = source.PrivateApt(self.top / "apt", "deb x y main\n")
        places = [option.partition("=")[2] for option in root.options
                  if option.startswith("Dir::")]
        for place in places:
            if place != "-":
                self.assertTrue(Path(place).is_relative_to(self.top), place)

    def test_a_bad_signature_is_no_success(self):
        root = mock.Mock()
        root.get.return_value.stdout = "Reading...\nW: GPG error: x\n"
        self.assertFalse(source._update(root))
        root.get.side_effect = UserError("failed")
        self.assertFalse(source._update(root))


class Apt(Folder):
    """apt with a configuration of ours."""

    def hooks(self):
        """A machine's configuration: hooks, a proxy, and files of parts."""
        ran = self.top / "ran"
        hook = "".join(f'{name} {{"touch {ran}";}};\n' for name in (
            "APT::Update::Pre-Invoke", "APT::Update::Post-Invoke",
            "APT::Update::Post-Invoke-Success", "DPkg::Pre-Install-Pkgs"))
        host.write(self.top / "conf.d" / "99hook", hook)
        host.write(self.top / "machine.conf",
                   f'Dir::Etc::parts "{self.top}/conf.d";\n'
                   'Acquire::http::Proxy "http://127.0.0.1:9/";\n')
        return ran

    @unittest.skipUnless(shutil.which("apt-get"), "there is no apt-get here")
    def test_hooks_of_the_machine_do_not_run(self):
        ran = self.hooks()
        with mock.patch.dict(os.environ,
                             APT_CONFIG=str(self.top / "machine.conf")):
            apt = source.PrivateApt(self.top / "apt", "")
            self.assertTrue(source._update(apt))
        self.assertFalse(ran.exists())
        self.assertIn('Acquire::http::Proxy "http://127.0.0.1:9/";',
                      (self.top / "apt/apt.conf").read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()
