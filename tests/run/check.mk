# SPDX-License-Identifier: MIT
#
# What tests/run/check gives to make: how a step of tests/run/plan.mk runs. See there.

.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
dir := $(CHECK_DIR)

# $(call step,NAME...): these are steps. The report has them in this order.
step = $(eval steps += $(1))$(1)

run = tests/run/step $@ $(^:%=--need %)
ktap = @$(run)
plain = @$(run) --plain
# Make's jobserver is for steps that run make.
build = +@$(run) --build

include $(CHECK_PLAN)

# Make begins a target that had to wait only after all others have begun. So the first
# build is before them all, and the long steps begin early.
$(if $(filter build@gcc,$(CHECK_ONLY)),$(filter-out build@gcc,$(steps))): | build@gcc

.PHONY: check list $(steps)
check: $(filter $(CHECK_ONLY),$(long) $(steps))
list:
	@printf '%s\n' $(steps)
