/* Entries of the function cache: the operation of a call that is found there. */
#ifndef TILEWRIGHT_ENTRY_H
#define TILEWRIGHT_ENTRY_H

#include "slots.h"

PyObject *entry_build(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
