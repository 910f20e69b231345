# SPDX-License-Identifier: GPL-2.0
# Read after the kernel's scripts/Makefile.build: says what that read of a folder.

$(info objects: $(sort $(real-obj-y) $(real-obj-m) $(lib-y) $(extra-y)))
$(info folders: $(subdir-ym))

.PHONY: lists
lists:
	@:
