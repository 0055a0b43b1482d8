/* The launcher: checks arguments, makes outputs and runs programs.
 *
 * One file, two uses. As it is, it is the extension module aotarray.runtime._launcher, on which `jit`
 * runs. With -DAOTARRAY_MODULE it is the Python face of a built module: it is linked with kernels and
 * with a generated C file (aotarray/aot/module_data.py) that holds what module.h declares.
 *
 * It uses CPython's limited API and no NumPy headers. Programs are described in aotarray/program.py and
 * laid out as words by aotarray/runtime/encode.py; what a program refers to was verified there.
 *
 * In order: programs (rows), NumPy, leaves (arguments), what the machine has, threads, memory, frames (one
 * run), instructions, C functions for kernels; then either images, programs and dispatchers for jit, or
 * functions of a built module.
 *
 * Alone, for development:
 *   cc -O2 -fPIC -shared -Wall -Wextra $(python3-config --includes) launcher.c \
 *      -o _launcher.abi3.so -lm -lpthread
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <pyconfig.h>
#if !defined(Py_GIL_DISABLED) && !defined(Py_LIMITED_API) /* free-threading builds have no limited API before 3.15 */
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <complex.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef AOTARRAY_MODULE
#include "module.h"
#endif
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifndef CMPLX /* clang, whose glibc headers do not define it */
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#define CMPLXF(re, im) __builtin_complex((float)(re), (float)(im))
#endif

#define COUNT(table) ((Py_ssize_t)(sizeof(table) / sizeof *(table)))
#define LINE 64 /* bytes in a cache line: the alignment of everything allocated here */

/* ---- Programs: the rows that encode.py writes ------------------------------------------------- */

typedef void (*Kernel)(void *const *pointers, const int64_t *ints, void *scratch, int64_t begin, int64_t end);

#define MAGIC 0x3544F41

typedef struct {
    int64_t magic, words, name, strings_at;
    int64_t n_args, args_at, n_slots, slots_at, n_checks, checks_at, n_buffers, buffers_at;
    int64_t n_instructions, instructions_at, n_outputs, outputs_at, n_kernels, n_constants;
    int64_t n_values;                  /* slots, then the strides of every buffer */
    int64_t max_pointers, max_ints;    /* over all kernel calls */
    int64_t n_late;                    /* buffers whose memory a measure makes */
} Header;

typedef struct { int64_t name, dtype, rank, weak, dense, inout; } Arg;
typedef struct { int64_t op, a, b; } SizeOp;
typedef struct { int64_t relation, a, b, message, exception; } Check;
typedef struct {
    int64_t kind, dtype, rank, dims_at, index, dense, zero, strides_at, n_like, like_at;
    int64_t late; /* number among the buffers that a measure makes; -1: known at entry */
} Buffer;
typedef struct {
    int64_t kind;
    union {
        struct {
            int64_t kernel, n_pointers, pointers_at, n_ints, ints_at, count, work, cost, grain, scratch;
            int64_t n_loops, n_operands, collapse_at;
        } kernel;
        struct {
            int64_t name, base, returns, n_results, results_at, n_args, args_at, n_keywords, keywords_at;
        } library;
        struct { int64_t buffer, exception, message; } raise;
        struct { int64_t condition, exception, text, n_values, values_at; } effect;
        struct {
            int64_t slot, buffer, n_checks, checks_at, n_buffers, buffers_at, n_scratch, scratch_at, makes_results;
        } measure;
        struct { int64_t target; } jump;
        struct { int64_t buffer, target; } unless;
        struct { int64_t buffer, n_targets, targets_at; } table;
        struct { int64_t a, b; } swap;
        struct { int64_t buffer, source, counter; } point;
        struct { int64_t counter, lower, upper, reverse, target; } loop;
    } u;
} Instruction;

enum { SIZE_DIM, SIZE_CONST, SIZE_ADD, SIZE_SUB, SIZE_MUL, SIZE_FLOORDIV, SIZE_MOD, SIZE_LESSER, SIZE_GREATER, SIZE_MEASURED };
enum { CHECK_EQ, CHECK_NE, CHECK_GE };
enum { BUFFER_ARG, BUFFER_OUT, BUFFER_TEMP, BUFFER_CONST, BUFFER_ALIAS };
enum {
    RUN_KERNEL, RUN_LIBRARY, RUN_RAISE, RUN_EFFECT, RUN_MEASURE,
    RUN_JUMP, RUN_UNLESS, RUN_TABLE, RUN_SWAP, RUN_POINT, RUN_BEGIN, RUN_NEXT /* these never need the GIL */
};
enum { RETURNS_NOTHING, RETURNS_ONE, RETURNS_SEVERAL };
enum { OF_OPERAND, OF_RESULT, OF_SIZE, OF_NONE, OF_BOOL, OF_INT, OF_STR, OF_FLOAT, OF_ALL, OF_TUPLE };
enum { B1, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, C64, C128, DTYPES };

static const struct { const char *name; int8_t size, align; } dtypes[DTYPES] = {
    {"bool", 1, 1},    {"int8", 1, 1},    {"int16", 2, 2},   {"int32", 4, 4},     {"int64", 8, 8},
    {"uint8", 1, 1},   {"uint16", 2, 2},  {"uint32", 4, 4},  {"uint64", 8, 8},    {"float16", 2, 2},
    {"float32", 4, 4}, {"float64", 8, 8}, {"complex64", 8, 4}, {"complex128", 16, 8},
};

typedef struct {
    const Header *head;
    const Arg *args;
    const SizeOp *slots;
    const Check *checks;
    const Buffer *buffers;
    const Instruction *instructions;
    const int64_t *outputs;
    const char *strings;
    const char *constants;  /* 64-byte aligned */
    const Kernel *kernels;
    PyObject *result_type;  /* borrowed */
    int threads;            /* at most so many run its kernels; 0: as many as any call may use */
} Program;

#define LIST(program, at) ((const int64_t *)(program)->head + (at))
#define TEXT(program, at) ((program)->strings + (at))

static int program_open(Program *p, const int64_t *words, size_t count)
{
    const Header *h = (const Header *)words;
    if (count * 8 < sizeof *h || h->magic != MAGIC || h->words != (int64_t)count) {
        PyErr_SetString(PyExc_ValueError, "these are not the words of a program of this version");
        return -1;
    }
    p->head = h;
    p->args = (const Arg *)(words + h->args_at);
    p->slots = (const SizeOp *)(words + h->slots_at);
    p->checks = (const Check *)(words + h->checks_at);
    p->buffers = (const Buffer *)(words + h->buffers_at);
    p->instructions = (const Instruction *)(words + h->instructions_at);
    p->outputs = words + h->outputs_at;
    p->strings = (const char *)(words + h->strings_at);
    return 0;
}

/* Text with {a} or {value}, and {b} or {size}, replaced by numbers, as a new str. */
static PyObject *fill_message(const char *text, int64_t a, int64_t b)
{
    static const char *const marks[] = {"{a}", "{value}", "{b}", "{size}"};
    size_t room = strlen(text) + 1;
    for (const char *c = text; *c; c++) room += *c == '{' ? 20 : 0;
    char *filled = malloc(room), *to = filled;
    if (!filled) return PyErr_NoMemory();
    while (*text) {
        Py_ssize_t mark = 0;
        while (mark < COUNT(marks) && strncmp(text, marks[mark], strlen(marks[mark]))) mark++;
        if (mark == COUNT(marks)) {
            *to++ = *text++;
        } else {
            to += snprintf(to, 22, "%lld", (long long)(mark >= 2 ? b : a));
            text += strlen(marks[mark]);
        }
    }
    PyObject *message = PyUnicode_DecodeUTF8(filled, to - filled, "replace");
    free(filled);
    return message;
}

/* ---- NumPy, through Python objects --------------------------------------------------------------- */

static struct {
    PyObject *module, *empty, *array, *copyto;
    PyTypeObject *ndarray, *generic;
    PyObject *dtype[DTYPES];         /* the one dtype object of each native type */
    PyTypeObject *result;            /* the ndarray subclass that results have, if any */
    PyObject *c_order;               /* {"order": "C"} */
    int head_known;                  /* arrays may be read through ArrayHead */
    int64_t interpreter;
} np = {.interpreter = -1};

/* The fields that NumPy's C API has always laid out so, as every extension module compiled against it
 * reads them. Read only after `probe_head` found them to agree with the buffer protocol, which costs
 * about 0.1 us an array more. */
typedef struct {
    PyObject_HEAD
    char *data;
    int rank;
    Py_ssize_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
} ArrayHead;

#define HEAD_WRITEABLE 0x0400

static int dtype_code(PyObject *dtype)
{
    for (int code = DTYPES - 1; code >= 0; code--)
        if (np.dtype[code] == dtype) return code;
    return -1;
}

static int probe_head(void)
{
    const ArrayHead *head;
    Py_buffer view = {0};
    PyObject *a = PyObject_CallMethod(np.module, "zeros", "((ii)O)", 3, 5, np.dtype[I16]);
    PyObject *t = a ? PyObject_GetAttrString(a, "T") : NULL;
    PyObject *size = PyObject_GetAttrString((PyObject *)np.ndarray, "__basicsize__");
    int rc = -1;
    if (!t || !size || PyObject_GetBuffer(t, &view, PyBUF_RECORDS) < 0) goto end;
    head = (const ArrayHead *)t;
    np.head_known = PyLong_AsLong(size) >= (long)sizeof *head && head->data == view.buf && head->rank == 2 &&
                    head->dtype == np.dtype[I16] && (head->flags & HEAD_WRITEABLE) &&
                    !memcmp(head->shape, view.shape, 2 * sizeof(Py_ssize_t)) &&
                    !memcmp(head->strides, view.strides, 2 * sizeof(Py_ssize_t));
    rc = 0;
end:
    if (view.obj) PyBuffer_Release(&view);
    Py_XDECREF(size);
    Py_XDECREF(t);
    Py_XDECREF(a);
    return rc;
}

/* Kept for the life of the process, so only one interpreter can use them. */
static int load_numpy(void)
{
    int64_t interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (np.interpreter == interpreter) return 0;
    if (np.interpreter != -1) {
        PyErr_SetString(PyExc_ImportError, "this module is in use by another interpreter of this process");
        return -1;
    }
    if (!(np.module = PyImport_ImportModule("numpy")) ||
        !(np.empty = PyObject_GetAttrString(np.module, "empty")) ||
        !(np.array = PyObject_GetAttrString(np.module, "array")) ||
        !(np.copyto = PyObject_GetAttrString(np.module, "copyto")) ||
        !(np.ndarray = (PyTypeObject *)PyObject_GetAttrString(np.module, "ndarray")) ||
        !(np.generic = (PyTypeObject *)PyObject_GetAttrString(np.module, "generic")) ||
        !(np.c_order = Py_BuildValue("{ss}", "order", "C")))
        return -1;
    for (int code = 0; code < DTYPES; code++)
        if (!(np.dtype[code] = PyObject_CallMethod(np.module, "dtype", "s", dtypes[code].name))) return -1;
    if (probe_head() < 0) return -1;
    np.interpreter = interpreter;
    return 0;
}

/* Frees an object of a heap type. */
static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *new_object(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

static PyObject *shape_tuple(const Program *p, const Buffer *b, const int64_t *values)
{
    const int64_t *dims = LIST(p, b->dims_at);
    PyObject *shape = PyTuple_New(b->rank);
    for (int64_t d = 0; shape && d < b->rank; d++) {
        PyObject *dim = PyLong_FromLongLong(values[dims[d]]);
        if (!dim || PyTuple_SetItem(shape, d, dim) < 0) Py_CLEAR(shape);
    }
    return shape;
}

/* ---- Leaves: the arrays and scalars of a call --------------------------------------------------- */

/* Kinds 1 to 4 are also the codes of weak arguments. */
enum { LEAF_ARRAY, LEAF_BOOL, LEAF_INT, LEAF_FLOAT, LEAF_COMPLEX, LEAF_BAD };
enum { BAD_TYPE, BAD_DTYPE, BAD_ORDER, BAD_SUBCLASS };

#define INLINE_RANK 6

typedef struct {
    PyObject *object;                  /* owned */
    PyObject *copy;                    /* owned: what is read instead, in C order and aligned */
    int8_t kind, dtype, problem, big;  /* big: an int beyond int64 */
    int writable, rank;
    char *data;
    const Py_ssize_t *shape, *strides; /* strides in bytes */
    Py_ssize_t own_shape[INLINE_RANK], own_strides[INLINE_RANK];
    union { char b; int64_t i; double f[2]; } scalar;
    Py_buffer view;                    /* in use when view.obj is set */
} Leaf;

/* Type code of a buffer's format and item size; -1: none of ours, -2: of the other byte order. */
static int format_code(const char *format, Py_ssize_t size)
{
    static const char order[] = "@=<";
    int other = *format == '>' || *format == '!';
    if (*format && (other || strchr(order, *format))) format++;
    int is_complex = *format == 'Z';
    format += is_complex;
    if (!*format || format[1]) return -1;
    int code = -1;
    if (is_complex) {
        code = *format == 'f' ? C64 : *format == 'd' ? C128 : -1;
    } else if (*format == '?') {
        code = B1;
    } else if (*format == 'e' || *format == 'f' || *format == 'd') {
        code = *format == 'e' ? F16 : *format == 'f' ? F32 : F64;
    } else if (strchr("bhilq", *format) || strchr("BHILQ", *format)) {
        int base = *format >= 'a' ? I8 : U8;
        code = size == 1 ? base : size == 2 ? base + 1 : size == 4 ? base + 2 : size == 8 ? base + 3 : -1;
    }
    return code < 0 || size != dtypes[code].size ? -1 : other ? -2 : code;
}

static void leaf_bad(Leaf *leaf, int problem)
{
    PyErr_Clear();
    leaf->kind = LEAF_BAD;
    leaf->problem = (int8_t)problem;
}

/* Array types whose operators mean something else than ndarray's. Where their module is not loaded there
 * are none; NumPy loads numpy.ma late. */
static int is_foreign_subclass(PyObject *object)
{
    static const char *const places[][2] = {{"numpy.ma", "MaskedArray"}, {"numpy", "matrix"}};
    for (int i = 0; i < COUNT(places); i++) {
        PyObject *name = PyUnicode_FromString(places[i][0]), *module = name ? PyImport_GetModule(name) : NULL;
        PyObject *type = module ? PyObject_GetAttrString(module, places[i][1]) : NULL;
        int foreign = type ? PyObject_IsInstance(object, type) : 0;
        Py_XDECREF(type);
        Py_XDECREF(module);
        Py_XDECREF(name);
        PyErr_Clear();
        if (foreign > 0) return 1;
    }
    return 0;
}

static void leaf_read_buffer(Leaf *leaf, PyObject *object)
{
    if (PyObject_GetBuffer(object, &leaf->view, PyBUF_RECORDS_RO) < 0) {
        leaf->view.obj = NULL;
        leaf_bad(leaf, BAD_DTYPE);
        return;
    }
    int code = format_code(leaf->view.format ? leaf->view.format : "B", leaf->view.itemsize);
    if (code < 0) {
        leaf_bad(leaf, code == -2 ? BAD_ORDER : BAD_DTYPE);
        return;
    }
    leaf->kind = LEAF_ARRAY;
    leaf->dtype = (int8_t)code;
    leaf->rank = leaf->view.ndim;
    leaf->data = leaf->view.buf;
    leaf->shape = leaf->view.shape;
    leaf->strides = leaf->view.strides;
    leaf->writable = !leaf->view.readonly;
}

static void leaf_read_array(Leaf *leaf, PyObject *object)
{
    const ArrayHead *head = (const ArrayHead *)object;
    int code = np.head_known ? dtype_code(head->dtype) : -1;
    if (code < 0 || head->rank > INLINE_RANK) {
        leaf_read_buffer(leaf, object);
        return;
    }
    for (int d = 0; d < head->rank; d++) { /* the array's own go when another thread sets its shape */
        leaf->own_shape[d] = head->shape[d];
        leaf->own_strides[d] = head->strides[d];
    }
    leaf->kind = LEAF_ARRAY;
    leaf->dtype = (int8_t)code;
    leaf->rank = head->rank;
    leaf->data = head->data;
    leaf->shape = leaf->own_shape;
    leaf->strides = leaf->own_strides;
    leaf->writable = head->flags & HEAD_WRITEABLE;
}

/* Never fails: what cannot be used becomes LEAF_BAD, which no argument fits. */
static void leaf_read(Leaf *leaf, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_INCREF(object);
    leaf->object = object;
    leaf->copy = NULL;
    leaf->view.obj = NULL;
    leaf->rank = leaf->big = 0;
    if (type == np.ndarray || type == np.result) {
        leaf_read_array(leaf, object);
    } else if (type == &PyFloat_Type) {
        leaf->kind = LEAF_FLOAT;
        leaf->scalar.f[0] = PyFloat_AsDouble(object);
    } else if (type == &PyLong_Type) {
        int overflow;
        leaf->kind = LEAF_INT;
        leaf->scalar.i = PyLong_AsLongLongAndOverflow(object, &overflow);
        leaf->big = overflow != 0;
    } else if (type == &PyBool_Type) {
        leaf->kind = LEAF_BOOL;
        leaf->scalar.b = object == Py_True;
    } else if (type == &PyComplex_Type) {
        leaf->kind = LEAF_COMPLEX;
        leaf->scalar.f[0] = PyComplex_RealAsDouble(object);
        leaf->scalar.f[1] = PyComplex_ImagAsDouble(object);
    } else if (PyType_IsSubtype(type, np.ndarray)) {
        if (is_foreign_subclass(object)) leaf_bad(leaf, BAD_SUBCLASS);
        else leaf_read_array(leaf, object);
    } else if (PyType_IsSubtype(type, np.generic)) {
        leaf_read_buffer(leaf, object);
        if (leaf->kind == LEAF_ARRAY && leaf->rank) leaf_bad(leaf, BAD_DTYPE); /* datetime64: eight bytes */
    } else {
        leaf_bad(leaf, BAD_TYPE);
    }
}

static void leaf_close(Leaf *leaf)
{
    if (leaf->view.obj) PyBuffer_Release(&leaf->view);
    Py_XDECREF(leaf->copy);
    Py_DECREF(leaf->object);
}

static void leaves_close(Leaf *leaves, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) leaf_close(&leaves[i]);
}

static int leaf_is_dense(const Leaf *leaf)
{
    Py_ssize_t step = dtypes[leaf->dtype].size;
    for (int d = leaf->rank; d-- > 0; step *= leaf->shape[d]) {
        if (leaf->shape[d] == 0) return 1;
        if (leaf->shape[d] > 1 && leaf->strides[d] != step) return 0;
    }
    return 1;
}

/* Whether kernels can address it: aligned, and strides in whole elements. */
static int leaf_is_aligned(const Leaf *leaf)
{
    if ((uintptr_t)leaf->data & (dtypes[leaf->dtype].align - 1)) return 0;
    for (int d = 0; d < leaf->rank; d++)
        if (leaf->shape[d] > 1 && leaf->strides[d] & (dtypes[leaf->dtype].size - 1)) return 0;
    return 1;
}

static int64_t leaf_stride(const Leaf *leaf, int d)
{
    return leaf->shape[d] > 1 ? leaf->strides[d] / dtypes[leaf->dtype].size : 0;
}

/* The bytes from the first to behind the last that it touches. */
static void leaf_extent(const Leaf *leaf, const char **low, const char **high)
{
    *low = leaf->data;
    *high = leaf->data + dtypes[leaf->dtype].size;
    for (int d = 0; d < leaf->rank; d++) {
        if (leaf->shape[d] == 0) *high = *low;
        Py_ssize_t reach = (leaf->shape[d] - 1) * leaf->strides[d];
        if (leaf->shape[d] == 0) return;
        if (reach < 0) *low += reach;
        else *high += reach;
    }
}

/* Whether the leaf is of the argument's dtype and rank. A built module also takes Python scalars where
 * NumPy would make them into arrays of that dtype without loss of kind. */
static int leaf_fits(const Leaf *leaf, const Arg *arg, int strict)
{
    if (leaf->kind == LEAF_ARRAY) return !arg->weak && leaf->dtype == arg->dtype && leaf->rank == arg->rank;
    if (leaf->kind == LEAF_BAD || arg->rank || arg->inout || (strict && leaf->big)) return 0;
    if (arg->weak == leaf->kind) return 1;
    if (strict) return 0;
    if (leaf->kind == LEAF_BOOL) return arg->dtype == B1 && !arg->weak;
    return arg->dtype >= C64   ? 1
           : arg->dtype >= F16 ? leaf->kind <= LEAF_FLOAT
                               : arg->dtype >= I8 && leaf->kind == LEAF_INT;
}

/* Reads `copy`, a new ndarray, instead of what was given. */
static int leaf_replace(Leaf *leaf, PyObject *copy)
{
    if (!copy) return -1;
    if (leaf->view.obj) PyBuffer_Release(&leaf->view);
    leaf->view.obj = NULL;
    leaf->copy = copy;
    leaf_read_array(leaf, copy);
    if (leaf->kind == LEAF_ARRAY) return 0;
    PyErr_SetString(PyExc_RuntimeError, "numpy.array made something that cannot be read");
    return -1;
}

static int leaf_bind_scalar(Leaf *leaf, const Arg *arg)
{
    int ready = leaf->kind == LEAF_BOOL ? arg->dtype == B1
                : leaf->kind == LEAF_INT   ? arg->dtype == I64
                : leaf->kind == LEAF_FLOAT ? arg->dtype == F64 || arg->dtype == C128
                                           : arg->dtype == C128;
    if (leaf->big && ready) {
        PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C long");
        return -1;
    }
    if (!ready) return leaf_replace(leaf, PyObject_CallFunctionObjArgs(np.array, leaf->object, np.dtype[arg->dtype], NULL));
    if (leaf->kind == LEAF_FLOAT) leaf->scalar.f[1] = 0;
    leaf->data = (char *)&leaf->scalar;
    return 0;
}

/* Makes leaf->data readable by kernels. */
static int leaf_bind(Leaf *leaf, const Arg *arg)
{
    if (leaf->kind != LEAF_ARRAY) return leaf_bind_scalar(leaf, arg);
    if (leaf_is_aligned(leaf) && (!arg->dense || leaf_is_dense(leaf))) return 0;
    PyObject *args = PyTuple_Pack(1, leaf->object);
    PyObject *copy = args ? PyObject_Call(np.array, args, np.c_order) : NULL;
    Py_XDECREF(args);
    return leaf_replace(leaf, copy);
}

static PyObject *describe_shape(const char *dtype, const Leaf *leaf)
{
    PyObject *text = PyUnicode_FromFormat("%s[", dtype);
    for (int d = 0; text && d < leaf->rank; d++) {
        PyObject *next = PyUnicode_FromFormat("%U%s%zd", text, d ? ", " : "", leaf->shape[d]);
        Py_DECREF(text);
        text = next;
    }
    PyObject *whole = text ? PyUnicode_FromFormat("%U]", text) : NULL;
    Py_XDECREF(text);
    return whole;
}

/* "float32[3, 4]", "float", "list": for messages. */
static PyObject *describe(const Leaf *leaf)
{
    if (leaf->kind == LEAF_ARRAY) return describe_shape(dtypes[leaf->dtype].name, leaf);
    return PyObject_GetAttrString((PyObject *)Py_TYPE(leaf->object), "__name__");
}

/* Raises TypeError about a leaf that is LEAF_BAD. */
static void raise_bad_leaf(const Leaf *leaf, const char *name)
{
    PyObject *type = describe(leaf);
    PyObject *dtype = leaf->problem == BAD_DTYPE || leaf->problem == BAD_ORDER
                          ? PyObject_GetAttrString(leaf->object, "dtype") : NULL;
    PyObject *dtype_name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    if (leaf->problem == BAD_ORDER && dtype_name)
        PyErr_Format(PyExc_TypeError, "argument '%s': big-endian %U; convert with %s.astype(%s.dtype.newbyteorder('='))",
                     name, dtype_name, name, name);
    else if (dtype)
        PyErr_Format(PyExc_TypeError, "argument '%s': dtype %S is not supported", name, dtype);
    else if (leaf->problem == BAD_SUBCLASS && type)
        PyErr_Format(PyExc_TypeError, "argument '%s': %U is not supported; convert with numpy.asarray(%s)", name, type, name);
    else if (type)
        PyErr_Format(PyExc_TypeError, "argument '%s': expected an array or a number, got %U", name, type);
    Py_XDECREF(dtype_name);
    Py_XDECREF(dtype);
    Py_XDECREF(type);
}

/* ---- What the machine has ------------------------------------------------------------------------ */

/* The level of x86-64 (System V psABI, "Micro-Architecture Levels") of this CPU; 0 on others. */
static int cpu_level(void)
{
#ifdef __x86_64__
    unsigned a, b, c, d, c1, b7 = 0, c81 = 0;
    unsigned xcr0 = 0, none;
    const unsigned v2 = 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23;
    const unsigned v3 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    const unsigned v3_7 = 1u << 3 | 1u << 5 | 1u << 8;
    const unsigned v4_7 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    if (!__get_cpuid(1, &a, &b, &c1, &d)) return 1;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) c81 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) b7 = b;
    if (c1 & 1u << 27) __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(none) : "c"(0));
    if ((c1 & v2) != v2 || !(c81 & 1)) return 1;
    if ((c1 & v3) != v3 || (b7 & v3_7) != v3_7 || !(c81 & 1u << 5) || (xcr0 & 6) != 6) return 2;
    return (b7 & v4_7) == v4_7 && (xcr0 & 0xe6) == 0xe6 ? 4 : 3;
#else
    return 0;
#endif
}

/* The numbers in a control group's file; returns how many it has ("max 100000" has none). */
static int group_numbers(const char *directory, const char *name, long long *a, long long *b)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int found = fscanf(file, "%lld %lld", a, b);
    fclose(file);
    return found;
}

/* CPUs' worth of time that a control group allows; 0: no limit. */
static int group_cpus(const char *directory, int version)
{
    long long quota = 0, period = 0, none;
    int found = group_numbers(directory, version == 2 ? "cpu.max" : "cpu.cfs_quota_us", &quota, &period);
    if (version == 1 && found == 1) found += group_numbers(directory, "cpu.cfs_period_us", &period, &none) == 1;
    return found == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

/* Megabytes that a control group allows; 0: no limit. */
static int group_megabytes(const char *directory, int version)
{
    long long bytes = 0, none;
    int found = group_numbers(directory, version == 2 ? "memory.max" : "memory.limit_in_bytes", &bytes, &none);
    return found == 1 && bytes >> 20 > 0 && bytes >> 20 < INT_MAX ? (int)(bytes >> 20) : 0;
}

static int smaller_limit(int a, int b)
{
    return !a || (b && b < a) ? b : a;
}

/* The tightest limit of this process's group and those around it. `controller` is "cpu" or "memory". */
static int group_limit(const char *controller, int (*limit_of)(const char *directory, int version))
{
    char line[4096], path[4160];
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", controller);
    int limit = smaller_limit(limit_of("/sys/fs/cgroup", 2), limit_of(path, 1));
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *group = strrchr(line, ':');
        int version = strncmp(line, "0::", 3) == 0 ? 2 : strstr(line, controller) ? 1 : 0;
        if (!version || !group) continue;
        group++;
        group[strcspn(group, "\n")] = 0;
        for (char *slash; (slash = strrchr(group, '/')) && group[1]; *slash = 0) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s%s%s", version == 1 ? "/" : "", version == 1 ? controller : "", group);
            limit = smaller_limit(limit, limit_of(path, version));
        }
    }
    if (file) fclose(file);
    return limit;
}

/* ---- Threads ------------------------------------------------------------------------------------ */

#define MAX_THREADS 1024
#define SPIN_NS 10000      /* a worker or waiter looks this long before it sleeps */
#define PARALLEL_NS 30000  /* a call shorter than this stays on one thread */
#define THREAD_NS 15000    /* and each thread must have this much to do */
#define RELEASE_NS 2000    /* kernels shorter than this keep the GIL */
#define CHUNKS 6           /* chunks per thread, to even out */
#define PIECE_NS 1000000   /* and no chunk is longer, by estimate, so that there is time to look for signals */
#define SIGNAL_NS 50000000 /* which is done so often */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    _Atomic uint32_t gate;     /* tickets << 16 | threads inside: a worker enters by taking a ticket */
    _Atomic int busy, sleepers, waiting, limit;
    int started, fork_handled; /* changed by whoever holds `busy` */
    /* the region being run */
    Kernel kernel;
    void *const *pointers;
    const int64_t *ints;
    int64_t count, chunk;
    size_t scratch;
    _Atomic int64_t next;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A running program's GIL: the thread's state while it is let go, and when signals were last looked for. */
typedef struct {
    PyThreadState *released;
    int64_t looked;
} Watch;

/* Runs the handlers of signals when that was long ago; -1 with an exception set when one raised it. */
static int look_for_signals(Watch *watch)
{
    int64_t now = now_ns();
    if (!watch->looked) watch->looked = now;
    if (now - watch->looked < SIGNAL_NS) return 0;
    int released = watch->released != NULL;
    if (released) PyEval_RestoreThread(watch->released);
    int rc = PyErr_CheckSignals();
    watch->released = released ? PyEval_SaveThread() : NULL;
    watch->looked = now_ns();
    return rc;
}

#define TICKETS 0xffff0000u
#define TICKET 0x10000u
#define INSIDE 0xffffu

/* Looks at the gate until it has, or has not, a bit of `mask`; 0 when the time was up first. */
static int spin_until(uint32_t mask, int set)
{
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 16; i++) {
            if (((atomic_load(&pool.gate) & mask) != 0) == set) return 1;
            pause_briefly();
        }
    } while (now_ns() < end);
    return 0;
}

/* Runs chunks until there are no more. The caller's thread looks for signals (`watch`), and when one raises, -1,
 * takes all that are left away. */
static int take_chunks(void *scratch, Watch *watch)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&pool.next, pool.chunk);
        if (begin >= pool.count) return 0;
        int64_t end = pool.count - begin < pool.chunk ? pool.count : begin + pool.chunk;
        pool.kernel(pool.pointers, pool.ints, scratch, begin, end);
        if (watch && end < pool.count && look_for_signals(watch) < 0) {
            atomic_store(&pool.next, pool.count);
            return -1;
        }
    }
}

static size_t round_up(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static void *worker(void *unused)
{
    void *scratch = NULL;
    size_t room = 0;
    for (;;) {
        uint32_t gate = atomic_load(&pool.gate);
        if (!(gate & TICKETS)) {
            if (spin_until(TICKETS, 1)) continue;
            pthread_mutex_lock(&pool.lock);
            atomic_fetch_add(&pool.sleepers, 1);
            while (!(atomic_load(&pool.gate) & TICKETS)) pthread_cond_wait(&pool.wake, &pool.lock);
            atomic_fetch_sub(&pool.sleepers, 1);
            pthread_mutex_unlock(&pool.lock);
            continue;
        }
        if (!atomic_compare_exchange_weak(&pool.gate, &gate, gate - TICKET + 1)) continue;
        if (pool.scratch > room) {
            free(scratch);
            room = round_up(pool.scratch);
            scratch = aligned_alloc(LINE, room);
            if (!scratch) room = 0;
        }
        if (pool.scratch <= room) take_chunks(scratch, NULL);
        if (atomic_fetch_sub(&pool.gate, 1) == 1 && atomic_load(&pool.waiting)) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
    return unused;
}

/* In a forked child only the forking thread lives: start again with no workers. */
static void pool_reset(void)
{
    static const pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    memcpy(&pool.lock, &lock, sizeof lock);
    memcpy(&pool.wake, &cond, sizeof cond);
    memcpy(&pool.done, &cond, sizeof cond);
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.waiting, 0);
    pool.started = 0;
    atomic_store(&pool.busy, 0);
}

/* Workers block signals, which are Python's main thread's to handle, and are never joined: at exit they
 * sleep, or run code and memory that stay mapped. */
static void pool_grow(int workers)
{
    pthread_attr_t attr;
    sigset_t all, old;
    if (pool.started >= workers || pthread_attr_init(&attr)) return;
    if (!pool.fork_handled) pool.fork_handled = !pthread_atfork(NULL, NULL, pool_reset);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 1 << 20);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    while (pool.started < workers && !pthread_create(&thread, &attr, worker, NULL)) pool.started++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

/* Runs [0, count) on up to `threads` threads, the caller's among them, in chunks of at most `piece`, a multiple of
 * `grain`. Returns 0 when another caller has the pool, -1 when a signal raised. Workers that are slow to wake are
 * not waited for. */
static int pool_run(Kernel kernel, void *const *pointers, const int64_t *ints, void *scratch, size_t scratch_size,
                    int64_t count, int64_t grain, int64_t piece, int threads, Watch *watch)
{
    if (atomic_exchange(&pool.busy, 1)) return 0;
    pool_grow(threads - 1);
    int64_t chunk = count / ((int64_t)threads * CHUNKS);
    pool.kernel = kernel;
    pool.pointers = pointers;
    pool.ints = ints;
    pool.count = count;
    pool.chunk = chunk < grain ? grain : (chunk + grain - 1) / grain * grain;
    if (pool.chunk > piece) pool.chunk = piece;
    pool.scratch = scratch_size;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.gate, (uint32_t)(threads - 1) * TICKET);
    if (atomic_load(&pool.sleepers)) {
        pthread_mutex_lock(&pool.lock);
        for (int i = 1; i < threads; i++) pthread_cond_signal(&pool.wake);
        pthread_mutex_unlock(&pool.lock);
    }
    int rc = take_chunks(scratch, watch);
    atomic_fetch_and(&pool.gate, INSIDE);
    if (!spin_until(INSIDE, 0)) {
        pthread_mutex_lock(&pool.lock);
        atomic_store(&pool.waiting, 1);
        while (atomic_load(&pool.gate) & INSIDE) pthread_cond_wait(&pool.done, &pool.lock);
        atomic_store(&pool.waiting, 0);
        pthread_mutex_unlock(&pool.lock);
    }
    atomic_store(&pool.busy, 0);
    return rc < 0 ? -1 : 1;
}

/* -1 with an exception set when a warning became one. */
static int default_threads(void)
{
    const char *text = getenv("AOTARRAY_NUM_THREADS");
    if (text && *text) {
        char *end;
        long n = strtol(text, &end, 10);
        if (!*end && n >= 1 && n <= MAX_THREADS) return (int)n;
        if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "AOTARRAY_NUM_THREADS=%s is not a number of threads; it is ignored", text) < 0)
            return -1;
    }
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
#ifdef CPU_COUNT
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) cpus = CPU_COUNT(&set);
#endif
    int limit = smaller_limit(cpus > 0 ? cpus : 1, group_limit("cpu", group_cpus));
    return limit < MAX_THREADS ? limit : MAX_THREADS;
}

static int start_threads(void)
{
    if (atomic_load(&pool.limit)) return 0;
    int limit = default_threads();
    if (limit > 0) atomic_store(&pool.limit, limit);
    return limit > 0 ? 0 : -1;
}

static PyObject *get_num_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(atomic_load(&pool.limit));
}

static PyObject *set_num_threads(PyObject *Py_UNUSED(module), PyObject *number)
{
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred()) return NULL;
    if (n < 1 || n > MAX_THREADS) {
        PyErr_Format(PyExc_ValueError, "the number of threads must be between 1 and %d, not %ld", MAX_THREADS, n);
        return NULL;
    }
    atomic_store(&pool.limit, (int)n);
    Py_RETURN_NONE;
}

/* ---- Memory: blocks for large results and temporaries, kept for the next call -------------------- */

#define LARGE_BYTES (256 << 10)             /* from here on; less comes from NumPy or malloc */
#define HUGE_BYTES ((size_t)4 << 20)        /* from here on in pages of their own, huge where the system has them */
#define HUGE_PAGE ((size_t)2 << 20)
#define KEPT_BLOCKS 64
#define KEPT_BYTES ((size_t)512 << 20)      /* and at most an eighth of the memory there is */

typedef struct {
    char *data; /* 64-byte aligned; from HUGE_BYTES on mapped, else of malloc */
    size_t size;
} Block;

/* New pages cost a fault each, which can take longer than the arithmetic that fills them. */
static struct {
    PyTypeObject *type; /* of MemoryObject */
    pthread_mutex_t lock;
    Block kept[KEPT_BLOCKS]; /* oldest first */
    int count;
    size_t bytes, limit; /* of what is kept; limit 0: no blocks, NumPy makes all results */
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A block that an array shows; the block is kept when the last array that shows it is gone. */
typedef struct {
    PyObject_HEAD
    Block block;
    size_t used;
} MemoryObject;

static Block unkeep(int i)
{
    Block block = memory.kept[i];
    memory.bytes -= block.size;
    memmove(&memory.kept[i], &memory.kept[i + 1], (size_t)(--memory.count - i) * sizeof block);
    return block;
}

static void free_block(Block block)
{
    if (block.size >= HUGE_BYTES) munmap(block.data, block.size);
    else free(block.data);
}

/* Frees all that is kept; returns its bytes. */
static size_t trim_blocks(void)
{
    Block blocks[KEPT_BLOCKS];
    pthread_mutex_lock(&memory.lock);
    int count = memory.count;
    size_t bytes = memory.bytes;
    memcpy(blocks, memory.kept, sizeof blocks);
    memory.count = 0;
    memory.bytes = 0;
    pthread_mutex_unlock(&memory.lock);
    for (int i = 0; i < count; i++) free_block(blocks[i]);
    return bytes;
}

static void give_block(Block block)
{
    Block old[KEPT_BLOCKS + 1];
    int count = 0;
    pthread_mutex_lock(&memory.lock);
    if (block.size <= memory.limit) {
        while (memory.count == KEPT_BLOCKS || memory.bytes + block.size > memory.limit) old[count++] = unkeep(0);
        memory.kept[memory.count++] = block;
        memory.bytes += block.size;
    } else {
        old[count++] = block;
    }
    pthread_mutex_unlock(&memory.lock);
    for (int i = 0; i < count; i++) free_block(old[i]);
}

/* Of a size that is whole pages, and whole huge pages where that adds no more than an eighth. */
static Block new_block(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), huge = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    size_t size = bytes >= HUGE_BYTES && huge - bytes <= bytes / 8 ? huge : (bytes + page - 1) / page * page;
    if (size < HUGE_BYTES) return (Block){aligned_alloc(LINE, size), size};
    char *base = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return (Block){NULL, 0};
    size_t before = -(uintptr_t)base & (HUGE_PAGE - 1);
    if (before) munmap(base, before);
    munmap(base + before + size, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(base + before, size, MADV_HUGEPAGE);
#endif
    return (Block){base + before, size};
}

/* The kept block that fits best with no more than a quarter to spare, else a new one; 0 when there is no memory. */
static int find_block(size_t bytes, Block *block)
{
    int best = -1;
    pthread_mutex_lock(&memory.lock);
    for (int i = 0; i < memory.count; i++) {
        size_t size = memory.kept[i].size;
        if (size >= bytes && size - bytes <= bytes / 4 && (best < 0 || size <= memory.kept[best].size)) best = i;
    }
    if (best >= 0) *block = unkeep(best);
    pthread_mutex_unlock(&memory.lock);
    if (best >= 0) return 1;
    *block = new_block(bytes);
    if (!block->data && trim_blocks()) *block = new_block(bytes);
    return block->data != NULL;
}

static int take_block(size_t bytes, Block *block)
{
    if (find_block(bytes, block)) return 0;
    PyErr_NoMemory();
    return -1;
}

static PyObject *new_memory(size_t bytes)
{
    MemoryObject *self = (MemoryObject *)new_object(memory.type);
    if (!self) return NULL;
    self->used = bytes;
    if (take_block(bytes, &self->block) == 0) return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

static void memory_dealloc(PyObject *object)
{
    MemoryObject *self = (MemoryObject *)object;
    if (self->block.data) give_block(self->block);
    free_object(object);
}

static int memory_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    MemoryObject *self = (MemoryObject *)object;
    return PyBuffer_FillInfo(view, object, self->block.data, (Py_ssize_t)self->used, 0, flags);
}

static PyType_Spec memory_spec = {
    "aotarray.Memory", sizeof(MemoryObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    (PyType_Slot[]){
        {Py_tp_doc, "Memory that a compiled function's result lies in; it serves another result when no array shows it."},
        {Py_tp_dealloc, memory_dealloc},
        {Py_bf_getbuffer, memory_get_buffer},
        {0, NULL},
    },
};

static void lock_memory(void)
{
    pthread_mutex_lock(&memory.lock);
}

static void unlock_memory(void)
{
    pthread_mutex_unlock(&memory.lock);
}

static int start_memory(PyObject *module)
{
    if (memory.type) return 0;
    const char *reuse = getenv("AOTARRAY_MEMORY_REUSE");
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES) / 8 * (size_t)sysconf(_SC_PAGESIZE);
    size_t group = (size_t)group_limit("memory", group_megabytes) << 17;
    if (group && group < all) all = group;
    if (!(memory.type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &memory_spec, NULL))) return -1;
    if (!(reuse && !strcmp(reuse, "0")) && !pthread_atfork(lock_memory, unlock_memory, unlock_memory))
        memory.limit = all < KEPT_BYTES ? all : KEPT_BYTES;
    return 0;
}

static PyObject *trim_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(trim_blocks());
}

#define COMMON_METHODS                                                                                            \
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads($module, /)\n--\n\n"                       \
     "Largest number of threads that a call may use."},                                                            \
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads($module, n, /)\n--\n\n"                         \
     "Set the largest number of threads that a call may use, the caller's own included."},                         \
    {"trim_memory", trim_memory, METH_NOARGS, "trim_memory($module, /)\n--\n\n"                                   \
     "Give back the memory that is kept for the next large results; returns its number of bytes."}

/* ---- Frames: one run of a program --------------------------------------------------------------- */

#define FRAME_BYTES 3072
#define ARENA_BYTES 2048

typedef struct {
    const Program *program;
    Leaf *leaves;
    int64_t *values;              /* slots, then strides in elements */
    void **pointers;              /* first element of every buffer */
    PyObject **results, **temps;  /* per output: what is returned; what is written first, when that differs */
    void **kernel_pointers;
    int64_t *kernel_ints;
    void *scratch;
    void *heap, *arena;           /* allocations, when the space below is too small */
    Block block;                  /* in place of the arena, when that is large */
    Block *late;                  /* of the buffers that measures make, or no data */
    Block late_scratch;           /* when a measure found the scratch memory too small */
    size_t scratch_bytes;
    PyObject *const *outs;        /* the caller's, or NULL */
    _Alignas(LINE) char space[FRAME_BYTES];
    _Alignas(LINE) char small_arena[ARENA_BYTES];
} Frame;

static int frame_open(Frame *f, const Program *p, Leaf *leaves)
{
    const Header *h = p->head;
    size_t words = (size_t)(h->n_values + h->n_buffers + 2 * h->n_outputs + h->max_pointers + h->max_ints + 2 * h->n_late);
    f->program = p;
    f->leaves = leaves;
    f->scratch = f->heap = f->arena = f->block.data = f->late_scratch.data = NULL;
    int64_t *at = (int64_t *)f->space;
    if (words * 8 > sizeof f->space && !(at = f->heap = malloc(words * 8))) {
        PyErr_NoMemory();
        return -1;
    }
    f->values = at;
    f->kernel_ints = at += h->n_values;
    f->pointers = (void **)(at += h->max_ints);
    f->kernel_pointers = (void **)(at += h->n_buffers);
    f->results = (PyObject **)(at += h->max_pointers);
    f->temps = f->results + h->n_outputs;
    f->late = (Block *)(f->temps + h->n_outputs);
    memset(f->results, 0, 2 * (size_t)h->n_outputs * sizeof *f->results + (size_t)h->n_late * sizeof *f->late);
    return 0;
}

/* A block that measures make, of whatever size. */
static void drop_block(Block block)
{
    if (!block.data) return;
    if (block.size >= LARGE_BYTES) give_block(block);
    else free(block.data);
}

/* Makes room in a block, with what it held lost; 0 when there is no memory. It does not hold on to much more. */
static int fit_block(Block *block, size_t bytes)
{
    if (block->data && block->size >= bytes && (block->size < LARGE_BYTES || block->size / 4 <= bytes)) return 1;
    drop_block(*block);
    *block = (Block){NULL, 0};
    size_t size = LINE;
    while (size < bytes) size *= 2;
    if (size >= LARGE_BYTES) return find_block(bytes < LARGE_BYTES ? LARGE_BYTES : bytes, block);
    *block = (Block){aligned_alloc(LINE, size), size};
    return block->data != NULL;
}

static void frame_close(Frame *f)
{
    for (int64_t i = 0; i < f->program->head->n_outputs; i++) {
        Py_XDECREF(f->results[i]);
        Py_XDECREF(f->temps[i]);
    }
    if (f->block.data) give_block(f->block);
    for (int64_t i = 0; i < f->program->head->n_late; i++) drop_block(f->late[i]);
    drop_block(f->late_scratch);
    free(f->arena);
    free(f->heap);
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t size_value(const SizeOp *op, const int64_t *slots, const Leaf *leaves)
{
    if (op->op == SIZE_DIM) return leaves[op->a].shape[op->b];
    if (op->op == SIZE_CONST || op->op == SIZE_MEASURED) return op->a;
    int64_t a = slots[op->a], b = slots[op->b];
    switch (op->op) {
    case SIZE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case SIZE_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
    case SIZE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case SIZE_FLOORDIV: return floor_divide(a, b);
    case SIZE_MOD: return b == 0 ? 0 : (int64_t)((uint64_t)a - (uint64_t)floor_divide(a, b) * (uint64_t)b);
    case SIZE_LESSER: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

static const Check *failed_check(const int64_t *values, const Check *checks, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t a = values[checks[i].a], b = values[checks[i].b];
        if (!(checks[i].relation == CHECK_EQ ? a == b : checks[i].relation == CHECK_NE ? a != b : a >= b)) return &checks[i];
    }
    return NULL;
}

/* Computes the slots; returns the first check that does not hold, or NULL. */
static const Check *frame_sizes(Frame *f)
{
    const Program *p = f->program;
    for (int64_t i = 0; i < p->head->n_slots; i++) f->values[i] = size_value(&p->slots[i], f->values, f->leaves);
    return failed_check(f->values, p->checks, p->head->n_checks);
}

static void frame_dense_strides(Frame *f, const Buffer *b)
{
    const int64_t *dims = LIST(f->program, b->dims_at);
    int64_t step = 1;
    for (int64_t d = b->rank; d-- > 0;) {
        f->values[b->strides_at + d] = step;
        if (f->values[dims[d]] > 1) step *= f->values[dims[d]];
    }
}

/* Bytes of a buffer; -1 when sizes are negative, -2 when they are too large. */
static int64_t count_bytes(const Frame *f, const Buffer *b)
{
    const int64_t *dims = LIST(f->program, b->dims_at);
    int64_t bytes = dtypes[b->dtype].size;
    int empty = 0;
    for (int64_t d = 0; d < b->rank; d++) {
        int64_t n = f->values[dims[d]];
        if (n < 0) return -1;
        if (n == 0) empty = 1;
        else if (__builtin_mul_overflow(bytes, n, &bytes) || bytes > PY_SSIZE_T_MAX / 2) return -2;
    }
    return empty ? 0 : bytes;
}

/* The same, with an exception. */
static int64_t frame_bytes(const Frame *f, const Buffer *b)
{
    int64_t bytes = count_bytes(f, b);
    if (bytes == -1) PyErr_SetString(PyExc_ValueError, "negative dimensions are not allowed");
    if (bytes == -2) PyErr_NoMemory();
    return bytes < 0 ? -1 : bytes;
}

/* Whether two arrays surely share no element, from the bytes between their first and last. */
static int leaves_are_apart(const Leaf *a, const Leaf *b)
{
    const char *a_low, *a_high, *b_low, *b_high;
    leaf_extent(a, &a_low, &a_high);
    leaf_extent(b, &b_low, &b_high);
    return a_low >= b_high || b_low >= a_high;
}

/* Whether each element of an array surely has memory of its own: each axis steps over what smaller steps reach. */
static int leaf_is_disjoint(const Leaf *leaf)
{
    Py_ssize_t reach = 0, last = 0;
    for (int d = 0; d < leaf->rank; d++)
        if (leaf->shape[d] == 0) return 1;
    for (;;) { /* axes from the smallest step on; those of one step are as many */
        Py_ssize_t next = PY_SSIZE_T_MAX, extent = 0;
        int same = 0;
        for (int d = 0; d < leaf->rank; d++) {
            Py_ssize_t step = leaf->strides[d] < 0 ? -leaf->strides[d] : leaf->strides[d];
            if (leaf->shape[d] == 1 || step > next || (step <= last && last)) continue;
            if (step == 0) return 0;
            same = step == next ? same + 1 : 1;
            next = step;
            extent = (leaf->shape[d] - 1) * step;
        }
        if (next == PY_SSIZE_T_MAX) return 1;
        if (same > 1 || next < reach + dtypes[leaf->dtype].size) return 0;
        reach += extent;
        last = next;
    }
}

/* Raises where inout argument `number` shares memory with argument `other`. */
static int check_apart(const Frame *f, int64_t number, int64_t other)
{
    const Leaf *a = &f->leaves[number], *b = &f->leaves[other];
    const char *name = TEXT(f->program, f->program->args[number].name), *second = TEXT(f->program, f->program->args[other].name);
    if (b->kind != LEAF_ARRAY || leaves_are_apart(a, b)) return 0;
    if (a->object != b->object) {
        PyObject *shared = PyObject_CallMethod(np.module, "shares_memory", "OOi", a->object, b->object, 100000);
        int together = shared ? PyObject_IsTrue(shared) : 1;
        Py_XDECREF(shared);
        if (!shared) PyErr_Clear(); /* too hard to say */
        if (!together) return 0;
    }
    PyErr_Format(PyExc_ValueError, "arguments '%s' and '%s' %s, and '%s' is inout: pass a copy of one of them", name, second,
                 a->object == b->object ? "are one array" : "share memory", name);
    return -1;
}

/* Raises unless inout argument `number` is an array that can be written into, apart from all others. */
static int check_inout(const Frame *f, int64_t number)
{
    const Leaf *leaf = &f->leaves[number];
    const char *name = TEXT(f->program, f->program->args[number].name);
    if (!PyType_IsSubtype(Py_TYPE(leaf->object), np.ndarray)) {
        PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(leaf->object), "__name__");
        if (type) PyErr_Format(PyExc_TypeError, "argument '%s' is inout: it must be a numpy.ndarray, not %U", name, type);
        Py_XDECREF(type);
        return -1;
    }
    if (!leaf->writable) {
        PyErr_Format(PyExc_ValueError, "argument '%s' is inout, but the array is read-only", name);
        return -1;
    }
    if (!leaf_is_disjoint(leaf)) {
        PyErr_Format(PyExc_ValueError, "argument '%s' is inout, but elements of the array share memory: pass a copy", name);
        return -1;
    }
    for (int64_t i = 0; i < f->program->head->n_args; i++)
        if (i != number && check_apart(f, number, i) < 0) return -1;
    return 0;
}

/* Arguments: data and strides. */
static int bind_args(Frame *f)
{
    const Program *p = f->program;
    for (int64_t i = 0; i < p->head->n_args; i++)
        if (p->args[i].inout && check_inout(f, i) < 0) return -1;
    for (int64_t i = 0; i < p->head->n_args; i++)
        if (leaf_bind(&f->leaves[i], &p->args[i]) < 0) return -1;
    for (int64_t i = 0; i < p->head->n_buffers; i++) {
        const Buffer *b = &p->buffers[i];
        if (b->kind != BUFFER_ARG) continue;
        const Leaf *leaf = &f->leaves[b->index];
        f->pointers[i] = leaf->data;
        if (b->dense) frame_dense_strides(f, b);
        else for (int d = 0; d < b->rank; d++) f->values[b->strides_at + d] = leaf_stride(leaf, d);
    }
    return 0;
}

/* An array that is not filled; `type` NULL means ndarray. */
/* True when the arrays that `b` follows in order all have their axes the other way round, as in Fortran. */
static int follows_fortran(const Frame *f, const Buffer *b)
{
    const int64_t *dims = LIST(f->program, b->dims_at), *like = LIST(f->program, b->like_at);
    for (int64_t i = 0; i < b->n_like; i++) {
        const int64_t *strides = &f->values[f->program->buffers[like[i]].strides_at];
        int64_t before = 0, moving = 0;
        for (int64_t d = 0; d < b->rank; d++) {
            if (f->values[dims[d]] == 1) continue;
            int64_t stride = strides[d] < 0 ? -strides[d] : strides[d];
            if (stride <= before) return 0;
            before = stride;
            moving++;
        }
        if (moving < 2) return 0;
    }
    return b->n_like > 0;
}

static PyObject *new_array(const Frame *f, const Buffer *b, PyObject *type, int fortran)
{
    PyObject *shape = shape_tuple(f->program, b, f->values), *owner = NULL, *array = NULL;
    int64_t bytes = shape ? frame_bytes(f, b) : -1;
    if (bytes >= LARGE_BYTES && memory.limit) {
        owner = new_memory((size_t)bytes);
        if (!type) type = (PyObject *)np.ndarray;
        if (owner) array = PyObject_CallFunction(type, "OOOiOs", shape, np.dtype[b->dtype], owner, 0, Py_None, fortran ? "F" : "C");
    } else if (bytes >= 0 && fortran) {
        if (!type) type = (PyObject *)np.ndarray;
        array = PyObject_CallFunction(type, "OOOiOs", shape, np.dtype[b->dtype], Py_None, 0, Py_None, "F");
    } else if (bytes >= 0) {
        array = PyObject_CallFunctionObjArgs(type ? type : np.empty, shape, np.dtype[b->dtype], NULL);
    }
    Py_XDECREF(owner);
    Py_XDECREF(shape);
    return array;
}

/* Whether the caller's output number `number` shares memory with an argument or an output that is there already. */
static int is_shared(const Frame *f, const Leaf *out, int64_t number)
{
    int shared = 0;
    for (int64_t i = 0; i < f->program->head->n_args && !shared; i++)
        shared = f->leaves[i].kind == LEAF_ARRAY && !leaves_are_apart(out, &f->leaves[i]);
    for (int64_t i = 0; i < f->program->head->n_outputs && !shared; i++) {
        if (i == number || !f->results[i]) continue;
        Leaf other;
        leaf_read(&other, f->results[i]);
        shared = other.kind == LEAF_ARRAY && !leaves_are_apart(out, &other);
        leaf_close(&other);
    }
    return shared;
}

/* Raises unless a caller's `out` has the dtype and shape of the output. */
static int check_out(const Frame *f, const Buffer *b, const Leaf *out, int64_t number)
{
    const int64_t *dims = LIST(f->program, b->dims_at);
    if (!PyType_IsSubtype(Py_TYPE(out->object), np.ndarray)) {
        PyObject *type = describe(out);
        if (type) PyErr_Format(PyExc_TypeError, "out[%lld] must be a numpy.ndarray, not %U", (long long)number, type);
        Py_XDECREF(type);
        return -1;
    }
    if (out->kind != LEAF_ARRAY) {
        raise_bad_leaf(out, "out");
        return -1;
    }
    int same = out->rank == b->rank;
    for (int d = 0; same && d < out->rank; d++) same = out->shape[d] == f->values[dims[d]];
    if (!same || out->dtype != b->dtype) {
        PyObject *given = describe(out), *shape = shape_tuple(f->program, b, f->values);
        if (given && shape)
            PyErr_Format(same ? PyExc_TypeError : PyExc_ValueError, "out[%lld] is %U; the result is %s of shape %S",
                         (long long)number, given, dtypes[b->dtype].name, shape);
        Py_XDECREF(given);
        Py_XDECREF(shape);
        return -1;
    }
    if (!out->writable) PyErr_Format(PyExc_ValueError, "out[%lld] is read-only", (long long)number);
    return out->writable ? 0 : -1;
}

/* Output into a caller's array, or into a temporary one where that must not be written early. */
static int bind_given_out(Frame *f, int64_t number, PyObject *object)
{
    const Buffer *b = &f->program->buffers[f->program->outputs[number]];
    void **pointer = &f->pointers[f->program->outputs[number]];
    Leaf out;
    leaf_read(&out, object);
    int rc = check_out(f, b, &out, number);
    if (rc == 0) {
        Py_INCREF(object);
        f->results[number] = object;
        int direct = b->kind == BUFFER_OUT && leaf_is_aligned(&out) && (!b->dense || leaf_is_dense(&out)) && !is_shared(f, &out, number);
        if (direct) {
            *pointer = out.data;
            for (int d = 0; d < b->rank; d++) f->values[b->strides_at + d] = leaf_stride(&out, d);
        }
        if (b->kind == BUFFER_ARG) f->temps[number] = Py_NewRef(f->leaves[b->index].object);
        else if (!direct && !(f->temps[number] = new_array(f, b, NULL, 0))) rc = -1;
    }
    leaf_close(&out);
    return rc;
}

static int bind_out(Frame *f, int64_t i)
{
    const Program *p = f->program;
    const Buffer *b = &p->buffers[p->outputs[i]];
    PyObject *fresh;
    int fortran = 0;
    Py_CLEAR(f->results[i]);
    Py_CLEAR(f->temps[i]);
    if (f->outs && f->outs[i] && f->outs[i] != Py_None) {
        if (bind_given_out(f, i, f->outs[i]) < 0) return -1;
        if (!(fresh = f->temps[i]) || b->kind == BUFFER_ARG) return 0;
    } else if (b->kind == BUFFER_ARG) { /* an inout argument, returned */
        f->results[i] = Py_NewRef(f->leaves[b->index].object);
        return 0;
    } else {
        fortran = follows_fortran(f, b);
        if (!(fresh = f->results[i] = new_array(f, b, p->result_type, fortran))) return -1;
    }
    Leaf made;
    leaf_read(&made, fresh);
    f->pointers[p->outputs[i]] = made.kind == LEAF_ARRAY ? made.data : NULL;
    if (fortran && made.kind == LEAF_ARRAY)
        for (int d = 0; d < b->rank; d++) f->values[b->strides_at + d] = leaf_stride(&made, d);
    else frame_dense_strides(f, b);
    leaf_close(&made);
    if (made.kind == LEAF_ARRAY) return 0;
    PyErr_SetString(PyExc_RuntimeError, "the result type did not make a readable array");
    return -1;
}

static int bind_outs(Frame *f)
{
    const Program *p = f->program;
    for (int64_t i = 0; i < p->head->n_outputs; i++)
        if (p->buffers[p->outputs[i]].late < 0 && bind_out(f, i) < 0) return -1;
    return 0;
}

/* Constants, temporaries and scratch (one allocation), then aliases of all the above. */
static int bind_memory(Frame *f)
{
    const Program *p = f->program;
    int64_t total = 0, scratch = 0;
    for (int64_t i = 0; i < p->head->n_buffers; i++) {
        const Buffer *b = &p->buffers[i];
        if (b->kind == BUFFER_ARG || b->kind == BUFFER_OUT || b->late >= 0) continue;
        frame_dense_strides(f, b);
        if (b->kind == BUFFER_CONST) f->pointers[i] = (char *)p->constants + b->index;
        if (b->kind != BUFFER_TEMP) continue;
        int64_t bytes = frame_bytes(f, b);
        if (bytes < 0) return -1;
        f->pointers[i] = (void *)(intptr_t)total; /* from the arena's start, until that is known */
        total += (int64_t)round_up((size_t)bytes);
        if (total > PY_SSIZE_T_MAX / 4) break;
    }
    for (int64_t i = 0; i < p->head->n_instructions; i++) {
        const Instruction *ins = &p->instructions[i];
        if (ins->kind != RUN_KERNEL || ins->u.kernel.scratch < 0) continue;
        int64_t bytes = f->values[ins->u.kernel.scratch];
        if (bytes > scratch) scratch = bytes;
    }
    if (total > PY_SSIZE_T_MAX / 4 || scratch > PY_SSIZE_T_MAX / 4) {
        PyErr_NoMemory();
        return -1;
    }
    size_t bytes = round_up((size_t)total + (size_t)scratch);
    char *arena = f->small_arena;
    if (bytes >= LARGE_BYTES && memory.limit) {
        if (take_block(bytes, &f->block) < 0) return -1;
        arena = f->block.data;
    } else if (bytes > ARENA_BYTES && !(arena = f->arena = aligned_alloc(LINE, bytes))) {
        PyErr_NoMemory();
        return -1;
    }
    f->scratch = arena + total;
    f->scratch_bytes = (size_t)scratch;
    for (int64_t i = 0; i < p->head->n_buffers; i++) {
        const Buffer *b = &p->buffers[i];
        if (b->late >= 0) continue;
        if (b->kind == BUFFER_TEMP) f->pointers[i] = arena + (intptr_t)f->pointers[i];
        if (b->kind == BUFFER_ALIAS) f->pointers[i] = NULL;
    }
    for (int64_t i = 0; i < p->head->n_buffers; i++)
        if (p->buffers[i].kind == BUFFER_ALIAS && p->buffers[i].late < 0) f->pointers[i] = f->pointers[p->buffers[i].index];
    return 0;
}

/* ---- Instructions ------------------------------------------------------------------------------- */

/* Puts loop d into the loop `inner`, when every array's strides allow it. */
static int absorb_loop(int64_t *ints, int64_t loops, int64_t operands, const int64_t *positions, int64_t d, int64_t inner)
{
    int64_t *n = &ints[positions[d]], *m = &ints[positions[inner]];
    int merge = 1, move = *m == 1;
    for (int64_t o = 1; o <= operands; o++) {
        int64_t outer_at = positions[o * loops + d], inner_at = positions[o * loops + inner];
        int64_t outer = outer_at < 0 ? 0 : ints[outer_at], step = inner_at < 0 ? 0 : ints[inner_at];
        if (outer != step * *m) merge = 0;
        if (inner_at < 0 && outer) move = 0;
    }
    if (!merge && !move) return 0;
    for (int64_t o = 1; !merge && o <= operands; o++) {
        int64_t outer_at = positions[o * loops + d], inner_at = positions[o * loops + inner];
        if (inner_at >= 0) ints[inner_at] = outer_at < 0 ? 0 : ints[outer_at];
    }
    *m *= *n;
    *n = 1;
    return 1;
}

/* Merges neighbouring loops (see Collapse in program.py), from the inside out. Every loop between d and
 * `inner` has one step. */
/* True when every operand takes smaller steps in the loop at `d` than in that at `e`, or none in both. */
static int steps_less(const int64_t *ints, int64_t loops, int64_t operands, const int64_t *positions, int64_t d, int64_t e)
{
    for (int64_t o = 1; o <= operands; o++) {
        int64_t a = positions[o * loops + d], b = positions[o * loops + e];
        if (a < 0 && b < 0) continue;
        if (a < 0 || b < 0 || llabs(ints[a]) >= llabs(ints[b])) return 0;
    }
    return 1;
}

static void swap_loops(int64_t *ints, int64_t loops, int64_t operands, const int64_t *positions, int64_t d, int64_t e)
{
    for (int64_t o = 0; o <= operands; o++) {
        int64_t a = positions[o * loops + d], b = positions[o * loops + e];
        if (a < 0) continue;
        int64_t kept = ints[a];
        ints[a] = ints[b];
        ints[b] = kept;
    }
}

/* Order loops so that the inner ones take the smaller steps in memory, where all operands agree. */
static void sort_loops(int64_t *ints, int64_t loops, int64_t operands, const int64_t *positions)
{
    for (int64_t last = loops - 1; last > 0; last--) {
        int swapped = 0;
        for (int64_t d = 0; d < last; d++) {
            if (!steps_less(ints, loops, operands, positions, d, d + 1)) continue;
            swap_loops(ints, loops, operands, positions, d, d + 1);
            swapped = 1;
        }
        if (!swapped) return;
    }
}

static void collapse_loops(int64_t *ints, int64_t loops, int64_t operands, const int64_t *positions)
{
    int64_t inner = loops - 1;
    for (int64_t d = loops - 2; d >= 0; d--) {
        if (ints[positions[d]] == 1 || absorb_loop(ints, loops, operands, positions, d, inner)) continue;
        inner = inner - 1 > d && absorb_loop(ints, loops, operands, positions, d, inner - 1) ? inner - 1 : d;
    }
}

static double kernel_ns(const Frame *f, const Instruction *ins)
{
    return (double)f->values[ins->u.kernel.work] * (double)ins->u.kernel.cost / 1024;
}

/* -1 when a signal raised. What a kernel computes does not depend on where its range is cut. */
static int run_kernel(Frame *f, const Instruction *ins, double ns, Watch *watch)
{
    const Program *p = f->program;
    const int64_t *pointers = LIST(p, ins->u.kernel.pointers_at), *ints = LIST(p, ins->u.kernel.ints_at);
    int64_t count = f->values[ins->u.kernel.count], grain = ins->u.kernel.grain;
    if (count <= 0) return 0;
    for (int64_t i = 0; i < ins->u.kernel.n_pointers; i++) f->kernel_pointers[i] = f->pointers[pointers[i]];
    for (int64_t i = 0; i < ins->u.kernel.n_ints; i++) f->kernel_ints[i] = f->values[ints[i]];
    if (ins->u.kernel.n_loops) {
        const int64_t *collapse = LIST(p, ins->u.kernel.collapse_at); /* may loops change places?, then positions */
        if (collapse[0]) sort_loops(f->kernel_ints, ins->u.kernel.n_loops, ins->u.kernel.n_operands, collapse + 1);
        collapse_loops(f->kernel_ints, ins->u.kernel.n_loops, ins->u.kernel.n_operands, collapse + 1);
    }
    Kernel kernel = p->kernels[ins->u.kernel.kernel];
    int64_t piece = count;
    if (ns > PIECE_NS) {
        piece = (int64_t)((double)count * PIECE_NS / ns);
        piece = piece < grain ? grain : piece / grain * grain;
    }
    if (ns >= PARALLEL_NS && count > grain) {
        int64_t chunks = (count + grain - 1) / grain, threads = atomic_load(&pool.limit);
        if (p->threads && threads > p->threads) threads = p->threads;
        if (threads > ns / THREAD_NS) threads = (int64_t)(ns / THREAD_NS);
        if (threads > chunks) threads = chunks;
        size_t scratch = ins->u.kernel.scratch < 0 ? 0 : (size_t)f->values[ins->u.kernel.scratch];
        int done = threads <= 1 ? 0 : pool_run(kernel, f->kernel_pointers, f->kernel_ints, f->scratch, scratch, count, grain,
                                               piece, (int)threads, watch);
        if (done) return done < 0 ? -1 : 0;
    }
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = count - begin <= piece ? count : begin + piece;
        kernel(f->kernel_pointers, f->kernel_ints, f->scratch, begin, end);
        if (end < count && look_for_signals(watch) < 0) return -1;
    }
    return 0;
}

/* A buffer as an ndarray: the caller's own where there is one, else one that shows its memory, which can
 * be written into where that is asked for (`flags`). */
static PyObject *buffer_array(const Frame *f, int64_t number, int flags)
{
    const Buffer *b = &f->program->buffers[number];
    PyObject *own = NULL;
    if (b->kind == BUFFER_ARG) own = f->leaves[b->index].copy ? f->leaves[b->index].copy : f->leaves[b->index].object;
    if (b->kind == BUFFER_OUT) own = f->temps[b->index] ? f->temps[b->index] : f->results[b->index];
    if (own && Py_TYPE(own) == np.ndarray) {
        Py_INCREF(own);
        return own;
    }
    if (own && PyType_IsSubtype(Py_TYPE(own), np.ndarray)) return PyObject_CallMethod(own, "view", "O", np.ndarray);
    int64_t bytes = frame_bytes(f, b);
    if (bytes < 0) return NULL;
    PyObject *shape = shape_tuple(f->program, b, f->values);
    PyObject *memory = PyMemoryView_FromMemory(f->pointers[number], bytes, flags);
    PyObject *array = shape && memory ? PyObject_CallFunctionObjArgs((PyObject *)np.ndarray, shape, np.dtype[b->dtype], memory, NULL) : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(memory);
    return array;
}

/* An argument of a library call from its words, which `*at` passes over. */
static PyObject *library_value(const Frame *f, const int64_t **at)
{
    int64_t tag = *(*at)++;
    if (tag == OF_NONE) return Py_NewRef(Py_None);
    if (tag == OF_ALL) return PySlice_New(NULL, NULL, NULL);
    int64_t word = *(*at)++;
    double number;
    switch (tag) {
    case OF_OPERAND: return buffer_array(f, word, PyBUF_READ);
    case OF_RESULT: return buffer_array(f, word, PyBUF_WRITE);
    case OF_SIZE: return PyLong_FromLongLong(f->values[word]);
    case OF_BOOL: return PyBool_FromLong((long)word);
    case OF_INT: return PyLong_FromLongLong(word);
    case OF_STR: return PyUnicode_FromString(TEXT(f->program, word));
    case OF_FLOAT: memcpy(&number, &word, sizeof number); return PyFloat_FromDouble(number);
    }
    PyObject *items = PyTuple_New(word);
    for (int64_t i = 0; items && i < word; i++) {
        PyObject *item = library_value(f, at);
        if (!item || PyTuple_SetItem(items, i, item) < 0) Py_CLEAR(items);
    }
    return items;
}

/* NumPy's callable of a dotted name. */
static PyObject *find_routine(const char *name)
{
    PyObject *found = Py_NewRef(np.module);
    while (found && *name) {
        size_t length = strcspn(name, ".");
        PyObject *part = PyUnicode_FromStringAndSize(name, (Py_ssize_t)length), *owner = found;
        found = part ? PyObject_GetAttr(owner, part) : NULL;
        Py_XDECREF(part);
        Py_DECREF(owner);
        name += length + (name[length] == '.');
    }
    return found;
}

static int copy_into(PyObject *target, PyObject *source)
{
    PyObject *done = PyObject_CallFunctionObjArgs(np.copyto, target, source, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Copies what a routine returned into result `number`, if it is what the program was made for. */
static int take_result(Frame *f, const char *name, int64_t number, PyObject *found)
{
    const Buffer *b = &f->program->buffers[number];
    PyObject *target = buffer_array(f, number, PyBUF_WRITE), *dtype = NULL, *shape = NULL;
    PyObject *expected = shape_tuple(f->program, b, f->values);
    PyObject *array = PyObject_TypeCheck(found, np.ndarray) ? Py_NewRef(found) : PyObject_CallFunctionObjArgs(np.array, found, NULL);
    int rc = -1, same;
    if (!target || !expected || !array || !(dtype = PyObject_GetAttrString(array, "dtype")) ||
        !(shape = PyObject_GetAttrString(array, "shape")))
        goto end;
    if ((same = PyObject_RichCompareBool(dtype, np.dtype[b->dtype], Py_EQ)) > 0)
        same = PyObject_RichCompareBool(shape, expected, Py_EQ);
    if (same > 0) rc = copy_into(target, array);
    if (same == 0)
        PyErr_Format(PyExc_ValueError, "numpy.%s gave an array of dtype %S and shape %S where the compiled function needs %S and %S",
                     name, dtype, shape, np.dtype[b->dtype], expected);
end:
    Py_XDECREF(target);
    Py_XDECREF(expected);
    Py_XDECREF(array);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    return rc;
}

static int take_results(Frame *f, const Instruction *ins, PyObject *found)
{
    const int64_t *results = LIST(f->program, ins->u.library.results_at);
    const char *name = TEXT(f->program, ins->u.library.name);
    if (ins->u.library.returns == RETURNS_NOTHING) return 0;
    if (ins->u.library.returns == RETURNS_ONE) return take_result(f, name, results[0], found);
    for (int64_t i = 0; i < ins->u.library.n_results; i++) {
        if (results[i] < 0) continue;
        PyObject *item = PySequence_GetItem(found, i);
        int rc = item ? take_result(f, name, results[i], item) : -1;
        Py_XDECREF(item);
        if (rc < 0) return -1;
    }
    return 0;
}

/* Result 0 becomes a copy of the operand that the routine changes. */
static int copy_base(Frame *f, const Instruction *ins)
{
    if (ins->u.library.base < 0) return 0;
    PyObject *target = buffer_array(f, LIST(f->program, ins->u.library.results_at)[0], PyBUF_WRITE);
    PyObject *source = buffer_array(f, ins->u.library.base, PyBUF_READ);
    int rc = target && source ? copy_into(target, source) : -1;
    Py_XDECREF(target);
    Py_XDECREF(source);
    return rc;
}

static int run_library(Frame *f, const Instruction *ins)
{
    const Program *p = f->program;
    const int64_t *at = LIST(p, ins->u.library.args_at);
    PyObject *routine = find_routine(TEXT(p, ins->u.library.name)), *found = NULL;
    PyObject *args = PyTuple_New(ins->u.library.n_args), *keywords = PyDict_New();
    int rc = -1;
    if (!routine || !args || !keywords || copy_base(f, ins) < 0) goto end;
    for (int64_t i = 0; i < ins->u.library.n_args; i++) {
        PyObject *value = library_value(f, &at);
        if (!value || PyTuple_SetItem(args, i, value) < 0) goto end;
    }
    at = LIST(p, ins->u.library.keywords_at);
    for (int64_t i = 0; i < ins->u.library.n_keywords; i++) {
        const char *name = TEXT(p, *at++);
        PyObject *value = library_value(f, &at);
        int set = value ? PyDict_SetItemString(keywords, name, value) : -1;
        Py_XDECREF(value);
        if (set < 0) goto end;
    }
    if ((found = PyObject_Call(routine, args, keywords))) rc = take_results(f, ins, found);
end:
    Py_XDECREF(found);
    Py_XDECREF(keywords);
    Py_XDECREF(args);
    Py_XDECREF(routine);
    return rc;
}

/* Raises one of the exceptions that encode.py lists, unless there is no message because another was raised. */
static void raise_exception(int64_t number, PyObject *message)
{
    PyObject *kinds[] = {PyExc_IndexError, PyExc_ValueError, PyExc_ZeroDivisionError, PyExc_OverflowError, NULL};
    PyObject *kind = Py_XNewRef(kinds[number]);
    if (!kind) kind = find_routine("linalg.LinAlgError");
    if (message && kind) PyErr_SetObject(kind, message);
    Py_XDECREF(kind);
}

static int run_raise(const Frame *f, const Instruction *ins)
{
    const int64_t *flag = f->pointers[ins->u.raise.buffer];
    if (!*flag) return 0;
    const Buffer *b = &f->program->buffers[ins->u.raise.buffer];
    int64_t words = frame_bytes(f, b) / 8;
    PyObject *message = fill_message(TEXT(f->program, ins->u.raise.message), flag[words > 1], words > 2 ? flag[2] : 0);
    raise_exception(ins->u.raise.exception, message);
    Py_XDECREF(message);
    return -1;
}

/* A buffer as Python shows it: a Python number or a NumPy scalar where it has no axes, else an array. */
static PyObject *shown_value(const Frame *f, int64_t number, int64_t python)
{
    PyObject *array = buffer_array(f, number, PyBUF_READ), *value = array, *index = NULL;
    if (array && python) value = PyObject_CallMethod(array, "item", NULL);
    else if (array && !f->program->buffers[number].rank)
        value = (index = PyTuple_New(0)) ? PyObject_GetItem(array, index) : NULL;
    Py_XDECREF(index);
    if (value != array) Py_XDECREF(array);
    return value;
}

/* Whether a check holds, so that there is nothing to do. */
static int effect_is_idle(const Frame *f, const Instruction *ins)
{
    return ins->u.effect.condition >= 0 && *(const char *)f->pointers[ins->u.effect.condition];
}

/* Fills the text and prints it, or raises it. */
static int run_effect(const Frame *f, const Instruction *ins)
{
    const Program *p = f->program;
    const int64_t *at = LIST(p, ins->u.effect.values_at);
    PyObject *values = PyTuple_New(ins->u.effect.n_values), *builtins = PyImport_ImportModule("builtins");
    PyObject *text = PyUnicode_FromString(TEXT(p, ins->u.effect.text)), *format = NULL, *filled = NULL, *target = NULL, *done = NULL;
    if (!values || !builtins || !text) goto end;
    for (int64_t i = 0; i < ins->u.effect.n_values; i++, at += 2) {
        PyObject *value = shown_value(f, at[0], at[1]);
        if (!value || PyTuple_SetItem(values, i, value) < 0) goto end;
    }
    if (!(format = PyObject_GetAttrString(text, "format")) || !(filled = PyObject_Call(format, values, NULL))) goto end;
    int raises = ins->u.effect.exception >= 0;
    if (!(target = PyObject_GetAttrString(builtins, raises ? TEXT(p, ins->u.effect.exception) : "print"))) goto end;
    if (raises) PyErr_SetObject(target, filled);
    else done = PyObject_CallFunctionObjArgs(target, filled, NULL);
end:;
    int rc = done ? 0 : -1;
    PyObject *held[] = {values, builtins, text, format, filled, target, done};
    for (int i = 0; i < COUNT(held); i++) Py_XDECREF(held[i]);
    return rc;
}

static void raise_failed_check(const Frame *f, const Check *check)
{
    PyObject *message = fill_message(TEXT(f->program, check->message), f->values[check->a], f->values[check->b]);
    raise_exception(check->exception, message);
    Py_XDECREF(message);
}

/* Memory for a temporary or an alias whose sizes are known now. 0 when that cannot be. */
static int fit_late(Frame *f, int64_t number)
{
    const Buffer *b = &f->program->buffers[number];
    int64_t bytes = count_bytes(f, b);
    if (bytes < 0) return 0;
    if (b->kind == BUFFER_TEMP) {
        if (!fit_block(&f->late[b->late], (size_t)bytes)) return 0;
        f->pointers[number] = f->late[b->late].data;
    } else {
        f->pointers[number] = f->pointers[b->index];
    }
    frame_dense_strides(f, b);
    return 1;
}

/* Gives a measured size and the slots that follow from it their values. */
static void measure_sizes(Frame *f, const Instruction *ins)
{
    const Program *p = f->program;
    const Buffer *source = &p->buffers[ins->u.measure.buffer];
    const int64_t *data = f->pointers[ins->u.measure.buffer];
    int64_t count = source->rank ? f->values[LIST(p, source->dims_at)[0]] : 1;
    f->values[ins->u.measure.slot] = data[count - 1];
    for (int64_t i = ins->u.measure.slot + 1; i < p->head->n_slots; i++)
        if (p->slots[i].op != SIZE_MEASURED) f->values[i] = size_value(&p->slots[i], f->values, f->leaves);
}

/* What follows from a measured size, as far as that goes without the GIL: memory for temporaries and scratch.
 * 0 when an exception has to be raised, which `finish_measure` does. */
static int run_measure(Frame *f, const Instruction *ins)
{
    const Program *p = f->program;
    const int64_t *buffers = LIST(p, ins->u.measure.buffers_at), *scratch = LIST(p, ins->u.measure.scratch_at);
    if (ins->u.measure.slot >= 0) measure_sizes(f, ins);
    if (failed_check(f->values, (const Check *)LIST(p, ins->u.measure.checks_at), ins->u.measure.n_checks)) return 0;
    for (int64_t i = 0; i < ins->u.measure.n_buffers; i++)
        if (p->buffers[buffers[i]].kind == BUFFER_TEMP && !fit_late(f, buffers[i])) return 0;
    for (int64_t i = 0; i < ins->u.measure.n_scratch; i++) {
        int64_t bytes = f->values[scratch[i]];
        if (bytes <= (int64_t)f->scratch_bytes) continue;
        if (bytes > PY_SSIZE_T_MAX / 4 || !fit_block(&f->late_scratch, (size_t)bytes)) return 0;
        f->scratch = f->late_scratch.data;
        f->scratch_bytes = (size_t)bytes;
    }
    return 1;
}

/* Results, and exceptions; then aliases, also of results. */
static int finish_measure(Frame *f, const Instruction *ins, int done)
{
    const Program *p = f->program;
    const int64_t *buffers = LIST(p, ins->u.measure.buffers_at);
    if (!done) {
        const Check *failed = failed_check(f->values, (const Check *)LIST(p, ins->u.measure.checks_at), ins->u.measure.n_checks);
        if (failed) raise_failed_check(f, failed);
        for (int64_t i = 0; i < ins->u.measure.n_buffers && !PyErr_Occurred(); i++) frame_bytes(f, &p->buffers[buffers[i]]);
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < ins->u.measure.n_buffers; i++)
        if (p->buffers[buffers[i]].kind == BUFFER_OUT && bind_out(f, p->buffers[buffers[i]].index) < 0) return -1;
    return 0;
}

static void point_aliases(Frame *f, const Instruction *ins)
{
    const int64_t *buffers = LIST(f->program, ins->u.measure.buffers_at);
    for (int64_t i = 0; i < ins->u.measure.n_buffers; i++)
        if (f->program->buffers[buffers[i]].kind == BUFFER_ALIAS) fit_late(f, buffers[i]);
}

/* The memory of a source, or of one of its rows. */
static void run_point(Frame *f, const Instruction *ins)
{
    const Buffer *source = &f->program->buffers[ins->u.point.source];
    char *data = f->pointers[ins->u.point.source];
    if (ins->u.point.counter >= 0)
        data += *(const int64_t *)f->pointers[ins->u.point.counter] * f->values[source->strides_at] * dtypes[source->dtype].size;
    f->pointers[ins->u.point.buffer] = data;
}

/* Sets or steps the counter of a loop; whether there is a step to do. */
static int run_loop(Frame *f, const Instruction *ins)
{
    int64_t *counter = f->pointers[ins->u.loop.counter];
    int64_t lower = *(const int64_t *)f->pointers[ins->u.loop.lower], upper = *(const int64_t *)f->pointers[ins->u.loop.upper];
    if (lower >= upper) return 0;
    if (ins->kind == RUN_BEGIN) {
        *counter = ins->u.loop.reverse ? upper - 1 : lower;
        return 1;
    }
    if (*counter == (ins->u.loop.reverse ? lower : upper - 1)) return 0;
    *counter += ins->u.loop.reverse ? -1 : 1;
    return 1;
}

/* The number of the instruction after number `at`, which is one of control. */
static int64_t run_control(Frame *f, int64_t at)
{
    const Instruction *ins = &f->program->instructions[at];
    switch (ins->kind) {
    case RUN_JUMP: return ins->u.jump.target;
    case RUN_UNLESS: return *(const char *)f->pointers[ins->u.unless.buffer] ? at + 1 : ins->u.unless.target;
    case RUN_TABLE: {
        int64_t chosen = *(const int64_t *)f->pointers[ins->u.table.buffer], last = ins->u.table.n_targets - 1;
        return LIST(f->program, ins->u.table.targets_at)[chosen < 0 ? 0 : chosen > last ? last : chosen];
    }
    case RUN_SWAP: {
        void *a = f->pointers[ins->u.swap.a];
        f->pointers[ins->u.swap.a] = f->pointers[ins->u.swap.b];
        f->pointers[ins->u.swap.b] = a;
        return at + 1;
    }
    case RUN_POINT: run_point(f, ins); return at + 1;
    case RUN_BEGIN: return run_loop(f, ins) ? at + 1 : ins->u.loop.target;
    default: return run_loop(f, ins) ? ins->u.loop.target : at + 1;
    }
}

/* ---- Products of small matrices ---------------------------------------------------------------- */

#define SMALL 16 /* rows, columns and terms of a sum: up to so many, a call of NumPy costs more than the product */

#define SMALL_PRODUCT(NAME, T)                                                                                                    \
    static inline __attribute__((always_inline)) void NAME##_of(const T *a, const int64_t *as, const T *b, const int64_t *bs,     \
                                                                T *c, const int64_t *cs, const int64_t n[3], int64_t columns)     \
    {                                                                                                                             \
        const int64_t a1 = as[1], b0 = bs[0], b1 = bs[1], c1 = cs[1];                                                             \
        for (int64_t i = 0; i < n[0]; i++, a += as[0], c += cs[0]) {                                                              \
            T sum[SMALL];                                                                                                         \
            _Pragma("GCC unroll 4") for (int64_t j = 0; j < columns; j++) sum[j] = 0;                                             \
            for (int64_t k = 0; k < n[1]; k++) {                                                                                  \
                T x = a[k * a1];                                                                                                  \
                _Pragma("GCC unroll 4") for (int64_t j = 0; j < columns; j++) sum[j] += x * b[k * b0 + j * b1];                   \
            }                                                                                                                     \
            _Pragma("GCC unroll 4") for (int64_t j = 0; j < columns; j++) c[j * c1] = sum[j];                                     \
        }                                                                                                                         \
    }                                                                                                                             \
    static void NAME(const void *a, const int64_t *as, const void *b, const int64_t *bs, void *c, const int64_t *cs,              \
                     const int64_t n[3])                                                                                          \
    {                                                                                                                             \
        switch (n[2]) { /* few columns stay in registers */                                                                       \
        case 1: NAME##_of(a, as, b, bs, c, cs, n, 1); return;                                                                     \
        case 2: NAME##_of(a, as, b, bs, c, cs, n, 2); return;                                                                     \
        case 3: NAME##_of(a, as, b, bs, c, cs, n, 3); return;                                                                     \
        case 4: NAME##_of(a, as, b, bs, c, cs, n, 4); return;                                                                     \
        default: NAME##_of(a, as, b, bs, c, cs, n, n[2]);                                                                         \
        }                                                                                                                         \
    }
SMALL_PRODUCT(product_f64, double)
SMALL_PRODUCT(product_f32, float)

static int64_t extent_of(const Frame *f, const Buffer *b, int64_t axis) { return f->values[LIST(f->program, b->dims_at)[axis]]; }

/* Whether a call is a matmul of small real matrices: left, right and result, and how many rows, terms and columns. */
static int is_small_product(const Frame *f, const Instruction *ins, int64_t buffers[3], int64_t n[3])
{
    const Program *p = f->program;
    if (strcmp(TEXT(p, ins->u.library.name), "matmul") || ins->u.library.n_args != 2 || ins->u.library.n_keywords != 1) return 0;
    const int64_t *args = LIST(p, ins->u.library.args_at), *out = LIST(p, ins->u.library.keywords_at);
    if (args[0] != OF_OPERAND || args[2] != OF_OPERAND || out[1] != OF_RESULT) return 0;
    buffers[0] = args[1], buffers[1] = args[3], buffers[2] = out[2];
    int64_t dtype = p->buffers[buffers[2]].dtype;
    if (dtype != F64 && dtype != F32) return 0;
    for (int i = 0; i < 3; i++)
        if (p->buffers[buffers[i]].dtype != dtype || p->buffers[buffers[i]].rank < 2) return 0;
    const Buffer *a = &p->buffers[buffers[0]], *b = &p->buffers[buffers[1]];
    n[0] = extent_of(f, a, a->rank - 2), n[1] = extent_of(f, a, a->rank - 1), n[2] = extent_of(f, b, b->rank - 1);
    return n[0] <= SMALL && n[1] <= SMALL && n[2] <= SMALL;
}

/* How many products are to be made. */
static int64_t count_products(const Frame *f, const Buffer *c)
{
    int64_t count = 1;
    for (int64_t d = 0; d < c->rank - 2; d++) count *= extent_of(f, c, d);
    return count;
}

/* Sums in order, as NumPy's are where there are so few terms; leading axes broadcast. */
static void small_products(Frame *f, const int64_t buffers[3], const int64_t n[3])
{
    const Program *p = f->program;
    const Buffer *c = &p->buffers[buffers[2]];
    int64_t size = dtypes[c->dtype].size, run = c->rank > 2 ? extent_of(f, c, c->rank - 3) : 1, count = count_products(f, c);
    for (int64_t item = 0; item < count; item += run) {
        char *data[3];
        int64_t step[3] = {0, 0, 0};
        const int64_t *strides[3];
        for (int i = 0; i < 3; i++) {
            const Buffer *b = &p->buffers[buffers[i]];
            int64_t rest = item, offset = 0;
            for (int64_t back = 3; back <= c->rank; back++) {
                int64_t extent = extent_of(f, c, c->rank - back), axis = b->rank - back;
                int64_t stride = axis >= 0 && extent_of(f, b, axis) != 1 ? f->values[b->strides_at + axis] * size : 0;
                if (back == 3) step[i] = stride;
                offset += rest % extent * stride;
                rest /= extent;
            }
            data[i] = (char *)f->pointers[buffers[i]] + offset;
            strides[i] = &f->values[b->strides_at + b->rank - 2];
        }
        for (int64_t k = 0; k < run; k++) {
            (c->dtype == F64 ? product_f64 : product_f32)(data[0], strides[0], data[1], strides[1], data[2], strides[2], n);
            for (int i = 0; i < 3; i++) data[i] += step[i];
        }
    }
}

#define CONTROL_NS 5       /* an instruction of control takes about so long */

/* The GIL is let go once kernels have run, or are about to run, long enough for that to pay off. In a loop it
 * stays so from step to step, and is taken now and then to look for signals. */
static int run_instructions(Frame *f)
{
    const Program *p = f->program;
    Watch watch = {NULL, 0};
    double held = 0, since = 0;
    for (int64_t i = 0; i < p->head->n_buffers; i++) {
        const Buffer *b = &p->buffers[i];
        if (b->kind != BUFFER_TEMP || !b->zero) continue;
        size_t bytes = (size_t)frame_bytes(f, b);
        if (!watch.released && (held += (double)bytes / 8) >= RELEASE_NS) watch.released = PyEval_SaveThread();
        memset(f->pointers[i], 0, bytes);
    }
    int rc = 0;
    for (int64_t i = 0; i < p->head->n_instructions && rc == 0;) {
        const Instruction *ins = &p->instructions[i];
        double ns = ins->kind == RUN_KERNEL ? kernel_ns(f, ins) : CONTROL_NS;
        if (ins->kind == RUN_KERNEL || ins->kind >= RUN_JUMP) {
            if (!watch.released && (held += ns) >= RELEASE_NS) watch.released = PyEval_SaveThread();
            if (ins->kind == RUN_KERNEL) {
                rc = run_kernel(f, ins, ns, &watch);
                since += ns + CONTROL_NS;
                i++;
                continue;
            }
            int64_t next = run_control(f, i);
            if (next <= i && (since += ns) >= SIGNAL_NS / 1000) { /* a step is done: time to look at the clock? */
                since = 0;
                rc = look_for_signals(&watch);
            }
            i = next;
            continue;
        }
        i++;
        int64_t buffers[3], sizes[3];
        if (ins->kind == RUN_LIBRARY && is_small_product(f, ins, buffers, sizes)) {
            ns = (double)(count_products(f, &p->buffers[buffers[2]]) * (CONTROL_NS + sizes[0] * sizes[1] * sizes[2]));
            if (!watch.released && (held += ns) >= RELEASE_NS) watch.released = PyEval_SaveThread();
            small_products(f, buffers, sizes);
            since += ns;
            continue;
        }
        int measured = ins->kind == RUN_MEASURE && run_measure(f, ins);
        if (measured && !ins->u.measure.makes_results) {
            point_aliases(f, ins);
            continue;
        }
        if (ins->kind == RUN_RAISE && !*(const int64_t *)f->pointers[ins->u.raise.buffer]) continue;
        if (ins->kind == RUN_EFFECT && effect_is_idle(f, ins)) continue;
        if (watch.released) PyEval_RestoreThread(watch.released);
        watch.released = NULL;
        held = 0;
        switch (ins->kind) {
        case RUN_LIBRARY: rc = run_library(f, ins); break;
        case RUN_EFFECT: rc = run_effect(f, ins); break;
        case RUN_MEASURE: rc = finish_measure(f, ins, measured); break;
        default: rc = run_raise(f, ins);
        }
        if (measured) point_aliases(f, ins);
    }
    if (watch.released) PyEval_RestoreThread(watch.released);
    return rc;
}

/* What lies elsewhere goes to where the caller has it. */
static int copy_temps(Frame *f)
{
    for (int64_t i = 0; i < f->program->head->n_args; i++) {
        const Leaf *leaf = &f->leaves[i];
        if (f->program->args[i].inout && leaf->copy && copy_into(leaf->object, leaf->copy) < 0) return -1;
    }
    for (int64_t i = 0; i < f->program->head->n_outputs; i++) {
        if (!f->temps[i]) continue;
        if (copy_into(f->results[i], f->temps[i]) < 0) return -1;
    }
    return 0;
}

/* Runs a program whose leaves fit and whose sizes are computed; f->results then hold the outputs. */
static int frame_run(Frame *f, PyObject *const *outs)
{
    f->outs = outs;
    if (bind_args(f) < 0 || bind_outs(f) < 0 || bind_memory(f) < 0) return -1;
    if (run_instructions(f) < 0) return -1;
    return copy_temps(f);
}

/* Moves a result out of the frame. */
static PyObject *frame_take(Frame *f, int64_t number)
{
    PyObject *result = f->results[number];
    f->results[number] = NULL;
    return result;
}

static int leaves_fit(const Program *p, const Leaf *leaves, Py_ssize_t count, int strict)
{
    if (count != p->head->n_args) return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!leaf_fits(&leaves[i], &p->args[i], strict)) return 0;
    return 1;
}

/* ---- C functions that kernels import -------------------------------------------------------------- */

#ifdef AOTARRAY_MODULE
#define IMPORTED __attribute__((visibility("hidden")))
#else
#define IMPORTED static
#endif

#define COMPLEX_FUNCTIONS(X) \
    X(exp) X(log) X(sqrt) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) X(asin) X(acos) X(atan) X(asinh) X(acosh) X(atanh)

#define DEFINE_COMPLEX(fn)                                                       \
    IMPORTED void aot_c_##fn##_c128(double re, double im, double *out)           \
    {                                                                            \
        double complex z = c##fn(CMPLX(re, im));                                 \
        out[0] = creal(z);                                                       \
        out[1] = cimag(z);                                                       \
    }                                                                            \
    IMPORTED void aot_c_##fn##_c64(float re, float im, float *out)               \
    {                                                                            \
        float complex z = c##fn##f(CMPLXF(re, im));                              \
        out[0] = crealf(z);                                                      \
        out[1] = cimagf(z);                                                      \
    }
#ifdef AOTARRAY_MODULE
#define DECLARE_COMPLEX(fn)                                         \
    IMPORTED void aot_c_##fn##_c128(double, double, double *);      \
    IMPORTED void aot_c_##fn##_c64(float, float, float *);
COMPLEX_FUNCTIONS(DECLARE_COMPLEX)
IMPORTED void aot_c_pow_c128(double, double, double, double, double *);
IMPORTED void aot_c_pow_c64(float, float, float, float, float *);
#endif
COMPLEX_FUNCTIONS(DEFINE_COMPLEX)

/* NumPy's npy_cpow: exact zeros and small integer powers by products, the rest by the C library. */
#define DEFINE_COMPLEX_POW(suffix, real, pow, pack, re, im)                                     \
    static real complex times_##suffix(real complex a, real complex b)                          \
    {                                                                                           \
        return pack(re(a) * re(b) - im(a) * im(b), re(a) * im(b) + im(a) * re(b));              \
    }                                                                                           \
    static real complex inverse_##suffix(real complex b)                                        \
    {                                                                                           \
        real ratio, scale; /* R. L. Smith, Algorithm 116, CACM 1962 */                          \
        if (re(b) == 0 && im(b) == 0) return pack((real)INFINITY, (real)NAN);                   \
        if ((re(b) < 0 ? -re(b) : re(b)) >= (im(b) < 0 ? -im(b) : im(b))) {                     \
            ratio = im(b) / re(b);                                                              \
            scale = 1 / (re(b) + im(b) * ratio);                                                \
            return pack((1 + 0 * ratio) * scale, (0 - 1 * ratio) * scale);                      \
        }                                                                                       \
        ratio = re(b) / im(b);                                                                  \
        scale = 1 / (im(b) + re(b) * ratio);                                                    \
        return pack((1 * ratio + 0) * scale, (0 * ratio - 1) * scale);                          \
    }                                                                                           \
    static real complex power_##suffix(real complex a, real complex b)                          \
    {                                                                                           \
        if (re(b) == 0 && im(b) == 0) return pack(1, 0);                                        \
        if (re(a) == 0 && im(a) == 0)                                                           \
            return re(b) > 0 ? pack(0, 0) : pack((real)NAN, (real)NAN);                         \
        if (im(b) != 0 || re(b) <= -100 || re(b) >= 100 || re(b) != (int)re(b)) return pow(a, b); \
        int n = re(b) < 0 ? -(int)re(b) : (int)re(b);                                           \
        if (re(b) == 1) return a;                                                               \
        if (re(b) == 2) return times_##suffix(a, a);                                            \
        if (re(b) == 3) return times_##suffix(a, times_##suffix(a, a));                         \
        real complex product = pack(1, 0);                                                      \
        for (;; a = times_##suffix(a, a)) {                                                     \
            if (n & 1) product = times_##suffix(product, a);                                    \
            if (!(n >>= 1)) break;                                                              \
        }                                                                                       \
        return re(b) < 0 ? inverse_##suffix(product) : product;                                 \
    }                                                                                           \
    IMPORTED void aot_c_pow_##suffix(real a_re, real a_im, real b_re, real b_im, real *out)     \
    {                                                                                           \
        real complex z = power_##suffix(pack(a_re, a_im), pack(b_re, b_im));                    \
        out[0] = re(z);                                                                         \
        out[1] = im(z);                                                                         \
    }
DEFINE_COMPLEX_POW(c128, double, cpow, CMPLX, creal, cimag)
DEFINE_COMPLEX_POW(c64, float, cpowf, CMPLXF, crealf, cimagf)

#ifndef AOTARRAY_MODULE

#define IMPORT(fn) {#fn, (void (*)(void))fn},
#define IMPORT_REAL(fn) IMPORT(fn) IMPORT(fn##f)
#define IMPORT_COMPLEX(fn) IMPORT(aot_c_##fn##_c128) IMPORT(aot_c_##fn##_c64)

static const struct { const char *name; void (*address)(void); } imports[] = {
    IMPORT(memcpy) IMPORT(memset) IMPORT(memmove) IMPORT(memcmp) IMPORT(bcmp)
    IMPORT_REAL(fmod) IMPORT_REAL(remainder) IMPORT_REAL(pow) IMPORT_REAL(exp) IMPORT_REAL(exp2)
    IMPORT_REAL(expm1) IMPORT_REAL(log) IMPORT_REAL(log2) IMPORT_REAL(log10) IMPORT_REAL(log1p)
    IMPORT_REAL(sin) IMPORT_REAL(cos) IMPORT_REAL(tan) IMPORT_REAL(asin) IMPORT_REAL(acos)
    IMPORT_REAL(atan) IMPORT_REAL(atan2) IMPORT_REAL(sinh) IMPORT_REAL(cosh) IMPORT_REAL(tanh)
    IMPORT_REAL(asinh) IMPORT_REAL(acosh) IMPORT_REAL(atanh) IMPORT_REAL(cbrt) IMPORT_REAL(hypot)
    IMPORT_REAL(sqrt) IMPORT_REAL(fabs) IMPORT_REAL(erf) IMPORT_REAL(erfc) IMPORT_REAL(tgamma)
    IMPORT_REAL(lgamma) IMPORT_REAL(nextafter) IMPORT_REAL(floor) IMPORT_REAL(ceil) IMPORT_REAL(trunc)
    IMPORT_REAL(rint) IMPORT_REAL(nearbyint) IMPORT_REAL(round) IMPORT_REAL(fma)
    IMPORT_REAL(fmin) IMPORT_REAL(fmax) IMPORT_REAL(ldexp) IMPORT_REAL(frexp) IMPORT_REAL(modf)
    IMPORT_REAL(copysign) IMPORT_REAL(scalbn) IMPORT_REAL(logb)
    COMPLEX_FUNCTIONS(IMPORT_COMPLEX) IMPORT_COMPLEX(pow)
};

/* ---- For jit: images, programs, dispatchers ------------------------------------------------------- */

static struct { PyTypeObject *image, *program; } types;

typedef struct {
    PyObject_HEAD
    char *base;
    size_t size;
} ImageObject;

static void (*find_import(const char *name))(void)
{
    for (Py_ssize_t i = 0; i < COUNT(imports); i++)
        if (!strcmp(imports[i].name, name)) return imports[i].address;
    PyErr_Format(PyExc_ImportError, "kernels need the C function '%s', which the launcher does not provide", name);
    return NULL;
}

static int link_imports(char *base, Py_ssize_t size, PyObject *imported)
{
    Py_ssize_t count = PySequence_Size(imported);
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t offset;
        const char *name;
        PyObject *pair = PySequence_GetItem(imported, i);
        void (*address)(void) = NULL;
        if (pair && PyArg_ParseTuple(pair, "ns", &offset, &name) && (address = find_import(name)) &&
            (offset < 0 || offset > size - (Py_ssize_t)sizeof address)) {
            PyErr_Format(PyExc_ValueError, "import '%s' at offset %zd of an image of %zd bytes", name, offset, size);
            address = NULL;
        }
        Py_XDECREF(pair);
        if (!address) return -1;
        memcpy(base + offset, &address, sizeof address);
    }
    return count < 0 ? -1 : 0;
}

static PyObject *image_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "imports", "got_offset", NULL};
    const char *code;
    Py_ssize_t size, got;
    PyObject *imported;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#On", names, &code, &size, &imported, &got)) return NULL;
    if (size == 0 || got < 0 || got > size || got % (Py_ssize_t)page) {
        PyErr_Format(PyExc_ValueError, "an image of %zd bytes with data from %zd", size, got);
        return NULL;
    }
    ImageObject *self = (ImageObject *)new_object(type);
    if (!self) return NULL;
    size_t whole = ((size_t)size + page - 1) / page * page;
    char *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto fail;
    }
    self->base = base;
    self->size = whole;
    memcpy(base, code, (size_t)size);
    if (link_imports(base, size, imported) < 0) goto fail;
    if ((got && mprotect(base, (size_t)got, PROT_READ | PROT_EXEC)) ||
        ((size_t)got < whole && mprotect(base + got, whole - (size_t)got, PROT_READ))) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto fail;
    }
    __builtin___clear_cache(base, base + whole);
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static void image_dealloc(PyObject *self)
{
    ImageObject *image = (ImageObject *)self;
    if (image->base) munmap(image->base, image->size);
    free_object(self);
}

static PyType_Spec image_spec = {
    "aotarray.runtime._launcher.Image", sizeof(ImageObject), 0, Py_TPFLAGS_DEFAULT,
    (PyType_Slot[]){
        {Py_tp_doc, "Image(code, imports, got_offset)\n--\n\n"
                    "Machine code mapped read-execute, its bytes from got_offset on read-only."},
        {Py_tp_new, image_new},
        {Py_tp_dealloc, image_dealloc},
        {0, NULL},
    },
};

typedef struct {
    PyObject_HEAD
    Program program;
    void *memory;       /* words, constants, kernels */
    PyObject *image, *result_type;
} ProgramObject;

/* Copies words and constants to aligned memory, with room for the kernels' addresses. */
static int program_load(ProgramObject *self, const char *words, Py_ssize_t n_words, const char *constants,
                        Py_ssize_t n_constants, Py_ssize_t n_kernels)
{
    size_t code_at = round_up((size_t)n_words), kernels_at = code_at + round_up((size_t)n_constants);
    char *memory = self->memory = aligned_alloc(LINE, kernels_at + round_up((size_t)n_kernels * sizeof(Kernel) + 1));
    if (!memory) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(memory, words, (size_t)n_words);
    memcpy(memory + code_at, constants, (size_t)n_constants);
    if (program_open(&self->program, (int64_t *)memory, (size_t)n_words / 8) < 0) return -1;
    const Header *head = self->program.head;
    self->program.constants = memory + code_at;
    self->program.kernels = (Kernel *)(memory + kernels_at);
    if (head->n_constants == n_constants && head->n_kernels == n_kernels) return 0;
    PyErr_Format(PyExc_ValueError, "the program has %lld kernels and %lld bytes of constants, not %zd and %zd",
                 (long long)head->n_kernels, (long long)head->n_constants, n_kernels, n_constants);
    return -1;
}

static int program_link(ProgramObject *self, const ImageObject *image, PyObject *offsets)
{
    Kernel *kernels = (Kernel *)self->program.kernels;
    for (int64_t i = 0; i < self->program.head->n_kernels; i++) {
        PyObject *item = PySequence_GetItem(offsets, i);
        size_t offset = item ? PyLong_AsSize_t(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return -1;
        if (offset >= image->size) {
            PyErr_Format(PyExc_ValueError, "kernel at offset %zu of an image of %zu bytes", offset, image->size);
            return -1;
        }
        char *address = image->base + offset;
        memcpy(&kernels[i], &address, sizeof address);
    }
    return 0;
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"words", "constants", "image", "offsets", "result_type", "threads", NULL};
    const char *words, *constants;
    Py_ssize_t n_words, n_constants, n_kernels;
    PyObject *image, *offsets, *result_type = (PyObject *)np.ndarray;
    int threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#y#O!O|O!i", names, &words, &n_words, &constants, &n_constants,
                                     types.image, &image, &offsets, &PyType_Type, &result_type, &threads))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)result_type, np.ndarray)) {
        PyErr_SetString(PyExc_TypeError, "result_type must be numpy.ndarray or a subclass of it");
        return NULL;
    }
    if ((n_kernels = PySequence_Size(offsets)) < 0) return NULL;
    ProgramObject *self = (ProgramObject *)new_object(type);
    if (!self) return NULL;
    Py_INCREF(image);
    Py_INCREF(result_type);
    self->image = image;
    self->result_type = result_type;
    self->program.threads = threads;
    if (program_load(self, words, n_words, constants, n_constants, n_kernels) < 0 ||
        program_link(self, (ImageObject *)image, offsets) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    if ((PyTypeObject *)result_type != np.ndarray) {
        self->program.result_type = result_type;
        if (!np.result) {
            Py_INCREF(result_type); /* for good: leaf_read compares with it */
            np.result = (PyTypeObject *)result_type;
        }
    }
    return (PyObject *)self;
}

static void program_dealloc(PyObject *object)
{
    ProgramObject *self = (ProgramObject *)object;
    Py_XDECREF(self->image);
    Py_XDECREF(self->result_type);
    free(self->memory);
    free_object(object);
}

#define FAST_LEAVES 32

/* Leaves of a sequence of arguments; `inline_leaves` has room for FAST_LEAVES. */
static Leaf *open_leaves(PyObject *tuple, Leaf *inline_leaves)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    Leaf *leaves = count <= FAST_LEAVES ? inline_leaves : malloc((size_t)count * sizeof(Leaf));
    if (!leaves) return (Leaf *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) leaf_read(&leaves[i], PyTuple_GetItem(tuple, i));
    return leaves;
}

static void close_leaves(Leaf *leaves, const Leaf *inline_leaves, Py_ssize_t count)
{
    leaves_close(leaves, count);
    if (leaves != inline_leaves) free(leaves);
}

static PyObject *program_matches(PyObject *self, PyObject *tuple)
{
    const Program *p = &((ProgramObject *)self)->program;
    Leaf inline_leaves[FAST_LEAVES], *leaves;
    if (!PyTuple_Check(tuple)) return PyErr_Format(PyExc_TypeError, "matches() takes a tuple");
    if (!(leaves = open_leaves(tuple, inline_leaves))) return NULL;
    Frame frame;
    PyObject *answer = NULL;
    if (!leaves_fit(p, leaves, PyTuple_Size(tuple), 1)) {
        answer = PyBool_FromLong(0);
    } else if (frame_open(&frame, p, leaves) == 0) {
        answer = PyBool_FromLong(frame_sizes(&frame) == NULL);
        frame_close(&frame);
    }
    close_leaves(leaves, inline_leaves, PyTuple_Size(tuple));
    return answer;
}

static PyObject *frame_take_tuple(Frame *f)
{
    PyObject *results = PyTuple_New(f->program->head->n_outputs);
    for (int64_t i = 0; results && i < f->program->head->n_outputs; i++)
        if (PyTuple_SetItem(results, i, frame_take(f, i)) < 0) Py_CLEAR(results);
    return results;
}

/* Raises the reason why leaves_fit said no. */
static void raise_unfit(const Program *p, const Leaf *leaves, Py_ssize_t count)
{
    if (count != p->head->n_args) {
        PyErr_Format(PyExc_TypeError, "%s takes %lld arguments, not %zd", TEXT(p, p->head->name),
                     (long long)p->head->n_args, count);
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const Arg *arg = &p->args[i];
        const char *name = TEXT(p, arg->name);
        if (leaf_fits(&leaves[i], arg, 1)) continue;
        if (leaves[i].kind == LEAF_BAD) {
            raise_bad_leaf(&leaves[i], name);
        } else if (leaves[i].kind != LEAF_ARRAY && leaves[i].kind == arg->weak) {
            PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C long");
        } else {
            PyObject *given = describe(&leaves[i]);
            if (given)
                PyErr_Format(PyExc_TypeError, "argument '%s': expected %s%s of rank %lld, got %U", name,
                             arg->weak ? "a Python number as " : "", dtypes[arg->dtype].name, (long long)arg->rank, given);
            Py_XDECREF(given);
        }
        return;
    }
}

static PyObject *program_run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"leaves", "outs", NULL};
    const Program *p = &((ProgramObject *)self)->program;
    PyObject *tuple, *outs = Py_None, *results = NULL, **given = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O", names, &PyTuple_Type, &tuple, &outs)) return NULL;
    if (outs != Py_None && (!PyTuple_Check(outs) || PyTuple_Size(outs) != p->head->n_outputs))
        return PyErr_Format(PyExc_TypeError, "outs must be a tuple of %lld", (long long)p->head->n_outputs);
    Leaf inline_leaves[FAST_LEAVES], *leaves = open_leaves(tuple, inline_leaves);
    if (!leaves) return NULL;
    Frame frame;
    const Check *failed;
    if (outs != Py_None && p->head->n_outputs && !(given = calloc((size_t)p->head->n_outputs, sizeof *given))) {
        PyErr_NoMemory();
        goto end;
    }
    for (int64_t i = 0; given && i < p->head->n_outputs; i++) given[i] = PyTuple_GetItem(outs, i);
    if (!leaves_fit(p, leaves, PyTuple_Size(tuple), 1)) {
        raise_unfit(p, leaves, PyTuple_Size(tuple));
    } else if (frame_open(&frame, p, leaves) == 0) {
        if ((failed = frame_sizes(&frame))) raise_failed_check(&frame, failed);
        else if (frame_run(&frame, given) == 0) results = frame_take_tuple(&frame);
        frame_close(&frame);
    }
end:
    free(given);
    close_leaves(leaves, inline_leaves, PyTuple_Size(tuple));
    return results;
}

static PyType_Spec program_spec = {
    "aotarray.runtime._launcher.Program", sizeof(ProgramObject), 0, Py_TPFLAGS_DEFAULT,
    (PyType_Slot[]){
        {Py_tp_doc, "Program(words, constants, image, offsets, result_type=numpy.ndarray, threads=0)\n--\n\n"
                    "A program ready to run: kernel i is at offsets[i] of the image. At most so many threads run it, if not 0."},
        {Py_tp_new, program_new},
        {Py_tp_dealloc, program_dealloc},
        {Py_tp_methods, (PyMethodDef[]){
            {"matches", program_matches, METH_O, "matches($self, leaves, /)\n--\n\n"
             "Whether dtypes, ranks, kinds of number and checks hold for a tuple of leaves."},
            {"run", (PyCFunction)(void (*)(void))program_run, METH_VARARGS | METH_KEYWORDS,
             "run($self, leaves, outs=None)\n--\n\nRun on a tuple of leaves and return the tuple of outputs."},
            {NULL, NULL, 0, NULL}}},
        {0, NULL},
    },
};

enum { RESULT_SINGLE, RESULT_TUPLE, RESULT_NONE };
static const char *const result_kinds[] = {"single", "tuple", "none"};

typedef struct { ProgramObject *program; int kind; } Entry;

/* The lock is held only to read or change the list, never around Python code. */
typedef struct {
    PyObject_HEAD
    Entry *entries;
    Py_ssize_t count, room;
    PyObject *names; /* of parameters, when keywords may be sorted here; set once */
    pthread_mutex_t lock;
} DispatcherObject;

#ifdef Py_GIL_DISABLED
#define LOCK(d) pthread_mutex_lock(&(d)->lock)
#define UNLOCK(d) pthread_mutex_unlock(&(d)->lock)
#else
#define LOCK(d) (void)(d)
#define UNLOCK(d) (void)(d)
#endif

static PyObject *dispatcher_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    DispatcherObject *self = (DispatcherObject *)new_object(type);
    if (self) pthread_mutex_init(&self->lock, NULL);
    return (PyObject *)self;
}

static PyObject *dispatcher_add(PyObject *object, PyObject *args)
{
    DispatcherObject *self = (DispatcherObject *)object;
    PyObject *program;
    const char *kind;
    if (!PyArg_ParseTuple(args, "O!s", types.program, &program, &kind)) return NULL;
    int code = 0;
    while (code < COUNT(result_kinds) && strcmp(kind, result_kinds[code])) code++;
    int64_t outputs = ((ProgramObject *)program)->program.head->n_outputs;
    if (code == COUNT(result_kinds) || (code == RESULT_SINGLE && outputs != 1) || (code == RESULT_NONE && outputs))
        return PyErr_Format(PyExc_ValueError, "kind must be 'single', for one output, 'tuple', or 'none', for no output");
    LOCK(self);
    int full = self->count == self->room;
    Entry *entries = full ? realloc(self->entries, (size_t)(2 * self->room + 4) * sizeof(Entry)) : self->entries;
    if (entries) {
        if (full) self->room = 2 * self->room + 4;
        Py_INCREF(program);
        self->entries = entries;
        memmove(entries + 1, entries, (size_t)self->count++ * sizeof(Entry));
        entries[0] = (Entry){(ProgramObject *)program, code};
    }
    UNLOCK(self);
    if (!entries) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static int dispatcher_clear(PyObject *object)
{
    DispatcherObject *self = (DispatcherObject *)object;
    LOCK(self);
    Entry *entries = self->entries;
    Py_ssize_t count = self->count;
    self->entries = NULL;
    self->count = self->room = 0;
    UNLOCK(self);
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF((PyObject *)entries[i].program);
    free(entries);
    return 0;
}

static PyObject *dispatcher_set_parameters(PyObject *object, PyObject *names)
{
    DispatcherObject *self = (DispatcherObject *)object;
    if (self->names || !PyTuple_Check(names))
        return PyErr_Format(PyExc_TypeError, "_set_parameters() takes a tuple of names, once");
    Py_INCREF(names);
    self->names = names;
    Py_RETURN_NONE;
}

static PyObject *dispatcher_clear_entries(PyObject *self, PyObject *Py_UNUSED(none))
{
    dispatcher_clear(self);
    Py_RETURN_NONE;
}

static int dispatcher_traverse(PyObject *object, visitproc visit, void *arg)
{
    DispatcherObject *self = (DispatcherObject *)object;
    Py_VISIT(Py_TYPE(object));
    for (Py_ssize_t i = 0; i < self->count; i++) Py_VISIT(self->entries[i].program);
    return 0;
}

static void dispatcher_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    dispatcher_clear(self);
    Py_XDECREF(((DispatcherObject *)self)->names);
    pthread_mutex_destroy(&((DispatcherObject *)self)->lock);
    free_object(self);
}

/* The entry whose program fits, moved to the front, with an open frame and its program owned; 0 when
 * there is none, -1 on an error. */
static int find_entry(DispatcherObject *self, Leaf *leaves, Py_ssize_t count, Frame *frame, Entry *found)
{
    int state = 0;
    LOCK(self);
    for (Py_ssize_t i = 0; i < self->count && state == 0; i++) {
        Entry entry = self->entries[i];
        const Program *p = &entry.program->program;
        if (!leaves_fit(p, leaves, count, 1)) continue;
        if (frame_open(frame, p, leaves) < 0) {
            state = -1;
        } else if (frame_sizes(frame)) {
            frame_close(frame);
        } else {
            Py_INCREF((PyObject *)entry.program);
            *found = entry;
            if (i) {
                memmove(self->entries + 1, self->entries, (size_t)i * sizeof(Entry));
                self->entries[0] = entry;
            }
            state = 1;
        }
    }
    UNLOCK(self);
    return state;
}

static PyObject *call_slow(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *given = kwargs ? kwargs : PyDict_New();
    PyObject *result = given ? PyObject_CallMethod(self, "_slow", "OO", args, given) : NULL;
    if (!kwargs) Py_XDECREF(given);
    return result;
}

/* Sorts arguments by parameter into `values` (borrowed), and finds `out`. Returns their number; -1 when
 * Python code has to. */
static Py_ssize_t sort_arguments(const DispatcherObject *self, PyObject *args, PyObject *kwargs, PyObject **values, PyObject **out)
{
    Py_ssize_t count = PyTuple_Size(args), keywords = kwargs ? PyDict_Size(kwargs) : 0;
    if (count > FAST_LEAVES) return -1;
    for (Py_ssize_t i = 0; i < count; i++) values[i] = PyTuple_GetItem(args, i);
    if (keywords == 0) return count;
    Py_ssize_t parameters = self->names ? PyTuple_Size(self->names) : 0;
    if (count > parameters || parameters > FAST_LEAVES) return -1;
    for (; count < parameters; count++, keywords--) {
        values[count] = PyDict_GetItemWithError(kwargs, PyTuple_GetItem(self->names, count));
        if (!values[count]) return -1;
    }
    if (keywords && (*out = PyDict_GetItemString(kwargs, "out"))) keywords--;
    return keywords ? -1 : count;
}

/* The outs that `*out` means for a result of this kind, put into `room` when there are several; NULL when
 * Python code has to see to it. */
static PyObject **sort_outs(PyObject **out, const Entry *entry, PyObject **room)
{
    Py_ssize_t count = entry->program->program.head->n_outputs;
    room[0] = NULL;
    if (entry->kind == RESULT_NONE) return NULL;
    if (entry->kind == RESULT_SINGLE) return PyTuple_Check(*out) ? NULL : out;
    if (!PyTuple_Check(*out) || PyTuple_Size(*out) != count || count > FAST_LEAVES) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) room[i] = PyTuple_GetItem(*out, i);
    return room;
}

static PyObject *dispatcher_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    DispatcherObject *self = (DispatcherObject *)object;
    PyObject *values[FAST_LEAVES], *room[FAST_LEAVES], *out = NULL, **outs = NULL, *result = NULL;
    Leaf leaves[FAST_LEAVES];
    Frame frame;
    Entry entry;
    Py_ssize_t count = self->count ? sort_arguments(self, args, kwargs, values, &out) : -1;
    if (count < 0) return PyErr_Occurred() ? NULL : call_slow(object, args, kwargs);
    for (Py_ssize_t i = 0; i < count; i++) leaf_read(&leaves[i], values[i]);
    int found = find_entry(self, leaves, count, &frame, &entry);
    if (found > 0) {
        if (out && out != Py_None && !(outs = sort_outs(&out, &entry, room))) found = 0;
        else if (frame_run(&frame, outs) == 0)
            result = entry.kind == RESULT_SINGLE  ? frame_take(&frame, 0)
                     : entry.kind == RESULT_TUPLE ? frame_take_tuple(&frame)
                                                  : Py_NewRef(Py_None);
        frame_close(&frame);
        Py_DECREF((PyObject *)entry.program);
    }
    leaves_close(leaves, count);
    return found ? result : call_slow(object, args, kwargs);
}

static PyType_Spec dispatcher_spec = {
    "aotarray.runtime._launcher.Dispatcher", sizeof(DispatcherObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    (PyType_Slot[]){
        {Py_tp_doc, "A callable that runs the first of its programs that fits, and else calls self._slow(args, kwargs)."},
        {Py_tp_new, dispatcher_new},
        {Py_tp_call, dispatcher_call},
        {Py_tp_traverse, dispatcher_traverse},
        {Py_tp_clear, dispatcher_clear},
        {Py_tp_dealloc, dispatcher_dealloc},
        {Py_tp_methods, (PyMethodDef[]){
            {"_add_entry", dispatcher_add, METH_VARARGS, "_add_entry($self, program, kind, /)\n--\n\n"
             "Try this program first. Its outputs are returned as kind says: 'single', 'tuple' or 'none'."},
            {"_set_parameters", dispatcher_set_parameters, METH_O, "_set_parameters($self, names, /)\n--\n\n"
             "Name the parameters, which are all arrays or numbers: calls with keywords, and with out=, are then fast too."},
            {"_clear_entries", dispatcher_clear_entries, METH_NOARGS, "_clear_entries($self, /)\n--\n\nForget all programs."},
            {NULL, NULL, 0, NULL}}},
        {0, NULL},
    },
};

/* The level that jit compiles for: this CPU's, or the lower one that AOTARRAY_CPU asks for. */
static PyObject *cpu_level_name(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    const char *wanted = getenv("AOTARRAY_CPU");
    int level = cpu_level(), asked = level;
    if (level && wanted && *wanted) {
        asked = !strncmp(wanted, "x86-64-v", 8) && wanted[8] >= '1' && wanted[8] <= '4' && !wanted[9] ? wanted[8] - '0' : 0;
        if (!asked) return PyErr_Format(PyExc_ValueError, "AOTARRAY_CPU=%s is not one of x86-64-v1 to x86-64-v4", wanted);
        if (asked > level)
            return PyErr_Format(PyExc_ValueError, "AOTARRAY_CPU=%s, and this CPU has x86-64-v%d only", wanted, level);
    }
    return level ? PyUnicode_FromFormat("v%d", asked) : PyUnicode_FromString("generic");
}

static PyObject *import_names(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *names = PyTuple_New(COUNT(imports));
    for (Py_ssize_t i = 0; names && i < COUNT(imports); i++) {
        PyObject *name = PyUnicode_FromString(imports[i].name);
        if (!name || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, (PyTypeObject *)type) < 0) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int module_exec(PyObject *module)
{
    if (load_numpy() < 0 || start_threads() < 0 || start_memory(module) < 0) return -1;
    PyTypeObject *image = add_type(module, &image_spec), *program = image ? add_type(module, &program_spec) : NULL;
    PyTypeObject *dispatcher = program ? add_type(module, &dispatcher_spec) : NULL;
    if (dispatcher) {
        types.image = image; /* with their references, for good */
        types.program = program;
    }
    Py_XDECREF((PyObject *)dispatcher);
    return dispatcher ? 0 : -1;
}

static PyMethodDef module_methods[] = {
    COMMON_METHODS,
    {"cpu_level", cpu_level_name, METH_NOARGS, "cpu_level($module, /)\n--\n\n"
     "Level of x86-64 of this CPU (\"v3\"), or the lower one that AOTARRAY_CPU asks for; \"generic\" on others."},
    {"import_names", import_names, METH_NOARGS, "import_names($module, /)\n--\n\nNames of the C functions that images may import."},
    {NULL, NULL, 0, NULL},
};

#else /* AOTARRAY_MODULE */

/* ---- Built modules -------------------------------------------------------------------------------- */

static const aot_module *module_data;
static const aot_variant *variant;
static Program *programs; /* of all overloads */

/* -- which instruction set -- */

static void raise_no_variant(const char *wanted)
{
    PyObject *names = PyUnicode_FromString("");
    for (int64_t i = 0; names && i < module_data->n_variants; i++) {
        PyObject *next = PyUnicode_FromFormat("%U%s%s", names, i ? ", " : "", module_data->variants[i].name);
        Py_DECREF(names);
        names = next;
    }
    if (names)
        PyErr_Format(PyExc_ImportError, "AOTARRAY_CPU=%s, but module '%s' has no code for it; it has code for %U", wanted,
                     module_data->name, names);
    Py_XDECREF(names);
}

/* The best variant for this CPU, or the one that AOTARRAY_CPU asks for. */
static int choose_variant(void)
{
    const char *wanted = getenv("AOTARRAY_CPU");
    int level = cpu_level();
    for (int64_t i = module_data->n_variants; i-- > 0 && !variant;) {
        const aot_variant *v = &module_data->variants[i];
        if (wanted && *wanted ? !strcmp(v->name, wanted) : v->level <= level) variant = v;
    }
    if (!variant && wanted && *wanted)
        raise_no_variant(wanted);
    else if (!variant || variant->level > level)
        PyErr_Format(PyExc_ImportError, "module '%s' needs a CPU with %s, and this one has x86-64-v%d only", module_data->name,
                     variant ? variant->name : module_data->variants[0].name, level);
    else
        return 0;
    variant = NULL;
    return -1;
}

/* -- trees -- */

static const int64_t *skip_tree(const int64_t *at)
{
    int64_t kind = at[0], count = kind >= AOT_TUPLE ? at[1] : 0;
    at += kind == AOT_NONE ? 1 : kind == AOT_DICT ? 2 + count : 2;
    while (count-- > 0) at = skip_tree(at);
    return at;
}

/* Puts the leaves of `object` into `leaves`, as new references. 0 when it is of another form. */
static int flatten(const int64_t *at, PyObject *object, PyObject **leaves)
{
    int64_t kind = at[0];
    if (kind == AOT_LEAF) {
        Py_INCREF(object);
        leaves[at[1]] = object;
        return 1;
    }
    if (kind == AOT_NONE) return object == Py_None;
    if (kind == AOT_TUPLE ? !PyTuple_Check(object) : kind == AOT_LIST ? !PyList_Check(object) : !PyDict_Check(object)) return 0;
    int64_t count = at[1];
    if (PyObject_Size(object) != count) return 0;
    const int64_t *keys = at += 2;
    if (kind == AOT_DICT) at += count;
    for (int64_t i = 0; i < count; i++, at = skip_tree(at)) {
        PyObject *child = kind == AOT_TUPLE  ? PyTuple_GetItem(object, i)
                          : kind == AOT_LIST ? PyList_GetItem(object, i)
                                             : PyDict_GetItemString(object, module_data->strings[keys[i]]);
        if (!child || !flatten(at, child, leaves)) return 0;
    }
    return 1;
}

/* The result tree, with outputs moved out of the frame. */
static PyObject *unflatten(const int64_t **tree, Frame *f)
{
    int64_t kind = *(*tree)++;
    if (kind == AOT_LEAF) {
        PyObject *result = f->results[*(*tree)++];
        Py_INCREF(result);
        return result;
    }
    if (kind == AOT_NONE) Py_RETURN_NONE;
    int64_t count = *(*tree)++;
    const int64_t *keys = *tree;
    if (kind == AOT_DICT) *tree += count;
    PyObject *whole = kind == AOT_TUPLE ? PyTuple_New(count) : kind == AOT_LIST ? PyList_New(count) : PyDict_New();
    for (int64_t i = 0; whole && i < count; i++) {
        PyObject *child = unflatten(tree, f);
        int failed = !child;
        if (child && kind == AOT_DICT) {
            failed = PyDict_SetItemString(whole, module_data->strings[keys[i]], child);
            Py_DECREF(child);
        } else if (child) {
            failed = kind == AOT_TUPLE ? PyTuple_SetItem(whole, i, child) : PyList_SetItem(whole, i, child);
        }
        if (failed) Py_CLEAR(whole);
    }
    return whole;
}

/* -- arguments -- */

/* Text + more, for building lists; `text` is given up. */
static PyObject *append(PyObject *text, const char *between, PyObject *more)
{
    PyObject *whole = text && more ? PyUnicode_FromFormat("%U%s%U", text, between, more) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(more);
    return whole;
}

/* "float64[3]", "(float64[3], float)", "{'w': float32[2, 2]}". */
static PyObject *describe_value(PyObject *object)
{
    int dict = PyDict_Check(object);
    if (!PyTuple_Check(object) && !PyList_Check(object) && !dict) {
        Leaf leaf;
        leaf_read(&leaf, object);
        PyObject *text = describe(&leaf);
        leaf_close(&leaf);
        return text;
    }
    PyObject *items = dict ? PyDict_Items(object) : NULL;
    PyObject *from = dict ? items : object;
    PyObject *text = PyUnicode_FromString(dict ? "{" : PyTuple_Check(object) ? "(" : "[");
    for (Py_ssize_t i = 0; from && text && i < PyObject_Size(from); i++) {
        PyObject *item = PySequence_GetItem(from, i), *key = NULL;
        if (item && dict) {
            PyObject *value = PyTuple_GetItem(item, 1);
            key = PyUnicode_FromFormat("%s%R: ", i ? ", " : "", PyTuple_GetItem(item, 0));
            Py_INCREF(value);
            Py_DECREF(item);
            item = value;
            text = append(text, "", key);
        }
        text = append(text, i && !dict ? ", " : "", item ? describe_value(item) : NULL);
        Py_XDECREF(item);
    }
    Py_XDECREF(items);
    return append(text, "", PyUnicode_FromString(dict ? "}" : PyTuple_Check(object) ? ")" : "]"));
}

static PyObject *raise_missing(const aot_function *fn, PyObject *const *values)
{
    int64_t missing = 0, named = 0;
    PyObject *names = PyUnicode_FromString("");
    for (int64_t i = 0; i < fn->n_parameters; i++) missing += !values[i];
    for (int64_t i = 0; i < fn->n_parameters; i++) {
        if (values[i]) continue;
        const char *between = named == 0 ? "" : missing == 2 ? " and " : named + 1 == missing ? ", and " : ", ";
        names = append(names, between, PyUnicode_FromFormat("'%s'", fn->parameters[i]));
        named++;
    }
    if (names)
        PyErr_Format(PyExc_TypeError, "%s() missing %lld required positional argument%s: %U", fn->name, (long long)missing,
                     missing == 1 ? "" : "s", names);
    Py_XDECREF(names);
    return NULL;
}

/* Sorts arguments into `values` (borrowed) by parameter, and the last, out. */
static int bind_parameters(const aot_function *fn, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **values)
{
    int64_t n = fn->n_parameters;
    if (count > n) {
        PyErr_Format(PyExc_TypeError, "%s() takes %lld positional argument%s but %zd %s given", fn->name, (long long)n,
                     n == 1 ? "" : "s", count, count == 1 ? "was" : "were");
        return -1;
    }
    memset(values, 0, (size_t)(n + 1) * sizeof *values);
    memcpy(values, args, (size_t)count * sizeof *values);
    for (Py_ssize_t k = 0; names && k < PyTuple_Size(names); k++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, k), NULL);
        if (!name) return -1;
        int64_t i = 0;
        while (i < n && strcmp(fn->parameters[i], name)) i++;
        if (i == n && strcmp(name, "out")) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", fn->name, name);
            return -1;
        }
        if (values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", fn->name, name);
            return -1;
        }
        values[i] = args[count + k];
    }
    for (int64_t i = 0; i < n; i++)
        if (!values[i]) return raise_missing(fn, values), -1;
    return 0;
}

/* -- calls -- */

#define FAST_ARGS 16

typedef struct {
    const aot_function *fn;
    PyObject **values;    /* by parameter, then out */
    Leaf *leaves;
    Py_ssize_t n_leaves;  /* that are open */
    int flat;             /* they are the parameters themselves */
    PyObject *failed;     /* message of the first check that failed */
} Call;

static void close_call_leaves(Call *call)
{
    leaves_close(call->leaves, call->n_leaves);
    call->n_leaves = 0;
}

/* Opens the leaves that the overload's trees see; 0 when the arguments are of another form. */
static int open_call_leaves(Call *call, const aot_overload *overload)
{
    if (overload->flat && call->flat) return 1;
    close_call_leaves(call);
    call->flat = (int)overload->flat;
    if (overload->flat) {
        for (int64_t i = 0; i < call->fn->n_parameters; i++) leaf_read(&call->leaves[i], call->values[i]);
        call->n_leaves = call->fn->n_parameters;
        return 1;
    }
    int64_t count = programs[overload->number].head->n_args;
    PyObject **objects = calloc((size_t)count + 1, sizeof *objects);
    if (!objects) {
        PyErr_NoMemory();
        return -1;
    }
    int fits = 1;
    const int64_t *tree = overload->parameters;
    for (int64_t i = 0; fits && i < call->fn->n_parameters; i++, tree = skip_tree(tree))
        fits = flatten(tree, call->values[i], objects);
    for (int64_t i = 0; fits && i < count; i++) leaf_read(&call->leaves[i], objects[i]);
    for (int64_t i = 0; i < count; i++) Py_XDECREF(objects[i]);
    free(objects);
    call->n_leaves = fits ? count : 0;
    return fits;
}

/* The caller's outs as an array of `count`; `single` has room for one. */
static int find_outs(const Call *call, Py_ssize_t count, PyObject **single, PyObject ***outs)
{
    PyObject *given = call->values[call->fn->n_parameters];
    *outs = NULL;
    if (!given || given == Py_None) return 0;
    if (!PyTuple_Check(given) && count == 1) {
        *single = given;
        *outs = single;
        return 0;
    }
    if (!PyTuple_Check(given) || PyTuple_Size(given) != count) {
        PyErr_Format(PyExc_TypeError, "%s(): out must be %s of %zd", call->fn->name, count == 1 ? "an array, or a tuple" : "a tuple", count);
        return -1;
    }
    if (!(*outs = malloc(((size_t)count + 1) * sizeof **outs))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) (*outs)[i] = PyTuple_GetItem(given, i);
    return 0;
}

static PyObject *run_overload(const Call *call, const aot_overload *overload, Frame *frame)
{
    PyObject *single, **outs;
    if (find_outs(call, frame->program->head->n_outputs, &single, &outs) < 0) return NULL;
    const int64_t *tree = overload->result;
    int rc = frame_run(frame, outs);
    if (outs != &single) free(outs);
    if (rc < 0) return NULL;
    return overload->flat ? frame_take(frame, 0) : unflatten(&tree, frame);
}

/* Runs the overload if it fits: 1 with *result, which is NULL after an exception; else 0. */
static int try_overload(Call *call, const aot_overload *overload, PyObject **result)
{
    const Program *p = &programs[overload->number];
    *result = NULL;
    int opened = open_call_leaves(call, overload);
    if (opened <= 0) return opened < 0;
    if (!leaves_fit(p, call->leaves, call->n_leaves, 0)) return 0;
    Frame frame;
    if (frame_open(&frame, p, call->leaves) < 0) return 1;
    const Check *check = frame_sizes(&frame);
    if (!check) *result = run_overload(call, overload, &frame);
    else if (!call->failed) call->failed = fill_message(TEXT(p, check->message), frame.values[check->a], frame.values[check->b]);
    frame_close(&frame);
    return !check;
}

static void raise_no_version(const Call *call)
{
    const aot_function *fn = call->fn;
    if (call->failed) {
        PyErr_Format(PyExc_ValueError, "%s(): %U", fn->name, call->failed);
        return;
    }
    const Program *last = &programs[fn->overloads[fn->n_overloads - 1].number];
    for (Py_ssize_t i = 0; i < call->n_leaves; i++) {
        if (call->leaves[i].kind != LEAF_BAD) continue;
        raise_bad_leaf(&call->leaves[i], TEXT(last, last->args[i].name));
        return;
    }
    PyObject *given = PyUnicode_FromString(""), *takes = PyUnicode_FromString("");
    for (int64_t i = 0; i < fn->n_parameters; i++) given = append(given, i ? ", " : "", describe_value(call->values[i]));
    for (int64_t i = 0; i < fn->n_overloads; i++)
        takes = append(takes, i ? " or " : "", PyUnicode_FromString(fn->overloads[i].spec));
    if (given && takes)
        PyErr_Format(PyExc_TypeError, "%s() has no version for (%U); it takes: %U", fn->name, given, takes);
    Py_XDECREF(given);
    Py_XDECREF(takes);
}

static PyObject *call_overloads(Call *call)
{
    PyObject *result = NULL;
    int found = 0;
    for (int64_t i = 0; i < call->fn->n_overloads && !found; i++)
        found = try_overload(call, &call->fn->overloads[i], &result);
    if (!found && !PyErr_Occurred()) raise_no_version(call);
    Py_XDECREF(call->failed);
    close_call_leaves(call);
    return result;
}

PyObject *aot_call(const aot_function *fn, PyObject *const *args, ssize_t count, PyObject *names)
{
    int64_t most = fn->n_parameters + 1;
    for (int64_t i = 0; i < fn->n_overloads; i++) {
        int64_t n = programs[fn->overloads[i].number].head->n_args;
        if (n > most) most = n;
    }
    PyObject *fast_values[FAST_ARGS];
    Leaf fast_leaves[FAST_ARGS];
    Call call = {.fn = fn, .values = fast_values, .leaves = fast_leaves};
    void *heap = NULL;
    if (most > FAST_ARGS) {
        if (!(heap = malloc((size_t)most * (sizeof *call.values + sizeof *call.leaves)))) return PyErr_NoMemory();
        call.leaves = heap;
        call.values = (PyObject **)(call.leaves + most);
    }
    PyObject *result = bind_parameters(fn, args, count, names, call.values) < 0 ? NULL : call_overloads(&call);
    free(heap);
    return result;
}

/* -- the module itself -- */

static int open_programs(void)
{
    if (programs) return 0;
    Program *opened = calloc((size_t)module_data->n_overloads + 1, sizeof *opened);
    if (!opened) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < module_data->n_functions; i++) {
        const aot_function *fn = &module_data->functions[i];
        for (int64_t j = 0; j < fn->n_overloads; j++) {
            const aot_overload *overload = &fn->overloads[j];
            Program *p = &opened[overload->number];
            if (program_open(p, overload->words, (size_t)overload->n_words) < 0) {
                free(opened);
                return -1;
            }
            p->constants = overload->constants ? overload->constants : "";
            p->kernels = variant->kernels + overload->first_kernel;
        }
    }
    programs = opened;
    return 0;
}

static PyObject *list_signatures(void)
{
    PyObject *signatures = PyTuple_New(module_data->n_overloads);
    for (int64_t i = 0; i < module_data->n_functions; i++) {
        const aot_function *fn = &module_data->functions[i];
        for (int64_t j = 0; signatures && j < fn->n_overloads; j++) {
            PyObject *text = PyUnicode_FromFormat("%s%s", fn->name, fn->overloads[j].spec);
            if (!text || PyTuple_SetItem(signatures, fn->overloads[j].number, text) < 0) Py_CLEAR(signatures);
        }
    }
    return signatures;
}

static int module_exec(PyObject *module)
{
    if (load_numpy() < 0 || start_threads() < 0 || start_memory(module) < 0) return -1;
    if (!variant && choose_variant() < 0) return -1;
    if (open_programs() < 0 || PyModule_AddStringConstant(module, "__variant__", variant->name) < 0) return -1;
    PyObject *signatures = list_signatures();
    if (signatures && PyModule_AddObjectRef(module, "__signatures__", signatures) < 0) Py_CLEAR(signatures);
    Py_XDECREF(signatures);
    return signatures ? 0 : -1;
}

static const PyMethodDef common_methods[] = {COMMON_METHODS};

static PyMethodDef *make_methods(const aot_module *data)
{
    PyMethodDef *methods = calloc((size_t)data->n_functions + COUNT(common_methods) + 1, sizeof *methods);
    for (int64_t i = 0; methods && i < data->n_functions; i++) {
        const aot_function *fn = &data->functions[i];
        methods[i] = (PyMethodDef){fn->name, (PyCFunction)(void (*)(void))fn->entry, METH_FASTCALL | METH_KEYWORDS, fn->doc};
    }
    if (methods) memcpy(methods + data->n_functions, common_methods, sizeof common_methods);
    return methods;
}

#endif /* AOTARRAY_MODULE */

/* ---- The module ---------------------------------------------------------------------------------- */

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if defined(Py_GIL_DISABLED) && defined(Py_mod_gil)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

#ifdef AOTARRAY_MODULE

static PyModuleDef module_def = {.m_base = PyModuleDef_HEAD_INIT, .m_slots = module_slots};

PyObject *aot_module_init(const aot_module *data)
{
    if (!module_def.m_methods && !(module_def.m_methods = make_methods(data))) return PyErr_NoMemory();
    module_data = data;
    module_def.m_name = data->name;
    module_def.m_doc = data->doc;
    return PyModuleDef_Init(&module_def);
}

#else

static PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_launcher",
    .m_doc = "Runs compiled programs: see launcher.c.",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__launcher(void)
{
    return PyModuleDef_Init(&module_def);
}

#endif
