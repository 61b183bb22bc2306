# SPDX-License-Identifier: MIT
#
# find_package(dlbuf): dlbuf::dlbuf is the shared library, or the archive where there is no shared one; dlbuf::static is
# the archive. Follows the files when they move.
get_filename_component(_dlbuf_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_dlbuf_include "${_dlbuf_libdir}/@UP@" ABSOLUTE)
set(_dlbuf_so "${_dlbuf_libdir}/libdlbuf.so")
set(_dlbuf_a "${_dlbuf_libdir}/libdlbuf.a")

if(EXISTS "${_dlbuf_a}" AND NOT TARGET dlbuf::static)
  add_library(dlbuf::static STATIC IMPORTED)
  set_target_properties(dlbuf::static PROPERTIES IMPORTED_LOCATION "${_dlbuf_a}"
    INTERFACE_INCLUDE_DIRECTORIES "${_dlbuf_include}" INTERFACE_LINK_LIBRARIES "dl;pthread")
endif()
if(NOT TARGET dlbuf::dlbuf)
  if(EXISTS "${_dlbuf_so}")
    add_library(dlbuf::dlbuf SHARED IMPORTED)
    set_target_properties(dlbuf::dlbuf PROPERTIES IMPORTED_LOCATION "${_dlbuf_so}"
      INTERFACE_INCLUDE_DIRECTORIES "${_dlbuf_include}")
  elseif(TARGET dlbuf::static)
    add_library(dlbuf::dlbuf INTERFACE IMPORTED)
    set_target_properties(dlbuf::dlbuf PROPERTIES INTERFACE_LINK_LIBRARIES dlbuf::static)
  else()
    set(dlbuf_FOUND FALSE)
    set(dlbuf_NOT_FOUND_MESSAGE "${_dlbuf_libdir} has neither libdlbuf.so nor libdlbuf.a")
  endif()
endif()
