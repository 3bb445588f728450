/* SPDX-License-Identifier: MIT */
/* model_find: from what a user calls a model to its folder. */
#include "base/str.h"
#include "model/hub/get.h"
#include "model/hub/hub.h"
#include "model/model.h"
#include "os/file.h"

enum rc model_home(char *out, size_t cap, struct err *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

    if (data && data[0] == '/') /* the standard wants an absolute path; others are passed over */
        return file_join(out, cap, data, "stoker/models", err);
    if (home && home[0] == '/')
        return file_join(out, cap, home, ".local/share/stoker/models", err);
    return err_set(err, RC_FAIL, "there is no place for models: HOME is not set");
}

static bool holds_config(const char *dir)
{
    return file_exists_in(dir, "config.json") || file_exists_in(dir, "modules.json");
}

static enum rc copy_path(const char *path, char *out, size_t cap, struct err *err)
{
    if (!str_copy(out, cap, path))
        return err_set(err, RC_LIMIT, "path '%.200s' is too long", path);
    return RC_OK;
}

enum rc model_find(const char *name_or_dir, char *out, size_t cap, struct err *err)
{
    char home[FILE_PATH_MAX], path[FILE_PATH_MAX];
    struct hub_name hub;

    if (!name_or_dir[0])
        return err_set(err, RC_USAGE, "a model's name or folder is empty");
    if (holds_config(name_or_dir))
        return copy_path(name_or_dir, out, cap, err);
    if (!strchr(name_or_dir, '/') && name_or_dir[0] != '.' &&
        !model_home(home, sizeof(home), NULL) &&
        !file_join(path, sizeof(path), home, name_or_dir, NULL) && holds_config(path))
        return copy_path(path, out, cap, err);
    if (file_is_dir(name_or_dir)) /* model_open() says what it lacks */
        return copy_path(name_or_dir, out, cap, err);
    if (hub_name_parse(name_or_dir, &hub)) {
        if (!hub_find(&hub, path, sizeof(path), NULL))
            return copy_path(path, out, cap, err);
        err_hint(err, "Fetch it with 'stoker model get %s', or give the folder of a model.",
                 name_or_dir);
    } else if (get_known(name_or_dir))
        err_hint(err, "Fetch it with 'stoker model get %s'.", name_or_dir);
    else
        err_hint(err,
                 "Give the folder of a model, or a name 'stoker model list' shows; 'stoker "
                 "model get %s' fetches one.",
                 get_models[0].name);
    return err_set(err, RC_NODEV, "there is no model '%.200s'", name_or_dir);
}
