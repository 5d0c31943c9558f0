#include "use.h"

#include "method.h"

enum { NEAR = 4 }; /* last uses of a timeline that are searched for a handle's */

/* A use of the same region, one of the last in a timeline, borrowed; NULL if there is none. */
static PyObject *
shared_use(PyObject *timeline, PyObject *region, PyObject *writes)
{
    PyObject *uses = slot(timeline, TIMELINE.uses);
    Py_ssize_t count = PyList_GET_SIZE(uses), first = count > NEAR ? count - NEAR : 0;
    for (Py_ssize_t at = first; at < count; at++) {
        PyObject *use = PyList_GET_ITEM(uses, at);
        if (slot(use, USE.region) == region && slot(use, USE.writes) == writes) {
            return use;
        }
    }
    return NULL;
}

/* As `make_use`, without graphs, whose replays are recorded late. */
PyObject *
use_of(PyObject *tensor, int is_written)
{
    Slot place = is_written ? TENSOR.writing : TENSOR.reading;
    PyObject *use = slot(tensor, place), *writes = is_written ? Py_True : Py_False;
    if (use != Py_None) {
        return Py_NewRef(use);
    }
    PyObject *timeline = slot(slot(tensor, TENSOR.storage), STORAGE.timeline);
    if (PyList_GET_SIZE(slot(timeline, TIMELINE.graphs)) != 0) {
        PyObject *args[] = {tensor, writes};
        return PyObject_Vectorcall(DEFINITION[MAKE_USE], args, 2, NULL);
    }
    PyObject *region = slot(tensor, TENSOR.region);
    PyObject *found = Py_XNewRef(shared_use(timeline, region, writes));
    if (found == NULL) {
        PyObject *args[] = {timeline, region, writes};
        found = PyObject_Vectorcall((PyObject *)USE_CLASS, args, 3, NULL);
    }
    if (found != NULL) {
        set_slot(tensor, place, found);
    }
    return found;
}
