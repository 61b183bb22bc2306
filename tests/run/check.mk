# SPDX-License-Identifier: MIT
#
# The rules by which tests/run/check runs a step of tests/run/plan.mk with make. See there.

.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
dir := $(CHECK_DIR)

# $(call step,NAME...): these are steps. The report has them in this order.
step = $(eval steps += $(1))$(1)

run = tests/run/step $@ $(^:%=--need %)
ktap = @$(run)
plain = @$(run) --plain
# Only steps that run make use make's jobserver.
build = +@$(run) --build

include $(CHECK_PLAN)

# Make begins a target that had to wait only after all others have begun. So the first
# build is before them all, and the long steps begin early.
$(if $(filter build@gcc,$(CHECK_ONLY)),$(filter-out build@gcc,$(steps))): | build@gcc

.PHONY: check list $(steps)
check: $(filter $(CHECK_ONLY),$(long) $(steps))
list:
	@printf '%s\n' $(steps)
