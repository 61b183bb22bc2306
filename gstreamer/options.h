/* SPDX-License-Identifier: MIT */
/* The properties of dlbufprepare and their values. */
#ifndef DLBUF_GSTREAMER_OPTIONS_H
#define DLBUF_GSTREAMER_OPTIONS_H

#include <gst/gst.h>

#include <dlbuf/dlbuf.h>

/* The types of a plan's values, in the order of the property "type". */
extern const struct value_type {
	DLDataType dtype;
	const char *name;	/* NNStreamer's */
	int number;		/* GstTensorDataType */
} value_types[];

/* The values of the properties. */
struct options {
	struct dlbuf_prepare_opts opts;	/* complete in a copy */
	gint rule, fit, cut, filter, channels, layout, type;
	guint64 timeout;
	gchar *tensor_id, *device;
};

/* The defaults. */
void options_init(struct options *o);
void options_finish(struct options *o);

/* `to` is not initialised before. Its opts are those of a plan, and its device is not NULL. */
void options_copy(struct options *to, const struct options *from);

/* Installs all properties; their ids are 1 and above. */
void options_install(GObjectClass *class);

/* The caller has the object's lock. A text that is no list of numbers is kept in the object. */
void options_set(struct options *o, GObject *object, guint id, const GValue *value);
void options_get(const struct options *o, guint id, GValue *value);

/*
 * Refuses values that the library would not notice (texts that are no numbers, and values that
 * it ignores), and values that it refuses for every picture. Whether a crop fits depends on the
 * picture. `o` is a copy.
 */
int options_check(const struct options *o, GObject *object);

/* Whether the library can prepare a square of this format. The check is that of a plan. */
int options_plan(uint32_t code, enum dlbuf_code_space space,
		 const struct dlbuf_prepare_opts *opts);

/* The library's error text, new: its options have '_' where the properties have '-'. */
gchar *options_sentence(void);

#endif /* DLBUF_GSTREAMER_OPTIONS_H */
