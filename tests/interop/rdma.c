// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/verbs.h with the real libibverbs and rxe, RDMA in software, which takes no
 * dma-bufs: from a udmabuf to another one, over two queue pairs of this process.
 *	cc rdma.c $(pkg-config --cflags --libs dlbuf libibverbs)
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/verbs.h>

#include "ktap.h"

#define PAGE 4096u
#define BYTES (64 * PAGE)
#define INLINE 32u
#define GID 1	/* of the IPv4 address */

static struct dlbuf_device *cpu;
static struct dlbuf_verbs *v;
static uint8_t retries = 7;
static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sent, *received;
	struct ibv_qp *qp[2];
} rdma;
/* Of each end: the memory, its tensor, and how often its lease has fired. */
static struct end {
	struct dlbuf_udmabuf mem;
	struct dlbuf_verbs_buffer *buffer;
	DLManagedTensorVersioned *tensor;
	int fired;
} from, to;

static void give_back(void *data)
{
	((struct end *)data)->fired++;
}

static void make_end(struct end *e, uint32_t remote)
{
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 1024, .height = BYTES / 1024,
		.code = DLBUF_FOURCC('R', '8', ' ', ' '), .code_space = DLBUF_CODE_DRM,
		.nplanes = 1, .planes = { { .pitch = 1024 } }, .order = DLBUF_ORDER_COMPLETE,
		.release = give_back, .release_data = e,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	REQUIRE_OK(dlbuf_udmabuf_create(BYTES, NULL, &e->mem));
	REQUIRE_OK(dlbuf_verbs_add(v, e->mem.fd, e->mem.memfd, DLBUF_RW, remote, &e->buffer));
	frame.planes[0].fd = e->mem.fd;
	REQUIRE_OK(dlbuf_import_frame(cpu, &frame, NULL, t, &n));
	e->tensor = t[0];
	e->fired = 0;
}

static void drop_end(struct end *e)
{
	if (e->tensor)
		e->tensor->deleter(e->tensor);
	dlbuf_udmabuf_close(&e->mem);
}

static void make_qp(int i, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rdma.sent, .recv_cq = rdma.received, .qp_type = IBV_QPT_RC,
		.srq = srq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 4, .max_recv_sge = 1,
			 .max_inline_data = INLINE },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	rdma.qp[i] = ibv_create_qp(rdma.pd, &init);
	REQUIRE(rdma.qp[i]);
	REQUIRE(!ibv_modify_qp(rdma.qp[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS));
}

static void connect_qp(int i)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
		.dest_qp_num = rdma.qp[!i]->qp_num, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .sgid_index = GID, .hop_limit = 1 } },
	};

	REQUIRE(!ibv_query_gid(rdma.context, 1, GID, &attr.ah_attr.grh.dgid));
	REQUIRE(!ibv_modify_qp(rdma.qp[i], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = retries;
	attr.rnr_retry = 7;
	REQUIRE(!ibv_modify_qp(rdma.qp[i], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						  IBV_QP_MAX_QP_RD_ATOMIC));
}

/* The second receives by srq, or has its own queue. */
static void make_pair(struct ibv_srq *srq)
{
	make_qp(0, NULL);
	make_qp(1, srq);
	connect_qp(0);
	connect_qp(1);
}

static void drop_pair(void)
{
	for (int i = 0; i < 2; i++) {
		if (rdma.qp[i])
			CHECK(!ibv_destroy_qp(rdma.qp[i]));
		rdma.qp[i] = NULL;
	}
}

static void begin(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	rdma.context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	REQUIRE(rdma.context);
	rdma.pd = ibv_alloc_pd(rdma.context);
	rdma.channel = ibv_create_comp_channel(rdma.context);
	REQUIRE(rdma.pd && rdma.channel);
	rdma.sent = ibv_create_cq(rdma.context, 32, NULL, rdma.channel, 0);
	rdma.received = ibv_create_cq(rdma.context, 32, NULL, NULL, 0);
	REQUIRE(rdma.sent && rdma.received);
	make_pair(NULL);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_verbs_create(rdma.pd, &v));
	make_end(&from, 0);
	make_end(&to, DLBUF_WRITE);
}

static void end(void)
{
	drop_pair();
	dlbuf_verbs_destroy(v);
	drop_end(&from);
	drop_end(&to);
	dlbuf_device_close(cpu);
	CHECK(!ibv_destroy_cq(rdma.sent));
	CHECK(!ibv_destroy_cq(rdma.received));
	CHECK(!ibv_destroy_comp_channel(rdma.channel));
	/* EBUSY while there is a region of it. */
	CHECK(!ibv_dealloc_pd(rdma.pd));
	CHECK(!ibv_close_device(rdma.context));
}

/* Writes the tensor into the peer's, at this offset of the dma-buf. Returns the id. */
static uint64_t write_to(uint64_t offset)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(42),
				  .send_flags = IBV_SEND_SIGNALED, .num_sge = 1 }, *bad;
	struct dlbuf_verbs_key key;
	struct ibv_sge sge;
	uint32_t n = 1;
	uint64_t id;

	REQUIRE_OK(dlbuf_verbs_remote(v, to.tensor, DLBUF_WRITE, &key));
	REQUIRE_OK(dlbuf_verbs_begin(v, from.tensor, DLBUF_READ, NULL, &id));
	REQUIRE_OK(dlbuf_verbs_sge(v, id, from.tensor, &sge, &n));
	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = key.addr + offset;
	wr.wr.rdma.rkey = key.rkey;
	REQUIRE(!ibv_post_send(rdma.qp[0], &wr, &bad));
	return id;
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;

	UNTIL(ibv_poll_cq(rdma.sent, 1, &wc) || ibv_poll_cq(rdma.received, 1, &wc));
	return wc;
}

static void receive(uint64_t wr_id)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id }, *bad;

	REQUIRE(!ibv_post_recv(rdma.qp[1], &wr, &bad));
}

TEST_BETWEEN(refused_by_rxe, begin(), end())
{
	struct dlbuf_verbs_buffer *b;
	struct dlbuf_udmabuf mem;

	REQUIRE_OK(dlbuf_udmabuf_create(PAGE, NULL, &mem));
	CHECK(from.buffer->by_memfd);
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, &b), -EOPNOTSUPP,
		       "ibv_reg_dmabuf_mr: Operation not supported");
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, from.mem.memfd, DLBUF_RW, 0, &b), -EINVAL,
		       "memfd");
	dlbuf_udmabuf_close(&mem);
}

/* A user that may not pin as much. */
TEST_BETWEEN(pinned_memory_is_limited, begin(), end())
{
	const struct rlimit limit = { 16 * PAGE, 16 * PAGE };
	struct dlbuf_verbs_buffer *b;
	struct dlbuf_udmabuf mem;

	REQUIRE_OK(dlbuf_udmabuf_create(BYTES, NULL, &mem));
	REQUIRE(!setrlimit(RLIMIT_MEMLOCK, &limit));
	/* CAP_IPC_LOCK, which has no limit, goes with the user. */
	REQUIRE(!syscall(SYS_setresuid, -1, 1000, -1));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -ENOMEM,
		       "RLIMIT_MEMLOCK (ulimit -l) allows this process 65536 bytes");
	REQUIRE(!syscall(SYS_setresuid, -1, 0, -1));
	dlbuf_udmabuf_close(&mem);
}

TEST_BETWEEN(each_byte_arrives, begin(), end())
{
	uint8_t *bytes;
	uint64_t sent, received;
	bool immediate = false;

	REQUIRE_OK(dlbuf_acquire(from.tensor, DLBUF_WRITE, NULL, NULL));
	bytes = from.tensor->dl_tensor.data;
	for (uint32_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	REQUIRE_OK(dlbuf_release(from.tensor, NULL, NULL));
	REQUIRE_OK(dlbuf_verbs_begin(v, to.tensor, DLBUF_WRITE, NULL, &received));
	receive(received);
	sent = write_to(0);
	from.tensor->deleter(from.tensor);
	from.tensor = NULL;
	CHECK_EQ(from.fired, 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion();

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id == sent || wc.wr_id == received);
		if (wc.wr_id == received)
			immediate = wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 42;
		CHECK_OK(dlbuf_verbs_end(v, wc.wr_id));
	}
	CHECK(immediate);
	CHECK_EQ(from.fired, 1);
	REQUIRE_OK(dlbuf_acquire(to.tensor, DLBUF_READ, NULL, NULL));
	bytes = to.tensor->dl_tensor.data;
	for (uint32_t i = 0; i < BYTES; i++)
		if (!CHECK_EQ(bytes[i], (uint8_t)(i * 2654435761u >> 13)))
			break;
	CHECK_OK(dlbuf_release(to.tensor, NULL, NULL));
}

/* libibverbs copies the bytes from the mapping, in ibv_post_send(). */
TEST_BETWEEN(inline_after_a_hole, begin(), end())
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .num_sge = 1,
				    .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE }, *bad_send;
	struct ibv_recv_wr recv = { .num_sge = 1 }, *bad;
	struct ibv_sge sges[2];
	uint32_t n = 1;

	REQUIRE_OK(dlbuf_acquire(from.tensor, DLBUF_WRITE, NULL, NULL));
	memset(from.tensor->dl_tensor.data, 0x5a, INLINE);
	REQUIRE_OK(dlbuf_release(from.tensor, NULL, NULL));
	REQUIRE(!fallocate(from.mem.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
	REQUIRE_OK(dlbuf_verbs_begin(v, to.tensor, DLBUF_WRITE, NULL, &recv.wr_id));
	REQUIRE_OK(dlbuf_verbs_sge(v, recv.wr_id, to.tensor, &sges[1], &n));
	recv.sg_list = &sges[1];
	REQUIRE(!ibv_post_recv(rdma.qp[1], &recv, &bad));
	REQUIRE_OK(dlbuf_verbs_begin(v, from.tensor, DLBUF_READ, NULL, &send.wr_id));
	REQUIRE_OK(dlbuf_verbs_sge(v, send.wr_id, from.tensor, &sges[0], &n));
	sges[0].length = INLINE;
	send.sg_list = &sges[0];
	REQUIRE(!ibv_post_send(rdma.qp[0], &send, &bad_send));
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion();

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_OK(dlbuf_verbs_end(v, wc.wr_id));
	}
	REQUIRE_OK(dlbuf_acquire(to.tensor, DLBUF_READ, NULL, NULL));
	for (uint32_t i = 0; i < INLINE; i++)
		if (!CHECK_EQ(((uint8_t *)to.tensor->dl_tensor.data)[i], 0x5a))
			break;
	CHECK_OK(dlbuf_release(to.tensor, NULL, NULL));
}

/* Past the region, and to a buffer that was removed: both queue pairs end, and each access. */
static void check_remote_access_error(uint64_t offset)
{
	uint64_t ids[2];

	receive(0);
	ids[0] = write_to(offset);
	ids[1] = write_to(0);
	from.tensor->deleter(from.tensor);
	from.tensor = NULL;
	for (int i = 0, ended = 0; ended < 2; i++) {
		struct ibv_wc wc = completion();

		if (!(wc.wr_id & DLBUF_VERBS_ID)) {
			CHECK(wc.status != IBV_WC_SUCCESS);
			continue;
		}
		CHECK_EQ(wc.wr_id, ids[ended]);
		CHECK_EQ(wc.status, ended ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR);
		CHECK_OK(dlbuf_verbs_end(v, wc.wr_id));
		CHECK_EQ(from.fired, ended++);
	}
}

TEST_BETWEEN(past_the_region, begin(), end())
{
	check_remote_access_error(1);
}

/* With a retry_cnt of 7 rxe has no end. */
TEST_BETWEEN(peer_has_gone, begin(), end())
{
	struct ibv_wc wc;
	uint64_t id;

	drop_pair();
	retries = 6;
	make_pair(NULL);
	CHECK(!ibv_destroy_qp(rdma.qp[1]));
	rdma.qp[1] = NULL;
	id = write_to(0);
	wc = completion();
	CHECK_EQ(wc.wr_id, id);
	CHECK_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	CHECK_OK(dlbuf_verbs_end(v, id));
}

/* The queue pair is destroyed with a request in it. */
TEST_BETWEEN(destroyed_with_work, begin(), end())
{
	uint64_t id;

	REQUIRE_OK(dlbuf_verbs_begin(v, to.tensor, DLBUF_WRITE, NULL, &id));
	receive(id);
	to.tensor->deleter(to.tensor);
	to.tensor = NULL;
	CHECK(!ibv_destroy_qp(rdma.qp[1]));
	rdma.qp[1] = NULL;
	CHECK_EQ(to.fired, 0);
	CHECK_OK(dlbuf_verbs_end(v, id));
	CHECK_EQ(to.fired, 1);
}

/* rxe keeps completions of a queue pair that is gone; here the next set gets one of the last. */
TEST_BETWEEN(completion_after_the_queue_pair, begin(), end())
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	uint64_t id, next;
	void *context;

	REQUIRE(!ibv_req_notify_cq(rdma.sent, 0));
	receive(0);
	id = write_to(0);
	REQUIRE(!ibv_get_cq_event(rdma.channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	drop_pair();
	CHECK_OK(dlbuf_verbs_end(v, id));
	dlbuf_verbs_destroy(v);
	REQUIRE_OK(dlbuf_verbs_create(rdma.pd, &v));
	REQUIRE_OK(dlbuf_verbs_add(v, from.mem.fd, from.mem.memfd, DLBUF_RW, 0, &from.buffer));
	REQUIRE_OK(dlbuf_verbs_begin(v, from.tensor, DLBUF_WRITE, NULL, &next));
	REQUIRE(ibv_poll_cq(rdma.sent, 1, &wc) == 1);
	CHECK_EQ(wc.wr_id, id);
	CHECK_ERR(dlbuf_verbs_end(v, wc.wr_id), -EINVAL);
	CHECK_OK(dlbuf_verbs_end(v, next));
}

/* A request in it outlives the queue pairs: the next pair receives into the buffer. */
TEST_BETWEEN(shared_receive_queue, begin(), end())
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(rdma.pd, &attr);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				    .num_sge = 1 }, *bad_send;
	struct ibv_recv_wr recv = { .num_sge = 1 }, *bad;
	struct ibv_sge sge;
	uint32_t n = 1;

	REQUIRE(srq);
	drop_pair();
	make_pair(srq);
	REQUIRE_OK(dlbuf_verbs_begin(v, to.tensor, DLBUF_WRITE, NULL, &recv.wr_id));
	REQUIRE_OK(dlbuf_verbs_sge(v, recv.wr_id, to.tensor, &sge, &n));
	recv.sg_list = &sge;
	REQUIRE(!ibv_post_srq_recv(srq, &recv, &bad));
	drop_pair();
	make_pair(srq);
	REQUIRE_OK(dlbuf_verbs_begin(v, from.tensor, DLBUF_READ, NULL, &send.wr_id));
	REQUIRE_OK(dlbuf_verbs_sge(v, send.wr_id, from.tensor, &sge, &n));
	send.sg_list = &sge;
	REQUIRE(!ibv_post_send(rdma.qp[0], &send, &bad_send));
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion();

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id == send.wr_id || wc.wr_id == recv.wr_id);
		CHECK_OK(dlbuf_verbs_end(v, wc.wr_id));
	}
	drop_pair();
	CHECK(!ibv_destroy_srq(srq));
}

KTAP_MAIN()
