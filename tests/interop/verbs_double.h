/* SPDX-License-Identifier: MIT */
/*
 * A double of the functions of libibverbs that register memory, for verbs.c: it checks their
 * arguments, and counts. Include it after dlbuf/interop/verbs.h and ktap.h.
 */
#ifndef VERBS_DOUBLE_H
#define VERBS_DOUBLE_H

#define PAGE 4096u

static struct {
	int dmabuf_err, mr_err;		/* errno of the calls; 0: they succeed */
	unsigned int dmabuf_calls, mr_calls;
	int live;			/* atomic: regions */
	uint32_t keys;			/* atomic */
	int fd, flags;			/* of the last call */
	void (*during)(void);		/* called by the next ibv_reg_mr() */
} stub;
static struct ibv_context context;
static struct ibv_pd pd = { .context = &context };
/* max_msg_sz of each port; 0: the call fails. */
static uint32_t ports[3] = { 1u << 31, 0, 1u << 31 };

static struct ibv_mr *region(void *addr, size_t length, int flags)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	REQUIRE(mr);
	/* ibv_reg_mr(3): the peer's writing needs this machine's. */
	CHECK(!(flags & IBV_ACCESS_REMOTE_WRITE) || flags & IBV_ACCESS_LOCAL_WRITE);
	stub.flags = flags;
	mr->pd = &pd;
	mr->addr = addr;
	mr->length = length;
	/* Never again, as a card's: who uses a key of before is found. */
	mr->lkey = __atomic_add_fetch(&stub.keys, 1, __ATOMIC_SEQ_CST);
	mr->rkey = ~mr->lkey;
	__atomic_add_fetch(&stub.live, 1, __ATOMIC_SEQ_CST);
	return mr;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	CHECK(c == &context);
	*attr = (struct ibv_device_attr){ .phys_port_cnt = sizeof(ports) / sizeof(ports[0]) };
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr attr = { 0 };

	CHECK(c == &context && port && port <= sizeof(ports) / sizeof(ports[0]));
	attr.max_msg_sz = ports[port - 1];
	/* The beginning of the struct, which every version of libibverbs has. */
	memcpy(compat, &attr, offsetof(struct ibv_port_attr, port_cap_flags2));
	return attr.max_msg_sz ? 0 : EINVAL;
}

/* By system calls, which do not trap. */
static bool copied(const void *from, void *to)
{
	int fds[2];
	bool can;

	REQUIRE(!pipe2(fds, O_CLOEXEC));
	can = write(fds[1], from, 1) == 1 && read(fds[0], to, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return can;
}

static bool readable(const void *addr)
{
	char byte;

	return copied(addr, &byte);
}

static bool writable(void *addr)
{
	return copied(addr, addr);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *p, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int flags)
{
	DLBUF_INFO(dlbuf_buffer_info, info);

	__atomic_add_fetch(&stub.dmabuf_calls, 1, __ATOMIC_SEQ_CST);
	stub.fd = fd;
	/* mlx5 copies small messages to the address itself, libibverbs inline ones from it. */
	CHECK(p == &pd && !offset && iova && !(iova % PAGE));
	CHECK(flags & IBV_ACCESS_LOCAL_WRITE ? writable((void *)(uintptr_t)iova) :
					       readable((void *)(uintptr_t)iova));
	if (CHECK_OK(dlbuf_buffer_query(fd, &info)))
		CHECK_EQ(length, info.bytes);
	errno = stub.dmabuf_err;
	return stub.dmabuf_err ? NULL : region((void *)(uintptr_t)iova, length, flags);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova,
				unsigned int flags)
{
	struct ibv_mr *mr;

	stub.mr_calls++;
	/* siw, hfi1 and qib take no other, and do not refuse it. */
	CHECK(p == &pd && iova == (uintptr_t)addr);
	/* Linux before 6.2 pins each registration for writing. */
	CHECK(writable(addr));
	if (stub.during)
		stub.during();
	errno = stub.mr_err;
	if (stub.mr_err)
		return NULL;
	mr = region(addr, length, (int)flags);
	mr->handle = 1;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	CHECK(!msync(mr->addr, mr->length, MS_ASYNC));
	/* After ibv_fork_init() libibverbs counts a range as registered for ever if this fails. */
	CHECK(!mr->handle || !madvise(mr->addr, mr->length, MADV_DOFORK));
	CHECK(__atomic_sub_fetch(&stub.live, 1, __ATOMIC_SEQ_CST) >= 0);
	mr->lkey = mr->rkey = 0;
	free(mr);
	return 0;
}

#endif
