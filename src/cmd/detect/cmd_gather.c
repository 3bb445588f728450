/* SPDX-License-Identifier: MIT */
/* cmd_gather: `stoker gather`: a probe with a recorder, written as a tar that
 * `stoker detect --root` replays.  Masked unless asked otherwise; written under
 * another name first, so that OUT.tar is whole or not there. */
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "cmd/cmd_int.h"
#include "cmd/detect/detect_int.h"
#include "hw/capture/capture_mask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GATHER_PATH_MAX = 4096 };

struct gather_opts {
    bool unmasked, force, json;
    const char *root;
};

/* ---- masking ---- */
static void learn_names(void *arg, const char *path, struct buf *io)
{
    mask_learn(arg, path, buf_str(io), io->len);
}

static void apply_mask(void *arg, const char *path, struct buf *io)
{
    mask_apply(arg, path, io);
}

static void counts_text(const struct mask_counts *c, struct buf *out)
{
    const struct {
        size_t n;
        const char *one, *many;
    } rows[] = {
        { c->names, "host name", "host names" },
        { c->ipv4, "IPv4 address", "IPv4 addresses" },
        { c->ipv6, "IPv6 address", "IPv6 addresses" },
        { c->macs, "MAC address", "MAC addresses" },
        { c->guids, "GUID", "GUIDs" },
        { c->uuids, "UUID", "UUIDs" },
        { c->serials, "serial number", "serial numbers" },
    };
    const char *sep = "";

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].n == 0)
            continue;
        buf_addf(out, "%s%zu %s", sep, rows[i].n, rows[i].n == 1 ? rows[i].one : rows[i].many);
        sep = ", ";
    }
    if (!*sep)
        buf_adds(out, "nothing: there was nothing to mask");
}

static enum rc mask_all(struct recorder *rec, struct buf *said, struct err *err)
{
    struct mask *m = mask_new();
    struct mask_counts counts;
    enum rc rc;

    recorder_each(rec, learn_names, m);
    rc = mask_ready(m, err);
    if (!rc) {
        recorder_each(rec, apply_mask, m);
        counts = mask_count(m);
        counts_text(&counts, said);
    }
    mask_free(m);
    return rc;
}

/* A command line can hold anything, passwords too: what detect shows of it is enough. */
static void trim_cmdline(struct recorder *rec, const struct hw *hw)
{
    const char *kept = hw->limits.cmdline;

    if (kept)
        recorder_put(rec, "/proc/cmdline", kept, strlen(kept));
}

/* ---- what the capture says of itself ---- */
static void put_readme(struct recorder *rec, bool masked)
{
    struct buf text = { 0 };

    buf_addf(&text,
             "The files of one machine that 'stoker detect' reads, captured by stoker %s.\n"
             "Replay it with:  stoker detect --root THIS.tar\n\n"
             "stoker/self.json       what system calls said\n"
             "stoker/nvml.json       what the NVIDIA driver said\n"
             "stoker/errors          files that could not be read, and why\n"
             "stoker/inventory.json  what detect made of it\n\n",
             STOKER_VERSION);
    if (masked)
        buf_adds(&text,
                 "Masked: host names, IP and MAC addresses, GUIDs, UUIDs and serial numbers\n"
                 "are not the machine's own; equal ones are still equal, and subnets hold.\n"
                 "Of the kernel's command line only what detect shows is here.\n"
                 "Public addresses became 240.0.0.0/4 and fc00::/8.\n");
    else
        buf_adds(&text,
                 "NOT masked: it holds the machine's addresses, names and serial numbers.\n");
    recorder_put(rec, "/stoker/README", buf_str(&text), text.len);
    buf_release(&text);
}

/* ---- the file ---- */
static enum rc exists_error(const char *path, struct err *err)
{
    err_hint(err, "Use --force to replace it.");
    return err_set(err, RC_FAIL, "'%s' exists already", path);
}

static enum rc move_into_place(const char *tmp, const char *path, bool force, struct err *err)
{
    struct stat st;

    if (force)
        return rename(tmp, path) ? err_sys(err, "could not create '%s'", path) : RC_OK;
    if (!renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_NOREPLACE))
        return RC_OK;
    if (errno == EEXIST)
        return exists_error(path, err);
    if (errno != EINVAL && errno != ENOSYS) /* a file system that cannot do it in one step */
        return err_sys(err, "could not create '%s'", path);
    if (!lstat(path, &st))
        return exists_error(path, err);
    return rename(tmp, path) ? err_sys(err, "could not create '%s'", path) : RC_OK;
}

static enum rc write_capture(struct recorder *rec, const char *path, bool force, struct err *err)
{
    char tmp[GATHER_PATH_MAX];
    enum rc rc;

    if (snprintf(tmp, sizeof(tmp), "%s.tmp.%d", path, (int)getpid()) >= (int)sizeof(tmp))
        return err_set(err, RC_USAGE, "the path '%.40s…' is too long", path);
    rc = recorder_write(rec, tmp, err);
    if (!rc)
        rc = move_into_place(tmp, path, force, err);
    if (rc)
        unlink(tmp);
    return rc;
}

struct gather_tally {
    size_t files, bytes;
};

static void tally_file(void *arg, const char *path, struct buf *io)
{
    struct gather_tally *t = arg;

    (void)path;
    t->files++;
    t->bytes += io->len;
}

static void report_json(struct cmd_ctx *ctx, const struct hw *hw, const struct gather_tally *t)
{
    const struct gather_opts *o = ctx->opts;
    struct json_out w;

    json_doc(&w, &ctx->out, "stoker.gather/1");
    json_kv_str(&w, "path", ctx->argv[0]);
    json_kv_int(&w, "files", (int64_t)t->files);
    json_kv_int(&w, "bytes", (int64_t)t->bytes);
    json_kv_bool(&w, "masked", !o->unmasked);
    json_kv_int(&w, "gpus", (int64_t)hw->gpus_count);
    json_kv_int(&w, "rdma", (int64_t)hw->rdma_count);
    json_kv_int(&w, "nets", (int64_t)hw->nets_count);
    json_doc_end(&w);
}

static void print_report(struct cmd_ctx *ctx, const struct hw *hw, struct recorder *rec,
                         const struct buf *masked)
{
    const struct gather_opts *o = ctx->opts;
    struct gather_tally t = { 0 };
    char size[UNITS_TEXT_MAX];

    recorder_each(rec, tally_file, &t);
    if (o->json) {
        report_json(ctx, hw, &t);
        return;
    }
    buf_addf(&ctx->out, "%s: %zu files, %s\n", ctx->argv[0], t.files,
             units_bytes_human(t.bytes, size));
    buf_addf(&ctx->out, "  %zu GPU%s, %zu RDMA device%s, %zu network interface%s\n", hw->gpus_count,
             hw->gpus_count == 1 ? "" : "s", hw->rdma_count, hw->rdma_count == 1 ? "" : "s",
             hw->nets_count, hw->nets_count == 1 ? "" : "s");
    if (o->unmasked)
        buf_adds(&ctx->out, "  not masked: it holds addresses, names and serial numbers\n");
    else
        buf_addf(&ctx->out, "  masked: %s\n", buf_str(masked));
    buf_addf(&ctx->out, "  replay: stoker detect --root %s\n", ctx->argv[0]);
}

static enum rc run_gather(struct cmd_ctx *ctx, struct err *err)
{
    const struct gather_opts *o = ctx->opts;
    struct recorder *rec;
    struct buf masked = { 0 };
    struct hw *hw = NULL;
    struct stat st;
    enum rc rc;

    if (!lstat(ctx->argv[0], &st)) {
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) /* a rename would replace /dev/null */
            return err_set(err, RC_FAIL, "'%s' exists and is no file", ctx->argv[0]);
        if (!o->force)
            return exists_error(ctx->argv[0], err);
    }
    rec = recorder_new();
    rc = detect_probe(o->root, rec, &hw, err);
    if (!rc) {
        struct buf text = { 0 };
        hw->captured = maybe_of(1); /* as whoever replays it will see it */
        hw_write_json(hw, &text);
        recorder_put(rec, "/stoker/inventory.json", buf_str(&text), text.len);
        buf_release(&text);
        put_readme(rec, !o->unmasked);
        if (!o->unmasked)
            trim_cmdline(rec, hw);
        rc = o->unmasked ? RC_OK : mask_all(rec, &masked, err);
    }
    if (!rc)
        rc = write_capture(rec, ctx->argv[0], o->force, err);
    if (!rc)
        print_report(ctx, hw, rec, &masked);
    buf_release(&masked);
    hw_free(hw);
    recorder_free(rec);
    return rc;
}

#define OPT_STRUCT struct gather_opts
static const struct opt opts_gather[] = {
    OPT(0, "unmasked", FLAG, unmasked, NULL,
        "keep addresses, names and serial numbers as they are"),
    OPT(0, "force", FLAG, force, NULL, "replace a file that exists"),
    OPT(0, "json", FLAG, json, NULL, "say what was captured as JSON"),
    OPT(0, "root", STR, root, "DIR|TAR", "capture from a captured machine instead of this one"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker gather node7.tar", "capture this machine, masked" },
    { "stoker detect --root node7.tar", "look at it elsewhere" },
    { 0 },
};

const struct cmd cmd_gather = {
    .name = "gather",
    .summary = "capture what detect reads, so that it can be looked at elsewhere",
    .operands = "OUT.tar",
    .args_min = 1,
    .args_max = 1,
    .opts = opts_gather,
    .opts_size = sizeof(struct gather_opts),
    .about =
        "Probes the machine once and writes every file, system call and driver answer that the "
        "probe used into one tar, a few hundred kilobytes. 'stoker detect --root OUT.tar' then "
        "answers as on the machine itself.\n"
        "\n"
        "Host names, IP and MAC addresses, GUIDs, UUIDs and serial numbers are masked unless "
        "--unmasked is given: equal values stay equal, and addresses keep their subnets. Names "
        "of files and interfaces, mount points, software versions and the variables that steer "
        "GPU work stay as they are: look at the capture before you publish it.",
    .examples = examples,
    .run = run_gather,
};
