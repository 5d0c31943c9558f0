/* Slots of the Python classes on the launch path, at the offsets that their descriptors state.
 *
 * Every class stays defined in Python, with `__slots__`. A slot of a class lies at one offset in
 * each instance, subclasses included, so C reads and writes the same objects as Python does. An
 * unset slot is NULL.
 */
#ifndef TILEWRIGHT_SLOTS_H
#define TILEWRIGHT_SLOTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The common case of a method. NULL without an exception means that the Python definition has to
 * make the call; nothing has changed then. */
typedef PyObject *(*Quick)(PyObject *self, PyObject *const *args, Py_ssize_t count);

typedef Py_ssize_t Slot; /* offset in bytes from the start of the object */

struct use_slots { Slot stream, count, outcome, region, timeline, writes; };
struct timeline_slots { Slot graphs, held, stream, uses; };
struct borrow_slots { Slot code, instruction, tensors, uses, work; };
struct device_slots { Slot adopted, busy, current, default_, deferred, forked, kind, lock, ordinal; };
struct stream_slots { Slot device, has_loose_ends, is_plain, issued, may_be_sole, queue; };
struct flag_slots { Slot values; };
struct tensor_slots { Slot reading, region, serial, storage, writing; };
struct storage_slots { Slot device, timeline; };
struct foreign_slots { Slot first, producer; };
struct passed_slots { Slot itemsize, memory, reach, told; };
struct work_slots { Slot caller, check, device, foreign, label, written; };
struct op_slots {
    Slot arrays, borrow, chosen, count, device, label, outcome, result, state, stream, uses, work;
};
struct entry_slots { Slot bound, given, held, made, places, present, writes; };
struct table_slots { Slot young; };
struct torch_slots { Slot current_number, raise_versions; };

extern struct use_slots USE;
extern struct timeline_slots TIMELINE;
extern struct borrow_slots BORROW;
extern struct device_slots DEVICE;
extern struct stream_slots STREAM;
extern struct flag_slots FLAG;
extern struct tensor_slots TENSOR;
extern struct storage_slots STORAGE;
extern struct foreign_slots FOREIGN;
extern struct passed_slots PASSED;
extern struct work_slots WORK;
extern struct op_slots OP;
extern struct entry_slots ENTRY;
extern struct table_slots TABLE;
extern struct torch_slots TORCH;

/* The classes themselves; each is NULL until `learn` has seen it. */
extern PyTypeObject *TENSOR_CLASS, *BORROW_CLASS, *STREAM_CLASS, *OP_CLASS, *WORK_CLASS,
    *PASSED_CLASS, *ENTRY_CLASS, *USE_CLASS;

/* Objects of the Python code that the functions in C refer to; `learn_objects` sets them. */
struct known_objects {
    PyObject *built, *taken, *closed, *submitted; /* members of `State` */
    PyObject *intercepted; /* the context flag */
    PyObject *torch; /* the functions of torch */
    PyObject *passed; /* the names of the module `passed`, which has the table of wrappers */
    PyObject *user_frame_above, *make_output; /* functions */
    PyObject *first_hit; /* the marker of a launch that is not bound yet */
};
extern struct known_objects KNOWN;

/* The value of a slot, borrowed; NULL if it is unset. */
static inline PyObject *
slot(PyObject *object, Slot offset)
{
    return *(PyObject **)((char *)object + offset);
}

/* Replace the value of a slot, and give the old one, which the caller drops. */
static inline PyObject *
exchange(PyObject *object, Slot offset, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)object + offset);
    PyObject *old = *place;
    *place = Py_NewRef(value);
    return old;
}

/* Replace the value of a slot. Dropping the old value may run finalisers. */
static inline void
set_slot(PyObject *object, Slot offset, PyObject *value)
{
    Py_XDECREF(exchange(object, offset, value));
}

/* Whether no context has a value for a flag. */
static inline int
is_unset(PyObject *flag)
{
    return PySet_GET_SIZE(slot(flag, FLAG.values)) == 0;
}

/* Whether every class and object is known: until then the Python definitions run. */
int all_known(void);

PyObject *learn(PyObject *module, PyObject *type);
PyObject *learn_objects(PyObject *module, PyObject *objects);

#endif
