# SPDX-License-Identifier: GPL-2.0
"""Counting instructions per operation.

Each kind of operation is a module that is a measurement.Measurement; command.py
is `make bench`, which goes through all of them.
"""
