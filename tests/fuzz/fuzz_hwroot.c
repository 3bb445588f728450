/* SPDX-License-Identifier: MIT */
/* fuzz_hwroot: the file sources of hw/ over a machine made of the input.
 *
 * The input is text, so that a corpus file can be written by hand:
 *
 *   =/sys/class/net/eth0/mtu      a file; the lines up to the next mark are its bytes
 *   1500
 *   @/sys/class/net/eth0 ../../devices/x    a link and its target
 *
 * It becomes a tar in memory, which is opened as a captured machine.  Besides not
 * crashing: what the sources found is written as JSON and must read back. */
#include "fuzz.h"

#include "hw/hw_int.h"
#include "os/tree.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FUZZ_NODES_MAX = 4096, FUZZ_INPUT_MAX = 256 << 10 };

struct line {
    const char *s;
    size_t len;      /* without the line end */
    size_t with_end; /* with it, when there is one */
};

static bool next_line(const char **at, const char *end, struct line *out)
{
    const char *nl;

    if (*at == end)
        return false;
    nl = memchr(*at, '\n', (size_t)(end - *at));
    out->s = *at;
    out->len = (size_t)((nl ? nl : end) - *at);
    out->with_end = out->len + (nl != NULL);
    *at += out->with_end;
    return true;
}

static void put_link(struct tree *t, const struct line *l)
{
    char text[2 * ROOT_PATH_MAX];
    char *space;

    (void)snprintf(text, sizeof(text), "%.*s", (int)(l->len < sizeof(text) ? l->len : 0), l->s);
    space = strchr(text, ' ');
    if (!space || text[0] != '@')
        return;
    *space = '\0';
    (void)tree_put(t, text + 1, TREE_LINK, space + 1, strlen(space + 1), 0);
}

static void put_file(struct tree *t, const struct line *name, const struct buf *bytes)
{
    char path[ROOT_PATH_MAX];

    if (!name->s || name->len >= sizeof(path))
        return;
    (void)snprintf(path, sizeof(path), "%.*s", (int)name->len - 1, name->s + 1);
    (void)tree_put(t, path, TREE_FILE, buf_str(bytes), bytes->len, 0);
}

static void build(struct tree *t, const char *s, size_t len)
{
    const char *end = s + len;
    struct line l, name = { 0 };
    struct buf bytes = { 0 };

    while (t->count < FUZZ_NODES_MAX && next_line(&s, end, &l)) {
        if (l.len > 0 && (l.s[0] == '=' || l.s[0] == '@')) {
            put_file(t, &name, &bytes);
            name = (struct line){ 0 };
            buf_reset(&bytes);
            if (l.s[0] == '=')
                name = l;
            else
                put_link(t, &l);
        } else {
            buf_add(&bytes, l.s, l.with_end);
        }
    }
    put_file(t, &name, &bytes);
    buf_release(&bytes);
}

/* The tree as a tar in a memory file, opened as a captured machine. */
static struct root *open_tree(struct tree *t)
{
    struct buf tar = { 0 };
    struct root *root = NULL;
    char path[64];
    int fd = memfd_create("hwroot", MFD_CLOEXEC);
    bool written;

    assert(fd >= 0);
    tar_write(t, &tar);
    written = write(fd, buf_str(&tar), tar.len) == (ssize_t)tar.len;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!written || root_open(path, &root, NULL))
        root = NULL;
    close(fd);
    buf_release(&tar);
    return root;
}

/* GPUs as PCI alone knows them, so that there is something to measure from. */
static void gpus_from_pci(struct hw_build *b)
{
    struct hw *hw = b->hw;

    hw->gpus = arena_array(b->a, struct hw_gpu, hw->pci_count);
    for (size_t i = 0; i < hw->pci_count; i++)
        if (hw->pci[i].class_.known && hw->pci[i].class_.v >> 16 == 0x03)
            hw->gpus[hw->gpus_count++] = (struct hw_gpu){ .bdf = hw->pci[i].bdf, .state = "ok" };
}

static void probe(struct hw_build *b)
{
    static void (*const sources[])(struct hw_build *) = {
        hw_src_self, hw_src_place, hw_src_cpu,    hw_src_memory,  hw_src_pci,  gpus_from_pci,
        hw_src_net,  hw_src_rdma,  hw_src_limits, hw_src_storage, hw_src_topo,
    };

    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        sources[i](b);
}

static void round_trip(const struct hw *hw)
{
    struct buf json = { 0 };
    struct hw *back = NULL;
    struct err err = { 0 };

    hw_write_json(hw, &json);
    if (!json.over && hw_read_json(buf_str(&json), json.len, &back, &err)) {
        (void)fprintf(stderr, "the inventory does not read back: %s\n", err.msg);
        abort();
    }
    hw_free(back);
    buf_release(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hw_opts opts = { 0 };
    struct hw *hw = calloc(1, sizeof(*hw));
    struct hw_build b = { .hw = hw, .opts = &opts };
    struct tree t;

    assert(hw);
    b.a = &hw->arena;
    tree_init(&t);
    build(&t, (const char *)data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX);
    b.root = open_tree(&t);
    if (b.root) {
        probe(&b);
        round_trip(hw);
    }
    root_close(b.root);
    tree_release(&t);
    hw_free(hw);
    return 0;
}
