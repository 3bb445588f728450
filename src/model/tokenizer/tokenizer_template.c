/* SPDX-License-Identifier: MIT */
/* tokenizer_template: the post_processor member as two lists, for one text and for a pair:
 * which special ids stand where, and the token types of everything. */
#include "base/str.h"
#include "model/tokenizer/tokenizer_int.h"

static enum rc add_part(struct template *m, struct template_part p, struct err *err)
{
    if (m->count == TOK_TEMPLATE_MAX)
        return err_set(err, RC_LIMIT, "member 'post_processor' has more than %d parts",
                       TOK_TEMPLATE_MAX);
    m->v[m->count++] = p;
    m->specials += p.kind == PART_SPECIAL;
    return RC_OK;
}

static bool read_u32(const struct json *v, int64_t below, uint32_t *out)
{
    struct maybe m = json_int(v);

    if (!m.known || m.v < 0 || m.v >= below)
        return false;
    *out = (uint32_t)m.v;
    return true;
}

static enum rc bad_part(const char *list, size_t i, const char *what, struct err *err)
{
    return err_set(err, RC_PARSE, "member 'post_processor.%s[%zu]' %s", list, i, what);
}

/* One element of "single" or "pair". */
static enum rc read_part(struct template *m, const struct json *v, const struct json *specials,
                         const char *list, size_t i, struct err *err)
{
    const struct json *seq = json_get(v, "Sequence"), *spec = json_get(v, "SpecialToken"), *ids;
    const char *id = json_str(json_get(seq ? seq : spec, "id"));
    uint32_t type;

    if (!id || !read_u32(json_get(seq ? seq : spec, "type_id"), 256, &type))
        return bad_part(list, i, "has no id, or no type_id below 256", err);
    if (seq) {
        if (!str_eq(id, "A") && !(str_eq(id, "B") && str_eq(list, "pair")))
            return bad_part(list, i, "names a text that is not there", err);
        return add_part(m, (struct template_part){ *id == 'A' ? PART_A : PART_B, (uint8_t)type, 0 },
                        err);
    }
    ids = json_get(json_get(specials, id), "ids");
    if (!ids || ids->type != JSON_ARR)
        return bad_part(list, i, "is missing in special_tokens", err);
    for (const struct json *n = ids->first; n; n = n->next) {
        struct template_part p = { .kind = PART_SPECIAL, .type = (uint8_t)type };

        if (!read_u32(n, TOK_ID_MAX, &p.id))
            return bad_part(list, i, "has an id that is not one", err);
        if (add_part(m, p, err))
            return err->code;
    }
    return RC_OK;
}

static enum rc read_list(struct template *m, const struct json *v, const char *list,
                         struct err *err)
{
    const struct json *parts = json_get(v, list);
    size_t i = 0;

    if (!parts || parts->type != JSON_ARR)
        return err_set(err, RC_PARSE, "member 'post_processor.%s' is not an array", list);
    for (const struct json *p = parts->first; p; p = p->next, i++)
        if (read_part(m, p, json_get(v, "special_tokens"), list, i, err))
            return err->code;
    return RC_OK;
}

/* "sep": ["</s>", 2] */
static enum rc read_pair(const struct json *v, const char *key, uint32_t *out, struct err *err)
{
    if (!read_u32(json_at(json_get(v, key), 1), TOK_ID_MAX, out))
        return err_set(err, RC_PARSE, "member 'post_processor.%s' is not [token, id]", key);
    return RC_OK;
}

static void fixed_parts(struct template *m, const struct template_part *parts, size_t count)
{
    m->count = m->specials = 0;
    for (size_t i = 0; i < count; i++) {
        m->v[m->count++] = parts[i];
        m->specials += parts[i].kind == PART_SPECIAL;
    }
}

void tok_fixed_template(struct tokenizer *t, uint32_t cls, uint32_t sep, bool roberta)
{
    uint8_t second = roberta ? 0 : 1;

    fixed_parts(&t->one,
                (struct template_part[]){
                    { PART_SPECIAL, 0, cls }, { PART_A, 0, 0 }, { PART_SPECIAL, 0, sep } },
                3);
    fixed_parts(&t->two,
                (struct template_part[]){ { PART_SPECIAL, 0, cls },
                                          { PART_A, 0, 0 },
                                          { PART_SPECIAL, 0, sep },
                                          { PART_B, second, 0 },
                                          { PART_SPECIAL, second, sep } },
                5);
    if (roberta) {
        memmove(&t->two.v[4], &t->two.v[3], 2 * sizeof(*t->two.v));
        t->two.v[3] = (struct template_part){ PART_SPECIAL, 0, sep };
        t->two.count++;
        t->two.specials++;
    }
}

static enum rc read_fixed(struct tokenizer *t, const struct json *v, bool roberta, struct err *err)
{
    uint32_t cls, sep;

    if (read_pair(v, "cls", &cls, err) || read_pair(v, "sep", &sep, err))
        return err->code;
    tok_fixed_template(t, cls, sep, roberta);
    if (roberta) {
        t->trim = maybe_or(json_bool(json_get(v, "trim_offsets")), true);
        t->prefix_space = maybe_or(json_bool(json_get(v, "add_prefix_space")), true);
    }
    return RC_OK;
}

static enum rc read_processor(struct tokenizer *t, const struct json *v, struct err *err)
{
    const char *type = json_str(json_get(v, "type"));

    if (str_eq(type, "TemplateProcessing")) {
        t->one.count = t->two.count = 0;
        if (read_list(&t->one, v, "single", err) || read_list(&t->two, v, "pair", err))
            return err->code;
        return RC_OK;
    }
    if (str_eq(type, "BertProcessing") || str_eq(type, "RobertaProcessing"))
        return read_fixed(t, v, str_eq(type, "RobertaProcessing"), err);
    return err_set(err, RC_USAGE, "member 'post_processor': type '%.60s' is not supported",
                   type ? type : "?");
}

enum rc tok_read_template(struct tokenizer *t, const struct json *v, struct err *err)
{
    t->one.v = arena_array(&t->arena, struct template_part, TOK_TEMPLATE_MAX);
    t->two.v = arena_array(&t->arena, struct template_part, TOK_TEMPLATE_MAX);
    fixed_parts(&t->one, (struct template_part[]){ { PART_A, 0, 0 } }, 1);
    fixed_parts(&t->two, (struct template_part[]){ { PART_A, 0, 0 }, { PART_B, 1, 0 } }, 2);
    if (!v || v->type == JSON_NULL)
        return RC_OK;
    if (str_eq(json_str(json_get(v, "type")), "Sequence")) {
        const struct json *list = json_get(v, "processors");

        if (!list || list->type != JSON_ARR || list->count != 1)
            return err_set(err, RC_PARSE,
                           "member 'post_processor.processors' is not an array of one: a row of "
                           "processors is not supported");
        v = list->first;
    }
    return read_processor(t, v, err);
}
