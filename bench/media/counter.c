// SPDX-License-Identifier: MIT
/*
 * counter: a plugin of qemu-user that counts the guest's instructions. The guest calls
 * getppid(COUNTER, fd), whose arguments the kernel ignores: the plugin writes the number of
 * instructions so far to fd, 8 bytes. Debian has no package with qemu-plugin.h, so the
 * functions that are needed are declared here, as QEMU's documentation has them.
 */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "counter.h"

struct qemu_plugin_tb;
enum { NO_REGISTERS };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*fn)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*fn)(unsigned int cpu, void *arg), int registers,
					  void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id,
					  void (*fn)(uint64_t id, unsigned int cpu, int64_t number,
						     uint64_t a, uint64_t b, uint64_t c, uint64_t d,
						     uint64_t e, uint64_t f, uint64_t g,
						     uint64_t h));

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

static uint64_t count;

static void executed(unsigned int cpu, void *instructions)
{
	(void)cpu;
	__atomic_fetch_add(&count, (uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS,
					     (void *)qemu_plugin_tb_n_insns(tb));
}

/* No other call has this as its first argument, so its number is not compared. */
static void called(uint64_t id, unsigned int cpu, int64_t number, uint64_t a, uint64_t b,
		   uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
	(void)id, (void)cpu, (void)number, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
	if (a == COUNTER && write(b, &count, sizeof(count)) != sizeof(count))
		_exit(125);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info, (void)argc, (void)argv;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_vcpu_syscall_cb(id, called);
	return 0;
}
