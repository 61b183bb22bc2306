// SPDX-License-Identifier: MIT
/*
 * Random calls of the library from several threads, on doubles of all drivers or on real
 * ones, with losses, forks, cancellations, and a lack of memory and fds.
 *
 *	stress [--seed N] [--seconds N] [--ops N] [--threads N] [--only OPERATION]
 *	       [--device LIST] [--patience N] [--operations] [--list] [CASE...]
 *
 * A case is a list of devices, and runs rounds until the seconds are over; one
 * at least. The seed of a round decides its operations and their arguments, the kind of
 * machines, and the failures in it; with one thread the same seed gives the same
 * sequence. --only is the name of an operation with wildcards; import and delete stay.
 *
 * At the end of a round all fences signal. Then each lease has been called back exactly
 * once, after its tensors and its work; no import, no object of a driver, no fd, mapping
 * or thread is left. Some buffers have a counter, which each reader compares. If for
 * --patience seconds no operation ends, the program says what each thread does, and fails.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "memfds.h"
#include "stress.h"

const char *cts_device = "cpu";
const struct access *cts_access;

#define BACKEND(name) extern const struct access access_##name;
#define BACKEND_OFF(name)
#include "generated/backends.h"
#undef BACKEND
static const struct access *const accesses[] = {
#define BACKEND(name) &access_##name,
#include "generated/backends.h"
};

/* ---------------------------------------------------------------- machines */

static const struct machine machines[] = {
	{ .backend = "cpu", .name = "cpu" },
	{ "cuda", "cuda:0", "DLBUF_CUDA_LIBRARY", "FAKE_CUDA", "libcuda.so",
	  { "thor,memfds", "memfds", "memfds,noregister", "memfds,alias",
	    "memfds,grace", "memfds,nomemops,noregister" }, .loss = 719 },
	{ "hip", "hip:0", "DLBUF_HIP_LIBRARY", "FAKE_HIP", "libhip.so",
	  { "5.7,amdgpu,memfds,noblocks", "6.4,memfds,noblocks", "7.1,amdgpu,memfds,noblocks",
	    "7.1,memfds,alias,noblocks", "5,memfds,noregister,noblocks" }, .loss = 719 },
	{ "levelzero", "levelzero:0", "DLBUF_LEVELZERO_LIBRARY", "FAKE_LEVELZERO",
	  "liblevelzero.so",
	  { "memfds", "memfds,noimport", "memfds,nohostsync", "memfds,integrated,nohost" },
	  .loss = 0x70000001, .one_at_a_time = true },
	{ "opencl", "opencl:0", "DLBUF_OPENCL_LIBRARY", "FAKE_OPENCL", "libopencl.so",
	  { "khr,memfds", "khr,memfds,noimport,noexport", "intel,memfds", "arm,memfds",
	    "qcom,memfds", "userptr,memfds", "shadow,memfds", "cpu,memfds", "old,memfds" },
	  .loss = -2 },
	{ "vulkan", "vulkan:0", "DLBUF_VULKAN_LIBRARY", "FAKE_VULKAN", "libvulkan.so",
	  { "bridge-plain", "bridge-event" }, .no_access = true },
	{ "hexagon", "hexagon:cdsp", "DLBUF_HEXAGON_LIBRARY", "FAKE_HEXAGON", "libhexagon.so",
	  .kinds = { "", "unsupported" }, .one_at_a_time = true },
};

struct options opts = { .ops = 300, .patience = 120 };

struct round round_ = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.fence_lock = PTHREAD_MUTEX_INITIALIZER };

struct worker workers[NTHREADS];
__thread struct worker *self;
__thread bool cancelling;
unsigned long progress, total_ops;	/* atomic */
static struct ktap_holdings held_now;
static const char *phase = "begin";		/* atomic */

uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* ---------------------------------------------------------------- fences of the program */

int fence_new(uint32_t r)
{
	struct pending *p = calloc(1, sizeof(*p));
	int fd = seam_fence(&p->node, &p->id);

	if (fd < 0) {
		CHECK(round_.rough);
		free(p);
		return -1;
	}
	p->due = now_ns() + (r % 8 ? r % 3000000 : r % 40000000);
	pthread_mutex_lock(&round_.fence_lock);
	p->next = round_.fences;
	round_.fences = p;
	pthread_mutex_unlock(&round_.fence_lock);
	return fd;
}

/* Fences that are due signal; how many do not. */
static unsigned int fences_signal(bool all)
{
	struct pending *due = NULL, **link, *p;
	int64_t now = now_ns();
	unsigned int left = 0;

	pthread_mutex_lock(&round_.fence_lock);
	for (link = &round_.fences; (p = *link);) {
		if (!all && p->due > now) {
			link = &p->next;
			left++;
			continue;
		}
		*link = p->next;
		p->next = due;
		due = p;
	}
	pthread_mutex_unlock(&round_.fence_lock);
	if (due && round_.driven && !all)
		for (unsigned int i = 0; i < round_.ndevs; i++)
			dlbuf_device_drain(round_.devs[i].dev, 1);
	while ((p = due)) {
		due = p->next;
		seam_signal(p->node, p->id);
		free(p);
	}
	return left;
}

static void *signaller(void *arg)
{
	pthread_setname_np(pthread_self(), "signaller");
	while (!load(&round_.stop)) {
		fences_signal(false);
		seam_sleep(500000);
	}
	return arg;
}

static void *dispatcher(void *arg)
{
	struct pollfd p = { .fd = round_.dispatch, .events = POLLIN };

	pthread_setname_np(pthread_self(), "dispatcher");
	while (!load(&round_.stop)) {
		poll(&p, 1, 10);
		CHECK(dlbuf_dispatch() >= 0);
	}
	return arg;
}

/* ---------------------------------------------------------------- the watchdog */

static void trace(int sig)
{
#ifdef __GLIBC__
	void *frames[40];

	(void)sig;
	backtrace_symbols_fd(frames, backtrace(frames, 40), 2);
#endif
}

static void print_line(const char *path)
{
	char line[256] = "";
	FILE *f = fopen(path, "re");

	if (f && fgets(line, sizeof(line), f))
		ktap_note(NULL, 0, "%s: %s", path, line);
	if (f)
		fclose(f);
}

static void *watch(void *arg)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned long seen = 0;
	int64_t since = now_ns();
	char path[64];

	pthread_setname_np(pthread_self(), "watchdog");
	while (now_ns() - since < opts.patience * 1000000000LL) {
		seam_sleep(100000000);
		if (load(&progress) != seen) {
			seen = load(&progress);
			since = now_ns();
		}
	}
	ktap_note(NULL, 0, "nothing has ended for %u seconds: round %u, seed %llu, %s",
		  opts.patience, round_.number, (unsigned long long)round_.seed, load(&phase));
	rewinddir(tasks);
	signal(SIGUSR2, trace);
	for (unsigned int i = 0; i < NTHREADS; i++) {
		struct worker *w = &workers[i];

		if (!load(&w->op))
			continue;
		ktap_note(NULL, 0, "thread %d: %s, number %u, for %lld s: %x %x %x %x %x %x %x %x",
			  load(&w->tid), load(&w->op), load(&w->n),
			  (long long)(now_ns() - load(&w->since)) / 1000000000, w->args[0],
			  w->args[1], w->args[2], w->args[3], w->args[4], w->args[5], w->args[6],
			  w->args[7]);
	}
	for (struct dirent *e; (e = readdir(tasks));) {
		pid_t tid = atoi(e->d_name);

		if (!tid)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
		print_line(path);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
		print_line(path);
		if (tid != syscall(SYS_gettid)) {
			syscall(SYS_tgkill, getpid(), tid, SIGUSR2);
			seam_sleep(100000000);
		}
	}
	for (unsigned int i = 0; i < round_.ndevs; i++)
		for (unsigned int kind = 0; round_.devs[i].control && kind < 16; kind++)
			if (round_.devs[i].control(false)->live[kind])
				ktap_note(NULL, 0, "%s: %u objects of kind %u",
					  round_.devs[i].machine->name,
					  round_.devs[i].control(false)->live[kind], kind);
	for (unsigned int i = 0; i < held_now.nfds; i++)
		ktap_note(NULL, 0, "fd %d: %s", held_now.fds[i].fd, held_now.fds[i].target);
	_exit(1);
	return arg;
}

/* ---------------------------------------------------------------- rounds */

static void phase_is(const char *name)
{
	store(&phase, name);
	add(&progress, 1);
}

#define SETTLED(cond)						\
	do {							\
		phase_is("waits until " #cond);			\
		while (!(cond)) {				\
			if (round_.by_hand)			\
				dlbuf_dispatch();		\
			seam_sleep(200000);			\
		}						\
	} while (0)

static unsigned int count_threads(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) ? 0 : st.st_nlink;
}

/* Real drivers keep any number of resources, doubles those of the first round. */
static bool nothing_is_left(unsigned int threads)
{
	static struct ktap_holdings first;

	for (unsigned int i = 0; i < round_.ndevs; i++)
		if (round_.devs[i].machine->double_ && !round_.devs[i].control)
			return true;
	ktap_look(&held_now);
	if (round_.number == 1)
		first = held_now;
	return (!threads || count_threads() <= threads) && held_now.nfds == first.nfds &&
		held_now.map_bytes == first.map_bytes;
}

static bool all_fired(void)
{
	bool all = true;

	pthread_mutex_lock(&round_.lock);
	for (struct lease *l = round_.leases; l; l = l->next)
		all &= load(&l->fired) >= load(&l->armed);
	pthread_mutex_unlock(&round_.lock);
	return all;
}

/* A device may be freed later. */
static bool none_lives(struct driver *driver)
{
	unsigned int n = 0;

	for (size_t kind = 0; kind < ARRAY_SIZE(driver->live); kind++)
		n += driver->live[kind];
	return !n;
}

static void device_open(struct device *d, uint64_t r)
{
	DLBUF_OPTS(dlbuf_device_opts, o, .cache_max_idle = r % 3 ? 1 + r / 3 % 5 : 0);
	int ret = dlbuf_device_open(d->machine->name, &o, &d->dev);
	struct queue_scope scope = { 0 };
	struct queue_device *q;

	if (ret)
		CHECK_OK(ret);
	REQUIRE(!ret);
	pthread_rwlock_init(&d->turn, NULL);
	if (!d->dev->backend->drain || d->machine->one_at_a_time || d->machine->no_access ||
	    !d->machine->loss)
		return;
	q = queue_device_of(d->dev);
	if (q->ops->enter)
		REQUIRE(!q->ops->enter(q, &scope, false));
	for (unsigned int i = 0; i < NSTREAMS; i++)
		CHECK_OK(q->ops->stream_create(q, &d->streams[i]));
	if (q->ops->leave)
		q->ops->leave(q, &scope);
}

static void device_close(struct device *d)
{
	struct queue_scope scope = { 0 };
	struct queue_device *q = d->streams[0] ? queue_device_of(d->dev) : NULL;

	if (q && q->ops->enter)
		q->ops->enter(q, &scope, true);
	for (unsigned int i = 0; i < NSTREAMS && q; i++)
		q->ops->stream_destroy(q, d->streams[i]);
	if (q && q->ops->leave)
		q->ops->leave(q, &scope);
	memset(d->streams, 0, sizeof(d->streams));
	dlbuf_device_close(d->dev);
	pthread_rwlock_destroy(&d->turn);
}

/* The kind of the double, which a round chooses. */
static void device_configure(struct device *d, uint64_t r)
{
	const char *const *kinds = d->machine->kinds;
	size_t n = 0;

	char words[80], *word;

	if (!d->control)
		return;
	while (n < ARRAY_SIZE(d->machine->kinds) && kinds[n])
		n++;
	snprintf(words, sizeof(words), "%s", kinds[r % n]);
	word = strstr(words, "memfds");
	if (word && !memfds_stand_in)
		memset(word, '-', strlen("memfds"));	/* no word */
	setenv(d->machine->words, words, 1);
	d->control(true)->look = seam_delay;
	ktap_note(NULL, 0, "  %s: %s", d->machine->name, words);
}

static void round_begin(uint64_t seed)
{
	uint64_t r = mix(seed);

	round_.seed = seed;
	round_.number++;
	round_.loses = r % 8 == 1;
	round_.lacks_fds = r % 8 == 2;
	round_.fails = r % 8 == 3;
	round_.driven = r % 8 > 5;
	round_.rough = round_.loses || round_.lacks_fds || round_.fails;
	round_.by_hand = r / 8 % 4 == 0;
	store(&round_.stop, false);
	ktap_note(NULL, 0, "round %u: --seed %llu%s%s%s%s%s", round_.number,
		  (unsigned long long)seed, round_.loses ? ", loses" : "",
		  round_.lacks_fds ? ", lacks fds" : "", round_.fails ? ", fails" : "",
		  round_.driven ? ", driven" : "", round_.by_hand ? ", by hand" : "");
	for (unsigned int i = 0; i < round_.ndevs; i++)
		device_configure(&round_.devs[i], mix(r + i));
	if (round_.by_hand)
		REQUIRE_OK(dlbuf_dispatch_fd(&round_.dispatch));
	for (unsigned int i = 0; i < round_.ndevs; i++)
		device_open(&round_.devs[i], mix(r - i));
	for (unsigned int i = 0; i < NBUFFERS; i++) {
		char path[40];
		struct dlbuf_udmabuf u;

		REQUIRE_OK(dlbuf_udmabuf_create(BYTES, NULL, &u));
		round_.buffers[i].fd = u.fd;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", u.fd);
		/* The kernel opens no dma-buf again. */
		round_.buffers[i].ro = memfds_stand_in ? open(path, O_RDONLY | O_CLOEXEC) :
			dup(u.fd);
		REQUIRE(round_.buffers[i].ro >= 0);
		round_.buffers[i].memfd = u.memfd;
		round_.buffers[i].value = 0;
		pthread_mutex_init(&round_.buffers[i].order, NULL);
	}
	for (unsigned int i = 0; i < NSOCKS; i++)
		REQUIRE(!socketpair(AF_UNIX, (i ? SOCK_DGRAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0,
				    round_.socks[i]));
	seam_seed(seed, r / 64 % 4 ? 32 << r / 64 % 4 * 2 : 0);
}

static void jobs_finish(struct lease *l)
{
	struct job *j;

	while ((j = l->jobs)) {
		l->jobs = j->next;
		job_finish(j);
	}
}

/* All fences have signalled: nothing may be left. */
static void round_end(void)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	DLBUF_OPTS(dlbuf_socket_opts, past, .deadline_ns = 1, .import = &may_copy);
	struct lease *l;
	uint32_t n;

	for (unsigned int i = 0; i < NSLOTS; i++)
		if (round_.slots[i]) {
			held_delete(round_.slots[i]);
			round_.slots[i] = NULL;
		}
	for (unsigned int i = 0; i < NSOCKS; i++) {
		while (round_.seed % 2 && !dlbuf_recv(round_.devs[0].dev, round_.socks[i][1], &past,
						      t, &n, NULL))
			while (n)
				t[n - 1]->deleter(t[n - 1]), n--;
		close(round_.socks[i][0]);
		close(round_.socks[i][1]);
	}
	for (unsigned int i = 0; i < round_.ndevs; i++) {
		struct device *d = &round_.devs[i];
		int ret;

		phase_is(d->machine->name);
		ret = dlbuf_device_drain(d->dev, 0);
		CHECK_MSG(!ret || (round_.rough && ret == -EIO), "%s: %d: %s",
			  d->machine->name, ret, dlbuf_last_error());
	}
	SETTLED(all_fired());
	for (l = round_.leases; l; l = l->next)
		jobs_finish(l);
	for (unsigned int i = 0; i < round_.ndevs; i++) {
		struct device *d = &round_.devs[i];
		DLBUF_INFO(dlbuf_device_stats, stats);

		dlbuf_device_trim(d->dev, 0);
		CHECK_OK(dlbuf_device_get_stats(d->dev, &stats));
		CHECK_MSG(!stats.tensors && !stats.live && !stats.idle,
			  "%s: %llu tensors, %llu, %llu imports", d->machine->name,
			  (unsigned long long)stats.tensors, (unsigned long long)stats.live,
			  (unsigned long long)stats.idle);
		device_close(d);
	}
	SETTLED(!event_pending());
	if (round_.by_hand) {
		SETTLED(!dlbuf_dispatch_fd(NULL));
		close(round_.dispatch);
		round_.by_hand = false;
	}
	SETTLED(!memfds_pending());
	for (unsigned int i = 0; i < NBUFFERS; i++) {
		close(round_.buffers[i].fd);
		close(round_.buffers[i].ro);
		close(round_.buffers[i].memfd);
	}
	while ((l = round_.leases)) {
		CHECK_EQ(load(&l->fired), load(&l->armed));
		round_.leases = l->next;
		free(l);
	}
}

static void round_run(uint64_t seed)
{
	unsigned int threads = opts.threads ? opts.threads : 1 + mix(seed + 1) % 6, before;
	pthread_t signals, dispatches;

	before = count_threads();
	round_begin(seed);
	REQUIRE(!pthread_create(&signals, NULL, signaller, NULL));
	if (round_.by_hand)
		REQUIRE(!pthread_create(&dispatches, NULL, dispatcher, NULL));
	phase_is("operations");
	for (unsigned int i = 0; i < threads; i++)
		REQUIRE(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
#ifdef CONFIG_FAULT_INJECTION
	fault_at(0);
#endif
	phase_is("the end");
	fences_signal(true);
	store(&round_.stop, true);
	pthread_join(signals, NULL);
	if (round_.by_hand)
		pthread_join(dispatches, NULL);
	round_end();
	for (unsigned int i = 0; i < round_.ndevs; i++) {
		struct device *d = &round_.devs[i];
		struct driver *driver = d->control ? d->control(false) : NULL;

		if (!driver)
			continue;
		/* Doubles look into /proc, for which there may be no fd. */
		CHECK_MSG(!driver->wrong || round_.lacks_fds ||
			  (round_.fails && !strcmp(d->machine->backend, "opencl")),
			  "%s: %u wrong calls", d->machine->name, driver->wrong);
		SETTLED(none_lives(driver));
	}
	/* The callbacks of drivers may come later, but a reset drops them. */
	SETTLED(nothing_is_left(0));
	for (unsigned int i = 0; i < round_.ndevs; i++)
		if (round_.devs[i].control)
			round_.devs[i].control(true);
	SETTLED(nothing_is_left(before));
}

/* ---------------------------------------------------------------- cases */

static const char *list_of[64];
static unsigned int ncases;

static void nobody_reads(void *data, enum dlbuf_log_level level, const char *text)
{
}

static struct driver *control_hip(bool reset);
static struct driver **(*fake_hip)(bool reset);

static struct driver *control_hip(bool reset)
{
	return *fake_hip(reset);
}

/* The double, unless the environment has a library already. */
static void device_load(struct device *d)
{
	const struct machine *m = d->machine;
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 60);
	void *lib, *control;

	for (size_t i = 0; i < ARRAY_SIZE(accesses); i++)
		if (!strcmp(accesses[i]->backend, m->backend))
			d->access = accesses[i];
	if (!m->double_)
		return;
	REQUIRE(n > 0);
	path[n] = '\0';
	snprintf(strrchr(path, '/'), 60, "/../doubles/%s", m->double_);
	if (!getenv(m->library))
		setenv(m->library, path, 1);
	setenv(m->words, m->kinds[0], 0);
	lib = dlopen(getenv(m->library), RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		SKIP("%s", dlerror());
	snprintf(path, sizeof(path), "fake_%s", m->backend);
	control = dlsym(lib, path);
	if (!strcmp(m->backend, "hip") && control) {
		memcpy(&fake_hip, &control, sizeof(control));
		d->control = control_hip;
	} else {
		memcpy(&d->control, &control, sizeof(control));
	}
	if (m->no_access && d->control)
		d->access = NULL;
}

static void case_run(void *arg)
{
	int64_t end = now_ns() + opts.seconds * 1000000000LL;
	char list[200], *rest = list, *name;
	pthread_t dog;

	KTAP_KEEPS(KTAP_HEAP | KTAP_FDS | KTAP_MAPS, "each round looks by itself");
	snprintf(list, sizeof(list), "%s", (const char *)arg);
	dlbuf_log_set(nobody_reads, NULL, DLBUF_LOG_INFO);
	seam_begin();
	/* The bridge's driver is the double, too, or none. */
	if (memfds_stand_in && !strstr(arg, "vulkan"))
		setenv("DLBUF_VULKAN_LIBRARY", "none", 0);
	getrlimit(RLIMIT_NOFILE, &all_fds);
	while ((name = strsep(&rest, "+,"))) {
		struct device *d = &round_.devs[round_.ndevs];

		for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
			if (!strcmp(machines[i].backend, name))
				d->machine = &machines[i];
		REQUIRE(d->machine && ++round_.ndevs <= NDEVS);
		device_load(d);
	}
	REQUIRE(!pthread_create(&dog, NULL, watch, NULL));
	for (uint64_t n = 0; !n || (now_ns() < end && !ktap.result->failures); n++)
		round_run(n ? mix(opts.seed + n) >> 24 : opts.seed);
	ktap_note(NULL, 0, "%u rounds, %lu operations", round_.number, load(&total_ops));
}

static void add_case(const char *list)
{
	list_of[ncases] = list;
	ktap_case(list, case_run, (void *)list);
	ncases++;
}

int main(int argc, char **argv)
{
	static const char *const lists[] = {
		"cpu", "cuda", "hip", "levelzero", "opencl", "vulkan", "hexagon", "cuda+vulkan",
		"hip+vulkan", "cpu+vulkan+opencl", "cuda+hip+levelzero+hexagon",
		"cpu+cuda+hip+levelzero+opencl+vulkan+hexagon",
	};
	struct {
		const char *name;
		unsigned int *number;
		const char **text;
	} options[] = {
		{ "--seconds", &opts.seconds, NULL }, { "--ops", &opts.ops, NULL },
		{ "--threads", &opts.threads, NULL }, { "--patience", &opts.patience, NULL },
		{ "--only", NULL, &opts.only },
	};
	const char *device = NULL;

	opts.seed = (uint64_t)now_ns() >> 10 & 0xffffffffff;
	while (argc > 1 && !strncmp(argv[1], "--", 2)) {
		size_t i = 0;

		if (!strcmp(argv[1], "--operations")) {
			print_operations();
			return 0;
		}
		while (i < ARRAY_SIZE(options) && strcmp(argv[1], options[i].name))
			i++;
		if (argc < 3)
			break;
		if (!strcmp(argv[1], "--seed"))
			opts.seed = strtoull(argv[2], NULL, 0);
		else if (!strcmp(argv[1], "--device"))
			device = argv[2];
		else if (i == ARRAY_SIZE(options))
			break;
		else if (options[i].number)
			*options[i].number = (unsigned int)strtoul(argv[2], NULL, 0);
		else
			*options[i].text = argv[2];
		argv[2] = argv[0];
		argv += 2;
		argc -= 2;
	}
	if (opts.threads > NTHREADS)
		opts.threads = NTHREADS;
	if (device)
		add_case(device);
	for (size_t i = 0; !device && i < ARRAY_SIZE(lists); i++)
		add_case(lists[i]);
	ktap.timeout = opts.seconds + 10 * opts.patience;
	return ktap_run(argc, argv);
}
