# SPDX-License-Identifier: GPL-2.0
"""The benchmarks: instructions per operation, counted in guests.

Each kind of operation is a module, and its program for guests has a similar name.
parts.py lists the modules, and command.py is `make bench`.
"""
