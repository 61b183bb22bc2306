# SPDX-License-Identifier: MIT
#
# make            the library, the tool
# make run        a camera's frames as tensors on CPU, Vulkan and OpenCL
# make check      all tests
# make help       the rest
#
# Everything is written under O (build/). V=1 shows the commands.

O ?= build
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(2)')

# In other languages a range such as [A-Z] has other letters: in Turkish no I.
unexport LC_ALL
export LC_COLLATE := C
export LC_NUMERIC := C

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

version_of = $(shell sed -n 's/^.define DLBUF_VERSION_$(1) //p' include/dlbuf/base.h)
MAJOR := $(call version_of,MAJOR)
MINOR := $(call version_of,MINOR)
PATCH := $(call version_of,PATCH)
VERSION := $(MAJOR).$(MINOR).$(PATCH)
# In the tarball of a release this file has the time of its commit; in a repository it has none.
commit-time := $(shell sed -n '/^[0-9]*$$/p' packaging/commit-time)
ifneq ($(commit-time),)
export SOURCE_DATE_EPOCH ?= $(commit-time)
endif

prefix ?= /usr/local
bindir ?= $(prefix)/bin
includedir ?= $(prefix)/include
libdir ?= $(prefix)/lib
mandir ?= $(prefix)/share/man
bashdir ?= $(prefix)/share/bash-completion/completions
zshdir ?= $(prefix)/share/zsh/site-functions
# The folders where Icarus Verilog looks for modules, and of the files that Verilator compiles.
ivldir ?= $(libdir)/ivl
verilogdir ?= $(prefix)/share/dlbuf/verilog
# Plugins of GStreamer: /usr/lib/x86_64-linux-gnu/gstreamer-1.0 is Debian's own.
gstdir ?= $(libdir)/gstreamer-1.0
# The template of a matrix's page.
pagedir ?= $(prefix)/share/dlbuf
DESTDIR ?=
# A name with a space is two names for make, and dlbuf.pc is read from any folder.
$(foreach v,O DESTDIR prefix,$(if $(word 2,$($(v))),$(error $(v) has a space: '$($(v))')))
$(if $(filter-out /%,$(prefix)),$(error prefix does not begin with /: '$(prefix)'))

CROSS_COMPILE ?=
ifeq ($(origin CC),default)
CC := $(CROSS_COMPILE)gcc
endif
ifeq ($(origin CXX),default)
CXX := $(CROSS_COMPILE)g++
endif
# CC=aarch64-linux-gnu-gcc alone names the other tools of that machine, too.
ifeq ($(CROSS_COMPILE),)
cc-prefix := $(firstword $(foreach c,gcc clang,$(patsubst %-$(c),%-,$(filter %-$(c),$(CC)))))
CROSS_COMPILE := $(if $(cc-prefix),$(if $(shell command -v $(cc-prefix)objcopy),$(cc-prefix)))
endif
ifeq ($(origin LD),default)
LD := $(CROSS_COMPILE)ld
endif
ifeq ($(origin AR),default)
AR := $(CROSS_COMPILE)ar
endif
OBJCOPY ?= $(CROSS_COMPILE)objcopy
STRIP ?= $(CROSS_COMPILE)strip
# Found at the first use: only programs need it.
pkg-config = $(or $(shell command -v $(CROSS_COMPILE)pkg-config),$(warning \
	$(CROSS_COMPILE)pkg-config is not installed, pkg-config is used: PKG_CONFIG= names another)pkg-config)
PKG_CONFIG ?= $(eval PKG_CONFIG := $(pkg-config))$(PKG_CONFIG)
GLSLANG ?= glslangValidator
CLANG ?= clang
# Only Debian's python3 finds Debian's python3-kconfiglib.
ifndef PYTHON
PYTHON := $(shell for p in python3 /usr/bin/python3; do \
	$$p -c 'import kconfiglib' 2>/dev/null && echo $$p && break; done)
endif

# ---------------------------------------------------------------- targets
# that need no configuration

no-config := help clean deps run check check-quick check-changed check-drivers check-newest soak-net mutate lab lab-shell menuconfig defconfig \
	setconfig savedefconfig uninstall bench check-gpu example-vpi dist release-check docs-site
ifneq ($(filter-out $(no-config),$(or $(MAKECMDGOALS),all)),)
need-config := 1
endif

# ---------------------------------------------------------------- configuration

export KCONFIG_CONFIG := $(O)/.config
gen := $(O)/include/generated
# SET="WERROR=y DEBUG=y" changes symbols of a new or of the existing configuration. A
# symbol that Kconfig does not have, or that another symbol selects, is refused.
SET ?=

define need-kconfiglib
@test -n '$(PYTHON)' || { echo "make: kconfiglib is missing: run tools/deps build" >&2; exit 1; }
endef

# SET's words, quoted for the shell.
quoted = '$(subst ','\'',$(1))'
set = $(foreach word,$(SET),$(call quoted,$(word)))

# For tools/absent: parts that cannot be built here are left out. As long as .absent has a part,
# each make looks for it again. pkg-config is only for programs.
probes = CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' GLSLANG='$(GLSLANG)' CLANG='$(CLANG)' \
	PKG_CONFIG='$(if $(filter DMABUF_TEST=n,$(SET)),true,$(PKG_CONFIG))'

again := $(if $(SET)$(shell test -s $(O)/.absent && echo y),FORCE)
say-absent = @[ ! -e $(O)/.absent ] || sed 's/^\([^ ]*\) /  ABSENT  \1: /' $(O)/.absent

.PHONY: menuconfig defconfig setconfig savedefconfig
menuconfig:
	$(need-kconfiglib)
	@mkdir -p $(O)
	$(Q)$(PYTHON) -m menuconfig Kconfig

defconfig:
	$(need-kconfiglib)
	@mkdir -p $(O)
	$(Q)rm -f $(KCONFIG_CONFIG) $(O)/.absent
	$(Q)$(probes) $(PYTHON) tools/set-config $(set) >/dev/null
	$(say-absent)

setconfig:
	$(need-kconfiglib)
	@mkdir -p $(O)
	$(Q)$(probes) $(PYTHON) tools/set-config $(set)
	$(say-absent)

savedefconfig:
	$(need-kconfiglib)
	$(Q)$(PYTHON) -m savedefconfig --kconfig Kconfig --out $(O)/defconfig

ifneq ($(PYTHON),)
$(O)/.config: $(again) | $(O)/
	$(Q)out=$$($(probes) $(PYTHON) tools/set-config $(set)) || exit; \
	[ -z "$$out" ] || printf '  %-7s %s\n' CONFIG $(call quoted,$@ $(strip $(SET)))

$(gen)/autoconf.h: $(O)/.config Kconfig | $(gen)/
	$(Q)$(PYTHON) -m genconfig --header-path $@ --config-out $(O)/.config.full Kconfig
else
$(O)/.config: $(again) | $(O)/
	$(Q)$(probes) tools/plain-config $@ $(set) > $@.new
	$(Q)cmp -s $@.new $@ && rm $@.new || { printf '  %-7s %s\n' CONFIG $(call quoted,$@ $(strip $(SET))); mv $@.new $@; }

$(gen)/autoconf.h: $(O)/.config Kconfig | $(gen)/
	$(Q)cp $< $(O)/.config.full
	$(Q)sed -n 's/^\(CONFIG_[A-Z0-9_]*\)=y/#define \1 1/p' $< > $@
endif

# It includes auto.mk, which is made of the resolved configuration, in which
# symbols that were added to Kconfig later have their defaults.
$(gen)/auto.mk: $(gen)/autoconf.h
	$(Q)sed -n 's/^\(CONFIG_[A-Z0-9_]*\)=y/\1 := y/p' $(O)/.config.full > $@

ifdef need-config
include $(gen)/auto.mk
endif

# The parts that are built and those that are not, by the symbols KIND_NAME: the
# names in lower case.
symbols = $(shell sed -n 's/^config $(1)_//p' Kconfig)
lower = $(shell echo '$(1)' | tr A-Z a-z)
built = $(call lower,$(foreach s,$(call symbols,$(1)),$(if $(CONFIG_$(1)_$(s)),$(s))))
left-out = $(call lower,$(foreach s,$(call symbols,$(1)),$(if $(CONFIG_$(1)_$(s)),,$(s))))
backends := $(call built,BACKEND)
exporters := $(call built,EXPORTER)
parts := $(call built,PART)
no-parts := $(call left-out,PART)
no-backends := $(call left-out,BACKEND)
no-exporters := $(call left-out,EXPORTER)
no-prepare := $(call left-out,PREPARE)
# The backends whose devices' memory the tool can access.
tool-dir := tools/dmabuf-test
accesses := $(patsubst $(tool-dir)/access/%.c,%,$(wildcard $(backends:%=$(tool-dir)/access/%.c)))

# The lists of the registries: macros for the parts that are built and for those that are not.
macros = $(foreach n,$(2),'$(1)($(n))')
$(gen)/backends.h: list := $(call macros,BACKEND,$(backends)) $(call macros,BACKEND_OFF,$(no-backends))
$(gen)/exporters.h: list := $(call macros,EXPORTER,$(exporters)) $(call macros,EXPORTER_OFF,$(no-exporters))
$(gen)/accesses.h: list := $(call macros,ACCESS,$(accesses))
$(gen)/backends.h $(gen)/exporters.h $(gen)/accesses.h: FORCE | $(gen)/
	@printf '%s\n' $(list) | cmp -s - $@ || printf '%s\n' $(list) > $@

# The public functions that may fail, for tests/harness/ktap.h.
$(gen)/seen.h: $(wildcard include/dlbuf/*.h include/dlbuf/interop/*.h) Makefile | $(gen)/
	$(Q)sed -En -e 's/^#ifndef (DLBUF_[A-Z0-9_]*H)$$/#ifdef \1/p; s/^(#endif) .. DLBUF_[A-Z0-9_]*H .*/\1/p' \
		-e 's/^(DLBUF_API|static inline) int (dlbuf_[a-z0-9_]*[a-z0-9])\(.*/#define \2(...) ktap_seen("\2", __FILE__, __LINE__, \2(__VA_ARGS__))/p' \
		$(filter %.h,$^) | sed '/ dlbuf_fail(/d' > $@.new
	$(Q)cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# ---------------------------------------------------------------- flags

CFLAGS ?= -O2 -g
opt-$(CONFIG_DEBUG) += -O0 -g3
# These flags save a sixth of the library's code: functions and jumps are not aligned,
# and, except in code that runs for each frame, a helper, an expression and the test of
# a loop are compiled once. CFLAGS comes later and may override them. clang lacks some
# of these flags.
takes = $(shell $(CC) -Werror $(1) -E -x c /dev/null >/dev/null 2>&1 && echo y)
cc-option = $(if $(call takes,$(1)),$(1),$(foreach f,$(1),$(if $(call takes,$(f)),$(f))))
# Tried at their first use: only what compiles needs them.
once = $(eval $(1) := $(2))$($(1))
cold-code = $(call once,cold-code,$(call cc-option,-fno-inline-functions -fno-tree-ch -fno-gcse -fno-caller-saves \
	-fno-jump-tables))
# A tail call needs a second copy of the epilogue and of its unwind table.
smallest = $(call once,smallest,$(or $(call cc-option,-Oz),-Os) $(call cc-option,-fno-optimize-sibling-calls \
	-fno-ivopts -fno-tree-dominator-opts -fno-tree-coalesce-vars))
small-code = $(call once,small-code,$(call cc-option,-fno-align-functions -fno-align-jumps \
	-fno-align-loops -freorder-blocks-algorithm=simple -fno-reorder-blocks-and-partition))
byte-kernels := prepare/bytes_avx2 prepare/bytes_neon prepare/bytes_sse41
hot := system/error system/sys dmabuf/buffer import/cache import/device import/layout access/lease \
	prepare/kernels prepare/kernels_avx2 $(byte-kernels) tensor/sync tensor/tensor tensor/together frame/format frame/frame
$(hot:%=$(O)/lib/%.o): private cold-code :=
# Files that call the kernel or a driver, or run once for a device, are optimised for size.
# The others run for each frame.
warm := $(hot) prepare/axis prepare/rows prepare/bytes system/fork dmabuf/fence import/import access/pending backends/vulkan/jobs backends/vulkan/sync
$(filter-out $(warm:%=$(O)/lib/%.o),$(patsubst %.c,$(O)/%.o,$(wildcard lib/*/*.c lib/backends/*/*.c udmabuf/*.c))): private size = \
	$(if $(filter -O2,$(CFLAGS)),$(smallest))
# Loops over pixels, which the compiler turns into vectors. No vector is passed to another file,
# so the ABI of passing vectors does not matter.
$(O)/lib/prepare/kernels.o $(O)/lib/prepare/kernels_avx2.o: private size := \
	$(if $(filter -O2,$(CFLAGS)),-O3) -fno-trapping-math -Wno-psabi
$(byte-kernels:%=$(O)/lib/%.o): private size := $(if $(filter -O2,$(CFLAGS)),-O3) -Wno-psabi
tables-$(if $(CONFIG_UNWIND_TABLES),,y) := -fno-unwind-tables -fno-asynchronous-unwind-tables
assertions-$(if $(CONFIG_DEBUG),,y) := -DNDEBUG
sanitize-$(CONFIG_SANITIZE_ADDRESS) += -fsanitize=address
sanitize-$(CONFIG_SANITIZE_UNDEFINED) += -fsanitize=undefined -fno-sanitize-recover=all
sanitize-$(CONFIG_SANITIZE_THREAD) += -fsanitize=thread
sanitize-$(CONFIG_COVERAGE) += --coverage

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wvla -Wwrite-strings -Wformat=2 -Wundef
warnings-$(CONFIG_WERROR) += -Werror
base-cflags := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 \
	-fvisibility=hidden -ffunction-sections -fdata-sections -fPIC \
	$(small-code) $(tables-y) $(assertions-y) $(warnings) $(warnings-y) -Iinclude -I$(O)/include -include $(gen)/autoconf.h
all-cflags = $(base-cflags) $(cold-code) $(CFLAGS) $(size) $(no-lto) $(opt-y) $(sanitize-y) $(CPPFLAGS)
all-ldflags = $(CFLAGS) $(sanitize-y) $(LDFLAGS) -Wl,--gc-sections -Wl,--as-needed

# ---------------------------------------------------------------- library

# The rooms of the library, each of which uses those before it (tests/abi/rooms). Pools are
# left out with the allocators. lib/stubs makes the public functions of parts that are left
# out, and NAME_absent.c has the internal ones.
rooms := system dmabuf import access tensor alloc frame prepare capture socket
rooms-of-devices := backends/vulkan bridge queue backends
lib-src-all := $(wildcard $(rooms:%=lib/%/*.c) lib/queue/*.c lib/bridge/*.c lib/backends/*/*.c udmabuf/*.c)
lib-src-off := $(foreach r,$(rooms),$(no-parts:%=lib/$r/%.c) $(parts:%=lib/$r/%_absent.c)) \
	$(if $(CONFIG_PART_ALLOC),,lib/capture/pool.c) $(if $(CONFIG_PART_PREPARE),,lib/prepare/%) \
	$(if $(CONFIG_PREPARE_DEVICE),,lib/prepare/device.c) $(if $(CONFIG_PREPARE_QUEUE),,lib/queue/program.c) \
	$(no-prepare:%=lib/backends/%/prepare.c) $(if $(CONFIG_QUEUE),,lib/queue/%) \
	$(no-backends:%=lib/backends/%/%) $(no-exporters:%=udmabuf/%.c) \
	$(if $(CONFIG_BACKEND_VULKAN),lib/bridge/absent.c,$(filter-out lib/bridge/absent.c,$(wildcard lib/bridge/*.c)))
lib-src-y := $(filter-out $(lib-src-off),$(lib-src-all))
lib-obj := $(lib-src-y:%.c=$(O)/%.o) $(O)/lib/stubs.o
# The archive hides internal names by objcopy, which needs machine code.
$(lib-obj): private no-lto := $(if $(findstring -flto,$(CFLAGS)),-fno-lto)

# If the list has not changed, nothing is rebuilt.
lib-stubs := $(filter-out $(lib-src-y) %absent.c,$(lib-src-all))
$(O)/lib/stubs.c: lib/stubs lib/libdlbuf.map $(lib-stubs) $(gen)/auto.mk
	@mkdir -p $(@D)
	$(Q)lib/stubs lib/libdlbuf.map $(lib-stubs) > $@.new
	$(Q)cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(O)/lib/stubs.o: $(O)/lib/stubs.c $(O)/.flags $(generated)
	$(call say,CC,$<)
	$(Q)$(CC) $(all-cflags) -Os -iquote lib -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# shared: the tool, the plugin of GStreamer and dlbuf.vpi use libdlbuf.so, as a distribution wants
# it. A process that uses the library and the plugin then has one cache of imports.
LINK ?= static
link-lib = $(if $(filter shared,$(LINK)),$(so),$(lib-a))

# Before 1.0 each minor version is an interface of its own: docs/abi.md.
soname := libdlbuf.so.$(if $(filter 0,$(MAJOR)),0.$(MINOR),$(MAJOR))
so := $(O)/libdlbuf.so.$(VERSION)
lib-a := $(O)/libdlbuf.a
# The archive for tests: the same objects with visible internal names.
test-a := $(O)/libdlbuf-internal.a

$(so): $(lib-obj) lib/libdlbuf.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -o $@ $(lib-obj) $(all-ldflags) -Wl,-soname,$(soname) \
		-Wl,--version-script,lib/libdlbuf.map $(if $(sanitize-y),,-Wl,-z,defs) \
		-Wl,-z,relro,-z,now,-Bsymbolic-functions
	$(Q)ln -sf $(notdir $@) $(O)/$(soname)
	$(Q)ln -sf $(soname) $(O)/libdlbuf.so

# One object with only public names, so that none of our internal names conflicts with a program
# that is linked with the archive. Section groups are removed: the linker would take a group of
# the same name from another object, and a local symbol in ours would be lost (i386's
# __x86.get_pc_thunk.bx). On MIPS the names stay, because its GOT has other relocations for local
# symbols.
$(lib-a): $(lib-obj)
	$(call say,AR,$@)
	$(Q)$(LD) -r -o $(O)/libdlbuf.o $(lib-obj)
	$(Q)$(OBJCOPY) $(if $(filter mips%,$(shell $(CC) -dumpmachine)),,--localize-hidden) -R .group \
		$(O)/libdlbuf.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/libdlbuf.o

$(test-a): $(lib-obj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(lib-obj)

# Written at each command: prefix and libdir are those of this command. Paths
# in the prefix follow it, so that an installation can move.
in-prefix = $(patsubst $(prefix)/%,$${prefix}/%,$(1))
$(O)/dlbuf.pc: FORCE | $(O)/
	@printf '%s\n' 'prefix=$(prefix)' 'includedir=$(call in-prefix,$(includedir))' \
		'libdir=$(call in-prefix,$(libdir))' '' 'Name: dlbuf' \
		'Description: DLPack tensors around Linux DMA-BUF file descriptors' \
		'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
		'Libs: -L$${libdir} -ldlbuf' 'Libs.private: -ldl -lpthread' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# For meson.build: the archive in meson's folder.
.PHONY: meson
meson: lib
	$(Q)cmp -s $(lib-a) $(meson-a) || cp $(lib-a) $(meson-a)

.PHONY: all lib absent
absent:
	$(say-absent)
libs-y :=
libs-$(CONFIG_SHARED) += $(so)
libs-$(CONFIG_STATIC) += $(lib-a)
lib: absent $(libs-y) $(O)/dlbuf.pc
all: lib
# Without a library and without the tool.
ifeq ($(libs-y)$(CONFIG_DMABUF_TEST),)
lib: nothing
.PHONY: nothing
nothing:
	@echo 'make: nothing to build: SHARED, STATIC and DMABUF_TEST are off in $(KCONFIG_CONFIG)' >&2; exit 1
endif

# ---------------------------------------------------------------- compiling

# Objects depend on the flags they were made with.
$(O)/.flags: FORCE | $(O)/
	@echo '$(CC) $(all-cflags) $(hot) $(smallest)' | cmp -s - $@ || echo '$(CC) $(all-cflags) $(hot) $(smallest)' > $@

generated := $(gen)/autoconf.h $(gen)/seen.h $(gen)/backends.h $(gen)/exporters.h $(gen)/accesses.h

$(O)/%.o: %.c $(O)/.flags $(generated)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(all-cflags) $(cflags-$(firstword $(subst /, ,$<))) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(O)/ $(gen)/:
	@mkdir -p $@

.PHONY: FORCE
FORCE:

# ---------------------------------------------------------------- dmabuf-test

# Without cJSON the files for a matrix are left out, too.
tool-src-$(CONFIG_DMABUF_TEST) := $(filter-out $(addprefix $(tool-dir)/,png$(if $(CONFIG_TOOL_PNG),_absent).c \
	json$(if $(CONFIG_TOOL_JSON),_absent).c matrix/drm$(if $(CONFIG_TOOL_DRM),_absent).c), \
	$(wildcard $(addprefix $(tool-dir)/,*.c camera/*.c fence/*.c $(if $(CONFIG_TOOL_JSON),matrix/*.c)))) \
	$(addprefix $(tool-dir)/,access/find.c $(accesses:%=access/%.c))
tool-packages = $(if $(CONFIG_TOOL_PNG),libpng) $(if $(CONFIG_TOOL_JSON),libcjson) $(if $(CONFIG_TOOL_DRM),libdrm)
tool-obj := $(tool-src-y:%.c=$(O)/%.o) $(if $(tool-src-y),$(O)/lib/system/node_access.o)
tool := $(if $(tool-src-y),$(O)/dmabuf-test)
tool-flags = $(if $(strip $(tool-packages)),$(shell $(PKG_CONFIG) --$(1) $(tool-packages)))
tool-libs = $(call tool-flags,libs)
cflags-tools = $(call tool-flags,cflags) -iquote $(tool-dir) -iquote $(O)/$(tool-dir) -Iinclude
$(O)/$(tool-dir)/access/%.o: cflags-tools += -iquote lib -Wno-unused-parameter

$(O)/%.spv.h: %.comp
	@mkdir -p $(@D)
	$(call say,GLSL,$<)
	$(Q)$(GLSLANG) -V --quiet --target-env vulkan1.1 --vn $(notdir $*)_spv -o $@ $<

# The library's kernel is small, and without names.
$(O)/lib/%.spv.h: lib/%.comp
	@mkdir -p $(@D)
	$(call say,GLSL,$<)
	$(Q)$(GLSLANG) -V --quiet -g0 -Os --target-env vulkan1.1 --vn $(notdir $*)_spv -o $@ $<
$(O)/lib/backends/vulkan/prepare.o: $(O)/lib/backends/vulkan/prepare.spv.h
$(O)/lib/backends/vulkan/prepare.o: private cflags-lib := -iquote $(O)/lib/backends/vulkan

# Compiled by clang, with any CC.
$(O)/lib/backends/cuda/prepare.ptx.h: lib/backends/cuda/ptx lib/backends/cuda/prepare.cu
$(O)/lib/backends/levelzero/prepare.spirv.h: lib/backends/levelzero/spirv lib/backends/levelzero/prepare.cl
$(O)/lib/backends/cuda/prepare.ptx.h $(O)/lib/backends/levelzero/prepare.spirv.h: lib/prepare/kernel.h
	@mkdir -p $(@D)
	$(call say,CLANG,$@)
	$(Q)CLANG='$(CLANG)' $(filter %/ptx %/spirv,$^) > $@
$(O)/lib/backends/cuda/prepare.o: $(O)/lib/backends/cuda/prepare.ptx.h
$(O)/lib/backends/cuda/prepare.o: private cflags-lib := -iquote $(O)/lib/backends/cuda
$(O)/lib/backends/levelzero/prepare.o: $(O)/lib/backends/levelzero/prepare.spirv.h
$(O)/lib/backends/levelzero/prepare.o: private cflags-lib := -iquote $(O)/lib/backends/levelzero

# The template of a page of HTML, as a string of C.
$(O)/%.html.h: %.html
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@

$(O)/$(tool-dir)/matrix/page.o: $(O)/$(tool-dir)/matrix/page.html.h
$(O)/dmabuf-test: $(tool-obj) $(link-lib)
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(tool-obj) $(link-lib) $(all-ldflags) $(tool-libs) -ldl -lpthread -lm
all: $(tool)

# ---------------------------------------------------------------- tests, benchmarks

# tests/unit, tests/lab, bench: one program per file; tests/cts: one program. The devices'
# accesses to memory are in tools/dmabuf-test/access and tests/cts/access, which other programs
# share.
unit-src := $(wildcard tests/unit/*.c)
unit := $(unit-src:%.c=$(O)/%)
access-src := $(wildcard $(foreach b,$(backends),$(tool-dir)/access/$(b).c tests/cts/access/$(b).c))
cts-src := $(wildcard tests/cts/*.c) $(addprefix $(tool-dir)/fence/,call.c cases.c vgem.c) $(access-src)
cts := $(O)/tests/cts/cts
access := $(O)/tests/cts/util.o $(access-src:%.c=$(O)/%.o)
lab-src := $(wildcard tests/lab/*.c)
lab := $(if $(and $(CONFIG_BACKEND_CPU),$(CONFIG_BACKEND_VULKAN)),$(lab-src:%.c=$(O)/%))
bench-src := $(wildcard bench/*.c)
bench := $(bench-src:%.c=$(O)/%)
# TESTS_CFLAGS: the tests' own code, other than the library's. TESTS_LDFLAGS: how programs are linked
# with the archive for tests.
TESTS_CFLAGS ?=
TESTS_LDFLAGS ?=
cflags-tests = -Ilib -Itests -Itests/harness -Wno-unused-parameter $(TESTS_CFLAGS)
# The code in the comments of headers, which tests compile and run.
$(lab:%=%.o): $(gen)/examples
$(gen)/examples: tests/lab/examples.awk $(wildcard include/dlbuf/*.h) docs/prepare.md | $(gen)/
	$(Q)awk -v out=$(gen) -f $< $(filter %.h %.md,$^) && touch $@
$(lab:%=%.o): cflags-tests += $(shell $(PKG_CONFIG) --cflags libdrm)
$(O)/tests/lab/image.o: cflags-tests += -I$(O)/tests/lab
$(O)/tests/lab/image.o: $(O)/tests/lab/image.spv.h

# Its reference computes for minutes without an optimizer, or with calls that look for races. Races
# for results are found where memcpy(), memcmp() and memset() get all of them.
$(O)/tests/unit/prepare.o: cflags-tests += $(if $(filter -O0,$(opt-y) $(CFLAGS) $(TESTS_CFLAGS)),-O1) \
	$(if $(CONFIG_SANITIZE_THREAD),-fno-sanitize=thread)

define link-test
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(filter %.o $(fake-common),$^) $(test-a) $(all-ldflags) $(TESTS_LDFLAGS) -ldl -lpthread -lm
endef

$(unit): $(O)/%: $(O)/%.o $(test-a)
	$(link-test)
# Doubles of driver libraries, which tests load in their place. NAME-old is the same
# driver without the functions that its map hides. Shared files are in common; each
# double links those that it uses.
fake-src := $(wildcard $(backends:%=tests/doubles/%.c) $(backends:%=tests/doubles/%-old.map))
doubles := $(foreach f,$(fake-src),$(O)/tests/doubles/lib$(basename $(notdir $(f))).so)
fake-parts = $(foreach f,$(fake-of-$(1)) $(1),$(wildcard tests/doubles/$(f).c tests/doubles/$(f)_*.c))
# HIP's is CUDA's with other names and rules. The old one is HSA's library, too.
fake-of-hip := cuda
$(O)/tests/doubles/libhip-old.so: fake-soname := -Wl,-soname,libhsa-runtime64.so.1
fake-obj = $(patsubst %.c,$(O)/%.o,$(fake-parts))
$(foreach b,$(backends),$(eval $(filter %/lib$(b).so %/lib$(b)-old.so,$(doubles)): $(call fake-obj,$(b))))
$(filter %-old.so,$(doubles)): $(O)/tests/doubles/lib%.so: tests/doubles/%.map
fake-common := $(O)/tests/doubles/common.a
$(fake-common): $(patsubst %.c,$(O)/%.o,$(wildcard tests/doubles/common/*.c))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(O)/tests/unit/queue: $(if $(CONFIG_QUEUE),$(fake-common))
$(doubles): $(fake-common)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -o $@ $(filter %.o,$^) $(fake-common) $(all-ldflags) $(fake-soname) -lpthread \
		$(patsubst %,-Xlinker --version-script=%,$(filter %.map,$^))
$(unit) $(cts): | $(doubles)
$(cts): $(cts-src:%.c=$(O)/%.o) $(test-a)
	$(link-test)
# The suite with a backend of the tests' own in the registry.
trial := $(if $(CONFIG_QUEUE),$(O)/tests/trial/cts)
$(O)/tests/trial/access.o: cflags-tests += -iquote tests/trial
$(trial): $(patsubst %.c,$(O)/%.o,$(wildcard tests/trial/*.c) $(filter-out %/main.c,$(cts-src))) $(test-a) $(fake-common)
	$(link-test)
$(lab): $(O)/%: $(O)/%.o $(access) $(test-a)
	$(link-test)
# Random calls on all devices. Its symbols come before those of drivers, see tests/stress/seam.h.
stress := $(if $(and $(CONFIG_BACKEND_CPU),$(CONFIG_QUEUE)),$(O)/tests/stress/stress)
memfds := $(O)/tests/harness/memfds.o
$(stress): $(patsubst %.c,$(O)/%.o,$(wildcard tests/stress/*.c)) $(memfds) $(access) $(test-a) | $(doubles)
	$(link-test)
# For a machine with a GPU, see docs/hardware. gpu.c is shared.
gpu-src := $(filter-out tests/gpu/gpu.c,$(wildcard tests/gpu/*.c))
gpu := $(if $(CONFIG_BACKEND_CUDA),$(gpu-src:%.c=$(O)/%))
$(gpu): $(O)/%: $(O)/%.o $(O)/tests/gpu/gpu.o $(access) $(test-a)
	$(link-test)
$(unit) $(cts) $(trial) $(lab) $(gpu) $(stress): $(O)/tests/harness/ktap.o
# Fuzz targets, for builds by clang with -fsanitize=fuzzer-no-link. OSS-Fuzz has other engines.
LIB_FUZZING_ENGINE ?= -fsanitize=fuzzer
FUZZ_LD ?= $(CC)
fuzz-src := $(wildcard tests/fuzz/*.c)
fuzz := $(fuzz-src:%.c=$(O)/%)
$(fuzz): $(O)/%: $(O)/%.o $(memfds) $(test-a)
	$(call say,LD,$@)
	$(Q)$(FUZZ_LD) -o $@ $(filter %.o,$^) $(test-a) $(LIB_FUZZING_ENGINE) $(all-ldflags) $(TESTS_LDFLAGS) -ldl -lpthread -lm
# It uses the reference of a unit test.
$(O)/tests/fuzz/prepare: $(O)/tests/harness/ktap.o
# bench/import and bench/frame count the library's allocations.
$(O)/bench/cuda.o: cflags-bench = -Ilib
$(O)/bench/import $(O)/bench/frame: bench-ldflags := -Wl,--wrap=malloc
$(bench): $(O)/%: $(O)/%.o $(lib-a)
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $< $(lib-a) $(all-ldflags) $(bench-ldflags) -ldl -lpthread

.PHONY: tests unit cts stress stress-tests lab-tests gpu-tests benchmarks fuzz fuzz-merge
unit cts gpu-tests: absent
unit: $(unit) $(so)
cts: $(cts) $(trial)
lab-tests: $(lab)
stress-tests: $(stress)
gpu-tests: $(cts) $(gpu) $(O)/bench/cuda
benchmarks: $(bench)
# By hand, as long as wanted: make O=/tmp/tsan SET=SANITIZE_THREAD=y stress SECONDS=300
stress: $(stress)
	$(Q)$(stress) --seconds $(or $(SECONDS),10) $(STRESS)
fuzz: $(fuzz)
# After a search of tests/fuzz/run: keeps the inputs that reach new code.
fuzz-merge:
	$(Q)for f in $(fuzz-src:tests/fuzz/%.c=%); do mkdir -p tests/fuzz/corpus/$$f && \
		$(O)/tests/fuzz/$$f -merge=1 -use_counters=0 tests/fuzz/corpus/$$f $(O)/fuzz/$$f; done
tests: unit cts stress-tests lab-tests gpu-tests benchmarks

# ---------------------------------------------------------------- Verilog simulators

# dlbuf.vpi is built where Icarus Verilog's header is. VPI_CC may be a compiler for
# another machine, as VPI_CC='tests/guest/cc --with verilog gcc' is.
VPI_CC ?= $(CC)
vpi-header = \#include <iverilog/vpi_user.h>
has-vpi = $(shell echo '$(vpi-header)' | $(VPI_CC) -E -x c - >/dev/null 2>&1 && echo y)
vpi := $(if $(CONFIG_BACKEND_VPI),$(O)/dlbuf.vpi)
verilog := verilog/dlbuf.vh verilog/dlbuf_dpi.sv verilog/dlbuf_mem.v verilog/dlbuf_axi.v \
	verilog/sim.c verilog/sim.h verilog/dpi.c
$(O)/dlbuf.vpi: verilog/sim.c verilog/vpi.c verilog/sim.h $(link-lib)
	$(call say,LD,$@)
	$(Q)$(VPI_CC) -shared -o $@ $(filter %.c,$^) $(link-lib) -std=gnu11 -D_GNU_SOURCE -fPIC \
		-fvisibility=hidden $(warnings) $(warnings-y) -Iinclude $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) \
		-Wl,--exclude-libs,ALL -Wl,-z,relro,-z,now -ldl -lpthread
.PHONY: verilog
verilog: $(vpi)
no-vpi := dlbuf.vpi: iverilog/vpi_user.h is not installed (tools/deps verilog)
ifdef need-config
all: $(if $(has-vpi),$(vpi),$(vpi:%=absent-vpi))
endif

# ---------------------------------------------------------------- the element of GStreamer
#
# libgstdlbuf.so is built where GStreamer's headers are. GST_CC and GST_PKG_CONFIG may be those of
# another machine: 'tests/guest/cc --with media gcc', 'tests/guest/cc --with media pkg-config'.
GST_CC ?= $(CC)
GST_PKG_CONFIG ?= $(PKG_CONFIG)
gst-packages := gstreamer-base-1.0 gstreamer-video-1.0 gstreamer-allocators-1.0
has-gst = $(shell $(if $(CROSS_COMPILE),command -v $(CROSS_COMPILE)pkg-config >/dev/null &&) \
	$(GST_PKG_CONFIG) --exists $(gst-packages) 'gstreamer-1.0 >= 1.20' 2>/dev/null && echo y)
gst-so := $(O)/libgstdlbuf.so
gst := $(if $(CONFIG_PART_PREPARE),$(gst-so))
no-gst := libgstdlbuf.so: the headers of GStreamer 1.20 or newer are not installed (tools/deps gstreamer)
gst-sources := $(wildcard gstreamer/*.c)
$(gst-so): $(gst-sources) $(wildcard gstreamer/*.h) $(link-lib) $(wildcard include/dlbuf/*.h include/dlbuf/interop/gstreamer.h)
	@$(if $(has-gst),,echo 'make: $(no-gst)' >&2; exit 1)
	$(call say,LD,$@)
	$(Q)$(GST_CC) -shared -o $@ $(gst-sources) $(link-lib) -std=gnu11 -D_GNU_SOURCE -fPIC -O2 -fvisibility=hidden \
		$(filter-out -Wmissing-prototypes,$(warnings)) -Wno-unused-parameter -Wno-missing-field-initializers \
		$(warnings-y) -Iinclude $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) -Wl,--exclude-libs,ALL -Wl,--gc-sections \
		-Wl,-z,relro,-z,now $$($(GST_PKG_CONFIG) --cflags --libs $(gst-packages) | sed 's/-I/-isystem /g') -ldl -lpthread
.PHONY: gstreamer
gstreamer: $(gst)
ifdef need-config
all: $(if $(gst),$(if $(has-gst),$(gst),absent-gst))
endif
.PHONY: absent-gst absent-vpi
absent-gst absent-vpi: absent-%:
	@echo '  ABSENT  $(no-$*)'

# ---------------------------------------------------------------- install

headers := $(filter-out include/dlbuf/vulkan.h,$(wildcard include/dlbuf/*.h)) \
	include/dlbuf/vulkan.h
interop := $(wildcard include/dlbuf/interop/*.h include/dlbuf/interop/*.hpp)
man := $(if $(tool),man/dmabuf-test.1) $(if $(vpi),man/dlbuf-verilog.7)
cmakedir = $(DESTDIR)$(libdir)/cmake/dlbuf
formats-man = $(DESTDIR)$(mandir)/man7/dlbuf-formats.7
# Beside the tool, as dmabuf-NAME; they have its man page.
scripts := matrix-diff report

.PHONY: install uninstall
install: all
	install -d $(DESTDIR)$(includedir)/dlbuf/interop $(DESTDIR)$(libdir)/pkgconfig
	install -m 644 $(headers) $(DESTDIR)$(includedir)/dlbuf
	$(if $(interop),install -m 644 $(interop) $(DESTDIR)$(includedir)/dlbuf/interop)
	$(if $(CONFIG_SHARED),install -m 755 $(so) $(DESTDIR)$(libdir))
	$(if $(CONFIG_SHARED),ln -sf $(notdir $(so)) $(DESTDIR)$(libdir)/$(soname))
	$(if $(CONFIG_SHARED),ln -sf $(soname) $(DESTDIR)$(libdir)/libdlbuf.so)
	$(if $(CONFIG_STATIC),install -m 644 $(lib-a) $(DESTDIR)$(libdir))
	install -m 644 $(O)/dlbuf.pc $(DESTDIR)$(libdir)/pkgconfig
	install -d $(cmakedir)
	umask 022 && sed 's,@UP@,$(shell realpath -m --relative-to=$(libdir) $(includedir)),' packaging/dlbufConfig.cmake > $(cmakedir)/dlbufConfig.cmake
	umask 022 && sed 's,@VERSION@,$(VERSION),' packaging/dlbufConfigVersion.cmake > $(cmakedir)/dlbufConfigVersion.cmake
	$(if $(tool),install -d $(DESTDIR)$(bindir) && install -m 755 $(tool) $(DESTDIR)$(bindir))
	$(if $(tool),$(foreach s,$(scripts),install -m 755 tools/$(s) $(DESTDIR)$(bindir)/dmabuf-$(s) &&) :)
	$(if $(tool),$(foreach s,$(scripts),install -d $(DESTDIR)$(mandir)/man1 && ln -sf dmabuf-test.1 $(DESTDIR)$(mandir)/man1/dmabuf-$(s).1 &&) :)
	$(if $(tool),install -D -m 644 $(tool-dir)/matrix/page.html $(DESTDIR)$(pagedir)/matrix.html)
	$(if $(tool),install -D -m 644 completions/dmabuf-test.bash $(DESTDIR)$(bashdir)/dmabuf-test)
	$(if $(tool),install -D -m 644 completions/_dmabuf-test $(DESTDIR)$(zshdir)/_dmabuf-test)
	$(if $(has-vpi),$(if $(vpi),install -D -m 755 $(vpi) $(DESTDIR)$(ivldir)/dlbuf.vpi))
	$(if $(gst),$(if $(has-gst),install -D -m 755 $(gst) $(DESTDIR)$(gstdir)/libgstdlbuf.so))
	$(if $(vpi),install -d $(DESTDIR)$(verilogdir) && install -m 644 $(verilog) $(DESTDIR)$(verilogdir))
	$(foreach m,$(man),install -D -m 644 $(m) $(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m)) &&) :
	umask 022 && tools/docs/man $(DESTDIR)$(mandir)
	tools/docs/formats --man > $(O)/formats.7 && install -D -m 644 $(O)/formats.7 $(formats-man)

uninstall:
	rm -f $(foreach h,$(headers) $(interop),$(DESTDIR)$(includedir)/$(h:include/%=%))
	-rmdir $(DESTDIR)$(includedir)/dlbuf/interop $(DESTDIR)$(includedir)/dlbuf
	rm -f $(cmakedir)/dlbufConfig.cmake $(cmakedir)/dlbufConfigVersion.cmake
	-rmdir $(cmakedir)
	rm -f $(addprefix $(DESTDIR)$(libdir)/,$(notdir $(so)) $(soname) libdlbuf.so libdlbuf.a pkgconfig/dlbuf.pc)
	rm -f $(DESTDIR)$(bindir)/dmabuf-test $(DESTDIR)$(ivldir)/dlbuf.vpi $(DESTDIR)$(gstdir)/libgstdlbuf.so
	rm -f $(foreach s,$(scripts),$(DESTDIR)$(bindir)/dmabuf-$(s) $(DESTDIR)$(mandir)/man1/dmabuf-$(s).1) $(DESTDIR)$(pagedir)/matrix.html
	rm -f $(DESTDIR)$(bashdir)/dmabuf-test $(DESTDIR)$(zshdir)/_dmabuf-test
	rm -f $(verilog:verilog/%=$(DESTDIR)$(verilogdir)/%)
	-rmdir $(DESTDIR)$(verilogdir) $(DESTDIR)$(prefix)/share/dlbuf $(DESTDIR)$(ivldir) $(DESTDIR)$(gstdir)
	rm -f $(foreach m,$(wildcard man/*.[17]),$(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m))) $(formats-man)
	rm -f $(addprefix $(DESTDIR)$(mandir)/,$(shell tools/docs/man --list))

# ---------------------------------------------------------------- the two commands

.PHONY: dist release-check deps run check check-unit check-quick check-changed check-drivers check-newest check-gpu soak-net mutate docs docs-matrix docs-support docs-formats docs-network docs-performance docs-python docs-site lab lab-shell bench bench-media bench-net bench-prepare bench-python bench-vpi clean help
deps:
	$(Q)tools/deps

run:
	$(Q)tools/deps build lab
	$(Q)tests/run/space $(O) run
	$(Q)$(MAKE) --no-print-directory O=$(O) all
	$(Q)tests/guest/lab --with gles -- tools/run $(O)

check:
	$(Q)tools/deps build python lab check
	$(Q)tests/run/check O=$(O) $(if $(JOBS),--jobs $(JOBS)) $(if $(KEEP),--keep)

# For packagers: no dma-buf, network, git or root. EMULATOR= runs those of another machine.
EMULATOR ?=
check-unit: unit
	$(Q)good=0 skipped='' failed=''; for t in $(notdir $(unit)); do \
		$(EMULATOR) $(O)/tests/unit/$$t > $(O)/tests/unit/$$t.ktap 2> $(O)/tests/unit/$$t.log; \
		case $$? in 0) good=$$((good + 1));; 4) skipped="$$skipped $$t";; \
		*) failed="$$failed $$t"; cat $(O)/tests/unit/$$t.log $(O)/tests/unit/$$t.ktap;; esac; done; \
	echo "$$good programs passed; failed:$${failed:- none}; skipped:$${skipped:- none}"; test -z "$$failed"

check-quick:
	$(Q)tools/deps build python lab check
	$(Q)tests/run/check O=$(O) $(if $(JOBS),--jobs $(JOBS)) --only build@gcc --only unit@gcc --only cts@cpu \
		--only tool@list --only tool@formats --only tool@style

check-changed:
	$(Q)tools/deps build python lab check
	$(Q)set -f; steps=$$(tests/run/changed $(SINCE)) && if [ -z "$$steps" ]; then echo 'no step concerns what has changed'; \
		else tests/run/check O=$(O) $(if $(JOBS),--jobs $(JOBS)) $$(printf -- '--only %s ' $$steps); fi

# The whole suite on the drivers of tests/drivers, and their versions.
check-drivers:
	$(Q)tools/deps build python lab check
	$(Q)DRIVERS=all tests/run/check O=$(O) $(if $(JOBS),--jobs $(JOBS)) --only 'cts@vulkan+[anptrv]*' --only '*@gles+[!f]*' --only '*@hip+kfd' --only '*@levelzero+xe' --only 'cts@opencl+intel'; r=$$?; \
		grep -aH '^# driver: ' $(O)/check/cts@*+*.ktap; exit $$r

# Python's libraries without pins. The step runs first: what differs is printed.
check-newest:
	$(Q)tools/deps build python lab check
	$(Q)tests/run/check O=$(O) --only python@libraries; python/tests/newest $(O)/check/python

# examples/tcp.c between two guests: a fault in each round. SEED=N has others.
ROUNDS ?= 1000
soak = tests/interop/tcp
soak-net:
	$(Q)tools/deps build lab
	$(Q)$(MAKE) --no-print-directory O=$(O) lib
	$(Q)tests/interop/build $(O) tcp-example@gcc
	$(Q)tests/guest/pair --timeout 0 --cpus 1 -- $(soak) a $(O) -- $(soak) b $(O) --soak $(ROUNDS) $(SEED)

# Needs nothing but a compiler, make and Python: no network, no root.
check-gpu:
	$(Q)tests/gpu/run O=$(O) $(filter-out O=%,$(MAKEOVERRIDES)); r=$$?; [ $$r = 4 ] || exit $$r

mutate:
	$(Q)tools/deps build python lab check
	$(Q)tests/run/mutate O=$(O)

# The products of a release. Each is a script of tools/dist; tests/run/release.mk has the checks.
export DIST ?= tarball python debian distros bundle sbom
dist:
	$(Q)tools/deps build dist
	$(Q)tools/dist/release $(O)/dist $(DIST)

release-check:
	$(Q)tools/deps build dist
	$(Q)CHECK_PLAN=tests/run/release.mk tests/run/check O=$(O)/release

docs: docs-formats docs-python

# After tests/run/check: the page of what was tested, from its results.
docs-support:
	$(call say,GEN,docs/generated/support.md)
	$(Q)tools/docs/support $(O)

# After make bench: the page of its measurements.
docs-performance:
	$(call say,GEN,docs/generated/performance.md docs/images/*.svg)
	$(Q)tools/docs/performance --write $(O)
	$(Q)tools/docs/charts --write

# After make bench-net: the page of its measurements.
docs-network:
	$(call say,GEN,docs/generated/network.md)
	$(Q)tools/docs/network --write $(O)

# The picture in README.md: the lab's matrix, in Chromium. The page is O/matrix.html.
docs-matrix: $(tool)
	$(call say,GEN,docs/images/matrix.png)
	$(Q)tests/guest/lab -- sh -c '$(tool) matrix --quiet --html $(O)/matrix.html || [ $$? = 1 ]'
	$(Q)python3 tests/tool/page.py picture $(O)/matrix.html docs/images/matrix.png 1280x830 light

docs-formats: $(tool)
	$(call say,GEN,docs/generated/formats.md)
	$(Q)tools/docs/formats $(O) > $(O)/formats.md
	$(Q)mv $(O)/formats.md docs/generated/formats.md

# Guides, functions and Python's API, to be read without a server: O/site/index.html.
docs-site: | $(O)/
	$(call say,GEN,$(O)/site)
	$(Q)rm -rf $(O)/man && cp -r man $(O)/man && tools/docs/man $(O)/man && tools/docs/formats --man > $(O)/man/dlbuf-formats.7
	$(Q)tools/docs/site $(O)/site $(O)/man

# The page may still have old figures, which is a failure there.
docs-python:
	$(call say,GEN,docs/generated/python.md)
	-$(Q)tests/run/check --only 'python@libraries' --only 'python@lab+torch' O=$(O)
	$(Q)tools/docs/interop $(O)/check/python > $(O)/python.md
	$(Q)mv $(O)/python.md docs/generated/python.md

# A frame of a camera through a design in Verilog; the pictures are in O/examples/vpi.
.PHONY: example-vpi
example-vpi:
	$(Q)tools/deps build lab
	$(Q)$(MAKE) --no-print-directory O=$(O) VPI_CC='tests/guest/cc --with verilog gcc' lib verilog
	$(Q)python/tests/host $(O)/bench/python wheel
	$(Q)examples/vpi/run $(O) $(O)/bench/python/site 640 360

# RUN as it was written: a $ is the guest's.
lab:
	$(Q)tests/guest/lab -- sh -c '$(subst ','\'',$(value RUN))'

lab-shell:
	$(Q)tests/guest/lab --shell

# The measurements for docs/generated/performance.md.
figures = $(O)/bench/figures
icount = tests/guest/lab --env BENCH_FIGURES=$(figures) --timeout 900 --icount
bench:
	$(Q)tools/deps build lab
	$(Q)$(MAKE) --no-print-directory O=$(O) all benchmarks
	$(Q)rm -f $(figures)
	$(Q)$(icount) -- sh -c 'printf "kernel\tabout\t0\tLinux %s %s\n" $$(uname -rm) > $(figures) && \
		$(O)/bench/import && $(O)/bench/frame && $(O)/bench/fence && $(O)/bench/calls && \
		$(O)/bench/opencl && $(O)/bench/vulkan'
	$(Q)$(MAKE) --no-print-directory O=$(O) bench-media bench-prepare bench-python bench-vpi

# Programs that link with GStreamer are compiled against the guest's.
media-cc = tests/guest/cc --with media
bench-media: lib $(O)/bench/camera
	$(Q)$(media-cc) gcc -O2 -Wall -Wextra -Werror -Iinclude -o $(O)/bench/gstreamer bench/media/gstreamer.c $(lib-a) \
		-ldl -lpthread $$($(media-cc) pkg-config --cflags --libs gstreamer-video-1.0 gstreamer-allocators-1.0 | \
		sed 's/-I/-isystem /g')
	$(Q)$(icount) --with media,opencv -- bench/media/run $(O)

# A model's input beside other libraries: three machines by qemu-user, and this one. Exit status
# 4: something is absent, which the output names.
machines = arm64 avx2 sse2 time
bench-prepare:
	$(Q)tools/deps build bench
	$(Q)mkdir -p $(O)/bench && rm -f $(O)/bench/prepare
	$(Q)for m in $(machines); do O=$(O) BENCH_FIGURES=$(O)/bench/prepare bench/media/count --python $$m || [ $$? = 4 ] || exit 1; done

# Frames from one network namespace to another one, which root makes: times, on this machine.
bench-net:
	$(Q)tools/deps build python bench
	$(Q)python/tests/host $(O)/bench/python wheel
	$(Q)mkdir -p $(O)/bench/net && python/tests/guest $(O)/bench/net/pypi net --python-version \
		$$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	$(Q)bench/net/run --json $(O)/bench/net/figures.json $(O)

# Icarus Verilog is the guest's.
bench-vpi: $(O)/bench/vpi
	$(Q)tests/guest/lab --with verilog --sysroot > /dev/null
	$(Q)$(MAKE) --no-print-directory O=$(O) VPI_CC='tests/guest/cc --with verilog gcc' verilog
	$(Q)$(icount) --with verilog -- $(O)/bench/vpi $(O)

# The wheel's extension with the guest's Python, and tvm-ffi where PyPI is there. With another hash
# seed in each run np.asarray(t) had 3,919 to 4,001 instructions.
bench-python:
	$(Q)python/tests/host $(O)/bench/python wheel
	$(Q)mkdir -p $(O)/bench/pypi && python3 -m pip install -q --disable-pip-version-check --upgrade \
		--target $(O)/bench/pypi --python-version 3.13 --only-binary=:all: \
		$$(grep -owm 1 'apache-tvm-ffi==[^ ]*' python/tests/versions) 2> /dev/null || true
	$(Q)$(icount) --with torch -- env PYTHONHASHSEED=0 PYTHONPATH=$(O)/bench/python/site:$(O)/bench/pypi python3 bench/python.py
	$(Q)if python/tests/guest $(O)/bench/answers examples; then \
		$(icount) --with media,opencv -- env PYTHONHASHSEED=0 PYTHONPATH=$(O)/bench/python/site:$(O)/bench/answers \
		python3 bench/media/answers.py; fi

clean:
	rm -rf $(O)

help:
	@sed -n 's/^# *\(make[ a-z-]* .*\)/\1/p' Makefile
	@printf '%s\n' \
	'make menuconfig       choose backends, exporters, sanitizers' \
	'make defconfig        the default configuration; SET="NAME=y ..." changes symbols, of any make' \
	'make install          DESTDIR=, prefix=, libdir=, includedir=, bindir=, mandir=' \
	'make uninstall        the same' \
	'make gstreamer        libgstdlbuf.so, the element dlbufprepare, where GStreamer'"'"'s headers are' \
	'make lab RUN="..."    one command in the lab (a virtual machine with real dma-bufs)' \
	'make lab-shell        a shell in it' \
	'make bench            the benchmarks, in the lab, counted in instructions' \
	'make bench-prepare    of these only a model'"'"'s input beside other libraries' \
	'make bench-net        frames over a network by dlbuf.zenoh and by others, in time; needs root' \
	'make tests            build the test programs only' \
	'make stress           random calls from several threads, SECONDS=10 for each list of devices;' \
	'                      STRESS="--seed N" are its options' \
	'make check-unit       the tests that need no dma-buf and nothing installed: for packagers' \
	'make check-quick      the tests for every change, in a few minutes' \
	'make check-changed    what a change since SINCE=COMMIT (HEAD) concerns, by folders' \
	'make check-drivers    the suite on real drivers of GPUs over a stub of the kernel' \
	'make soak-net         ROUNDS=1000 of faults of examples/tcp.c between two guests: kills, stops,' \
	'                      links that go down; SEED=N has another order' \
	'make check-newest     the newest versions of Python libraries, and what differs from the' \
	'                      pinned ones' \
	'make check-gpu        the tests for a machine with an NVIDIA GPU, which write a report' \
	'                      into docs/hardware; OUT=DIR puts it there' \
	'make mutate           break the source line by line: does a test notice?' \
	'make dist             the files of a release, in build/dist; DIST="tarball python ..." chooses' \
	'make release-check    makes them twice, and checks them and what else a release needs' \
	'make docs             formats.md and python.md in docs/generated, from' \
	'                      what the tool prints and the tests ran' \
	'make docs-support     docs/generated/support.md, from the results of the last make check' \
	'make docs-matrix      the picture of a matrix in README.md, from the lab' \
	'make docs-site        the pages of guides, functions and Python as HTML, in build/site' \
	'make docs-performance docs/generated/performance.md and charts, from the last make bench' \
	'make docs-network     docs/generated/network.md, from the last make bench-net' \
	'make deps             install the packages that all of this needs' \
	'make clean            remove $(O)/' \
	'' \
	'O=DIR                 build there instead of build/' \
	'V=1                   show the commands' \
	'JOBS=N                steps of make check at once (as many as there are CPUs)' \
	'CROSS_COMPILE=        prefix of the tools, aarch64-linux-gnu- for instance'

-include $(shell find $(wildcard $(addprefix $(O)/,lib udmabuf tools tests)) -name '*.d' -type f 2>/dev/null) \
	$(wildcard $(O)/bench/*.d)
