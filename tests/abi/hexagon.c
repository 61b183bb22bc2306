// SPDX-License-Identifier: MIT
/*
 * lib/backends/hexagon/abi.h and the functions of api.h against the headers of
 * qualcomm/fastrpc, as libfastrpc-dev installs them.
 */
#include <fastrpc/AEEStdErr.h>
#include <fastrpc/remote.h>

/*
 * FastRPC's values, before dlbuf's abi.h defines the same names.
 */
#define CODE(name) THEIRS_##name = (int)(name)
enum {
	CODE(AEE_SUCCESS), CODE(AEE_EFAILED), CODE(AEE_ENOMEMORY),
	CODE(AEE_EBADPARM), CODE(AEE_EUNSUPPORTED), CODE(AEE_EALREADY),
	CODE(AEE_EINVALIDDOMAIN), CODE(AEE_EINVALIDDEVICE),
	CODE(AEE_ENOSUCHDEVICE), CODE(AEE_ENOSUCHMAP), CODE(AEE_EBADDOMAIN),
	CODE(AEE_ENOTINITIALIZED), CODE(AEE_ECONNREFUSED),
	THEIRS_DSP = (int)DSP_AEE_EOFFSET,
};
#undef AEE_SUCCESS
#undef AEE_EFAILED
#undef AEE_ENOMEMORY
#undef AEE_EBADPARM
#undef AEE_EUNSUPPORTED
#undef AEE_EALREADY
#undef AEE_EINVALIDDOMAIN
#undef AEE_EINVALIDDEVICE
#undef AEE_ENOSUCHDEVICE
#undef AEE_ENOSUCHMAP
#undef AEE_EBADDOMAIN
#undef AEE_ENOTINITIALIZED
#undef AEE_ECONNREFUSED

#include "backends/hexagon/api.h"

#define NUMBER(ours, theirs) \
	_Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)
#define SAME_CODE(name) NUMBER(name, THEIRS_##name)

SAME_CODE(AEE_SUCCESS);
SAME_CODE(AEE_EFAILED);
SAME_CODE(AEE_ENOMEMORY);
SAME_CODE(AEE_EBADPARM);
SAME_CODE(AEE_EUNSUPPORTED);
SAME_CODE(AEE_EALREADY);
SAME_CODE(AEE_EINVALIDDOMAIN);
SAME_CODE(AEE_EINVALIDDEVICE);
SAME_CODE(AEE_ENOSUCHDEVICE);
SAME_CODE(AEE_ENOSUCHMAP);
SAME_CODE(AEE_EBADDOMAIN);
SAME_CODE(AEE_ENOTINITIALIZED);
SAME_CODE(AEE_ECONNREFUSED);
NUMBER(AEE_DSP, THEIRS_DSP);
NUMBER(HEXAGON_ADSP, ADSP_DOMAIN_ID);
NUMBER(HEXAGON_MDSP, MDSP_DOMAIN_ID);
NUMBER(HEXAGON_SDSP, SDSP_DOMAIN_ID);
NUMBER(HEXAGON_CDSP, CDSP_DOMAIN_ID);
#ifdef CDSP1_DOMAIN_ID
NUMBER(HEXAGON_CDSP1, CDSP1_DOMAIN_ID);
#endif
/* Newer headers have these inside the library only. */
#ifdef GDSP0_DOMAIN_ID
NUMBER(HEXAGON_GDSP0, GDSP0_DOMAIN_ID);
NUMBER(HEXAGON_GDSP1, GDSP1_DOMAIN_ID);
#endif
NUMBER(HEXAGON_MAP_STATIC, FASTRPC_MAP_STATIC);
NUMBER(HEXAGON_MAP_FD, FASTRPC_MAP_FD);
NUMBER(HEXAGON_MAP_FD_DELAYED, FASTRPC_MAP_FD_DELAYED);
NUMBER(HEXAGON_MAP_FD_NOMAP, FASTRPC_MAP_FD_NOMAP);
NUMBER(HEXAGON_GET_DSP_INFO, DSPRPC_GET_DSP_INFO);
NUMBER(HEXAGON_DOMAIN_SUPPORT, DOMAIN_SUPPORT);

#define FIELD(name, theirs) \
	NUMBER(offsetof(struct hexagon_capability, name), \
	       offsetof(struct remote_dsp_capability, theirs))
FIELD(domain, domain);
FIELD(attribute, attribute_ID);
FIELD(capability, capability);
NUMBER(sizeof(struct hexagon_capability), sizeof(struct remote_dsp_capability));

#define X(name, needed, result, params)					\
	typedef result ours_##name params;				\
	_Static_assert(__builtin_types_compatible_p(ours_##name,	\
						    __typeof__(name)),	\
		       #name " has other parameters");
HEXAGON_FUNCTIONS(X)

/* The program of docs/accelerators.md, as it is printed. */
#include <err.h>

#include <dlbuf/dlbuf.h>

#define my_URI "file:///libmine_skel.so?mine_skel_handle_invoke"
int my_filter(remote_handle64 handle, void *data, size_t bytes);
void use(remote_handle64 handle, int fd, DLTensor layout, size_t bytes);
void use(remote_handle64 handle, int fd, DLTensor layout, size_t bytes)
{
#include "accelerators.inc"
}
