// SPDX-License-Identifier: MIT
/* The sentence behind an error, the log, and the small functions of base.h. */
#include <fcntl.h>
#include <pthread.h>

#include "ktap.h"

#include <dlbuf/tensor.h>

#include "system/internal.h"
#include "system/sys.h"

TEST(no_failure_no_sentence)
{
	CHECK_STR(dlbuf_last_error(), "");
}

TEST(the_sentence_stands_until_the_next_failure)
{
	CHECK_EQ(fail(-EINVAL, "one %d", 1), -EINVAL);
	CHECK_STR(dlbuf_last_error(), "one 1");
	CHECK_STR(dlbuf_last_error(), "one 1");
	CHECK_EQ(fail(-EIO, "two"), -EIO);
	CHECK_STR(dlbuf_last_error(), "two");
	forget_failure();
	CHECK_STR(dlbuf_last_error(), "");
}

TEST(an_old_sentence_inside_a_new_one)
{
	fail(-EIO, "the cause");
	fail(-EIO, "because of %s", dlbuf_last_error());
	CHECK_STR(dlbuf_last_error(), "because of the cause");
}

TEST(the_system_s_text_is_appended)
{
	errno = ENOENT;
	CHECK_EQ(fail_errno("open(%s)", "x"), -ENOENT);
	CHECK_STR(dlbuf_last_error(), "open(x): No such file or directory");
	/* A call that failed without saying why is an I/O error. */
	errno = 0;
	CHECK_EQ(fail_errno("call()"), -EIO);
	CHECK_STR(dlbuf_last_error(), "call(): Input/output error");
	/* "Would block" is never the system's to say. */
	errno = EAGAIN;
	CHECK_EQ(fail_errno("mmap()"), -ENOMEM);
	CHECK_STR(dlbuf_last_error(),
		  "mmap(): Resource temporarily unavailable");
	errno = ENOSPC;
	CHECK_EQ(fail_errno("epoll_ctl()"), -ENOMEM);
}

TEST(an_adapter_leaves_a_sentence)
{
	CHECK_EQ(dlbuf_fail(-ENODEV, "%s\n%d", "two lines", 2), -ENODEV);
	CHECK_STR(dlbuf_last_error(), "two lines?2");
	/* An application's mistake stays a failure. */
	CHECK_EQ(dlbuf_fail(0, "nothing"), -EINVAL);
	CHECK_EQ(dlbuf_fail(5, "positive"), -EINVAL);
}

TEST(long_sentences_are_cut)
{
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fail(-EINVAL, "%s", text);
	CHECK_EQ(strlen(dlbuf_last_error()), 511);
	errno = ENOENT;
	CHECK_EQ(fail_errno("%s", text), -ENOENT);
	CHECK_EQ(strlen(dlbuf_last_error()), 511);
	text[505] = '\0';
	errno = ENOENT;
	CHECK_EQ(fail_errno("%s", text), -ENOENT);
	CHECK_EQ(strlen(dlbuf_last_error()), 511);
	CHECK_SAYS("xx: No s");
}

TEST(one_line_whatever_it_quotes)
{
	CHECK_ERR(fail(-EINVAL, "a name '%s'", "a\nb\tc\x1b[31m"), -EINVAL);
	errno = ENOENT;
	CHECK_ERR(fail_errno("a name '%s'", "a\nb"), -ENOENT);
	/* Bytes that are not ASCII stay. */
	CHECK_ERR(fail(-EINVAL, "%s", "caf\xc3\xa9"), -EINVAL);
	CHECK_STR(dlbuf_last_error(), "caf\xc3\xa9");
}

static void *fail_elsewhere(void *arg)
{
	CHECK_STR(dlbuf_last_error(), "");
	fail(-EINVAL, "of thread %d", *(int *)arg);
	for (int i = 0; i < 1000; i++) {
		fail(-EINVAL, "of thread %d", *(int *)arg);
		if (atoi(dlbuf_last_error() + 10) != *(int *)arg)
			CHECK(!"the sentence is another thread's");
	}
	return NULL;
}

TEST(each_thread_has_its_own)
{
	pthread_t threads[4];
	int numbers[4] = { 1, 2, 3, 4 };

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	fail(-EINVAL, "of the main thread");
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, fail_elsewhere,
					&numbers[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_STR(dlbuf_last_error(), "of the main thread");
}

/* ---------------------------------------------------------------- the log */

struct heard {
	int count;
	enum dlbuf_log_level level;
	char text[1024];
};

static void hear(void *data, enum dlbuf_log_level level, const char *text)
{
	struct heard *h = data;

	h->count++;
	h->level = level;
	snprintf(h->text, sizeof(h->text), "%s", text);
}

/* All five levels once, each with its number. */
static void say_all(void)
{
	for (int l = DLBUF_LOG_ERROR; l <= DLBUF_LOG_DEBUG; l++)
		log_at(l, "level %d", l);
}

TEST(a_function_hears_up_to_its_level)
{
	for (int level = DLBUF_LOG_NONE; level <= DLBUF_LOG_DEBUG; level++) {
		struct heard h = { 0 };

		dlbuf_log_set(hear, &h, level);
		say_all();
		CHECK_EQ(h.count, level);
		if (level) {
			char text[16];

			snprintf(text, sizeof(text), "level %d", level);
			CHECK_STR(h.text, text);
			CHECK_EQ(h.level, level);
		}
	}
}

TEST(a_function_hears_one_line)
{
	struct heard h = { 0 };
	char text[2000];

	dlbuf_log_set(hear, &h, DLBUF_LOG_DEBUG);
	log_at(DLBUF_LOG_INFO, "%s\nand\r%s", "one", "two");
	CHECK(!strpbrk(h.text, "\r\n"));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_at(DLBUF_LOG_INFO, "%s", text);
	CHECK_EQ(strlen(h.text), 511);
}

TEST(the_log_does_not_touch_the_sentence)
{
	struct heard h = { 0 };

	dlbuf_log_set(hear, &h, DLBUF_LOG_DEBUG);
	fail(-EINVAL, "the cause");
	log_at(DLBUF_LOG_WARN, "something else");
	CHECK_STR(dlbuf_last_error(), "the cause");
	CHECK_STR(h.text, "something else");
}

/* The lines that say_all() writes to standard error; their number. */
static int lines_on_stderr(char *text, size_t size)
{
	int fds[2], kept = dup(2), lines = 0;
	ssize_t n;

	REQUIRE(kept >= 0);
	REQUIRE(!pipe(fds));
	dup2(fds[1], 2);
	close(fds[1]);
	say_all();
	dup2(kept, 2);
	close(kept);
	n = read(fds[0], text, size - 1);
	close(fds[0]);
	text[n < 0 ? 0 : n] = '\0';
	for (char *c = text; *c; c++)
		lines += *c == '\n';
	return lines;
}

TEST(the_environment_names_the_level)
{
	static const struct {
		const char *word;
		int lines;
	} words[] = {
		{ NULL, 2 }, { "none", 0 }, { "error", 1 }, { "warn", 2 },
		{ "info", 3 }, { "debug", 4 }, { "DEBUG", 4 }, { "", 2 },
		{ "loud", 2 }, { "4", 2 },
	};
	char text[1000];

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (words[i].word)
			setenv("DLBUF_LOG", words[i].word, 1);
		else
			unsetenv("DLBUF_LOG");
		/* NULL goes back to standard error and reads it anew. */
		dlbuf_log_set(NULL, NULL, DLBUF_LOG_DEBUG);
		CHECK_MSG(lines_on_stderr(text, sizeof(text)) == words[i].lines,
			  "DLBUF_LOG='%s': %s", words[i].word, text);
	}
	unsetenv("DLBUF_LOG");
	KTAP_KEEPS(KTAP_HEAP, "the environment is on the heap now");
}

TEST(the_environment_is_read_without_being_asked)
{
	char text[1000];

	KTAP_KEEPS(KTAP_HEAP, "the environment is on the heap now");
	setenv("DLBUF_LOG", "error", 1);
	CHECK_EQ(lines_on_stderr(text, sizeof(text)), 1);
	CHECK_STR(text, "dlbuf: level 1\n");
}

TEST(a_function_replaces_the_environment)
{
	struct heard h = { 0 };
	char text[1000];

	KTAP_KEEPS(KTAP_HEAP, "the environment is on the heap now");
	setenv("DLBUF_LOG", "debug", 1);
	dlbuf_log_set(hear, &h, DLBUF_LOG_ERROR);
	CHECK_EQ(lines_on_stderr(text, sizeof(text)), 0);
	CHECK_EQ(h.count, 1);
}

/* ---------------------------------------------------------------- the rest */

TEST(the_version_is_the_header_s)
{
	char version[32];

	snprintf(version, sizeof(version), "%d.%d.%d", DLBUF_VERSION_MAJOR,
		 DLBUF_VERSION_MINOR, DLBUF_VERSION_PATCH);
	CHECK_STR(dlbuf_version(), version);
}

TEST(paths_have_names)
{
	CHECK_STR(dlbuf_path_name(DLBUF_PATH_DIRECT), "direct");
	CHECK_STR(dlbuf_path_name(DLBUF_PATH_HOST), "host");
	CHECK_STR(dlbuf_path_name(DLBUF_PATH_BRIDGE), "bridge");
	CHECK_STR(dlbuf_path_name(DLBUF_PATH_COPY), "copy");
	CHECK_STR(dlbuf_path_name(0), "unknown");
	CHECK_STR(dlbuf_path_name(99), "unknown");
}

TEST(codes_are_printable)
{
	CHECK_STR(code_text(0x34325258).s, "0x34325258 'XR24'");
	CHECK_STR(code_text(0).s, "0x00000000 '....'");
	CHECK_STR(code_text(0xffffffff).s, "0xffffffff '....'");
}

#ifdef CONFIG_FAULT_INJECTION
static void *allocate(void *arg)
{
	void *p = sys_calloc(1, 1);

	*(bool *)arg = p;
	free(p);
	return NULL;
}

/* A fault is for the thread that asks for it, or for the other threads, in any order of calls. */
TEST(faults_belong_to_a_thread)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (int others = 0; others < 2; others++) {
		bool here = false, there = false;
		pthread_t thread;

		(others ? fault_at_others : fault_at)(1);
		REQUIRE(!pthread_create(&thread, NULL, allocate, &there));
		pthread_join(thread, NULL);
		allocate(&here);
		CHECK_EQ(here, others);
		CHECK_EQ(there, !others);
		CHECK_EQ(fault_count(), 1);
		fault_at(0);
	}
}
#endif

KTAP_MAIN()
