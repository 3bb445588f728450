/* SPDX-License-Identifier: MIT */
/* nvml_query: everything the driver can tell about each GPU, asked in a child.
 *
 * Any call may sleep for ever or crash, so each is announced to the parent before
 * it is made, and each GPU's answers leave the child before the next is touched.
 *
 *  1. A GPU that cannot be opened is reported with the reason; the others go on.
 *  2. A GPU that says it is lost is asked no further: such calls can be slow.
 *  3. "Not supported" is an unknown field.  Any other code is kept in gpu.errors.
 *  4. Nothing here changes a setting. */
#include "hw/nvml/nvml_int.h"

#include "base/str.h"
#include "base/text/json.h"

#include <assert.h>
#include <inttypes.h>

enum { QUERY_C2C_MAX = 64 }; /* chip-to-chip links of a GPU that are asked */

/* ---- one call ---- */
/* The arguments that tell calls of one name apart: "", "(3)", "(164, 3)", "(mig 0)". */
static void call_args(char out[32], const struct nvml_query *q, const char *before, int sub)
{
    out[0] = '\0';
    if (q->mig >= 0)
        snprintf(out, 32, "%smig %d", before, q->mig);
    else if (sub != QUERY_NO_SUB && q->scope >= 0)
        snprintf(out, 32, "%s%d, %d", before, sub, q->scope);
    else if (sub != QUERY_NO_SUB)
        snprintf(out, 32, "%s%d", before, sub);
}

bool query_begin(struct nvml_query *q, const char *call, int sub, bool present)
{
    char args[32];

    q->refused = q->lost ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (q->lost || !present)
        return false;
    call_args(args, q, ", ", sub);
    if (q->gpu)
        child_step(q->link, "%s(%u%s)", call, q->index, args);
    else
        child_step(q->link, "%s()", call);
    return true;
}

static const char *code_text(struct nvml_query *q, int rc)
{
    const char *text = q->api->ErrorString ? q->api->ErrorString(rc) : NULL;
    char copy[NVML_TEXT_MAX];

    if (!text)
        return arena_printf(q->a, "code %d", rc);
    str_copy(copy, sizeof(copy), text);
    return query_text(q, copy);
}

static bool is_quiet(int rc)
{
    return rc == NVML_SUCCESS || rc == NVML_ERROR_NOT_SUPPORTED ||
           rc == NVML_ERROR_FUNCTION_NOT_FOUND || rc == NVML_ERROR_DEPRECATED;
}

static void keep_error(struct nvml_query *q, const char *call, int sub, int rc)
{
    struct hw_gpu_err *e;
    char args[32];

    if (!q->gpu || q->errors_count == NVML_ERRORS_MAX)
        return;
    call_args(args, q, "", sub);
    e = &q->errors[q->errors_count++];
    e->call = arena_printf(q->a, args[0] ? "%s(%s)" : "%s%s", call, args);
    e->code = maybe_of(rc);
    e->text = code_text(q, rc);
}

int query_end(struct nvml_query *q, const char *call, int sub, int fine, int rc)
{
    if (is_quiet(rc) || rc == fine)
        return rc;
    if (rc == NVML_ERROR_GPU_IS_LOST && q->gpu)
        q->lost = true;
    keep_error(q, call, sub, rc);
    return rc;
}

bool query_older(int rc)
{
    return rc == NVML_ERROR_FUNCTION_NOT_FOUND || rc == NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

const char *query_text(struct nvml_query *q, char *text)
{
    str_make_text(text);
    text = str_trim(text);
    return *text ? arena_strdup(q->a, text) : NULL;
}

static struct maybe field_number(const struct nvml_field_value *f)
{
    switch (f->type) {
    case NVML_VALUE_TYPE_DOUBLE:
        return f->value.d > -9e15 && f->value.d < 9e15 ? maybe_of((int64_t)f->value.d)
                                                       : maybe_none();
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        return maybe_of(f->value.u);
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
    case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        return f->value.ull <= INT64_MAX ? maybe_of((int64_t)f->value.ull) : maybe_none();
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        return maybe_of(f->value.ll);
    case NVML_VALUE_TYPE_SIGNED_INT:
        return maybe_of(f->value.i);
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        return maybe_of(f->value.us);
    }
    return maybe_none();
}

/* A number that has no function of its own.  One field a call: a call that hangs is
 * then known by its field. */
struct maybe query_field(struct nvml_query *q, enum nvml_field id, int link)
{
    struct nvml_field_value f = { .id = id, .scope = link >= 0 ? (unsigned)link : 0 };
    struct maybe v = maybe_none();

    q->scope = link;
    if (QUERY_SUB(q, (int)id, DeviceGetFieldValues, (q->dev, 1, &f)) == NVML_SUCCESS) {
        /* an older driver calls a field it does not know an invalid argument */
        f.rc = query_end(q, "nvmlDeviceGetFieldValues", (int)id, NVML_ERROR_INVALID_ARGUMENT, f.rc);
        if (f.rc == NVML_SUCCESS)
            v = field_number(&f);
    }
    q->scope = -1;
    return v;
}

/* The simplest questions: one answer into one member. */
#define QUERY_TEXT(q, fn, member)                                                                  \
    do {                                                                                           \
        char text_[NVML_TEXT_MAX] = "";                                                            \
        if (QUERY(q, fn, ((q)->dev, text_, sizeof(text_) - 1)) == NVML_SUCCESS)                    \
            (q)->gpu->member = query_text((q), text_);                                             \
    } while (0)
#define QUERY_UINT(q, fn, member)                                                                  \
    do {                                                                                           \
        unsigned v_ = 0;                                                                           \
        if (QUERY(q, fn, ((q)->dev, &v_)) == NVML_SUCCESS)                                         \
            (q)->gpu->member = maybe_of(v_);                                                       \
    } while (0)
#define QUERY_UINT_OF(q, fn, which, member)                                                        \
    do {                                                                                           \
        unsigned v_ = 0;                                                                           \
        if (QUERY_SUB(q, which, fn, ((q)->dev, which, &v_)) == NVML_SUCCESS)                       \
            (q)->gpu->member = maybe_of(v_);                                                       \
    } while (0)
#define QUERY_WORD(q, fn, table, member)                                                           \
    do {                                                                                           \
        int v_ = 0;                                                                                \
        if (QUERY(q, fn, ((q)->dev, &v_)) == NVML_SUCCESS)                                         \
            (q)->gpu->member = nvml_word((q)->a, table, v_);                                       \
    } while (0)

/* ---- what a GPU is ---- */
static void query_address(struct nvml_query *q)
{
    struct nvml_pci pci = { 0 };
    char bdf[NVML_BDF_MAX];
    const char *text = pci.bus_id;
    int rc = QUERY(q, DeviceGetPciInfo_v3, (q->dev, &pci));

    if (query_older(rc)) {
        text = pci.bus_id_legacy; /* the older forms know only this one */
        rc = QUERY(q, DeviceGetPciInfo_v2, (q->dev, &pci));
        if (query_older(rc))
            rc = QUERY(q, DeviceGetPciInfo, (q->dev, &pci));
    }
    pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
    pci.bus_id_legacy[sizeof(pci.bus_id_legacy) - 1] = '\0';
    if (rc == NVML_SUCCESS && nvml_bdf(text, bdf))
        q->gpu->bdf = arena_strdup(q->a, bdf);
}

static void query_identity(struct nvml_query *q)
{
    char gsp[NVML_TEXT_MAX] = "";
    unsigned arch = 0;
    int brand = 0;

    query_address(q);
    QUERY_TEXT(q, DeviceGetName, name);
    QUERY_TEXT(q, DeviceGetUUID, uuid);
    QUERY_TEXT(q, DeviceGetSerial, serial);
    QUERY_TEXT(q, DeviceGetBoardPartNumber, board_part);
    QUERY_TEXT(q, DeviceGetVbiosVersion, vbios);
    QUERY_TEXT(q, DeviceGetInforomImageVersion, inforom);
    QUERY_UINT(q, DeviceGetMinorNumber, minor);
    if (QUERY(q, DeviceGetGspFirmwareVersion, (q->dev, gsp)) == NVML_SUCCESS)
        q->gpu->gsp_firmware = query_text(q, gsp);
    if (QUERY(q, DeviceGetBrand, (q->dev, &brand)) == NVML_SUCCESS && brand != 0)
        q->gpu->brand = nvml_word(q->a, nvml_brands, brand);
    if (QUERY(q, DeviceGetArchitecture, (q->dev, &arch)) == NVML_SUCCESS && arch != UINT32_MAX)
        q->gpu->arch = nvml_word(q->a, nvml_archs, (int)arch);
}

static void query_chip(struct nvml_query *q)
{
    struct nvml_attributes at = { 0 };
    int major = 0, minor = 0;
    int rc;

    if (QUERY(q, DeviceGetCudaComputeCapability, (q->dev, &major, &minor)) == NVML_SUCCESS) {
        q->gpu->compute_major = maybe_of(major);
        q->gpu->compute_minor = maybe_of(minor);
    }
    QUERY_UINT(q, DeviceGetNumGpuCores, cores);
    QUERY_UINT(q, DeviceGetMemoryBusWidth, mem_bus_bits);
    rc = QUERY(q, DeviceGetAttributes_v2, (q->dev, &at));
    if (query_older(rc))
        rc = QUERY(q, DeviceGetAttributes, (q->dev, &at));
    if (rc == NVML_SUCCESS && at.sms > 0)
        q->gpu->sms = maybe_of(at.sms);
}

/* ---- what it has and does ---- */
static struct maybe bytes_of(unsigned long long v)
{
    return v <= INT64_MAX ? maybe_of((int64_t)v) : maybe_none();
}

/* The total; reserved and used may be NULL.  Before v2 "used" holds the reserve too. */
struct maybe query_memory(struct nvml_query *q, struct maybe *reserved, struct maybe *used)
{
    struct nvml_memory_v2 m2 = { .version = NVML_STRUCT_VERSION(nvml_memory_v2, 2) };
    struct nvml_memory m1 = { 0 };
    int rc = QUERY_OR(q, QUERY_NO_SUB, NVML_ERROR_ARGUMENT_VERSION_MISMATCH, DeviceGetMemoryInfo_v2,
                      (q->dev, &m2));

    if (rc == NVML_SUCCESS) {
        if (reserved)
            *reserved = bytes_of(m2.reserved);
        if (used)
            *used = bytes_of(m2.used);
        return bytes_of(m2.total);
    }
    if (!query_older(rc) || QUERY(q, DeviceGetMemoryInfo, (q->dev, &m1)) != NVML_SUCCESS)
        return maybe_none();
    if (used)
        *used = bytes_of(m1.used);
    return bytes_of(m1.total);
}

static void query_bus(struct nvml_query *q)
{
    struct nvml_bar1 bar1 = { 0 };

    if (QUERY(q, DeviceGetBAR1MemoryInfo, (q->dev, &bar1)) == NVML_SUCCESS)
        q->gpu->bar1_bytes = bytes_of(bar1.total);
    QUERY_UINT(q, DeviceGetCurrPcieLinkGeneration, pcie_gen);
    QUERY_UINT(q, DeviceGetMaxPcieLinkGeneration, pcie_gen_max);
    QUERY_UINT(q, DeviceGetCurrPcieLinkWidth, pcie_width);
    QUERY_UINT(q, DeviceGetMaxPcieLinkWidth, pcie_width_max);
}

/* The clock set for applications: the old call is going, the new one came late. */
static struct maybe app_clock(struct nvml_query *q, int type)
{
    unsigned mhz = 0;
    int rc = QUERY_SUB(q, type, DeviceGetApplicationsClock, (q->dev, type, &mhz));

    if (rc == NVML_ERROR_FUNCTION_NOT_FOUND || rc == NVML_ERROR_DEPRECATED)
        rc = QUERY_SUB(q, type, DeviceGetClock,
                       (q->dev, type, NVML_CLOCK_ID_APP_CLOCK_TARGET, &mhz));
    return rc == NVML_SUCCESS ? maybe_of(mhz) : maybe_none();
}

static void query_clocks(struct nvml_query *q)
{
    QUERY_UINT_OF(q, DeviceGetClockInfo, NVML_CLOCK_SM, clock_sm_mhz);
    QUERY_UINT_OF(q, DeviceGetClockInfo, NVML_CLOCK_MEM, clock_mem_mhz);
    QUERY_UINT_OF(q, DeviceGetMaxClockInfo, NVML_CLOCK_SM, clock_sm_max_mhz);
    QUERY_UINT_OF(q, DeviceGetMaxClockInfo, NVML_CLOCK_MEM, clock_mem_max_mhz);
    q->gpu->clock_app_sm_mhz = app_clock(q, NVML_CLOCK_GRAPHICS);
    q->gpu->clock_app_mem_mhz = app_clock(q, NVML_CLOCK_MEM);
}

static void query_power(struct nvml_query *q)
{
    unsigned min = 0, max = 0;

    QUERY_UINT(q, DeviceGetEnforcedPowerLimit, power_limit_mw);
    if (!q->gpu->power_limit_mw.known)
        QUERY_UINT(q, DeviceGetPowerManagementLimit, power_limit_mw);
    QUERY_UINT(q, DeviceGetPowerManagementDefaultLimit, power_default_mw);
    if (QUERY(q, DeviceGetPowerManagementLimitConstraints, (q->dev, &min, &max)) == NVML_SUCCESS) {
        q->gpu->power_min_mw = maybe_of(min);
        q->gpu->power_max_mw = maybe_of(max);
    }
    q->gpu->power_mw = query_field(q, NVML_FI_DEV_POWER_INSTANT, -1);
    if (!q->gpu->power_mw.known) /* drivers before the field: averaged on some chips */
        QUERY_UINT(q, DeviceGetPowerUsage, power_mw);
}

static void query_heat(struct nvml_query *q)
{
    struct nvml_temperature t = { .version = NVML_STRUCT_VERSION(nvml_temperature, 1),
                                  .sensor = NVML_TEMPERATURE_GPU };
    struct nvml_margin margin = { .version = NVML_STRUCT_VERSION(nvml_margin, 1) };
    int rc = QUERY_OR(q, QUERY_NO_SUB, NVML_ERROR_ARGUMENT_VERSION_MISMATCH, DeviceGetTemperatureV,
                      (q->dev, &t));

    if (rc == NVML_SUCCESS)
        q->gpu->temp_c = maybe_of(t.celsius);
    else if (query_older(rc))
        QUERY_UINT_OF(q, DeviceGetTemperature, NVML_TEMPERATURE_GPU, temp_c);
    QUERY_UINT_OF(q, DeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
                  temp_slowdown_c);
    QUERY_UINT_OF(q, DeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
                  temp_shutdown_c);
    QUERY_UINT_OF(q, DeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_GPU_MAX, temp_max_c);
    if (QUERY(q, DeviceGetMarginTemperature, (q->dev, &margin)) == NVML_SUCCESS)
        q->gpu->temp_margin_c = maybe_of(margin.celsius);
}

static void query_ecc(struct nvml_query *q)
{
    struct hw_gpu *g = q->gpu;
    unsigned corr = 0, uncorr = 0, pending = 0, failed = 0;
    int now = 0, next = 0;

    if (QUERY(q, DeviceGetEccMode, (q->dev, &now, &next)) == NVML_SUCCESS) {
        g->ecc = maybe_of(now != 0);
        g->ecc_pending = maybe_of(next != 0);
    }
    g->ecc_sbe_volatile = query_field(q, NVML_FI_DEV_ECC_SBE_VOL_TOTAL, -1);
    g->ecc_dbe_volatile = query_field(q, NVML_FI_DEV_ECC_DBE_VOL_TOTAL, -1);
    g->ecc_sbe_total = query_field(q, NVML_FI_DEV_ECC_SBE_AGG_TOTAL, -1);
    g->ecc_dbe_total = query_field(q, NVML_FI_DEV_ECC_DBE_AGG_TOTAL, -1);
    if (QUERY(q, DeviceGetRemappedRows, (q->dev, &corr, &uncorr, &pending, &failed)) ==
        NVML_SUCCESS) {
        g->remap_correctable = maybe_of(corr);
        g->remap_uncorrectable = maybe_of(uncorr);
        g->remap_pending = maybe_of(pending != 0);
        g->remap_failed = maybe_of(failed != 0);
    }
}

/* ---- how it is set up ---- */
static void query_modes(struct nvml_query *q)
{
    struct nvml_addressing addr = { .version = NVML_STRUCT_VERSION(nvml_addressing, 1) };
    struct maybe action;
    int on = 0;

    if (QUERY(q, DeviceGetPersistenceMode, (q->dev, &on)) == NVML_SUCCESS)
        q->gpu->persistence = maybe_of(on != 0);
    QUERY_WORD(q, DeviceGetComputeMode, nvml_compute_modes, compute_mode);
    QUERY_WORD(q, DeviceGetVirtualizationMode, nvml_virtualizations, virtualization);
    if (QUERY(q, DeviceGetAddressingMode, (q->dev, &addr)) == NVML_SUCCESS)
        q->gpu->addressing = nvml_word(q->a, nvml_addressings, (int)addr.mode);
    action = query_field(q, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, -1);
    if (action.known && action.v == (int)action.v)
        q->gpu->recovery_action = nvml_word(q->a, nvml_recoveries, (int)action.v);
}

/* Newest struct first; the fields we read stand at the same place in v2 and v3. */
static int fabric_info(struct nvml_query *q, struct nvml_fabric_v2 *out)
{
    struct nvml_fabric_v3 v3 = { .version = NVML_STRUCT_VERSION(nvml_fabric_v3, 3) };
    struct nvml_fabric_v1 v1 = { 0 };
    int rc = QUERY_OR(q, QUERY_NO_SUB, NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
                      DeviceGetGpuFabricInfoV, (q->dev, (void *)&v3));

    if (rc == NVML_SUCCESS) {
        memcpy(out, &v3, sizeof(*out));
        return rc;
    }
    if (rc == NVML_ERROR_ARGUMENT_VERSION_MISMATCH) {
        *out = (struct nvml_fabric_v2){ .version = NVML_STRUCT_VERSION(nvml_fabric_v2, 2) };
        rc = QUERY_OR(q, QUERY_NO_SUB, NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
                      DeviceGetGpuFabricInfoV, (q->dev, (void *)out));
    }
    if (!query_older(rc))
        return rc;
    rc = QUERY(q, DeviceGetGpuFabricInfo, (q->dev, &v1));
    *out = (struct nvml_fabric_v2){ .status = v1.status, .clique = v1.clique, .state = v1.state };
    memcpy(out->cluster, v1.cluster, sizeof(out->cluster));
    return rc;
}

static const char *uuid_text(struct arena *a, const unsigned char u[16])
{
    static const unsigned char none[16];

    if (memcmp(u, none, sizeof(none)) == 0)
        return NULL;
    return arena_printf(a, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                        u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
                        u[12], u[13], u[14], u[15]);
}

static void query_fabric(struct nvml_query *q)
{
    struct nvml_fabric_v2 f = { 0 };

    if (fabric_info(q, &f) != NVML_SUCCESS)
        return;
    q->gpu->fabric_state = nvml_word(q->a, nvml_fabric_states, f.state);
    if (f.state != NVML_GPU_FABRIC_STATE_COMPLETED)
        return; /* the rest has no meaning before the GPU has joined */
    q->gpu->fabric_status = f.status == NVML_SUCCESS ? "ok" : code_text(q, f.status);
    q->gpu->fabric_cluster = uuid_text(q->a, f.cluster);
    q->gpu->fabric_clique = maybe_of(f.clique);
}

/* As NCCL asks (graph/xml.cc): one link that is active will do. */
static void query_c2c(struct nvml_query *q)
{
    struct maybe links = query_field(q, NVML_FI_DEV_C2C_LINK_COUNT, -1);
    bool active = false;

    for (int64_t i = 0; links.known && !active && i < links.v && i < QUERY_C2C_MAX; i++)
        active = maybe_is(query_field(q, NVML_FI_DEV_C2C_LINK_GET_STATUS, (int)i), 1);
    if (links.known)
        q->gpu->c2c = maybe_of(active);
}

/* ---- one GPU, all GPUs ---- */
static void query_gpu(struct nvml_query *q)
{
    struct hw_gpu *g = q->gpu;
    int rc = QUERY(q, DeviceGetHandleByIndex_v2, (q->index, &q->dev));

    if (query_older(rc))
        rc = QUERY(q, DeviceGetHandleByIndex, (q->index, &q->dev));
    if (rc != NVML_SUCCESS || !q->dev) {
        q->dev = NULL;
        g->state = q->lost ? "lost" : "error";
        return;
    }
    query_identity(q);
    query_chip(q);
    g->mem_total_bytes = query_memory(q, &g->mem_reserved_bytes, &g->mem_used_bytes);
    query_bus(q);
    query_clocks(q);
    query_power(q);
    query_heat(q);
    query_ecc(q);
    query_modes(q);
    query_fabric(q);
    query_c2c(q);
    query_links(q);
    query_migs(q);
    g->state = q->lost ? "lost" : "ok";
    for (size_t i = 0; i < q->errors_count; i++)
        if (maybe_is(q->errors[i].code, NVML_ERROR_RESET_REQUIRED))
            g->state = q->lost ? "lost" : "error";
}

/* One line: the part of the document that `n` holds. */
static void send_part(struct child_link *l, const struct hw_nvml *n, bool nvidia)
{
    struct buf line = { .max = NVML_DOC_MAX };
    struct json_out w;

    json_out_init(&w, &line, 0);
    json_obj(&w);
    if (nvidia) {
        json_key(&w, "nvidia");
        fields_write(&w, &hw_nvidia_table, &n->nvidia);
    }
    json_kv_arr(&w, "gpus");
    for (size_t i = 0; i < n->gpus_count; i++)
        fields_write(&w, &hw_gpu_table, &n->gpus[i]);
    json_arr_end(&w);
    json_kv_arr(&w, "pairs");
    for (size_t i = 0; i < n->pairs_count; i++)
        fields_write(&w, &hw_gpu_pair_table, &n->pairs[i]);
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(&line, '\n');
    if (!line.over)
        child_send(l, line.data, line.len);
    buf_release(&line);
}

static int query_driver(struct nvml_query *q, struct hw_nvidia *nv, unsigned *count)
{
    const char *call = "nvmlInit_v2";
    char text[NVML_TEXT_MAX] = "";
    int cuda = 0;
    int rc = QUERY(q, Init_v2, ());

    if (query_older(rc))
        rc = QUERY(q, Init, ());
    if (rc == NVML_SUCCESS) {
        if (QUERY(q, SystemGetDriverVersion, (text, sizeof(text) - 1)) == NVML_SUCCESS)
            nv->driver_version = query_text(q, text);
        if (QUERY(q, SystemGetNVMLVersion, (text, sizeof(text) - 1)) == NVML_SUCCESS)
            nv->nvml_version = query_text(q, text);
        rc = QUERY(q, SystemGetCudaDriverVersion_v2, (&cuda));
        if (query_older(rc))
            rc = QUERY(q, SystemGetCudaDriverVersion, (&cuda));
        nv->cuda_driver = rc == NVML_SUCCESS ? maybe_of(cuda) : maybe_none();
        call = "nvmlDeviceGetCount_v2";
        rc = QUERY(q, DeviceGetCount_v2, (count));
        if (query_older(rc))
            rc = QUERY(q, DeviceGetCount, (count));
    }
    if (rc != NVML_SUCCESS)
        nv->nvml_error = arena_printf(q->a, "%s: %s (%d)", call, code_text(q, rc), rc);
    return rc;
}

static struct nvml_query query_for(const struct nvml_query *driver, struct hw_gpu *gpu,
                                   unsigned index)
{
    return (struct nvml_query){ .link = driver->link,
                                .api = driver->api,
                                .a = driver->a,
                                .gpu = gpu,
                                .index = index,
                                .mig = -1,
                                .scope = -1 };
}

static void send_pairs(const struct nvml_query *driver, struct nvml_dev *const *devs,
                       unsigned count)
{
    struct hw_gpu_pair *pairs = arena_array(driver->a, struct hw_gpu_pair, count * (count + 1) / 2);
    struct hw_nvml part = { .pairs = pairs };
    struct hw_gpu unused = { 0 }; /* its errors have left the child already */

    for (unsigned i = 0; i < count; i++) {
        struct nvml_query q = query_for(driver, &unused, i);

        q.dev = devs[i];
        for (unsigned j = i + 1; devs[i] && j < count; j++)
            if (devs[j])
                query_pair(&q, devs[j], j, &pairs[part.pairs_count++]);
    }
    send_part(driver->link, &part, false);
}

/* Announces all GPUs, so that the parent knows whom a hang kept from answering. */
static void send_driver(const struct nvml_query *q, const struct hw_nvidia *nv, unsigned count)
{
    struct hw_nvml part = { .nvidia = *nv, .gpus_count = count };

    part.gpus = arena_array(q->a, struct hw_gpu, count ? count : 1);
    for (unsigned i = 0; i < count; i++)
        part.gpus[i] = (struct hw_gpu){ .index = maybe_of(i), .state = "unanswered" };
    send_part(q->link, &part, true);
}

static void query_all(const struct nvml_query *driver, unsigned count)
{
    struct nvml_dev *devs[NVML_GPUS_MAX] = { NULL };

    for (unsigned i = 0; i < count; i++) {
        struct hw_gpu gpu = { .index = maybe_of(i) };
        struct hw_nvml part = { .gpus = &gpu, .gpus_count = 1 };
        struct nvml_query q = query_for(driver, &gpu, i);

        query_gpu(&q);
        gpu.errors = q.errors;
        gpu.errors_count = q.errors_count;
        devs[i] = q.lost ? NULL : q.dev;
        send_part(driver->link, &part, false);
    }
    send_pairs(driver, devs, count);
}

void nvml_child(struct child_link *l, void *arg)
{
    struct arena arena = { 0 };
    struct nvml_api api;
    struct hw_nvidia nv = { 0 };
    struct nvml_query q = { .link = l, .api = &api, .a = &arena, .mig = -1, .scope = -1 };
    struct err err = { 0 };
    unsigned count = 0;

    child_step(l, "dlopen(%s)", arg ? (const char *)arg : "libnvidia-ml.so.1");
    if (nvml_load(&arena, arg, &api, &err)) {
        nv.nvml_error = err.msg;
        send_driver(&q, &nv, 0);
        arena_release(&arena);
        return;
    }
    nv.nvml_library = api.soname;
    send_driver(&q, &nv, 0); /* should the first call hang */
    if (query_driver(&q, &nv, &count) != NVML_SUCCESS)
        count = 0;
    if (count > NVML_GPUS_MAX)
        count = NVML_GPUS_MAX;
    send_driver(&q, &nv, count);
    query_all(&q, count);
    arena_release(&arena);
}
