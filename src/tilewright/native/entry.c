/* `Entry.build` of `jit/plans/function_cache.py`, for launches that are bound. */
#include "entry.h"

#include "launch_op.h"
#include "names.h"
#include "torch_tensors.h"
#include "use.h"

/* The tensors of a launch, their uses, and the torch tensors behind wrappers; all owned. */
struct selected {
    PyObject *tensors, *uses, *arrays;
};

/* The torch tensor behind a tensor of the call, borrowed; None for a new output, which has none. */
static PyObject *
array_of(PyObject *arrays, Py_ssize_t number)
{
    return number < PyTuple_GET_SIZE(arrays) ? PyTuple_GET_ITEM(arrays, number) : Py_None;
}

/* The stream of new outputs, borrowed: torch's for torch tensors, else None. NULL as there. */
static PyObject *
stream_of_outputs(PyObject *tensors, PyObject *arrays)
{
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(arrays); at++) {
        if (PyTuple_GET_ITEM(arrays, at) != Py_None) {
            PyObject *storage = slot(PyTuple_GET_ITEM(tensors, at), TENSOR.storage);
            return current_torch_stream(slot(storage, STORAGE.device));
        }
    }
    return Py_None;
}

/* The tensors of a call and its new outputs. */
static PyObject *
known_tensors(PyObject *entry, PyObject *tensors, PyObject *arrays)
{
    PyObject *made = slot(entry, ENTRY.made);
    Py_ssize_t given = PyTuple_GET_SIZE(tensors), count = PyTuple_GET_SIZE(made);
    if (count == 0) {
        return Py_NewRef(tensors);
    }
    PyObject *stream = stream_of_outputs(tensors, arrays);
    PyObject *known = stream == NULL ? NULL : PyTuple_New(given + count);
    if (known == NULL) {
        return NULL;
    }
    for (Py_ssize_t at = 0; at < given; at++) {
        PyTuple_SET_ITEM(known, at, Py_NewRef(PyTuple_GET_ITEM(tensors, at)));
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *args[] = {PyTuple_GET_ITEM(made, at), stream};
        PyObject *output = PyObject_Vectorcall(KNOWN.make_output, args, 2, NULL);
        if (output == NULL) {
            Py_DECREF(known);
            return NULL;
        }
        PyTuple_SET_ITEM(known, given + at, output);
    }
    return known;
}

/* The launches that are bound to the addresses of all tensors, as a new reference. NULL without an
 * exception if there are none yet. */
static PyObject *
bound_work(PyObject *entry, PyObject *known)
{
    PyObject *present = slot(entry, ENTRY.present);
    Py_ssize_t count = PyTuple_GET_SIZE(present);
    PyObject *key = PyTuple_New(count);
    if (key == NULL) {
        return NULL;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(present, at));
        PyObject *serial = slot(PyTuple_GET_ITEM(known, number), TENSOR.serial);
        PyTuple_SET_ITEM(key, at, Py_NewRef(serial));
    }
    PyObject *table = slot(slot(entry, ENTRY.bound), TABLE.young);
    PyObject *found = PyDict_GetItemWithError(table, key);
    Py_DECREF(key);
    return found == KNOWN.first_hit ? NULL : Py_XNewRef(found);
}

/* One result: a tensor, or the torch tensor that it stands for. */
static PyObject *
result_at(PyObject *number, PyObject *known, PyObject *arrays)
{
    Py_ssize_t at = PyLong_AsSsize_t(number);
    PyObject *array = array_of(arrays, at);
    return Py_NewRef(array == Py_None ? PyTuple_GET_ITEM(known, at) : array);
}

static PyObject *
result_of(PyObject *entry, PyObject *known, PyObject *arrays)
{
    PyObject *given = slot(entry, ENTRY.given);
    if (!PyTuple_Check(given)) {
        return result_at(given, known, arrays);
    }
    PyObject *result = PyTuple_New(PyTuple_GET_SIZE(given));
    for (Py_ssize_t at = 0; result != NULL && at < PyTuple_GET_SIZE(given); at++) {
        PyTuple_SET_ITEM(result, at, result_at(PyTuple_GET_ITEM(given, at), known, arrays));
    }
    return result;
}

/* A tensor of a launch, as a new reference: one of the call, or a part of one. */
static PyObject *
tensor_at(PyObject *place, PyObject *known, Py_ssize_t *number)
{
    if (PyTuple_Check(place)) {
        *number = PyLong_AsSsize_t(PyTuple_GET_ITEM(place, 0));
        PyObject *whole = PyTuple_GET_ITEM(known, *number);
        return PyObject_CallMethodOneArg(whole, NAME.part, PyTuple_GET_ITEM(place, 1));
    }
    *number = PyLong_AsSsize_t(place);
    return Py_NewRef(PyTuple_GET_ITEM(known, *number));
}

static void
drop_selected(struct selected *found)
{
    Py_CLEAR(found->tensors);
    Py_CLEAR(found->uses);
    Py_CLEAR(found->arrays);
}

/* Find the tensors of all launches of an entry; -1 is an exception. */
static int
select_tensors(PyObject *entry, PyObject *known, PyObject *arrays, struct selected *found)
{
    PyObject *places = slot(entry, ENTRY.places), *writes = slot(entry, ENTRY.writes);
    Py_ssize_t count = PyTuple_GET_SIZE(places), number;
    int has_arrays = PyTuple_GET_SIZE(arrays) != 0;
    found->tensors = PyTuple_New(count);
    found->uses = PyTuple_New(count);
    found->arrays = has_arrays ? PyTuple_New(count) : Py_NewRef(NAME.none);
    if (found->tensors == NULL || found->uses == NULL || found->arrays == NULL) {
        drop_selected(found);
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *tensor = tensor_at(PyTuple_GET_ITEM(places, at), known, &number);
        int is_written = PyTuple_GET_ITEM(writes, at) == Py_True;
        PyObject *use = tensor == NULL ? NULL : use_of(tensor, is_written);
        if (use == NULL) {
            Py_XDECREF(tensor);
            drop_selected(found);
            return -1;
        }
        PyTuple_SET_ITEM(found->tensors, at, tensor);
        PyTuple_SET_ITEM(found->uses, at, use);
        if (has_arrays) {
            PyTuple_SET_ITEM(found->arrays, at, Py_NewRef(array_of(arrays, number)));
        }
    }
    return 0;
}

/* The operation of a sequence, which holds the tensors of its first step until it is submitted. */
static PyObject *
new_sequence_op(struct launch *parts, Py_ssize_t held, int depth)
{
    PyObject *all = parts->uses, *first = PyTuple_GetSlice(all, 0, held);
    if (first == NULL) {
        return NULL;
    }
    parts->uses = first;
    PyObject *op = new_launch_op(parts, depth);
    Py_DECREF(first);
    if (op != NULL) {
        set_slot(op, OP.uses, all);
    }
    return op;
}

static PyObject *
build_bound(PyObject *entry, PyObject *work, PyObject *known, PyObject *arrays, int depth)
{
    struct selected found;
    PyObject *built = NULL, *result = result_of(entry, known, arrays);
    if (result == NULL || select_tensors(entry, known, arrays, &found) < 0) {
        Py_XDECREF(result);
        return NULL;
    }
    Py_ssize_t held = PyLong_AsSsize_t(slot(entry, ENTRY.held));
    struct launch parts = {work, found.tensors, found.uses, result, found.arrays};
    if (held == PyTuple_GET_SIZE(found.uses)) {
        built = new_launch_op(&parts, depth);
    }
    else {
        built = new_sequence_op(&parts, held, depth);
    }
    drop_selected(&found);
    Py_DECREF(result);
    return built;
}

/* Have the Python definition find the launches for addresses that are not bound yet. */
static PyObject *
build_unbound(PyObject *entry, PyObject *tensors, PyObject *known, PyObject *arrays, int depth)
{
    PyObject *frames = PyLong_FromLong(depth);
    PyObject *args[] = {entry, tensors, known, arrays, frames};
    PyObject *built = PyObject_VectorcallMethod(NAME.build_known, args, 5, NULL);
    Py_DECREF(frames);
    return built;
}

/* Entry.build(tensors, arrays, depth=3) */
PyObject *
entry_build(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1])) {
        return NULL;
    }
    PyObject *tensors = args[0], *arrays = args[1], *built = NULL;
    int depth = (int)PyLong_AsLong(args[2]);
    PyObject *known = known_tensors(self, tensors, arrays);
    if (known == NULL) {
        return NULL;
    }
    PyObject *work = bound_work(self, known);
    if (work != NULL) {
        built = build_bound(self, work, known, arrays, depth);
        Py_DECREF(work);
    }
    else if (!PyErr_Occurred()) {
        built = build_unbound(self, tensors, known, arrays, depth);
    }
    Py_DECREF(known);
    return built;
}
