/* SPDX-License-Identifier: MIT */
/* cpu: processors, their caches, and NUMA nodes, from sysfs and /proc/cpuinfo.
 *
 * A machine may have hundreds of CPUs and each a folder with dozens of files, so
 * we read little: of /proc/cpuinfo the first block, one file for each core (its
 * siblings need no look of their own), one for each package, and the caches of one
 * CPU a package; the sharing lists say how many there are.  Where a capture holds
 * only some CPUs, /proc/cpuinfo's own counts stand in. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <ctype.h>

enum {
    CPUINFO_MAX = 16 << 10,  /* bytes of the first processor's block */
    PACKAGES_MAX = 256,      /* sockets */
    CACHE_INDEX_MAX = 16,    /* cache/indexN of one CPU */
    CACHES_MAX = 32,         /* kinds of cache */
    NUMA_NODES_MAX = 1024,   /* nodes */
    NUMA_DISTANCE_MAX = 255, /* ACPI writes distances in one byte */
    NODE_MEMINFO_MAX = 8192, /* bytes of a node's meminfo */
    CPU_FLAGS_MAX = 48
};

#define CPU_DIR "/sys/devices/system/cpu"

/* ---- CPU lists ---- */
static bool list_number(const char **pos, unsigned *out)
{
    unsigned v = 0;

    if (!isdigit((unsigned char)**pos))
        return false;
    for (; isdigit((unsigned char)**pos); (*pos)++) {
        v = v * 10 + (unsigned)(**pos - '0');
        if (v >= HW_CPU_MAX)
            return false;
    }
    *out = v;
    return true;
}

bool hw_cpulist_next(const char **pos, unsigned *out_first, unsigned *out_last)
{
    const char *p = *pos;
    unsigned first, last;

    if (!list_number(&p, &first))
        return false;
    last = first;
    if (*p == '-') {
        p++;
        if (!list_number(&p, &last) || last < first)
            return false;
    }
    if (*p == ',')
        p++;
    else if (*p)
        return false;
    *pos = p;
    *out_first = first;
    *out_last = last;
    return true;
}

struct maybe hw_cpulist_count(const char *list)
{
    unsigned first, last;
    int64_t count = 0;

    if (!list || !*list)
        return maybe_none();
    while (hw_cpulist_next(&list, &first, &last)) {
        count += last - first + 1;
        if (count > HW_CPU_MAX) /* ranges that overlap: no kernel wrote this */
            return maybe_none();
    }
    return *list ? maybe_none() : maybe_of(count);
}

/* ---- /proc/cpuinfo ---- */
/* The first processor's block; "" when there is none. */
static const char *cpuinfo_block(struct hw_build *b)
{
    char text[CPUINFO_MAX];
    char *end;

    if (b->cpuinfo)
        return b->cpuinfo;
    if (root_read(b->root, "/proc/cpuinfo", text, sizeof(text)) <= 0)
        text[0] = '\0';
    end = strstr(text, "\n\n");
    if (end)
        end[1] = '\0';
    str_make_text(text);
    b->cpuinfo = arena_strdup(b->a, text);
    return b->cpuinfo;
}

const char *hw_cpuinfo_get(struct hw_build *b, const char *key)
{
    size_t key_len = strlen(key);

    for (const char *line = cpuinfo_block(b); line && *line;) {
        const char *end = strchrnul(line, '\n');
        const char *p = line + key_len;

        if (str_starts(line, key)) {
            p += strspn(p, " \t");
            if (*p == ':') {
                p += 1 + strspn(p + 1, " \t");
                return p < end ? arena_strndup(b->a, p, (size_t)(end - p)) : NULL;
            }
        }
        line = *end ? end + 1 : end;
    }
    return NULL;
}

bool hw_word_in(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = text; p && (p = strstr(p, word)); p += len)
        if ((p == text || isspace((unsigned char)p[-1])) &&
            (!p[len] || isspace((unsigned char)p[len])))
            return true;
    return false;
}

/* ARM gives numbers instead of names. */
static void arm_names(struct hw_build *b, struct hw_cpu *cpu)
{
    static const struct {
        const char *implementer, *part, *vendor, *model;
    } parts[] = {
        { "0x41", "0xd0c", "ARM", "Neoverse-N1" },
        { "0x41", "0xd40", "ARM", "Neoverse-V1" },
        { "0x41", "0xd49", "ARM", "Neoverse-N2" },
        { "0x41", "0xd4f", "ARM", "Neoverse-V2" },
        { "0x41", "0xd84", "ARM", "Neoverse-V3" },
        { "0x41", "0xd8e", "ARM", "Neoverse-N3" },
        { "0x41", NULL, "ARM", NULL },
        { "0x4e", "0x004", "NVIDIA", "Carmel" },
        { "0x4e", "0x010", "NVIDIA", "Olympus" },
        { "0x4e", NULL, "NVIDIA", NULL },
        { "0xc0", NULL, "Ampere", NULL },
    };
    const char *implementer = hw_cpuinfo_get(b, "CPU implementer");
    const char *part = hw_cpuinfo_get(b, "CPU part");

    for (size_t i = 0; implementer && i < ARRAY_SIZE(parts); i++)
        if (str_eq(parts[i].implementer, implementer) &&
            (!parts[i].part || str_eq(parts[i].part, part))) {
            cpu->vendor = parts[i].vendor;
            cpu->model = parts[i].model;
            return;
        }
}

static void cpu_flags(struct hw_build *b, struct hw_cpu *cpu)
{
    static const char *const wanted[] = {
        "sse4_2",   "avx",      "avx2",     "fma",      "f16c",        "bmi2",        "avx_vnni",
        "avx512f",  "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16",
        "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd",       "asimddp",     "asimdhp",
        "sve",      "sve2",     "i8mm",     "bf16",     "svei8mm",     "svebf16",
    };
    const char *flags = hw_cpuinfo_get(b, "flags");
    const char **out = arena_array(b->a, const char *, CPU_FLAGS_MAX);

    static_assert(ARRAY_SIZE(wanted) <= CPU_FLAGS_MAX, "room for every flag");
    if (!flags)
        flags = hw_cpuinfo_get(b, "Features");
    for (size_t i = 0; flags && i < ARRAY_SIZE(wanted); i++)
        if (hw_word_in(flags, wanted[i]))
            out[cpu->flags_count++] = wanted[i];
    cpu->flags = out;
}

static struct maybe cpuinfo_number(struct hw_build *b, const char *key)
{
    const char *text = hw_cpuinfo_get(b, key);
    int64_t v;

    return text && str_to_i64(text, 10, &v) && v >= 0 ? maybe_of(v) : maybe_none();
}

static void cpu_names(struct hw_build *b, struct hw_cpu *cpu)
{
    const char *flags = hw_cpuinfo_get(b, "flags");

    cpu->vendor = hw_cpuinfo_get(b, "vendor_id");
    cpu->model = hw_cpuinfo_get(b, "model name");
    if (cpu->vendor) { /* Arm has a name for the implementer, and numbers of its own */
        cpu->family = cpuinfo_number(b, "cpu family");
        cpu->model_id = cpuinfo_number(b, "model");
    } else
        arm_names(b, cpu);
    cpu->arch = b->self.arch;
    if (!cpu->arch && hw_word_in(flags, "lm"))
        cpu->arch = "x86_64";
    else if (!cpu->arch && hw_cpuinfo_get(b, "CPU implementer"))
        cpu->arch = "aarch64";
    cpu_flags(b, cpu);
}

/* ---- cores and packages ---- */
struct cpu_package {
    unsigned first;  /* its first CPU online */
    int64_t id;      /* physical_package_id */
    int64_t threads; /* its CPUs online */
};

struct core_id {
    int64_t package, core;
};

struct cores {
    unsigned char seen[HW_CPU_MAX / 8]; /* CPUs counted with a sibling already */
    struct cpu_package packages[PACKAGES_MAX];
    size_t packages_count;
    int64_t cores;
    struct core_id ids[HW_CPU_MAX]; /* of CPUs that name no siblings */
    size_t ids_count;
};

static bool bit_get(const unsigned char *bits, unsigned i)
{
    return bits[i / 8] & (1u << (i % 8));
}

static void bit_set(unsigned char *bits, unsigned i)
{
    bits[i / 8] |= (unsigned char)(1u << (i % 8));
}

static struct cpu_package *package_of(struct cores *c, int64_t id, unsigned cpu)
{
    for (size_t i = 0; i < c->packages_count; i++)
        if (c->packages[i].id == id)
            return &c->packages[i];
    if (c->packages_count == PACKAGES_MAX)
        return NULL;
    c->packages[c->packages_count] = (struct cpu_package){ .first = cpu, .id = id };
    return &c->packages[c->packages_count++];
}

/* Counts the core that `cpu` belongs to, with its siblings. */
static bool core_count(struct hw_build *b, struct cores *c, unsigned cpu)
{
    char line[ROOT_LINE_MAX];
    struct maybe id = root_int(b->root, CPU_DIR "/cpu%u/topology/physical_package_id", cpu);
    struct cpu_package *p = id.known ? package_of(c, id.v, cpu) : NULL;
    const char *pos = line;
    unsigned first, last;

    if (!p)
        return false;
    if (root_line(b->root, line, sizeof(line), CPU_DIR "/cpu%u/topology/thread_siblings_list",
                  cpu) <= 0) {
        struct maybe core = root_int(b->root, CPU_DIR "/cpu%u/topology/core_id", cpu);

        c->ids[c->ids_count++] = (struct core_id){ .package = id.v, .core = core.v };
        p->threads++;
        bit_set(c->seen, cpu);
        return core.known;
    }
    while (hw_cpulist_next(&pos, &first, &last))
        for (unsigned i = first; i <= last; i++) {
            p->threads += !bit_get(c->seen, i);
            bit_set(c->seen, i);
        }
    c->cores++;
    return bit_get(c->seen, cpu);
}

static int core_id_order(const void *x, const void *y)
{
    const struct core_id *a = x, *b = y;

    if (a->package != b->package)
        return a->package < b->package ? -1 : 1;
    return (a->core > b->core) - (a->core < b->core);
}

static void cores_by_id(struct cores *c)
{
    qsort(c->ids, c->ids_count, sizeof(*c->ids), core_id_order);
    for (size_t i = 0; i < c->ids_count; i++)
        c->cores += i == 0 || core_id_order(&c->ids[i - 1], &c->ids[i]);
}

/* False when some CPU online has no topology here. */
static bool cores_read(struct hw_build *b, const char *online, struct cores *out)
{
    unsigned first, last;
    bool any = false;

    while (online && hw_cpulist_next(&online, &first, &last))
        for (unsigned cpu = first; cpu <= last; cpu++) {
            if (!bit_get(out->seen, cpu) && !core_count(b, out, cpu))
                return false;
            any = true;
        }
    cores_by_id(out);
    return any;
}

/* What the first block of /proc/cpuinfo says of a package, for all of them. */
static void cores_guess(struct hw_build *b, struct hw_cpu *cpu)
{
    struct maybe cores = str_to_maybe(hw_cpuinfo_get(b, "cpu cores"));
    struct maybe siblings = str_to_maybe(hw_cpuinfo_get(b, "siblings"));

    if (!cpu->threads.known || !cores.known || !siblings.known || siblings.v <= 0 || cores.v <= 0 ||
        cores.v > siblings.v || cpu->threads.v % siblings.v)
        return;
    cpu->sockets = maybe_of(cpu->threads.v / siblings.v);
    cpu->cores = maybe_of(cpu->threads.v / siblings.v * cores.v);
}

/* ---- caches ---- */
static struct maybe cache_size(const char *text)
{
    static const char units[] = "KMG";
    char digits[32];
    const char *unit;
    int64_t v;
    size_t len = text ? strlen(text) : 0;

    if (!len || len >= sizeof(digits))
        return maybe_none();
    (void)str_copy(digits, sizeof(digits), text);
    unit = strchr(units, digits[len - 1]);
    if (unit)
        digits[len - 1] = '\0';
    if (!str_to_i64(digits, 10, &v) || v < 0 || v > (int64_t)1 << 40)
        return maybe_none();
    for (const char *u = units; unit && u <= unit; u++)
        if (__builtin_mul_overflow(v, 1024, &v))
            return maybe_none();
    return maybe_of(v);
}

static bool maybe_same(struct maybe x, struct maybe y)
{
    return x.known == y.known && (!x.known || x.v == y.v);
}

static void cache_add(struct hw_cpu *cpu, const struct hw_cache *c)
{
    FOR_EACH(struct hw_cache, have, cpu->caches) {
        if (maybe_same(have->level, c->level) && str_eq(have->type, c->type) &&
            maybe_same(have->size_bytes, c->size_bytes) &&
            maybe_same(have->shared_by, c->shared_by)) {
            if (have->count.known && c->count.known)
                have->count.v += c->count.v;
            return;
        }
    }
    if (cpu->caches_count < CACHES_MAX)
        cpu->caches[cpu->caches_count++] = *c;
}

static void caches_read(struct hw_build *b, struct hw_cpu *cpu, unsigned cpu_id, int64_t threads)
{
    for (int i = 0; i < CACHE_INDEX_MAX; i++) {
        char list[ROOT_LINE_MAX];
        struct hw_cache c = { .level = root_int(b->root, CPU_DIR "/cpu%u/cache/index%d/level",
                                                cpu_id, i) };

        if (!c.level.known || c.level.v < 1)
            break;
        c.type = root_str(b->root, b->a, CPU_DIR "/cpu%u/cache/index%d/type", cpu_id, i);
        c.size_bytes =
            cache_size(root_str(b->root, b->a, CPU_DIR "/cpu%u/cache/index%d/size", cpu_id, i));
        if (root_line(b->root, list, sizeof(list), CPU_DIR "/cpu%u/cache/index%d/shared_cpu_list",
                      cpu_id, i) > 0)
            c.shared_by = hw_cpulist_count(list);
        if (c.shared_by.known && c.shared_by.v > 0 && threads > 0)
            c.count = maybe_of((threads + c.shared_by.v - 1) / c.shared_by.v);
        cache_add(cpu, &c);
    }
}

/* ---- NUMA ---- */
static void node_distances(struct hw_build *b, struct hw_numa *n, const char *node)
{
    char line[ROOT_LINE_MAX];
    char *save = NULL;
    size_t room;

    if (root_line(b->root, line, sizeof(line), "/sys/devices/system/node/%s/distance", node) <= 0)
        return;
    room = strlen(line) / 2 + 1;
    n->distances = arena_array(b->a, struct maybe, room);
    for (char *w = strtok_r(line, " \t", &save); w && n->distances_count < room;
         w = strtok_r(NULL, " \t", &save)) {
        struct maybe d = str_to_maybe(w);

        n->distances[n->distances_count++] = d.v > 0 && d.v <= NUMA_DISTANCE_MAX ? d : maybe_none();
    }
}

/* Of the first processor in the list: a node does not reach over sockets. */
static struct maybe node_socket(struct hw_build *b, const char *cpus)
{
    unsigned first, last;
    struct maybe id = maybe_none();

    if (hw_cpulist_next(&cpus, &first, &last))
        id = root_int(b->root, CPU_DIR "/cpu%u/topology/physical_package_id", first);
    return id.known && id.v >= 0 ? id : maybe_none();
}

static void node_read(struct hw_build *b, const char *node, int64_t id, struct hw_numa *out)
{
    char path[ROOT_PATH_MAX], text[NODE_MEMINFO_MAX];

    out->id = maybe_of(id);
    out->cpus = root_str(b->root, b->a, "/sys/devices/system/node/%s/cpulist", node);
    if (!hw_cpulist_count(out->cpus).known)
        out->cpus = NULL; /* a node without processors, or no list at all */
    else
        out->socket = node_socket(b, out->cpus);
    node_distances(b, out, node);
    snprintf(path, sizeof(path), "/sys/devices/system/node/%s/meminfo", node);
    if (root_read(b->root, path, text, sizeof(text)) > 0)
        out->mem_total_bytes = hw_meminfo_get(text, "MemTotal");
    snprintf(path, sizeof(path), "/sys/devices/system/node/%s/hugepages", node);
    hw_hugepages_read(b, path, &out->hugepages, &out->hugepages_count);
}

static void numa_read(struct hw_build *b)
{
    struct arena tmp = { 0 };
    struct root_names names;
    struct hw *hw = b->hw;

    if (root_list(b->root, &tmp, "/sys/devices/system/node", &names) == 0) {
        hw->numa = arena_array(b->a, struct hw_numa, names.count);
        for (size_t i = 0; i < names.count && hw->numa_count < NUMA_NODES_MAX; i++) {
            int64_t id;

            if (str_starts(names.items[i], "node") && str_to_i64(names.items[i] + 4, 10, &id) &&
                id >= 0)
                node_read(b, names.items[i], id, &hw->numa[hw->numa_count++]);
        }
    }
    arena_release(&tmp);
}

void hw_src_cpu(struct hw_build *b)
{
    struct hw_cpu *cpu = &b->hw->cpu;
    struct cores *c = xcalloc(1, sizeof(*c));
    unsigned first = 0, last;
    const char *pos;
    struct maybe khz;

    cpu_names(b, cpu);
    cpu->online = root_str(b->root, b->a, CPU_DIR "/online");
    cpu->threads = hw_cpulist_count(cpu->online);
    cpu->caches = arena_array(b->a, struct hw_cache, CACHES_MAX);
    pos = cpu->online;
    if (pos && !hw_cpulist_next(&pos, &first, &last))
        first = 0;
    if (cores_read(b, cpu->online, c)) {
        cpu->cores = maybe_of(c->cores);
        cpu->sockets = maybe_of((int64_t)c->packages_count);
        for (size_t i = 0; i < c->packages_count; i++)
            caches_read(b, cpu, c->packages[i].first, c->packages[i].threads);
    } else {
        cores_guess(b, cpu);
        caches_read(b, cpu, first, maybe_or(cpu->threads, 0));
    }
    khz = root_int(b->root, CPU_DIR "/cpu%u/cpufreq/cpuinfo_max_freq", first);
    if (khz.known && khz.v > 0)
        cpu->mhz_max = maybe_of(khz.v / 1000);
    cpu->governor = root_str(b->root, b->a, CPU_DIR "/cpu%u/cpufreq/scaling_governor", first);
    numa_read(b);
    free(c);
}
