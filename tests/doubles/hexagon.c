// SPDX-License-Identifier: MIT
/* See hexagon.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>


#include "backends/hexagon/api.h"
#include "common/memory.h"
#include "common/objects.h"
#include "common/words.h"
#include "hexagon.h"

/* The compiler compares the definitions with dlbuf's declarations. */
#define X(name, needed, result, params) EXPORT result name params;
HEXAGON_FUNCTIONS(X)
#undef X

static struct fake_hexagon fake;
struct driver *const driver = &fake.driver;
const char driver_name[] = "hexagon";

/* A map of the DSP's, or a registration. */
struct entry {
	struct entry *next;
	int domain, fd, refs;
	void *p;
	size_t size;
	ino_t ino;		/* of fd, as it was */
};
static struct entry *entries[FAKE_KINDS];
static unsigned int sessions[HEXAGON_EFFECTIVE_DOMAINS];

static struct entry *entry_add(unsigned int kind, const struct entry *model)
{
	struct entry *e = malloc(sizeof(*e));

	*e = *model;
	e->next = entries[kind];
	entries[kind] = e;
	fake.live[kind]++;
	fake.made[kind]++;
	return e;
}

static void entry_remove(unsigned int kind, struct entry *e)
{
	struct entry **p = &entries[kind];

	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
	free(e);
	fake.live[kind]--;
}

static struct entry *map_of(int domain, int fd)
{
	for (struct entry *e = entries[FAKE_MAP]; e; e = e->next)
		if (e->domain == domain && e->fd == fd)
			return e;
	return NULL;
}

/* Takes the lock. If not 0, it is the call's result. */
static int begin(const char *name)
{
	if (call_begin(name))
		return fake.result ? fake.result : AEE_EFAILED;
	initialised = true;
	if (forked)
		wrong("%s() in a child of the process that uses FastRPC", name);
	return 0;
}

static int end(int aee)
{
	pthread_mutex_unlock(&lock);
	return aee;
}

static bool is_valid(int domain)
{
	return domain >= 0 && domain < HEXAGON_EFFECTIVE_DOMAINS;
}

static bool has_session(int domain)
{
	return sessions[domain] || !fake.nosession;
}

/* Whether p is the beginning of a mapping of the whole file from offset 0. */
static bool begins_file(const void *p, size_t size, ino_t ino)
{
	unsigned long first, last, offset, inode;
	bool found = false;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &first, &last, &offset,
			   &inode) == 4 && first == (uintptr_t)p)
			found = !offset && inode == ino && last - first >= size;
	if (f)
		fclose(f);
	return found;
}

/* Faults that appear later, and not in the current call. */
static void look_at_buffer(const void *p, size_t size, int fd)
{
	look_at_fd(fd);
	if (!begins_file(p, size, inode_of(fd)))
		wrong("%s(): %p is not the beginning of a mapping of fd %d from "
		      "offset 0", call, p, fd);
}

static void look_at_end(const struct entry *e, const void *p, size_t size)
{
	if (inode_of(e->fd) != e->ino)
		wrong("%s(): fd %d was closed before", call, e->fd);
	if (e->p != p || e->size != size)
		wrong("%s(): %p, %zu bytes were %p, %zu bytes", call, p, size, e->p,
		      e->size);
	else if (!begins_file(p, size, e->ino))
		wrong("%s(): %p was unmapped before", call, p);
}

/* ---------------------------------------------------------------- maps */

static int add_map(const struct entry *model, int offset, int flags)
{
	struct stat st;

	fake.map.domain = model->domain;
	fake.map.fd = model->fd;
	fake.map.offset = offset;
	fake.map.flags = flags;
	fake.map.p = model->p;
	fake.map.size = model->size;
	if (!is_valid(model->domain))
		return AEE_EBADPARM;
	if (!has_session(model->domain))
		return AEE_ENOTINITIALIZED;
	if (map_of(model->domain, model->fd))
		return AEE_EALREADY;
	if (fake.unsupported)
		return AEE_EUNSUPPORTED;
	look_at_buffer(model->p, model->size, model->fd);
	/* The kernel: a length above that of the buffer is EINVAL. */
	if (fstat(model->fd, &st) ||
	    model->size > (uint64_t)lseek(model->fd, 0, SEEK_END))
		return AEE_EFAILED;
	entry_add(FAKE_MAP, model);
	return 0;
}

int fastrpc_mmap(int domain, int fd, void *p, int offset, size_t size,
		 uint32_t flags)
{
	int ret = begin(__func__);

	if (!ret && (fd < 0 || offset || (flags != HEXAGON_MAP_STATIC &&
					  flags != HEXAGON_MAP_FD &&
					  flags != HEXAGON_MAP_FD_DELAYED &&
					  flags != HEXAGON_MAP_FD_NOMAP))) {
		wrong("fastrpc_mmap(): fd %d, offset %d, flags %u", fd, offset,
		      flags);
		ret = AEE_EBADPARM;
	}
	if (!ret)
		ret = add_map(&(struct entry){
			.domain = domain, .fd = fd, .p = p, .size = size, .refs = 1,
			.ino = inode_of(fd),
		}, offset, (int)flags);
	return end(ret);
}

int fastrpc_munmap(int domain, int fd, void *p, size_t size)
{
	struct entry *e;
	int ret = begin(__func__);

	if (!ret && (fd < 0 || !is_valid(domain)))
		ret = AEE_EBADPARM;
	if (!ret && !has_session(domain))
		ret = AEE_ENOTINITIALIZED;
	if (ret)
		return end(ret);
	e = map_of(domain, fd);
	if (!e)
		return end(AEE_ENOSUCHMAP);
	if (e->refs > 1)
		return end(AEE_EBADPARM);
	look_at_end(e, p, size);
	entry_remove(FAKE_MAP, e);
	return end(0);
}

/* ---------------------------------------------------------------- registrations */

static void deregister(void *p, size_t size)
{
	struct entry *e, *other = NULL;

	for (e = entries[FAKE_REGISTRATION]; e; e = e->next) {
		if (e->p == p && e->size == size)
			break;
		if (e->p == p)
			other = e;
	}
	if (!e && other) {
		fprintf(stderr, "# fake hexagon: %p was registered with %zu bytes, "
			"not %zu\n", p, other->size, size);
		raise(SIGABRT);
	} else if (!e) {
		wrong("%s(): %p is not registered", call, p);
	} else if (!--e->refs) {
		look_at_end(e, p, size);
		entry_remove(FAKE_REGISTRATION, e);
	}
}

static void register_buffer(void *p, size_t size, int fd, int attr)
{
	if (!p || !size) {
		wrong("%s(): %p, %zu bytes", call, p, size);
		return;
	}
	if (fd == -1) {
		deregister(p, size);
		return;
	}
	fake.registrations++;
	fake.registration.p = p;
	fake.registration.size = size;
	fake.registration.fd = fd;
	fake.registration.attr = attr;
	look_at_buffer(p, size, fd);
	for (struct entry *e = entries[FAKE_REGISTRATION]; e; e = e->next)
		if (e->p == p && e->size == size && e->fd == fd) {
			e->refs++;
			return;
		}
	entry_add(FAKE_REGISTRATION, &(struct entry){
		.p = p, .size = size, .fd = fd, .refs = 1, .ino = inode_of(fd),
	});
}

/* A failure of these is not visible. */
void remote_register_buf(void *p, int size, int fd)
{
	begin(__func__);
	register_buffer(p, (size_t)size, fd, 0);
	end(0);
}

void remote_register_buf_attr(void *p, int size, int fd, int attr)
{
	begin(__func__);
	register_buffer(p, (size_t)size, fd, attr);
	end(0);
}

void remote_register_buf_attr2(void *p, size_t size, int fd, int attr)
{
	begin(__func__);
	register_buffer(p, size, fd, attr);
	end(0);
}

/* ---------------------------------------------------------------- sessions, calls */

int remote_handle_control(uint32_t request, void *data, uint32_t size)
{
	struct hexagon_capability *cap = data;
	int ret = begin(__func__);

	if (!ret && (request != HEXAGON_GET_DSP_INFO || size != sizeof(*cap) ||
		     cap->attribute != HEXAGON_DOMAIN_SUPPORT))
		ret = AEE_EUNSUPPORTED;
	if (!ret)
		cap->capability = fake.adsp ? cap->domain == HEXAGON_ADSP :
				  !fake.none && cap->domain != HEXAGON_MDSP;
	return end(ret);
}

EXPORT int remote_handle64_open(const char *uri, uint64_t *handle);
EXPORT int remote_handle64_open(const char *uri, uint64_t *handle)
{
	static const char *const names[] = {
		"adsp", "mdsp", "sdsp", "cdsp", "cdsp1", "gdsp0", "gdsp1",
	};
	const char *name = strstr(uri, "&_dom=");

	for (unsigned int i = 0; name && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name + 6, names[i])) {
			pthread_mutex_lock(&lock);
			sessions[i]++;
			*handle = i + 1;
			return end(0);
		}
	return AEE_EBADPARM;
}

static void end_session(int domain)
{
	struct entry *e, *next;

	sessions[domain] = 0;
	for (e = entries[FAKE_MAP]; e; e = next) {
		next = e->next;
		if (e->domain == domain)
			entry_remove(FAKE_MAP, e);
	}
}

EXPORT int remote_handle64_close(uint64_t handle);
EXPORT int remote_handle64_close(uint64_t handle)
{
	pthread_mutex_lock(&lock);
	if (!--sessions[handle - 1])
		end_session(handle - 1);
	return end(0);
}

/* The DSP's view of an argument: a mapping of its own, or NULL if it is copied. */
static uint8_t *dsp_view(const fake_remote_arg *arg, int prot, struct entry **of)
{
	const uint8_t *p = arg->buf.pv;
	uint8_t *view;

	for (struct entry *e = entries[FAKE_REGISTRATION]; e; e = e->next) {
		uint8_t *base = e->p;

		if (p < base || p >= base + e->size)
			continue;
		*of = e;
		if (p + arg->buf.nLen > base + e->size)
			return MAP_FAILED;
		fake.by_fd++;
		view = mmap(NULL, e->size, prot, MAP_SHARED, e->fd, 0);
		return view == MAP_FAILED ? view : view + (p - base);
	}
	return NULL;
}

EXPORT int remote_handle64_invoke(uint64_t handle, uint32_t scalars,
				  fake_remote_arg *args);
EXPORT int remote_handle64_invoke(uint64_t handle, uint32_t scalars,
				  fake_remote_arg *args)
{
	static const int prots[] = { PROT_READ, PROT_READ | PROT_WRITE };
	struct entry *of[2] = { NULL, NULL };
	uint8_t *view[2];
	int ret = begin(__func__);

	if (ret || scalars != FAKE_COPY || args[0].buf.nLen != args[1].buf.nLen)
		return end(ret ? ret : AEE_EUNSUPPORTED);
	fake.invokes++;
	for (int i = 0; i < 2; i++) {
		view[i] = dsp_view(&args[i], prots[i], &of[i]);
		if (view[i] == MAP_FAILED)
			ret = AEE_EBADPARM;
	}
	if (!ret)
		memcpy(view[1] ? view[1] : args[1].buf.pv,
		       view[0] ? view[0] : args[0].buf.pv, args[0].buf.nLen);
	for (int i = 0; i < 2; i++)
		if (view[i] && view[i] != MAP_FAILED)
			munmap(view[i] - ((uint8_t *)args[i].buf.pv -
					  (uint8_t *)of[i]->p), of[i]->size);
	return end(ret);
}

/* ---------------------------------------------------------------- for tests */

EXPORT void fake_hexagon_stale(int domain, int fd);
EXPORT void fake_hexagon_stale(int domain, int fd)
{
	pthread_mutex_lock(&lock);
	entry_add(FAKE_MAP, &(struct entry){ .domain = domain, .fd = fd, .refs = 1 });
	pthread_mutex_unlock(&lock);
}

EXPORT int fake_hexagon_ref(int domain, int fd, int add);
EXPORT int fake_hexagon_ref(int domain, int fd, int add)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = map_of(domain, fd);
	if (e)
		e->refs += add;
	return end(e ? 0 : AEE_ENOSUCHMAP);
}

EXPORT void fake_hexagon_end(int domain);
EXPORT void fake_hexagon_end(int domain)
{
	pthread_mutex_lock(&lock);
	end_session(domain);
	pthread_mutex_unlock(&lock);
}

static void reset(void)
{
	for (unsigned int kind = 0; kind < FAKE_KINDS; kind++)
		while (entries[kind])
			entry_remove(kind, entries[kind]);
	memset(sessions, 0, sizeof(sessions));
}

static const struct word words[] = {
	{ "none", .sets = { &fake.none } },
	{ "adsp", .sets = { &fake.adsp } },
	{ "unsupported", .sets = { &fake.unsupported } },
	{ "nosession", .sets = { &fake.nosession } },
	{ "strict", .sets = { &fake.strict } },
};

EXPORT struct fake_hexagon *fake_hexagon(bool anew);
EXPORT struct fake_hexagon *fake_hexagon(bool anew)
{
	if (!anew)
		return &fake;
	reset();
	fake = (struct fake_hexagon){ .result = AEE_EFAILED };
	words_apply(getenv("FAKE_HEXAGON"), words, ARRAY_SIZE(words), NULL);
	initialised = false;
	return &fake;
}

__attribute__((constructor)) static void begin_double(void)
{
	fake_hexagon(true);
}

__attribute__((destructor)) static void end_double(void)
{
	reset();
}
