# SPDX-License-Identifier: MIT
#
# make            the library, the tool
# make run        a camera's frames as tensors on CPU and Vulkan
# make check      all tests
# make help       the rest
#
# Everything is written under O (build/). V=1 shows the commands.

O ?= build
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(2)')

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

version_of = $(shell sed -n 's/^.define DLBUF_VERSION_$(1) //p' include/dlbuf/base.h)
MAJOR := $(call version_of,MAJOR)
MINOR := $(call version_of,MINOR)
PATCH := $(call version_of,PATCH)
VERSION := $(MAJOR).$(MINOR).$(PATCH)

prefix ?= /usr/local
bindir ?= $(prefix)/bin
includedir ?= $(prefix)/include
libdir ?= $(prefix)/lib
mandir ?= $(prefix)/share/man
DESTDIR ?=

CROSS_COMPILE ?=
ifeq ($(origin CC),default)
CC := $(CROSS_COMPILE)gcc
endif
ifeq ($(origin CXX),default)
CXX := $(CROSS_COMPILE)g++
endif
LD_R := $(CROSS_COMPILE)ld
ifeq ($(origin AR),default)
AR := $(CROSS_COMPILE)ar
endif
OBJCOPY ?= $(CROSS_COMPILE)objcopy
STRIP ?= $(CROSS_COMPILE)strip
PKG_CONFIG ?= $(CROSS_COMPILE)pkg-config
GLSLANG ?= glslangValidator
# Debian's python3-kconfiglib is seen by Debian's python3 only.
ifndef PYTHON
PYTHON := $(shell for p in python3 /usr/bin/python3; do \
	$$p -c 'import kconfiglib' 2>/dev/null && echo $$p && break; done)
endif

# ---------------------------------------------------------------- targets
# that need no configuration

no-config := help clean deps run check mutate lab lab-shell menuconfig defconfig \
	setconfig savedefconfig uninstall bench check-gpu
ifneq ($(filter-out $(no-config),$(or $(MAKECMDGOALS),all)),)
need-config := 1
endif

# ---------------------------------------------------------------- configuration

export KCONFIG_CONFIG := $(O)/.config
gen := $(O)/include/generated
# SET="WERROR=y DEBUG=y" on a defconfig changes symbols; setconfig refuses
# a misspelt one.
SET ?=

define need-kconfiglib
@test -n '$(PYTHON)' || { echo "make: kconfiglib is missing: run tools/deps build" >&2; exit 1; }
endef

.PHONY: menuconfig defconfig setconfig savedefconfig
menuconfig:
	$(need-kconfiglib)
	@mkdir -p $(O)
	$(Q)$(PYTHON) -m menuconfig Kconfig

defconfig:
	$(need-kconfiglib)
	@mkdir -p $(O)
	$(Q)$(PYTHON) -m alldefconfig Kconfig >/dev/null
	$(Q)$(if $(SET),$(PYTHON) -m setconfig --kconfig Kconfig $(SET) >/dev/null)

setconfig:
	$(need-kconfiglib)
	$(Q)$(PYTHON) -m setconfig --kconfig Kconfig $(SET)

savedefconfig:
	$(need-kconfiglib)
	$(Q)$(PYTHON) -m savedefconfig --kconfig Kconfig --out $(O)/defconfig

# Without kconfiglib: the defaults, less what cannot be built here.
ifneq ($(PYTHON),)
$(O)/.config: | $(O)/
	$(call say,CONFIG,$@)
	$(Q)$(PYTHON) -m alldefconfig Kconfig >/dev/null
	$(Q)$(if $(SET),$(PYTHON) -m setconfig --kconfig Kconfig $(SET) >/dev/null)

$(gen)/autoconf.h: $(O)/.config Kconfig | $(gen)/
	$(Q)$(PYTHON) -m genconfig --header-path $@ --config-out $(O)/.config.full Kconfig
else
$(O)/.config: | $(O)/
	$(call say,CONFIG,$@)
	$(Q)CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' PKG_CONFIG='$(PKG_CONFIG)' \
		GLSLANG='$(GLSLANG)' tools/plain-config $(SET) > $@

$(gen)/autoconf.h: $(O)/.config Kconfig | $(gen)/
	$(Q)cp $< $(O)/.config.full
	$(Q)sed -n 's/^\(CONFIG_[A-Z0-9_]*\)=y/#define \1 1/p' $< > $@
endif

# auto.mk is what make itself reads; made of the resolved configuration, in
# which symbols that Kconfig has gained since have their defaults.
$(gen)/auto.mk: $(gen)/autoconf.h
	$(Q)sed -n 's/^\(CONFIG_[A-Z0-9_]*\)=y/\1 := y/p' $(O)/.config.full > $@

# The registries' lists, from the symbols themselves.
define list-of
$(gen)/$(1)s.h: $(gen)/autoconf.h
	$$(Q)for s in $$$$(sed -n 's/^config $(2)_//p' Kconfig); do \
		n=$$$$(echo $$$$s | tr A-Z a-z); \
		if grep -q "^CONFIG_$(2)_$$$$s=y" $$(O)/.config.full; \
		then echo "$(2)($$$$n)"; else echo "$(2)_OFF($$$$n)"; fi; \
	done > $$@
endef
$(eval $(call list-of,backend,BACKEND))
$(eval $(call list-of,exporter,EXPORTER))

ifdef need-config
include $(gen)/auto.mk
endif

# ---------------------------------------------------------------- flags

CFLAGS ?= -O2 -g
opt-$(CONFIG_DEBUG) += -O0 -g3
sanitize-$(CONFIG_SANITIZE_ADDRESS) += -fsanitize=address
sanitize-$(CONFIG_SANITIZE_UNDEFINED) += -fsanitize=undefined -fno-sanitize-recover=all
sanitize-$(CONFIG_SANITIZE_THREAD) += -fsanitize=thread
sanitize-$(CONFIG_COVERAGE) += --coverage

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wvla -Wwrite-strings -Wformat=2 -Wundef
warnings-$(CONFIG_WERROR) += -Werror
base-cflags := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 \
	-fvisibility=hidden -ffunction-sections -fdata-sections -fPIC \
	$(warnings) $(warnings-y) -Iinclude -I$(O)/include -include $(gen)/autoconf.h
all-cflags = $(base-cflags) $(CFLAGS) $(opt-y) $(sanitize-y) $(CPPFLAGS)
all-ldflags = $(CFLAGS) $(sanitize-y) $(LDFLAGS) -Wl,--gc-sections -Wl,--as-needed

# ---------------------------------------------------------------- library

lib-src-y := $(wildcard lib/*.c) udmabuf/alloc.c udmabuf/pool.c
backend-src = $(wildcard lib/backends/$(1)/*.c)
lib-src-$(CONFIG_BACKEND_CPU) += $(call backend-src,cpu)
lib-src-$(CONFIG_BACKEND_CUDA) += $(call backend-src,cuda) $(wildcard lib/queue/*.c)
lib-src-$(CONFIG_BACKEND_VULKAN) += $(call backend-src,vulkan)
lib-src-$(CONFIG_EXPORTER_UDMABUF) += udmabuf/udmabuf.c
lib-src-$(CONFIG_EXPORTER_HEAP) += udmabuf/heap.c
lib-obj := $(lib-src-y:%.c=$(O)/%.o)

soname := libdlbuf.so.$(MAJOR)
so := $(O)/libdlbuf.so.$(VERSION)
lib-a := $(O)/libdlbuf.a
# What tests link: the same objects with their internal names visible.
test-a := $(O)/libdlbuf-internal.a

$(so): $(lib-obj) lib/libdlbuf.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -o $@ $(lib-obj) $(all-ldflags) -Wl,-soname,$(soname) \
		-Wl,--version-script,lib/libdlbuf.map $(if $(sanitize-y),,-Wl,-z,defs) \
		-Wl,-z,relro,-z,now
	$(Q)ln -sf $(notdir $@) $(O)/$(soname)
	$(Q)ln -sf $(soname) $(O)/libdlbuf.so

# One object with only the public names left, so that a program linked with
# the archive meets none of ours.
$(lib-a): $(lib-obj)
	$(call say,AR,$@)
	$(Q)$(LD_R) -r -o $(O)/libdlbuf.o $(lib-obj)
	$(Q)$(OBJCOPY) --localize-hidden $(O)/libdlbuf.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libdlbuf.o

$(test-a): $(lib-obj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(lib-obj)

# Written anew whatever its age: prefix and libdir are those of this command.
$(O)/dlbuf.pc: FORCE | $(O)/
	@printf '%s\n' 'prefix=$(prefix)' 'includedir=$(includedir)' \
		'libdir=$(libdir)' '' 'Name: dlbuf' \
		'Description: DLPack tensors around Linux DMA-BUF file descriptors' \
		'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
		'Libs: -L$${libdir} -ldlbuf' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

.PHONY: all lib
lib: $(so) $(lib-a) $(O)/dlbuf.pc
all: lib

# ---------------------------------------------------------------- compiling

# Objects depend on the flags they were made with.
$(O)/.flags: FORCE | $(O)/
	@echo '$(CC) $(all-cflags)' | cmp -s - $@ || echo '$(CC) $(all-cflags)' > $@

generated := $(gen)/autoconf.h $(gen)/backends.h $(gen)/exporters.h

$(O)/%.o: %.c $(O)/.flags $(generated)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(all-cflags) $(cflags-$(firstword $(subst /, ,$<))) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(O)/ $(gen)/:
	@mkdir -p $@

.PHONY: FORCE
FORCE:

# ---------------------------------------------------------------- dmabuf-test

tool-src-$(CONFIG_DMABUF_TEST) := $(wildcard tools/*.c)
tool-shaders-$(and $(CONFIG_DMABUF_TEST),$(CONFIG_BACKEND_VULKAN)) := $(wildcard tools/*.comp)
tool-obj := $(tool-src-y:%.c=$(O)/%.o)
tool-spv := $(tool-shaders-y:%.comp=$(O)/%.spv.h)
tool := $(if $(tool-src-y),$(O)/dmabuf-test)
tool-libs = $(shell $(PKG_CONFIG) --libs libpng libcjson)
cflags-tools = $(shell $(PKG_CONFIG) --cflags libpng libcjson) -I$(O)/tools -Iinclude

$(O)/%.spv.h: %.comp
	@mkdir -p $(@D)
	$(call say,GLSL,$<)
	$(Q)$(GLSLANG) -V --quiet --target-env vulkan1.1 --vn $(notdir $*)_spv -o $@ $<

$(tool-obj): $(tool-spv)
$(O)/dmabuf-test: $(tool-obj) $(lib-a)
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(tool-obj) $(lib-a) $(all-ldflags) $(tool-libs) -ldl -lpthread
all: $(tool)

# ---------------------------------------------------------------- tests, benchmarks

# tests/unit, tests/lab, bench: one program per file; tests/cts: one program, of
# which the lab's share how devices touch memory.
unit-src := $(wildcard tests/unit/*.c)
unit := $(unit-src:%.c=$(O)/%)
cts-src := $(wildcard tests/cts/*.c)
cts := $(if $(cts-src),$(O)/tests/cts/cts)
lab-src := $(wildcard tests/lab/*.c)
lab := $(if $(and $(CONFIG_BACKEND_CPU),$(CONFIG_BACKEND_VULKAN)),$(lab-src:%.c=$(O)/%))
bench-src := $(wildcard bench/*.c)
bench := $(bench-src:%.c=$(O)/%)
# TESTS_CFLAGS: the tests' own code, other than the library's.
TESTS_CFLAGS ?=
cflags-tests = -Ilib -Itests $(TESTS_CFLAGS)
$(lab:%=%.o): cflags-tests += $(shell $(PKG_CONFIG) --cflags libdrm)

define link-test
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(test-a) $(all-ldflags) -ldl -lpthread
endef

$(unit): $(O)/%: $(O)/%.o $(test-a)
	$(link-test)
# Doubles of driver libraries, which tests load in their place.
fakes-$(CONFIG_BACKEND_CUDA) += cuda cuda-old
fakes-$(CONFIG_BACKEND_VULKAN) += vulkan
fakes := $(fakes-y:%=$(O)/tests/fakes/lib%.so)
fake-obj = $(patsubst %.c,$(O)/%.o,$(wildcard tests/fakes/$(1).c tests/fakes/$(1)_*.c))
$(foreach f,$(fakes-y),$(eval $(O)/tests/fakes/lib$(f).so: $(call fake-obj,$(f))))
# An old driver is the same one without what is OPTIONAL.
$(O)/tests/fakes/libcuda-old.so: $(call fake-obj,cuda) tests/fakes/cuda-old.map
$(fakes):
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -o $@ $(filter %.o,$^) $(all-ldflags) -lpthread \
		$(patsubst %,-Xlinker --version-script=%,$(filter %.map,$^))
$(unit) $(cts): | $(fakes)
$(cts): $(cts-src:%.c=$(O)/%.o) $(test-a)
	$(link-test)
# The suite with a backend of the tests' own in the registry.
trial := $(if $(and $(cts),$(CONFIG_BACKEND_CUDA)),$(O)/tests/trial/cts)
$(O)/tests/trial/access.o: cflags-tests += -iquote tests/trial
$(trial): $(patsubst %.c,$(O)/%.o,$(wildcard tests/trial/*.c)) $(cts-src:%.c=$(O)/%.o) $(test-a)
	$(link-test)
$(lab): $(O)/%: $(O)/%.o $(patsubst %,$(O)/tests/cts/%.o,util cpu vulkan) $(test-a)
	$(link-test)
# For a machine with a GPU, see docs/hardware: what they share is gpu.c.
gpu-src := $(filter-out tests/gpu/gpu.c,$(wildcard tests/gpu/*.c))
gpu := $(if $(CONFIG_BACKEND_CUDA),$(gpu-src:%.c=$(O)/%))
$(gpu): $(O)/%: $(O)/%.o $(O)/tests/gpu/gpu.o \
		$(patsubst %,$(O)/tests/cts/%.o,util cuda vulkan) $(test-a)
	$(link-test)
# Fuzz targets, for builds by clang with -fsanitize=fuzzer-no-link.
fuzz-src := $(wildcard tests/fuzz/*.c)
fuzz := $(fuzz-src:%.c=$(O)/%)
$(fuzz): $(O)/%: $(O)/%.o $(test-a)
	$(call say,LD,$@)
	$(Q)$(CC) -fsanitize=fuzzer -o $@ $< $(test-a) $(all-ldflags) -ldl -lpthread
# bench/import and bench/frame count the library's allocations.
$(O)/bench/cuda.o: cflags-bench = -Ilib
$(O)/bench/import $(O)/bench/frame: bench-ldflags := -Wl,--wrap=malloc
$(bench): $(O)/%: $(O)/%.o $(lib-a)
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $< $(lib-a) $(all-ldflags) $(bench-ldflags) -ldl -lpthread

.PHONY: tests unit cts lab-tests gpu-tests benchmarks fuzz fuzz-merge
unit: $(unit) $(so)
cts: $(cts) $(trial)
lab-tests: $(lab)
gpu-tests: $(cts) $(gpu) $(O)/bench/cuda
benchmarks: $(bench)
fuzz: $(fuzz)
# After tests/fuzz/run has searched: keeps what reaches new code.
fuzz-merge:
	$(Q)for f in $(fuzz-src:tests/fuzz/%.c=%); do mkdir -p tests/fuzz/corpus/$$f && \
		$(O)/tests/fuzz/$$f -merge=1 tests/fuzz/corpus/$$f $(O)/fuzz/$$f; done
tests: unit cts lab-tests gpu-tests benchmarks

# ---------------------------------------------------------------- install

headers := $(filter-out include/dlbuf/vulkan.h,$(wildcard include/dlbuf/*.h)) \
	include/dlbuf/vulkan.h
interop := $(wildcard include/dlbuf/interop/*.h include/dlbuf/interop/*.hpp)
man := $(wildcard man/*.[1357])

.PHONY: install uninstall
install: all
	install -d $(DESTDIR)$(includedir)/dlbuf/interop $(DESTDIR)$(libdir)/pkgconfig
	install -m 644 $(headers) $(DESTDIR)$(includedir)/dlbuf
	$(if $(interop),install -m 644 $(interop) $(DESTDIR)$(includedir)/dlbuf/interop)
	install -m 755 $(so) $(DESTDIR)$(libdir)
	ln -sf $(notdir $(so)) $(DESTDIR)$(libdir)/$(soname)
	ln -sf $(soname) $(DESTDIR)$(libdir)/libdlbuf.so
	install -m 644 $(lib-a) $(DESTDIR)$(libdir)
	install -m 644 $(O)/dlbuf.pc $(DESTDIR)$(libdir)/pkgconfig
	$(if $(tool),install -d $(DESTDIR)$(bindir) && install -m 755 $(tool) $(DESTDIR)$(bindir))
	$(foreach m,$(man),install -D -m 644 $(m) $(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m)) &&) :

uninstall:
	rm -f $(foreach h,$(headers) $(interop),$(DESTDIR)$(includedir)/$(h:include/%=%))
	-rmdir $(DESTDIR)$(includedir)/dlbuf/interop $(DESTDIR)$(includedir)/dlbuf
	rm -f $(addprefix $(DESTDIR)$(libdir)/,$(notdir $(so)) $(soname) libdlbuf.so libdlbuf.a pkgconfig/dlbuf.pc)
	rm -f $(DESTDIR)$(bindir)/dmabuf-test
	rm -f $(foreach m,$(man),$(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m)))

# ---------------------------------------------------------------- the two commands

.PHONY: deps run check check-gpu mutate docs docs-formats docs-python lab lab-shell bench bench-media bench-python clean help
deps:
	$(Q)tools/deps

run:
	$(Q)tools/deps build lab
	$(Q)$(MAKE) --no-print-directory O=$(O) all
	$(Q)tests/lab/lab -- tools/run $(O)

check:
	$(Q)tools/deps build lab check
	$(Q)tests/check O=$(O) $(if $(JOBS),--jobs $(JOBS))

# Needs nothing but a compiler, make and Python: no network, no root.
check-gpu:
	$(Q)tests/gpu/run O=$(O) $(filter-out O=%,$(MAKEOVERRIDES)); r=$$?; [ $$r = 4 ] || exit $$r

mutate:
	$(Q)tools/deps build lab check
	$(Q)tests/mutate O=$(O)

docs: docs-formats docs-python

docs-formats: $(tool)
	$(call say,GEN,docs/formats.md man/dlbuf-formats.7 docs/bindings.md)
	$(Q)tools/formats-doc $(O) > $(O)/formats.md
	$(Q)tools/formats-doc --man $(O) > $(O)/formats.7
	$(Q)mv $(O)/formats.md docs/formats.md
	$(Q)mv $(O)/formats.7 man/dlbuf-formats.7
	$(Q)tools/layouts-doc --write

# The page may say something else yet, which is a failure there.
docs-python:
	$(call say,GEN,docs/interop/python.md)
	-$(Q)tests/check --only 'python@libraries' --only 'python@lab+torch' O=$(O)
	$(Q)tools/interop-doc $(O)/check/python > $(O)/python.md
	$(Q)mv $(O)/python.md docs/interop/python.md

lab:
	$(Q)tests/lab/lab -- sh -c '$(subst ','\'',$(RUN))'

lab-shell:
	$(Q)tests/lab/lab --shell

bench:
	$(Q)tools/deps build lab
	$(Q)$(MAKE) --no-print-directory O=$(O) all benchmarks
	$(Q)tests/lab/lab --icount -- sh -c '$(O)/bench/import && $(O)/bench/frame && $(O)/bench/fence'
	$(Q)$(MAKE) --no-print-directory O=$(O) bench-media bench-python

# What links with GStreamer is compiled against the guest's.
media-cc = tests/lab/cc --with media
bench-media: lib $(O)/bench/camera
	$(Q)$(media-cc) gcc -O2 -Wall -Wextra -Werror -Iinclude -o $(O)/bench/gstreamer bench/media/gstreamer.c $(lib-a) \
		-ldl -lpthread $$($(media-cc) pkg-config --cflags --libs gstreamer-video-1.0 gstreamer-allocators-1.0 | \
		sed 's/-I/-isystem /g')
	$(Q)tests/lab/lab --with media,opencv --timeout 900 --icount -- bench/media/run $(O)

# The wheel's extension with the guest's Python, and tvm-ffi where PyPI is there.
bench-python:
	$(Q)python/tests/host $(O)/bench/python wheel
	$(Q)mkdir -p $(O)/bench/pypi && python3 -m pip install -q --disable-pip-version-check --upgrade \
		--target $(O)/bench/pypi --python-version 3.13 --only-binary=:all: \
		$$(grep -ow 'apache-tvm-ffi==[^ ]*' python/tests/versions) 2> /dev/null || true
	$(Q)tests/lab/lab --with media --icount -- env PYTHONPATH=$(O)/bench/python/site:$(O)/bench/pypi \
		python3 bench/python.py

clean:
	rm -rf $(O)

help:
	@sed -n 's/^# *\(make[ a-z-]* .*\)/\1/p' Makefile
	@printf '%s\n' \
	'make menuconfig       choose backends, exporters, sanitizers' \
	'make defconfig        the default configuration; SET="NAME=y ..." changes symbols' \
	'make install          DESTDIR=, prefix=, libdir=, includedir=, bindir=, mandir=' \
	'make uninstall        the same' \
	'make lab RUN="..."    one command in the lab (a virtual machine with real dma-bufs)' \
	'make lab-shell        a shell in it' \
	'make bench            the benchmarks, in the lab, counted in instructions' \
	'make tests            build the test programs only' \
	'make check-gpu       the tests for a machine with an NVIDIA GPU, which write a report' \
	'                      into docs/hardware; OUT=DIR puts it there' \
	'make mutate           break the source line by line: does a test notice?' \
	'make docs             docs/formats.md, its man page and docs/interop/python.md, from' \
	'                      what the tool prints and the tests ran, and the offsets in' \
	'                      docs/bindings.md, from the compilers' \
	'make deps             install the packages that all of this needs' \
	'make clean            remove $(O)/' \
	'' \
	'O=DIR                 build there instead of build/' \
	'V=1                   show the commands' \
	'JOBS=N                steps of make check at once (as many as there are CPUs)' \
	'CROSS_COMPILE=        prefix of the tools, aarch64-linux-gnu- for instance'

-include $(shell find $(wildcard $(addprefix $(O)/,lib udmabuf tools tests)) -name '*.d' -type f 2>/dev/null) \
	$(wildcard $(O)/bench/*.d)
