/* SPDX-License-Identifier: MIT */
/* tokenizer: loading a tokenizer.json, and what can be asked of it. */
#include "base/mem.h"
#include "model/files/lfs_int.h"
#include "model/tokenizer/tokenizer_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- loading ---- */
void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->norms && i < t->norms_count; i++)
        precompiled_free(t->norms[i].precompiled);
    wordpiece_free(t->wordpiece);
    unigram_free(t->unigram);
    vocab_release(&t->vocab);
    arena_release(&t->arena);
    free(t);
}

static enum rc build_parts(struct tokenizer *t, const struct json *root,
                           const struct tok_rules *rules, struct err *err)
{
    if (!root || root->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "the document is not an object");
    if (tok_check_document(root, err) || tok_read_members(t, root, err) ||
        tok_read_model(t, json_get(root, "model"), rules, err) ||
        (rules && tok_apply_rules(t, rules, err)) ||
        tok_read_added(t, json_get(root, "added_tokens"), rules, err))
        return err->code;
    if (rules)
        tok_apply_template(t, rules);
    added_set_build(&t->arena, &t->raw, t->added, t->added_count, false);
    added_set_build(&t->arena, &t->normal, t->added, t->added_count, true);
    tok_bert_prepare(t);
    tok_plain_prepare(t);
    return RC_OK;
}

enum rc tokenizer_parse(const char *json, size_t len, const char *name,
                        const struct tok_rules *rules, struct tokenizer **out, struct err *err)
{
    struct tokenizer *t = xcalloc(1, sizeof(*t));
    struct err none = { 0 }, *e = err ? err : &none;
    struct json_reader vocab = { "model", "vocab", tok_read_vocab, t };
    struct arena tree = { 0 };
    struct json *root = NULL;
    enum rc rc;

    if (len > TOK_FILE_MAX)
        rc = err_set(e, RC_LIMIT, "larger than %d bytes", TOK_FILE_MAX);
    else
        rc = lfs_pointer_refuse(json, len, e);
    if (!rc)
        rc = json_parse_reading(&tree, json, len, &vocab, &root, e);
    if (!rc)
        rc = build_parts(t, root, rules, e);
    arena_release(&tree);
    if (rc) {
        tokenizer_free(t);
        return err_ctx(e, "tokenizer '%s'", name);
    }
    *out = t;
    return RC_OK;
}

static enum rc read_all(int fd, const char *path, size_t size, char *out, struct err *err)
{
    size_t n = 0;

    while (n < size) {
        ssize_t got = read(fd, out + n, size - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, "could not read tokenizer '%s'", path);
        if (got == 0)
            return err_set(err, RC_FAIL, "tokenizer '%s' became shorter while it was read", path);
        n += (size_t)got;
    }
    return RC_OK;
}

enum rc tokenizer_load(const char *path, const struct tok_rules *rules, struct tokenizer **out,
                       struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not wait */
    struct stat st;
    char *text;
    enum rc rc;

    if (fd < 0)
        return err_sys(err, "could not open tokenizer '%s'", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > TOK_FILE_MAX) {
        close(fd);
        return err_set(err, RC_USAGE, "tokenizer '%s' is not a file of at most %d bytes", path,
                       TOK_FILE_MAX);
    }
    text = xlarge((size_t)st.st_size + 1);
    rc = read_all(fd, path, (size_t)st.st_size, text, err);
    close(fd);
    if (!rc)
        rc = tokenizer_parse(text, (size_t)st.st_size, path, rules, out, err);
    free(text);
    return rc;
}

/* ---- questions ---- */
size_t tokenizer_vocab_size(const struct tokenizer *t)
{
    return t->size;
}

const struct added *added_of_id(const struct tokenizer *t, uint32_t id)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
}

struct added *added_of_text(const struct tokenizer *t, const char *text, size_t len)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].len == len && !memcmp(t->added[i].content, text, len))
            return &t->added[i];
    return NULL;
}

const char *tokenizer_token(const struct tokenizer *t, uint32_t id)
{
    const struct vocab_entry *e = vocab_get(&t->vocab, id);
    const struct added *a = e ? NULL : added_of_id(t, id);

    return e ? e->text : a ? a->content : NULL;
}

bool tokenizer_id(const struct tokenizer *t, const char *token, uint32_t *out)
{
    size_t len = strlen(token);
    const struct added *a = added_of_text(t, token, len);

    if (a)
        *out = a->id;
    return a || tok_model_id(t, token, len, out);
}

const char *tokenizer_kind(const struct tokenizer *t)
{
    return t->wordpiece ? "WordPiece" : "Unigram";
}

bool tokenizer_cuts_left(const struct tokenizer *t)
{
    return t->left;
}

bool tokenizer_is_special(const struct tokenizer *t, uint32_t id)
{
    for (size_t i = 0; i < t->specials_count; i++)
        if (t->specials[i] == id)
            return true;
    return false;
}

size_t tokenizer_specials(const struct tokenizer *t, bool pair)
{
    return pair ? t->two.specials : t->one.specials;
}

/* ---- scratch ---- */
struct tok_scratch *tok_scratch_new(void)
{
    struct tok_scratch *s = xcalloc(1, sizeof(*s));

    s->unigram = unigram_scratch_new();
    return s;
}

void tok_scratch_free(struct tok_scratch *s)
{
    if (!s)
        return;
    for (int i = 0; i < 2; i++) {
        free(s->clean[i].copy);
        free(s->clean[i].fixes);
        free(s->items[i].v);
        free(s->spaces[i]);
        free(s->unknown[i]);
    }
    free(s->cur.v);
    free(s->alt.v);
    free(s->whole.chars.v);
    free(s->whole.bytes);
    free(s->whole.pos);
    free(s->codes);
    uni_norm_release(&s->form);
    free(s->splits.v);
    free(s->splits_alt.v);
    free(s->bytes);
    free(s->pos);
    unigram_scratch_free(s->unigram);
    free(s->unknown_text);
    free(s->texts);
    free(s->ids);
    free(s->types);
    free(s->special);
    free(s->sequence);
    free(s->offsets);
    free(s);
}
