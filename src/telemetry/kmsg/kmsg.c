/* SPDX-License-Identifier: MIT */
/* kmsg: the kernel's log as events.
 *
 * 1. A record of /dev/kmsg is "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT", with odd bytes as \xNN,
 *    and lines of " KEY=VALUE" behind it.  Reading never blocks; EPIPE says that records were
 *    overwritten before they were read, and gaps in the sequence how many.
 * 2. What was logged before the agent began is told too, with its own time.  The log's clock is
 *    not the wall clock's: it runs off by minutes in months, and setting the wall clock does not
 *    move it.  So what is logged while we read happened between two looks, whatever it says.
 * 3. Any process of root may write there.  Its records carry its facility: taken are the
 *    kernel's own and the user's (which is how faults are injected for a test), not those of
 *    daemons, whose texts may quote anything.
 * 4. A flood is cut for each kind of message, of each device that it names: KMSG_BURST at once,
 *    then one every KMSG_REFILL_US of the log's own time; how many were left out is told when it
 *    ends.
 *
 * Which line means what stands in one table, surest first. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "telemetry/kmsg/kmsg_int.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    KMSG_RECORD_MAX = 8192, /* bytes of a record; the kernel's own limit is near it */
    KMSG_TURN_MAX = 4096,   /* records read in one turn; the rest waits for the next */
    KMSG_BURST = 16,
    KMSG_REFILL_US = 5000000,
    KMSG_TELL_US = 60000000, /* what was left out is told so often while a flood lasts */
    KMSG_SLOTS = 512,        /* kinds of messages told apart in a flood; a power of two */
    KMSG_PROBES = 16,        /* places that a kind may have */
    KMSG_FACILITY_USER = 1,
    KMSG_OFF_S = 5, /* by which the log's clock may be off before a new line's time is ours */
    XID_MAX = 99999,
    XID_RECOVERY = 154
};

/* ---- XID and SXID ---- */

/* "PCI:0000:0A:00.0" up to a blank or ')': "0000:0a:00.0"; false: no address. */
static bool bdf_read(const char **p, char bdf[24])
{
    const char *s = *p;
    size_t n = 0, colons = 0;

    if (str_starts(s, "PCI:"))
        s += 4;
    for (; isxdigit((unsigned char)*s) || *s == ':' || *s == '.'; s++) {
        if (n + 1 >= 24)
            return false;
        colons += *s == ':';
        bdf[n++] = (char)tolower((unsigned char)*s);
    }
    bdf[n] = '\0';
    *p = s;
    return n > 0 && colons > 0;
}

bool kmsg_xid(const char *line, int *code, char bdf[24], char *text, size_t cap)
{
    const char *of_gpu = strstr(line, "NVRM: Xid ("), *at = strstr(line, "SXid (");
    bool of_switch = at && (!of_gpu || at < of_gpu); /* a process may have the other's name */
    char address[24];
    uint64_t v;

    if (!of_switch)
        at = of_gpu;
    if (!at)
        return false;
    at = strchr(at, '(') + 1;
    if (!bdf_read(&at, address))
        return false;
    at += strcspn(at, ")"); /* "GPU-I:05": an instance of the GPU */
    if (*at != ')')
        return false;
    at += at[1] == ':' ? 2 : 1;
    if (!scan_u64(&at, &v) || v > XID_MAX || (*at && *at != ',' && *at != ' ' && *at != ':') ||
        of_switch != xid_is_switch((int)v))
        return false;
    at += strspn(at, ",: ");
    if (of_switch && (str_starts(at, "Severity ") || str_starts(at, "Data {")))
        return false;
    *code = (int)v;
    memcpy(bdf, address, sizeof(address));
    (void)str_copy(text, cap, at);
    return true;
}

/* ---- the other lines ---- */

struct rule {
    const char *word, *and_word; /* both must be in the line, whatever the case; NULL: the one */
    enum telemetry_event_kind kind;
};
static const struct rule rules[] = {
    /* GPUs and their driver */
    { "fallen off the bus", NULL, TELEMETRY_EVENT_GPU },
    { "NVRM:", "RmInitAdapter failed", TELEMETRY_EVENT_GPU },
    { "NVRM:", "API mismatch", TELEMETRY_EVENT_GPU },
    { "NVRM:", "GPU is probably locked", TELEMETRY_EVENT_GPU },
    { "NVRM:", "is already bound to", TELEMETRY_EVENT_GPU },
    { "nvidia", "ERROR detected invalid context", TELEMETRY_EVENT_GPU },
    { "segfault at", "libnccl", TELEMETRY_EVENT_KERNEL },
    { "segfault at", "libcuda", TELEMETRY_EVENT_KERNEL },
    /* memory */
    { "Killed process ", NULL, TELEMETRY_EVENT_KERNEL },
    { "Kill process ", "sacrifice child", TELEMETRY_EVENT_KERNEL },
    { "page allocation failure", NULL, TELEMETRY_EVENT_KERNEL },
    /* PCIe and machine checks */
    { "AER:", "Uncorrect", TELEMETRY_EVENT_KERNEL },
    { "pciehp", "Link Down", TELEMETRY_EVENT_KERNEL },
    { "pciehp", "Card not present", TELEMETRY_EVENT_KERNEL },
    { "EDAC ", " CE ", TELEMETRY_EVENT_KERNEL },
    { "EDAC ", " UE ", TELEMETRY_EVENT_KERNEL },
    { "[Hardware Error]", NULL, TELEMETRY_EVENT_KERNEL },
    { "Memory failure:", NULL, TELEMETRY_EVENT_KERNEL },
    { "temperature above threshold", NULL, TELEMETRY_EVENT_KERNEL },
    /* disks and file systems */
    { "nvme", "Device not ready", TELEMETRY_EVENT_KERNEL },
    { "nvme", "probe failure", TELEMETRY_EVENT_KERNEL },
    { "I/O error", NULL, TELEMETRY_EVENT_KERNEL },
    { "critical medium error", NULL, TELEMETRY_EVENT_KERNEL },
    { "EXT4-fs error", NULL, TELEMETRY_EVENT_KERNEL },
    { "Remounting filesystem read-only", NULL, TELEMETRY_EVENT_KERNEL },
    { "XFS (", "corruption", TELEMETRY_EVENT_KERNEL },
    { "XFS (", "Shutting down filesystem", TELEMETRY_EVENT_KERNEL },
    { "BTRFS", "error", TELEMETRY_EVENT_KERNEL },
    { "BTRFS", "critical", TELEMETRY_EVENT_KERNEL },
    { "Disk failure on", NULL, TELEMETRY_EVENT_KERNEL },
    { "nfs: server ", "not responding", TELEMETRY_EVENT_KERNEL },
    { "nfs: server ", " OK", TELEMETRY_EVENT_KERNEL },
    { "LustreError:", NULL, TELEMETRY_EVENT_KERNEL },
    { "Lustre:", "was lost", TELEMETRY_EVENT_KERNEL },
    { "Lustre:", "Connection restored", TELEMETRY_EVENT_KERNEL },
    /* network and RDMA */
    { "Link is Down", NULL, TELEMETRY_EVENT_LINK },
    { "Link is Up", NULL, TELEMETRY_EVENT_LINK },
    { ": Link down", NULL, TELEMETRY_EVENT_LINK },
    { ": Link up", NULL, TELEMETRY_EVENT_LINK },
    { "link status definitely", NULL, TELEMETRY_EVENT_LINK },
    { "Port module event", NULL, TELEMETRY_EVENT_LINK },
    { "Port: ", "Link DOWN", TELEMETRY_EVENT_LINK },
    { "Port: ", "Link ACTIVE", TELEMETRY_EVENT_LINK },
    { "NETDEV WATCHDOG", NULL, TELEMETRY_EVENT_LINK },
    { "insufficient power on the PCIe slot", NULL, TELEMETRY_EVENT_KERNEL },
    { "mlx5", "Will cause a leak of a command resource", TELEMETRY_EVENT_KERNEL },
    { "mlx5", "health compromised", TELEMETRY_EVENT_KERNEL },
    { "mlx5", "Fatal error", TELEMETRY_EVENT_KERNEL },
    { "mlx5", "ACCESS_REG", TELEMETRY_EVENT_KERNEL },
    /* the kernel itself */
    { "soft lockup - CPU#", NULL, TELEMETRY_EVENT_KERNEL },
    { "hard LOCKUP", NULL, TELEMETRY_EVENT_KERNEL },
    { "self-detected stall", NULL, TELEMETRY_EVENT_KERNEL },
    { "detected stalls on CPU", NULL, TELEMETRY_EVENT_KERNEL },
    { "Kernel panic", NULL, TELEMETRY_EVENT_KERNEL },
    { "BUG: ", NULL, TELEMETRY_EVENT_KERNEL },
    { "Oops: ", NULL, TELEMETRY_EVENT_KERNEL },
    { "file-max limit", NULL, TELEMETRY_EVENT_KERNEL },
};
static const struct rule *rule_of(const char *line)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (strcasestr(line, rules[i].word) &&
            (!rules[i].and_word || strcasestr(line, rules[i].and_word)))
            return &rules[i];
    return NULL;
}

/* ---- reading ---- */

struct flood_slot {
    int tokens;
    bool used;
    int64_t refilled_us, told_us;
    uint64_t cut; /* since told */
    char what[96];
};

struct kmsg {
    int fd;  /* -1: not there */
    int why; /* errno of opening it */
    bool is_file;
    unsigned source;
    bool has_source, has_seq;
    uint64_t seq;      /* expected next */
    int64_t boot_ns;   /* wall clock at the log's time 0 */
    bool caught_up;    /* what was logged before is read */
    int64_t looked_ns; /* wall clock at the end of the last look */
    struct kmsg_stats stats;
    uint64_t lost_untold;
    uint32_t lines_id, dropped_id;
    struct flood_slot slots[KMSG_SLOTS];
    char text[KMSG_RECORD_MAX]; /* of a file: what is left of the last read */
    size_t len;
};

struct kmsg_line {
    char *text;
    int64_t us; /* -1: unknown */
    uint64_t seq;
    bool has_seq;
    unsigned facility;
};

static int64_t boot_of(const struct root *root, bool live)
{
    struct timespec wall, mono;
    char *text;
    const char *at;
    uint64_t s = 0;

    if (live && !clock_gettime(CLOCK_REALTIME, &wall) && !clock_gettime(CLOCK_MONOTONIC, &mono))
        return (wall.tv_sec - mono.tv_sec) * INT64_C(1000000000) + wall.tv_nsec - mono.tv_nsec;
    text = xmalloc(COLLECT_FILE_MAX);
    at = collect_read(root, "/proc/stat", text, COLLECT_FILE_MAX) > 0 ? strstr(text, "\nbtime ")
                                                                      : NULL;
    if (at)
        at += 7;
    if (at && (!scan_u64(&at, &s) || s > INT32_MAX * UINT64_C(2)))
        s = 0;
    free(text);
    return (int64_t)s * INT64_C(1000000000);
}

struct kmsg *kmsg_open(const struct root *root, const char *path)
{
    struct kmsg *k = xcalloc(1, sizeof(*k));
    bool live = !path && root_is_live(root);
    struct cfile captured = { .fd = -1 };
    struct stat st;

    if (!path && !live)
        cfile_open(&captured, root, "/dev/kmsg"); /* lines that a test appends */
    k->fd = path || live
                ? open(path ? path : "/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
                : captured.fd;
    k->why = k->fd < 0 ? errno : 0;
    k->is_file = k->fd >= 0 && !fstat(k->fd, &st) && S_ISREG(st.st_mode);
    k->boot_ns = boot_of(root, live);
    return k;
}

void kmsg_close(struct kmsg *k)
{
    if (!k)
        return;
    if (k->fd >= 0)
        close(k->fd);
    free(k);
}

int kmsg_fault_errno(const struct kmsg *k)
{
    return k->why;
}

void kmsg_stats(const struct kmsg *k, struct kmsg_stats *out)
{
    *out = k->stats;
}

/* \xNN as the byte it stands for; a line end inside a record becomes a blank. */
static void unescape_record(char *s)
{
    char *out = s;

    for (; *s; s++) {
        if (s[0] == '\\' && s[1] == 'x' && isxdigit((unsigned char)s[2]) &&
            isxdigit((unsigned char)s[3])) {
            char hex[3] = { s[2], s[3], '\0' };
            uint64_t v = 0;

            if (str_to_u64(hex, 16, &v) && v) {
                *out++ = v == '\n' || v == '\t' ? ' ' : (char)v;
                s += 3;
                continue;
            }
        }
        *out++ = *s;
    }
    *out = '\0';
}

/* "[ 1234.567890] text" of dmesg, or a bare line: for files. */
static void plain_read(char *line, struct kmsg_line *out)
{
    const char *p = line + 1;
    double s;

    *out = (struct kmsg_line){ .text = line, .us = -1 };
    if (line[0] != '[' || !scan_f64(&p, &s) || *p != ']' || s > 1e12)
        return;
    out->us = (int64_t)(s * 1e6);
    p++;
    out->text = line + (p - line) + strspn(p, " ");
}

/* False for lines of keys and values. */
static bool line_read(char *line, struct kmsg_line *out)
{
    const char *p = line;
    uint64_t prefix, seq, us;
    char *semicolon;

    if (line[0] == ' ' || !line[0])
        return false;
    semicolon = strchr(line, ';');
    if (!isdigit((unsigned char)line[0]) || !semicolon || !scan_u64(&p, &prefix) || *p++ != ',' ||
        !scan_u64(&p, &seq) || *p++ != ',' || !scan_u64(&p, &us) || us > INT64_MAX / 2000 ||
        p > semicolon)
        plain_read(line, out);
    else
        *out = (struct kmsg_line){ .text = semicolon + 1,
                                   .us = (int64_t)us,
                                   .seq = seq,
                                   .has_seq = true,
                                   .facility = (unsigned)(prefix >> 3) };
    unescape_record(out->text);
    str_make_text(out->text);
    return true;
}

/* ---- telling ---- */

/* "00000000:0A:00.0" and "0000:0a:00" are one device: domains without their zeros, no function. */
static void bdf_short(const char *in, char out[24])
{
    size_t n = 0;

    in += strspn(in, "0");
    if (*in == ':' && in[1])
        in++;
    for (; *in && *in != '.' && n + 1 < 24; in++)
        out[n++] = (char)tolower((unsigned char)*in);
    out[n] = '\0';
}

/* The index of the GPU at an address, from the labels of its series; -1: not known. */
static int gpu_at(const struct telemetry *t, const char *bdf)
{
    char want[24], have[24];
    size_t count = telemetry_count(t);

    bdf_short(bdf, want);
    for (size_t i = 0; i < count; i++) {
        const struct telemetry_series *s = telemetry_get(t, (uint32_t)i);
        const char *gpu = NULL, *at = NULL;
        int64_t n;

        if (!s || s->metric->entity != TELEMETRY_GPU)
            continue;
        for (size_t k = 0; k < s->label_count; k++) {
            if (str_eq(s->labels[k].name, "gpu"))
                gpu = s->labels[k].value;
            if (str_eq(s->labels[k].name, "pci_bus_id"))
                at = s->labels[k].value;
        }
        if (!gpu || !at)
            continue;
        bdf_short(at, have);
        if (str_eq(have, want) && str_to_i64(gpu, 10, &n) && n >= 0 && n < 4096)
            return (int)n;
    }
    return -1;
}

static int64_t time_of(const struct kmsg *k, int64_t us)
{
    int64_t now = clock_unix_ms() * 1000000, own = us < 0 ? now : k->boot_ns + us * 1000;

    if (k->caught_up && (own < k->looked_ns - KMSG_OFF_S * INT64_C(1000000000) ||
                         own > now + KMSG_OFF_S * INT64_C(1000000000)))
        return now;
    return own;
}

static void tell_at(const struct kmsg *k, struct telemetry *t, int64_t us,
                    struct telemetry_event *e)
{
    e->time_ns = time_of(k, us);
    telemetry_event(t, e);
}

static void cut_tell(const struct kmsg *k, struct telemetry *t, struct flood_slot *s, int64_t us)
{
    struct telemetry_event e = { .kind = TELEMETRY_EVENT_KERNEL, .gpu = -1 };

    snprintf(e.text, sizeof(e.text), "%llu more %s of the kernel log like '%s' %s left out",
             (unsigned long long)s->cut, s->cut == 1 ? "line" : "lines", s->what,
             s->cut == 1 ? "was" : "were");
    tell_at(k, t, us, &e);
    s->cut = 0;
    s->told_us = us;
}

/* The slot of a kind; when all its places are taken it shares the last of them. */
static struct flood_slot *slot_of(struct kmsg *k, const char *what)
{
    size_t at = crc32c(0, what, strlen(what));
    struct flood_slot *s = NULL;

    for (size_t i = 0; i < KMSG_PROBES; i++) {
        s = &k->slots[(at + i) & (KMSG_SLOTS - 1)];
        if (!s->used || str_eq(s->what, what))
            break;
    }
    return s;
}

/* Whether one more of this kind may be told now. */
static bool slot_take(struct kmsg *k, struct telemetry *t, const char *what, int64_t us)
{
    struct flood_slot *s = slot_of(k, what);
    int64_t now = us < 0 ? s->refilled_us : us, more;

    if (!s->used) {
        *s = (struct flood_slot){
            .used = true, .tokens = KMSG_BURST, .refilled_us = now, .told_us = now
        };
        (void)str_copy(s->what, sizeof(s->what), what);
    }
    more = now > s->refilled_us ? (now - s->refilled_us) / KMSG_REFILL_US : 0;
    if (more > 0) {
        s->tokens = more > KMSG_BURST - s->tokens ? KMSG_BURST : s->tokens + (int)more;
        s->refilled_us += more * KMSG_REFILL_US;
    }
    if (s->tokens > 0) {
        if (s->cut > 0)
            cut_tell(k, t, s, us);
        s->tokens--;
        return true;
    }
    s->cut++;
    k->stats.cut++;
    if (now - s->told_us >= KMSG_TELL_US)
        cut_tell(k, t, s, us);
    return false;
}

/* "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)" */
static bool asks_for_recovery(int code, const char *rest)
{
    const char *to = strstr(rest, " to ");

    return code == XID_RECOVERY && strstr(rest, "recovery action changed") && to &&
           !strstr(to, "(None)");
}

static size_t xid_tell(struct kmsg *k, struct telemetry *t, const struct kmsg_line *l, int code,
                       const char *bdf, const char *rest)
{
    struct telemetry_event e = { .kind = xid_is_switch(code) ? TELEMETRY_EVENT_SXID
                                                             : TELEMETRY_EVENT_XID,
                                 .code = code,
                                 .gpu = -1 };
    char words[TELEMETRY_VALUE_MAX];
    char what[64];

    snprintf(what, sizeof(what), "%s %d at %s", xid_is_switch(code) ? "SXID" : "XID", code, bdf);
    if (!slot_take(k, t, what, l->us))
        return 0;
    xid_words(code, words, sizeof(words));
    if (!xid_is_switch(code))
        e.gpu = gpu_at(t, bdf);
    snprintf(e.text, sizeof(e.text), "%s: %.180s; ", what, words);
    (void)str_copy(e.text + strlen(e.text), sizeof(e.text) - strlen(e.text), rest);
    str_make_text(e.text); /* a character may have been cut in two */
    tell_at(k, t, l->us, &e);
    if (!asks_for_recovery(code, rest))
        return 1;
    e.kind = TELEMETRY_EVENT_RECOVERY;
    tell_at(k, t, l->us, &e);
    return 2;
}

/* "NVRM: GPU 0000:01:00.0: …", "NVRM: The NVIDIA GPU 0000:01:00.0 …", "… at PCI:0000:01:00: …",
 * and our own "XID 79 at 0000:01:00: …" */
void kmsg_locate(const struct telemetry *t, struct telemetry_event *io, char bdf[24])
{
    bool own = io->kind == TELEMETRY_EVENT_XID || io->kind == TELEMETRY_EVENT_RECOVERY ||
               io->kind == TELEMETRY_EVENT_SXID;
    const char *at = strstr(io->text, own ? " at " : "GPU ");

    bdf[0] = '\0';
    if (!at || (!own && io->kind != TELEMETRY_EVENT_GPU))
        return;
    at += 4;
    if (str_starts(at, "at "))
        at += 3;
    if (!bdf_read(&at, bdf)) {
        bdf[0] = '\0';
        return;
    }
    if (bdf[strlen(bdf) - 1] == ':') /* what follows it in a text */
        bdf[strlen(bdf) - 1] = '\0';
    if (io->gpu < 0 && io->kind != TELEMETRY_EVENT_SXID)
        io->gpu = gpu_at(t, bdf);
}

static size_t line_take(struct kmsg *k, struct telemetry *t, const struct kmsg_line *l)
{
    struct telemetry_event e = { .gpu = -1 };
    char bdf[24], rest[TELEMETRY_VALUE_MAX];
    const struct rule *r;
    char what[sizeof(k->slots[0].what)];
    struct kmsg_fault f;
    bool fault;
    int code;

    k->stats.lines++;
    if (l->has_seq) {
        if (k->has_seq && l->seq > k->seq) {
            k->stats.lost += l->seq - k->seq;
            k->lost_untold += l->seq - k->seq;
        }
        k->seq = l->seq + 1;
        k->has_seq = true;
    }
    if (l->facility > KMSG_FACILITY_USER)
        return 0;
    if (kmsg_xid(l->text, &code, bdf, rest, sizeof(rest)))
        return xid_tell(k, t, l, code, bdf, rest);
    r = rule_of(l->text);
    fault = kmsg_fault(l->text, &f); /* the line that says how bad it is has room of its own */
    if (fault)
        snprintf(what, sizeof(what), "%s of %s", kmsg_fault_word(f.kind), f.device);
    else if (r)
        snprintf(what, sizeof(what), "%s%s%s", r->word, r->and_word ? " … " : "",
                 r->and_word ? r->and_word : "");
    if (!(fault || r) || !slot_take(k, t, what, l->us))
        return 0;
    e.kind = fault ? TELEMETRY_EVENT_KERNEL : r->kind;
    snprintf(e.text, sizeof(e.text), "%.*s", (int)sizeof(e.text) - 1, l->text);
    str_make_text(e.text);
    kmsg_locate(t, &e, bdf);
    tell_at(k, t, l->us, &e);
    return 1;
}

/* The lines in the buffer that are whole; a file's last, unfinished one stays. */
static size_t lines_take(struct kmsg *k, struct telemetry *t)
{
    size_t told = 0;
    char *line = k->text, *end;

    k->text[k->len] = '\0';
    while ((end = memchr(line, '\n', k->len - (size_t)(line - k->text)))) {
        struct kmsg_line l;

        *end = '\0';
        if (line_read(line, &l))
            told += line_take(k, t, &l);
        line = end + 1;
    }
    k->len -= (size_t)(line - k->text);
    memmove(k->text, line, k->len);
    if (!k->is_file || k->len + 1 >= sizeof(k->text))
        k->len = 0; /* a device gives whole records; a line without end is thrown away */
    return told;
}

static size_t lost_tell(struct kmsg *k, struct telemetry *t, bool gap)
{
    struct telemetry_event e = { .kind = TELEMETRY_EVENT_KERNEL, .gpu = -1 };

    if (!gap && !k->lost_untold)
        return 0;
    if (k->lost_untold)
        snprintf(e.text, sizeof(e.text),
                 "%llu messages of the kernel log were lost before they could be read",
                 (unsigned long long)k->lost_untold);
    else
        snprintf(e.text, sizeof(e.text),
                 "messages of the kernel log were lost before they could be read");
    k->lost_untold = 0;
    tell_at(k, t, -1, &e);
    return 1;
}

static void stats_set(struct kmsg *k, struct telemetry *t)
{
    if (!k->has_source) {
        k->source = telemetry_source(t, "kmsg");
        k->lines_id = collect_id(t, k->source, "stoker_kmsg_lines_total", NULL, 0);
        k->dropped_id = collect_id(t, k->source, "stoker_kmsg_dropped_total", NULL, 0);
        k->has_source = true;
    }
    telemetry_begin(t, k->source, clock_unix_ms() * 1000000);
    telemetry_set(t, k->lines_id, (double)k->stats.lines);
    telemetry_set(t, k->dropped_id, (double)(k->stats.cut + k->stats.lost));
    telemetry_end(t);
}

size_t kmsg_poll(struct kmsg *k, struct telemetry *t)
{
    size_t told = 0;
    bool gap = false;

    if (!k || k->fd < 0)
        return 0;
    for (int i = 0; i < KMSG_TURN_MAX; i++) {
        ssize_t n = read(k->fd, k->text + k->len, sizeof(k->text) - 1 - k->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE) {
            gap = true;
            continue;
        }
        if (n <= 0) {
            k->caught_up = true;
            break;
        }
        k->len += (size_t)n;
        told += lines_take(k, t);
    }
    told += lost_tell(k, t, gap);
    k->looked_ns = clock_unix_ms() * 1000000;
    stats_set(k, t);
    return told;
}
