/* SPDX-License-Identifier: MIT */
/* hub_list: names of the Hub, the list of a repository's files and the choice among them.
 *
 * Pure.  Everything a server says is held against what it may be before anybody opens a file by it:
 * a list with one name that leads out of the folder is refused as a whole.
 *
 * The choice is by name, so that ten gigabytes of other frameworks' weights stay where they are:
 * configuration and tokenizer, the weights as safetensors, else as torch has them, in the root and
 * in the folders that modules.json names. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "model/hub/hub_int.h"
#include "os/zip.h"

#include <ctype.h>
#include <fnmatch.h>

static const char *const plain_names[] = {
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
};

/* The first of these that a folder has is what is taken, with the shards that go with it. */
static const struct {
    const char *name, *shards; /* shards NULL: none */
} weight_names[] = {
    { "model.safetensors.index.json", "model-*-of-*.safetensors" },
    { "model.safetensors", NULL },
    { "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin" },
    { "pytorch_model.bin", NULL },
};

/* ---- names ---- */
/* Letters, digits, "-_."; begins and ends with a letter, a digit or '_'. */
static bool part_ok(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)p[i]) && !strchr("-_.", p[i]))
            return false;
    return len && !strchr("-.", p[0]) && !strchr("-.", p[len - 1]);
}

bool hub_revision_ok(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._/-+";

    return zip_name_ok(text) && strlen(text) <= HUB_REVISION_MAX && text[0] != '-' &&
           text[0] != '.' && strspn(text, allowed) == strlen(text);
}

bool hub_name_parse(const char *text, struct hub_name *out)
{
    struct hub_name n = { .revision = "main" };
    const char *at = strchr(text, '@'), *slash = strchr(text, '/');
    size_t len = at ? (size_t)(at - text) : strlen(text);

    if (!slash || (at && slash > at) || len > HUB_NAME_MAX ||
        memchr(slash + 1, '/', len - (size_t)(slash + 1 - text)))
        return false;
    memcpy(n.repo, text, len);
    if (!part_ok(text, (size_t)(slash - text)) ||
        !part_ok(slash + 1, len - (size_t)(slash + 1 - text)) || strstr(n.repo, "--") ||
        strstr(n.repo, "..") || str_ends(n.repo, ".git"))
        return false;
    if (at && (!hub_revision_ok(at + 1) || !str_copy(n.revision, sizeof(n.revision), at + 1)))
        return false;
    *out = n;
    return true;
}

bool hub_commit_ok(const char *text)
{
    return text && strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40;
}

bool hub_etag_parse(const char *text, char out[HUB_ETAG_MAX + 1])
{
    size_t len;

    if (str_starts(text, "W/"))
        text += 2;
    len = strlen(text);
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    if (!len || len > HUB_ETAG_MAX || text[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
            return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

void hub_add_quoted(struct buf *out, const char *text, bool slashes)
{
    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text) || (slashes && *text == '/'))
            buf_addc(out, *text);
        else
            buf_addf(out, "%%%02X", (unsigned char)*text);
    }
}

/* ---- the list ---- */
static enum rc read_file(struct hub_list *l, const struct json *s, struct err *err)
{
    const char *path = json_str(json_get(s, "rfilename"));
    const struct json *lfs = json_get(s, "lfs");
    const char *sha256 = json_str(json_get(lfs, "sha256")), *sha1 = json_str(json_get(s, "blobId"));
    struct maybe size = json_int(json_get(lfs && lfs->type == JSON_OBJ ? lfs : s, "size"));
    struct hub_file *f = &l->files[l->count];

    if (!path || strlen(path) != json_get(s, "rfilename")->len ||
        strlen(path) > HUB_PATH_BYTES_MAX || !zip_name_ok(path))
        return err_set(err, RC_PARSE, "'%.200s' is not a name for a file", path ? path : "");
    *f = (struct hub_file){ .path = arena_strdup(&l->arena, path), .bytes = maybe_or(size, -1) };
    if (f->bytes < -1 || (size.known && size.v < 0))
        return err_set(err, RC_PARSE, "file '%.200s' has no size", path);
    if (sha256 && strlen(sha256) == 64)
        (void)hub_etag_parse(sha256, f->etag);
    else if (!(lfs && lfs->type == JSON_OBJ) && sha1 && hub_commit_ok(sha1))
        (void)hub_etag_parse(sha1, f->etag);
    l->count++;
    return RC_OK;
}

static enum rc read_list(struct hub_list *l, const char *text, size_t len, struct err *err)
{
    struct json *doc = NULL;
    enum rc rc = json_parse(&l->arena, text, len, &doc, err);
    const struct json *files = json_get(doc, "siblings");
    const char *commit = json_str(json_get(doc, "sha"));

    if (rc)
        return rc;
    if (!hub_commit_ok(commit) || !files || files->type != JSON_ARR)
        return err_set(err, RC_PARSE, "it is not the description of a repository");
    if (files->count > HUB_LIST_FILES_MAX)
        return err_set(err, RC_LIMIT, "it has %zu files, more than %d", files->count,
                       HUB_LIST_FILES_MAX);
    (void)str_copy(l->commit, sizeof(l->commit), commit);
    l->files = arena_array(&l->arena, struct hub_file, files->count ? files->count : 1);
    for (const struct json *s = files->first; s && !rc; s = s->next)
        rc = read_file(l, s, err);
    return rc;
}

enum rc hub_list_parse(const char *text, size_t len, struct hub_list *out, struct err *err)
{
    struct hub_list l = { 0 };
    enum rc rc = read_list(&l, text, len, err);

    if (rc) {
        hub_list_release(&l);
        return rc;
    }
    *out = l;
    return RC_OK;
}

void hub_list_release(struct hub_list *l)
{
    arena_release(&l->arena);
    *l = (struct hub_list){ 0 };
}

struct hub_file *hub_list_find(struct hub_list *l, const char *path)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->files[i].path, path))
            return &l->files[i];
    return NULL;
}

/* ---- the choice ---- */
enum rc hub_modules_parse(const char *text, size_t len, struct arena *a, const char **out,
                          size_t *count, struct err *err)
{
    struct json *doc = NULL;
    enum rc rc = json_parse(a, text, len, &doc, err);

    *count = 0;
    if (rc)
        return rc;
    for (const struct json *m = doc->first; m; m = m->next) {
        const char *path = json_str(json_get(m, "path"));

        if (!path || !path[0])
            continue;
        if (*count == HUB_MODULES_MAX || !zip_name_ok(path) || strlen(path) > HUB_PATH_BYTES_MAX)
            return err_set(err, RC_PARSE, "'%.200s' is not a folder of a model, or one too many",
                           path);
        out[(*count)++] = path;
    }
    return RC_OK;
}

/* The part of the path behind folder/; NULL: it is not in that folder itself. */
static const char *name_in(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    if (len && (strncmp(path, folder, len) || path[len] != '/'))
        return NULL;
    path += len ? len + 1 : 0;
    return strchr(path, '/') ? NULL : path;
}

static bool mark_files(struct hub_list *l, const char *folder, const char *pattern)
{
    bool found = false;

    for (size_t i = 0; i < l->count; i++) {
        const char *name = name_in(l->files[i].path, folder);

        if (name && !fnmatch(pattern, name, 0))
            found = l->files[i].wanted = true;
    }
    return found;
}

static void choose_in(struct hub_list *l, const char *folder)
{
    for (size_t i = 0; i < ARRAY_SIZE(plain_names); i++)
        (void)mark_files(l, folder, plain_names[i]);
    for (size_t i = 0; i < ARRAY_SIZE(weight_names); i++) {
        if (!mark_files(l, folder, weight_names[i].name))
            continue;
        if (weight_names[i].shards)
            (void)mark_files(l, folder, weight_names[i].shards);
        return;
    }
}

void hub_list_choose(struct hub_list *l, const char *const *folders, size_t count)
{
    choose_in(l, "");
    for (size_t i = 0; i < count; i++)
        choose_in(l, folders[i]);
}
