/* SPDX-License-Identifier: MIT */
/* The fake's document, its codes, and the ways it misbehaves. */
#include "fakenvml.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <signal.h>
#include <unistd.h>

struct fake fake;

/* What the real library says, for the codes it is known to return. */
static const struct nvml_word usual_texts[] = {
    { 0, "Success" },
    { 1, "Uninitialized" },
    { 2, "Invalid Argument" },
    { 3, "Not Supported" },
    { 4, "Insufficient Permissions" },
    { 5, "Already Initialized" },
    { 6, "Not Found" },
    { 7, "Insufficient Size" },
    { 8, "Insufficient External Power" },
    { 9, "Driver Not Loaded" },
    { 10, "Timeout" },
    { 11, "Interrupt Request Issue" },
    { 12, "NVML Shared Library Not Found" },
    { 13, "Function Not Found" },
    { 14, "Corrupted infoROM" },
    { 15, "GPU is lost" },
    { 16, "GPU requires restart" },
    { 17, "The operating system has blocked the request." },
    { 18, "RM has detected an NVML/RM version mismatch." },
    { 19, "In use by another client" },
    { 20, "Insufficient Memory" },
    { 21, "No data" },
    { 25, "Argument Version Mismatch" },
    { 26, "Deprecated" },
    { 27, "Not Ready" },
    { 28, "GPU Not Found" },
    { 29, "Invalid State" },
    { 999, "Unknown Error" },
    { 0, NULL },
};

/* ---- codes ---- */
const char *fake_code_text(int code)
{
    for (size_t i = 0; i < fake.codes_count; i++)
        if (fake.codes[i].code == code)
            return fake.codes[i].word;
    for (const struct nvml_word *w = usual_texts; w->word; w++)
        if (w->code == code)
            return w->word;
    return "Unknown Error";
}

static void learn_code(int code, const char *text)
{
    if (text && fake.codes_count < FAKE_CODES_MAX && !str_eq(fake_code_text(code), text))
        fake.codes[fake.codes_count++] = (struct nvml_word){ code, text };
}

int fake_text_code(const char *text)
{
    int made_up = 700 + (int)fake.codes_count;

    for (const struct nvml_word *w = usual_texts; w->word; w++)
        if (str_eq(w->word, text))
            return w->code;
    for (size_t i = 0; i < fake.codes_count; i++)
        if (str_eq(fake.codes[i].word, text))
            return fake.codes[i].code;
    learn_code(made_up, text);
    return made_up;
}

/* ---- faults ---- */
static void add_fault(enum fake_kind kind, const char *call, int gpu, int arg)
{
    struct fake_fault *f = &fake.faults[fake.faults_count];

    if (fake.faults_count == FAKE_FAULTS_MAX)
        return;
    fake.faults_count++;
    f->kind = kind;
    f->gpu = gpu;
    f->arg = arg;
    str_copy(f->call, sizeof(f->call), call);
}

static int number(const char *s)
{
    int64_t v;

    return s && str_to_i64(s, 10, &v) ? (int)v : FAKE_NO_GPU;
}

static void parse_fault(char *text)
{
    char *word[4] = { text, NULL, NULL, NULL };

    for (size_t i = 1; i < 4 && (text = strchr(text, ':')); i++) {
        *text++ = '\0';
        word[i] = text;
    }
    if (str_eq(word[0], "old"))
        add_fault(FAKE_OLD, "", FAKE_NO_GPU, 0);
    else if (str_eq(word[0], "skew"))
        add_fault(FAKE_ALL, "", FAKE_NO_GPU, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    else if (str_eq(word[0], "reload"))
        add_fault(FAKE_ALL, "", FAKE_NO_GPU, NVML_ERROR_UNINITIALIZED);
    else if (!word[1])
        return;
    else if (str_eq(word[0], "xid")) {
        add_fault(FAKE_XID, "", number(word[1]), number(word[2]));
        fake.faults[fake.faults_count - 1].number = number(word[3]);
    } else if (str_eq(word[0], "hang"))
        add_fault(FAKE_HANG, word[1], number(word[2]), 0);
    else if (str_eq(word[0], "crash"))
        add_fault(FAKE_CRASH, word[1], number(word[2]), 0);
    else if (str_eq(word[0], "slow"))
        add_fault(FAKE_SLOW, word[1], FAKE_NO_GPU, number(word[2]));
    else if (str_eq(word[0], "rc"))
        add_fault(FAKE_RC, word[1], number(word[2]), number(word[3]));
    else if (str_eq(word[0], "lose"))
        add_fault(FAKE_LOSE, "", number(word[1]), NVML_ERROR_GPU_IS_LOST);
}

static void parse_faults(const char *list)
{
    char *text = xstrdup(list), *next;

    text[strcspn(text, "\n")] = '\0';

    for (char *p = text; p; p = next) {
        next = strchr(p, ',');
        if (next)
            *next++ = '\0';
        parse_fault(p);
    }
    free(text);
}

void fake_control(void)
{
    const char *path = getenv("FAKE_NVML_CONTROL");
    FILE *f = path ? fopen(path, "re") : NULL;
    char text[512] = "";
    size_t keep = 0, before;

    if (!path)
        return;
    if (f) {
        text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
        fclose(f);
    }
    for (size_t i = 0; i < fake.faults_count; i++)
        if (!fake.faults[i].control)
            fake.faults[keep++] = fake.faults[i];
    before = fake.faults_count = keep;
    parse_faults(text);
    for (size_t i = before; i < fake.faults_count; i++)
        fake.faults[i].control = true;
}

bool fake_is_old(void)
{
    for (size_t i = 0; i < fake.faults_count; i++)
        if (fake.faults[i].kind == FAKE_OLD)
            return true;
    return false;
}

static void nap_ms(int ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&t, NULL);
}

static void NORETURN crash(void)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an ordinary exit */
    raise(SIGSEGV);
    _exit(1);
}

/* The fault with this number, as it was found: is it still there? */
static bool still(const struct fake_fault *was)
{
    fake_control();
    for (size_t i = 0; i < fake.faults_count; i++)
        if (fake.faults[i].kind == was->kind && str_eq(fake.faults[i].call, was->call) &&
            fake.faults[i].gpu == was->gpu)
            return true;
    return false;
}

static void hang(const struct fake_fault *f)
{
    struct fake_fault was = *f;

    if (!f->control)
        for (;;)
            pause();
    while (still(&was))
        nap_ms(5);
}

static int misbehave(const struct fake_fault *f)
{
    switch (f->kind) {
    case FAKE_HANG:
        hang(f);
        return NVML_SUCCESS;
    case FAKE_CRASH:
        crash();
    case FAKE_SLOW:
        nap_ms(f->arg);
        return NVML_SUCCESS;
    case FAKE_RC:
    case FAKE_LOSE:
    case FAKE_ALL:
        return f->arg;
    case FAKE_OLD:
    case FAKE_XID:
        break;
    }
    return NVML_SUCCESS;
}

static int gate_faults(const char *call, int gpu)
{
    int rc = NVML_SUCCESS;

    fake_control();
    for (size_t i = 0; i < fake.faults_count && rc == NVML_SUCCESS; i++) {
        const struct fake_fault *f = &fake.faults[i];

        if (f->kind == FAKE_XID || (f->gpu != FAKE_NO_GPU && f->gpu != gpu))
            continue;
        if (f->kind == FAKE_ALL && f->arg == NVML_ERROR_UNINITIALIZED &&
            str_starts(call, "nvmlInit"))
            continue; /* the driver is back by the time it is asked for */
        if (f->kind == FAKE_LOSE || f->kind == FAKE_ALL || str_eq(f->call, call))
            rc = misbehave(f);
    }
    return rc;
}

/* ---- what the document itself calls a failure ---- */
static int gate_errors(const struct hw_gpu *g, const char *label)
{
    for (size_t i = 0; i < g->errors_count; i++)
        if (str_eq(g->errors[i].call, label))
            return (int)maybe_or(g->errors[i].code, NVML_ERROR_UNKNOWN);
    return NVML_SUCCESS;
}

int fake_gate_scope(const char *call, const struct nvml_dev *d, int sub, int scope)
{
    char label[128];
    int rc;

    if (!d)
        return gate_faults(call, FAKE_NO_GPU);
    rc = gate_faults(call, (int)d->index);
    if (rc)
        return rc;
    if (d->mig)
        snprintf(label, sizeof(label), "%s(mig %u)", call, d->mig_index);
    else if (scope >= 0)
        snprintf(label, sizeof(label), "%s(%d, %d)", call, sub, scope);
    else if (sub != QUERY_NO_SUB)
        snprintf(label, sizeof(label), "%s(%d)", call, sub);
    else
        snprintf(label, sizeof(label), "%s", call);
    return gate_errors(d->gpu, label);
}

int fake_gate(const char *call, const struct nvml_dev *d, int sub)
{
    return fake_gate_scope(call, d, sub, -1);
}

int fake_gate_index(const char *call, unsigned index)
{
    int rc = gate_faults(call, (int)index);

    if (rc || index >= fake.doc.gpus_count)
        return rc ? rc : NVML_ERROR_INVALID_ARGUMENT;
    return gate_errors(&fake.doc.gpus[index], call);
}

/* ---- the document ---- */

/* "nvmlInit_v2: Driver Not Loaded (9)": the call fails here as it did there. */
static void learn_error(const char *text)
{
    const char *colon = text ? strstr(text, ": ") : NULL;
    const char *paren = text ? strrchr(text, '(') : NULL;
    char call[80], code[16];
    size_t len;
    int64_t rc;

    if (!colon || !paren || paren < colon + 3 || !str_starts(text, "nvml"))
        return;
    len = (size_t)(colon - text);
    snprintf(call, sizeof(call), "%.*s", (int)len, text);
    str_copy(code, sizeof(code), paren + 1);
    code[strcspn(code, ")")] = '\0';
    if (!str_to_i64(code, 10, &rc))
        return;
    add_fault(FAKE_RC, call, FAKE_NO_GPU, (int)rc);
    learn_code((int)rc, arena_strndup(&fake.arena, colon + 2, (size_t)(paren - 1 - (colon + 2))));
}

/* "nvmlDeviceGetHandleByIndex_v2(3)" */
static void learn_hang(const char *step)
{
    char call[80], gpu[16];

    if (!step || !strchr(step, '('))
        return;
    snprintf(call, sizeof(call), "%.*s", (int)strcspn(step, "("), step);
    str_copy(gpu, sizeof(gpu), strchr(step, '(') + 1);
    gpu[strcspn(gpu, ",)")] = '\0';
    add_fault(FAKE_HANG, call, number(gpu), 0);
}

static void make_handles(void)
{
    const struct hw_nvml *n = &fake.doc;

    fake.devs = arena_array(&fake.arena, struct nvml_dev, n->gpus_count + 1);
    fake.migs = arena_array(&fake.arena, struct nvml_dev *, n->gpus_count + 1);
    for (unsigned i = 0; i < n->gpus_count; i++) {
        const struct hw_gpu *g = &n->gpus[i];

        fake.devs[i] = (struct nvml_dev){ .gpu = g, .index = i };
        fake.migs[i] = arena_array(&fake.arena, struct nvml_dev, g->migs_count + 1);
        for (unsigned k = 0; k < g->migs_count; k++)
            fake.migs[i][k] =
                (struct nvml_dev){ .gpu = g, .mig = &g->migs[k], .index = i, .mig_index = k };
        for (size_t k = 0; k < g->errors_count; k++)
            learn_code((int)maybe_or(g->errors[k].code, 0), g->errors[k].text);
    }
}

static bool read_document(const char *path)
{
    struct json *doc;
    char *text = xmalloc(NVML_DOC_MAX);
    FILE *f = fopen(path, "re");
    size_t len = f ? fread(text, 1, NVML_DOC_MAX, f) : 0;
    bool ok = f && !json_parse(&fake.arena, text, len, &doc, NULL) &&
              !fields_read(&fake.arena, doc, &hw_nvml_table, &fake.doc, NULL);

    if (f)
        fclose(f);
    free(text);
    return ok;
}

bool fake_load(void)
{
    const char *path = getenv("FAKE_NVML_JSON");
    const char *faults = getenv("FAKE_NVML_FAULT");

    if (fake.loaded)
        return true;
    if (!path || !read_document(path))
        return false;
    make_handles();
    learn_error(fake.doc.nvidia.nvml_error);
    learn_hang(fake.doc.nvidia.hung_call);
    if (faults)
        parse_faults(faults);
    fake.loaded = true;
    return true;
}
