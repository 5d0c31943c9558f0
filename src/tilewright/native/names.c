#include "names.h"

#include <stddef.h>

struct names NAME;

int
make_names(void)
{
    const struct { const char *text; PyObject **place; } wanted[] = {
        {"abandon", &NAME.abandon},
        {"__enter__", &NAME.enter},
        {"build_known", &NAME.build_known},
        {"check_there", &NAME.check_there},
        {"data_ptr", &NAME.data_ptr},
        {"_end_interrupted", &NAME.end_interrupted},
        {"__dlpack_c_exchange_api__", &NAME.exchange_api},
        {"is_capturing", &NAME.is_capturing},
        {"is_inference", &NAME.is_inference},
        {"is_neg", &NAME.is_neg},
        {"keep", &NAME.keep},
        {"LAYOUTS", &NAME.layouts},
        {"launch", &NAME.launch},
        {"marked", &NAME.marked},
        {"nbytes", &NAME.nbytes},
        {"part", &NAME.part},
        {"put_on_sole", &NAME.put_on_sole},
        {"release", &NAME.release},
        {"requires_grad", &NAME.requires_grad},
        {"storage_offset", &NAME.storage_offset},
        {"untyped_storage", &NAME.untyped_storage},
    };
    for (size_t at = 0; at < sizeof(wanted) / sizeof(wanted[0]); at++) {
        *wanted[at].place = PyUnicode_InternFromString(wanted[at].text);
        if (*wanted[at].place == NULL) {
            return -1;
        }
    }
    NAME.zero = PyLong_FromLong(0);
    NAME.one = PyLong_FromLong(1);
    NAME.legacy_stream = PyLong_FromLong(1);
    NAME.none = PyTuple_New(0);
    NAME.put_flags = Py_BuildValue("(ss)", "is_put", "is_begun");
    return NAME.put_flags == NULL || NAME.none == NULL ? -1 : 0;
}

#if PY_VERSION_HEX >= 0x030C0000

PyObject *
take_raised(void)
{
    return PyErr_GetRaisedException();
}

void
raise_again(PyObject *error)
{
    PyErr_SetRaisedException(error);
}

#else

PyObject *
take_raised(void)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (error != NULL && traceback != NULL) {
        PyException_SetTraceback(error, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return error;
}

void
raise_again(PyObject *error)
{
    if (error != NULL) {
        PyErr_Restore(
            Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
    }
}

#endif
