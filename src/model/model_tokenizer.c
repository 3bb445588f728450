/* SPDX-License-Identifier: MIT */
/* model_tokenizer: tokenizer_config.json: which class of transformers reads tokenizer.json, with
 * what arguments, and what it hands to the network. */
#include "base/str.h"
#include "model/model_int.h"
#include "os/file.h"

/* "left" or "right"; missing is right. */
static enum rc side_read(const struct json *cfg, const char *key, bool *set, bool *left,
                         struct err *err)
{
    const char *side = NULL;
    enum rc rc = config_str(cfg, key, &side, err);

    if (!rc && side && strcmp(side, "left") && strcmp(side, "right"))
        return err_set(err, RC_PARSE, "'%s' is '%.32s', not left or right", key, side);
    *left = side && !strcmp(side, "left");
    *set = side != NULL;
    return rc;
}

/* model_input_names: the network is given token types when they are among them. */
static enum rc inputs_read(struct model *m, const struct json *cfg, bool dflt, struct err *err)
{
    const struct json *names = json_get(cfg, "model_input_names");
    bool types = false;

    if (!names || names->type == JSON_NULL) {
        m->rules.types_zero = !dflt;
        return RC_OK;
    }
    if (names->type != JSON_ARR)
        return err_set(err, RC_PARSE, "'model_input_names' is not a list");
    for (const struct json *v = names->first; v; v = v->next) {
        const char *name = json_str(v);

        if (!name)
            return err_set(err, RC_PARSE, "'model_input_names' holds something that is no text");
        if (!strcmp(name, "token_type_ids"))
            types = true;
        else if (strcmp(name, "input_ids") && strcmp(name, "attention_mask"))
            return err_set(err, RC_USAGE, "'model_input_names' has '%.64s', which is not supported",
                           name);
    }
    m->rules.types_zero = !types;
    return RC_OK;
}

enum rc config_tokenizer(struct model *m, const struct json *net, const struct json *cfg,
                         struct err *err)
{
    const char *name = NULL, *of_net = NULL;
    bool lower = true, chinese = true, prefix = true, ignored = false;
    const struct json *accents = json_get(cfg, "strip_accents");
    const struct tokenizer_class *row;
    size_t limit;

    if (config_str(cfg, "tokenizer_class", &name, err) ||
        config_str(net, "tokenizer_class", &of_net, err))
        return err->code;
    name = name ? name : of_net;
    row = tokenizer_class_find(m, name);
    m->rules.class = row->class;
    m->rules.class_name = arena_strdup(&m->arena, name ? name : row->name);
    if (config_flag(cfg, "do_lower_case", true, &lower, err) ||
        config_flag(cfg, "tokenize_chinese_chars", true, &chinese, err) ||
        config_flag(cfg, "strip_accents", false, &m->rules.strip_accents, err) ||
        config_flag(cfg, "add_prefix_space", true, &prefix, err) ||
        side_read(cfg, "truncation_side", &m->rules.side_set, &m->rules.left, err) ||
        /* a text by itself is not padded, and ours never are */
        side_read(cfg, "padding_side", &ignored, &ignored, err) ||
        /* a text would be a special token of that name */
        config_flag(cfg, "add_bos_token", false, &ignored, err) ||
        config_flag(cfg, "add_eos_token", false, &ignored, err) ||
        inputs_read(m, cfg, row->types, err) ||
        /* config_lengths() takes them, where nothing stands in for them */
        config_limit(cfg, "model_max_length", 0, &limit, err) ||
        config_limit(cfg, "max_len", 0, &limit, err))
        return err->code;
    m->rules.keep_case = !lower && !row->lowers;
    m->rules.keep_chinese = !chinese;
    m->rules.accents_set = accents && accents->type != JSON_NULL;
    m->rules.no_prefix_space = !prefix;
    return RC_OK;
}

enum rc model_tokenizer(const struct model *m, struct tokenizer **out, struct err *err)
{
    char path[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), m->net_dir, "tokenizer.json", err);

    if (!rc && !file_exists(path)) {
        err_hint(err, "A fast tokenizer's tokenizer.json is needed: 'AutoTokenizer."
                      "from_pretrained(DIR).save_pretrained(DIR)' writes one.");
        return err_set(err, RC_NODEV, "there is no tokenizer.json in '%s'", m->net_dir);
    }
    if (!rc)
        rc = tokenizer_load(path, &m->rules, out, err);
    return rc;
}
