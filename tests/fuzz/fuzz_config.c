/* SPDX-License-Identifier: MIT */
/* The small files of a model: the first byte chooses which, the rest is the file.  What is
 * let through keeps every limit. */
#include "fuzz.h"

#include "model/files/sums_int.h"
#include "model/model_int.h"

#include <stdlib.h>

static void check(const struct model *m)
{
    if (m->layers < 1 || m->layers > MODEL_LAYERS_MAX || m->hidden > MODEL_HIDDEN_MAX ||
        m->head_dim * m->heads != m->hidden || m->ffn > MODEL_FFN_MAX ||
        m->vocab > MODEL_VOCAB_MAX || m->positions > MODEL_POSITIONS_MAX ||
        m->max_tokens + m->position_first != m->positions || m->types > MODEL_TYPES_MAX ||
        !(m->ln_eps > 0) || m->labels > MODEL_LABELS_MAX || m->pad_id >= m->vocab)
        abort();
}

static void one(int which, struct model *m, const struct json *v)
{
    struct err err = { 0 };
    struct model_dense d = { 0 };
    struct modules mods = { 0 };

    switch (which) {
    case 0:
        if (!config_net(m, v, &err))
            check(m);
        break;
    case 1:
        if (!config_modules(m, v, &mods, &err) && mods.count > MODULES_MAX)
            abort();
        break;
    case 2:
        m->hidden = 32;
        if (!config_pool(m, v, &err) &&
            (m->pool > MODEL_POOL_WEIGHTED || m->joined_count > MODEL_JOINED_MAX))
            abort();
        break;
    case 3:
        if (!config_dense(m, v, &d, &err) && (!d.in || !d.out || d.act > MODEL_DENSE_GELU))
            abort();
        break;
    case 4:
        m->head = MODEL_HEAD_POOLER;
        if (!config_prompts(m, v, &err) && m->prompts_count > MODEL_PROMPTS_MAX)
            abort();
        break;
    default:
        (void)!config_task(m, v, &err);
        m->max_tokens = 512;
        m->arch_name = "BertModel";
        if (!config_lengths(m, v, v, &err) && m->max_tokens > 512)
            abort();
        if (!config_tokenizer(m, v, v, &err) && m->rules.class > TOK_CLASS_OTHER)
            abort();
        if (!config_special(m, v, v, v, &err) &&
            m->rules.more_count > 3 * (size_t)MODEL_SPECIALS_MAX)
            abort();
        for (int f = 0; f < FIELDS_FILES; f++) {
            if (!fields_check(m, (enum fields_file)f, v, NULL) &&
                m->ignored_count > MODEL_IGNORED_MAX)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model m = { 0 };
    struct sums sums = { 0 };
    struct arena a = { 0 };
    struct json *v;

    if (!size)
        return 0;
    if (data[0] % 8 == 6 || data[0] % 8 == 7) {
        enum rc rc = data[0] % 8 == 6
                         ? sums_parse(&sums, (const char *)data + 1, size - 1, NULL)
                         : sums_parse_record(&sums, (const char *)data + 1, size - 1, NULL);

        if (!rc && sums.count && !sums_find(&sums, sums.items[sums.count - 1].name))
            abort();
    } else if (!json_parse(&a, (const char *)data + 1, size - 1, &v, NULL)) {
        one(data[0] % 8, &m, v);
    }
    sums_release(&sums);
    arena_release(&m.arena);
    arena_release(&a);
    return 0;
}
