/* Operations: built, held and submitted on the sole stream of all their tensors. */
#ifndef TILEWRIGHT_LAUNCH_OP_H
#define TILEWRIGHT_LAUNCH_OP_H

#include "slots.h"

/* The parts of a launch, all borrowed. */
struct launch {
    PyObject *work, *tensors, *uses, *result, *arrays;
};

/* A new operation, built for the user's call `depth` Python frames up; 1 is the innermost. */
PyObject *new_launch_op(const struct launch *parts, int depth);

PyObject *launch_op_build(PyObject *op, PyObject *const *args, Py_ssize_t count);
PyObject *launch_op_submit(PyObject *op, PyObject *const *args, Py_ssize_t count);
PyObject *launch_op_put_once(PyObject *op, PyObject *const *args, Py_ssize_t count);
PyObject *launch_op_del(PyObject *op, PyObject *const *args, Py_ssize_t count);

#endif
