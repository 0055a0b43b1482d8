/* What a built module's generated C file (aotarray/aot/module_data.py) tells the launcher. It needs no
 * Python.h, so that it compiles in no time, and the launcher is the same object file in every module. */
#ifndef AOTARRAY_MODULE_H
#define AOTARRAY_MODULE_H

#include <stdint.h>
#include <sys/types.h>

struct _object; /* CPython's PyObject */

#define AOT_HIDDEN __attribute__((visibility("hidden")))
#define AOT_EXPORT __attribute__((visibility("default")))

typedef void (*aot_kernel)(void *const *pointers, const int64_t *ints, void *scratch, int64_t begin, int64_t end);

/* A tree in words: its kind and, but for leaves and none, the number of children; then a leaf's number,
 * or a dict's keys (numbers of strings), and then the children. */
enum { AOT_LEAF, AOT_NONE, AOT_TUPLE, AOT_LIST, AOT_DICT };

typedef struct {
    int64_t number;             /* among the overloads of the whole module */
    const int64_t *words;
    int64_t n_words;
    const void *constants;      /* 64-byte aligned */
    int64_t first_kernel;       /* in the variants' tables */
    int64_t flat;               /* parameter i is leaf i, and the result is output 0 */
    const int64_t *parameters;  /* one tree after another */
    const int64_t *result;
    const char *spec;           /* "(x: f64[n], y: f64[n])" */
} aot_overload;

typedef struct {
    const char *name, *doc;
    struct _object *(*entry)(struct _object *, struct _object *const *, ssize_t, struct _object *);
    const char *const *parameters;
    int64_t n_parameters;
    const aot_overload *overloads;
    int64_t n_overloads;
} aot_function;

typedef struct {
    const char *name;           /* "x86-64-v3" */
    int64_t level;              /* of x86-64 that it needs: 0 to 4 */
    const aot_kernel *kernels;  /* of all overloads */
} aot_variant;

typedef struct {
    const char *name, *doc;
    const aot_function *functions;
    int64_t n_functions;
    const aot_variant *variants; /* from the lowest level to the highest */
    int64_t n_variants;
    int64_t n_overloads;
    const char *const *strings;  /* keys of dicts */
} aot_module;

/* Calls a function as METH_FASTCALL | METH_KEYWORDS does. */
AOT_HIDDEN struct _object *aot_call(const aot_function *function, struct _object *const *args, ssize_t count,
                                    struct _object *names);

/* What PyInit_<name> returns. */
AOT_HIDDEN struct _object *aot_module_init(const aot_module *module);

#endif
