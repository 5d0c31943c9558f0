#include "slots.h"

#include "method.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

struct use_slots USE;
struct timeline_slots TIMELINE;
struct borrow_slots BORROW;
struct device_slots DEVICE;
struct stream_slots STREAM;
struct flag_slots FLAG;
struct tensor_slots TENSOR;
struct storage_slots STORAGE;
struct foreign_slots FOREIGN;
struct passed_slots PASSED;
struct work_slots WORK;
struct op_slots OP;
struct entry_slots ENTRY;
struct table_slots TABLE;
struct torch_slots TORCH;

PyTypeObject *TENSOR_CLASS, *BORROW_CLASS, *STREAM_CLASS, *OP_CLASS, *WORK_CLASS, *PASSED_CLASS,
    *ENTRY_CLASS, *USE_CLASS;
struct known_objects KNOWN;

struct named_slot {
    const char *name;
    Slot *offset;
};

struct known_class {
    const char *name;
    PyTypeObject **type; /* NULL if C needs the offsets alone */
    struct named_slot slots[13]; /* ends with a NULL name */
    int is_learned;
};

static struct known_class CLASSES[] = {
    {"Use", &USE_CLASS, {
        {"stream", &USE.stream}, {"count", &USE.count}, {"outcome", &USE.outcome},
        {"region", &USE.region}, {"timeline", &USE.timeline}, {"writes", &USE.writes}}, 0},
    {"Timeline", NULL, {
        {"graphs", &TIMELINE.graphs}, {"held", &TIMELINE.held}, {"stream", &TIMELINE.stream},
        {"uses", &TIMELINE.uses}}, 0},
    {"Borrow", &BORROW_CLASS, {
        {"code", &BORROW.code}, {"instruction", &BORROW.instruction},
        {"tensors", &BORROW.tensors}, {"uses", &BORROW.uses}, {"work", &BORROW.work}}, 0},
    {"Device", NULL, {
        {"adopted", &DEVICE.adopted}, {"busy", &DEVICE.busy}, {"current", &DEVICE.current},
        {"default", &DEVICE.default_}, {"deferred", &DEVICE.deferred},
        {"forked", &DEVICE.forked}, {"kind", &DEVICE.kind}, {"lock", &DEVICE.lock},
        {"ordinal", &DEVICE.ordinal}}, 0},
    {"Stream", &STREAM_CLASS, {
        {"device", &STREAM.device}, {"has_loose_ends", &STREAM.has_loose_ends},
        {"is_plain", &STREAM.is_plain}, {"issued", &STREAM.issued},
        {"may_be_sole", &STREAM.may_be_sole}, {"queue", &STREAM.queue}}, 0},
    {"ContextFlag", NULL, {{"values", &FLAG.values}}, 0},
    {"Tensor", &TENSOR_CLASS, {
        {"_reading", &TENSOR.reading}, {"region", &TENSOR.region}, {"serial", &TENSOR.serial},
        {"storage", &TENSOR.storage}, {"_writing", &TENSOR.writing}}, 0},
    {"Storage", NULL, {{"device", &STORAGE.device}, {"timeline", &STORAGE.timeline}}, 0},
    {"ForeignStorage", NULL, {{"first", &FOREIGN.first}, {"producer", &FOREIGN.producer}}, 0},
    {"PassedStorage", &PASSED_CLASS, {
        {"itemsize", &PASSED.itemsize}, {"memory", &PASSED.memory}, {"reach", &PASSED.reach},
        {"told", &PASSED.told}}, 0},
    {"SharedWork", &WORK_CLASS, {
        {"caller", &WORK.caller}, {"check", &WORK.check}, {"device", &WORK.device},
        {"foreign", &WORK.foreign}, {"label", &WORK.label}, {"written", &WORK.written}}, 0},
    {"LaunchOp", &OP_CLASS, {
        {"_arrays", &OP.arrays}, {"_borrow", &OP.borrow}, {"_chosen", &OP.chosen},
        {"_count", &OP.count}, {"device", &OP.device}, {"label", &OP.label},
        {"_outcome", &OP.outcome}, {"_result", &OP.result}, {"_state", &OP.state},
        {"_stream", &OP.stream}, {"_uses", &OP.uses}, {"_work", &OP.work}}, 0},
    {"Entry", &ENTRY_CLASS, {
        {"bound", &ENTRY.bound}, {"given", &ENTRY.given}, {"held", &ENTRY.held},
        {"made", &ENTRY.made}, {"places", &ENTRY.places}, {"present", &ENTRY.present},
        {"writes", &ENTRY.writes}}, 0},
    {"BoundedTable", NULL, {{"young", &TABLE.young}}, 0},
    {"_Torch", NULL, {
        {"current_number", &TORCH.current_number},
        {"raise_versions", &TORCH.raise_versions}}, 0},
};

static const struct { const char *name; PyObject **place; } OBJECTS[] = {
    {"BUILT", &KNOWN.built},
    {"TAKEN", &KNOWN.taken},
    {"CLOSED", &KNOWN.closed},
    {"SUBMITTED", &KNOWN.submitted},
    {"INTERCEPTED", &KNOWN.intercepted},
    {"TORCH", &KNOWN.torch},
    {"passed", &KNOWN.passed},
    {"user_frame_above", &KNOWN.user_frame_above},
    {"make_output", &KNOWN.make_output},
    {"FIRST_HIT", &KNOWN.first_hit},
};

enum {
    CLASS_COUNT = sizeof(CLASSES) / sizeof(CLASSES[0]),
    OBJECT_COUNT = sizeof(OBJECTS) / sizeof(OBJECTS[0])
};
static int learned_count; /* of both */

int
all_known(void)
{
    return learned_count == CLASS_COUNT + OBJECT_COUNT;
}

/* Find the offset of one slot of a class, or of one of its bases. */
static int
learn_slot(PyObject *type, const struct named_slot *wanted)
{
    PyObject *found = PyObject_GetAttrString(type, wanted->name);
    if (found == NULL) {
        return -1;
    }
    if (!Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%R has no slot %s", type, wanted->name);
        Py_DECREF(found);
        return -1;
    }
    *wanted->offset = ((PyMemberDescrObject *)found)->d_member->offset;
    Py_DECREF(found);
    return 0;
}

/* learn(class) -> class: note where the instances keep their slots. */
PyObject *
learn(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        return PyErr_Format(PyExc_TypeError, "%R is no class", type);
    }
    const char *name = ((PyTypeObject *)type)->tp_name;
    for (int at = 0; at < CLASS_COUNT; at++) {
        struct known_class *known = &CLASSES[at];
        if (strcmp(known->name, name) != 0) {
            continue;
        }
        for (const struct named_slot *wanted = known->slots; wanted->name != NULL; wanted++) {
            if (learn_slot(type, wanted) < 0) {
                return NULL;
            }
        }
        if (known->type != NULL) {
            Py_XSETREF(*known->type, (PyTypeObject *)Py_NewRef(type));
        }
        if (install_methods((PyTypeObject *)type, name) < 0) {
            return NULL;
        }
        learned_count += !known->is_learned;
        known->is_learned = 1;
        return Py_NewRef(type);
    }
    return PyErr_Format(PyExc_ValueError, "%R is not on the launch path", type);
}

/* learn_objects({name: object}): note objects that functions in C refer to. */
PyObject *
learn_objects(PyObject *Py_UNUSED(module), PyObject *objects)
{
    PyObject *name, *object;
    Py_ssize_t position = 0;
    if (!PyDict_Check(objects)) {
        return PyErr_Format(PyExc_TypeError, "%R is no dict", objects);
    }
    while (PyDict_Next(objects, &position, &name, &object)) {
        int at = 0;
        while (at < OBJECT_COUNT
               && PyUnicode_CompareWithASCIIString(name, OBJECTS[at].name) != 0) {
            at++;
        }
        if (at == OBJECT_COUNT) {
            return PyErr_Format(PyExc_ValueError, "%R is not on the launch path", name);
        }
        learned_count += *OBJECTS[at].place == NULL;
        Py_XSETREF(*OBJECTS[at].place, Py_NewRef(object));
    }
    Py_RETURN_NONE;
}
