/* SPDX-License-Identifier: MIT */
/* nvml_link: questions whose answers are lists: NVLinks, MIG instances, peers. */
#include "hw/nvml/nvml_int.h"

#include "base/str.h"

/* ---- NVLink ---- */

/* Megabytes a second of one link: the field with a scope (Hopper's drivers on), the
 * field of that link, the field for all links. */
static struct maybe link_speed(struct nvml_query *q, unsigned link)
{
    struct maybe v = query_field(q, NVML_FI_DEV_NVLINK_GET_SPEED, (int)link);

    if (!v.known && link < 6)
        v = query_field(q, (enum nvml_field)(NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 + link), -1);
    if (!v.known && link >= 6 && link < 12)
        v = query_field(q, (enum nvml_field)(NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + link - 6), -1);
    return v.known ? v : query_field(q, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, -1);
}

/* What is at the other end; only a link that is up knows. */
static void link_end(struct nvml_query *q, struct hw_nvlink *out)
{
    struct nvml_pci pci = { 0 };
    char bdf[NVML_BDF_MAX];
    unsigned link = (unsigned)out->link.v;
    const char *text = pci.bus_id;
    int kind = 0;
    int rc;

    if (QUERY_SUB(q, (int)link, DeviceGetNvLinkRemoteDeviceType, (q->dev, link, &kind)) ==
        NVML_SUCCESS)
        out->remote_kind = nvml_word(q->a, nvml_link_ends, kind);
    rc = QUERY_SUB(q, (int)link, DeviceGetNvLinkRemotePciInfo_v2, (q->dev, link, &pci));
    if (query_older(rc)) {
        text = pci.bus_id_legacy;
        rc = QUERY_SUB(q, (int)link, DeviceGetNvLinkRemotePciInfo, (q->dev, link, &pci));
    }
    pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
    pci.bus_id_legacy[sizeof(pci.bus_id_legacy) - 1] = '\0';
    if (rc == NVML_SUCCESS && nvml_bdf(text, bdf))
        out->remote_bdf = arena_strdup(q->a, bdf);
}

static void link_facts(struct nvml_query *q, struct hw_nvlink *out)
{
    unsigned link = (unsigned)out->link.v;
    unsigned version = 0;

    if (QUERY_SUB(q, (int)link, DeviceGetNvLinkVersion, (q->dev, link, &version)) == NVML_SUCCESS)
        out->version = maybe_of(version);
    if (out->active.v) {
        out->speed_mbps = link_speed(q, link);
        link_end(q, out);
    }
}

void query_links(struct nvml_query *q)
{
    struct hw_nvlink *links = arena_array(q->a, struct hw_nvlink, NVML_NVLINK_MAX_LINKS);
    struct maybe total = query_field(q, NVML_FI_DEV_NVLINK_LINK_COUNT, -1);
    int64_t count = maybe_or(total, NVML_LINKS_USUAL);
    size_t n = 0;

    for (unsigned link = 0; link < count && link < NVML_NVLINK_MAX_LINKS && !q->lost; link++) {
        int active = 0;

        if (QUERY_OR(q, (int)link, NVML_ERROR_INVALID_ARGUMENT, DeviceGetNvLinkState,
                     (q->dev, link, &active)) != NVML_SUCCESS)
            continue;
        links[n] = (struct hw_nvlink){ .link = maybe_of(link), .active = maybe_of(active != 0) };
        link_facts(q, &links[n]);
        n++;
    }
    if (n > 0) {
        q->gpu->nvlinks = links;
        q->gpu->nvlinks_count = n;
    }
    q->gpu->nvlinks_total = total.known || n == 0 ? total : maybe_of((int64_t)n);
}

/* ---- MIG ---- */

/* "NVIDIA H200 MIG 1g.18gb" to "1g.18gb" */
static const char *mig_name(struct nvml_query *q)
{
    char text[NVML_TEXT_MAX] = "";
    const char *at;

    if (QUERY(q, DeviceGetName, (q->dev, text, sizeof(text) - 1)) != NVML_SUCCESS)
        return NULL;
    at = strstr(text, " MIG ");
    if (at)
        memmove(text, at + 5, strlen(at + 5) + 1);
    return query_text(q, text);
}

static void mig_facts(struct nvml_query *q, struct hw_mig *out)
{
    struct nvml_attributes at = { 0 };
    char uuid[NVML_TEXT_MAX] = "";
    unsigned gi = 0, ci = 0;
    int rc;

    if (QUERY(q, DeviceGetGpuInstanceId, (q->dev, &gi)) == NVML_SUCCESS)
        out->gi = maybe_of(gi);
    if (QUERY(q, DeviceGetComputeInstanceId, (q->dev, &ci)) == NVML_SUCCESS)
        out->ci = maybe_of(ci);
    if (QUERY(q, DeviceGetUUID, (q->dev, uuid, sizeof(uuid) - 1)) == NVML_SUCCESS)
        out->uuid = query_text(q, uuid);
    out->name = mig_name(q);
    out->mem_bytes = query_memory(q, NULL, NULL);
    rc = QUERY(q, DeviceGetAttributes_v2, (q->dev, &at));
    if (query_older(rc))
        rc = QUERY(q, DeviceGetAttributes, (q->dev, &at));
    if (rc != NVML_SUCCESS)
        return;
    out->sms = maybe_of(at.sms);
    out->slices = maybe_of(at.gpu_slices);
    if (!out->mem_bytes.known && at.memory_mib <= INT64_MAX >> 20)
        out->mem_bytes = maybe_of((int64_t)at.memory_mib << 20);
}

/* Instances are asked for by number; numbers in between may be free. */
static size_t mig_list(struct nvml_query *q, unsigned max, struct hw_mig *migs)
{
    struct nvml_dev *gpu = q->dev;
    size_t n = 0;

    for (unsigned i = 0; i < max && n < NVML_MIGS_MAX && !q->lost; i++) {
        struct nvml_dev *dev = NULL;
        int rc;

        rc = QUERY_OR(q, (int)i, NVML_ERROR_NOT_FOUND, DeviceGetMigDeviceHandleByIndex,
                      (gpu, i, &dev));
        if (rc == NVML_ERROR_NOT_FOUND)
            continue;
        if (rc != NVML_SUCCESS || !dev)
            break;
        q->dev = dev;
        q->mig = (int)n;
        mig_facts(q, &migs[n++]);
        q->mig = -1;
        q->dev = gpu;
    }
    return n;
}

void query_migs(struct nvml_query *q)
{
    unsigned now = 0, next = 0, max = 0;

    if (QUERY(q, DeviceGetMigMode, (q->dev, &now, &next)) != NVML_SUCCESS)
        return; /* a chip without MIG */
    q->gpu->mig = maybe_of(now != 0);
    q->gpu->mig_pending = maybe_of(next != 0);
    if (QUERY(q, DeviceGetMaxMigDeviceCount, (q->dev, &max)) != NVML_SUCCESS)
        return;
    q->gpu->mig_max = maybe_of(max);
    if (!now)
        return;
    q->gpu->migs = arena_array(q->a, struct hw_mig, NVML_MIGS_MAX);
    q->gpu->migs_count = mig_list(q, max, q->gpu->migs);
}

/* ---- peers ---- */
static const char *p2p_word(struct nvml_query *q, struct nvml_dev *other, unsigned index, int what)
{
    int status = 0;

    if (QUERY_SUB(q, (int)index, DeviceGetP2PStatus, (q->dev, other, what, &status)) !=
        NVML_SUCCESS)
        return NULL;
    return nvml_word(q->a, nvml_p2p_states, status);
}

void query_pair(struct nvml_query *q, struct nvml_dev *other, unsigned other_index,
                struct hw_gpu_pair *out)
{
    out->a = maybe_of(q->index);
    out->b = maybe_of(other_index);
    out->p2p_read = p2p_word(q, other, other_index, NVML_P2P_CAPS_INDEX_READ);
    out->p2p_write = p2p_word(q, other, other_index, NVML_P2P_CAPS_INDEX_WRITE);
    out->p2p_nvlink = p2p_word(q, other, other_index, NVML_P2P_CAPS_INDEX_NVLINK);
    out->p2p_atomics = p2p_word(q, other, other_index, NVML_P2P_CAPS_INDEX_ATOMICS);
}
