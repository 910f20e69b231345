# SPDX-License-Identifier: GPL-2.0
# Read after the kernel's scripts/Makefile.build: says what that read of a folder.

# Both would be a folder with nothing in it.
$(if $(wildcard $(objtree)/include/config/auto.conf),,$(error there is no configuration))
$(foreach name,real-obj-y real-obj-m lib-y subdir-ym,$(if \
	$(filter undefined,$(origin $(name))),$(error $(name) is not defined)))

$(info objects: $(sort $(real-obj-y) $(real-obj-m) $(lib-y) $(extra-y)))
$(info folders: $(subdir-ym))

.PHONY: lists
lists:
	@:
