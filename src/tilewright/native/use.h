/* The uses of handles, made at their first launch. */
#ifndef TILEWRIGHT_USE_H
#define TILEWRIGHT_USE_H

#include "slots.h"

/* The use of a tensor by operations that write it, or read it, as a new reference. */
PyObject *use_of(PyObject *tensor, int writes);

#endif
