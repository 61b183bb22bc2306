# SPDX-License-Identifier: MIT
#
# The plan of tests/run/check. A step is a target:
#
#	$(call step,NAME): NEEDS | AFTER
#		$(ktap) [--has X]... -- COMMAND		it prints KTAP
#		$(plain) [--has X]... -- COMMAND	one case, its exit status
#
# A check of all steps removes a build, except build@gcc's, when all steps that have it
# among NEEDS and AFTER have ended, and a folder that a step names by --free when that
# step has ended.
#
# A step starts when NEEDS and AFTER have ended, and is skipped if one of NEEDS did
# not pass or X, a program or a file, is absent (tests/run/step). It must not write
# to files of other steps, except those of NEEDS and AFTER, and must work on a busy
# machine: names, ports and device nodes of the host may be in use.

# These take a minute or more and begin early, so that nothing long is left when
# all else has ended.
long := python@host lab@selftest tool@pictures python@lab python@libraries \
	python@lab+torch tool@camera cts@cuda cts@cuda+thor cts@cuda+fault \
	cts@vulkan cts@vulkan+fault fuzz python@fuzz

b := $(abspath $(dir))
names = $(sort $(basename $(notdir $(wildcard $(1)))))
# Programs report which calls failed and how, for abi@errors.
export KTAP_SEEN := 1
# The guest's time is not the machine's: its limit is little less than CHECK_LIMIT.
# Emulating two processors costs a third more, so they are for programs whose threads meet.
lab-2 := tests/guest/lab --timeout 5000 --env KTAP_SEEN=1
lab := $(lab-2) --cpus 1

$(call step,check@runner):
	$(ktap) -- tests/run/runner
$(call step,check@hollow):
	$(ktap) -- tests/run/hollow
# Whether the mutations fit the source; to run them takes an hour.
$(call step,check@mutations):
	$(ktap) -- tests/run/mutate --list
$(call step,check@proof):
	$(ktap) -- tests/proof/run

# ---------------------------------------------------------------- builds
#
# Other steps use gcc's build, which has the warnings that need an optimizer. In
# other builds the tests' own code is not optimized.

build-tests := TESTS_CFLAGS=-O0
# A sanitizer makes the archive ten times as large. LLVM's linker takes a third of the time for it.
link-tests := $(if $(shell command -v ld.lld),TESTS_LDFLAGS=-fuse-ld=lld)
units = $(ktap) $(3) --each '$(1)' -- $(patsubst %,$(dir)/$*/tests/unit/%,$(or $(2),$(call names,tests/unit/*.c)))

$(call step,build@gcc):
	$(build) 'WERROR=y' -- all tests
$(call step,build@clang):
	$(build) 'WERROR=y' --has clang -- CC=clang $(build-tests) all tests
# The library's own failures are injected in the build that detects leaks, and
# lines are counted in a build without optimisation: DEBUG is -O0.
$(call step,build@asan):
	$(build) 'WERROR=y SANITIZE_ADDRESS=y SANITIZE_UNDEFINED=y FAULT_INJECTION=y COVERAGE=y DEBUG=y' -- $(link-tests) lib unit stress-tests
$(call step,build@tsan):
	$(build) 'WERROR=y SANITIZE_THREAD=y' -- CFLAGS='-O1 -g' $(build-tests) $(link-tests) lib unit stress-tests
# A third of TSan's time went into pixels that one thread makes; prepare_plan has the threads.
without-tsan := prepare
# Removes counts of an earlier run.
$(call step,unit@gcc unit@clang unit@asan unit@tsan): unit@%: build@%
	@find $(dir)/$*/lib -name '*.gcda' -delete
	$(call units,,$(filter-out $(without-$*),$(call names,tests/unit/*.c)))

# Random calls on the doubles of all drivers. The seed is always the same; by hand it need not be.
stress = tests/stress/stress --seed 2 --seconds $(1)
$(call step,stress@asan stress@tsan): stress@%: build@% | unit@asan
	$(ktap) -- $(dir)/$*/$(call stress,1)

# Builds without options: one with only the CPU, and six with about half of the options. Each
# option is left out of three of the six, and no two options of the same three. So for any two
# options, some build has one and not the other.
options := $(shell sed -n 's/^config \(BACKEND_[A-Z0-9_]*\|EXPORTER_[A-Z0-9_]*\|DMABUF_TEST\)$$/\1/p' Kconfig)
threes := 123 456 124 356 125 346 126 345 134 256 135 246 136 245 146 235 156 234 145 236
halves := half-1 half-2 half-3 half-4 half-5 half-6
left-out = $(foreach o,$(join $(options),$(threes:%=:%)),$(if $(findstring $(1),$(lastword $(subst :, ,$(o)))),$(filter $(options),$(firstword $(subst :, ,$(o))))))
$(if $(word 21,$(options)),$(error there are threes for 20 options only))
$(call step,build@cpu-only):
	$(build) 'WERROR=y $(patsubst %,%=n,$(filter-out BACKEND_CPU,$(options)))' -- $(build-tests) lib unit
$(call step,$(halves:%=build@%)): build@half-%:
	$(build) 'WERROR=y $(patsubst %,%=n,$(call left-out,$*))' -- CFLAGS=-O0 all
$(call step,unit@cpu-only): unit@%: build@%
	$(call units)

# Parts of the library, two by two, and a build without everything that a camera
# on a board does not need.
parts := $(shell sed -n 's/^config \(PART_[A-Z0-9_]*\|FORMATS_ALL\|SHARED\|STATIC\)$$/\1/p' Kconfig)
no-gpu := WERROR=y DMABUF_TEST=n $(patsubst %,%=n,$(filter-out BACKEND_CPU,$(filter BACKEND_%,$(options))))
no-alloc := EXPORTER_UDMABUF=n EXPORTER_HEAP=n PART_DETILE=n
no-part = $(if $(findstring part-alloc,$*),$(no-alloc)) $(if $(findstring part-v4l2,$*),PART_CAMERA=n)
without := $(shell echo $(parts) | awk '{ h = int((NF + 1) / 2); for (i = 1; i <= h; i++) \
	print tolower(i + h > NF ? $$i : $$i "+" $$(i + h)) }' | tr _ -)
$(call step,$(without:%=build@without-%)): build@without-%:
	$(build) "$(no-gpu) $(no-part) $$(echo $*+ | tr a-z- A-Z_ | sed 's/+/=n /g')" -- CFLAGS=-O0 lib
# The tool without its libraries. Their headers' guards are set, so that nothing is in them.
$(call step,build@without-tool-libraries):
	$(build) '$(subst DMABUF_TEST=n,TOOL_PNG=n TOOL_JSON=n TOOL_DRM=n,$(no-gpu))' -- \
		CPPFLAGS='-DcJSON__h -DPNG_H' PKG_CONFIG=false CFLAGS=-O0 all
$(call step,tool@without-libraries): build@without-tool-libraries
	$(plain) -- tests/tool/without-libraries_ $(dir)/without-tool-libraries/dmabuf-test
# Debian has no static libcjson.
$(call step,build@static):
	$(build) 'WERROR=y SHARED=n TOOL_JSON=n TOOL_PNG=n TOOL_DRM=n' -- LDFLAGS=-static CFLAGS=-O1 all
$(call step,tool@static): build@static
	$(plain) -- tests/tool/static_ $(dir)/static/dmabuf-test
small-set := $(no-gpu) UNWIND_TABLES=n $(no-alloc) $(patsubst %,%=n,$(filter-out PART_DETILE SHARED STATIC,$(parts)))
small-cflags := CFLAGS=-Os
$(call step,build@small):
	$(build) '$(small-set)' -- $(small-cflags) lib
musl = CC=musl-gcc CPPFLAGS='-idirafter /usr/include -idirafter /usr/include/$(shell gcc -print-multiarch)'
$(call step,build@small-musl):
	$(build) '$(small-set)' --has musl-gcc -- $(musl) $(small-cflags) lib

# Foreign machines, whose programs qemu-user runs. Two have all tests. The others
# have tests of the differences between CPUs and C libraries: atomics, sizes, the
# order of bytes.
machines := arm64:aarch64-linux-gnu:aarch64 armhf:arm-linux-gnueabihf:arm \
	armel:arm-linux-gnueabi:arm i386:i686-linux-gnu:i386 mipsel:mipsel-linux-gnu:mipsel \
	powerpc:powerpc-linux-gnu:ppc riscv64:riscv64-linux-gnu:riscv64 s390x:s390x-linux-gnu:s390x
machine = $(word $(1),$(subst :, ,$(filter $*:%,$(machines))))
# A program that is linked with the archive.
archived = $(dir)/$*/bench/fence
cross = --has $(call machine,2)-gcc -- CROSS_COMPILE=$(call machine,2)-
qemu = $(or $(shell command -v qemu-$(call machine,3)),qemu-$(call machine,3)-static) -L /usr/$(call machine,2)
$(call step,build@arm64 build@armhf): build@%:
	$(build) 'WERROR=y DMABUF_TEST=n' $(cross) CFLAGS='-O1 -g' $(build-tests) lib unit $(archived) \
		$(if $(filter arm64,$*),$(dir)/$*/tests/cts/cts)
# The engine of devices with queues has its cases on the trial backend here: emulated, the
# other drivers' cost minutes. There are no CUDA and no HIP for 32 bits.
$(call step,unit@arm64): unit@%: build@%
	$(call units,$(qemu) ,$(filter-out %_queue,$(call names,tests/unit/*.c)))
$(call step,unit@armhf): unit@%: build@%
	$(call units,$(qemu) ,$(filter-out cuda% hip% %_queue,$(call names,tests/unit/*.c)))

small := $(filter-out arm64 armhf,$(foreach m,$(machines),$(firstword $(subst :, ,$(m)))))
small-tests := cache dispatch error event fence format frame layout prepare prepare_plan socket sync tensor view
# The doubles of drivers are left out.
# qemu-i386 hangs with threads, and x86 needs none.
linked-i386 := LDFLAGS='-Wl,-dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2 -Wl,-rpath=/usr/i686-linux-gnu/lib'
build-small = $(build) 'WERROR=y DMABUF_TEST=n' $(1) CFLAGS=-O2 $(build-tests) doubles= \
	lib $(archived) $(small-tests:%=$(dir)/$*/tests/unit/%)
$(call step,$(small:%=build@%)): build@%:
	$(call build-small,$(cross) $(linked-$*))
# powerpc's libm has an instruction that qemu-ppc does not.
$(call step,$(patsubst %,unit@%,$(filter-out i386,$(small)))): unit@%: build@%
	$(call units,$(qemu) ,$(filter-out $(if $(filter powerpc,$*),prepare),$(small-tests)))
$(call step,unit@i386): unit@%: build@%
	$(call units,,$(small-tests),--has /lib64/ld-linux-x86-64.so.2)
# Other C libraries: musl, with the kernel's headers, and this one without what
# older ones and bionic do not have.
$(call step,build@musl): build@%:
	$(build) 'WERROR=y TOOL_DRM=n TOOL_JSON=n TOOL_PNG=n' --has musl-gcc -- $(musl) CFLAGS=-O2 $(build-tests) doubles= \
		lib $(dir)/$*/dmabuf-test $(archived) $(small-tests:%=$(dir)/$*/tests/unit/%)
$(call step,build@libc): build@%:
	$(build) 'WERROR=y DMABUF_TEST=n' -- CPPFLAGS='-include tests/abi/libc.h' CFLAGS=-O0 lib
# musl sends less control data than one suite wants to, and has other error texts.
$(call step,unit@musl): unit@%: build@%
	$(call units,,$(filter-out error socket,$(small-tests)))

# The commands and programs of README.md on plain Debians. Debian 12 has the compiler of build@gcc: nothing is optimized.
# Debian 13 has another compiler and other headers, for the tests, too.
$(call step,install@bookworm):
	$(ktap) -- tests/abi/root bookworm env CFLAGS=-O0 tests/abi/readme install python c
$(call step,install@trixie):
	$(ktap) -- tests/abi/root trixie tests/abi/readme

# The coverage of the unit tests: unit@asan begins without counts.
$(call step,unit@coverage): build@asan | unit@asan
	$(ktap) --has gcov -- tests/run/coverage $(dir)/asan

# ---------------------------------------------------------------- headers, symbols, installation

$(call step,abi@headers abi@pages abi@dlpack abi@uapi abi@cuda abi@gles abi@wire abi@versions): abi@%:
	$(ktap) -- tests/abi/$*
$(call step,abi@hip abi@debian): abi@%: build@gcc
	$(ktap) -- tests/abi/$* $(dir)/gcc
$(call step,abi@hexagon): build@arm64
	$(ktap) -- tests/abi/hexagon $(dir)/arm64
$(call step,abi@rooms): build@gcc
	$(ktap) -- tests/abi/rooms $(dir)/gcc
$(call step,abi@symbols): build@gcc build@clang build@cpu-only build@small
	$(ktap) -- tests/abi/symbols $(^:build@%=$(dir)/%)
$(call step,abi@formats): build@gcc
	$(ktap) -- tests/abi/formats $(dir)/gcc
$(call step,abi@size): build@gcc build@cpu-only build@small build@small-musl
	$(ktap) -- tests/abi/size $(^:build@%=$(dir)/%)
$(call step,abi@install): build@gcc
	$(ktap) -- tests/abi/install $(dir)/gcc
# What compiles nothing of tools/dist/distros, which make release-check runs.
$(call step,abi@distros):
	$(ktap) -- sh -ec 'mkdir -p $(dir)/distros; tar --transform "s,^,dlbuf-tree/," -czf $(dir)/distros/dlbuf-tree.tar.gz \
		Kconfig LICENSE include lib packaging tools; tools/dist/distros make $(dir)/distros; \
		exec tools/dist/distros check $(dir)/distros filled explicit file/alpine file/buildroot'
# The guest's headers are newer than a build machine's, and more.
$(call step,abi@formats+lab): build@gcc
	$(ktap) -- sh -c 'FORMATS_SYSROOT=$$(tests/guest/lab --with media --sysroot) \
		exec tests/abi/formats $(dir)/gcc drm v4l2 libcamera'

# ---------------------------------------------------------------- fuzzing

# Without the coverage that guides it a search finds little: clang only.
$(call step,build@fuzz):
	$(build) 'WERROR=y SANITIZE_ADDRESS=y SANITIZE_UNDEFINED=y COVERAGE=y DMABUF_TEST=n' --has clang -- \
		CC=clang CFLAGS='-O1 -g -fsanitize=fuzzer-no-link' $(link-tests) fuzz
$(call step,fuzz): build@fuzz
	$(ktap) --has llvm-cov -- tests/fuzz/run $(dir)/fuzz

# ---------------------------------------------------------------- Python

cuda-double := $(b)/gcc/tests/doubles/libcuda.so
# Libraries that take long to install and to run have a step of their own, with Debian 13's
# Python: the newest ones are not for that of Debian 12.
libraries := $(shell sed -n '/^\(numpy-[0-9]\|tools\|fuzz\|free-threaded\|uv\|guest-\|\#\)/d; s/^\([^[:space:]]\+\).*/\1/p' python/tests/versions)
$(call step,python@host): | build@gcc
	$(ktap) -- env CUDA_DOUBLE=$(cuda-double) python/tests/host $(dir)/python \
		wheel pip-install sdist system abi3 types asan tsan 'numpy-[0-9]*' free-threaded peers
# In a folder of its own, so that it needs no other step.
$(call step,python@fuzz):
	$(ktap) --free python-fuzz -- env FUZZ_SECONDS=8 python/tests/host $(dir)/python-fuzz fuzz
$(call step,python@libraries): | python@host
	$(ktap) $(patsubst %,--free 'python/%',uv pycache mypy mypy-tests src */pyvenv.cfg) -- tests/abi/root trixie python/tests/host $(dir)/python $(libraries) peers docs

# Frames to another machine, over the loopback interface; memfds replace dma-bufs.
$(call step,python@zenoh): | python@host
	$(ktap) --has $(dir)/python/site/dlbuf -- python/tests/host $(dir)/python zenoh
# The benchmark of them, with few frames; in namespaces of its own.
$(call step,bench@net): | python@host
	$(ktap) --free bench-net --has ip --has $(dir)/python/site/dlbuf -- bench/net/check $(dir)/python/site $(dir)/bench-net

# ---------------------------------------------------------------- tests with dma-bufs: the lab

$(call step,lab@selftest):
	$(ktap) -- tests/guest/selftest
$(call step,lab@media):
	$(ktap) -- tests/guest/media/check $(dir)/media

# The conformance suite. Each device must have exactly the named paths, and the named
# kinds of acquire and release. Failures are injected into another build. A case is a
# process; their parent loads the driver's library once.
cts = tests/cts/cts --device
direct := --paths direct
direct-copy := --paths direct,copy
direct-host-copy := --paths direct,host,copy
host-copy := --paths host,copy
host-bridge-copy := --paths host,bridge,copy
blocks-blocks := --sync blocks,blocks
blocks-event := --sync blocks,event
fence-event := --sync fence,event
fence-fence := --sync fence,fence
# Without fences that fail and START's results, of which the core makes the same for all that wait
# in the same way: the CPU, Vulkan, CUDA, its bridge, PoCL and others run these.
sync := sync/[!fs]* sync/fence-out sync/fence/[!hp]* sync/sta[!r]* sync/str*
# Some of its cases have fences that fail.
lab-fails := $(lab) --module
on-vulkan = env LD_PRELOAD=libvulkan_lvp.so $(dir)/$(or $(2),gcc)/$(cts) vulkan:0 $(1:%='%')
$(call step,build@fault):
	$(build) 'WERROR=y FAULT_INJECTION=y DMABUF_TEST=n' -- $(build-tests) cts $(dir)/fault/tests/lab/camera $(dir)/fault/tests/lab/alloc
$(call step,cts@cpu): build@gcc
	$(ktap) -- $(lab-2) --module -- $(dir)/gcc/$(cts) cpu $(direct) $(blocks-blocks)
$(call step,cts@vulkan): build@gcc
	$(ktap) -- $(lab-fails) -- $(call on-vulkan,$(direct) $(fence-fence))
# The cases that submit, under Khronos' validation layer.
cases-that-submit := sync/fence-out sync/fence/[!e]* sync/fence/explicit-fence \
	together/[ap]* prepare/frame prepare/overlap prepare/crops prepare/waits tiled/[psw]* path/direct/[bo]* lease/pending
$(call step,cts@vulkan+validated): build@gcc
	$(ktap) -- $(lab-fails) --with validation -- tests/cts/validated \
		$(call on-vulkan,$(direct) $(fence-fence) $(cases-that-submit))
$(call step,cts@cpu+fault): build@fault
	$(ktap) -- $(lab-fails) -- $(dir)/fault/$(cts) cpu 'fault/*'
$(call step,cts@vulkan+fault): build@fault
	$(ktap) -- $(lab-fails) -- $(call on-vulkan,fault/*,fault)

# The real drivers of GPUs over a stub of the kernel's side, tests/drivers: the cases in
# which drivers differ, or with DRIVERS=all (make check-drivers) all.
$(call step,build@drivers): build@gcc
	$(plain) -- tests/drivers/build $(dir)/drivers
$(call step,build@drivers-arm64): build@arm64
	$(plain) --has aarch64-linux-gnu-gcc -- tests/drivers/build $(dir)/drivers-arm64 aarch64-linux-gnu-gcc
cases-of-drivers := $(if $(filter all,$(DRIVERS)),,import/* path/* sync/[!s]* tiled/* lease/t* prepare/[!v]* words/*)
on-driver = $(ktap) -- $(lab-fails) --gpu -- tests/drivers/run $(dir)/drivers $(1) \
	$(dir)/gcc/$(cts) vulkan:0 --computes no $(direct) $(fence-fence) $(cases-of-drivers:%='%')
$(call step,cts@vulkan+anv): build@gcc build@drivers
	$(call on-driver,i915)
$(call step,cts@vulkan+nvk): build@gcc build@drivers
	$(call on-driver,nouveau)
$(call step,cts@vulkan+radv): build@gcc build@drivers
	$(call on-driver,amdgpu)
# Debian builds these for arm64 only. There are no dma-bufs, and no fences that are pending.
cases-of-arm64 := import/offset import/compact-strides import/fd-is-duplicated import/low-fd-numbers import/read-access \
	import/overlapping cache/threads tiled/refusals tiled/modifiers tiled/layouts tiled/bytes-too tiled/pixels@NV12 prepare/[fl]* path/direct/[bo]* path/probe words/[nl]*
on-arm64 = $(ktap) --has qemu-aarch64 -- tests/drivers/unpacked $(dir)/drivers-arm64 $(1) \
	$(dir)/arm64/$(cts) vulkan:0 --computes no $(2) $(direct) $(cases-of-arm64:%='%')
$(call step,cts@vulkan+v3dv): build@arm64 build@drivers-arm64
	$(call on-arm64,v3d,--more 4096)
$(call step,cts@vulkan+turnip): build@arm64 build@drivers-arm64
	$(call on-arm64,msm)
$(call step,cts@vulkan+panvk): build@arm64 build@drivers-arm64
	$(call on-arm64,panthor)

# GLES on the drivers of boards: images, plans, refusals. By default Raspberry Pi 5's alone.
cases-of-gles-driver := $(if $(filter all,$(DRIVERS)),driver/* import/describes-itself import/read-access \
	import/fd-is-duplicated prepare/frame prepare/lease prepare/crops path/probe gles/elsewhere,driver/images driver/plan@NV12-f*)
on-gles-driver = $(ktap) --has qemu-aarch64 -- tests/drivers/unpacked $(dir)/drivers-arm64 $(1) \
	$(dir)/arm64/$(cts) gles:0 --computes no $(direct) $(cases-of-gles-driver:%='%')
gles-drivers := v3d $(if $(filter all,$(DRIVERS)),pi4 panthor panfrost msm)
words-of-pi4 := v3d,pi4
$(call step,$(gles-drivers:%=cts@gles+%)): cts@gles+%: build@arm64 build@drivers-arm64
	$(call on-gles-driver,$(or $(words-of-$*),$*))
# Drivers of OpenGL ES 2.0 are refused.
$(call step,contract@gles+es2): build@arm64 build@drivers-arm64
	$(ktap) --has qemu-aarch64 -- tests/drivers/es2 $(dir)/drivers-arm64 $(dir)/arm64/tests/cts/cts
ifneq ($(filter all,$(DRIVERS)),)
words-of-radeonsi := amdgpu
words-of-iris := i915
$(call step,cts@gles+radeonsi cts@gles+iris): cts@gles+%: build@gcc build@drivers
	$(ktap) -- $(lab-fails) --gpu --with gles -- tests/drivers/run $(dir)/drivers $(words-of-$*) \
		$(dir)/gcc/$(cts) gles:0 --computes no $(direct) $(cases-of-gles-driver:%='%')
endif

# Intel's Level Zero computes: the stub runs its commands. memfds replace dma-bufs.
on-xe = $(ktap) -- $(1) tests/drivers/unpacked $(dir)/drivers xe $(dir)/gcc
cases-of-xe := import/[!r]*[!M] import/read-access input/[ld]* cache/* lease/*acquired tensor/* frame/[telrv]* frame/out frame/out/[rs]* path/direct/[bo]* \
	path/copy/[bo]* path/[pl]* export/* alloc/[onte]* sync/states prepare/[!erw]* words/*
$(call step,cts@levelzero+xe): build@gcc build@drivers
	$(call on-xe)/$(cts) levelzero:0 $(cases-of-xe:%='%')
$(call step,contract@levelzero+xe): build@gcc build@drivers
	$(call on-xe,env LEVELZERO_CONTRACT=driver)/tests/unit/levelzero_contract

# On CUDA's double with the properties of several machines: the cases that depend
# on a property. Lavapipe is not its GPU, and needs seconds to report it.
doubles := $(b)/gcc/tests/doubles
on-double = $(ktap) -- $(lab-fails) --env FAKE_CUDA=$(1) --env DLBUF_CUDA_LIBRARY=$(doubles)/libcuda.so \
	--env DLBUF_VULKAN_LIBRARY=$(or $(3),none) $(4) -- $(dir)/$(or $(5),gcc)/$(cts) cuda:0 $(2:%='%')
$(call step,cts@cuda): build@gcc
	$(call on-double,pc,$(host-copy) $(fence-event))
$(call step,cts@cuda+thor): build@gcc
	$(call on-double,thor,$(direct-host-copy) $(fence-event) import/* input/* path/* export/* $(sync) socket/* alloc/* pending/* prepare/[fv]*)
$(call step,cts@cuda+grace): build@gcc
	$(call on-double,grace,$(host-copy) $(fence-event) import/* path/*)
$(call step,cts@cuda+nomemops): build@gcc
	$(call on-double,nomemops,$(host-copy) path/* $(sync))
$(call step,cts@cuda+bridge): build@gcc
	$(call on-double,pc,$(host-bridge-copy) $(fence-fence) import/* path/* sync/* frame/* lease/* prepare/[bfv]*,$(doubles)/libvulkan.so,--env FAKE_VULKAN=bridge)
$(call step,cts@cuda+fault): build@gcc build@fault
	$(call on-double,pc,fault/*,,,fault)

# OpenCL on the guest's drivers, and on the double with the properties of several machines.
on-opencl = $(ktap) -- $(lab-fails) --env OCL_ICD_VENDORS=$(1) $(2) -- env LD_PRELOAD=$(4) \
	$(dir)/$(or $(5),gcc)/$(cts) opencl:0 $(3:%='%')
$(call step,cts@opencl): build@gcc
	$(call on-opencl,/etc/OpenCL/vendors/pocl.icd,,$(host-copy) $(fence-event),libpocl.so.2)
# These need a second to begin in each case, so they run the cases in which drivers differ.
differ := $(host-copy) $(fence-event) import/* path/* $(sync) lease/* export/* drain/* prepare/frame
$(call step,cts@opencl+rusticl): build@gcc
	$(call on-opencl,/etc/OpenCL/vendors/rusticl.icd,--env RUSTICL_ENABLE=llvmpipe,$(differ),libRusticlOpenCL.so.1)
# Intel's, of PyPI: $(1) is what the guest runs on it, $(2) options of the step.
on-intel = $(ktap) $(2) -- sh -c 'tests/drivers/intel $(b)/intel || exit; \
	exec $(lab-fails) --env OCL_ICD_VENDORS=$(b)/intel/intel.icd --env OPENCL_CONTRACT=$(b)/intel/intel.icd \
	--env LD_LIBRARY_PATH=$(b)/intel -- env LD_PRELOAD=libintelocl.so "$$@"' sh $(dir)/gcc/$(1)
$(call step,cts@opencl+intel): build@gcc
	$(call on-intel,$(cts) opencl:0 $(differ:%='%'))
$(call step,cts@opencl+fault): build@gcc build@fault
	$(call on-opencl,/etc/OpenCL/vendors/pocl.icd,,fault/*,libpocl.so.2,fault)
on-opencl-double = $(call on-opencl,$(doubles)/libopencl.so,--env FAKE_OPENCL=$(1),$(2))
$(call step,cts@opencl+khr): build@gcc
	$(call on-opencl-double,khr,$(direct-host-copy) $(fence-fence) import/* path/* $(sync) lease/* prepare/*)
$(call step,cts@opencl+arm): build@gcc
	$(call on-opencl-double,arm,$(direct-copy) $(fence-event) import/* path/*)
$(call step,cts@opencl+qcom): build@gcc
	$(call on-opencl-double,qcom,$(direct-copy) $(fence-event) import/* path/* alloc/*)
$(call step,cts@opencl+apart): build@gcc
	$(call on-opencl-double,apart,$(fence-event) path/[dhc]*)
$(call step,cts@opencl+userptr): build@gcc
	$(call on-opencl-double,userptr,$(host-copy) $(fence-event) import/* path/* $(sync) prepare/[!v]*)

# The double's promises of OpenCL, checked on real drivers; and the double of CUDA's driver
# on dma-bufs, which the host does not have.
on-contract = $(ktap) -- $(lab) --env OPENCL_CONTRACT=$(1) $(3) -- env LD_PRELOAD=$(2) \
	$(dir)/gcc/tests/unit/opencl_contract $(4)
$(call step,contract@opencl+pocl): build@gcc
	$(call on-contract,/etc/OpenCL/vendors/pocl.icd,libpocl.so.2)
# Without user_events: it refuses a command's event as another error, and after a command
# that has failed it runs no other of the queue.
$(call step,contract@opencl+rusticl): build@gcc
	$(call on-contract,/etc/OpenCL/vendors/rusticl.icd,libRusticlOpenCL.so.1,--env RUSTICL_ENABLE=llvmpipe,\
		queries references order callbacks buffers releases_are_deferred host_pointers maps)
# Without callbacks, which it calls on the thread that sets the user event's status, and
# user_events: the marker behind a failed event has no error as its status.
$(call step,contract@opencl+intel): build@gcc | cts@opencl+intel
	$(call on-intel,tests/unit/opencl_contract queries references order buffers releases_are_deferred host_pointers maps,--free intel)
$(call step,contract@cuda): build@gcc
	$(ktap) -- $(lab) -- $(dir)/gcc/tests/unit/cuda_double pfn_mappings_are_not_pinned udmabufs_out_and_in

$(call step,contract@hip+kfd): build@gcc build@drivers
	$(ktap) -- env HIP_REAL=libamdhip64.so tests/drivers/hip $(if $(filter all,$(DRIVERS)),experimental,forky) \
		$(dir)/drivers kfd $(dir)/gcc/tests/unit/hip_double blocks memory_of_others captures last_errors words \
		$(if $(filter all,$(DRIVERS)),,destroyed_streams)

# On real dma-bufs and fences: lavapipe, PoCL, and doubles.
$(call step,stress@lab): build@gcc
	$(ktap) -- $(lab-2) --env OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd \
		--env DLBUF_OPENCL_LIBRARY=libOpenCL.so.1 --env DLBUF_VULKAN_LIBRARY=libvulkan.so.1 -- \
		env LD_PRELOAD=libpocl.so.2 $(dir)/gcc/$(call stress,4) cpu+vulkan+opencl cuda+hip+levelzero+hexagon

# A simulator waits beside the suite.
$(call step,build@verilog): build@gcc
	$(plain) -- sh -c 'tests/guest/lab --with verilog --sysroot > /dev/null || exit 4; \
		exec $(MAKE) -s O=$(dir)/gcc VPI_CC="tests/guest/cc --with verilog gcc" verilog'
$(call step,build@verilator): build@gcc
	$(plain) -- sh -c 'tests/verilog/verilate $(dir)/gcc bench bench tests/verilog/bench.v && \
		tests/verilog/verilate $(dir)/gcc tb tb tests/verilog/tb.v verilog/dlbuf_mem.v verilog/dlbuf_axi.v && \
		tests/verilog/doc --print > $(dir)/gcc/verilator/invert.v && \
		tests/verilog/verilate $(dir)/gcc invert invert $(dir)/gcc/verilator/invert.v'
on-simulator = $(ktap) -- $(lab-fails) --with verilog -- tests/verilog/simulate $(dir)/gcc $(1) $(dir)/gcc/$(cts) vpi:cts $(2:%='%')
$(call step,cts@vpi): build@verilog
	$(call on-simulator,icarus,$(direct) $(blocks-event))
$(call step,cts@vpi+verilator): build@verilator
	$(call on-simulator,verilator,$(blocks-event) import/* sync/*)

comma := ,
# On HIP's double, as its versions and dma-bufs differ: paths and what ends on streams.
on-hip = $(ktap) -- $(lab-fails) --env FAKE_HIP=$(1) --env DLBUF_HIP_LIBRARY=$(doubles)/$(or $(4),libhip.so) \
	--env DLBUF_HIPRTC_LIBRARY=$(doubles)/libhip.so --env DLBUF_VULKAN_LIBRARY=$(or $(5),none) --env FAKE_VULKAN=bridge -- \
	$(dir)/$(or $(3),gcc)/$(cts) hip:0 $(2:%='%')
$(call step,cts@hip): build@gcc
	$(call on-hip,7.1,$(host-copy) $(fence-event) import/* path/* sync/* export/* alloc/* fork/* pending/* prepare/*)
$(call step,cts@hip+6): build@gcc
	$(call on-hip,6.4$(comma)amdgpu,$(direct-host-copy) $(fence-event) import/* path/* export/* prepare/[fv]*,,libhip-old.so)
$(call step,cts@hip+bridge): build@gcc
	$(call on-hip,7.1$(comma)memfds,$(host-bridge-copy) path/* frame/*,,,$(doubles)/libvulkan.so)
$(call step,cts@hip+fault): build@gcc build@fault
	$(call on-hip,6.4,fault/*,fault)
# The driver over a stub that copies, fills and prepares; HIP 7 with make check-drivers. There is no lab.
# When memory is short, the runtime itself sometimes ends the process.
cases-of-kfd := import/*/udmabuf import/*/heap:system import/[cdflotv]* import/read-access cache/t* path/*/bytes \
	path/*/overlapping path/[pl]* export/* alloc/[!l]* tensor/* sync/fence-out frame/two-planes frame/lease lease/*acquired fork/* prepare/[!erw]* prepare/refused words/noprime words/hang
$(call step,cts@hip+kfd): build@gcc build@drivers
	$(ktap) -- tests/drivers/hip $(if $(filter all,$(DRIVERS)),experimental,forky) $(dir)/drivers kfd \
		$(dir)/gcc/$(cts) hip:0 $(host-copy) $(fence-event) $(cases-of-kfd:%='%')

# On Mesa's llvmpipe, by the EGL device that is no DRM node. It compiles the shader in each case, so
# of the cases that are about tensors, which are the CPU's mapping, only some run.
cases-of-gles := import/same-bytes/* import/describes-itself import/read-only-fd import/closed-once sync/states \
	sync/fence/* sync/fence-out sync/refused sync/few-fds/* prepare/* gles/* alloc/one-device alloc/two-devices path/direct/[bo]* path/probe fork/*
on-gles = $(ktap) -- $(lab-fails) --with gles --env LP_NUM_THREADS=0 --env MESA_SHADER_CACHE_DIR=/tmp/mesa -- $(dir)/$(or $(2),gcc)/$(cts) gles:software $(1:%='%')
$(call step,cts@gles): build@gcc
	$(call on-gles,$(direct) $(blocks-blocks) $(cases-of-gles))
$(call step,cts@gles+fault): build@gcc build@fault
	$(call on-gles,fault/*,fault)

# On the double of FastRPC's library. The kernel's side of it, and a DSP, are on boards only.
on-hexagon = $(ktap) -- $(lab-fails) --env FAKE_HEXAGON=$(1) --env DLBUF_HEXAGON_LIBRARY=$(doubles)/$(or $(4),libhexagon.so) -- \
	$(dir)/$(or $(3),gcc)/$(cts) hexagon:cdsp $(2:%='%')
$(call step,cts@hexagon): build@gcc
	$(call on-hexagon,strict,$(direct) $(blocks-blocks))
$(call step,cts@hexagon+old): build@gcc
	$(call on-hexagon,strict,$(direct) $(blocks-blocks) import/* path/* alloc/*,,libhexagon-old.so)
$(call step,cts@hexagon+fault): build@gcc build@fault
	$(call on-hexagon,strict,fault/*,fault)

# Level Zero's double is a driver behind the real loader, with its validation layer, whose
# check of handles takes no immediate command list (1.20). The guest's loader is too old
# for host functions, so for these the double is the loader.
ze-loader := --with levelzero --env ZE_ENABLE_ALT_DRIVERS=$(doubles)/liblevelzero.so --env ZE_ENABLE_VALIDATION_LAYER=1 \
	--env ZE_ENABLE_PARAMETER_VALIDATION=1
on-ze = $(ktap) -- $(lab-fails) --env FAKE_LEVELZERO=$(1) $(3) -- $(dir)/$(or $(4),gcc)/$(cts) levelzero:0 $(2:%='%')
$(call step,cts@levelzero): build@gcc
	$(call on-ze,,$(direct) $(fence-event) import/* path/* sync/* together/* lease/* drain/* export/* alloc/* fork/* pending/* prepare/*,$(ze-loader))
$(call step,cts@levelzero+copy): build@gcc
	$(call on-ze,,$(direct-copy) path/* prepare/copy,--env DLBUF_LEVELZERO_LIBRARY=$(doubles)/liblevelzero.so)
$(call step,cts@levelzero+fault): build@gcc build@fault
	$(call on-ze,,fault/*,$(ze-loader),fault)

# A backend of the tests' own, which shows the size of a new one.
$(call step,cts@trial): build@gcc
	$(ktap) -- $(lab-fails) -- $(dir)/gcc/tests/trial/cts --device trial:0 $(host-copy) $(blocks-event)

# Compares the errors that the calls of all these steps have returned with the headers' lists.
$(call step,abi@errors): | unit@gcc unit@asan unit@cpu-only cts@cpu cts@cuda cts@gles cts@trial cts@cpu+fault cts@cuda+fault \
		cts@vulkan+fault lab@alloc lab@camera lab@image lab@syncobj lab@alloc+fault lab@camera+fault \
		interop@ffmpeg interop@gstreamer interop@nvvpi interop@pipewire interop@rdma interop@v4l2 interop@vaapi interop@verbs
	$(ktap) -- tests/abi/errors $(dir) $(filter-out build@%,$|)

# A kernel without sync_file. Not everywhere can the lab boot it. For Vulkan, whose
# cases take a second each, those that need none: the core's run on the CPU.
$(call step,lab@cloud):
	$(plain) -- env LAB_KERNEL=cloud sh -c '$(lab) -- true || exit $$(($$? == 125 ? 4 : 1))'
$(call step,cts@cpu+cloud): build@gcc lab@cloud
	$(ktap) -- env LAB_KERNEL=cloud $(lab) -- $(dir)/gcc/$(cts) cpu $(direct)
$(call step,cts@vulkan+cloud): build@gcc lab@cloud
	$(ktap) -- env LAB_KERNEL=cloud $(lab) -- \
		$(call on-vulkan,$(direct) import/* path/* sync/states sync/cancelled sync/no-ioctls/i* sync/fence-out frame/* lease/*acquired)

# NVIDIA's driver library is in a part of Debian that a mirror may not have, nor a
# machine other than Debian ask for: exit status 4, and the last line says so.
define has_cuda
out=$$($(lab) --with cuda -- python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>&1) && exit
echo "$$out"
case $$out in
*"Unable to locate package libcuda1"*|*"'libcuda1' has no installation"*|*"Failed to fetch"*/non-free/*)
	echo "the guest's Debian mirror has no libcuda1, which is in non-free"
	exit 4;;
esac
exit 1
endef
export has_cuda
$(call step,lab@cuda):
	$(plain) -- sh -c 'eval "$$has_cuda"'

# Programs of tests/lab, and their requirements of the lab.
with-libcuda := --with cuda
with-module := --module
with-syncobj := --gpu
with-vpi := --with verilog
with-hexagon := --env FAKE_HEXAGON=strict --env DLBUF_HEXAGON_LIBRARY=$(doubles)/libhexagon.so
with-alloc = --env OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd --env FAKE_CUDA=pc --env DLBUF_CUDA_LIBRARY=$(doubles)/libcuda.so
in-alloc := tests/guest/nodes --contiguous
in-camera := tests/guest/nodes
in-output := tests/guest/nodes
in-examples := tests/guest/nodes
guest-camera := $(lab-2)
in-vpi = tests/verilog/compiled $(dir)/gcc
in-broker := env BROKER=$(b)/gcc/examples/broker
$(call step,$(addprefix lab@,$(call names,tests/lab/*.c))): lab@%: build@gcc
	$(ktap) -- $(or $(guest-$*),$(lab)) $(with-$*) -- $(in-$*) $(dir)/gcc/tests/lab/$*
lab@libcuda: lab@cuda
lab@vpi: build@verilog build@verilator
lab@broker: | interop@build
$(call step,lab@camera+fault): build@fault
	$(ktap) -- $(lab) -- tests/guest/nodes $(dir)/fault/tests/lab/camera 'fault/*'
$(call step,lab@alloc+fault): build@fault
	$(ktap) -- $(lab) -- $(in-alloc) $(dir)/fault/tests/lab/alloc 'fault/*'

# The suite for a GPU with doubles of the drivers, so that it keeps working.
$(call step,gpu@double): build@gcc
	$(ktap) -- $(lab) --env DLBUF_CUDA_LIBRARY=$(doubles)/libcuda.so \
		--env DLBUF_VULKAN_LIBRARY=$(doubles)/libvulkan.so --env FAKE_VULKAN=bridge -- \
		tests/gpu/run --built --only probe --only order --only lost --only numbers O=$(b)/gcc

# ---------------------------------------------------------------- adapters to others' frames
#
# Built against the guest's libraries, as far as these are there. For a program of
# tests/interop and the example of the same name: options of the lab, and the words
# that they run behind. The guest has no video hardware; libva's driver is a double.

$(call step,interop@build): build@gcc
	$(ktap) -- tests/interop/build $(dir)/gcc
va := env LIBVA_DRIVER_NAME=dlbuf LIBVA_DRIVERS_PATH=$(b)/gcc/interop
media := --with media
lab-encode := $(media)
args-encode := 'appsrc name=src ! jpegenc ! multifilesink location=/tmp/%d.jpg'
lab-ffmpeg := $(media)
example-ffmpeg := $(va)
lab-gstreamer := $(media) --with gles
lab-libcamera := $(media)
# Both halves of V4L2's API.
behind-camera := $(in-camera) --each
behind-prepare := $(behind-camera)
behind-prepare_gpu := $(behind-camera)
behind-libcamera := $(b)/gcc/interop/uvc
lab-pipewire := $(media) --gpu
behind-pipewire := tests/interop/session
lab-vaapi := $(media)
lab-verbs := --module --with net --env OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
lab-rdma := --with net
behind-rdma := tests/interop/rxe
lab-wrap := --with validation
lab-zimg := $(media)
behind-wrap := tests/interop/validated
example-vaapi := $(va)
# NAME_stream.c and NAME_prepare.c are parts of the program NAME.
$(call step,$(addprefix interop@,$(filter-out %_stream %_prepare,$(call names,tests/interop/*.c tests/interop/*.cpp)))): interop@%: build@gcc | interop@build
	$(ktap) --has $(dir)/gcc/interop/$* -- $(lab) $(lab-$*) -- $(behind-$*) $(dir)/gcc/interop/$*
# lab@broker runs the broker. examples@cameras has several cases for each of its programs.
$(call step,examples@cameras): build@gcc | interop@build
	$(ktap) --has $(dir)/gcc/examples/pool -- $(lab) -- tests/guest/nodes tests/interop/cameras $(dir)/gcc
$(call step,$(addprefix examples@,$(filter-out broker epoll multiplanar pool rdma tcp,$(call names,examples/*.c examples/*.cpp)))): examples@%: build@gcc | interop@build
	$(plain) --has $(dir)/gcc/examples/$* -- $(lab) $(lab-$*) -- $(behind-$*) $(example-$*) $(dir)/gcc/examples/$* $(args-$*)

# A camera of one guest, over TCP in a dma-buf of the other. The cases are those of guest B.
tcp = env $(pycache) tests/interop/tcp
$(call step,examples@tcp): build@gcc | interop@build
	$(ktap) --has $(dir)/gcc/examples/tcp -- bash -o pipefail -c 'tests/guest/pair --timeout 5000 --cpus 1 -- \
		$(tcp) a $(dir)/gcc -- $(tcp) b $(dir)/gcc | sed -u "s/^b: //; t; s/^/# /"'

# From one guest to another, whose the cases are.
pair-rdma = tests/interop/rxe tests/interop/rdma_pair $(dir)/gcc/examples/rdma
$(call step,examples@rdma): build@gcc | interop@build
	$(ktap) --has $(dir)/gcc/examples/rdma -- bash -o pipefail -c 'tests/guest/pair --timeout 5000 --with net --cpus 1 -- \
		$(pair-rdma) sender -- $(pair-rdma) receiver | sed -u "s/^b: //; t; s/^/# /"'

# The programs of docs/vpi.md, with the wheel that python@host has built.
$(call step,verilog@doc): build@verilog build@verilator | python@host
	$(ktap) --has $(dir)/python/site/dlbuf -- $(lab) --with verilog -- \
		$(python) tests/verilog/doc $(dir)/gcc

# cocotb of PyPI, with the wheel that python@host has built.
$(call step,examples@cocotb): | python@host
	$(plain) --free cocotb --has $(dir)/python/site/dlbuf -- sh -c 'python/tests/guest $(dir)/cocotb cocotb || exit; \
		exec $(lab) --with verilog -- env $(pycache) \
		PYTHONPATH=$(dir)/cocotb:$(dir)/python/site python3 examples/cocotb/threshold.py'

# A camera, a design in Verilog and NumPy; a small frame.
$(call step,examples@vpi): build@verilog | python@host
	$(plain) --has $(dir)/python/site/dlbuf -- examples/vpi/run $(dir)/gcc $(dir)/python/site 160 90

# Other languages. Julia wants a CPU with cmpxchg16b, which the lab's has when it
# counts instructions only.
$(call step,bindings@build): build@gcc
	$(ktap) -- tests/bindings/build $(dir)/gcc
$(call step,bindings@lab): build@gcc | bindings@build
	$(ktap) -- $(lab) --with bindings -- tests/bindings/lab $(dir)/gcc 'lua*' rust
$(call step,bindings@julia): build@gcc | bindings@build
	$(ktap) -- $(lab) --icount -- tests/bindings/lab $(dir)/gcc 'julia*'

# The wheel that python@host has built, with the guest's Python, which compiles each module
# once a boot. Not PyTorch's, which are hundreds and have their bytecode beside them.
pycache := PYTHONPYCACHEPREFIX=/tmp/pycache
python := env PYTHONPATH=$(b)/python/site $(pycache)
$(call step,python@lab): | python@host build@gcc
	$(ktap) --has $(dir)/python/site/dlbuf -- $(lab) $(media) --with gles -- $(python) CUDA_DOUBLE=$(cuda-double) \
		python3 python/tests/lab/lab.py
# The cases whose threads and processes meet, on CPUs that run them at once.
$(call step,python@lab+threads): | python@host build@gcc
	$(ktap) --has $(dir)/python/site/dlbuf -- $(lab-2) $(media) -- $(python) python3 python/tests/lab/lab.py \
		one_thread_keeps_order closed_by_another_thread threads_leave_nothing many_threads_send \
		released_after_put a_receiver_that_dies_before_it_reads camera_all_held forked_while_another_waits
$(call step,lab@broker+python): build@gcc | python@host interop@build
	$(ktap) --has $(dir)/python/site/dlbuf -- $(lab) -- $(python) $(in-broker) $(dir)/gcc/tests/lab/broker python
# The extension that is linked with the installed library.
$(call step,python@lab+system): | python@host
	$(ktap) --has $(dir)/python/system/site/dlbuf -- $(lab) $(media) -- \
		env PYTHONPATH=$(dir)/python/system/site $(pycache) python3 python/tests/lab/lab_system.py $(dir)/python/system/prefix/lib/libdlbuf.so.0.2
$(call step,python@lab+torch): | python@host
	$(ktap) --has $(dir)/python/site/dlbuf -- sh -c 'python/tests/torch-tests $(dir)/python/peers; \
		exec $(lab) --with torch -- $(python) PYTHONPYCACHEPREFIX= PYTHONDONTWRITEBYTECODE=1 \
		DLBUF_PEERS=$(dir)/python/peers \
		DLBUF_INTEROP_JSON=$(dir)/python/torch.json python3 python/tests/lab/lab_torch.py'

# Frames of other Python packages: PyAV of PyPI, libcamera on a USB camera.
$(call step,python@lab+producers): | python@host interop@build
	$(ktap) --free python-producers --has $(dir)/python/site/dlbuf --has $(dir)/gcc/interop/uvc -- sh -c 'python/tests/guest $(dir)/python-producers producers; \
		exec $(lab) $(media) --gpu -- $(b)/gcc/interop/uvc env PYTHONPATH=$(b)/python/site:$(b)/python-producers \
		$(pycache) python3 python/tests/lab/lab_producers.py'

# A camera of one guest, over Zenoh on devices of another. The cases are those of guest B.
robots = env PYTHONPATH=$(b)/python/site:$(b)/python-robots $(pycache) python3 python/tests/lab/lab_robots.py
$(call step,python@robots): | python@host
	$(ktap) --free python-robots --has $(dir)/python/site/dlbuf -- bash -o pipefail -c 'python/tests/guest $(dir)/python-robots zenoh || exit; \
		tests/guest/pair --timeout 5000 --cpus 1 -- $(robots) robot -- $(robots) viewer | sed -u "s/^b: //; t; s/^/# /"'

# The recipes of its README and its examples, with what these need of PyPI.
$(call step,examples@python): | python@host
	$(ktap) --free python-examples --has $(dir)/python/site/dlbuf -- sh -c 'python/tests/guest $(dir)/python-examples examples; \
		exec $(lab) $(media) -- env PYTHONPATH=$(b)/python/site:$(b)/python-examples \
		$(pycache) python3 python/tests/lab/lab_examples.py'

# ---------------------------------------------------------------- the tool, the README

# FFmpeg also converts pictures, as a reference for the tool.
with-pictures := $(media)
with-fence := --module
$(call step,$(addprefix tool@,$(call names,$(filter-out %.py %.sh %.json %_,$(wildcard tests/tool/*))))): tool@%: build@gcc
	$(ktap) -- $(lab) $(with-$*) -- tests/tool/$* $(dir)/gcc
# On the host, with a browser if there is one.
# Programs that only say what they are: no build, no lab.
$(call step,tool@bundle):
	$(ktap) -- tests/tool/bundle_
$(call step,tool@results): build@gcc | tool@matrix tool@report
	$(ktap) -- tests/tool/results_ $(dir)/gcc
$(call step,lab@readme): build@gcc | abi@install
	$(plain) -- $(lab) -- env LD_LIBRARY_PATH=$(dir)/gcc/install/usr/local/lib $(dir)/gcc/install/readme
