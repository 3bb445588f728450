/* SPDX-License-Identifier: MIT */
#include "model/pickle.h"
#include "base/mem.h"

#include <assert.h>

enum kind { V_NONE, V_BOOL, V_INT, V_STR, V_MARK, V_LIST, V_DICT, V_GLOBAL, V_STORAGE, V_TENSOR };
enum global { G_ORDERED_DICT, G_REBUILD_TENSOR, G_REBUILD_PARAMETER, G_STORAGE };

/* A value of the machine, in the arena.  Tuples and lists are both V_LIST. */
struct value {
    enum kind kind;
    int64_t num;          /* V_BOOL, V_INT; V_STORAGE: elements */
    const char *text;     /* V_STR; V_STORAGE: its key */
    struct value **items; /* V_LIST; V_DICT: key, value, key, value... */
    size_t count, cap;
    enum global global;         /* V_GLOBAL */
    enum st_dtype dtype;        /* of G_STORAGE, V_STORAGE, V_TENSOR */
    struct pickle_tensor *made; /* V_TENSOR; nameless yet */
};

struct machine {
    struct arena *arena;
    const uint8_t *data;
    size_t len, at, op_at; /* op_at: of the opcode that runs */
    struct value **stack;  /* on the heap */
    size_t depth, stack_cap;
    struct value **memo; /* on the heap */
    size_t memo_cap, values;
    struct value *result;
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

static enum rc bad(struct machine *m, const char *why)
{
    return err_set(m->err, RC_PARSE, "pickle: opcode 0x%02x at byte %zu: %s", m->data[m->op_at],
                   m->op_at, why);
}

/* --- input --- */
static enum rc take(struct machine *m, size_t n, const uint8_t **out)
{
    if (n > m->len - m->at)
        return bad(m, "the data ends too early");
    *out = m->data + m->at;
    m->at += n;
    return RC_OK;
}

static enum rc take_uint(struct machine *m, size_t bytes, uint64_t *out)
{
    const uint8_t *p = NULL;
    uint64_t v = 0;
    enum rc rc = take(m, bytes, &p);

    for (size_t i = 0; !rc && p && i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    *out = v;
    return rc;
}

/* Text up to a newline, NUL-terminated in the arena. */
static enum rc take_line(struct machine *m, const char **out)
{
    const uint8_t *nl = memchr(m->data + m->at, '\n', m->len - m->at);

    if (!nl || nl - (m->data + m->at) > PICKLE_NAME_MAX)
        return bad(m, "a name without an end");
    *out = arena_strndup(m->arena, (const char *)m->data + m->at, (size_t)(nl - m->data) - m->at);
    m->at = (size_t)(nl - m->data) + 1;
    return RC_OK;
}

/* --- stack --- */
static enum rc push(struct machine *m, struct value v)
{
    struct value *own;

    if (m->depth == PICKLE_STACK_MAX || m->values == PICKLE_VALUES_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values at byte %zu",
                       m->depth == PICKLE_STACK_MAX ? PICKLE_STACK_MAX : PICKLE_VALUES_MAX,
                       m->op_at);
    m->values++;
    own = arena_new(m->arena, struct value);
    *own = v;
    VEC_GROW(m->stack, m->depth, m->stack_cap);
    m->stack[m->depth++] = own;
    return RC_OK;
}

static enum rc push_old(struct machine *m, struct value *v)
{
    if (m->depth == PICKLE_STACK_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values on the stack",
                       PICKLE_STACK_MAX);
    VEC_GROW(m->stack, m->depth, m->stack_cap);
    m->stack[m->depth++] = v;
    return RC_OK;
}

/* NULL, with the error set, when there is none. */
static struct value *pop(struct machine *m)
{
    if (!m->depth || m->stack[m->depth - 1]->kind == V_MARK) {
        bad(m, "the stack is empty");
        return NULL;
    }
    return m->stack[--m->depth];
}

/* The place of the topmost mark. */
static enum rc find_mark(struct machine *m, size_t *out)
{
    for (size_t i = m->depth; i-- > 0;) {
        if (m->stack[i]->kind == V_MARK) {
            *out = i;
            return RC_OK;
        }
    }
    return bad(m, "there is no mark");
}

static enum rc push_list(struct machine *m, size_t from, size_t drop)
{
    size_t n = m->depth - from;
    struct value v = { .kind = V_LIST, .count = n };

    m->values += n;
    if (m->values > PICKLE_VALUES_MAX)
        return err_set(m->err, RC_LIMIT, "pickle: more than %d values", PICKLE_VALUES_MAX);
    v.items = arena_memdup(m->arena, m->stack + from, n * sizeof(*v.items));
    m->depth = from - drop;
    return push(m, v);
}

static enum rc push_tuple(struct machine *m, size_t n)
{
    if (m->depth < n)
        return bad(m, "the stack is empty");
    for (size_t i = m->depth - n; i < m->depth; i++) {
        if (m->stack[i]->kind == V_MARK)
            return bad(m, "a mark in a tuple");
    }
    return push_list(m, m->depth - n, 0);
}

static void add_item(struct machine *m, struct value *to, struct value *item)
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
static enum rc add_items(struct machine *m, enum kind kind, size_t from, size_t drop)
{
    struct value *to;

    if (from < drop + 1 || m->stack[from - drop - 1]->kind != kind)
        return bad(m, "it adds to something that cannot take it");
    to = m->stack[from - drop - 1];
    if (kind == V_DICT && (m->depth - from) % 2)
        return bad(m, "a key without a value");
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
static enum rc memo_put(struct machine *m, uint64_t i)
{
    if (!m->depth || m->stack[m->depth - 1]->kind == V_MARK)
        return bad(m, "there is nothing to remember");
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

static enum rc memo_get(struct machine *m, uint64_t i)
{
    if (i >= m->memo_cap || !m->memo[i])
        return bad(m, "nothing was remembered under this number");
    return push_old(m, m->memo[i]);
}

/* --- names and calls, of which none happens --- */
static enum rc op_global(struct machine *m)
{
    const char *module = "", *name = "";
    enum rc rc = take_line(m, &module);

    if (!rc)
        rc = take_line(m, &name);
    if (rc)
        return rc;
    for (size_t i = 0; i < ARRAY_SIZE(globals); i++) {
        if (!strcmp(module, globals[i].module) && !strcmp(name, globals[i].name))
            return push(m, (struct value){ .kind = V_GLOBAL,
                                           .global = globals[i].global,
                                           .dtype = globals[i].dtype });
    }
    return err_set(
        m->err, RC_PARSE,
        "pickle: opcode 0x63 at byte %zu asks for '%.100s.%.100s'; only tensors are read", m->op_at,
        module, name);
}

/* ("storage", class, key, place, elements) */
static enum rc op_persid(struct machine *m)
{
    const struct value *v = pop(m);

    if (!v)
        return RC_PARSE;
    if (v->kind != V_LIST || v->count != 5 || v->items[0]->kind != V_STR ||
        strcmp(v->items[0]->text, "storage") || v->items[1]->kind != V_GLOBAL ||
        v->items[1]->global != G_STORAGE || v->items[2]->kind != V_STR ||
        v->items[4]->kind != V_INT || v->items[4]->num < 0)
        return bad(m, "a reference to something other than a storage");
    return push(m, (struct value){ .kind = V_STORAGE,
                                   .dtype = v->items[1]->dtype,
                                   .text = v->items[2]->text,
                                   .num = v->items[4]->num });
}

/* Shape and stride agree when the elements lie one behind the other. */
static enum rc shape_take(struct machine *m, const struct value *size, const struct value *stride,
                          struct pickle_tensor *t)
{
    uint64_t count = 1;

    if (size->kind != V_LIST || stride->kind != V_LIST || size->count != stride->count)
        return bad(m, "a tensor without shape and stride");
    if (size->count > ST_DIMS_MAX)
        return bad(m, "a tensor of too many dimensions");
    t->ndim = size->count;
    for (size_t i = t->ndim; i-- > 0;) {
        const struct value *dim = size->items[i], *step = stride->items[i];

        if (dim->kind != V_INT || step->kind != V_INT || dim->num < 0)
            return bad(m, "a tensor whose shape is not of whole numbers");
        if (count && dim->num > 1 && step->num != (int64_t)count)
            return bad(m, "a tensor that does not lie in one piece");
        if (__builtin_mul_overflow(count, (uint64_t)dim->num, &count) || count > INT64_MAX)
            return bad(m, "a tensor larger than any file");
        t->dims[i] = (size_t)dim->num;
    }
    t->count = count;
    return RC_OK;
}

/* (storage, first element, shape, stride, requires_grad, hooks[, metadata]) */
static enum rc rebuild_tensor(struct machine *m, const struct value *args)
{
    const struct value *s, *first;
    struct pickle_tensor *t;
    enum rc rc;

    if (args->count < 6 || args->count > 7 || args->items[0]->kind != V_STORAGE ||
        args->items[1]->kind != V_INT || args->items[1]->num < 0)
        return bad(m, "a tensor that is not described as one");
    s = args->items[0];
    first = args->items[1];
    t = arena_new(m->arena, struct pickle_tensor);
    rc = shape_take(m, args->items[2], args->items[3], t);
    if (rc)
        return rc;
    if (first->num > s->num || t->count > (uint64_t)(s->num - first->num))
        return bad(m, "a tensor that reaches beyond its storage");
    t->dtype = s->dtype;
    t->storage = s->text;
    t->first = (uint64_t)first->num;
    t->storage_count = (uint64_t)s->num;
    return push(m, (struct value){ .kind = V_TENSOR, .made = t });
}

static enum rc op_reduce(struct machine *m)
{
    const struct value *args = pop(m), *what = args ? pop(m) : NULL;

    if (!what)
        return RC_PARSE;
    if (what->kind != V_GLOBAL || args->kind != V_LIST)
        return bad(m, "a call of something that is no name");
    if (what->global == G_ORDERED_DICT && !args->count)
        return push(m, (struct value){ .kind = V_DICT });
    if (what->global == G_REBUILD_TENSOR)
        return rebuild_tensor(m, args);
    if (what->global == G_REBUILD_PARAMETER && args->count == 3 && args->items[0]->kind == V_TENSOR)
        return push_old(m, args->items[0]);
    return bad(m, "a call we do not know");
}

/* The state of a dictionary is what torch notes about versions: passed over. */
static enum rc op_build(struct machine *m)
{
    const struct value *state = pop(m);

    if (!state)
        return RC_PARSE;
    if (!m->depth || m->stack[m->depth - 1]->kind != V_DICT || state->kind != V_DICT)
        return bad(m, "it sets the state of something other than a dictionary");
    return RC_OK;
}

/* --- values --- */
static enum rc op_text(struct machine *m)
{
    const uint8_t *p = NULL;
    uint64_t n;
    enum rc rc = take_uint(m, 4, &n);

    if (!rc)
        rc = take(m, (size_t)n, &p);
    if (rc || !p)
        return rc;
    if (n > PICKLE_NAME_MAX || memchr(p, 0, (size_t)n))
        return bad(m, "a text too long for a name, or with a NUL");
    return push(m, (struct value){ .kind = V_STR,
                                   .text = arena_strndup(m->arena, (const char *)p, (size_t)n) });
}

/* LONG1: two's complement of as many bytes as it says. */
static enum rc op_long(struct machine *m)
{
    uint64_t n, v;
    enum rc rc = take_uint(m, 1, &n);

    if (!rc && n > 8)
        rc = bad(m, "a number of more than 64 bits");
    if (!rc)
        rc = take_uint(m, (size_t)n, &v);
    if (rc)
        return rc;
    if (n && n < 8 && (v >> (8 * n - 1) & 1))
        v |= ~0ull << (8 * n);
    return push(m, (struct value){ .kind = V_INT, .num = (int64_t)v });
}

static enum rc op_int(struct machine *m, size_t bytes)
{
    uint64_t v;
    enum rc rc = take_uint(m, bytes, &v);
    int64_t num = bytes == 4 ? (int32_t)v : (int64_t)v;

    return rc ? rc : push(m, (struct value){ .kind = V_INT, .num = num });
}

static enum rc op_memo(struct machine *m, size_t bytes, bool get)
{
    uint64_t i;
    enum rc rc = take_uint(m, bytes, &i);

    if (rc)
        return rc;
    return get ? memo_get(m, i) : memo_put(m, i);
}

/* APPENDS, SETITEMS and TUPLE take everything above the topmost mark. */
static enum rc op_marked(struct machine *m, uint8_t op)
{
    size_t mark = 0;
    enum rc rc = find_mark(m, &mark);

    if (rc)
        return rc;
    if (op == 't')
        return push_list(m, mark + 1, 1);
    return add_items(m, op == 'e' ? V_LIST : V_DICT, mark + 1, 1);
}

static enum rc op_add(struct machine *m, enum kind kind, size_t n)
{
    if (m->depth <= n)
        return bad(m, "the stack is empty");
    return add_items(m, kind, m->depth - n, 0);
}

static enum rc op_proto(struct machine *m)
{
    uint64_t v;
    enum rc rc = take_uint(m, 1, &v);

    if (!rc && v != 2)
        return err_set(m->err, RC_PARSE, "pickle: protocol %llu; only 2 is read",
                       (unsigned long long)v);
    return rc;
}

static enum rc op_other(struct machine *m, uint8_t op)
{
    switch (op) {
    case 0x80:
        return op_proto(m);
    case 'c':
        return op_global(m);
    case 'Q':
        return op_persid(m);
    case 'R':
        return op_reduce(m);
    case 'b':
        return op_build(m);
    case '.':
        m->result = pop(m);
        return m->result ? RC_OK : RC_PARSE;
    default:
        return bad(m, "no opcode of a dictionary of tensors");
    }
}

static enum rc step(struct machine *m, uint8_t op)
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
        return push(m, (struct value){ .kind = V_MARK });
    case ')':
    case ']':
        return push(m, (struct value){ .kind = V_LIST });
    case '}':
        return push(m, (struct value){ .kind = V_DICT });
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
        return op_text(m);
    case 'J':
        return op_int(m, 4);
    case 'K':
        return op_int(m, 1);
    case 'M':
        return op_int(m, 2);
    case 0x8a:
        return op_long(m);
    case 'N':
        return push(m, (struct value){ .kind = V_NONE });
    case 0x88:
    case 0x89:
        return push(m, (struct value){ .kind = V_BOOL, .num = op == 0x88 });
    default:
        return op_other(m, op);
    }
}

static enum rc result_take(struct machine *m, struct pickle *out)
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
    return out->count ? RC_OK : err_set(m->err, RC_PARSE, "pickle: it holds no tensor");
}

enum rc pickle_parse(const uint8_t *data, size_t len, struct pickle *out, struct err *err)
{
    struct pickle p = { 0 };
    struct machine m = { .arena = &p.arena, .data = data, .len = len, .err = err };
    enum rc rc = RC_OK;

    if (!len || len > PICKLE_BYTES_MAX)
        return err_set(err, RC_PARSE, "pickle: it is empty or longer than %d bytes",
                       PICKLE_BYTES_MAX);
    while (!rc && !m.result) {
        m.op_at = m.at < len ? m.at : len - 1;
        if (m.at == len)
            rc = bad(&m, "the data ends before it stops");
        else
            rc = step(&m, data[m.at++]);
    }
    if (!rc)
        rc = result_take(&m, &p);
    free(m.stack);
    free(m.memo);
    if (rc)
        arena_release(&p.arena);
    else
        *out = p;
    return rc;
}

void pickle_release(struct pickle *p)
{
    arena_release(&p->arena);
    *p = (struct pickle){ 0 };
}
