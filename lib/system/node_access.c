// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node.h"

struct name {
	char s[24];
};

/*
 * The name of a number in /etc/passwd or /etc/group, otherwise the number. getgrgid() may ask
 * the network and load libraries; users and groups of nodes are the system's own, and
 * at the beginning of these files.
 */
static struct name name_of(const char *file, unsigned int id)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;
	char text[8192] = "\n", key[24], *at = text + 1;
	struct name name;

	if (fd >= 0) {
		n = read(fd, text + 1, sizeof(text) - 2);
		close(fd);
	}
	text[n > 0 ? n + 1 : 1] = '\0';
	snprintf(name.s, sizeof(name.s), "%u", id);
	snprintf(key, sizeof(key), ":%u:", id);
	/* The third field: the second one is x or *, a password's place. */
	while ((at = strstr(at + 1, key)))
		if (at[-2] == ':' && (at[-1] == 'x' || at[-1] == '*')) {
			at[-2] = '\0';
			snprintf(name.s, sizeof(name.s), "%s",
				 strrchr(text, '\n') + 1);
			break;
		}
	return name;
}

void node_access(const char *path, int err, char s[NODE_ACCESS])
{
	char mode[] = "crwxrwxrwx";
	int before = errno;
	struct name user, group;
	struct stat st;

	*s = '\0';
	/* The mode allows it, so a container or a security policy forbids it. */
	if ((err == EACCES || err == EPERM) && !stat(path, &st) &&
	    faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS)) {
		bool by_group = st.st_mode & S_IRGRP;

		for (int i = 0; i < 9; i++)
			if (!(st.st_mode >> (8 - i) & 1))
				mode[i + 1] = '-';
		user = name_of("/etc/passwd", st.st_uid);
		group = name_of("/etc/group", st.st_gid);
		snprintf(s, NODE_ACCESS, "; %s %s may open it (%s %s:%s)",
			 by_group ? "group" : "only",
			 by_group ? group.s : user.s, mode, user.s, group.s);
	}
	errno = before;
}
