/* SPDX-License-Identifier: MIT */
/* pickle: a stack machine over values in an arena.
 *
 * Each opcode is a case of step_opcode() or op_other(); a name it may refer to is a row of
 * `globals`.  A call makes a value of ours or is refused; stack, memo and values made are counted,
 * so that a small file cannot make a large one. */
#include "base/mem.h"
#include "model/weights/pickle_int.h"

#include <assert.h>

enum pickle_kind {
    V_NONE,
    V_BOOL,
    V_INT,
    V_BIG,
    V_FLOAT,
    V_STR,
    V_MARK,
    V_LIST,
    V_DICT,
    V_GLOBAL,
    V_STORAGE,
    V_TENSOR
};
enum global { G_ORDERED_DICT, G_REBUILD_TENSOR, G_REBUILD_PARAMETER, G_STORAGE };

/* A value of the machine, in the arena.  Tuples and lists are both V_LIST. */
struct value {
    enum pickle_kind kind;
    int64_t num;          /* V_BOOL, V_INT; V_STORAGE: elements */
    const char *text;     /* V_STR; V_STORAGE: its key; V_BIG: `count` bytes */
    struct value **items; /* V_LIST; V_DICT: key, value, key, value... */
    size_t count, cap;
    enum global global;         /* V_GLOBAL */
    enum st_dtype dtype;        /* of G_STORAGE, V_STORAGE, V_TENSOR */
    struct pickle_tensor *made; /* V_TENSOR; nameless yet */
};

struct pickle_machine {
    struct arena *arena;
    const uint8_t *data;
    size_t len, at, op_at; /* op_at: of the opcode that runs */
    struct value **stack;  /* on the heap */
    size_t depth, stack_cap;
    struct value **memo;                /* on the heap */
    size_t memo_cap, memo_next, values; /* memo_next: of MEMOIZE */
    struct value *result;
    struct pickle_storage *storages; /* on the heap */
    size_t storages_count, storages_cap;
    struct err *err;
};

static const struct {
    const char *module, *name;
    enum global global;
    enum st_dtype dtype;
} globals[] = {
    { "collections", "OrderedDict", G_ORDERED_DICT, 0 },
    { "torch._utils", "_rebuild_tensor_v2", G_REBUILD_TENSOR, 0 },
    { "torch._utils", "_rebuild_parameter", G_REBUILD_PARAMETER, 0 },
    { "torch", "DoubleStorage", G_STORAGE, ST_F64 },
    { "torch", "FloatStorage", G_STORAGE, ST_F32 },
    { "torch", "HalfStorage", G_STORAGE, ST_F16 },
    { "torch", "BFloat16Storage", G_STORAGE, ST_BF16 },
    { "torch", "LongStorage", G_STORAGE, ST_I64 },
    { "torch", "IntStorage", G_STORAGE, ST_I32 },
    { "torch", "ShortStorage", G_STORAGE, ST_I16 },
    { "torch", "CharStorage", G_STORAGE, ST_I8 },
    { "torch", "ByteStorage", G_STORAGE, ST_U8 },
    { "torch", "BoolStorage", G_STORAGE, ST_BOOL },
};

static enum rc bad_opcode(struct pickle_machine *m, const char *why)
{
    return err_set(m->err, RC_PARSE, "pickle: opcode 0x%02x at byte %zu: %s", m->data[m->op_at],
                   m->op_at, why);
}

/* --- input --- */
static enum rc take_bytes(struct pickle_machine *m, size_t n, const uint8_t **out)
{
    if (n > m->len - m->at)
        return bad_opcode(m, "the data ends too early");
    *out = m->data + m->at;
    m->at += n;
    return RC_OK;
}

static enum rc take_uint(struct pickle_machine *m, size_t bytes, uint64_t *out)
{
    const uint8_t *p = NULL;
    uint64_t v = 0;
    enum rc rc = take_bytes(m, bytes, &p);

    for (size_t i = 0; !rc && p && i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    *out = v;
    return rc;
}

/* Text up to a newline, NUL-terminated in the arena. */
static enum rc take_line(struct pickle_machine *m, const char **out)
{
    const uint8_t *nl = memchr(m->data + m->at, '\n', m->len - m->at);

    if (!nl || nl - (m->data + m->at) > PICKLE_NAME_MAX)
        return bad_opcode(m, "a name without an end");
    *out = arena_strndup(m->arena, (const char *)m->data + m->at, (size_t)(nl - m->data) - m->at);
    m->at = (size_t)(nl - m->data) + 1;
    return RC_OK;
}

/* --- stack --- */
static enum rc push_value(struct pickle_machine *m, struct value v)
{
    struct value *kept;

    if (m->depth == PICKLE_STACK_MAX || m->values == PICKLE_VALUES_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values at byte %zu",
                       m->depth == PICKLE_STACK_MAX ? PICKLE_STACK_MAX : PICKLE_VALUES_MAX,
                       m->op_at);
    m->values++;
    kept = arena_new(m->arena, struct value);
    *kept = v;
    VEC_GROW(m->stack, m->depth, m->stack_cap);
    m->stack[m->depth++] = kept;
    return RC_OK;
}

static enum rc push_old(struct pickle_machine *m, struct value *v)
{
    if (m->depth == PICKLE_STACK_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values on the stack",
                       PICKLE_STACK_MAX);
    VEC_GROW(m->stack, m->depth, m->stack_cap);
    m->stack[m->depth++] = v;
    return RC_OK;
}

/* NULL, with the error set, when there is none. */
static struct value *pop_value(struct pickle_machine *m)
{
    if (!m->depth || m->stack[m->depth - 1]->kind == V_MARK) {
        bad_opcode(m, "the stack is empty");
        return NULL;
    }
    return m->stack[--m->depth];
}

/* The place of the topmost mark. */
static enum rc find_mark(struct pickle_machine *m, size_t *out)
{
    for (size_t i = m->depth; i-- > 0;) {
        if (m->stack[i]->kind == V_MARK) {
            *out = i;
            return RC_OK;
        }
    }
    return bad_opcode(m, "there is no mark");
}

static enum rc push_list(struct pickle_machine *m, size_t from, size_t drop)
{
    size_t n = m->depth - from;
    struct value v = { .kind = V_LIST, .count = n };

    m->values += n;
    if (m->values > PICKLE_VALUES_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values", PICKLE_VALUES_MAX);
    v.items = arena_memdup(m->arena, m->stack + from, n * sizeof(*v.items));
    m->depth = from - drop;
    return push_value(m, v);
}

static enum rc push_tuple(struct pickle_machine *m, size_t n)
{
    if (m->depth < n)
        return bad_opcode(m, "the stack is empty");
    for (size_t i = m->depth - n; i < m->depth; i++) {
        if (m->stack[i]->kind == V_MARK)
            return bad_opcode(m, "a mark in a tuple");
    }
    return push_list(m, m->depth - n, 0);
}

static void add_item(struct pickle_machine *m, struct value *to, struct value *item)
{
    if (to->count == to->cap) {
        struct value **old = to->items;

        to->cap = to->cap ? to->cap * 2 : 16;
        to->items = arena_array(m->arena, struct value *, to->cap);
        if (to->count)
            memcpy(to->items, old, to->count * sizeof(*old));
    }
    to->items[to->count++] = item;
}

/* Everything from stack[from] goes into the object below it, which must be of `kind`. */
static enum rc add_items(struct pickle_machine *m, enum pickle_kind kind, size_t from, size_t drop)
{
    struct value *to;

    if (from < drop + 1 || m->stack[from - drop - 1]->kind != kind)
        return bad_opcode(m, "it adds to something that cannot take it");
    to = m->stack[from - drop - 1];
    if (kind == V_DICT && (m->depth - from) % 2)
        return bad_opcode(m, "a key without a value");
    m->values += m->depth - from;
    if (m->values > PICKLE_VALUES_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values", PICKLE_VALUES_MAX);
    /* a list made by push_list() is full: it grows from there */
    to->cap = to->cap ? to->cap : to->count;
    for (size_t i = from; i < m->depth; i++)
        add_item(m, to, m->stack[i]);
    m->depth = from - drop;
    return RC_OK;
}

/* --- memo --- */
static enum rc memo_put(struct pickle_machine *m, uint64_t i)
{
    if (!m->depth || m->stack[m->depth - 1]->kind == V_MARK)
        return bad_opcode(m, "there is nothing to remember");
    if (i >= PICKLE_MEMO_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d numbered values", PICKLE_MEMO_MAX);
    if (i >= m->memo_cap) {
        size_t cap = m->memo_cap ? m->memo_cap : 1024;

        while (cap <= i)
            cap *= 2;
        m->memo = xreallocarray(m->memo, cap, sizeof(*m->memo));
        memset(m->memo + m->memo_cap, 0, (cap - m->memo_cap) * sizeof(*m->memo));
        m->memo_cap = cap;
    }
    m->memo[i] = m->stack[m->depth - 1];
    return RC_OK;
}

static enum rc memo_get(struct pickle_machine *m, uint64_t i)
{
    if (i >= m->memo_cap || !m->memo[i])
        return bad_opcode(m, "nothing was remembered under this number");
    return push_old(m, m->memo[i]);
}

/* --- names and calls, of which none happens --- */
static enum rc global_find(struct pickle_machine *m, const char *module, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(globals); i++) {
        if (!strcmp(module, globals[i].module) && !strcmp(name, globals[i].name))
            return push_value(m, (struct value){ .kind = V_GLOBAL,
                                                 .global = globals[i].global,
                                                 .dtype = globals[i].dtype });
    }
    return err_set(
        m->err, RC_PARSE,
        "pickle: opcode 0x%02x at byte %zu asks for '%.100s.%.100s'; only tensors are read",
        m->data[m->op_at], m->op_at, module, name);
}

static enum rc op_global(struct pickle_machine *m)
{
    const char *module = "", *name = "";
    enum rc rc = take_line(m, &module);

    if (!rc)
        rc = take_line(m, &name);
    return rc ? rc : global_find(m, module, name);
}

static enum rc op_stack_global(struct pickle_machine *m)
{
    const struct value *name = pop_value(m), *module = name ? pop_value(m) : NULL;

    if (!module)
        return RC_PARSE;
    if (module->kind != V_STR || name->kind != V_STR)
        return bad_opcode(m, "a name that is no text");
    return global_find(m, module->text, name->text);
}

/* ("storage", class, key, place, elements); torch before 1.6 adds what view it is: None */
static enum rc op_persid(struct pickle_machine *m)
{
    const struct value *v = pop_value(m);
    struct pickle_storage s;

    if (!v)
        return RC_PARSE;
    if (v->kind != V_LIST || v->count < 5 || v->count > 6 || v->items[0]->kind != V_STR ||
        strcmp(v->items[0]->text, "storage") || v->items[1]->kind != V_GLOBAL ||
        v->items[1]->global != G_STORAGE || v->items[2]->kind != V_STR ||
        v->items[4]->kind != V_INT || v->items[4]->num < 0 ||
        (v->count == 6 && v->items[5]->kind != V_NONE))
        return bad_opcode(m, "it refers to something other than a storage");
    s = (struct pickle_storage){ .key = v->items[2]->text,
                                 .dtype = v->items[1]->dtype,
                                 .count = (uint64_t)v->items[4]->num };
    VEC_GROW(m->storages, m->storages_count, m->storages_cap);
    m->storages[m->storages_count++] = s;
    return push_value(
        m, (struct value){
               .kind = V_STORAGE, .dtype = s.dtype, .text = s.key, .num = v->items[4]->num });
}

/* Dimensions and strides, and how far behind the first the last element lies. */
static enum rc shape_take(struct pickle_machine *m, const struct value *size,
                          const struct value *stride, struct pickle_tensor *t)
{
    uint64_t count = 1, last = 0;

    if (size->kind != V_LIST || stride->kind != V_LIST || size->count != stride->count)
        return bad_opcode(m, "a tensor without shape and stride");
    if (size->count > ST_DIMS_MAX)
        return bad_opcode(m, "a tensor of too many dimensions");
    t->ndim = size->count;
    t->in_one_piece = true;
    for (size_t i = t->ndim; i-- > 0;) {
        const struct value *dim = size->items[i], *step = stride->items[i];
        uint64_t reach;

        if (dim->kind != V_INT || step->kind != V_INT || dim->num < 0 || step->num < 0)
            return bad_opcode(m, "a tensor whose shape or stride is not of whole numbers");
        if (dim->num > 1 && (uint64_t)step->num != count)
            t->in_one_piece = false;
        if (__builtin_mul_overflow(count, (uint64_t)dim->num, &count) || count > INT64_MAX ||
            __builtin_mul_overflow(dim->num ? (uint64_t)dim->num - 1 : 0, (uint64_t)step->num,
                                   &reach) ||
            __builtin_add_overflow(last, reach, &last) || last > INT64_MAX)
            return bad_opcode(m, "a tensor larger than any file");
        t->dims[i] = (size_t)dim->num;
        t->strides[i] = (uint64_t)step->num;
    }
    t->count = count;
    t->span = count ? last + 1 : 0;
    return RC_OK;
}

/* (storage, first element, shape, stride, requires_grad, hooks[, metadata]) */
static enum rc rebuild_tensor(struct pickle_machine *m, const struct value *args)
{
    const struct value *s, *first;
    struct pickle_tensor *t;
    enum rc rc;

    if (args->count < 6 || args->count > 7 || args->items[0]->kind != V_STORAGE ||
        args->items[1]->kind != V_INT || args->items[1]->num < 0)
        return bad_opcode(m, "a tensor that is not described as one");
    s = args->items[0];
    first = args->items[1];
    t = arena_new(m->arena, struct pickle_tensor);
    rc = shape_take(m, args->items[2], args->items[3], t);
    if (rc)
        return rc;
    if (first->num > s->num || t->span > (uint64_t)(s->num - first->num))
        return bad_opcode(m, "a tensor that reaches beyond its storage");
    if (t->count > (uint64_t)s->num && t->count > PICKLE_REPEAT_MAX)
        return err_set(m->err, RC_LIMIT,
                       "pickle: at byte %zu: a tensor that repeats its storage has more than %d "
                       "numbers",
                       m->op_at, PICKLE_REPEAT_MAX);
    t->dtype = s->dtype;
    t->storage = s->text;
    t->first = (uint64_t)first->num;
    t->storage_count = (uint64_t)s->num;
    return push_value(m, (struct value){ .kind = V_TENSOR, .made = t });
}

static enum rc op_reduce(struct pickle_machine *m)
{
    const struct value *args = pop_value(m), *what = args ? pop_value(m) : NULL;

    if (!what)
        return RC_PARSE;
    if (what->kind != V_GLOBAL || args->kind != V_LIST)
        return bad_opcode(m, "a call of something that is no name");
    if (what->global == G_ORDERED_DICT && !args->count)
        return push_value(m, (struct value){ .kind = V_DICT });
    if (what->global == G_REBUILD_TENSOR)
        return rebuild_tensor(m, args);
    if (what->global == G_REBUILD_PARAMETER && args->count == 3 && args->items[0]->kind == V_TENSOR)
        return push_old(m, args->items[0]);
    return bad_opcode(m, "a call we do not know");
}

/* The state of a dictionary is what torch notes about versions: passed over. */
static enum rc op_build(struct pickle_machine *m)
{
    const struct value *state = pop_value(m);

    if (!state)
        return RC_PARSE;
    if (!m->depth || m->stack[m->depth - 1]->kind != V_DICT || state->kind != V_DICT)
        return bad_opcode(m, "it sets the state of something other than a dictionary");
    return RC_OK;
}

/* --- values --- */
/* Text behind its length of `bytes` bytes. */
static enum rc op_text(struct pickle_machine *m, size_t bytes)
{
    const uint8_t *p = NULL;
    uint64_t n;
    enum rc rc = take_uint(m, bytes, &n);

    if (!rc)
        rc = take_bytes(m, (size_t)n, &p);
    if (rc || !p)
        return rc;
    if (n > PICKLE_NAME_MAX || memchr(p, 0, (size_t)n))
        return bad_opcode(m, "a text too long for a name, or with a NUL");
    return push_value(
        m, (struct value){ .kind = V_STR,
                           .text = arena_strndup(m->arena, (const char *)p, (size_t)n) });
}

/* LONG1: two's complement of as many bytes as it says.  Nothing but the mark of old files
 * is longer than 64 bits. */
static enum rc op_long(struct pickle_machine *m)
{
    const uint8_t *p = NULL;
    uint64_t n, v;
    enum rc rc = take_uint(m, 1, &n);

    if (!rc && n > 8) {
        rc = take_bytes(m, (size_t)n, &p);
        return rc ? rc
                  : push_value(m, (struct value){ .kind = V_BIG,
                                                  .text = arena_memdup(m->arena, p, (size_t)n),
                                                  .count = (size_t)n });
    }
    if (!rc)
        rc = take_uint(m, (size_t)n, &v);
    if (rc)
        return rc;
    if (n && n < 8 && (v >> (8 * n - 1) & 1))
        v |= ~0ull << (8 * n);
    return push_value(m, (struct value){ .kind = V_INT, .num = (int64_t)v });
}

static enum rc op_int(struct pickle_machine *m, size_t bytes)
{
    uint64_t v;
    enum rc rc = take_uint(m, bytes, &v);
    int64_t num = bytes == 4 ? (int32_t)v : (int64_t)v;

    return rc ? rc : push_value(m, (struct value){ .kind = V_INT, .num = num });
}

static enum rc op_memo(struct pickle_machine *m, size_t bytes, bool get)
{
    uint64_t i;
    enum rc rc = take_uint(m, bytes, &i);

    if (rc)
        return rc;
    return get ? memo_get(m, i) : memo_put(m, i);
}

/* APPENDS, SETITEMS and TUPLE take everything above the topmost mark. */
static enum rc op_marked(struct pickle_machine *m, uint8_t op)
{
    size_t mark = 0;
    enum rc rc = find_mark(m, &mark);

    if (rc)
        return rc;
    if (op == 't')
        return push_list(m, mark + 1, 1);
    return add_items(m, op == 'e' ? V_LIST : V_DICT, mark + 1, 1);
}

static enum rc op_add(struct pickle_machine *m, enum pickle_kind kind, size_t n)
{
    if (m->depth <= n)
        return bad_opcode(m, "the stack is empty");
    return add_items(m, kind, m->depth - n, 0);
}

static enum rc op_proto(struct pickle_machine *m)
{
    uint64_t v;
    enum rc rc = take_uint(m, 1, &v);

    if (!rc && (v < 2 || v > 5))
        return err_set(m->err, RC_PARSE, "pickle: protocol %llu; 2 to 5 are read",
                       (unsigned long long)v);
    return rc;
}

/* Bytes that say nothing here: the length of a frame, a floating point number. */
static enum rc op_skip(struct pickle_machine *m, size_t bytes, bool number)
{
    const uint8_t *p;
    enum rc rc = take_bytes(m, bytes, &p);

    return rc || !number ? rc : push_value(m, (struct value){ .kind = V_FLOAT });
}

static enum rc op_other(struct pickle_machine *m, uint8_t op)
{
    switch (op) {
    case 0x80:
        return op_proto(m);
    case 0x93:
        return op_stack_global(m);
    case 0x94:
        return memo_put(m, m->memo_next++); /* MEMOIZE: under the number that comes next */
    case 0x95:
        return op_skip(m, 8, false);
    case 'G':
        return op_skip(m, 8, true);
    case 'c':
        return op_global(m);
    case 'Q':
        return op_persid(m);
    case 'R':
        return op_reduce(m);
    case 'b':
        return op_build(m);
    case '.':
        m->result = pop_value(m);
        return m->result ? RC_OK : RC_PARSE;
    default:
        return bad_opcode(m, "no opcode of a dictionary of tensors");
    }
}

static enum rc step_opcode(struct pickle_machine *m, uint8_t op)
{
    switch (op) {
    case 'q':
        return op_memo(m, 1, false);
    case 'r':
        return op_memo(m, 4, false);
    case 'h':
        return op_memo(m, 1, true);
    case 'j':
        return op_memo(m, 4, true);
    case '(':
        return push_value(m, (struct value){ .kind = V_MARK });
    case ')':
    case ']':
        return push_value(m, (struct value){ .kind = V_LIST });
    case '}':
        return push_value(m, (struct value){ .kind = V_DICT });
    case 't':
    case 'e':
    case 'u':
        return op_marked(m, op);
    case 0x85:
    case 0x86:
    case 0x87:
        return push_tuple(m, op - 0x84u);
    case 'a':
        return op_add(m, V_LIST, 1);
    case 's':
        return op_add(m, V_DICT, 2);
    case 'X':
        return op_text(m, 4);
    case 'U':
    case 0x8c:
        return op_text(m, 1);
    case 0x8d:
        return op_text(m, 8);
    case 'J':
        return op_int(m, 4);
    case 'K':
        return op_int(m, 1);
    case 'M':
        return op_int(m, 2);
    case 0x8a:
        return op_long(m);
    case 'N':
        return push_value(m, (struct value){ .kind = V_NONE });
    case 0x88:
    case 0x89:
        return push_value(m, (struct value){ .kind = V_BOOL, .num = op == 0x88 });
    default:
        return op_other(m, op);
    }
}

static int storage_by_key(const void *a, const void *b)
{
    const struct pickle_storage *x = a, *y = b;

    return strcmp(x->key, y->key);
}

/* Each storage once; two tensors of one must agree about it. */
static enum rc storages_take(struct pickle_machine *m, struct pickle *out)
{
    size_t n = 0;

    out->storages = arena_array(m->arena, struct pickle_storage, m->storages_count);
    if (m->storages_count)
        qsort(m->storages, m->storages_count, sizeof(*m->storages), storage_by_key);
    for (size_t i = 0; i < m->storages_count; i++) {
        const struct pickle_storage *s = &m->storages[i];

        if (!n || strcmp(out->storages[n - 1].key, s->key))
            out->storages[n++] = *s;
        else if (out->storages[n - 1].dtype != s->dtype || out->storages[n - 1].count != s->count)
            return err_set(m->err, RC_PARSE, "pickle: storage '%.64s' is described in two ways",
                           s->key);
    }
    out->storages_count = n;
    return RC_OK;
}

static enum rc tensors_take(struct pickle_machine *m, struct pickle *out)
{
    const struct value *d = m->result;

    if (d->kind != V_DICT)
        return err_set(m->err, RC_PARSE, "pickle: it holds something other than a dictionary");
    if (d->count / 2 > ST_TENSORS_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d tensors", ST_TENSORS_MAX);
    out->tensors = arena_array(m->arena, struct pickle_tensor, d->count / 2);
    for (size_t i = 0; i < d->count; i += 2) {
        const struct value *name = d->items[i], *t = d->items[i + 1];

        if (name->kind != V_STR || !name->text[0])
            return err_set(m->err, RC_PARSE, "pickle: a tensor without a name");
        if (t->kind != V_TENSOR)
            return err_set(m->err, RC_PARSE, "pickle: '%.200s' is not a tensor", name->text);
        out->tensors[out->count] = *t->made;
        out->tensors[out->count++].name = name->text;
    }
    return out->count ? storages_take(m, out)
                      : err_set(m->err, RC_PARSE, "pickle: it holds no tensor");
}

/* --- whole programs --- */
/* Runs from m->at to the opcode that stops it; what was made before is forgotten. */
static enum rc machine_run(struct pickle_machine *m)
{
    enum rc rc = RC_OK;

    m->result = NULL;
    m->depth = m->memo_next = 0;
    if (m->memo)
        memset(m->memo, 0, m->memo_cap * sizeof(*m->memo));
    while (!rc && !m->result) {
        m->op_at = m->at < m->len ? m->at : m->len - 1;
        if (m->at == m->len)
            rc = bad_opcode(m, "the data ends before it stops");
        else
            rc = step_opcode(m, m->data[m->at++]);
    }
    return rc;
}

/* --- files of torch before 1.6: five pickles one behind the other --- */
static enum rc old_head(struct pickle_machine *m)
{
    static const uint8_t mark[] = { 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
    enum { VERSION = 1001 };
    enum rc rc = machine_run(m);

    if (rc)
        return rc;
    if (m->result->kind != V_BIG || m->result->count != sizeof(mark) ||
        memcmp(m->result->text, mark, sizeof(mark)))
        return err_set(m->err, RC_PARSE,
                       "pickle: it does not begin with the mark of torch's files");
    rc = machine_run(m);
    if (!rc && (m->result->kind != V_INT || m->result->num != VERSION))
        rc = err_set(m->err, RC_PARSE, "pickle: a version of torch's files other than %d", VERSION);
    return rc;
}

/* What the machine that wrote it was like. */
static enum rc old_system(struct pickle_machine *m)
{
    enum rc rc = machine_run(m);

    if (rc)
        return rc;
    for (size_t i = 0; m->result->kind == V_DICT && i < m->result->count; i += 2) {
        const struct value *key = m->result->items[i], *v = m->result->items[i + 1];

        if (key->kind == V_STR && !strcmp(key->text, "little_endian") && v->kind == V_BOOL &&
            v->num)
            return RC_OK;
    }
    return err_set(m->err, RC_PARSE, "pickle: its numbers are not little-endian");
}

/* The storages in the order in which they follow. */
static enum rc old_keys(struct pickle_machine *m, struct pickle *p)
{
    enum rc rc = machine_run(m);
    const struct value *list = m->result;
    struct pickle_storage *order;

    if (rc)
        return rc;
    if (list->kind != V_LIST || list->count != p->storages_count)
        return err_set(m->err, RC_PARSE, "pickle: its list of storages is not that of its tensors");
    order = arena_array(m->arena, struct pickle_storage, list->count);
    for (size_t i = 0; i < list->count; i++) {
        struct pickle_storage want = { .key = list->items[i]->text };
        struct pickle_storage *s =
            list->items[i]->kind != V_STR
                ? NULL
                : bsearch(&want, p->storages, p->storages_count, sizeof(want), storage_by_key);

        if (!s || s->listed)
            return err_set(m->err, RC_PARSE, "pickle: its list of storages names one %s",
                           s ? "twice" : "that no tensor has");
        s->listed = true;
        order[i] = *s;
    }
    p->storages = order;
    return RC_OK;
}

/* `out_end` NULL: one pickle, of an archive. */
static enum rc parse_any(const uint8_t *data, size_t len, struct pickle *out, size_t *out_end,
                         struct err *err)
{
    struct pickle p = { 0 };
    struct pickle_machine m = { .arena = &p.arena, .data = data, .len = len, .err = err };
    enum rc rc = RC_OK;

    if (!len || len > PICKLE_BYTES_MAX)
        return err_set(err, RC_PARSE, "pickle: it is empty or longer than %d bytes",
                       PICKLE_BYTES_MAX);
    if (out_end)
        rc = old_head(&m);
    if (!rc && out_end)
        rc = old_system(&m);
    if (!rc)
        rc = machine_run(&m);
    if (!rc)
        rc = tensors_take(&m, &p);
    if (!rc && out_end)
        rc = old_keys(&m, &p);
    free(m.stack);
    free(m.memo);
    free(m.storages);
    if (rc) {
        arena_release(&p.arena);
        return rc;
    }
    *out = p;
    if (out_end)
        *out_end = m.at;
    return RC_OK;
}

enum rc pickle_parse(const uint8_t *data, size_t len, struct pickle *out, struct err *err)
{
    return parse_any(data, len, out, NULL, err);
}

enum rc pickle_parse_old(const uint8_t *data, size_t len, struct pickle *out, size_t *out_end,
                         struct err *err)
{
    return parse_any(data, len, out, out_end, err);
}

void pickle_release(struct pickle *p)
{
    arena_release(&p->arena);
    *p = (struct pickle){ 0 };
}
