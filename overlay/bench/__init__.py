# SPDX-License-Identifier: GPL-2.0
"""The benchmarks: instructions per operation, counted in guests.

Each kind of operation is a module (dax_read, dax_mmap, nvme, nvme_reap, cachelines)
beside the programs that guests run; parts.py lists them, and command.py is
`make bench`. The engine builds kernels and boots guests for them.
"""
