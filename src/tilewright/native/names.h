/* Constants: interned names of attributes and methods, and small objects. */
#ifndef TILEWRIGHT_NAMES_H
#define TILEWRIGHT_NAMES_H

#include "slots.h"

struct names {
    PyObject *abandon, *build_known, *check_there, *data_ptr, *end_interrupted, *enter,
        *exchange_api, *is_capturing, *is_inference, *is_neg, *keep, *launch, *layouts, *marked, *nbytes,
        *part, *put_on_sole, *release, *requires_grad, *storage_offset, *untyped_storage;
    PyObject *zero, *one;
    PyObject *legacy_stream; /* the number of the default stream in the table of adopted ones */
    PyObject *none; /* the empty tuple */
    PyObject *put_flags; /* the names of the flags of `_end_interrupted` */
};
extern struct names NAME;

int make_names(void);

/* Take the exception that is set. */
PyObject *take_raised(void);
/* Set it again, and drop the reference. */
void raise_again(PyObject *error);

#endif
