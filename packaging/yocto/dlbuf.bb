# SPDX-License-Identifier: MIT
SUMMARY = "DLPack tensors around Linux DMA-BUF file descriptors"
DESCRIPTION = "A program uses the memory of a camera, a decoder or a GPU in place, \
               on the CPU or on a GPU. dmabuf-test shows what works on a board."
SECTION = "libs"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=@LICENSE_MD5@"

SRC_URI = "file://${BP}.tar.gz"

inherit bash-completion pkgconfig

PACKAGECONFIG ??= "tool"
PACKAGECONFIG[cuda-kernel] = "PREPARE_CUDA=y,PREPARE_CUDA=n,clang-native"
PACKAGECONFIG[opencl] = "BACKEND_OPENCL=y,BACKEND_OPENCL=n,opencl-headers"
PACKAGECONFIG[tool] = "DMABUF_TEST=y TOOL_DRM=y TOOL_JSON=y TOOL_PNG=y,DMABUF_TEST=n,cjson libdrm libpng"
PACKAGECONFIG[vulkan] = "BACKEND_VULKAN=y PREPARE_VULKAN=y,BACKEND_VULKAN=n PREPARE_VULKAN=n,glslang-native vulkan-headers"

# The same in all tasks, so that do_install builds nothing again.
EXTRA_OEMAKE = "O=build LINK=shared PYTHON= GST_PKG_CONFIG=false prefix=${prefix} bindir=${bindir} \
                libdir=${libdir} includedir=${includedir} mandir=${mandir} \
                'SET=STATIC=n BACKEND_CUDA=y BACKEND_GLES=y BACKEND_HEXAGON=y BACKEND_HIP=y BACKEND_VPI=n \
                BACKEND_LEVELZERO=n PREPARE_LEVELZERO=n ${PACKAGECONFIG_CONFARGS}'"

do_compile() {
    oe_runmake
}

do_install() {
    oe_runmake DESTDIR=${D} install
}

PACKAGES =+ "${PN}-tools"
FILES:${PN}-tools += "${bindir} ${datadir}/dlbuf ${datadir}/zsh"
