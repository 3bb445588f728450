/* SPDX-License-Identifier: MIT */
/* collect_int: what the host sources share.
 *
 * A source keeps the files it reads open and reads each with one pread (a seq_file of many
 * records with a few), into a buffer it allocated when it was opened.  Series are looked up
 * when a device is first seen; a sample after that only reads, scans and sets.
 *
 * Metrics are named by their Prometheus name, which for these is node_exporter's where it has
 * one, or by the table's id. */
#ifndef TELEMETRY_COLLECT_COLLECT_INT_H
#define TELEMETRY_COLLECT_COLLECT_INT_H
#include "telemetry/collect/collect.h"

#include <sys/statvfs.h>

enum {
    COLLECT_NAME_MAX = 64,       /* bytes of a device's name and its NUL */
    COLLECT_RESCAN_MS = 30000,   /* new devices are looked for so often, in folders */
    COLLECT_FILE_MAX = 64 << 10, /* what is read of most files */
};

/* A file that is read over and over.  error is 0, or the errno that made us give it up. */
struct cfile {
    int fd; /* -1: not open */
    int error;
};
void cfile_open(struct cfile *f, const struct root *r, const char *path);
void cfile_close(struct cfile *f);
/* Bytes, NUL-terminated, or -errno; one pread. */
ssize_t cfile_read(const struct cfile *f, char *buf, size_t cap);
/* The same for files that the kernel hands out in pieces. */
ssize_t cfile_read_all(const struct cfile *f, char *buf, size_t cap);
/* Opened, read and closed: for what is read seldom. */
ssize_t collect_read(const struct root *r, const char *path, char *buf, size_t cap);
int collect_list(const struct root *r, struct arena *a, const char *path, struct root_names *out);

/* ---- scanning; a cursor never passes the text's NUL */
bool scan_u64(const char **p, uint64_t *out); /* after blanks; false: no digits or too large */
bool scan_i64(const char **p, int64_t *out);
bool scan_f64(const char **p, double *out); /* digits with a point; no exponent, no sign */
/* A word up to a blank or line end; its length, 0 at the end of the line. */
size_t scan_word(const char **p, const char **word);
const char *scan_line(const char *p); /* the beginning of the next line, or the NUL */
bool scan_is(const char *word, size_t len, const char *want);
bool scan_begins(const char *word, size_t len, const char *prefix); /* and goes on */
/* Copies a word; false when it is too long or no plain text. */
bool scan_copy(char *out, size_t cap, const char *word, size_t len);

/* ---- series */
const struct telemetry_metric *collect_metric(const char *name); /* NULL: not in the table */
uint32_t collect_id(struct telemetry *t, unsigned source, const char *name,
                    const struct telemetry_label *labels, size_t count);

/* "key value" lines (meminfo, vmstat) of which a table names the wanted ones. */
struct collect_key {
    const char *key, *prom;
    double scale;
};
void collect_keys_ids(struct telemetry *t, unsigned source, const struct collect_key *keys,
                      size_t count, const struct telemetry_label *labels, size_t label_count,
                      uint32_t *ids);
/* Sets the number that follows the first `head` in the text; nothing where there is none. */
void collect_set_after(struct telemetry *t, uint32_t id, const char *text, const char *head);
void collect_keys_set(struct telemetry *t, const char *text, const struct collect_key *keys,
                      size_t count, const uint32_t *ids);

/* ---- file systems that may not answer: asked by a thread of their own (mounts_probe.c) */
enum {
    MOUNTS_PROBE_MAX = 64, /* remote file systems asked */
    MOUNTS_STUCK_MAX = 4,  /* threads that a dead server may hold */
    MOUNTS_PATH_MAX = 512  /* bytes of a mount point; longer ones are left out */
};
struct mounts_answer {
    char path[MOUNTS_PATH_MAX];
    int rc; /* 0, or an errno; EAGAIN: not answered yet, ETIMEDOUT: stuck */
    struct statvfs v;
};
struct mounts_probe;
/* `ask` is statvfs() but in tests. */
struct mounts_probe *mounts_probe_new(int (*ask)(const char *path, struct statvfs *out),
                                      int deadline_ms);
/* Takes what came in since and asks for all of `list` again, without waiting: the answers of
 * one call are those of the last round.  Paths decide, places may change. */
void mounts_probe_turn(struct mounts_probe *a, struct mounts_answer *list, size_t count,
                       int64_t mono_ns);
size_t mounts_probe_stuck(const struct mounts_probe *a);
void mounts_probe_free(struct mounts_probe *a); /* never waits for a stuck one */

/* ---- what a training job says of itself (collect_jobs.c, docs/user/jobs.md) */
enum { JOB_STATES = 8 };
struct job_file { /* numbers NaN, texts "": not told */
    char name[128], kind[32], user[64], message[TELEMETRY_VALUE_MAX];
    unsigned state;
    double pid, gpus, started_s, updated_s, step, steps, step_seconds, tokens_per_second,
        samples_per_second, loss, mfu, restarts, checkpoint_step, checkpoint_s;
    double rank, world_size, gpu, busy_seconds; /* of the rank that writes */
};
enum rc job_parse(const char *bytes, size_t len, struct job_file *out, struct err *err) MUST_USE;
const char *job_state_word(unsigned state); /* "running"; "": there is no such */

/* ---- a process' cgroup file (process_owner.c); for tests and fuzzing */
void owner_cgroup(const char *text, struct owner *out);
/* Names from what a kubelet calls a pod's folder of logs and a container's log; false: it is not
 * that of the pod, the container in `io`. */
bool owner_pod_folder(const char *name, struct owner *io);
bool owner_container_log(const char *name, struct owner *io);

#endif
