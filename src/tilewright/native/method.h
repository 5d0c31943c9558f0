/* Functions and methods in C, each with its Python definition behind it. */
#ifndef TILEWRIGHT_METHOD_H
#define TILEWRIGHT_METHOD_H

#include "slots.h"

/* Every function and method in C. */
enum quick_name {
    FIND_WRAPPER, WRAPPED, MAKE_USE, ENTRY_BUILD, OP_DEL, OP_BUILD, OP_PUT_ONCE, OP_SUBMIT,
    QUICK_COUNT
};

/* The Python definition of each; NULL until it is known. */
extern PyObject *DEFINITION[QUICK_COUNT];

/* define(name, python) -> function: C keeps the definition. A function in C is given in its place;
 * a method is put into its class by `install_methods`. */
PyObject *define(PyObject *module, PyObject *args);

/* Put the methods in C of a class in the place of their definitions. */
int install_methods(PyTypeObject *type, const char *class_name);

#endif
