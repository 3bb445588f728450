/* SPDX-License-Identifier: MIT */
/* plugin_int: engines from plug-ins, and the line that a probe's child sends. */
#ifndef ENGINE_PLUGIN_INT_H
#define ENGINE_PLUGIN_INT_H
#include "engine/plugin.h"

/* The engine of device "NAME" or "NAME:NUMBER" from stoker-NAME.so, loaded into this process.
 * RC_USAGE: there is no such plug-in; RC_NODEV: it is of another version, or has no engine. */
struct eng_ops;
enum rc plugin_engine(const char *device, const struct eng_ops **out, struct err *err) MUST_USE;
/* Is there such a plug-in?  Nothing is loaded.  RC_USAGE: there is none. */
enum rc plugin_check(const char *device, struct err *err) MUST_USE;

/* One device as the child sends it: a line of tab-separated fields.  The reader takes
 * exactly what the writer makes, and refuses anything else. */
struct buf;
void plugin_device_write(const struct stoker_cuda_device *d, struct buf *out);
bool plugin_device_read(const char *line, size_t len, struct stoker_cuda_device *out);

#endif
