/* SPDX-License-Identifier: MIT */
/* plugin: loads stoker-cuda.so in a child and reads its answer line by line.
 *
 * What the child sends, each line ended by a newline:
 *
 *   device TAB index TAB name TAB …     one device, as soon as it is done
 *   error TAB text                      CUDA did not start, or the plug-in cannot be used
 *   end                                 all was asked
 *
 * A child that dies or hangs leaves out "end": what it had sent before still counts. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_plugin.h"
#include "engine/plugin_int.h"
#include "os/worker/child.h"

#include <assert.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- finding it ---- */
#define PLUGIN_FILE "stoker-cuda.so"

static bool try_dir(const char *dir, const char *below, const char *file, char out[PLUGIN_PATH_MAX],
                    struct buf *tried)
{
    char path[PLUGIN_PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s%s/%s", dir, below, file);

    buf_addf(tried, "%s%s%s", tried->len ? ", " : "", dir, below);
    if (n < 0 || (size_t)n >= sizeof(path) || access(path, R_OK) != 0)
        return false;
    return str_copy(out, PLUGIN_PATH_MAX, path);
}

/* The directory this program runs from; false when /proc does not tell. */
static bool exe_dir(char out[PLUGIN_PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PLUGIN_PATH_MAX - 1);
    char *slash;

    if (n <= 0)
        return false;
    out[n] = '\0';
    slash = strrchr(out, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

static bool find_file(const char *dir, const char *file, char out[PLUGIN_PATH_MAX],
                      char why[PLUGIN_WHY_MAX])
{
    const char *env = secure_getenv("STOKER_PLUGIN_DIR");
    char exe[PLUGIN_PATH_MAX];
    struct buf tried = { 0 };
    bool found;

    found = (dir && try_dir(dir, "", file, out, &tried)) ||
            (env && try_dir(env, "", file, out, &tried)) ||
            (exe_dir(exe) && (try_dir(exe, "", file, out, &tried) ||
                              try_dir(exe, "/../lib/stoker", file, out, &tried))) ||
            try_dir("/usr/lib/stoker", "", file, out, &tried);
    if (!found)
        snprintf(why, PLUGIN_WHY_MAX, "no %s in %.440s", file, buf_str(&tried));
    buf_release(&tried);
    return found;
}

bool plugin_find(const char *dir, char out[PLUGIN_PATH_MAX], char why[PLUGIN_WHY_MAX])
{
    return find_file(dir, PLUGIN_FILE, out, why);
}

int plugin_cuda_version(const char *path)
{
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*version)(void);
    int answer;

    if (!so)
        return 0;
    *(void **)&version = dlsym(so, "stoker_cuda_version");
    answer = version ? version() : 0;
    (void)dlclose(so);
    return answer;
}

/* ---- a device to run models on ---- */
static enum rc tensor_bytes(const struct model *m, const struct st_tensor *t, uint64_t first,
                            uint64_t count, void *out, struct err *err)
{
    return st_read(m->tensors, t, first, count, out, err);
}

static enum rc tensor_f32(const struct model *m, const struct st_tensor *t, uint64_t first,
                          uint64_t count, float *out, struct err *err)
{
    return st_read_f32(m->tensors, t, first, count, out, err);
}

static const struct eng_host host = {
    .fail = err_set,
    .hint = err_hint,
    .alloc = xcalloc,
    .ref = &eng_ref,
    .cpu = &eng_cpu,
    .weight_shape = eng_weight_shape,
    .weight = eng_weight,
    .dense_weight = eng_dense_weight,
    .weight_tensor = eng_weight_tensor,
    .tensor_bytes = tensor_bytes,
    .tensor_f32 = tensor_f32,
    .rel_bias = eng_rel_bias,
    .positions = eng_positions,
    .tail_load = eng_tail_load,
    .tail_free = eng_tail_free,
    .tail_bytes = eng_tail_bytes,
    .tail_room = eng_tail_room,
    .tail_run = eng_tail_run,
};

/* "stoker-NAME.so" of "NAME:3"; a name is what cannot leave the folder. */
static bool file_of(const char *device, char *out, size_t cap)
{
    size_t len = strspn(device, "abcdefghijklmnopqrstuvwxyz0123456789");

    if (!len || len > PLUGIN_NAME_MAX || (device[len] && device[len] != ':'))
        return false;
    snprintf(out, cap, "stoker-%.*s.so", (int)len, device);
    return true;
}

static enum rc ask_engine(void *so, const char *path, const struct eng_ops **out, struct err *err)
{
    int (*abi)(void);
    const struct eng_ops *(*engine)(const struct eng_host *);

    *(void **)&abi = dlsym(so, "stoker_engine_abi");
    *(void **)&engine = dlsym(so, "stoker_engine");
    if (!abi || !engine)
        return err_set(err, RC_NODEV, "plug-in '%s' has no engine to run models with", path);
    if (abi() != STOKER_ENGINE_ABI)
        return err_set(err, RC_NODEV,
                       "plug-in '%s' is of another build: its interface is %d, this program's %d",
                       path, abi(), STOKER_ENGINE_ABI);
    *out = engine(&host);
    return *out ? RC_OK : err_set(err, RC_NODEV, "plug-in '%s' found no device", path);
}

static enum rc find_engine(const char *device, char path[PLUGIN_PATH_MAX], struct err *err)
{
    char file[PLUGIN_NAME_MAX + 16], why[PLUGIN_WHY_MAX];

    if (!file_of(device, file, sizeof(file)))
        return err_set(err, RC_USAGE, "unknown device '%.64s'", device);
    if (!find_file(NULL, file, path, why)) {
        err_hint(err, "This program has 'cpu' and 'ref', and there is %.400s.", why);
        return err_set(err, RC_USAGE, "unknown device '%s'", device);
    }
    return RC_OK;
}

enum rc plugin_check(const char *device, struct err *err)
{
    char path[PLUGIN_PATH_MAX];

    return find_engine(device, path, err);
}

enum rc plugin_engine(const char *device, const struct eng_ops **out, struct err *err)
{
    char path[PLUGIN_PATH_MAX];
    const struct eng_ops *ops = NULL;

    if (find_engine(device, path, err))
        return RC_USAGE;
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return err_set(err, RC_NODEV, "plug-in '%s' cannot be loaded: %s", path, dlerror());
    enum rc rc = ask_engine(so, path, &ops, err);
    if (rc == RC_OK)
        *out = ops; /* it stays loaded: what it handed out is in use from here on */
    else
        (void)dlclose(so);
    return rc;
}

/* ---- a device as a line ---- */
enum { DEVICE_FIELDS = 18 }; /* with the word "device" */

/* Tabs, newlines and what is not text would break the line. */
static void add_field(struct buf *out, const char *text)
{
    char *copy = xstrdup(text);

    str_make_text(copy);
    for (char *p = copy; *p; p++)
        if (*p == '\t' || *p == '\n')
            *p = ' ';
    buf_addf(out, "\t%s", copy);
    free(copy);
}

void plugin_device_write(const struct stoker_cuda_device *d, struct buf *out)
{
    buf_addf(out, "device\t%d", d->index);
    add_field(out, d->name);
    add_field(out, d->bdf);
    buf_addf(out, "\t%d\t%d\t%d\t%d", d->cc_major, d->cc_minor, d->sms, d->sms_used);
    buf_addf(out, "\t%llu\t%llu\t%llu\t%llu", (unsigned long long)d->mem_bytes,
             (unsigned long long)d->mem_free_bytes, (unsigned long long)d->l2_bytes,
             (unsigned long long)d->shared_block_bytes);
    buf_addf(out, "\t%d\t%d\t%llu\t%llu\t%.17g", d->driver_version, d->runtime_version,
             (unsigned long long)d->words, (unsigned long long)d->bad_words, d->copy_gbps);
    add_field(out, d->error);
    buf_addc(out, '\n');
}

static bool field_int(const char *s, int *out)
{
    int64_t v;

    if (!str_to_i64(s, 10, &v) || v < 0 || v > INT32_MAX)
        return false;
    *out = (int)v;
    return true;
}

static bool read_fields(char *const f[DEVICE_FIELDS], struct stoker_cuda_device *d)
{
    return strcmp(f[0], "device") == 0 && field_int(f[1], &d->index) &&
           str_copy(d->name, sizeof(d->name), f[2]) && str_copy(d->bdf, sizeof(d->bdf), f[3]) &&
           field_int(f[4], &d->cc_major) && field_int(f[5], &d->cc_minor) &&
           field_int(f[6], &d->sms) && field_int(f[7], &d->sms_used) &&
           str_to_u64(f[8], 10, &d->mem_bytes) && str_to_u64(f[9], 10, &d->mem_free_bytes) &&
           str_to_u64(f[10], 10, &d->l2_bytes) && str_to_u64(f[11], 10, &d->shared_block_bytes) &&
           field_int(f[12], &d->driver_version) && field_int(f[13], &d->runtime_version) &&
           str_to_u64(f[14], 10, &d->words) && str_to_u64(f[15], 10, &d->bad_words) &&
           str_to_f64(f[16], &d->copy_gbps) && str_copy(d->error, sizeof(d->error), f[17]);
}

bool plugin_device_read(const char *line, size_t len, struct stoker_cuda_device *out)
{
    struct stoker_cuda_device d = { 0 };
    char *copy = xstrndup(line, len), *f[DEVICE_FIELDS], *rest = copy;
    size_t n = 0;
    bool ok;

    while (rest && n < DEVICE_FIELDS)
        f[n++] = strsep(&rest, "\t");
    ok = !rest && n == DEVICE_FIELDS && read_fields(f, &d);
    free(copy);
    if (ok)
        *out = d;
    return ok;
}

/* ---- the child ---- */
static void send_device(void *arg, const struct stoker_cuda_device *d)
{
    struct buf line = { 0 };

    plugin_device_write(d, &line);
    child_send(arg, line.data, line.len);
    buf_release(&line);
}

static void name_step(void *arg, const char *what)
{
    child_step(arg, "%s", what);
}

static void send_error(struct child_link *l, const char *what, const char *text)
{
    struct buf line = { 0 }, whole = { 0 };

    buf_addf(&whole, "%s%s%s", what, text ? ": " : "", text ? text : "");
    buf_adds(&line, "error");
    add_field(&line, buf_str(&whole));
    buf_addc(&line, '\n');
    child_send(l, line.data, line.len);
    buf_release(&line);
    buf_release(&whole);
}

typedef int (*abi_fn)(void);
typedef int (*probe_fn)(const struct stoker_cuda_probe_opts *, struct stoker_cuda_device *, int,
                        int *, char *);

static void child_probe(struct child_link *l, void *arg)
{
    static struct stoker_cuda_device devices[STOKER_CUDA_DEVICES_MAX];
    struct stoker_cuda_probe_opts opts = { .step = name_step, .done = send_device, .arg = l };
    char err[STOKER_CUDA_TEXT_MAX] = "no reason given";
    abi_fn abi;
    probe_fn probe;
    int count = 0;
    void *so;

    child_step(l, "loading %s", (const char *)arg);
    so = dlopen(arg, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        send_error(l, "the plug-in cannot be loaded", dlerror());
        return;
    }
    *(void **)&abi = dlsym(so, "stoker_cuda_abi");
    *(void **)&probe = dlsym(so, "stoker_cuda_probe");
    if (!abi || !probe || abi() != STOKER_CUDA_ABI)
        send_error(l, "the plug-in is of another version than this program", NULL);
    else if (probe(&opts, devices, STOKER_CUDA_DEVICES_MAX, &count, err) != 0)
        send_error(l, err, NULL);
    else
        child_send(l, "end\n", 4);
}

/* ---- the parent ---- */
static bool read_lines(const struct buf *answer, struct plugin_probe *out)
{
    const char *p = buf_str(answer), *nl;
    bool ended = false;

    out->devices = xcalloc(STOKER_CUDA_DEVICES_MAX, sizeof(*out->devices));
    for (; (nl = strchr(p, '\n')); p = nl + 1) {
        size_t len = (size_t)(nl - p);

        if (len == 3 && memcmp(p, "end", 3) == 0)
            ended = true;
        else if (len > 6 && memcmp(p, "error\t", 6) == 0)
            snprintf(out->why, sizeof(out->why), "%.*s", len - 6 < 500 ? (int)(len - 6) : 500,
                     p + 6);
        else if (out->count < STOKER_CUDA_DEVICES_MAX &&
                 plugin_device_read(p, len, &out->devices[out->count]))
            out->count++;
        else
            snprintf(out->why, sizeof(out->why), "the plug-in's answer could not be understood");
    }
    return ended;
}

static void say_unfinished(const struct child_report *rep, struct plugin_probe *out)
{
    out->hung = rep->stalled;
    if (rep->stalled)
        snprintf(out->why, sizeof(out->why),
                 "%s did not return, process %ld in state %c, asleep in %s", rep->step,
                 (long)rep->pid, rep->sleep.state ? rep->sleep.state : '?',
                 rep->sleep.wchan[0] ? rep->sleep.wchan : "an unknown place");
    else if (WIFSIGNALED(rep->status))
        snprintf(out->why, sizeof(out->why), "the probe died of signal %d (%s) in %s",
                 WTERMSIG(rep->status), strsignal(WTERMSIG(rep->status)), rep->step);
    else
        snprintf(out->why, sizeof(out->why), "the probe ended early in %s", rep->step);
}

void plugin_cuda_probe(const char *dir, long stall_ms, struct plugin_probe *out)
{
    char path[PLUGIN_PATH_MAX];
    struct child_report rep = { 0 };
    struct err err = { 0 };
    struct buf answer;

    assert(!out->path && !out->devices);
    if (!plugin_find(dir, path, out->why))
        return;
    out->path = xstrdup(path);
    buf_init(&answer, PLUGIN_ANSWER_MAX);
    if (child_run(child_probe, path, stall_ms ? stall_ms : PLUGIN_STALL_MS, &answer, &rep, &err))
        snprintf(out->why, sizeof(out->why), "%.500s", err.msg);
    else if (!read_lines(&answer, out) && !out->why[0])
        say_unfinished(&rep, out);
    buf_release(&answer);
}

void plugin_probe_release(struct plugin_probe *p)
{
    if (!p)
        return;
    free(p->path);
    free(p->devices);
    *p = (struct plugin_probe){ 0 };
}
