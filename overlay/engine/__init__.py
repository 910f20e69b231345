# SPDX-License-Identifier: GPL-2.0
"""The engine: lay this tree over a kernel, build, boot, test, measure."""
