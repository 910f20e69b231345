# SPDX-License-Identifier: GPL-2.0
"""`python3 -m engine COMMAND`."""

import sys

from engine import cli

sys.exit(cli.main(sys.argv[1:]))
