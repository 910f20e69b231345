# SPDX-License-Identifier: GPL-2.0
# A thin front: every command is overlay/run COMMAND. `make help` lists them.

.DEFAULT_GOAL := help
COMMANDS := demo check lint selftest kunit kselftest soak arm64 coverage docs \
	    bench here series edit save rebase report build artifacts lava results clean help

.PHONY: $(COMMANDS)
$(COMMANDS):
	@KDIR='$(KDIR)' ACCEL='$(ACCEL)' CLEAN='$(CLEAN)' SEND='$(SEND)' \
		ONTO='$(ONTO)' EDIT='$(EDIT)' EDIT_TREE='$(EDIT_TREE)' \
		overlay/run $@ $(ARGS)
