/* SPDX-License-Identifier: MIT */
/* catalog: facts about hardware and software that no machine tells by itself.
 *
 * The tables are CSV files in data/, compiled in; each row names its source.  A
 * table is parsed into a caller's arena when it is asked for: a few hundred rows
 * cost less than keeping them for a whole run.  Unknown cells stay unknown. */
#ifndef CATALOG_CATALOG_H
#define CATALOG_CATALOG_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/maybe.h"

/* ---- NCCL's environment variables (data/nccl_env.csv) ---- */
struct cat_nccl {
    const char *name;
    const char *dflt;    /* "(string)": none; "(removed)"; "(not NCCL)": read by others */
    const char *values;  /* what it takes, with the unit; "" when we have no words for it */
    const char *meaning; /* in our words; "" likewise */
    const char *since;   /* NCCL version; "" when its guide does not say */
    const char *source;
};

struct cat_nccl_table {
    const struct cat_nccl *rows; /* sorted by name */
    size_t count;
};

enum rc cat_nccl_load(struct arena *a, struct cat_nccl_table *out, struct err *err) MUST_USE;
/* NULL when NCCL has no such variable. */
const struct cat_nccl *cat_nccl_find(const struct cat_nccl_table *t, const char *name);
/* The known name nearest to a misspelt one; NULL when none is near. */
const char *cat_nccl_nearest(const struct cat_nccl_table *t, const char *name);

/* ---- GPUs (data/gpus.csv) ---- */
enum { CAT_GPU_IDS_MAX = 4 };
struct cat_gpu {
    const char *name;                 /* ours: "H100 SXM5 80GB" */
    const char *match;                /* parts of the driver's product name, separated by | */
    int64_t pci_ids[CAT_GPU_IDS_MAX]; /* device ids under vendor 0x10de */
    size_t pci_ids_count;
    const char *arch;          /* "Hopper" */
    const char *compute;       /* "9.0" */
    struct maybe mem_gb;       /* as sold */
    struct maybe mem_gbps;     /* gigabytes a second */
    struct maybe nvlink_gen;   /* unknown: no NVLink */
    struct maybe nvlink_links; /* 0: none; unknown where nobody could be found who says it */
    struct maybe nvlink_gbps;  /* gigabytes a second, all links, one direction; likewise */
    struct maybe tdp_w;
    struct maybe bf16_tflops;   /* dense */
    struct maybe fp8_tflops;    /* dense; unknown: the GPU has no fp8 */
    struct maybe c2c;           /* bool: NVLink-C2C to its processor; unknown: no */
    struct maybe nvlink_bridge; /* bool: NVLink only where a bridge is plugged; unknown: no */
    /* for the planner */
    const char *alias;          /* what a user types, separated by |, the usual one first; "" */
    struct maybe mem_mib;       /* as the driver tells it */
    struct maybe sms;           /* multiprocessors */
    struct maybe fp4_tflops;    /* dense; unknown: the GPU has no fp4 */
    struct maybe fp32_gflops;   /* of plain fp32, without TF32's tensor cores */
    struct maybe bf16_best;     /* TFLOP/s of the best shape anyone measured */
    struct maybe fp8_best;      /* likewise */
    struct maybe price_cents_h; /* of a GPU-hour, US cents */
    const char *price_date;     /* "2026-08-22"; "" */
    const char *plan_note;      /* whose constants stand in; "" */
    const char *source;
};

struct cat_gpu_table {
    const struct cat_gpu *rows;
    size_t count;
};

enum rc cat_gpu_load(struct arena *a, struct cat_gpu_table *out, struct err *err) MUST_USE;
/* By PCI device id when known, else by the product name the driver gives; NULL: not
 * in the table. */
const struct cat_gpu *cat_gpu_find(const struct cat_gpu_table *t, struct maybe pci_device,
                                   const char *product);
/* Is a size what the card is sold with, in GB or GiB, or what its driver tells?  True where the
 * table does not know. */
bool cat_gpu_memory_is(const struct cat_gpu *g, int64_t bytes);

/* By a name that a person writes: one of the aliases, our name, or a part of the driver's; case,
 * blanks, '-' and '_' do not count, nor a leading "NVIDIA".  NULL: not in the table; then `near`
 * (which may be NULL) is an alias that is close to it, or NULL. */
const struct cat_gpu *cat_gpu_named(const struct cat_gpu_table *t, const char *name,
                                    const char **near);
/* The generation of the NVLink that joins these GPUs in every machine they are sold in; 0: none.
 * PCIe cards may have bridges, which only a site can know. */
int cat_gpu_nvlink(const struct cat_gpu *g);
/* Is it on a board with an Arm CPU (GH200, GB200, GB300)? */
bool cat_gpu_is_grace(const struct cat_gpu *g);

/* ---- MIG profiles (data/mig.csv) ---- */
/* How many instances of a profile such as "1g.10gb" the GPU holds; 0: it has no such profile, or no
 * MIG at all; unknown: the table does not say. */
struct maybe cat_mig_instances(const struct cat_gpu *g, const char *profile);
/* "1g.10gb, 2g.20gb ..."; nothing when there are none or the table does not say. */
void cat_mig_list(const struct cat_gpu *g, struct buf *out);

/* ---- default alerts (data/alerts.csv), and their causes (data/alert_causes.csv) ---- */
struct csv;
enum rc cat_alerts_load(struct arena *a, struct csv *out, struct err *err) MUST_USE;
enum rc cat_alert_causes_load(struct arena *a, struct csv *out, struct err *err) MUST_USE;

#endif
