/* SPDX-License-Identifier: MIT */
/* gpu_query: the questions about one GPU and its MIG instances.
 *
 * Fields go in one call a group: the driver then fetches what belongs together once.  The
 * performance monitor (GPM) compares two samples: the one of the last round and the new one;
 * closer than GPM_APART_NS they say nothing and are not compared. */
#include "telemetry/gpu/gpu_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <string.h>

#define GPM_APART_NS    100000000 /* the driver's own limit */
#define GPM_SHARE_STEPS 1e6       /* digits of a share */
#define SECOND_NS       1000000000

/* ---- values ---- */
void gpu_values_clear(struct gpu_values *v, bool ids)
{
    for (size_t i = 0; i < GPU_ROW_COUNT; i++) {
        v->v[i] = NAN;
        if (ids)
            v->ids[i] = TELEMETRY_NONE;
    }
}

double gpu_carry_on(struct gpu_carry_value *c, double raw)
{
    if (raw < c->last) /* the driver was loaded anew, the GPU reset */
        c->base += c->last;
    c->last = raw;
    return c->base + raw;
}

static double known_or_nan(bool ok, double v)
{
    return ok ? v : NAN;
}

static double field_number(const struct nvml_field_value *f)
{
    if (f->rc != NVML_SUCCESS)
        return NAN;
    switch (f->type) {
    case NVML_VALUE_TYPE_DOUBLE:
        return f->value.d;
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        return f->value.u;
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
    case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        return (double)f->value.ull;
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        return (double)f->value.ll;
    case NVML_VALUE_TYPE_SIGNED_INT:
        return f->value.i;
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        return f->value.us;
    }
    return NAN;
}

/* Will this field never be told?  An older driver calls one that it does not know an invalid
 * argument. */
static bool never_told(int rc)
{
    return rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_INVALID_ARGUMENT ||
           rc == NVML_ERROR_FUNCTION_NOT_FOUND || rc == NVML_ERROR_DEPRECATED ||
           rc == NVML_ERROR_NO_PERMISSION;
}

static bool is_older_driver(int rc)
{
    return rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_FUNCTION_NOT_FOUND ||
           rc == NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

/* ---- fields ---- */
static void query_fields(struct gpu_sampler *s, struct gpu_dev *g, enum gpu_pace pace)
{
    struct nvml_field_value f[GPU_FIELDS_MAX] = { 0 };
    size_t from[GPU_FIELDS_MAX], n = 0;

    for (size_t i = 0; i < gpu_fields_count; i++) {
        if (gpu_fields[i].pace != pace || g->no_fields >> i & 1)
            continue;
        f[n] = (struct nvml_field_value){ .id = gpu_fields[i].id,
                                          .scope = gpu_fields[i].all ? NVML_ALL_LINKS : 0 };
        from[n++] = i;
    }
    if (n == 0 || GPU_CALL(s, f[0].id, DeviceGetFieldValues, (g->dev, (int)n, f)) != NVML_SUCCESS)
        return;
    for (size_t k = 0; k < n; k++) {
        const struct gpu_field *d = &gpu_fields[from[k]];
        double v = field_number(&f[k]) * d->factor;

        if (never_told(f[k].rc))
            g->no_fields |= (uint64_t)1 << from[k];
        if (f[k].rc == NVML_ERROR_GPU_IS_LOST) {
            g->lost = true;
            g->why = NVML_ERROR_GPU_IS_LOST;
        }
        if (!isnan(v) && d->carry)
            v = gpu_carry_on(&g->carry->rows[d->row], v);
        g->values.v[d->row] = v;
    }
}

/* DCGM's figure: KiB a second of both directions, by 1000. */
static double link_rate(double kib, double *last_kib, int64_t *last_ns, int64_t now_ns)
{
    int64_t apart = now_ns - *last_ns;
    double rate = NAN;

    if (isnan(kib))
        return NAN;
    if (!isnan(*last_kib) && *last_ns && apart > 0 && kib >= *last_kib)
        rate = (kib - *last_kib) / ((double)apart / SECOND_NS) / 1000;
    *last_kib = kib;
    *last_ns = now_ns;
    return rate;
}

static void query_rates(struct gpu_dev *g, int64_t now_ns)
{
    double *v = g->values.v;
    double all = (v[GPU_ROW_LINK_TX] + v[GPU_ROW_LINK_RX]) / 1024;

    v[GPU_ROW_LINK_RATE] = link_rate(all, &g->rate_kib, &g->rate_ns, now_ns);
}

/* ---- NVLinks ---- */
static void query_link(struct gpu_sampler *s, struct gpu_dev *g, unsigned link)
{
    struct nvml_field_value f[GPU_FIELDS_MAX] = { 0 };
    size_t from[GPU_FIELDS_MAX], n = 0;
    struct gpu_link *l = &g->links[link];

    for (size_t i = 0; i < gpu_link_fields_count; i++) {
        if (g->no_link_fields >> i & 1 || !gpu_due(s, gpu_link_fields[i].pace))
            continue;
        f[n] = (struct nvml_field_value){ .id = gpu_link_fields[i].id, .scope = link };
        from[n++] = i;
    }
    if (n == 0 || GPU_CALL(s, (int)link, DeviceGetFieldValues, (g->dev, (int)n, f)) != NVML_SUCCESS)
        return;
    for (size_t k = 0; k < n; k++) {
        const struct gpu_field *d = &gpu_link_fields[from[k]];
        double v = field_number(&f[k]) * d->factor;

        if (never_told(f[k].rc) && link == 0)
            g->no_link_fields |= (uint64_t)1 << from[k];
        if (!isnan(v) && d->carry)
            v = gpu_carry_on(&g->carry->links[link][d->row], v);
        l->v[d->row] = v;
    }
}

static double sum_links(const struct gpu_dev *g, enum gpu_link_row row)
{
    double sum = NAN;

    for (unsigned i = 0; i < g->link_count; i++)
        if (!isnan(g->links[i].v[row]))
            sum = (isnan(sum) ? 0 : sum) + g->links[i].v[row];
    return sum;
}

/* From Hopper on errors are counted only by link. */
static void query_links(struct gpu_sampler *s, struct gpu_dev *g, int64_t now_ns)
{
    static const struct {
        enum gpu_row row;
        enum gpu_link_row of;
    } sums[] = { { GPU_ROW_LINK_REPLAY, GPU_LINK_REPLAY },
                 { GPU_ROW_LINK_RECOVERY, GPU_LINK_RECOVERY },
                 { GPU_ROW_LINK_CRC_FLIT, GPU_LINK_CRC },
                 { GPU_ROW_LINKS_UP, GPU_LINK_STATE } };
    double *v = g->values.v;

    if (!g->link_count || !gpu_due(s, GPU_MEDIUM))
        return;
    for (unsigned i = 0; i < g->link_count && !g->lost; i++)
        query_link(s, g, i);
    for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
        if (isnan(v[sums[i].row]) || sums[i].row == GPU_ROW_LINKS_UP)
            v[sums[i].row] = sum_links(g, sums[i].of);
    v[GPU_ROW_LINK0_RATE] =
        link_rate((g->links[0].v[GPU_LINK_TX] + g->links[0].v[GPU_LINK_RX]) / 1024, &g->rate0_kib,
                  &g->rate0_ns, now_ns);
}

/* ---- plain calls ---- */
#define ASK_UINT(s, g, fn, row, factor)                                                            \
    do {                                                                                           \
        unsigned v_ = 0;                                                                           \
        bool ok_ = GPU_CALL(s, -1, fn, ((g)->dev, &v_)) == NVML_SUCCESS;                           \
        (g)->values.v[row] = known_or_nan(ok_, v_ * (factor));                                     \
    } while (0)
#define ASK_UINT_OF(s, g, fn, which, row)                                                          \
    do {                                                                                           \
        unsigned v_ = 0;                                                                           \
        bool ok_ = GPU_CALL(s, which, fn, ((g)->dev, which, &v_)) == NVML_SUCCESS;                 \
        (g)->values.v[row] = known_or_nan(ok_, v_);                                                \
    } while (0)

static void query_memory(struct gpu_sampler *s, struct nvml_dev *dev, double *v)
{
    struct nvml_memory_v2 m2 = { .version = NVML_STRUCT_VERSION(nvml_memory_v2, 2) };
    struct nvml_memory m1 = { 0 };
    int rc = GPU_CALL(s, -1, DeviceGetMemoryInfo_v2, (dev, &m2));

    v[GPU_ROW_MEM_TOTAL] = v[GPU_ROW_MEM_FREE] = v[GPU_ROW_MEM_USED] = NAN;
    v[GPU_ROW_MEM_RESERVED] = NAN;
    if (rc == NVML_SUCCESS) {
        v[GPU_ROW_MEM_TOTAL] = (double)m2.total;
        v[GPU_ROW_MEM_FREE] = (double)m2.free;
        v[GPU_ROW_MEM_USED] = (double)m2.used;
        v[GPU_ROW_MEM_RESERVED] = (double)m2.reserved;
    } else if (is_older_driver(rc) &&
               GPU_CALL(s, -1, DeviceGetMemoryInfo, (dev, &m1)) == NVML_SUCCESS) {
        v[GPU_ROW_MEM_TOTAL] = (double)m1.total;
        v[GPU_ROW_MEM_FREE] = (double)m1.free;
        v[GPU_ROW_MEM_USED] = (double)m1.used;
    }
}

enum { FAN_PERCENT_MAX = 200 }; /* more than all of it is possible; more than that is no speed */

static void query_heat(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct nvml_temperature t = { .version = NVML_STRUCT_VERSION(nvml_temperature, 1),
                                  .sensor = NVML_TEMPERATURE_GPU };
    int rc = GPU_CALL(s, -1, DeviceGetTemperatureV, (g->dev, &t));
    unsigned fan = 0;

    if (is_older_driver(rc))
        ASK_UINT_OF(s, g, DeviceGetTemperature, NVML_TEMPERATURE_GPU, GPU_ROW_TEMP);
    else
        g->values.v[GPU_ROW_TEMP] = known_or_nan(rc == NVML_SUCCESS, t.celsius);
    if (gpu_due(s, GPU_MEDIUM)) { /* cards for data centres have none: not supported */
        rc = GPU_CALL(s, -1, DeviceGetFanSpeed, (g->dev, &fan));
        g->values.v[GPU_ROW_FAN] = known_or_nan(rc == NVML_SUCCESS && fan <= FAN_PERCENT_MAX, fan);
    }
}

static void query_use(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct nvml_util u = { 0 };
    unsigned percent = 0, period_us = 0;
    double *v = g->values.v;
    bool ok = GPU_CALL(s, -1, DeviceGetUtilizationRates, (g->dev, &u)) == NVML_SUCCESS;

    v[GPU_ROW_UTIL] = known_or_nan(ok && u.gpu <= NVML_UTIL_MAX, u.gpu);
    v[GPU_ROW_UTIL_MEMORY] = known_or_nan(ok && u.memory <= NVML_UTIL_MAX, u.memory);
    ok = GPU_CALL(s, -1, DeviceGetEncoderUtilization, (g->dev, &percent, &period_us)) ==
         NVML_SUCCESS;
    v[GPU_ROW_UTIL_ENCODER] = known_or_nan(ok && percent <= NVML_UTIL_MAX, percent);
    ok = GPU_CALL(s, -1, DeviceGetDecoderUtilization, (g->dev, &percent, &period_us)) ==
         NVML_SUCCESS;
    v[GPU_ROW_UTIL_DECODER] = known_or_nan(ok && percent <= NVML_UTIL_MAX, percent);
}

static void query_clocks(struct gpu_sampler *s, struct gpu_dev *g)
{
    unsigned long long reasons = 0;
    int state = 0, rc;

    ASK_UINT_OF(s, g, DeviceGetClockInfo, NVML_CLOCK_SM, GPU_ROW_CLOCK_SM);
    ASK_UINT_OF(s, g, DeviceGetClockInfo, NVML_CLOCK_MEM, GPU_ROW_CLOCK_MEMORY);
    rc = GPU_CALL(s, -1, DeviceGetCurrentClocksEventReasons, (g->dev, &reasons));
    if (is_older_driver(rc))
        rc = GPU_CALL(s, -1, DeviceGetCurrentClocksThrottleReasons, (g->dev, &reasons));
    g->values.v[GPU_ROW_REASONS] = known_or_nan(rc == NVML_SUCCESS, (double)reasons);
    rc = GPU_CALL(s, -1, DeviceGetPerformanceState, (g->dev, &state));
    g->values.v[GPU_ROW_PSTATE] =
        known_or_nan(rc == NVML_SUCCESS && state >= 0 && state <= 15, state);
}

static void query_medium(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct nvml_margin margin = { .version = NVML_STRUCT_VERSION(nvml_margin, 1) };
    unsigned replay = 0;
    double *v = g->values.v;
    bool ok = GPU_CALL(s, -1, DeviceGetMarginTemperature, (g->dev, &margin)) == NVML_SUCCESS;

    v[GPU_ROW_TEMP_MARGIN] = known_or_nan(ok, margin.celsius);
    ok = GPU_CALL(s, -1, DeviceGetPcieReplayCounter, (g->dev, &replay)) == NVML_SUCCESS;
    v[GPU_ROW_PCIE_REPLAY] =
        known_or_nan(ok, gpu_carry_on(&g->carry->rows[GPU_ROW_PCIE_REPLAY], replay));
    ASK_UINT(s, g, DeviceGetEnforcedPowerLimit, GPU_ROW_POWER_LIMIT, 1e-3);
    ASK_UINT(s, g, DeviceGetCurrPcieLinkGeneration, GPU_ROW_PCIE_GEN, 1);
    ASK_UINT(s, g, DeviceGetCurrPcieLinkWidth, GPU_ROW_PCIE_WIDTH, 1);
}

static void query_banks(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct nvml_banks b = { 0 };
    struct nvml_sram sram = { .version = NVML_STRUCT_VERSION(nvml_sram, 1) };
    double *v = g->values.v;
    bool ok = GPU_CALL(s, -1, DeviceGetRowRemapperHistogram, (g->dev, &b)) == NVML_SUCCESS;

    v[GPU_ROW_BANKS_MAX] = known_or_nan(ok, b.max);
    v[GPU_ROW_BANKS_HIGH] = known_or_nan(ok, b.high);
    v[GPU_ROW_BANKS_PARTIAL] = known_or_nan(ok, b.partial);
    v[GPU_ROW_BANKS_LOW] = known_or_nan(ok, b.low);
    v[GPU_ROW_BANKS_NONE] = known_or_nan(ok, b.none);
    ok = GPU_CALL(s, -1, DeviceGetSramEccErrorStatus, (g->dev, &sram)) == NVML_SUCCESS;
    v[GPU_ROW_SRAM] = known_or_nan(ok, sram.exceeded != 0);
}

static void query_slow(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct nvml_fabric_v2 fabric = { .version = NVML_STRUCT_VERSION(nvml_fabric_v2, 2) };
    int now = 0, next = 0;
    double *v = g->values.v;
    bool ok = GPU_CALL(s, -1, DeviceGetEccMode, (g->dev, &now, &next)) == NVML_SUCCESS;

    v[GPU_ROW_ECC_MODE] = known_or_nan(ok, now != 0);
    ok = GPU_CALL(s, -1, DeviceGetPersistenceMode, (g->dev, &now)) == NVML_SUCCESS;
    v[GPU_ROW_PERSISTENCE] = known_or_nan(ok, now != 0);
    ok = GPU_CALL(s, -1, DeviceGetGpuFabricInfoV, (g->dev, (void *)&fabric)) == NVML_SUCCESS;
    v[GPU_ROW_FABRIC] = known_or_nan(ok, fabric.state);
    if (ok && fabric.state == NVML_GPU_FABRIC_STATE_COMPLETED && fabric.status != NVML_SUCCESS)
        v[GPU_ROW_FABRIC] = NVML_GPU_FABRIC_STATE_COMPLETED + 1; /* DCGM's number of a failure */
    ASK_UINT(s, g, DeviceGetPowerManagementDefaultLimit, GPU_ROW_POWER_DEFAULT, 1e-3);
    ASK_UINT_OF(s, g, DeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
                GPU_ROW_TEMP_SLOWDOWN);
    ASK_UINT_OF(s, g, DeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
                GPU_ROW_TEMP_SHUTDOWN);
    ASK_UINT_OF(s, g, DeviceGetMaxClockInfo, NVML_CLOCK_SM, GPU_ROW_CLOCK_SM_MAX);
    ASK_UINT_OF(s, g, DeviceGetMaxClockInfo, NVML_CLOCK_MEM, GPU_ROW_CLOCK_MEMORY_MAX);
    ASK_UINT(s, g, DeviceGetMaxPcieLinkGeneration, GPU_ROW_PCIE_GEN_MAX, 1);
    ASK_UINT(s, g, DeviceGetMaxPcieLinkWidth, GPU_ROW_PCIE_WIDTH_MAX, 1);
    query_banks(s, g);
}

/* ---- the performance monitor ---- */
void gpu_gpm_release(struct gpu_sampler *s, struct gpu_gpm *g)
{
    for (size_t i = 0; i < ARRAY_SIZE(g->samples); i++)
        if (g->samples[i] && s->api.GpmSampleFree)
            (void)s->api.GpmSampleFree(g->samples[i]);
    *g = (struct gpu_gpm){ 0 };
}

static bool gpm_ready(struct gpu_sampler *s, struct nvml_dev *dev, struct gpu_gpm *g)
{
    struct nvml_gpm_support yes = { .version = 1 };
    int rc;

    if (g->unsupported || g->samples[1])
        return !g->unsupported;
    rc = GPU_CALL(s, -1, GpmQueryDeviceSupport, (dev, &yes));
    g->unsupported = never_told(rc) || (rc == NVML_SUCCESS && !yes.supported);
    if (rc != NVML_SUCCESS || !yes.supported)
        return false; /* another code: asked again in the next round */
    return GPU_CALL(s, -1, GpmSampleAlloc, (&g->samples[0])) == NVML_SUCCESS &&
           GPU_CALL(s, -1, GpmSampleAlloc, (&g->samples[1])) == NVML_SUCCESS;
}

/* Shares have six digits and rates whole bytes, as /metrics shows them: what lies below is noise
 * that the history would keep for as many bits again. */
static double gpm_value(double value, double factor)
{
    return factor < 1 ? round(value * factor * GPM_SHARE_STEPS) / GPM_SHARE_STEPS
                      : round(value * factor);
}

static void gpm_compare(struct gpu_sampler *s, struct gpu_gpm *g, double *v)
{
    struct nvml_gpm_get get = { .version = 1, .count = (unsigned)gpu_gpm_rows_count };
    int rc;

    get.from = g->samples[g->at];
    get.to = g->samples[!g->at];
    for (size_t i = 0; i < gpu_gpm_rows_count; i++)
        get.metrics[i].id = gpu_gpm_rows[i].id;
    rc = GPU_CALL(s, -1, GpmMetricsGet, (&get));
    for (size_t i = 0; i < gpu_gpm_rows_count; i++) {
        bool ok = rc == NVML_SUCCESS && get.metrics[i].rc == NVML_SUCCESS &&
                  isfinite(get.metrics[i].value);

        v[gpu_gpm_rows[i].row] =
            known_or_nan(ok, gpm_value(get.metrics[i].value, gpu_gpm_rows[i].factor));
    }
    g->unsupported = rc == NVML_ERROR_ARGUMENT_VERSION_MISMATCH || rc == NVML_ERROR_NOT_SUPPORTED;
}

/* The rate is the mean between two samples, so that its sum is the bytes.  The driver's own
 * counters have 32 bits and turn over in a tenth of a second. */
static void add_bytes(struct gpu_dev *g, double seconds)
{
    static const unsigned char rows[][2] = { { GPU_ROW_PCIE_TX_RATE, GPU_ROW_PCIE_TX },
                                             { GPU_ROW_PCIE_RX_RATE, GPU_ROW_PCIE_RX } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double rate = g->values.v[rows[i][0]];
        struct gpu_carry_value *c = &g->carry->rows[rows[i][1]];

        if (!isnan(rate))
            c->base += round(rate * seconds);
        g->values.v[rows[i][1]] = isnan(rate) ? NAN : c->base;
    }
}

/* gi -1: the whole GPU.  False: nothing to compare with yet, the last values stand. */
static bool query_gpm(struct gpu_sampler *s, struct nvml_dev *dev, int gi, struct gpu_gpm *g,
                      double *v, double *out_seconds)
{
    int64_t now = clock_mono_ns();
    bool both = g->have;
    struct nvml_gpm_sample *into;
    int rc;

    if (!gpm_ready(s, dev, g) || (both && now - g->taken_ns < GPM_APART_NS))
        return false;
    into = g->samples[both ? !g->at : g->at];
    if (gi < 0)
        rc = GPU_CALL(s, -1, GpmSampleGet, (dev, into));
    else
        rc = GPU_CALL(s, gi, GpmMigSampleGet, (dev, (unsigned)gi, into));
    g->have = rc == NVML_SUCCESS;
    if (rc != NVML_SUCCESS) {
        for (size_t i = 0; i < gpu_gpm_rows_count; i++)
            v[gpu_gpm_rows[i].row] = NAN;
        return false;
    }
    if (both) {
        gpm_compare(s, g, v);
        *out_seconds = (double)(now - g->began_ns) / SECOND_NS;
        g->at = !g->at;
    }
    g->began_ns = now;
    g->taken_ns = clock_mono_ns(); /* the call may have taken its time */
    return both;
}

/* ---- MIG ---- */
static void query_mig(struct gpu_sampler *s, struct gpu_dev *g, struct gpu_mig *m)
{
    double seconds = 0;

    query_memory(s, m->dev, m->values.v);
    if (isnan(m->values.v[GPU_ROW_MEM_TOTAL]))
        g->migs_stale = true; /* it was destroyed: the list is made anew */
    (void)query_gpm(s, g->dev, (int)m->gi, &m->gpm, m->values.v, &seconds);
}

static void drop_migs(struct gpu_sampler *s, struct gpu_dev *g)
{
    for (size_t i = 0; i < g->mig_count; i++)
        gpu_gpm_release(s, &g->migs[i].gpm);
    free(g->migs);
    g->migs = NULL;
    g->mig_count = 0;
}

static bool add_mig(struct gpu_sampler *s, struct gpu_dev *g, struct nvml_dev *dev)
{
    struct gpu_mig *m = &g->migs[g->mig_count];
    char name[NVML_TEXT_MAX] = "";
    const char *at;

    *m = (struct gpu_mig){ .dev = dev };
    if (GPU_CALL(s, -1, DeviceGetGpuInstanceId, (dev, &m->gi)) != NVML_SUCCESS ||
        GPU_CALL(s, -1, DeviceGetComputeInstanceId, (dev, &m->ci)) != NVML_SUCCESS)
        return false;
    for (size_t i = 0; i < g->mig_count; i++)
        if (g->migs[i].gi == m->gi)
            return false; /* another compute instance: it shares the memory */
    if (GPU_CALL(s, -1, DeviceGetName, (dev, name, sizeof(name) - 1)) == NVML_SUCCESS) {
        at = strstr(name, " MIG ");
        str_copy(m->profile, sizeof(m->profile), at ? at + 5 : name);
        str_make_text(m->profile);
    }
    gpu_values_clear(&m->values, true);
    g->mig_count++;
    return true;
}

static void find_migs(struct gpu_sampler *s, struct gpu_dev *g)
{
    unsigned now = 0, next = 0, max = 0;
    struct nvml_dev *dev = NULL;
    bool on = GPU_CALL(s, -1, DeviceGetMigMode, (g->dev, &now, &next)) == NVML_SUCCESS && now;

    if (on == g->mig && !g->migs_stale)
        return;
    drop_migs(s, g);
    g->mig = on;
    g->migs_stale = false;
    if (!on || GPU_CALL(s, -1, DeviceGetMaxMigDeviceCount, (g->dev, &max)) != NVML_SUCCESS)
        return;
    if (max > NVML_MIGS_MAX)
        max = NVML_MIGS_MAX;
    g->migs = xcalloc(max ? max : 1, sizeof(*g->migs));
    for (unsigned i = 0; i < max && !g->lost; i++)
        if (GPU_CALL(s, (int)i, DeviceGetMigDeviceHandleByIndex, (g->dev, i, &dev)) == NVML_SUCCESS)
            (void)add_mig(s, g, dev);
}

/* ---- attaching ---- */
static void text_of(char *out, size_t cap, char *text)
{
    str_make_text(text);
    str_copy(out, cap, str_trim(text));
}

static void query_identity(struct gpu_sampler *s, struct gpu_dev *g)
{
    char text[NVML_TEXT_MAX] = "";
    struct nvml_pci pci = { 0 };
    unsigned minor = 0;

    if (GPU_CALL(s, -1, DeviceGetUUID, (g->dev, text, sizeof(text) - 1)) == NVML_SUCCESS)
        text_of(g->uuid, sizeof(g->uuid), text);
    if (GPU_CALL(s, -1, DeviceGetName, (g->dev, text, sizeof(text) - 1)) == NVML_SUCCESS)
        text_of(g->name, sizeof(g->name), text);
    if (GPU_CALL(s, -1, DeviceGetPciInfo_v3, (g->dev, &pci)) == NVML_SUCCESS) {
        pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
        text_of(g->bus, sizeof(g->bus), pci.bus_id);
    } else if (GPU_CALL(s, -1, DeviceGetPciInfo, (g->dev, &pci)) == NVML_SUCCESS) {
        pci.bus_id_legacy[sizeof(pci.bus_id_legacy) - 1] = '\0';
        text_of(g->bus, sizeof(g->bus), pci.bus_id_legacy);
    }
    if (GPU_CALL(s, -1, DeviceGetMinorNumber, (g->dev, &minor)) == NVML_SUCCESS)
        snprintf(g->device, sizeof(g->device), "nvidia%u", minor);
}

/* What an earlier child counted on this GPU, wherever it stood then. */
static void find_carry(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct gpu_carry *c = s->page->carry, *free_one = NULL;

    for (size_t i = 0; i < NVML_GPUS_MAX; i++) {
        if (str_eq(c[i].uuid, g->uuid) && g->uuid[0]) {
            g->carry = &c[i];
            return;
        }
        if (!c[i].uuid[0] && !free_one)
            free_one = &c[i];
    }
    if (!free_one) /* GPUs came and went: the place of its number is given to it */
        free_one = &c[g->index];
    *free_one = (struct gpu_carry){ 0 };
    str_copy(free_one->uuid, sizeof(free_one->uuid), g->uuid[0] ? g->uuid : "?");
    g->carry = free_one;
}

static void find_links(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct nvml_field_value f = { .id = NVML_FI_DEV_NVLINK_LINK_COUNT };
    double count = NAN;

    if (GPU_CALL(s, f.id, DeviceGetFieldValues, (g->dev, 1, &f)) == NVML_SUCCESS)
        count = field_number(&f);
    free(g->links);
    g->link_count = count >= 1 ? (unsigned)fmin(count, NVML_NVLINK_MAX_LINKS) : 0;
    g->links = g->link_count ? xcalloc(g->link_count, sizeof(*g->links)) : NULL;
    for (unsigned i = 0; i < g->link_count; i++)
        for (size_t k = 0; k < GPU_LINK_ROWS; k++) {
            g->links[i].ids[k] = TELEMETRY_NONE;
            g->links[i].v[k] = NAN;
        }
}

bool gpu_attach(struct gpu_sampler *s, struct gpu_dev *g)
{
    int rc;

    g->lost = false;
    g->no_fields = g->no_link_fields = 0;
    memset(g->refused, 0, sizeof(g->refused));
    g->rate_kib = g->rate0_kib = NAN;
    g->seen_us = (unsigned long long)clock_unix_ms() * 1000 - 1000000;
    drop_migs(s, g);
    gpu_gpm_release(s, &g->gpm);
    gpu_values_clear(&g->values, !g->known);
    rc = GPU_CALL(s, -1, DeviceGetHandleByIndex_v2, (g->index, &g->dev));
    if (is_older_driver(rc))
        rc = GPU_CALL(s, -1, DeviceGetHandleByIndex, (g->index, &g->dev));
    if (rc == NVML_SUCCESS && g->dev)
        query_identity(s, g);
    if (rc != NVML_SUCCESS || !g->dev || g->lost || s->ended || s->fatal) {
        g->dev = NULL;
        g->why = g->lost ? NVML_ERROR_GPU_IS_LOST : rc;
        g->lost = true;
        return false;
    }
    if (!g->known)
        g->lost_id = TELEMETRY_NONE;
    g->known = true;
    find_carry(s, g);
    find_links(s, g);
    g->migs_stale = true;
    find_migs(s, g);
    return true;
}

/* ---- all of it ---- */
void gpu_query_all(struct gpu_sampler *s, int64_t now_ns)
{
    struct gpu_dev *g = s->gpu;
    double seconds = 0;

    query_heat(s, g);
    ASK_UINT(s, g, DeviceGetPowerUsage, GPU_ROW_POWER, 1e-3);
    query_use(s, g);
    query_memory(s, g->dev, g->values.v);
    query_clocks(s, g);
    for (unsigned pace = 0; pace < GPU_PACES; pace++)
        if (gpu_due(s, pace))
            query_fields(s, g, pace);
    query_rates(g, now_ns);
    query_links(s, g, now_ns);
    if (gpu_due(s, GPU_MEDIUM))
        query_medium(s, g);
    if (gpu_due(s, GPU_SLOW)) {
        query_slow(s, g);
        find_migs(s, g);
    }
    if (query_gpm(s, g->dev, -1, &g->gpm, g->values.v, &seconds))
        add_bytes(g, seconds);
    for (size_t i = 0; i < g->mig_count && !g->lost; i++)
        query_mig(s, g, &g->migs[i]);
    gpu_processes_query(s);
    if (g->lost) {
        gpu_values_clear(&g->values, false);
        g->dev = NULL;
    }
}
