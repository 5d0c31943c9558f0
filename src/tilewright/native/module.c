/* tilewright.native._native: the launch path in C. The Python code defines what it does. */
#include "method.h"
#include "names.h"
#include "slots.h"

#ifndef CHECKSUM
#define CHECKSUM 0u /* of the sources; the build gives it */
#endif

static PyMethodDef FUNCTIONS[] = {
    {"define", define, METH_VARARGS, "A function in C with its Python definition behind it."},
    {"learn", learn, METH_O, "Note where the instances of a class keep their slots."},
    {"learn_objects", learn_objects, METH_O, "Note the objects that functions in C refer to."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tilewright.native._native",
    .m_doc = "The launch path in C. The Python code defines it.",
    .m_size = -1,
    .m_methods = FUNCTIONS,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    if (make_names() < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL
        || PyModule_AddObject(module, "CHECKSUM", PyLong_FromUnsignedLong(CHECKSUM)) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
