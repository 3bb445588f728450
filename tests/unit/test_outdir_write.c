/* SPDX-License-Identifier: MIT */
/* outdir_write.c and outdir.c: as a whole or not at all, whichever call of the system fails or is
 * the last one before the power goes. */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the calls that outdir.c makes, counted; the one numbered `fault_at` goes wrong ---- */

enum { CRASHED = 77 };
static int steps, fault_at, renames;
static bool fault_is_crash;

static bool fault(void)
{
    if (++steps != fault_at)
        return false;
    if (fault_is_crash)
        _exit(CRASHED);
    errno = ENOSPC;
    return true;
}

static int step_open(const char *path, int flags)
{
    return fault() ? -1 : open(path, flags);
}

static int step_mkdir(const char *path, mode_t mode)
{
    return fault() ? -1 : mkdir(path, mode);
}

static int step_mkdirat(int fd, const char *path, mode_t mode)
{
    return fault() ? -1 : mkdirat(fd, path, mode);
}

static int step_openat(int fd, const char *path, int flags, mode_t mode)
{
    return fault() ? -1 : openat(fd, path, flags, mode);
}

static int step_fstatat(int fd, const char *path, struct stat *st, int flags)
{
    return fault() ? -1 : fstatat(fd, path, st, flags);
}

static int step_unlinkat(int fd, const char *path, int flags)
{
    return fault() ? -1 : unlinkat(fd, path, flags);
}

static int step_renameat(int a, const char *from, int b, const char *to)
{
    if (fault())
        return -1;
    renames += !str_starts(to, ".stoker-render");
    return renameat(a, from, b, to);
}

static int step_linkat(int a, const char *from, int b, const char *to, int flags)
{
    return fault() ? -1 : linkat(a, from, b, to, flags);
}

static int step_fsync(int fd)
{
    return fault() ? -1 : fsync(fd);
}

static int step_fchmod(int fd, mode_t mode)
{
    return fault() ? -1 : fchmod(fd, mode);
}

static ssize_t step_read(int fd, void *p, size_t len)
{
    return fault() ? -1 : read(fd, p, len);
}

/* Half of it is written when it fails: what a full disk does. */
static enum rc step_file_write(int fd, const char *path, const void *p, size_t len, struct err *err)
{
    enum rc rc = file_write(fd, path, p, len / 2, err);

    if (!rc && fault())
        return err_sys(err, "cannot write '%s'", path);
    return rc ? rc : file_write(fd, path, (const char *)p + len / 2, len - len / 2, err);
}

#define open(p, f)               step_open(p, f)
#define mkdir(p, m)              step_mkdir(p, m)
#define mkdirat(d, p, m)         step_mkdirat(d, p, m)
#define OPENAT_(d, p, f, m, ...) step_openat(d, p, f, m)
#define openat(d, ...)           OPENAT_(d, __VA_ARGS__, 0, 0)
#define fstatat(d, p, s, f)      step_fstatat(d, p, s, f)
#define unlinkat(d, p, f)        step_unlinkat(d, p, f)
#define renameat(a, f, b, t)     step_renameat(a, f, b, t)
#define linkat(a, f, b, t, x)    step_linkat(a, f, b, t, x)
#define fsync(f)                 step_fsync(f)
#define fchmod(f, m)             step_fchmod(f, m)
#define read(f, p, n)            step_read(f, p, n)
#define file_write               step_file_write
#include "render/outdir/outdir.c" /* its object in the library stays out: all it has is here */
#undef open
#undef mkdir
#undef mkdirat
#undef openat
#undef fstatat
#undef unlinkat
#undef renameat
#undef linkat
#undef fsync
#undef fchmod
#undef read
#undef file_write

#include "render/render_int.h"

/* ---- folders as text ---- */

static struct buf seen;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int see(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    struct buf text = { 0 };
    struct err err = { 0 };

    (void)ftw;
    if (str_ends(path, "/.stoker-render") || str_ends(path, "/.stoker-render.base"))
        return 0;
    if (kind == FTW_F)
        assert_int_equal(file_read(path, 1 << 20, &text, &err), RC_OK);
    buf_addf(&seen, "%s %o %s\n", path, (unsigned)st->st_mode, buf_str(&text));
    buf_release(&text);
    return 0;
}

/* Every path below `dir` with its mode and text, a line each, sorted; the list aside. */
static char *snapshot(const char *dir)
{
    char *lines[256], *save;
    size_t n = 0;
    struct buf out = { 0 };

    buf_reset(&seen);
    if (file_is_dir(dir))
        assert_int_equal(nftw(dir, see, 16, FTW_PHYS), 0);
    if (seen.len)
        for (char *l = strtok_r(seen.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
            lines[n++] = l;
    qsort(lines, n, sizeof(*lines), by_name);
    for (size_t i = 0; i < n; i++)
        buf_addf(&out, "%s\n", lines[i]);
    return out.len ? buf_take(&out) : xstrdup("");
}

/* ---- sets ---- */

static void set_add(struct render_set *set, const char *path, const char *text, bool exec)
{
    struct render_file *f = xcalloc(1, sizeof(*f));

    f->path = xstrdup(path);
    f->exec = exec;
    f->secret = strstr(path, "secret") != NULL;
    buf_adds(&f->text, text);
    VEC_GROW(set->files, set->count, set->cap);
    set->files[set->count++] = f;
}

static struct render_set set_a(void)
{
    struct render_set s = { 0 };

    set_add(&s, "slurm/conf", "old conf", false);
    set_add(&s, "slurm/deep/er/gone", "old gone", false);
    set_add(&s, "slurm/same", "same", true);
    set_add(&s, "slurm/secret", "old secret", false);
    return s;
}

static struct render_set set_b(void)
{
    struct render_set s = { 0 };

    set_add(&s, "slurm/conf", "new conf", true);
    set_add(&s, "slurm/new/er/file", "new file", false);
    set_add(&s, "slurm/same", "same", true);
    set_add(&s, "slurm/secret", "new secret", false);
    return s;
}

static char root[64]; /* of the test */
static char dir[80];

static enum rc write_set(struct render_set set, bool force, struct err *err)
{
    enum rc rc =
        render_write(&set, &(struct render_where){ .dir = dir, .force = force }, NULL, err);

    render_set_release(&set);
    return rc;
}

static void put(const char *name, const char *text)
{
    char path[FILE_PATH_MAX];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void fresh(bool with_old)
{
    struct err err = { 0 };

    file_remove_tree(dir);
    fault_at = 0;
    if (!with_old)
        return;
    assert_int_equal(write_set(set_a(), false, &err), RC_OK);
    put("theirs", "mine");
    put("slurm/theirs", "mine too");
}

/* ---- tests ---- */

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "%s/stoker-write.XXXXXX", /* memory syncs faster */
                   access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    (void)umask(022);
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(dir, sizeof(dir), "%s/out", root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    file_remove_tree(root);
    buf_release(&seen);
    return 0;
}

static bool has(const char *snap, const char *part)
{
    return strstr(snap, part) != NULL;
}

TEST(writes_and_removes)
{
    struct err err = { 0 };
    char *s;

    fresh(true);
    assert_int_equal(write_set(set_b(), false, &err), RC_OK);
    s = snapshot(dir);
    CHECK(has(s, "/slurm/conf 100755 new conf\n") &&
          has(s, "/slurm/new/er/file 100644 new file\n"));
    CHECK(has(s, "/slurm/secret 100600 new secret\n") && has(s, "/slurm/same 100755 same\n"));
    CHECK(has(s, "/theirs 100644 mine\n") && has(s, "/slurm/theirs 100644 mine too\n"));
    CHECK(!has(s, "gone") && !has(s, "deep") && !has(s, ".stoker-new"));
    free(s);
}

TEST(changes_are_told)
{
    static const struct {
        const char *path;
        enum render_kind kind;
    } want[] = {
        { "slurm/conf", RENDER_CHANGED },    { "slurm/deep/er/gone", RENDER_GONE },
        { "slurm/new/er/file", RENDER_NEW }, { "slurm/same", RENDER_SAME },
        { "slurm/secret", RENDER_CHANGED },
    };
    struct render_set set = set_b();
    struct render_changes c = { 0 };
    struct err err = { 0 };

    fresh(true);
    assert_int_equal(render_compare(&set, &(struct render_where){ .dir = dir }, &c, &err), RC_OK);
    assert_int_equal(c.count, 5);
    for (size_t i = 0; i < c.count; i++) {
        assert_string_equal(c.items[i].path, want[i].path);
        assert_int_equal(c.items[i].kind, want[i].kind);
        CHECK(!c.items[i].foreign);
    }
    render_changes_release(&c);
    render_set_release(&set);
}

/* A run for one target leaves the files of the others. */
TEST(other_targets_stay)
{
    const struct render_target *slurm = render_target_find("slurm");
    struct render_where w = { .dir = dir, .only = &slurm, .only_count = 1 };
    struct render_set set = { 0 };
    struct err err = { 0 };
    char *s;

    fresh(false);
    set_add(&set, "nccl/nccl.conf", "n", false);
    set_add(&set, "slurm/conf", "c", false);
    assert_int_equal(write_set(set, false, &err), RC_OK);
    assert_int_equal(render_write(&(struct render_set){ 0 }, &w, NULL, &err), RC_OK);
    s = snapshot(dir);
    CHECK(has(s, "nccl.conf") && !has(s, "slurm"));
    free(s);
    assert_int_equal(write_set((struct render_set){ 0 }, false, &err), RC_OK); /* still known */
    s = snapshot(dir);
    CHECK(!has(s, "nccl.conf"));
    free(s);
}

TEST(foreign_files_are_refused)
{
    struct err err = { 0 };
    char *before, *after;

    fresh(false);
    assert_int_equal(mkdir(dir, 0755), 0);
    put("keep", "x");
    before = snapshot(dir);
    {
        struct render_set s = { 0 };

        set_add(&s, "a/b", "ours", false);
        set_add(&s, "keep", "ours", false);
        assert_int_equal(write_set(s, false, &err), RC_FAIL);
    }
    assert_non_null(strstr(err.msg, "'keep'"));
    assert_non_null(strstr(err.hint, "--force"));
    after = snapshot(dir);
    assert_string_equal(before, after);
    free(before);
    free(after);
    {
        struct render_set s = { 0 };

        set_add(&s, "keep", "ours", false);
        err = (struct err){ 0 };
        assert_int_equal(write_set(s, true, &err), RC_OK);
    }
    after = snapshot(dir);
    CHECK(has(after, "/keep 100644 ours\n"));
    free(after);
}

TEST(links_are_not_followed)
{
    struct err err = { 0 };
    char outside[96], path[128];
    char *s;

    fresh(false);
    (void)snprintf(outside, sizeof(outside), "%s/outside", root);
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(mkdir(outside, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/slurm", dir);
    assert_int_equal(symlink(outside, path), 0);
    assert_int_equal(write_set(set_a(), true, &err), RC_FAIL);
    assert_non_null(strstr(err.msg, "link"));
    s = snapshot(outside);
    CHECK(!has(s, "conf"));
    free(s);
    /* a link in a file's place is replaced when asked for, and what it names stays */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/file", outside);
    (void)snprintf(outside, sizeof(outside), "%s/slurm/conf", dir);
    assert_int_equal(symlink(path, outside), 0);
    err = (struct err){ 0 };
    assert_int_equal(write_set(set_a(), false, &err), RC_FAIL);
    err = (struct err){ 0 };
    assert_int_equal(write_set(set_a(), true, &err), RC_OK);
    CHECK(!file_exists(path) && file_exists(outside));
    /* nor is the list believed beyond the folder */
    put(".stoker-render", "0123456789012345678901234567890123456789012345678901234567890123  "
                          "../outside\n0123456789012345678901234567890123456789012345678901234567"
                          "890123  /etc/passwd\n");
    assert_int_equal(write_set((struct render_set){ 0 }, false, &err), RC_OK);
    (void)snprintf(outside, sizeof(outside), "%s/outside", root);
    CHECK(file_is_dir(outside));
    assert_int_equal(rmdir(outside), 0);
}

/* Old or new, whole, wherever it stopped; what others have is as it was. */
static void check_between(const char *s)
{
    CHECK(has(s, "/slurm/conf 100644 old conf\n") || has(s, "/slurm/conf 100755 new conf\n"));
    CHECK(has(s, "/slurm/secret 100600 old secret\n") ||
          has(s, "/slurm/secret 100600 new secret\n"));
    CHECK(has(s, "/slurm/same 100755 same\n"));
    CHECK(!has(s, "/slurm/new/er/file ") || has(s, "/slurm/new/er/file 100644 new file\n"));
    CHECK(has(s, "/theirs 100644 mine\n") && has(s, "/slurm/theirs 100644 mine too\n"));
}

/* Runs with a fault at call `n` in a child; false when there were fewer calls than that. */
static bool run_with_fault(int n, bool crash, int *out_renames, bool *out_failed)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        struct err err = { 0 };
        enum rc rc;

        steps = renames = 0;
        fault_at = n;
        fault_is_crash = crash;
        rc = write_set(set_b(), false, &err);
        _exit(steps < n ? 64 : renames + (rc ? 16 : 0));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    *out_failed = crash || WEXITSTATUS(status) & 16;
    *out_renames = WEXITSTATUS(status) & 15;
    return WEXITSTATUS(status) != 64;
}

static void any_call(bool crash)
{
    struct err err = { 0 };
    char *want, *before, *after;
    int n, count = 0;
    bool failed;

    fresh(true);
    before = snapshot(dir);
    assert_int_equal(write_set(set_b(), false, &err), RC_OK);
    want = snapshot(dir);
    for (n = 1;; n++) {
        bool more;

        fresh(true);
        more = run_with_fault(n, crash, &count, &failed);
        after = snapshot(dir);
        check_between(after);
        if (!crash) /* what is left to do is known */
            CHECK(!has(after, ".stoker-new") || has(after, ".stoker-render.journal"));
        if (!crash && failed && !count)
            assert_string_equal(before, after);
        if (!failed)
            assert_string_equal(want, after);
        free(after);
        err = (struct err){ 0 };
        assert_int_equal(write_set(set_b(), false, &err), RC_OK);
        after = snapshot(dir);
        assert_string_equal(want, after);
        free(after);
        if (!more)
            break;
    }
    CHECK(n > 50); /* else the calls are not counted */
    free(before);
    free(want);
}

TEST(any_call_may_fail)
{
    any_call(false);
}

TEST(any_call_may_be_the_last)
{
    any_call(true);
}

/* A new folder whose writing fails leaves nothing, not even the folders above it. */
TEST(a_full_disk_leaves_nothing)
{
    char deep[128], keep[80];
    int status;
    pid_t pid;

    fresh(false);
    (void)snprintf(deep, sizeof(deep), "%s/x/y/z", dir);
    (void)snprintf(keep, sizeof(keep), "%s", dir);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct rlimit small = { 4096, 4096 };
        struct render_set s = { 0 };
        struct err err = { 0 };
        char big[8192];

        memset(big, 'x', sizeof(big) - 1);
        big[sizeof(big) - 1] = '\0';
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &small))
            _exit(1);
        set_add(&s, "a/small", "x", false);
        set_add(&s, "b/big", big, false);
        if (render_write(&s, &(struct render_where){ .dir = deep }, NULL, &err) != RC_FAIL)
            _exit(2);
        _exit(strstr(err.msg, "File too large") ? 0 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    CHECK(!file_is_dir(keep));
}

TEST(one_writer_at_a_time)
{
    struct err err = { 0 };
    int fd;

    fresh(true);
    fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(write_set(set_b(), false, &err), RC_FAIL);
    assert_non_null(strstr(err.msg, "another"));
    close(fd);
    err = (struct err){ 0 };
    assert_int_equal(write_set(set_b(), false, &err), RC_OK);
}

TEST(paths_stay_below)
{
    static const char *const bad[] = { "", "/a", "a/", "a//b", "..", ".", "a/..", "../a", "a/./b" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(!outdir_path_ok(bad[i]));
    CHECK(outdir_path_ok("a") && outdir_path_ok("a/b") && outdir_path_ok("..a/.b") &&
          outdir_path_ok("a.."));
}

/* The diff of a folder, given to patch(1), makes of it what writing makes. */
TEST(the_diff_is_the_change)
{
    struct render_set set = set_b();
    struct buf diff = { 0 };
    struct err err = { 0 };
    char command[256], *want, *after;
    FILE *p;

    fresh(true);
    put("slurm/same", "edited\n");
    put("slurm/conf", "edited too\n");
    put("slurm/deep/er/gone", "edited, and no longer rendered\n");
    assert_int_equal(render_diff(&set, &(struct render_where){ .dir = dir }, &diff, NULL, &err),
                     RC_OK);
    (void)snprintf(command, sizeof(command), "patch -s -f -p1 -d %s >/dev/null 2>&1", dir);
    p = popen(command, "w");
    assert_non_null(p);
    assert_int_equal(fwrite(diff.data, 1, diff.len, p), diff.len);
    assert_int_equal(pclose(p), 0);
    after = snapshot(dir);
    CHECK(has(after, "/slurm/same 100755 edited\n"));
    CHECK(has(after, "/slurm/conf.edited 100644 edited too\n"));
    CHECK(has(after, "/slurm/deep/er/gone.edited 100644 edited, and no longer rendered\n"));
    fresh(true);
    put("slurm/same", "edited\n");
    put("slurm/conf", "edited too\n");
    put("slurm/deep/er/gone", "edited, and no longer rendered\n");
    assert_int_equal(write_set(set, false, &err), RC_OK);
    want = snapshot(dir);
    assert_string_equal(after, want);
    free(after);
    free(want);
    buf_release(&diff);
}

/* ---- edits of others ---- */

/* Stopped anywhere, or with any call failing, the edited texts are somewhere in the folder, and the
 * same command again ends as if nothing had been. */
static void edits_put(void)
{
    fresh(true);
    put("slurm/conf", "edited conf");
    put("slurm/same", "edited same");
    put("slurm/deep/er/gone", "edited gone");
}

static void edits_any_call(bool crash)
{
    struct err err = { 0 };
    char *want, *after;
    int count = 0;
    bool failed, more = true;

    edits_put();
    assert_int_equal(write_set(set_b(), false, &err), RC_OK);
    want = snapshot(dir);
    CHECK(has(want, "conf 100755 new conf\n") && has(want, "conf.edited 100644 edited conf\n"));
    CHECK(has(want, "same 100755 edited same\n") && has(want, "gone.edited 100644 edited gone\n"));
    for (int n = 1; more; n++) {
        edits_put();
        more = run_with_fault(n, crash, &count, &failed);
        after = snapshot(dir);
        CHECK(has(after, " edited conf\n") && has(after, " edited same\n") &&
              has(after, " edited gone\n"));
        free(after);
        err = (struct err){ 0 };
        assert_int_equal(write_set(set_b(), false, &err), RC_OK);
        after = snapshot(dir);
        assert_string_equal(want, after);
        free(after);
    }
    free(want);
}

TEST(edits_survive_any_failure)
{
    edits_any_call(false);
}

TEST(edits_survive_any_crash)
{
    edits_any_call(true);
}

/* ---- a run that was killed is undone or finished, before anything else ---- */

enum {
    RECOVER_STEPS_EVERY = 5
}; /* in how many crashes the recovery is killed at every call, too */

/* Recovery with the `m`-th call the last one; false when it took fewer calls. */
static bool recover_killed(int m)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        struct render_recovery what;
        struct err err = { 0 };

        steps = 0;
        fault_at = m;
        fault_is_crash = true;
        _exit(render_recover(dir, &what, &err) ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
    return WEXITSTATUS(status) == CRASHED;
}

static enum render_recovered recover(void)
{
    struct render_recovery what;
    enum render_recovered found;
    struct err err = { 0 };

    assert_int_equal(render_recover(dir, &what, &err), RC_OK);
    found = what.what;
    render_recovery_release(&what);
    return found;
}

static enum render_recovered check_whole(const char *old, const char *new)
{
    enum render_recovered what = recover();
    char *now = snapshot(dir);

    CHECK(str_eq(now, old) || str_eq(now, new));
    CHECK(what != RENDER_RECOVER_FINISHED || str_eq(now, new));
    CHECK(what != RENDER_RECOVER_UNDONE || str_eq(now, old));
    assert_int_equal(recover(), RENDER_RECOVER_NONE);
    free(now);
    return what;
}

/* Killed at call `n`, and the recovery at every call of its own.  How many those were. */
static int recovery_killed_anywhere(void (*before)(void), int n, const char *old, const char *new)
{
    bool failed;
    int count, m = 1;

    for (;; m++) {
        before();
        (void)run_with_fault(n, true, &count, &failed);
        if (!recover_killed(m))
            return m;
        (void)check_whole(old, new);
    }
}

static void killed_anywhere(void (*before)(void))
{
    struct err err = { 0 };
    enum render_recovered last = RENDER_RECOVER_NONE;
    char *old, *new;
    int count, again = 0, n = 1;
    bool failed, more = true;

    before();
    old = snapshot(dir);
    assert_int_equal(write_set(set_b(), false, &err), RC_OK);
    new = snapshot(dir);
    for (; more; n++) {
        enum render_recovered what;

        before();
        more = run_with_fault(n, true, &count, &failed);
        what = check_whole(old, new);
        if (what != last && what != RENDER_RECOVER_NONE) /* as much as can be is left to do */
            again += recovery_killed_anywhere(before, n, old, new);
        last = what;
    }
    CHECK(n > 100 && again > 50); /* else the calls are not counted */
    free(old);
    free(new);
}

static void plain_put(void)
{
    fresh(true);
}

TEST(killed_anywhere_it_is_old_or_new)
{
    killed_anywhere(plain_put);
}

TEST(killed_anywhere_with_edits)
{
    killed_anywhere(edits_put);
}

/* --diff finishes it too: what it shows is what writing would change from there. */
TEST(a_diff_recovers_first)
{
    int count, n, empty = 0, full = 0;
    bool failed, more = true;

    for (n = 1; more; n++) {
        struct render_set set = set_b();
        struct buf diff = { 0 };
        struct err err = { 0 };
        char *now;

        fresh(true);
        more = run_with_fault(n, true, &count, &failed);
        assert_int_equal(render_diff(&set, &(struct render_where){ .dir = dir }, &diff, NULL, &err),
                         RC_OK);
        now = snapshot(dir);
        CHECK(!has(now, ".stoker-new") && !has(now, "journal"));
        if (diff.len)
            CHECK(has(now, "old conf") && has(now, "old secret") && has(now, "old gone"));
        else
            CHECK(has(now, "new conf") && has(now, "new secret") && !has(now, "gone"));
        empty += !diff.len;
        full += diff.len != 0;
        free(now);
        buf_release(&diff);
        render_set_release(&set);
    }
    CHECK(empty > 10 && full > 10);
}

/* What somebody edits between the crash and the next run stays, and is then merged or set aside as
 * any edit is. */
TEST(edits_after_a_crash_are_kept)
{
    static const char *const files[] = { "slurm/conf", "slurm/secret" };
    int count;
    bool failed, more = true;

    for (int n = 1; more; n++) {
        struct err err = { 0 };
        char *now;

        fresh(true);
        more = run_with_fault(n, true, &count, &failed);
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
            put(files[i], "edited since");
        (void)recover();
        now = snapshot(dir);
        CHECK(has(now, "/slurm/conf 100") && has(now, "/slurm/secret 100600 edited since\n"));
        CHECK(!has(now, ".stoker-new") && !has(now, "journal"));
        free(now);
        assert_int_equal(write_set(set_b(), false, &err), RC_OK);
        now = snapshot(dir);
        CHECK(has(now, "/slurm/conf.edited 100") || has(now, "/slurm/conf 100755 edited since\n"));
        CHECK(has(now, "/slurm/secret.edited 100600 edited since\n") ||
              has(now, "/slurm/secret 100600 edited since\n"));
        free(now);
    }
}

/* Whoever can write to the folder can write a journal: it leads nowhere else, and half of one is
 * refused by name. */
TEST(a_bad_journal_is_refused)
{
    static const char *const bad[] = {
        "",
        "x\n",
        "stoker-render-journal 1 commit\n",
        "stoker-render-journal 1 commit\nremove\t0\t0\t0\t0\t-\t-\t-\t../outside\nend\n",
        "stoker-render-journal 1 commit\nremove\t0\t0\t0\t0\t-\t-\t-\t.stoker-render\nend\n",
        "stoker-render-journal 1 commit\nwrite\t644\t0\t0\t0\t-\t-\t-\tslurm/conf\nend\n",
        ("stoker-render-journal 1 commit\nremove\t0\t0\t0\t0\t-\t-\t-\tb\n"
         "remove\t0\t0\t0\t0\t-\t-\t-\ta\nend\n"),
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct render_recovery what;
        struct err err = { 0 };

        fresh(true);
        put(".stoker-render.journal", bad[i]);
        assert_int_equal(render_recover(dir, &what, &err), RC_FAIL);
        assert_non_null(strstr(err.msg, "journal"));
        assert_non_null(strstr(err.hint, "Remove it"));
    }
    fresh(true);
}

static uint32_t dice_state = 1;

static uint32_t dice(uint32_t n)
{
    dice_state = dice_state * 1664525U + 1013904223U;
    return (dice_state >> 8) % n;
}

/* Some lines taken out and put in; those put in begin with `word` and are like no other. */
static void text_edit(struct buf *text, const char *word, uint32_t rate)
{
    static int unique;
    struct buf out = { 0 };
    char *save = NULL;

    if (!text->len)
        buf_addf(&out, "%s %d\n", word, ++unique);
    for (char *l = text->len ? strtok_r(text->data, "\n", &save) : NULL; l;
         l = strtok_r(NULL, "\n", &save)) {
        uint32_t what = dice(rate);

        if (what == 0)
            buf_addf(&out, "%s %d\n", word, ++unique);
        if ((what != 1 && what != 2) || strstr(l, "user")) /* those stay, to be looked for */
            buf_addf(&out, "%s\n", l);
        if (what == 2)
            buf_addf(&out, "%s %d\n", word, ++unique);
    }
    buf_release(text);
    *text = out;
}

static void file_text(const char *name, struct buf *out)
{
    char path[FILE_PATH_MAX];
    struct err err = { 0 };

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    buf_reset(out);
    if (file_exists(path))
        assert_int_equal(file_read(path, 1 << 20, out, &err), RC_OK);
}

/* Every line of the user's in `before` is in the file or in one that was set aside. */
static void check_lines(struct buf *before, const char *snap)
{
    char *save = NULL, want[64];

    for (char *l = before->len ? strtok_r(before->data, "\n", &save) : NULL; l;
         l = strtok_r(NULL, "\n", &save)) {
        if (!strstr(l, "user"))
            continue;
        (void)snprintf(want, sizeof(want), "%s\n", l);
        CHECK(has(snap, want));
    }
}

/* All texts of the folder, for looking up lines. */
static char *folder_lines(void)
{
    struct buf all = { 0 }, one = { 0 };
    char name[64];

    file_text("slurm/conf", &all);
    for (int i = 1; i < 300; i++) {
        (void)snprintf(name, sizeof(name), i > 1 ? "slurm/conf.edited.%d" : "slurm/conf.edited", i);
        file_text(name, &one);
        if (!one.len)
            break;
        buf_add(&all, one.data, one.len);
    }
    buf_release(&one);
    return all.len ? buf_take(&all) : xstrdup("");
}

static struct render_set set_of(const struct buf *text)
{
    struct render_set s = { 0 };

    set_add(&s, "slurm/conf", buf_str(text), false);
    return s;
}

/* Rendering and editing by turns, now and then killed on the way: no line of the user's is lost. */
TEST(no_line_of_the_user_is_lost)
{
    struct buf ours = { 0 }, before = { 0 }, after = { 0 };
    struct err err = { 0 };
    size_t merged = 0, aside = 0;

    fresh(false);
    for (int i = 0; i < 30; i++)
        buf_addf(&ours, "line %d\n", i);
    for (int round = 0; round < 300; round++) {
        struct render_set set = set_of(&ours);
        struct render_changes c = { 0 };
        char *snap;
        int status;
        pid_t pid;

        file_text("slurm/conf", &before);
        if (round % 3 == 2 && !(pid = fork())) {
            steps = 0;
            fault_at = 1 + (int)dice(120);
            fault_is_crash = true;
            _exit(render_write(&set, &(struct render_where){ .dir = dir }, NULL, &err) ? 1 : 0);
        } else if (round % 3 == 2) {
            assert_int_equal(waitpid(pid, &status, 0), pid);
        }
        assert_int_equal(render_write(&set, &(struct render_where){ .dir = dir }, &c, &err), RC_OK);
        file_text("slurm/conf", &after);
        if (c.items[0].edit == RENDER_EDIT_NONE || c.items[0].edit == RENDER_EDIT_ASIDE)
            assert_true(round % 3 == 2 || str_eq(buf_str(&after), buf_str(&ours)));
        merged += c.items[0].edit == RENDER_EDIT_MERGED;
        aside += c.items[0].edit == RENDER_EDIT_ASIDE;
        snap = folder_lines();
        check_lines(&before, snap);
        free(snap);
        render_changes_release(&c);
        render_set_release(&set);
        if (round % 2) {
            text_edit(&after, "user", 30);
            put("slurm/conf", buf_str(&after));
        }
        text_edit(&ours, "ours", 40);
        if (round % 40 == 39)
            file_remove_tree(dir); /* else copies pile up */
    }
    CHECK(merged > 10 && aside > 10);
    buf_release(&ours);
    buf_release(&before);
    buf_release(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_removes),
        cmocka_unit_test(changes_are_told),
        cmocka_unit_test(other_targets_stay),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(any_call_may_be_the_last),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(one_writer_at_a_time),
        cmocka_unit_test(paths_stay_below),
        cmocka_unit_test(the_diff_is_the_change),
        cmocka_unit_test(edits_survive_any_failure),
        cmocka_unit_test(edits_survive_any_crash),
        cmocka_unit_test(no_line_of_the_user_is_lost),
        cmocka_unit_test(killed_anywhere_it_is_old_or_new),
        cmocka_unit_test(killed_anywhere_with_edits),
        cmocka_unit_test(a_diff_recovers_first),
        cmocka_unit_test(edits_after_a_crash_are_kept),
        cmocka_unit_test(a_bad_journal_is_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
