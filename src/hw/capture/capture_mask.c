/* SPDX-License-Identifier: MIT */
/* capture_mask: finds in a captured file what identifies the machine.
 *
 * Most values are recognised by their shape wherever they stand (MAC addresses,
 * GUIDs, UUIDs, IPv6).  A dotted quad may also be a version ("8.9.2.26" is a cuDNN),
 * a host name may be any word: those are learned where they can be nothing else, and
 * then replaced wherever they stand as a whole token. */
#include "hw/capture/capture_mask.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "hw/capture/capture_mask_int.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>

enum {
    TOKEN_MAX = 64, /* bytes in an address as text */
    SERIAL_MIN = 6, /* shorter ones could be any number */
    NAME_MIN = 3,   /* a host name of two letters could be any word */
    PCI_CONFIG_MAX = 4096,
    PCI_EXT_START = 0x100,
    PCI_EXT_SERIAL = 3, /* capability: device serial number */
    PCI_EXT_CAPS_MAX = 960
};

struct mask {
    struct mask_addrs addrs;
    struct mask_ids uuids, serials, names;
    struct mask_ids words; /* components of all paths: no name to be masked */
    bool learning;
    bool quads; /* learning: dotted quads here are addresses */
};

struct mask *mask_new(void)
{
    struct mask *m = xcalloc(1, sizeof(*m));

    m->learning = true;
    return m;
}

void mask_free(struct mask *m)
{
    if (!m)
        return;
    mask_addrs_release(&m->addrs);
    mask_ids_release(&m->uuids);
    mask_ids_release(&m->serials);
    mask_ids_release(&m->names);
    mask_ids_release(&m->words);
    free(m);
}

/* ---- characters ---- */
static bool is_word(int c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_hex(int c)
{
    return isxdigit((unsigned char)c) != 0;
}

/* Text with a position: a token starts at p[at]. */
struct mask_text {
    const char *p;
    size_t len, at;
};

static int byte_at(const struct mask_text *t, size_t i)
{
    return t->at + i < t->len ? (unsigned char)t->p[t->at + i] : 0;
}

static int byte_before(const struct mask_text *t)
{
    return t->at > 0 ? (unsigned char)t->p[t->at - 1] : 0;
}

/* Is the ':' before us the end of a word such as "inet6:", not part of an address? */
static bool colon_ends_word(const struct mask_text *t)
{
    size_t i = t->at - 1;
    bool letter = false;

    while (i > 0 && is_word(t->p[i - 1])) {
        letter = letter || !is_hex(t->p[i - 1]);
        i--;
    }
    return letter;
}

static bool starts_hex_run(const struct mask_text *t)
{
    int c = byte_before(t);

    if (c == ':')
        return colon_ends_word(t);
    return !is_word(c) && c != '.' && (is_hex(byte_at(t, 0)) || byte_at(t, 0) == ':');
}

/* ---- tokens: each gives the length it takes, 0 when it is none; with `out` NULL it
 * learns, else it appends what stands for it ---- */
static unsigned hex_digit(int c)
{
    return (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
}

/* Hex digits in groups of `digits` with ':' between; gives the bytes. */
static size_t hex_groups(const struct mask_text *t, size_t digits, uint8_t *bytes, size_t cap)
{
    size_t n = 0, i = 0;

    for (;;) {
        for (size_t k = 0; k < digits; k++)
            if (!is_hex(byte_at(t, i + k)))
                return 0;
        for (size_t k = 0; k < digits; k += 2) {
            if (n == cap)
                return 0;
            bytes[n++] =
                (uint8_t)(hex_digit(byte_at(t, i + k)) << 4 | hex_digit(byte_at(t, i + k + 1)));
        }
        i += digits;
        if (byte_at(t, i) != ':' || !is_hex(byte_at(t, i + 1)))
            break;
        i++;
    }
    return is_word(byte_at(t, i)) || byte_at(t, i) == ':' ? 0 : n;
}

static void put_groups(struct buf *out, size_t digits, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_addf(out, "%s%02x", i && i * 2 % digits == 0 ? ":" : "", bytes[i]);
}

/* 6 pairs are a MAC address, 8 an EUI-64, 20 an IPoIB address with a GUID at its end. */
static size_t token_pairs(struct mask *m, const struct mask_text *t, struct buf *out)
{
    uint8_t bytes[20];
    size_t n = hex_groups(t, 2, bytes, sizeof(bytes));
    bool mapped;

    if (n != 6 && n != 8 && n != 20)
        return 0;
    if (!out) {
        if (n == 6)
            mask_addrs_learn_mac(&m->addrs, bytes);
        else
            mask_addrs_learn_guid(&m->addrs, bytes + n - 8);
        return n * 3 - 1;
    }
    mapped = n == 6 ? mask_addrs_map_mac(&m->addrs, bytes)
                    : mask_addrs_map_guid(&m->addrs, bytes + n - 8);
    if (mapped)
        put_groups(out, 2, bytes, n);
    else
        buf_add(out, t->p + t->at, n * 3 - 1);
    return n * 3 - 1;
}

/* "b83f:d203:00a1:b2c4" */
static size_t token_guid(struct mask *m, const struct mask_text *t, struct buf *out)
{
    uint8_t bytes[8];

    if (hex_groups(t, 4, bytes, sizeof(bytes)) != 8)
        return 0;
    if (!out)
        mask_addrs_learn_guid(&m->addrs, bytes);
    else if (mask_addrs_map_guid(&m->addrs, bytes))
        put_groups(out, 4, bytes, 8);
    else
        buf_add(out, t->p + t->at, 19);
    return 19;
}

/* The run of address characters from here, in a buffer of its own. */
static size_t run_of(const struct mask_text *t, const char *extra, char copy[TOKEN_MAX])
{
    size_t n = 0;

    while (n + 1 < TOKEN_MAX && byte_at(t, n) &&
           (is_hex(byte_at(t, n)) || strchr(extra, byte_at(t, n)))) {
        copy[n] = (char)byte_at(t, n);
        n++;
    }
    copy[n] = '\0';
    return n + 1 < TOKEN_MAX ? n : 0;
}

static size_t token_v6(struct mask *m, const struct mask_text *t, struct buf *out)
{
    char run[TOKEN_MAX], shown[INET6_ADDRSTRLEN];
    uint8_t addr[16], full[16];
    size_t n = run_of(t, ":.", run);

    if (n < 3 || is_word(byte_at(t, n)))
        return 0;
    while (n > 2 && (run[n - 1] == '.' || (run[n - 1] == ':' && run[n - 2] != ':')))
        run[--n] = '\0';
    if (inet_pton(AF_INET6, run, addr) != 1)
        return 0;
    if (!out) {
        mask_addrs_learn6(&m->addrs, addr);
        return n;
    }
    if (!mask_addrs_map6(&m->addrs, addr))
        buf_add(out, t->p + t->at, n);
    else if (hex_groups(t, 4, full, sizeof(full)) == 16) /* sysfs writes all eight groups */
        put_groups(out, 4, addr, 16);
    else
        buf_adds(out, inet_ntop(AF_INET6, addr, shown, sizeof(shown)));
    return n;
}

static size_t token_v4(struct mask *m, const struct mask_text *t, struct buf *out)
{
    char shown[INET_ADDRSTRLEN];
    char run[TOKEN_MAX];
    uint8_t addr[4];
    size_t n = 0;

    if (!isdigit(byte_at(t, 0)) || is_word(byte_before(t)) || byte_before(t) == '.')
        return 0;
    while (n + 1 < TOKEN_MAX && (isdigit(byte_at(t, n)) || byte_at(t, n) == '.')) {
        run[n] = (char)byte_at(t, n);
        n++;
    }
    run[n] = '\0';
    if (n > 0 && run[n - 1] == '.')
        run[--n] = '\0';
    if (is_word(byte_at(t, n)) || inet_pton(AF_INET, run, addr) != 1)
        return 0;
    if (!out) {
        if (m->quads)
            mask_addrs_learn4(&m->addrs, addr);
        return n;
    }
    if (mask_addrs_map4(&m->addrs, addr))
        buf_adds(out, inet_ntop(AF_INET, addr, shown, sizeof(shown)));
    else
        buf_add(out, run, n);
    return n;
}

/* ---- UUIDs: "0000002a-0000-4000-8000-000000000000" is the 42nd ---- */
enum { UUID_LEN = 36, UUID_HEAD = 8 };

static bool is_uuid(const struct mask_text *t)
{
    for (size_t i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? byte_at(t, i) != '-' : !is_hex(byte_at(t, i)))
            return false;
    }
    return !is_word(byte_at(t, UUID_LEN)) && byte_at(t, UUID_LEN) != '-';
}

/* CUDA_VISIBLE_DEVICES may hold the first digits of a UUID only: "GPU-bb51d70a". */
static size_t token_uuid_head(struct mask *m, const struct mask_text *t, struct buf *out)
{
    size_t n = 0;

    if (t->at < 4 || memcmp(t->p + t->at - 4, "GPU-", 4) || !out)
        return 0;
    while (is_hex(byte_at(t, n)) && n <= UUID_HEAD)
        n++;
    if (n != UUID_HEAD || is_word(byte_at(t, n)) || byte_at(t, n) == '-')
        return 0;
    for (size_t i = 0; i < m->uuids.count; i++)
        if (!strncasecmp(m->uuids.items[i].key, t->p + t->at, UUID_HEAD)) {
            buf_addf(out, "%08zx", i + 1);
            return n;
        }
    buf_adds(out, "ffffffff"); /* of no GPU here, but of somebody's */
    return n;
}

static size_t token_uuid(struct mask *m, const struct mask_text *t, struct buf *out)
{
    char low[UUID_LEN];
    uint32_t n;

    if (is_word(byte_before(t)) || !is_hex(byte_at(t, 0)))
        return 0;
    if (!is_uuid(t))
        return token_uuid_head(m, t, out);
    for (size_t i = 0; i < UUID_LEN; i++)
        low[i] = (char)tolower(byte_at(t, i));
    if (!memcmp(low, "00000000-0000-0000-0000-000000000000", UUID_LEN))
        n = 0;
    else
        n = out ? mask_ids_find(&m->uuids, low, UUID_LEN) : mask_ids_add(&m->uuids, low, UUID_LEN);
    if (out && n)
        buf_addf(out, "%08" PRIx32 "-0000-4000-8000-000000000000", n);
    else if (out)
        buf_add(out, low, UUID_LEN);
    return UUID_LEN;
}

/* ---- names and serial numbers: learned, then replaced as whole tokens ---- */
static bool is_name_char(int c)
{
    return is_word(c) || c == '-';
}

static bool name_is_free(const struct mask *m, const char *name, size_t len)
{
    if (len < NAME_MIN || len >= MASK_NAME_MAX || mask_ids_find(&m->words, name, len))
        return false;
    if (len == strlen("localhost") && !memcmp(name, "localhost", len))
        return false;
    return strspn(name, "0123456789.") < len; /* a number or an address is no name */
}

/* "node7.cluster" is two names of one host: "node7" by itself stands in many places. */
static void learn_name(struct mask *m, const char *name, size_t len)
{
    const char *dot = memchr(name, '.', len);
    uint32_t whole, first;

    if (len == 0 || len >= MASK_NAME_MAX || memchr(name, ':', len) ||
        strspn(name, "0123456789.") >= len)
        return;
    first = mask_ids_add(&m->names, name, dot ? (size_t)(dot - name) : len);
    if (!dot || !first)
        return;
    whole = mask_ids_add(&m->names, name, len);
    if (whole)
        m->names.items[whole - 1].alias = first;
}

/* "a,b[1-2,4]": commas between brackets are Slurm's. */
static void learn_names(struct mask *m, const char *list)
{
    size_t start = 0, i = 0;
    int depth = 0;

    for (;; i++) {
        depth += list[i] == '[' ? 1 : list[i] == ']' ? -1 : 0;
        if (list[i] && (list[i] != ',' || depth > 0))
            continue;
        learn_name(m, list + start, i - start);
        if (!list[i])
            return;
        start = i + 1;
    }
}

/* The servers of a mount's source: "filer:/home", "mon1,mon2:6789:/", "mgs1@o2ib:mgs2@o2ib:/fs",
 * "me@host:/dir", "//server/share". */
static void learn_source(struct mask *m, const char *source, size_t len, bool lustre)
{
    const char *end = memmem(source, len, ":/", 2), *p = source;

    if (len > 2 && !memcmp(source, "//", 2)) {
        p = source + 2;
        end = memchr(p, '/', len - 2);
    }
    for (size_t n; end && p < end; p += n + 1) {
        const char *at_sign;

        n = 0;
        if (*p == '[') { /* an address */
            const char *close = memchr(p, ']', (size_t)(end - p));
            n = close ? (size_t)(close - p) : (size_t)(end - p);
            continue;
        }
        while (p + n < end && p[n] != ',' && p[n] != ':')
            n++;
        at_sign = memchr(p, '@', n);
        if (at_sign && lustre)
            learn_name(m, p, (size_t)(at_sign - p));
        else if (at_sign)
            learn_name(m, at_sign + 1, (size_t)(p + n - at_sign - 1));
        else
            learn_name(m, p, n);
    }
}

/* "… - nfs4 filer:/home rw,…" */
static void learn_mounts(struct mask *m, const char *data, size_t len)
{
    const char *end = data + len;

    for (const char *p = data; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *type, *source, *rest;

        stop = stop ? stop : end;
        type = memmem(p, (size_t)(stop - p), " - ", 3);
        type = type ? type + 3 : stop;
        source = memchr(type, ' ', (size_t)(stop - type));
        source = source ? source + 1 : stop;
        rest = memchr(source, ' ', (size_t)(stop - source));
        if (rest)
            learn_source(m, source, (size_t)(rest - source), !strncmp(type, "lustre ", 7));
        p = stop + (stop < end);
    }
}

static void learn_serial(struct mask *m, const char *s)
{
    size_t len = strlen(s);

    /* "Not Specified" and "0000000" are no serial numbers */
    if (len >= SERIAL_MIN && len < MASK_NAME_MAX && strspn(s, "0") < len &&
        strpbrk(s, "0123456789"))
        (void)mask_ids_add(&m->serials, s, len);
}

/* A member's name in JSON is not the machine's. */
static bool is_json_key(const struct mask_text *t, size_t len)
{
    size_t i = len + 1;

    if (byte_before(t) != '"' || byte_at(t, len) != '"')
        return false;
    while (byte_at(t, i) == ' ')
        i++;
    return byte_at(t, i) == ':';
}

/* The longest learned value that starts here and ends with its token. */
static uint32_t find_learned(const struct mask_ids *ids, const struct mask_text *t, size_t *out_len)
{
    uint32_t best = 0;

    *out_len = 0;
    for (size_t i = 0; i < ids->count; i++) {
        const struct mask_id *id = &ids->items[i];
        if (id->len <= *out_len || id->len > t->len - t->at ||
            memcmp(id->key, t->p + t->at, id->len) || is_name_char(byte_at(t, id->len)))
            continue;
        best = (uint32_t)i + 1;
        *out_len = id->len;
    }
    return best;
}

static void put_name(const struct mask *m, uint32_t n, struct buf *out)
{
    const struct mask_id *id = &m->names.items[n - 1];
    const char *bracket = strchr(id->key, '['); /* Slurm's "node[01-04]" keeps its count */

    buf_addf(out, "host-%" PRIu32, id->alias);
    if (id->alias != n)
        buf_adds(out, ".example");
    else if (bracket)
        buf_adds(out, bracket);
}

static size_t token_learned(struct mask *m, const struct mask_text *t, struct buf *out)
{
    uint32_t n;
    size_t len;

    if (!out || is_name_char(byte_before(t)))
        return 0;
    n = find_learned(&m->serials, t, &len);
    if (n) {
        buf_addf(out, "%0*" PRIu32, (int)len, n);
        return len;
    }
    n = find_learned(&m->names, t, &len);
    if (!n || is_json_key(t, len) || !name_is_free(m, m->names.items[n - 1].key, len))
        return 0;
    put_name(m, n, out);
    return len;
}

/* ---- one pass over a text ---- */
static size_t mask_token(struct mask *m, const struct mask_text *t, struct buf *out)
{
    size_t n = 0;

    if (starts_hex_run(t)) {
        n = token_pairs(m, t, out);
        n = n ? n : token_guid(m, t, out);
        n = n ? n : token_v6(m, t, out);
    }
    n = n ? n : token_uuid(m, t, out);
    n = n ? n : token_v4(m, t, out);
    return n ? n : token_learned(m, t, out);
}

static void mask_scan(struct mask *m, const char *p, size_t len, struct buf *out)
{
    struct mask_text t = { .p = p, .len = len };

    while (t.at < len) {
        size_t n = mask_token(m, &t, out);
        if (n == 0 && out)
            buf_addc(out, p[t.at]);
        t.at += n ? n : 1;
    }
}

/* ---- tables of hex addresses: /proc/net/route and its like ---- */
static const struct {
    const char *suffix;
    unsigned fields; /* bit n: field n is an address */
    size_t bytes;
} hex_files[] = {
    { "/net/route", 1u << 1 | 1u << 2, 4 },
    { "/net/ipv6_route", 1u << 0 | 1u << 2 | 1u << 4, 16 },
    { "/net/if_inet6", 1u << 0, 16 },
};

static bool parse_hex(const char *p, size_t len, uint8_t *out, size_t bytes)
{
    if (len != bytes * 2)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_hex(p[i]))
            return false;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(hex_digit((unsigned char)p[2 * i]) << 4 |
                           hex_digit((unsigned char)p[2 * i + 1]));
    return true;
}

/* IPv4 stands there as a number of the machine: least byte first. */
static void ipv4_swap(uint8_t a[4])
{
    uint8_t x = a[0], y = a[1];

    a[0] = a[3];
    a[1] = a[2];
    a[2] = y;
    a[3] = x;
}

static void hex_field(struct mask *m, const char *p, size_t len, size_t bytes, struct buf *out)
{
    uint8_t addr[16];

    if (!parse_hex(p, len, addr, bytes)) {
        if (out)
            buf_add(out, p, len);
        return;
    }
    if (bytes == 4)
        ipv4_swap(addr);
    if (!out && bytes == 4)
        mask_addrs_learn4(&m->addrs, addr);
    else if (!out)
        mask_addrs_learn6(&m->addrs, addr);
    else if (bytes == 4)
        (void)mask_addrs_map4(&m->addrs, addr);
    else
        (void)mask_addrs_map6(&m->addrs, addr);
    if (bytes == 4)
        ipv4_swap(addr);
    for (size_t i = 0; out && i < bytes; i++)
        buf_addf(out, bytes == 4 ? "%02X" : "%02x", addr[i]);
}

static void scan_hex(struct mask *m, size_t kind, const char *p, size_t len, struct buf *out)
{
    unsigned field = 0;

    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && !isspace((unsigned char)p[i + n]))
            n++;
        if (n > 0 && field < 32 && hex_files[kind].fields >> field & 1)
            hex_field(m, p + i, n, hex_files[kind].bytes, out);
        else if (n > 0 && out)
            buf_add(out, p + i, n);
        i += n;
        if (i == len)
            break;
        if (n > 0)
            field++;
        if (p[i] == '\n')
            field = 0;
        if (out)
            buf_addc(out, p[i]);
        i++;
    }
}

/* ---- binary: PCI configuration space may hold the card's serial number ---- */
static void mask_config(char *data, size_t len)
{
    size_t at_byte = PCI_EXT_START;

    if (len > PCI_CONFIG_MAX)
        return;
    for (int i = 0; i < PCI_EXT_CAPS_MAX && at_byte >= PCI_EXT_START && at_byte + 12 <= len; i++) {
        const uint8_t *c = (const uint8_t *)data + at_byte;
        if ((c[0] | c[1] << 8) == PCI_EXT_SERIAL)
            memset(data + at_byte + 4, 0, 8);
        at_byte = (size_t)(c[2] >> 4 | c[3] << 4) & ~(size_t)3;
    }
}

/* ---- files ---- */
static const char *const name_vars[] = { "HOSTNAME",           "NODE_NAME",
                                         "K8S_NODE_NAME",      "MASTER_ADDR",
                                         "SLURMD_NODENAME",    "SLURM_NODELIST",
                                         "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST",
                                         "SLURM_SUBMIT_HOST",  "SLURM_LAUNCH_NODE_IPADDR",
                                         "SLURM_TOPOLOGY_ADDR" };
static const char *const host_vars[] = { "NCCL_COMM_ID", "NCCL_HOSTID" }; /* HOST:PORT, a host */
static const char *const name_keys[] = { "hostname", "k8s_node", "slurm_nodes" };
static const char *const addr_keys[] = { "addr",   "gateway", "dst",    "value",
                                         "source", "options", "cmdline" };
static const char *const addr_files[] = { "/mountinfo", "/mounts",         "/cmdline",
                                          "/hosts",     "/resolv.conf",    "/fib_trie",
                                          "nccl.conf",  "nodes_config.cfg" };

static bool is_one_of(const char *s, const char *const *list, size_t count)
{
    for (size_t i = 0; s && i < count; i++)
        if (str_eq(s, list[i]))
            return true;
    return false;
}

/* "host", "host:port"; not "[fd00::1]:port". */
static void learn_host(struct mask *m, const char *text)
{
    learn_name(m, text, strcspn(text, ":[\r\n"));
}

/* NCCL's own settings, "NAME=VALUE" a line. */
static void learn_conf(struct mask *m, const char *data, size_t len)
{
    const char *end = data + len;

    for (const char *p = data; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        char line[MASK_NAME_MAX];
        size_t n;

        stop = stop ? stop : end;
        n = (size_t)(stop - p) < sizeof(line) ? (size_t)(stop - p) : sizeof(line) - 1;
        memcpy(line, p, n);
        line[n] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(host_vars); i++)
            if (str_starts(line, host_vars[i]) && line[strlen(host_vars[i])] == '=')
                learn_host(m, line + strlen(host_vars[i]) + 1);
        p = stop + (stop < end);
    }
}

static void learn_json_str(struct mask *m, const struct json *v, const struct json *parent)
{
    const char *var = str_eq(v->key, "value") ? json_str(json_get(parent, "name")) : NULL;

    if (str_eq(v->key, "serial"))
        learn_serial(m, v->text);
    if (is_one_of(v->key, name_keys, ARRAY_SIZE(name_keys)) ||
        is_one_of(var, name_vars, ARRAY_SIZE(name_vars)))
        learn_names(m, v->text);
    if (is_one_of(var, host_vars, ARRAY_SIZE(host_vars)))
        learn_host(m, v->text);
    if (str_eq(v->key, "source"))
        learn_source(m, v->text, v->len, str_eq(json_str(json_get(parent, "fstype")), "lustre"));
    if (!is_one_of(v->key, addr_keys, ARRAY_SIZE(addr_keys)) || (var && strstr(var, "VERSION")))
        return;
    m->quads = true;
    mask_scan(m, v->text, v->len, NULL);
    m->quads = false;
}

static void learn_json(struct mask *m, const struct json *v, const struct json *parent)
{
    if (v->type == JSON_STR)
        learn_json_str(m, v, parent);
    for (const struct json *c = v->first; c; c = c->next) /* depth: JSON_DEPTH_MAX */
        learn_json(m, c, v);
}

static void learn_path(struct mask *m, const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len)
            (void)mask_ids_add(&m->words, path, len);
        path += len + (path[len] == '/');
    }
}

/* Files that hold one value and nothing else. */
static void learn_whole(struct mask *m, const char *path, const char *data, size_t len)
{
    char line[MASK_NAME_MAX];
    size_t n = 0;

    while (n < len && n + 1 < sizeof(line) && data[n] != '\n') {
        line[n] = data[n];
        n++;
    }
    line[n] = '\0';
    if (str_ends(path, "/kernel/hostname") || str_ends(path, "/etc/hostname"))
        learn_names(m, str_trim(line));
    else if (str_ends(path, "serial") || str_ends(path, "/machine-id") ||
             str_ends(path, "/boot_id") || str_ends(path, "/wwid"))
        learn_serial(m, str_trim(line));
}

static bool hex_kind(const char *path, size_t *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(hex_files); i++)
        if (str_ends(path, hex_files[i].suffix)) {
            *out = i;
            return true;
        }
    return false;
}

static bool is_binary(const char *data, size_t len)
{
    return memchr(data, 0, len) != NULL;
}

void mask_learn(struct mask *m, const char *path, const char *data, size_t len)
{
    struct arena a = { 0 };
    struct json *doc;
    size_t kind;

    assert(m->learning);
    learn_path(m, path);
    if (len == 0 || is_binary(data, len))
        return;
    if (hex_kind(path, &kind)) {
        scan_hex(m, kind, data, len, NULL);
        return;
    }
    if (str_ends(path, ".json") && !json_parse(&a, data, len, &doc, NULL))
        learn_json(m, doc, NULL);
    arena_release(&a);
    learn_whole(m, path, data, len);
    if (str_ends(path, "/mountinfo"))
        learn_mounts(m, data, len);
    if (str_ends(path, "nccl.conf"))
        learn_conf(m, data, len);
    for (size_t i = 0; i < ARRAY_SIZE(addr_files); i++)
        m->quads = m->quads || str_ends(path, addr_files[i]);
    mask_scan(m, data, len, NULL);
    m->quads = false;
}

enum rc mask_ready(struct mask *m, struct err *err)
{
    assert(m->learning);
    m->learning = false;
    mask_addrs_ready(&m->addrs);
    if (m->addrs.over || m->uuids.over || m->serials.over || m->names.over || m->words.over) {
        err_hint(err, "Capture it with --unmasked and mask it by hand.");
        return err_set(err, RC_LIMIT, "the machine has more addresses than a mask can number");
    }
    return RC_OK;
}

/* Who mounted a share of Windows, as the kernel shows it among the options of a mount. */
static void mask_users(struct buf *io)
{
    static const char *const options[] = { ",username=", ",domain=" };
    struct buf out = { .max = io->max };
    const char *text = buf_str(io);

    for (size_t i = 0; i < io->len;) {
        size_t n = 0;

        for (size_t k = 0; !n && k < ARRAY_SIZE(options); k++)
            if (str_starts(text + i, options[k]))
                n = strlen(options[k]);
        buf_add(&out, text + i, n ? n : 1);
        i += n ? n : 1;
        if (!n)
            continue;
        buf_adds(&out, "x");
        i += strcspn(text + i, ", \t\n\"");
    }
    buf_reset(io);
    buf_add(io, buf_str(&out), out.len);
    buf_release(&out);
}

void mask_apply(struct mask *m, const char *path, struct buf *io)
{
    struct buf out = { .max = io->max };
    size_t kind;

    assert(!m->learning);
    if (io->len == 0)
        return;
    if (is_binary(io->data, io->len)) {
        if (str_ends(path, "/config"))
            mask_config(io->data, io->len);
        return;
    }
    if (hex_kind(path, &kind))
        scan_hex(m, kind, io->data, io->len, &out);
    else
        mask_scan(m, io->data, io->len, &out);
    buf_reset(io);
    buf_add(io, buf_str(&out), out.len);
    buf_release(&out);
    if (str_ends(path, "/mountinfo") || str_ends(path, "/mounts") || str_ends(path, ".json"))
        mask_users(io);
}

struct mask_counts mask_count(const struct mask *m)
{
    struct mask_counts c = {
        .macs = m->addrs.macs.count,
        .guids = m->addrs.guids.count,
        .uuids = m->uuids.count,
        .serials = m->serials.count,
        .ipv4 = m->addrs.seen4.count,
        .ipv6 = m->addrs.seen6.count,
    };

    for (size_t i = 0; i < m->names.count; i++)
        c.names += m->names.items[i].alias == i + 1 &&
                   name_is_free(m, m->names.items[i].key, m->names.items[i].len);
    return c;
}
