/* SPDX-License-Identifier: MIT */
/* The fake's functions: one for each row of NVML_CALLS, each the inverse of the
 * question in src/hw/nvml/nvml_query.c or nvml_link.c.  fakenvml.h says what this is. */
#include "fakenvml.h"

#include "base/str.h"

#define EXPORT                       __attribute__((visibility("default")))
#define FAKE_PROTOTYPE(name, params) EXPORT int nvml##name params;
NVML_CALLS(FAKE_PROTOTYPE)
EXPORT const char *nvmlErrorString(int code);

/* The linker then misses a function that this file lacks. */
#define FAKE_ADDRESS(name, params) (void (*)(void)) nvml##name,
extern void (*const fake_functions[])(void);
EXPORT void (*const fake_functions[])(void) = { NVML_CALLS(FAKE_ADDRESS) };

/* Returns from the caller: the fake's one macro that does, for 60 functions alike. */
#define GATE(call, d, sub)                                                                         \
    do {                                                                                           \
        int rc_ = fake_gate("nvml" #call, (d), (sub));                                             \
        if (rc_)                                                                                   \
            return rc_;                                                                            \
    } while (0)
#define GATE_NEW(call, d, sub) /* a call that the driver of 2019 lacks */                          \
    do {                                                                                           \
        if (fake_is_old())                                                                         \
            return NVML_ERROR_FUNCTION_NOT_FOUND;                                                  \
        GATE(call, d, sub);                                                                        \
    } while (0)

/* A function that is one expression of its GPU. */
#define FAKE(gate, call, type, answer)                                                             \
    int nvml##call(struct nvml_dev *d, type *out)                                                  \
    {                                                                                              \
        gate(call, d, QUERY_NO_SUB);                                                               \
        return answer;                                                                             \
    }

/* ---- answers ---- */
static int give_text(const char *s, char *out, unsigned len)
{
    if (!s)
        return NVML_ERROR_NOT_SUPPORTED;
    return str_copy(out, len, s) ? NVML_SUCCESS : 7; /* insufficient size */
}

static int give_uint(struct maybe v, unsigned *out)
{
    if (!v.known)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned)v.v;
    return NVML_SUCCESS;
}

static int give_int(struct maybe v, int *out)
{
    if (!v.known)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (int)v.v;
    return NVML_SUCCESS;
}

static int give_code(const struct nvml_word *table, const char *word, int *out)
{
    return nvml_code(table, word, out) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static int give_pci(const char *bdf, struct nvml_pci *out, bool modern)
{
    unsigned domain, bus, slot, fn;

    if (!bdf || sscanf(bdf, "%x:%x:%x.%x", &domain, &bus, &slot, &fn) != 4)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(out, 0, sizeof(*out));
    snprintf(out->bus_id_legacy, sizeof(out->bus_id_legacy), "%04X:%02X:%02X.%X", domain & 0xffff,
             bus & 0xff, slot & 0x1f, fn & 7);
    if (modern)
        snprintf(out->bus_id, sizeof(out->bus_id), "%08X:%02X:%02X.%X", domain, bus & 0xff,
                 slot & 0x1f, fn & 7);
    out->domain = domain;
    out->bus = bus;
    out->device = slot;
    return NVML_SUCCESS;
}

/* ---- the library ---- */
const char *nvmlErrorString(int code)
{
    return fake_code_text(code);
}

int nvmlInit_v2(void)
{
    if (!fake_load())
        return 9; /* driver not loaded */
    GATE_NEW(Init_v2, NULL, QUERY_NO_SUB);
    return NVML_SUCCESS;
}

int nvmlInit(void)
{
    if (!fake_load())
        return 9;
    GATE(Init, NULL, QUERY_NO_SUB);
    return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, unsigned len)
{
    GATE(SystemGetDriverVersion, NULL, QUERY_NO_SUB);
    return give_text(fake.doc.nvidia.driver_version, out, len);
}

int nvmlSystemGetNVMLVersion(char *out, unsigned len)
{
    GATE(SystemGetNVMLVersion, NULL, QUERY_NO_SUB);
    return give_text(fake.doc.nvidia.nvml_version, out, len);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    GATE_NEW(SystemGetCudaDriverVersion_v2, NULL, QUERY_NO_SUB);
    return give_int(fake.doc.nvidia.cuda_driver, out);
}

int nvmlSystemGetCudaDriverVersion(int *out)
{
    GATE(SystemGetCudaDriverVersion, NULL, QUERY_NO_SUB);
    return give_int(fake.doc.nvidia.cuda_driver, out);
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    GATE_NEW(DeviceGetCount_v2, NULL, QUERY_NO_SUB);
    *out = (unsigned)fake.doc.gpus_count;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount(unsigned *out)
{
    GATE(DeviceGetCount, NULL, QUERY_NO_SUB);
    *out = (unsigned)fake.doc.gpus_count;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_dev **out)
{
    int rc = fake_is_old() ? NVML_ERROR_FUNCTION_NOT_FOUND
                           : fake_gate_index("nvmlDeviceGetHandleByIndex_v2", index);

    if (rc == NVML_SUCCESS)
        *out = &fake.devs[index];
    return rc;
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct nvml_dev **out)
{
    int rc = fake_gate_index("nvmlDeviceGetHandleByIndex", index);

    if (rc == NVML_SUCCESS)
        *out = &fake.devs[index];
    return rc;
}

/* ---- identity ---- */
FAKE(GATE_NEW, DeviceGetPciInfo_v3, struct nvml_pci, give_pci(d->gpu->bdf, out, true))
FAKE(GATE_NEW, DeviceGetPciInfo_v2, struct nvml_pci, give_pci(d->gpu->bdf, out, false))
FAKE(GATE, DeviceGetPciInfo, struct nvml_pci, give_pci(d->gpu->bdf, out, false))

int nvmlDeviceGetName(struct nvml_dev *d, char *out, unsigned len)
{
    char name[NVML_TEXT_MAX];

    GATE(DeviceGetName, d, QUERY_NO_SUB);
    if (!d->mig)
        return give_text(d->gpu->name, out, len);
    if (!d->mig->name)
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(name, sizeof(name), "%s MIG %s", d->gpu->name ? d->gpu->name : "", d->mig->name);
    return give_text(name, out, len);
}

int nvmlDeviceGetUUID(struct nvml_dev *d, char *out, unsigned len)
{
    GATE(DeviceGetUUID, d, QUERY_NO_SUB);
    return give_text(d->mig ? d->mig->uuid : d->gpu->uuid, out, len);
}

FAKE(GATE_NEW, DeviceGetGspFirmwareVersion, char, give_text(d->gpu->gsp_firmware, out, 64))

/* One member, one function. */
#define FAKE_TEXT(call, member)                                                                    \
    int nvml##call(struct nvml_dev *d, char *out, unsigned len)                                    \
    {                                                                                              \
        GATE(call, d, QUERY_NO_SUB);                                                               \
        return give_text(d->gpu->member, out, len);                                                \
    }
#define FAKE_UINT(gate, call, member)  FAKE(gate, call, unsigned, give_uint(d->gpu->member, out))
#define FAKE_INT(call, member)         FAKE(GATE, call, int, give_int(d->gpu->member, out))
#define FAKE_CODE(call, table, member) FAKE(GATE, call, int, give_code(table, d->gpu->member, out))

FAKE_TEXT(DeviceGetSerial, serial)
FAKE_TEXT(DeviceGetBoardPartNumber, board_part)
FAKE_TEXT(DeviceGetVbiosVersion, vbios)
FAKE_TEXT(DeviceGetInforomImageVersion, inforom)
FAKE_UINT(GATE, DeviceGetMinorNumber, minor)
FAKE_UINT(GATE_NEW, DeviceGetNumGpuCores, cores)
FAKE_UINT(GATE_NEW, DeviceGetMemoryBusWidth, mem_bus_bits)
FAKE_UINT(GATE, DeviceGetCurrPcieLinkGeneration, pcie_gen)
FAKE_UINT(GATE, DeviceGetMaxPcieLinkGeneration, pcie_gen_max)
FAKE_UINT(GATE, DeviceGetCurrPcieLinkWidth, pcie_width)
FAKE_UINT(GATE, DeviceGetMaxPcieLinkWidth, pcie_width_max)
FAKE_UINT(GATE, DeviceGetEnforcedPowerLimit, power_limit_mw)
FAKE_UINT(GATE, DeviceGetPowerManagementLimit, power_limit_mw)
FAKE_UINT(GATE, DeviceGetPowerManagementDefaultLimit, power_default_mw)
FAKE_UINT(GATE_NEW, DeviceGetMaxMigDeviceCount, mig_max)
FAKE_INT(DeviceGetPersistenceMode, persistence)
FAKE_CODE(DeviceGetBrand, nvml_brands, brand)
FAKE_CODE(DeviceGetComputeMode, nvml_compute_modes, compute_mode)
FAKE_CODE(DeviceGetVirtualizationMode, nvml_virtualizations, virtualization)

int nvmlDeviceGetArchitecture(struct nvml_dev *d, unsigned *out)
{
    int code = 0, rc;

    GATE_NEW(DeviceGetArchitecture, d, QUERY_NO_SUB);
    rc = give_code(nvml_archs, d->gpu->arch, &code);
    *out = (unsigned)code;
    return rc;
}

int nvmlDeviceGetCudaComputeCapability(struct nvml_dev *d, int *major, int *minor)
{
    int rc;

    GATE(DeviceGetCudaComputeCapability, d, QUERY_NO_SUB);
    rc = give_int(d->gpu->compute_major, major);
    return rc ? rc : give_int(d->gpu->compute_minor, minor);
}

static int give_attributes(const struct nvml_dev *d, struct nvml_attributes *out)
{
    memset(out, 0, sizeof(*out));
    if (!d->mig)
        return give_uint(d->gpu->sms, &out->sms);
    out->memory_mib = (unsigned long long)maybe_or(d->mig->mem_bytes, 0) >> 20;
    out->gpu_slices = (unsigned)maybe_or(d->mig->slices, 0);
    return give_uint(d->mig->sms, &out->sms);
}

FAKE(GATE_NEW, DeviceGetAttributes_v2, struct nvml_attributes, give_attributes(d, out))
FAKE(GATE_NEW, DeviceGetAttributes, struct nvml_attributes, give_attributes(d, out))

/* ---- memory and bus ---- */
static struct maybe total_memory(const struct nvml_dev *d)
{
    return d->mig ? d->mig->mem_bytes : d->gpu->mem_total_bytes;
}

static int64_t used_memory(const struct nvml_dev *d)
{
    struct maybe now = fake_live_number(d, "used_bytes");

    return now.known && !d->mig ? now.v : maybe_or(d->gpu->mem_used_bytes, 0);
}

int nvmlDeviceGetMemoryInfo_v2(struct nvml_dev *d, struct nvml_memory_v2 *out)
{
    struct maybe total = total_memory(d);

    if (out->version != NVML_STRUCT_VERSION(nvml_memory_v2, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    GATE_NEW(DeviceGetMemoryInfo_v2, d, QUERY_NO_SUB);
    if (!d->mig && !d->gpu->mem_reserved_bytes.known) /* the document's driver is older */
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!total.known)
        return NVML_ERROR_NOT_SUPPORTED;
    out->total = (unsigned long long)total.v;
    out->reserved = (unsigned long long)maybe_or(d->gpu->mem_reserved_bytes, 0);
    out->used = (unsigned long long)used_memory(d);
    out->free = out->total - out->reserved - out->used;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct nvml_dev *d, struct nvml_memory *out)
{
    struct maybe total = total_memory(d);

    GATE(DeviceGetMemoryInfo, d, QUERY_NO_SUB);
    if (!total.known)
        return NVML_ERROR_NOT_SUPPORTED;
    out->total = (unsigned long long)total.v;
    out->used = (unsigned long long)used_memory(d);
    out->free = out->total - out->used;
    return NVML_SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(struct nvml_dev *d, struct nvml_bar1 *out)
{
    GATE(DeviceGetBAR1MemoryInfo, d, QUERY_NO_SUB);
    if (!d->gpu->bar1_bytes.known)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (struct nvml_bar1){ .total = (unsigned long long)d->gpu->bar1_bytes.v };
    return NVML_SUCCESS;
}

/* ---- clocks, power, heat ---- */
/* A value of the live document, else of the other. */
static struct maybe newer(const struct nvml_dev *d, const char *key, struct maybe dflt)
{
    struct maybe now = fake_live_number(d, key);

    return now.known ? now : dflt;
}

static struct maybe clock_of(int type, struct maybe sm, struct maybe mem)
{
    return type == NVML_CLOCK_MEM ? mem : sm;
}

int nvmlDeviceGetClockInfo(struct nvml_dev *d, int type, unsigned *out)
{
    GATE(DeviceGetClockInfo, d, type);
    return give_uint(newer(d, type == NVML_CLOCK_MEM ? "clock_mem" : "clock_sm",
                           clock_of(type, d->gpu->clock_sm_mhz, d->gpu->clock_mem_mhz)),
                     out);
}

int nvmlDeviceGetMaxClockInfo(struct nvml_dev *d, int type, unsigned *out)
{
    GATE(DeviceGetMaxClockInfo, d, type);
    return give_uint(clock_of(type, d->gpu->clock_sm_max_mhz, d->gpu->clock_mem_max_mhz), out);
}

int nvmlDeviceGetApplicationsClock(struct nvml_dev *d, int type, unsigned *out)
{
    GATE(DeviceGetApplicationsClock, d, type);
    return give_uint(clock_of(type, d->gpu->clock_app_sm_mhz, d->gpu->clock_app_mem_mhz), out);
}

int nvmlDeviceGetClock(struct nvml_dev *d, int type, int id, unsigned *out)
{
    GATE(DeviceGetClock, d, type);
    if (id != NVML_CLOCK_ID_APP_CLOCK_TARGET)
        return NVML_ERROR_INVALID_ARGUMENT;
    return give_uint(clock_of(type, d->gpu->clock_app_sm_mhz, d->gpu->clock_app_mem_mhz), out);
}

FAKE(GATE, DeviceGetPowerUsage, unsigned, give_uint(newer(d, "power_mw", d->gpu->power_mw), out))

int nvmlDeviceGetPowerManagementLimitConstraints(struct nvml_dev *d, unsigned *min, unsigned *max)
{
    int rc;

    GATE(DeviceGetPowerManagementLimitConstraints, d, QUERY_NO_SUB);
    rc = give_uint(d->gpu->power_min_mw, min);
    return rc ? rc : give_uint(d->gpu->power_max_mw, max);
}

int nvmlDeviceGetTemperatureV(struct nvml_dev *d, struct nvml_temperature *out)
{
    GATE_NEW(DeviceGetTemperatureV, d, QUERY_NO_SUB);
    if (out->version != NVML_STRUCT_VERSION(nvml_temperature, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return give_int(newer(d, "temp", d->gpu->temp_c), &out->celsius);
}

int nvmlDeviceGetTemperature(struct nvml_dev *d, int sensor, unsigned *out)
{
    GATE(DeviceGetTemperature, d, sensor);
    return give_uint(d->gpu->temp_c, out);
}

int nvmlDeviceGetTemperatureThreshold(struct nvml_dev *d, int which, unsigned *out)
{
    GATE(DeviceGetTemperatureThreshold, d, which);
    switch (which) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        return give_uint(d->gpu->temp_shutdown_c, out);
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        return give_uint(d->gpu->temp_slowdown_c, out);
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
        return give_uint(d->gpu->temp_max_c, out);
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlDeviceGetMarginTemperature(struct nvml_dev *d, struct nvml_margin *out)
{
    GATE_NEW(DeviceGetMarginTemperature, d, QUERY_NO_SUB);
    if (out->version != NVML_STRUCT_VERSION(nvml_margin, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return give_int(d->gpu->temp_margin_c, &out->celsius);
}

/* ---- errors and modes ---- */
int nvmlDeviceGetEccMode(struct nvml_dev *d, int *now, int *next)
{
    int rc;

    GATE(DeviceGetEccMode, d, QUERY_NO_SUB);
    rc = give_int(d->gpu->ecc, now);
    return rc ? rc : give_int(d->gpu->ecc_pending, next);
}

int nvmlDeviceGetRemappedRows(struct nvml_dev *d, unsigned *corr, unsigned *uncorr,
                              unsigned *pending, unsigned *failed)
{
    GATE_NEW(DeviceGetRemappedRows, d, QUERY_NO_SUB);
    if (give_uint(d->gpu->remap_correctable, corr) ||
        give_uint(d->gpu->remap_uncorrectable, uncorr) ||
        give_uint(d->gpu->remap_pending, pending) || give_uint(d->gpu->remap_failed, failed))
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

int nvmlDeviceGetAddressingMode(struct nvml_dev *d, struct nvml_addressing *out)
{
    int mode = 0, rc;

    GATE_NEW(DeviceGetAddressingMode, d, QUERY_NO_SUB);
    if (out->version != NVML_STRUCT_VERSION(nvml_addressing, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    rc = give_code(nvml_addressings, d->gpu->addressing, &mode);
    out->mode = (unsigned)mode;
    return rc;
}

/* ---- MIG ---- */
int nvmlDeviceGetMigMode(struct nvml_dev *d, unsigned *now, unsigned *next)
{
    int rc;

    GATE_NEW(DeviceGetMigMode, d, QUERY_NO_SUB);
    rc = give_uint(d->gpu->mig, now);
    return rc ? rc : give_uint(d->gpu->mig_pending, next);
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_dev *d, unsigned index, struct nvml_dev **out)
{
    GATE_NEW(DeviceGetMigDeviceHandleByIndex, d, (int)index);
    if (index >= d->gpu->migs_count)
        return NVML_ERROR_NOT_FOUND;
    *out = &fake.migs[d->index][index];
    return NVML_SUCCESS;
}

FAKE(GATE_NEW, DeviceGetGpuInstanceId, unsigned,
     d->mig ? give_uint(d->mig->gi, out) : NVML_ERROR_INVALID_ARGUMENT)
FAKE(GATE_NEW, DeviceGetComputeInstanceId, unsigned,
     d->mig ? give_uint(d->mig->ci, out) : NVML_ERROR_INVALID_ARGUMENT)

/* ---- fabric ---- */
static void parse_uuid(const char *text, unsigned char out[16])
{
    size_t n = 0;

    memset(out, 0, 16);
    for (; text && *text && n < 32; text++) {
        const char *hex = "0123456789abcdef", *at = strchr(hex, *text);

        if (at && *text) {
            out[n / 2] = (unsigned char)(out[n / 2] << 4 | (at - hex));
            n++;
        }
    }
}

static int give_fabric(const struct hw_gpu *g, struct nvml_fabric_v1 *out)
{
    int state = 0, rc = give_code(nvml_fabric_states, g->fabric_state, &state);

    memset(out, 0, sizeof(*out));
    if (rc)
        return rc;
    out->state = (unsigned char)state;
    out->clique = (unsigned)maybe_or(g->fabric_clique, 0);
    parse_uuid(g->fabric_cluster, out->cluster);
    if (g->fabric_status && !str_eq(g->fabric_status, "ok"))
        out->status = fake_text_code(g->fabric_status);
    return NVML_SUCCESS;
}

FAKE(GATE_NEW, DeviceGetGpuFabricInfo, struct nvml_fabric_v1, give_fabric(d->gpu, out))

int nvmlDeviceGetGpuFabricInfoV(struct nvml_dev *d, void *info)
{
    struct nvml_fabric_v2 *out = info; /* what the two versions share */
    struct nvml_fabric_v1 v1;
    int rc;

    GATE_NEW(DeviceGetGpuFabricInfoV, d, QUERY_NO_SUB);
    if (out->version != NVML_STRUCT_VERSION(nvml_fabric_v2, 2) &&
        out->version != NVML_STRUCT_VERSION(nvml_fabric_v3, 3))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    rc = give_fabric(d->gpu, &v1);
    memcpy(out->cluster, v1.cluster, sizeof(out->cluster));
    out->status = v1.status;
    out->clique = v1.clique;
    out->state = v1.state;
    return rc;
}

/* ---- fields ---- */
static const struct hw_nvlink *find_link(const struct hw_gpu *g, unsigned link)
{
    for (size_t i = 0; i < g->nvlinks_count; i++)
        if (maybe_is(g->nvlinks[i].link, link))
            return &g->nvlinks[i];
    return NULL;
}

static struct maybe field_value(const struct hw_gpu *g, const struct nvml_field_value *f)
{
    const struct hw_nvlink *l;
    int code;

    switch (f->id) {
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
        return g->ecc_sbe_volatile;
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
        return g->ecc_dbe_volatile;
    case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
        return g->ecc_sbe_total;
    case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
        return g->ecc_dbe_total;
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
        return g->nvlinks_total;
    case NVML_FI_DEV_NVLINK_GET_SPEED:
        l = find_link(g, f->scope);
        return l ? l->speed_mbps : maybe_none();
    case NVML_FI_DEV_POWER_INSTANT:
        return g->power_mw;
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
        return nvml_code(nvml_recoveries, g->recovery_action, &code) ? maybe_of(code)
                                                                     : maybe_none();
    }
    return maybe_none();
}

/* The driver of 2019 has a field for each of the first six links instead. */
static struct maybe old_field_value(const struct hw_gpu *g, const struct nvml_field_value *f)
{
    const struct hw_nvlink *l = find_link(g, f->id - NVML_FI_DEV_NVLINK_SPEED_MBPS_L0);

    if (f->id >= NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 && f->id < NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 + 6)
        return l ? l->speed_mbps : maybe_none();
    return f->id < NVML_FI_DEV_NVLINK_LINK_COUNT ? field_value(g, f) : maybe_none();
}

int nvmlDeviceGetFieldValues(struct nvml_dev *d, int count, struct nvml_field_value *values)
{
    for (int i = 0; i < count; i++) {
        struct nvml_field_value *f = &values[i];
        int scope = f->id == NVML_FI_DEV_NVLINK_GET_SPEED ? (int)f->scope : -1;
        struct maybe v = fake_is_old() ? old_field_value(d->gpu, f) : field_value(d->gpu, f), now;

        f->rc = fake_gate_scope("nvmlDeviceGetFieldValues", d, (int)f->id, scope);
        if (f->rc)
            continue;
        now = fake_live_field(d, f);
        if (now.known)
            v = now;
        f->rc = v.known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        f->type = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        f->value.ull = (unsigned long long)v.v;
    }
    return NVML_SUCCESS;
}

/* ---- NVLink and peers ---- */
int nvmlDeviceGetNvLinkState(struct nvml_dev *d, unsigned link, int *out)
{
    const struct hw_nvlink *l = find_link(d->gpu, link);

    GATE(DeviceGetNvLinkState, d, (int)link);
    return l ? give_int(l->active, out) : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkVersion(struct nvml_dev *d, unsigned link, unsigned *out)
{
    const struct hw_nvlink *l = find_link(d->gpu, link);

    GATE(DeviceGetNvLinkVersion, d, (int)link);
    return l ? give_uint(l->version, out) : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct nvml_dev *d, unsigned link, int *out)
{
    const struct hw_nvlink *l = find_link(d->gpu, link);

    GATE_NEW(DeviceGetNvLinkRemoteDeviceType, d, (int)link);
    return l ? give_code(nvml_link_ends, l->remote_kind, out) : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_dev *d, unsigned link, struct nvml_pci *out)
{
    const struct hw_nvlink *l = find_link(d->gpu, link);

    GATE_NEW(DeviceGetNvLinkRemotePciInfo_v2, d, (int)link);
    return l ? give_pci(l->remote_bdf, out, true) : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo(struct nvml_dev *d, unsigned link, struct nvml_pci *out)
{
    const struct hw_nvlink *l = find_link(d->gpu, link);

    GATE(DeviceGetNvLinkRemotePciInfo, d, (int)link);
    return l ? give_pci(l->remote_bdf, out, false) : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetP2PStatus(struct nvml_dev *d, struct nvml_dev *peer, int what, int *out)
{
    GATE(DeviceGetP2PStatus, d, (int)peer->index);
    for (size_t i = 0; i < fake.doc.pairs_count; i++) {
        const struct hw_gpu_pair *p = &fake.doc.pairs[i];
        const char *const words[NVML_P2P_COUNT] = { p->p2p_read, p->p2p_write, p->p2p_nvlink,
                                                    p->p2p_atomics };

        if (maybe_is(p->a, d->index) && maybe_is(p->b, peer->index) && what >= 0 &&
            what < NVML_P2P_COUNT)
            return give_code(nvml_p2p_states, words[what], out);
    }
    return NVML_ERROR_NOT_SUPPORTED;
}
