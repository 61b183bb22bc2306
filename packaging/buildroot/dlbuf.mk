################################################################################
#
# dlbuf
#
################################################################################

DLBUF_VERSION = @VERSION@
DLBUF_SITE = $(abspath $(DLBUF_PKGDIR))
DLBUF_SITE_METHOD = file
DLBUF_LICENSE = MIT
DLBUF_LICENSE_FILES = LICENSE
DLBUF_INSTALL_STAGING = YES

# Kernels of preparation need compilers that Buildroot has no host packages of.
DLBUF_SET = STATIC=n BACKEND_CUDA=y BACKEND_GLES=y BACKEND_HEXAGON=y BACKEND_HIP=y BACKEND_VPI=n \
	BACKEND_LEVELZERO=n PREPARE_LEVELZERO=n PREPARE_CUDA=n PREPARE_VULKAN=n

ifeq ($(BR2_PACKAGE_DLBUF_OPENCL),y)
DLBUF_DEPENDENCIES += opencl-headers
DLBUF_SET += BACKEND_OPENCL=y
else
DLBUF_SET += BACKEND_OPENCL=n
endif

ifeq ($(BR2_PACKAGE_DLBUF_TOOL),y)
DLBUF_DEPENDENCIES += cjson host-pkgconf libdrm libpng
DLBUF_SET += DMABUF_TEST=y TOOL_DRM=y TOOL_JSON=y TOOL_PNG=y
else
DLBUF_SET += DMABUF_TEST=n
endif

ifeq ($(BR2_PACKAGE_DLBUF_VULKAN),y)
DLBUF_DEPENDENCIES += vulkan-headers
DLBUF_SET += BACKEND_VULKAN=y
else
DLBUF_SET += BACKEND_VULKAN=n
endif

# The same in all steps, so that an installation builds nothing again.
DLBUF_MAKE = $(TARGET_MAKE_ENV) $(MAKE) $(TARGET_CONFIGURE_OPTS) -C $(@D) O=build LINK=shared \
	PYTHON= GST_PKG_CONFIG=false prefix=/usr SET="$(DLBUF_SET)"

define DLBUF_BUILD_CMDS
	$(DLBUF_MAKE)
endef

define DLBUF_INSTALL_STAGING_CMDS
	$(DLBUF_MAKE) DESTDIR=$(STAGING_DIR) install
endef

define DLBUF_INSTALL_TARGET_CMDS
	$(DLBUF_MAKE) DESTDIR=$(TARGET_DIR) install
endef

$(eval $(generic-package))
