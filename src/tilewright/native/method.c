/* A method in C is a plain method descriptor, so tools that look into a class know what it is. Its
 * quick function gives NULL without an exception for a call that the Python definition has to make;
 * nothing has changed then.
 */
#include "method.h"

#include <stddef.h>
#include <string.h>

#include "entry.h"
#include "launch_op.h"
#include "torch_tensors.h"
#include "use.h"

enum { MOST_ARGUMENTS = 8 };

PyObject *DEFINITION[QUICK_COUNT];

/* Call the Python definition of a method. */
static PyObject *
call_definition(enum quick_name name, PyObject *self, PyObject *const *args, Py_ssize_t count,
                PyObject *names)
{
    Py_ssize_t total = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    PyObject *all[1 + MOST_ARGUMENTS] = {self};
    if (total > MOST_ARGUMENTS) {
        return PyErr_Format(PyExc_TypeError, "%R got %zd arguments", DEFINITION[name], total);
    }
    if (total > 0) {
        memcpy(all + 1, args, (size_t)total * sizeof(PyObject *));
    }
    return PyObject_Vectorcall(DEFINITION[name], all, (size_t)count + 1, names);
}

/* Call the quick function of a method, or its definition. */
static PyObject *
call_method(enum quick_name name, Quick quick, PyObject *self, PyObject *const *args,
            Py_ssize_t count, PyObject *names)
{
    if (all_known() && names == NULL) {
        PyObject *found = quick(self, args, count);
        if (found != NULL || PyErr_Occurred()) {
            return found;
        }
    }
    return call_definition(name, self, args, count, names);
}

static PyObject *
call_entry_build(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return call_method(ENTRY_BUILD, entry_build, self, args, count, names);
}

static PyObject *
call_op_del(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return call_method(OP_DEL, launch_op_del, self, args, count, names);
}

static PyObject *
call_op_build(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return call_method(OP_BUILD, launch_op_build, self, args, count, names);
}

static PyObject *
call_op_put_once(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return call_method(OP_PUT_ONCE, launch_op_put_once, self, args, count, names);
}

static PyObject *
call_op_submit(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return call_method(OP_SUBMIT, launch_op_submit, self, args, count, names);
}

static PyObject *
call_find_wrapper(PyObject *Py_UNUSED(module), PyObject *array)
{
    return find_wrapper(DEFINITION[FIND_WRAPPER], array);
}

static PyObject *
call_wrapped(PyObject *Py_UNUSED(module), PyObject *array)
{
    return find_wrapper(DEFINITION[WRAPPED], array);
}

static PyObject *
call_make_use(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (!all_known() || count != 2 || !Py_IS_TYPE(args[0], TENSOR_CLASS)) {
        return PyObject_Vectorcall(DEFINITION[MAKE_USE], args, (size_t)count, NULL);
    }
    return use_of(args[0], args[1] == Py_True);
}

/* The documentation of each is that of its definition. */
static struct quick {
    const char *class_name; /* NULL for a function */
    PyMethodDef method;
} QUICK[QUICK_COUNT] = {
    [FIND_WRAPPER] = {NULL, {"find_wrapper", call_find_wrapper, METH_O, NULL}},
    [WRAPPED] = {NULL, {"wrapped", call_wrapped, METH_O, NULL}},
    [MAKE_USE] = {NULL, {
        "make_use", (PyCFunction)(void (*)(void))call_make_use, METH_FASTCALL, NULL}},
    [ENTRY_BUILD] = {"Entry", {
        "build", (PyCFunction)(void (*)(void))call_entry_build, METH_FASTCALL | METH_KEYWORDS,
        NULL}},
    [OP_DEL] = {"LaunchOp", {
        "__del__", (PyCFunction)(void (*)(void))call_op_del, METH_FASTCALL | METH_KEYWORDS, NULL}},
    [OP_BUILD] = {"LaunchOp", {
        "build", (PyCFunction)(void (*)(void))call_op_build, METH_FASTCALL | METH_KEYWORDS, NULL}},
    [OP_PUT_ONCE] = {"LaunchOp", {
        "put_once", (PyCFunction)(void (*)(void))call_op_put_once, METH_FASTCALL | METH_KEYWORDS,
        NULL}},
    [OP_SUBMIT] = {"LaunchOp", {
        "submit", (PyCFunction)(void (*)(void))call_op_submit, METH_FASTCALL | METH_KEYWORDS,
        NULL}},
};

/* Document a function by its definition, whose text lives as long as this module. */
static void
document(PyMethodDef *method, PyObject *python)
{
    PyObject *text = PyObject_GetAttrString(python, "__doc__");
    if (text != NULL && PyUnicode_Check(text)) {
        method->ml_doc = PyUnicode_AsUTF8(text); /* kept by the definition */
    }
    Py_XDECREF(text);
    PyErr_Clear();
}

PyObject *
define(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *class_name, *name;
    PyObject *python;
    if (!PyArg_ParseTuple(args, "zsO", &class_name, &name, &python)) {
        return NULL;
    }
    for (int at = 0; at < QUICK_COUNT; at++) {
        struct quick *quick = &QUICK[at];
        int is_function = quick->class_name == NULL;
        if (is_function != (class_name == NULL) || strcmp(quick->method.ml_name, name) != 0
            || (!is_function && strcmp(quick->class_name, class_name) != 0)) {
            continue;
        }
        Py_XSETREF(DEFINITION[at], Py_NewRef(python));
        document(&quick->method, python);
        return is_function ? PyCFunction_New(&quick->method, NULL) : Py_NewRef(python);
    }
    return PyErr_Format(PyExc_ValueError, "there is no %s in C", name);
}

int
install_methods(PyTypeObject *type, const char *class_name)
{
    for (int at = 0; at < QUICK_COUNT; at++) {
        struct quick *quick = &QUICK[at];
        if (quick->class_name == NULL || strcmp(quick->class_name, class_name) != 0) {
            continue;
        }
        PyObject *made = PyDescr_NewMethod(type, &quick->method);
        if (made == NULL) {
            return -1;
        }
        int failed = PyObject_SetAttrString((PyObject *)type, quick->method.ml_name, made);
        Py_DECREF(made);
        if (failed < 0) {
            return -1;
        }
    }
    return 0;
}
