/* SPDX-License-Identifier: MIT */
/* against_log: what NCCL_DEBUG=INFO says, as facts.
 *
 * A line is NCCL's when it holds "HOST:PID:TID [DEVICE] NCCL INFO "; launchers and
 * NCCL's own time stamps may stand before it.  The forms are those of NCCL 2.18 to
 * 2.30; a line of another form is passed over.  The log of a job has lines of every
 * host: those of one are taken. */
#include "nccl/against/against_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>

struct log_line {
    char text[NCCL_LOG_LINE_MAX];
    const char *host; /* in text */
    int64_t pid;
    const char *says; /* after "NCCL INFO " */
    size_t number;
};

/* ---- small scanners: each moves *p on success only ---- */
static bool take_text(const char **p, const char *what)
{
    if (!str_starts(*p, what))
        return false;
    *p += strlen(what);
    return true;
}

static bool take_number(const char **p, int base, int64_t *out)
{
    char *end;
    long long v;

    if (!isxdigit((unsigned char)**p) && **p != '-')
        return false;
    v = strtoll(*p, &end, base);
    if (end == *p)
        return false;
    *p = end;
    *out = v;
    return true;
}

/* Up to one of `stops` or the end; never empty. */
static const char *take_until(struct arena *a, const char **p, const char *stops)
{
    size_t len = strcspn(*p, stops);
    const char *word = len ? arena_strndup(a, *p, len) : NULL;

    *p += len;
    return word;
}

static void skip_spaces(const char **p)
{
    *p += strspn(*p, " ");
}

static void answer_add(struct log_facts *f, struct log_answers *q, const char *value, size_t line)
{
    if (!value)
        return;
    for (size_t i = 0; i < q->count; i++)
        if (str_eq(q->values[i], value))
            return;
    if (q->count == NCCL_LOG_VALUES_MAX)
        return;
    if (!q->count)
        q->line = line;
    q->values[q->count++] = arena_strdup(f->a, value);
}

/* ---- lines ---- */

/* A host's name ends what may stand before it: Open MPI's "[1,0]<stdout>:" and torchrun's
 * "[default0]:" have no blank behind them. */
static const char *host_start(const char *word)
{
    const char *host = word;

    for (const char *p = word; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-_.", *p))
            host = p + 1;
    return host;
}

/* "…HOST:PID:TID [0] NCCL INFO text"; false for a line that is not NCCL's. */
static bool line_split(struct log_line *l)
{
    static const char mark[] = " NCCL INFO ";
    char *at = strstr(l->text, mark), *p, *colon;
    int64_t tid;

    if (!at)
        return false;
    l->says = at + sizeof(mark) - 1;
    *at = '\0';
    p = strrchr(l->text, ' '); /* before "[0]" */
    if (!p || p[1] != '[')
        return false;
    *p = '\0';
    p = strrchr(l->text, ' ');
    l->host = p ? p + 1 : l->text;
    colon = strrchr(l->host, ':');
    if (!colon || !str_to_i64(colon + 1, 10, &tid))
        return false;
    *colon = '\0';
    colon = strrchr(l->host, ':');
    if (!colon || colon == l->host || !str_to_i64(colon + 1, 10, &l->pid))
        return false;
    *colon = '\0';
    l->host = host_start(l->host);
    return *l->host != '\0';
}

/* What the first rank says on standard output, "NCCL version 2.27.5+cuda12.8", with or without a
 * launcher's label; NULL: another line. */
static const char *version_said(const char *text)
{
    static const char words[] = "NCCL version ";
    const char *at = strstr(text, words), *before = at;

    while (before && before > text && before[-1] == ' ')
        before--;
    if (!at || (before > text && !strchr(":]>|", before[-1])))
        return NULL;
    at += sizeof(words) - 1;
    return isdigit((unsigned char)*at) ? at : NULL;
}

/* The next line, NCCL's or not; false at the end. */
static bool line_next(const char **pos, const char *end, struct log_line *l)
{
    const char *nl;
    size_t len, take_bytes;

    if (*pos >= end)
        return false;
    nl = memchr(*pos, '\n', (size_t)(end - *pos));
    len = nl ? (size_t)(nl - *pos) : (size_t)(end - *pos);
    take_bytes = len < sizeof(l->text) - 1 ? len : sizeof(l->text) - 1;
    memcpy(l->text, *pos, take_bytes);
    for (size_t i = 0; i < take_bytes; i++)
        if (!l->text[i])
            l->text[i] = '?';
    l->text[take_bytes] = '\0';
    l->text[strcspn(l->text, "\r")] = '\0';
    str_make_text(l->text);
    l->number++;
    *pos += len + (nl != NULL);
    return true;
}

/* ---- what a line says ---- */

/* "[0]mlx5_0:1/IB [1]={[0] mlx5_1:1/RoCE, [1] mlx5_2:1/RoCE} [RO]; OOB …": every device
 * has the number of its place, which the fused ones share. */
static void says_ib(struct log_facts *f, const char *p, size_t line)
{
    int64_t place = -1, ignored;
    bool group = false;

    f->ib_told = true;
    f->ib_line = f->ib_line ? f->ib_line : line;
    while (*p && *p != ';') {
        struct log_dev d = { .line = line };

        if (*p == '}')
            group = false;
        if (*p++ != '[' || !take_number(&p, 10, &ignored) || !take_text(&p, "]"))
            continue;
        if (take_text(&p, "={")) {
            group = true;
            place++;
            continue;
        }
        skip_spaces(&p);
        d.name = take_until(f->a, &p, ":; ");
        if (!d.name || !take_text(&p, ":") || !take_number(&p, 10, &d.port))
            continue;
        p += strcspn(p, "/ ;"); /* rail and plane */
        if (take_text(&p, "/"))
            d.layer = take_until(f->a, &p, " ,};/");
        d.index = group ? place : ++place;
        if (f->ib_count == NCCL_LOG_DEVS_MAX)
            return;
        for (size_t i = 0; i < f->ib_count; i++)
            if (str_eq(f->ib[i].name, d.name) && f->ib[i].port == d.port)
                d.name = NULL; /* another process said it already */
        if (d.name)
            f->ib[f->ib_count++] = d;
    }
}

/* "eth0:10.0.0.1<0>"; false for anything else. */
static bool take_address(struct log_facts *f, const char **p, struct log_dev *out)
{
    int64_t ignored;

    skip_spaces(p);
    if (**p == '[') {
        ++*p;
        if (!take_number(p, 10, &ignored) || !take_text(p, "]"))
            return false;
    }
    out->name = take_until(f->a, p, ": <");
    if (!out->name || !take_text(p, ":"))
        return false;
    out->addr = take_until(f->a, p, "%< ");
    *p += strcspn(*p, "< ");
    if (!out->addr || !take_text(p, "<"))
        return false;
    *p += strcspn(*p, " ");
    return true;
}

static void says_sockets(struct log_facts *f, const char *p, size_t line)
{
    struct log_dev d = { .line = line };

    for (int64_t i = 0; take_address(f, &p, &d) && f->sockets_count < NCCL_LOG_DEVS_MAX; i++) {
        bool seen = false;

        for (size_t k = 0; k < f->sockets_count; k++)
            seen = seen || str_eq(f->sockets[k].name, d.name);
        d.index = i;
        if (!seen)
            f->sockets[f->sockets_count++] = d;
    }
}

static void says_bootstrap(struct log_facts *f, const char *p, size_t line)
{
    struct log_dev d = { 0 };

    if (!take_address(f, &p, &d))
        return;
    answer_add(f, &f->bootstrap, d.name, line);
    answer_add(f, &f->bootstrap_addr, d.addr, line);
}

static const char *bdf_text(struct log_facts *f, int64_t id)
{
    return arena_printf(f->a, "%04llx:%02llx:%02llx.%llx",
                        (unsigned long long)id >> 20 & 0xffffffff,
                        (unsigned long long)id >> 12 & 0xff, (unsigned long long)id >> 4 & 0xff,
                        (unsigned long long)id & 0xf);
}

/* "… rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 6000 commId …" */
static void says_rank(struct log_facts *f, const char *says, const struct log_line *l)
{
    struct log_rank r = { .pid = l->pid };
    const char *p = strstr(says, " rank ");
    int64_t bus;

    if (!p || f->ranks_count == NCCL_LOG_RANKS_MAX)
        return;
    p += 6;
    if (!take_number(&p, 10, &r.rank) || !(p = strstr(p, " nvmlDev ")))
        return;
    p += 9;
    if (!take_number(&p, 10, &r.nvml) || !take_text(&p, " busId ") || !take_number(&p, 16, &bus))
        return;
    for (size_t i = 0; i < f->ranks_count; i++)
        if (f->ranks[i].pid == r.pid && f->ranks[i].rank == r.rank && f->ranks[i].nvml == r.nvml)
            return;
    r.bdf = bdf_text(f, bus);
    f->ranks[f->ranks_count++] = r;
}

static bool same_pair(const struct log_pair *a, const struct log_pair *b)
{
    return a->via == b->via && a->from == b->from && a->to == b->to && a->dev == b->dev &&
           a->gdr == b->gdr && a->pxn == b->pxn && str_eq(a->detail, b->detail);
}

static void add_pair(struct log_facts *f, const struct log_pair *p)
{
    for (size_t i = 0; i < f->pairs_count; i++)
        if (same_pair(&f->pairs[i], p))
            return;
    if (f->pairs_count < NCCL_LOG_PAIRS_MAX)
        f->pairs[f->pairs_count++] = *p;
}

/* "IB/0(3)/GDRDMA/Shared", after "via NET/". */
static bool take_net(struct log_facts *f, const char *p, struct log_pair *out)
{
    out->detail = take_until(f->a, &p, "/");
    if (!out->detail || !take_text(&p, "/") || !take_number(&p, 10, &out->dev))
        return false;
    out->pxn = *p == '(' && isdigit((unsigned char)p[1]);
    out->gdr = strstr(p, "/GDRDMA") != NULL;
    return true;
}

/* "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA", and "Channel 00/24 : 0 1 2 …",
 * which is a ring: its second number is how many there are. */
static void says_channel(struct log_facts *f, const char *p, size_t line)
{
    struct log_pair c = { .line = line, .dev = -1 };
    int64_t channel, second = -1, rank, a, b;
    bool receive;

    if (!take_number(&p, 10, &channel))
        return;
    if (take_text(&p, "/") && !take_number(&p, 10, &second))
        return;
    skip_spaces(&p);
    if (!take_text(&p, ":"))
        return;
    skip_spaces(&p);
    if (!take_number(&p, 10, &rank))
        return;
    if (*p != '[') {
        if (second > 0)
            answer_add(f, &f->channels, arena_printf(f->a, "%lld", (long long)second), line);
        return;
    }
    ++p;
    if (!take_number(&p, 10, &a) || !take_text(&p, "] -> ") || !take_number(&p, 10, &rank) ||
        !take_text(&p, "[") || !take_number(&p, 10, &b) || !take_text(&p, "]"))
        return;
    receive = take_text(&p, " [receive]");
    if (!receive)
        (void)take_text(&p, " [send]");
    if (!take_text(&p, " via "))
        return;
    c.from = receive ? b : a;
    c.to = receive ? a : b;
    if (take_text(&p, "P2P/"))
        c.detail = take_until(f->a, &p, " ");
    else if (take_text(&p, "SHM/")) {
        c.via = LOG_SHM;
        c.detail = take_until(f->a, &p, " ");
    } else if (take_text(&p, "NET/")) {
        c.via = LOG_NET;
        if (!take_net(f, p, &c))
            return;
    } else
        return;
    add_pair(f, &c);
}

/* The GPU of a rank, or, before NCCL 2.23, of a bus id. */
static int64_t gpu_of(struct log_facts *f, const struct log_line *l, const char *word)
{
    int64_t number = -1;
    int at = -1;

    if (str_to_i64(word, 10, &number))
        for (size_t i = 0; i < f->ranks_count && at < 0; i++)
            if (f->ranks[i].rank == number && f->ranks[i].pid == l->pid)
                at = against_gpu_at(f->hw, f->ranks[i].bdf);
    if (at < 0 && str_to_i64(word, 16, &number) && number > 0xfff)
        at = against_gpu_at(f->hw, bdf_text(f, number));
    return at;
}

/* " 0 / HCA 1 (distance 4 <= 5), read 1", and from 2.29 on
 * "/0-1b000 (rank 0) - NET/0-1 ( using PXN via GPU/0-43000, distance 4 <= 5, read 1 …" */
static bool take_reach(struct log_facts *f, const char **p, const struct log_line *l,
                       struct log_reach *out)
{
    const char *word;
    int64_t id;

    if (take_text(p, "/")) {
        if (!(*p = strstr(*p, " (rank ")) || !take_text(p, " (rank ") ||
            !(word = take_until(f->a, p, ")")) || !take_text(p, ") - NET/") ||
            !take_number(p, 10, &id) || !take_text(p, "-") || !take_number(p, 10, &out->dev))
            return false;
        out->gpu = gpu_of(f, l, word);
        out->pxn = strstr(*p, "using PXN via") != NULL;
        return true;
    }
    if (!take_text(p, " ") || !(word = take_until(f->a, p, " ")) || !take_text(p, " / HCA ") ||
        !take_number(p, 16, &id))
        return false;
    out->gpu = gpu_of(f, l, word);
    out->dev = id & 0xffffffff; /* the upper half is the host's number in an NVLink domain */
    return true;
}

static void says_reach(struct log_facts *f, const char *p, bool on, const struct log_line *l)
{
    struct log_reach r = { .on = on, .line = l->number, .distance = -1 };
    const char *distance;

    if (!take_reach(f, &p, l, &r))
        return;
    distance = strstr(p, "distance ");
    if (distance && take_text(&distance, "distance "))
        (void)take_number(&distance, 10, &r.distance);
    for (size_t i = 0; i < f->reach_count; i++)
        if (f->reach[i].gpu == r.gpu && f->reach[i].dev == r.dev && f->reach[i].on == r.on)
            return;
    if (r.gpu >= 0 && f->reach_count < NCCL_LOG_PAIRS_MAX)
        f->reach[f->reach_count++] = r;
}

/* "Enabled for HCA 0 'mlx5_0'", after "NET/X : GPU Direct RDMA " */
static void says_gdr(struct log_facts *f, const char *p, size_t line)
{
    struct log_dev d = { .line = line, .port = str_starts(p, "Enabled") };

    p = strchr(p, '\'');
    if (!p)
        return;
    p++;
    d.name = take_until(f->a, &p, "'");
    for (size_t i = 0; i < f->gdr_count; i++)
        if (str_eq(f->gdr[i].name, d.name))
            return;
    if (d.name && f->gdr_count < NCCL_LOG_DEVS_MAX)
        f->gdr[f->gdr_count++] = d;
}

/* "[4] name=mlx5_0+mlx5_1 speed=…" */
static void says_merged(struct log_facts *f, const char *p, size_t line)
{
    struct log_dev d = { .line = line };

    if (!take_text(&p, "[") || !take_number(&p, 10, &d.index) || !take_text(&p, "] name="))
        return;
    d.name = take_until(f->a, &p, " ");
    for (size_t i = 0; i < f->merged_count; i++)
        if (f->merged[i].index == d.index)
            return;
    if (d.name && f->merged_count < NCCL_LOG_DEVS_MAX)
        f->merged[f->merged_count++] = d;
}

/* "NCCL_IB_DISABLE set by environment to 1." and "NCCL_IB_HCA set to mlx5_0" */
static bool says_variable(struct log_facts *f, const char *p)
{
    static const char *const forms[] = { " set by environment to ", " set to " };
    const char *name = take_until(f->a, &p, " ");
    bool number = true;
    char *value;

    if (!name || !str_starts(name, "NCCL_") ||
        (!take_text(&p, forms[0]) && !take_text(&p, forms[1])))
        return false;
    value = arena_strdup(f->a, p);
    for (char *q = value; *q; q++)
        number = number &&
                 (isdigit((unsigned char)*q) || (q == value && *q == '-') || (*q == '.' && !q[1]));
    if (number)
        value[strcspn(value, ".")] = '\0'; /* numbers are said with a full stop */
    for (size_t i = 0; i < f->vars_count; i++)
        if (str_eq(f->vars[i].name, name))
            return true;
    if (f->vars_count < NCCL_LOG_VARS_MAX)
        f->vars[f->vars_count++] = (struct log_var){ .name = name, .value = value };
    return true;
}

static bool take_any(const char **p, const char *const *forms, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (take_text(p, forms[i]))
            return true;
    return false;
}
#define TAKE_ANY(p, ...)                                                                           \
    take_any(p, (const char *const[]){ __VA_ARGS__ },                                              \
             sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

static void says_net(struct log_facts *f, const char *p, size_t line)
{
    const char *q;

    if (TAKE_ANY(&p, "NET/IB : Using", "NET/IB: Using", "NET/IBext : Using"))
        says_ib(f, p, line);
    else if (TAKE_ANY(&p, "NET/IB : No device found", "NET/IB: No device found")) {
        f->ib_line = f->ib_line ? f->ib_line : line;
        f->ib_told = true;
    } else if (TAKE_ANY(&p, "NET/Socket : Using", "NET/Socket: Using"))
        says_sockets(f, p, line);
    else if (TAKE_ANY(&p, "NET/IB : Made virtual device ", "NET/IB: Made virtual device "))
        says_merged(f, p, line);
    else if (TAKE_ANY(&p, "NET/Plugin: Loaded net plugin ", "NET/Plugin : Loaded net plugin "))
        answer_add(f, &f->plugin, take_until(f->a, &p, "("), line);
    else if ((q = strstr(p, ": GPU Direct RDMA ")))
        says_gdr(f, q + strlen(": GPU Direct RDMA "), line);
}

static void says_mnnvl(struct log_facts *f, const char *p, size_t line)
{
    int64_t on;

    if (take_number(&p, 10, &on) && take_text(&p, " cliqueId "))
        answer_add(f, &f->mnnvl, on ? "on" : "off", line);
}

static void line_says(struct log_facts *f, const struct log_line *l)
{
    const char *p = l->says;
    size_t line = l->number;

    f->lines++;
    if (str_starts(p, "NET/"))
        says_net(f, p, line);
    else if (TAKE_ANY(&p, "Bootstrap : Using", "Bootstrap: Using"))
        says_bootstrap(f, p, line);
    else if (take_text(&p, "Using network "))
        answer_add(f, &f->network, take_until(f->a, &p, ""), line);
    else if (take_text(&p, "Channel "))
        says_channel(f, p, line);
    else if (take_text(&p, "GPU Direct RDMA Enabled for GPU"))
        says_reach(f, p, true, l);
    else if (take_text(&p, "GPU Direct RDMA Disabled for GPU"))
        says_reach(f, p, false, l);
    else if (take_text(&p, "NCCL version "))
        answer_add(f, &f->version, take_until(f->a, &p, "+ "), line);
    else if (take_text(&p, "MNNVL "))
        says_mnnvl(f, p, line);
    else if (str_starts(p, "NCCL_"))
        (void)says_variable(f, p);
    else if (strstr(p, " - Init "))
        says_rank(f, p, l);
}

/* ---- which host ---- */

static bool same_host(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");

    return len && len == strcspn(b, ".") && !strncmp(a, b, len); /* NCCL cuts at the dot */
}

struct log_hosts {
    const char *names[NCCL_LOG_HOSTS_MAX];
    size_t count;
    bool more;
};

static void find_hosts(struct arena *a, const char *text, size_t len, struct log_hosts *out)
{
    const char *pos = text;
    struct log_line *l = xcalloc(1, sizeof(*l));

    while (line_next(&pos, text + len, l)) {
        bool seen = false;

        if (!line_split(l))
            continue;
        for (size_t i = 0; i < out->count && !seen; i++)
            seen = str_eq(out->names[i], l->host);
        if (!seen && out->count == NCCL_LOG_HOSTS_MAX)
            out->more = true;
        else if (!seen)
            out->names[out->count++] = arena_strdup(a, l->host);
    }
    free(l);
}

static enum rc choose_host(const struct log_hosts *h, const struct hw *hw, const char *host,
                           const char **out, struct err *err)
{
    const char *want = host ? host : hw->place.hostname;

    if (!h->count) {
        err_hint(err, "Run the job with NCCL_DEBUG=INFO and give its output.");
        return err_set(err, RC_PARSE, "no line of NCCL's is in it");
    }
    for (size_t i = 0; want && i < h->count; i++)
        if (same_host(h->names[i], want)) {
            *out = h->names[i];
            return RC_OK;
        }
    if (!host && h->count == 1) {
        *out = h->names[0];
        return RC_OK;
    }
    err_hint(err, host ? "Its lines are of '%s'%s." : "Name one with --host, for example '%s'%s.",
             h->names[0], h->count > 1 ? " and others" : "");
    return host ? err_set(err, RC_USAGE, "the log has no line of host '%s'", host)
                : err_set(err, RC_USAGE, "the log has lines of %zu%s hosts, and none is '%s'",
                          h->count, h->more ? " and more" : "", want ? want : "this one");
}

static void facts_room(struct log_facts *f)
{
    f->ib = arena_array(f->a, struct log_dev, NCCL_LOG_DEVS_MAX);
    f->sockets = arena_array(f->a, struct log_dev, NCCL_LOG_DEVS_MAX);
    f->merged = arena_array(f->a, struct log_dev, NCCL_LOG_DEVS_MAX);
    f->gdr = arena_array(f->a, struct log_dev, NCCL_LOG_DEVS_MAX);
    f->ranks = arena_array(f->a, struct log_rank, NCCL_LOG_RANKS_MAX);
    f->pairs = arena_array(f->a, struct log_pair, NCCL_LOG_PAIRS_MAX);
    f->reach = arena_array(f->a, struct log_reach, NCCL_LOG_PAIRS_MAX);
    f->vars = arena_array(f->a, struct log_var, NCCL_LOG_VARS_MAX);
}

enum rc nccl_log_read(struct arena *a, const struct hw *hw, const char *host, const char *text,
                      size_t len, struct log_facts *out, struct err *err)
{
    struct log_facts f = { .a = a, .hw = hw };
    struct log_hosts hosts = { 0 };
    struct log_line *l;
    const char *pos = text;
    enum rc rc;

    find_hosts(a, text, len, &hosts);
    rc = choose_host(&hosts, hw, host, &f.host, err);
    if (rc)
        return rc;
    facts_room(&f);
    l = xcalloc(1, sizeof(*l));
    while (line_next(&pos, text + len, l)) {
        const char *p;

        if (line_split(l)) {
            if (str_eq(l->host, f.host))
                line_says(&f, l);
        } else {
            p = version_said(l->text);
            if (p)
                answer_add(&f, &f.version, take_until(a, &p, "+ "), l->number);
        }
    }
    free(l);
    *out = f;
    return RC_OK;
}
