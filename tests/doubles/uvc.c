// SPDX-License-Identifier: MIT
/*
 * Plugs a USB camera in and runs a command: the device is this program, the
 * other end of the kernel's USB/IP host controller, and everything from there
 * on is real: uvcvideo, its video and media nodes, its dma-bufs.
 *
 *	uvc COMMAND ARGS...
 *
 * Needs root, vhci-hcd and uvcvideo. libcamera needs two things more, which are
 * faked for the command: udevd's data about the nodes, if no udevd runs; and a USB
 * controller that the firmware knows, because it does not know this one. YUYV and
 * NV12 of 320x180, about 25 frames a second; see uvc.h. The exit status is the
 * command's, 4 if the kernel has no such modules, 1 if it has them and the camera
 * does not appear.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uvc.h"

#define PAYLOAD 16384u		/* as large as one URB of uvcvideo's */
#define FRAME_MS 40
#define SKIPPED 4

static void die(int status, const char *what)
{
	fprintf(stderr, "uvc: %s: %s\n", what, strerror(errno));
	exit(status);
}

/* ---- descriptors: USB 2.0 chapter 9, USB Video Class 1.0 */

#define LE16(x) (x) & 0xff, (x) >> 8 & 0xff
#define LE32(x) LE16(x), LE16((x) >> 16)
#define YUYV_BYTES (UVC_WIDTH * UVC_HEIGHT * 2)
#define NV12_BYTES (UVC_WIDTH * UVC_HEIGHT * 3 / 2)
#define INTERVAL (FRAME_MS * 10000u)	/* in 100 ns */

static const uint8_t device[] = {
	18, 1, LE16(0x0200), 0xef, 2, 1, 64, LE16(0x1d6b), LE16(0x0102),
	LE16(0x0100), 1, 2, 0, 1,
};

static const uint8_t qualifier[] = {
	10, 6, LE16(0x0200), 0xef, 2, 1, 64, 1, 0,
};

/* A format of one frame size, and its colours: BT.709, 601. */
#define FORMAT(index, c0, c1, c2, c3, bits, bytes)                           \
	27, 0x24, 4, index, 1,                                               \
	c0, c1, c2, c3, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71,\
	bits, 1, 0, 0, 0, 0,                                                 \
	30, 0x24, 5, 1, 0, LE16(UVC_WIDTH), LE16(UVC_HEIGHT),                \
	LE32((bytes) * 8 * 25), LE32((bytes) * 8 * 25), LE32(bytes),         \
	LE32(INTERVAL), 1, LE32(INTERVAL),                                   \
	6, 0x24, 0x0d, 1, 1, 4
#define FORMAT_SIZE (27 + 30 + 6)
#define VC_SIZE (13 + 18 + 9)
#define VS_SIZE (15 + 2 * FORMAT_SIZE)
#define CONFIG_SIZE (9 + 8 + 9 + VC_SIZE + 9 + VS_SIZE + 7)

static const uint8_t config[CONFIG_SIZE] = {
	9, 2, LE16(CONFIG_SIZE), 2, 1, 0, 0x80, 50,
	8, 11, 0, 2, 0x0e, 3, 0, 0,
	/* Control: a camera, and where its pictures go. */
	9, 4, 0, 0, 0, 0x0e, 1, 0, 0,
	13, 0x24, 1, LE16(0x0100), LE16(VC_SIZE), LE32(1000000), 1, 1,
	18, 0x24, 2, 1, LE16(0x0201), 0, 0, LE16(0), LE16(0), LE16(0), 3, 0, 0, 0,
	9, 0x24, 3, 2, LE16(0x0101), 0, 1, 0,
	/* Streaming, over a bulk endpoint: one setting, no isochronous URBs. */
	9, 4, 1, 0, 1, 0x0e, 2, 0, 0,
	15, 0x24, 1, 2, LE16(VS_SIZE), 0x81, 0, 2, 0, 0, 0, 1, 0, 0,
	FORMAT(1, 'Y', 'U', 'Y', '2', 16, YUYV_BYTES),
	FORMAT(2, 'N', 'V', '1', '2', 12, NV12_BYTES),
	7, 5, 0x81, 2, LE16(512), 0,
};

/* ---- USB/IP: Documentation/usb/usbip_protocol.rst of the kernel */

struct header {
	uint32_t command, seqnum, devid, direction, ep;
	uint32_t words[5];	/* flags, length ...; status, length ... */
	uint8_t setup[8];
};

enum { CMD_SUBMIT = 1, CMD_UNLINK = 2, RET_SUBMIT = 3, RET_UNLINK = 4 };

struct urb {
	struct header h;
	uint32_t length;
};

static struct {
	int fd;
	uint8_t format;		/* 1 or 2 */
	uint32_t number;	/* of the frame under way */
	uint32_t offset;	/* of its bytes that are sent */
	struct urb urbs[64];	/* bulk ones that wait for pictures */
	unsigned int nurbs;
	uint64_t next_ns;	/* when the next frame begins */
} cam;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* False: the other end is closed. */
static int transfer(void *data, size_t bytes, int out)
{
	uint8_t *p = data;

	while (bytes) {
		ssize_t n = out ? write(cam.fd, p, bytes) :
				  read(cam.fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		p += n;
		bytes -= n;
	}
	return 1;
}

static int answer(const struct header *request, int32_t status,
		  const void *data, uint32_t bytes)
{
	struct header h = { 0 };

	h.command = htonl(ntohl(request->command) == CMD_UNLINK ? RET_UNLINK :
								  RET_SUBMIT);
	h.seqnum = request->seqnum;
	h.words[0] = htonl(status);
	h.words[1] = htonl(bytes);
	return transfer(&h, sizeof(h), 1) &&
	       (!data || transfer((void *)data, bytes, 1));
}

/* ---- control requests */

static uint32_t frame_bytes(void)
{
	return cam.format == 2 ? NV12_BYTES : YUYV_BYTES;
}

/* The host may only choose the format. */
static void probe(uint8_t *p)
{
	const uint8_t answer[26] = {
		0, 0, cam.format, 1, LE32(INTERVAL), [18] = LE32(frame_bytes()),
		LE32(PAYLOAD),
	};

	memcpy(p, answer, sizeof(answer));
}

static int32_t descriptor(const uint8_t *setup, uint8_t *out)
{
	static const char *const strings[] = { "\x04\x03\x09\x04", "dlbuf",
					       "camera of the tests" };
	const char *s;

	switch (setup[3]) {
	case 1:
		memcpy(out, device, sizeof(device));
		return sizeof(device);
	case 2:
		memcpy(out, config, sizeof(config));
		return sizeof(config);
	case 3:
		if (setup[2] > 2)
			return -EPIPE;
		s = strings[setup[2]];
		if (!setup[2]) {
			memcpy(out, s, 4);
			return 4;
		}
		out[0] = 2 + 2 * strlen(s);
		out[1] = 3;
		for (size_t i = 0; s[i]; i++) {
			out[2 + 2 * i] = s[i];
			out[3 + 2 * i] = 0;
		}
		return out[0];
	case 6:
		memcpy(out, qualifier, sizeof(qualifier));
		return sizeof(qualifier);
	default:
		return -EPIPE;
	}
}

/* The number of bytes in `data`, or the stall that refuses. */
static int32_t control(const uint8_t *setup, uint8_t *data, uint32_t bytes)
{
	uint8_t control = setup[3], interface = setup[4];

	switch (setup[0] << 8 | setup[1]) {
	case 0x8006:			/* GET_DESCRIPTOR */
		return descriptor(setup, data);
	case 0x8008:			/* GET_CONFIGURATION */
		data[0] = 1;
		return 1;
	case 0x8000:			/* GET_STATUS */
	case 0x8100:
	case 0x8200:
		data[0] = data[1] = 0;
		return 2;
	case 0x810a:			/* GET_INTERFACE */
		data[0] = 0;
		return 1;
	case 0x0005:			/* SET_ADDRESS */
	case 0x0009:			/* SET_CONFIGURATION */
	case 0x010b:			/* SET_INTERFACE */
	case 0x0201:			/* CLEAR_FEATURE, the endpoint's halt */
		return 0;
	}
	if (interface != 1 || (control != 1 && control != 2))
		return -EPIPE;
	switch (setup[0] << 8 | setup[1]) {
	case 0x2101:			/* SET_CUR of probe and commit */
		if (bytes >= 3 && (data[2] == 1 || data[2] == 2))
			cam.format = data[2];
		if (control == 2) {
			cam.offset = 0;
			cam.next_ns = now_ns();
		}
		return 0;
	case 0xa181:			/* GET_CUR, _MIN, _MAX, _DEF */
	case 0xa182:
	case 0xa183:
	case 0xa187:
		probe(data);
		return 26;
	case 0xa185:			/* GET_LEN */
		data[0] = 26;
		data[1] = 0;
		return 2;
	case 0xa186:			/* GET_INFO */
		data[0] = 3;
		return 1;
	default:
		return -EPIPE;
	}
}

/* ---- pictures */

/* The next piece of the picture, in the oldest URB that waits. */
static int send_payload(void)
{
	static uint8_t buf[PAYLOAD];
	const struct urb urb = cam.urbs[0];
	uint32_t room = (urb.length < PAYLOAD ? urb.length : PAYLOAD) - 2;
	uint32_t n = frame_bytes() - cam.offset;
	int last = n <= room;

	if (n > room)
		n = room;
	buf[0] = 2;
	buf[1] = 0x80 | (last ? 2 : 0) | (cam.number & 1);
	for (uint32_t i = 0; i < n; i++)
		buf[2 + i] = uvc_pattern(cam.number, cam.offset + i);
	cam.offset += n;
	if (last) {
		cam.number++;
		cam.offset = 0;
		cam.next_ns += FRAME_MS * 1000000ull;
		/* A slow host makes a slow camera, not one that hurries. */
		if (cam.next_ns < now_ns())
			cam.next_ns = now_ns();
	}
	memmove(cam.urbs, cam.urbs + 1, --cam.nurbs * sizeof(cam.urbs[0]));
	return answer(&urb.h, 0, buf, n + 2);
}

static int unlink_urb(const struct header *h)
{
	/* The words of this command begin with the number that it is about. */
	for (unsigned int i = 0; i < cam.nurbs; i++) {
		if (cam.urbs[i].h.seqnum != h->words[0])
			continue;
		memmove(&cam.urbs[i], &cam.urbs[i + 1],
			(--cam.nurbs - i) * sizeof(cam.urbs[0]));
		return answer(h, -ECONNRESET, NULL, 0);
	}
	return answer(h, 0, NULL, 0);
}

static int request(void)
{
	static uint8_t data[65536];
	struct header h;
	uint32_t length;
	int32_t n;

	if (!transfer(&h, sizeof(h), 0))
		return 0;
	if (ntohl(h.command) == CMD_UNLINK)
		return unlink_urb(&h);
	length = ntohl(h.words[1]);
	if (ntohl(h.command) != CMD_SUBMIT || length > sizeof(data))
		return 0;
	if (!h.direction && !transfer(data, length, 0))
		return 0;
	if (h.ep) {
		if (cam.nurbs == sizeof(cam.urbs) / sizeof(cam.urbs[0]) ||
		    length < 3)
			return 0;
		cam.urbs[cam.nurbs++] = (struct urb){ h, length };
		return 1;
	}
	n = control(h.setup, data, length);
	if (n < 0)
		return answer(&h, n, NULL, 0);
	if (!h.direction)
		return answer(&h, 0, NULL, length);
	return answer(&h, 0, data, (uint32_t)n < length ? (uint32_t)n : length);
}

static void serve(void)
{
	for (;;) {
		struct pollfd p = { .fd = cam.fd, .events = POLLIN };
		int64_t wait = cam.offset ? 0 : cam.next_ns - now_ns();
		int ready = poll(&p, 1, !cam.nurbs ? -1 : wait <= 0 ? 0 :
					(int)(wait / 1000000 + 1));

		if (ready > 0) {
			if (!request())
				return;
		} else if (cam.nurbs && (cam.offset || now_ns() >= cam.next_ns)) {
			if (!send_payload())
				return;
		}
	}
}

/* ---- plugging in */

static void attach(int fd)
{
	const char *path = "/sys/devices/platform/vhci_hcd.0/attach";
	int attach = open(path, O_WRONLY | O_CLOEXEC);

	if (attach < 0)
		die(1, path);
	/* Port 0, a device of no bus, high speed. */
	if (dprintf(attach, "0 %d 1 3", fd) < 0)
		die(1, path);
	close(attach);
}

/* The entry that udevd would write for the node. */
static void initialised(const char *node)
{
	struct stat st;
	char path[100];
	FILE *f;

	if (access("/run/udev/control", F_OK) == 0 || stat(node, &st))
		return;
	mkdir("/run/udev", 0755);
	mkdir("/run/udev/data", 0755);
	snprintf(path, sizeof(path), "/run/udev/data/c%u:%u", major(st.st_rdev),
		 minor(st.st_rdev));
	f = fopen(path, "wx");
	if (f) {
		fputs("I:1\n", f);
		fclose(f);
	}
}

/* The number of the camera's nodes in this class; all are ready then. */
static int nodes(const char *class, const char *prefix)
{
	char path[300], link[300], node[120];
	struct dirent *e;
	DIR *d = opendir(class);
	int found = 0;

	while (d && (e = readdir(d))) {
		ssize_t n;

		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		snprintf(path, sizeof(path), "%s/%.100s", class, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		snprintf(node, sizeof(node), "/dev/%.100s", e->d_name);
		if (strstr(link, "vhci_hcd") && !access(node, R_OK | W_OK)) {
			initialised(node);
			found++;
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* uvcvideo registers the media device last. */
static void wait_for_nodes(void)
{
	for (int i = 0; i < 6000; i++) {
		if (nodes("/sys/bus/media/devices", "media") &&
		    nodes("/sys/class/video4linux", "video"))
			return;
		poll(NULL, 0, 100);
	}
	errno = ETIME;
	die(1, "the camera's nodes");
}

/*
 * A firmware_node beside the bus, in a mount namespace of our own: sysfs takes
 * no new entries, so that the controller's directory is another, and the bus in
 * it the real one.
 */
static void in_firmware(void)
{
	static const char hcd[] = "/sys/devices/platform/vhci_hcd.0";
	char bus[100], node[100], path[120];
	FILE *f;
	int fd;

	snprintf(bus, sizeof(bus), "%s/usb1", hcd);
	snprintf(node, sizeof(node), "%s/firmware_node", hcd);
	snprintf(path, sizeof(path), "%s/path", node);
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die(1, "unshare");
	fd = open(bus, O_PATH | O_CLOEXEC);
	if (fd < 0 || mount("uvc", hcd, "tmpfs", 0, NULL) ||
	    mkdir(bus, 0755) || mkdir(node, 0755))
		die(1, hcd);
	f = fopen(path, "w");
	if (!f)
		die(1, path);
	fputs("\\_SB_.USB0\n", f);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mount(path, bus, NULL, MS_BIND, NULL))
		die(1, bus);
	close(fd);
}

int main(int argc, char **argv)
{
	int pair[2], status = 0;
	pid_t camera, command;

	if (argc < 2)
		return 2;
	if (system("modprobe -a vhci-hcd uvcvideo") != 0) {
		fprintf(stderr, "uvc: no vhci-hcd or no uvcvideo\n");
		return SKIPPED;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		die(1, "socketpair");
	camera = fork();
	if (camera < 0)
		die(1, "fork");
	if (!camera) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		cam.fd = pair[1];
		cam.format = 1;
		serve();
		_exit(0);
	}
	close(pair[1]);
	attach(pair[0]);
	close(pair[0]);
	wait_for_nodes();
	command = fork();
	if (command < 0)
		die(1, "fork");
	if (!command) {
		in_firmware();
		execvp(argv[1], argv + 1);
		die(127, argv[1]);
	}
	waitpid(command, &status, 0);
	kill(camera, SIGKILL);
	waitpid(camera, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
