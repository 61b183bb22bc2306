// SPDX-License-Identifier: MIT
/*
 * Pictures to another machine by RDMA: the network card writes them into the receiver's
 * dma-bufs, and no CPU copies them. A device of the receiver imports these dma-bufs as any others.
 *
 *	cc rdma.c $(pkg-config --cflags --libs dlbuf libibverbs librdmacm)
 *	./a.out receive 7471			# on the machine 10.0.0.2
 *	./a.out send 10.0.0.2 7471 [FRAMES]	# on another one
 *
 * A TCP connection beside RDMA's says which buffers there are, and which are free (a byte for
 * each: a credit). A sender that has sent all says so with a byte of its own. The end of the
 * connection without it is the end of the peer, also of one that was killed, and keepalive ends
 * it when the network has gone: a queue pair says nothing when nothing is on its way. Then both
 * sides destroy their queue pair, each lease comes back, and the exit status is 1.
 *
 * A peer that knows the keys can write into the receiver's buffers: run this in a network that
 * you trust. Without a card for RDMA: rdma link add rxe0 type rxe netdev eth0. That shows that
 * a program works, and is slower than TCP.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/verbs.h>

#define WIDTH 640
#define HEIGHT 360
#define BYTES (WIDTH * HEIGHT)
#define BUFFERS 4
#define HANDSHAKE_MS 10000	/* for each step of a sender's that has connected */

struct buffer {
	struct dlbuf_udmabuf mem;
	int busy;	/* a tensor has the lease of its frame */
	uint64_t id;	/* of the access of its request, or 0 */
};

static struct buffer buffers[BUFFERS];
static unsigned int lent, back;		/* leases */
static struct dlbuf_device *cpu;
static struct dlbuf_verbs *v;
static struct rdma_cm_id *id;
static int control;

static void check(int ret)
{
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

/* -------------------------------------------------------------- buffers */

static void give_back(void *data)
{
	struct buffer *b = data;

	if (!b->busy)
		errx(1, "a lease has come back twice");
	b->busy = 0;
	back++;
}

static DLManagedTensorVersioned *lend(struct buffer *b)
{
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = WIDTH, .height = HEIGHT,
		.code = DLBUF_FOURCC('R', '8', ' ', ' '), .code_space = DLBUF_CODE_DRM,
		.nplanes = 1, .planes = { { .fd = b->mem.fd, .pitch = WIDTH } },
		.order = DLBUF_ORDER_COMPLETE, .release = give_back, .release_data = b,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	b->busy = 1;
	lent++;
	check(dlbuf_import_frame(cpu, &frame, NULL, t, &n));
	return t[0];
}

/* Registers all buffers, before the first frame. */
static void make_buffers(uint32_t remote)
{
	check(dlbuf_device_open("cpu", NULL, &cpu));
	check(dlbuf_verbs_create(id->pd, &v));
	for (int i = 0; i < BUFFERS; i++) {
		struct dlbuf_verbs_buffer *b = NULL;

		check(dlbuf_udmabuf_create(BYTES, NULL, &buffers[i].mem));
		check(dlbuf_verbs_add(v, buffers[i].mem.fd, buffers[i].mem.memfd, DLBUF_RW, remote,
				      &b));
		if (!i)
			printf("the card has the %s\n", b->by_memfd ? "memfds" : "dma-bufs");
	}
	fflush(stdout);
}

static uint8_t pixel(uint32_t sequence, uint32_t i)
{
	return (uint8_t)((sequence * 31 + i) * 2654435761u >> 13);
}

/* -------------------------------------------------------------- connections */

static void make_endpoint(const char *host, const char *port, struct rdma_cm_id **out)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = BUFFERS, .max_recv_wr = BUFFERS, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_addrinfo hints = { .ai_flags = host ? 0 : RAI_PASSIVE,
				       .ai_port_space = RDMA_PS_TCP }, *list;

	if (rdma_getaddrinfo(host, port, &hints, &list))
		err(1, "rdma_getaddrinfo");
	if (rdma_create_ep(out, list, NULL, &attr))
		err(1, "rdma_create_ep");
	rdma_freeaddrinfo(list);
}

/* A peer whose machine or network has gone sends no end: then the connection fails, in 10 s. */
static void keep_alive(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },	 { IPPROTO_TCP, TCP_KEEPIDLE, 5 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 1 },	 { IPPROTO_TCP, TCP_KEEPCNT, 5 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 10000 },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(options[i].value)))
			err(1, "setsockopt");
}

static int tcp_socket(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM,
				  .ai_flags = host ? 0 : AI_PASSIVE }, *list;
	int fd, on = 1, ret = getaddrinfo(host, port, &hints, &list);

	if (ret)
		errx(1, "%s", gai_strerror(ret));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(1, "socket");
	if (host)
		keep_alive(fd);
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (host ? connect(fd, list->ai_addr, list->ai_addrlen) :
		   bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, 1))
		err(1, "port %s", port);
	freeaddrinfo(list);
	return fd;
}

/* Destroys the queue pair: the card uses no buffer any more, and this program polls no more. */
static void stop(void)
{
	rdma_destroy_qp(id);
	for (int i = 0; i < BUFFERS; i++)
		if (buffers[i].id)
			check(dlbuf_verbs_end(v, buffers[i].id));
}

/* After the queue pair: the regions, then the protection domain. */
static void destroy(void)
{
	dlbuf_verbs_destroy(v);
	rdma_destroy_ep(id);
	close(control);
	dlbuf_device_close(cpu);
	for (int i = 0; i < BUFFERS; i++)
		dlbuf_udmabuf_close(&buffers[i].mem);
	printf("%u leases, %u came back\n", lent, back);
}

/*
 * Waits for a completion, or for bytes of the peer. Returns 0 for a completion, which may have
 * been taken already: poll the queue until it is empty.
 */
static int sleep_until(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct pollfd fds[] = { { control, POLLIN, 0 }, { channel->fd, POLLIN, 0 } };
	struct ibv_cq *of;
	void *context;

	if (poll(fds, 2, -1) < 0)
		err(1, "poll");
	if (fds[1].revents) {
		if (ibv_get_cq_event(channel, &of, &context))
			err(1, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		/* From now on, completions raise an event again: look once more for others. */
		if (ibv_req_notify_cq(cq, 0))
			errx(1, "ibv_req_notify_cq");
	}
	return fds[0].revents;
}

/* -------------------------------------------------------------- the sender */

/* Where the receiver's buffers are, in network byte order. */
struct offer {
	uint64_t addr, bytes;
	uint32_t rkey, reserved;
};

static void end_access(uint64_t wr_id)
{
	for (int i = 0; i < BUFFERS; i++)
		if (buffers[i].id == wr_id)
			buffers[i].id = 0;
	check(dlbuf_verbs_end(v, wr_id));
}

static void send_one(struct buffer *b, const struct offer *offer, uint32_t to, uint32_t sequence)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(to),
				  .send_flags = IBV_SEND_SIGNALED, .num_sge = 1 }, *bad;
	DLManagedTensorVersioned *t = lend(b);
	uint8_t *pixels = t->dl_tensor.data;
	struct ibv_sge sge;
	uint32_t n = 1;

	check(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL));
	for (uint32_t i = 0; i < BYTES; i++)
		pixels[i] = pixel(sequence, i);
	check(dlbuf_release(t, NULL, NULL));

	check(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &b->id));
	check(dlbuf_verbs_sge(v, b->id, t, &sge, &n));
	wr.wr_id = b->id;
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = be64toh(offer->addr);
	wr.wr.rdma.rkey = ntohl(offer->rkey);
	/* It is connected: if it has failed meanwhile, it refuses this, or completes it with an error. */
	if (ibv_post_send(id->qp, &wr, &bad))
		end_access(wr.wr_id);
	t->deleter(t);	/* the request has its own share */
}

static unsigned int busy_buffers(void)
{
	unsigned int n = 0;

	for (int i = 0; i < BUFFERS; i++)
		n += buffers[i].busy ? 1 : 0;
	return n;
}

/* Ends the accesses of all completions that are there. Returns how many had an error. */
static int sent(void)
{
	struct ibv_wc wc;
	int failed = 0;

	while (ibv_poll_cq(id->send_cq, 1, &wc) > 0) {
		end_access(wc.wr_id);
		if (wc.status != IBV_WC_SUCCESS && !failed++)
			warnx("a write has failed: %s", ibv_wc_status_str(wc.status));
	}
	return failed;
}

static int send_all(const char *host, const char *port, uint32_t frames)
{
	struct rdma_conn_param param = { .retry_count = 6, .rnr_retry_count = 7 };
	struct offer offers[BUFFERS];
	uint8_t credits[BUFFERS];
	uint32_t ncredits = 0, sequence = 0;
	int gone = 0;

	/* A retry_count of 7 has no end with rxe, which then never reports a peer that has gone. */
	make_endpoint(host, port, &id);
	control = tcp_socket(host, port);
	send(control, "", 1, MSG_NOSIGNAL); /* if it fails, the next call does */
	if (rdma_connect(id, &param))
		err(1, "rdma_connect");
	make_buffers(0);
	if (recv(control, offers, sizeof(offers), MSG_WAITALL) != sizeof(offers))
		errx(1, "the receiver has no buffers");
	for (int i = 0; i < BUFFERS; i++)
		if (be64toh(offers[i].bytes) != BYTES)
			errx(1, "the receiver's pictures have another size");
	if (ibv_req_notify_cq(id->send_cq, 0))
		errx(1, "ibv_req_notify_cq");
	for (;;) {
		gone |= !!sent();
		for (int i = 0; i < BUFFERS && ncredits && sequence < frames; i++) {
			if (buffers[i].busy)
				continue;
			ncredits--;
			send_one(&buffers[i], &offers[credits[ncredits]], credits[ncredits], sequence++);
		}
		/* At the end the receiver gives back all of its buffers. */
		if (gone || (sequence == frames && ncredits == BUFFERS && !busy_buffers()))
			break;
		if (sleep_until(id->send_cq_channel, id->send_cq)) {
			ssize_t n = recv(control, credits + ncredits, BUFFERS - ncredits, 0);

			if (n < 0)
				warn("the control connection");
			if (n <= 0)
				gone = 1;
			for (; n > 0; n--)
				if (credits[ncredits++] >= BUFFERS)
					errx(1, "the receiver has no such buffer");
		}
	}
	if (!gone)
		send(control, "", 1, MSG_NOSIGNAL);
	stop();
	destroy();
	printf("%u frames%s\n", sequence, gone ? ", and the receiver has gone" : "");
	return gone;
}

/* -------------------------------------------------------------- the receiver */

/* Lets the sender write there. */
static void offer_buffer(uint8_t i)
{
	struct ibv_recv_wr wr = { .wr_id = i }, *bad;
	DLManagedTensorVersioned *t = lend(&buffers[i]);

	check(dlbuf_verbs_begin(v, t, DLBUF_WRITE, NULL, &buffers[i].id));
	t->deleter(t);
	/* If either fails, the sender has gone, and the control connection says so. */
	if (!ibv_post_recv(id->qp, &wr, &bad))
		send(control, &i, 1, MSG_NOSIGNAL);
}

static void check_picture(struct buffer *b, uint32_t sequence)
{
	DLManagedTensorVersioned *t;
	const uint8_t *pixels;
	uint32_t i;

	check(dlbuf_verbs_end(v, b->id));
	b->id = 0;
	t = lend(b);
	pixels = t->dl_tensor.data;
	check(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	for (i = 0; i < BYTES && pixels[i] == pixel(sequence, i); i++)
		;
	check(dlbuf_release(t, NULL, NULL));
	t->deleter(t);
	if (i < BYTES)
		errx(1, "frame %u: byte %u is wrong", sequence, i);
	printf("frame %u: %u bytes are right\n", sequence, i);
	fflush(stdout);
}

/* Takes the pictures that have arrived. */
static uint32_t received(uint32_t sequence)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
		uint32_t i = ntohl(wc.imm_data);

		if (wc.status != IBV_WC_SUCCESS)
			continue;
		if (!(wc.wc_flags & IBV_WC_WITH_IMM) || i >= BUFFERS || !buffers[i].id)
			errx(1, "the sender has written to a buffer that it does not have");
		check_picture(&buffers[i], sequence++);
		offer_buffer((uint8_t)i);
	}
	return sequence;
}

/*
 * Waits for a TCP connection that a byte and a request of RDMA follow. The request of a sender
 * that waits behind another peer is left where it is.
 */
static int accept_sender(int listener, int requests)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		struct pollfd fds[] = { { fd, POLLIN, 0 }, { requests, POLLIN, 0 } };
		char byte;

		if (fd < 0)
			err(1, "accept");
		keep_alive(fd);
		if (poll(fds, 1, HANDSHAKE_MS) > 0 && recv(fd, &byte, 1, 0) == 1 &&
		    poll(fds, 2, HANDSHAKE_MS) > 0 && !fds[0].revents)
			return fd;
		/* It has gone, or is no sender. */
		close(fd);
	}
}

static int receive_all(const char *port)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	int listener = tcp_socket(NULL, port);
	struct offer offers[BUFFERS];
	struct rdma_cm_id *listen_id;
	uint32_t sequence = 0;
	ssize_t n;
	char last;

	make_endpoint(NULL, port, &listen_id);
	if (rdma_listen(listen_id, 1))
		err(1, "rdma_listen");
	printf("listening\n");
	fflush(stdout);
	control = accept_sender(listener, listen_id->channel->fd);
	if (rdma_get_request(listen_id, &id) || rdma_accept(id, &param))
		err(1, "no connection");
	make_buffers(DLBUF_WRITE);
	memset(offers, 0, sizeof(offers));
	for (int i = 0; i < BUFFERS; i++) {
		DLManagedTensorVersioned *t = lend(&buffers[i]);
		struct dlbuf_verbs_key key = { 0 };

		check(dlbuf_verbs_remote(v, t, DLBUF_WRITE, &key));
		t->deleter(t);
		offers[i].addr = htobe64(key.addr);
		offers[i].bytes = htobe64(key.bytes);
		offers[i].rkey = htonl(key.rkey);
	}
	if (ibv_req_notify_cq(id->recv_cq, 0))
		errx(1, "ibv_req_notify_cq");
	if (send(control, offers, sizeof(offers), MSG_NOSIGNAL) != sizeof(offers))
		err(1, "send");
	for (uint8_t i = 0; i < BUFFERS; i++)
		offer_buffer(i);
	/* The sender's next byte is its last one. */
	while (!sleep_until(id->recv_cq_channel, id->recv_cq))
		sequence = received(sequence);
	sequence = received(sequence);
	n = recv(control, &last, 1, 0);
	if (n < 0)
		warn("the control connection");
	stop();
	destroy();
	rdma_destroy_ep(listen_id);
	close(listener);
	printf("%u frames%s\n", sequence, n == 1 ? "" : ", and the sender has gone");
	return n != 1;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "receive"))
		return receive_all(argv[2]);
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "send"))
		return send_all(argv[2], argv[3], argc == 5 ? (uint32_t)atoi(argv[4]) : 100);
	errx(2, "usage: receive PORT | send HOST PORT [FRAMES]");
}
