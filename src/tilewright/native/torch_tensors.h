/* torch tensors: their wrappers, their checks at a submission, and torch's current stream. */
#ifndef TILEWRIGHT_TORCH_TENSORS_H
#define TILEWRIGHT_TORCH_TENSORS_H

#include "slots.h"

/* The cached wrapper of an array, or the one that a Python definition finds, which is cached. */
PyObject *find_wrapper(PyObject *python, PyObject *array);

/* torch's current stream on a device, borrowed; None on the CPU. NULL without an exception if the
 * stream has not been adopted yet. */
PyObject *current_torch_stream(PyObject *device);

/* The same if all foreign arrays of an operation are torch tensors; NULL if not. */
PyObject *torch_stream(PyObject *work, PyObject *tensors, PyObject *arrays, PyObject *device);

/* `PassedStorage.take`: check and keep the tensors of a launch, and raise written versions. */
int take_tensors(PyObject *work, PyObject *tensors, PyObject *arrays, PyObject *stream);

#endif
