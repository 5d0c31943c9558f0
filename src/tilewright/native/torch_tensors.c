/* torch describes a tensor through the C exchange interface of DLPack, in a struct that points into
 * the tensor and owns nothing. A type without that interface is read by the Python definition.
 */
#include "torch_tensors.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "names.h"

/* DLPack 1, as far as it is read here. */
typedef struct {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct ExchangeAPI {
    struct { uint32_t major, minor; } version;
    struct ExchangeAPI *previous;
    void *allocate, *managed_from_object, *managed_to_object;
    int (*read)(void *object, DLTensor *out); /* may be NULL */
    void *current_work_stream;
} ExchangeAPI;

enum { MOST_AXES = 16, MOST_KINDS = 4, MAJOR_VERSION = 1 };

/* Types of tensors that have wrappers, each with its interface. */
static struct { PyTypeObject *type; const ExchangeAPI *api; } KINDS[MOST_KINDS];
static const ExchangeAPI *
api_of(PyTypeObject *type)
{
    for (int at = 0; at < MOST_KINDS; at++) {
        if (KINDS[at].type == type) {
            return KINDS[at].api;
        }
    }
    return NULL;
}

/* Note the interface of a type whose tensors have wrappers, if it has one of this version. */
static void
learn_kind(PyTypeObject *type)
{
    int at = 0;
    while (at < MOST_KINDS && KINDS[at].type != NULL) {
        at++;
    }
    PyObject *capsule = PyObject_GetAttr((PyObject *)type, NAME.exchange_api);
    if (capsule == NULL || at == MOST_KINDS) {
        PyErr_Clear();
        Py_XDECREF(capsule);
        return;
    }
    const ExchangeAPI *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule); /* the interface lives as long as the process */
    while (api != NULL && api->version.major > MAJOR_VERSION) {
        api = api->previous;
    }
    if (api != NULL && api->version.major == MAJOR_VERSION && api->read != NULL) {
        KINDS[at].api = api;
        KINDS[at].type = (PyTypeObject *)Py_NewRef(type);
    }
    PyErr_Clear();
}

/* Describe a tensor; 0 if the Python definition has to read it. */
static int
describe(PyObject *array, DLTensor *out)
{
    const ExchangeAPI *api = api_of(Py_TYPE(array));
    if (api == NULL) {
        return 0;
    }
    if (api->read(array, out) != 0) {
        PyErr_Clear(); /* not strided, without memory, or a dtype that DLPack has no name for */
        return 0;
    }
    return out->ndim <= MOST_AXES;
}

/* Everything that a wrapper depends on: address, device, dtype, shape and strides. */
static PyObject *
layout_key(const DLTensor *tensor)
{
    struct { uint64_t address; uint32_t rest[4]; int64_t axes[2 * MOST_AXES]; } key;
    size_t axes = (size_t)tensor->ndim, length = axes * sizeof(int64_t);
    key.address = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
    key.rest[0] = (uint32_t)tensor->device.type;
    key.rest[1] = (uint32_t)tensor->device.id;
    key.rest[2] = ((uint32_t)tensor->dtype.code << 24) | ((uint32_t)tensor->dtype.bits << 16)
        | tensor->dtype.lanes;
    key.rest[3] = (uint32_t)tensor->ndim;
    if (axes != 0) {
        memcpy(key.axes, tensor->shape, length);
        memcpy(key.axes + axes, tensor->strides, length);
    }
    Py_ssize_t size = (Py_ssize_t)(offsetof(__typeof__(key), axes) + 2 * length);
    return PyBytes_FromStringAndSize((const char *)&key, size);
}

/* 1 or 0: the truth value that a method gives; -1 is an exception. */
static int
ask(PyObject *object, PyObject *method)
{
    PyObject *answer = PyObject_CallMethodNoArgs(object, method);
    if (answer == NULL) {
        return -1;
    }
    int found = answer == Py_True ? 1 : PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return found;
}

static int
has_elements(const DLTensor *tensor)
{
    for (int32_t axis = 0; axis < tensor->ndim; axis++) {
        if (tensor->shape[axis] == 0) {
            return 0;
        }
    }
    return 1;
}

/* The wrappers by their layout: the names of a module may be bound to other objects. */
static PyObject *
layouts(void)
{
    PyObject *found = PyDict_GetItemWithError(KNOWN.passed, NAME.layouts);
    if (found == NULL || !PyDict_Check(found)) {
        PyErr_SetString(PyExc_RuntimeError, "there is no table of wrappers");
        return NULL;
    }
    return found;
}

/* Cache the wrapper that the Python definition has found; tensors without elements have none. */
static int
remember(PyObject *array, PyObject *wrapper)
{
    DLTensor tensor;
    if (api_of(Py_TYPE(array)) == NULL) {
        learn_kind(Py_TYPE(array));
    }
    if (!describe(array, &tensor) || !has_elements(&tensor)) {
        return 0;
    }
    PyObject *key = layout_key(&tensor), *table = layouts();
    int failed = key == NULL || table == NULL || PyDict_SetItem(table, key, wrapper) < 0;
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* The cached wrapper of an array, borrowed. NULL without an exception if there is none. */
static PyObject *
cached_wrapper(PyObject *array)
{
    DLTensor tensor;
    if (!describe(array, &tensor)) {
        return NULL;
    }
    PyObject *key = layout_key(&tensor), *table = layouts();
    PyObject *found = NULL;
    if (key != NULL && table != NULL) {
        found = PyDict_GetItemWithError(table, key);
    }
    Py_XDECREF(key);
    if (found == NULL) {
        return NULL;
    }
    /* A negation that torch has not computed has the layout of its operand. */
    return ask(array, NAME.is_neg) == 0 ? found : NULL;
}

PyObject *
find_wrapper(PyObject *python, PyObject *array)
{
    PyObject *found = all_known() ? cached_wrapper(array) : NULL;
    if (found != NULL || PyErr_Occurred()) {
        return Py_XNewRef(found);
    }
    found = PyObject_CallOneArg(python, array);
    int is_wrapper = found != NULL && all_known() && Py_IS_TYPE(found, TENSOR_CLASS);
    if (is_wrapper && remember(array, found) < 0) {
        Py_CLEAR(found);
    }
    return found;
}

PyObject *
current_torch_stream(PyObject *device)
{
    if (PyUnicode_CompareWithASCIIString(slot(device, DEVICE.kind), "cuda") != 0) {
        return Py_None;
    }
    PyObject *ask_torch = slot(KNOWN.torch, TORCH.current_number);
    PyObject *number = PyObject_CallOneArg(ask_torch, slot(device, DEVICE.ordinal));
    if (number == NULL) {
        return NULL;
    }
    /* torch's number of the default stream is 0. */
    PyObject *known = PyObject_Not(number) ? NAME.legacy_stream : number;
    PyObject *found = PyDict_GetItemWithError(slot(device, DEVICE.adopted), known);
    Py_DECREF(number);
    return found;
}

PyObject *
torch_stream(PyObject *work, PyObject *tensors, PyObject *arrays, PyObject *device)
{
    PyObject *foreign = slot(work, WORK.foreign);
    if (PyTuple_GET_SIZE(arrays) == 0 || PyTuple_GET_SIZE(tensors) == 0) {
        return NULL;
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(foreign); at++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(foreign, at));
        PyObject *storage = slot(PyTuple_GET_ITEM(tensors, number), TENSOR.storage);
        if (PyTuple_GET_ITEM(arrays, number) == Py_None || !Py_IS_TYPE(storage, PASSED_CLASS)) {
            return NULL;
        }
    }
    return current_torch_stream(device);
}

/* The number that a method of an object gives; -1 with an exception. */
static long long
number_of(PyObject *object, PyObject *method)
{
    PyObject *given = PyObject_CallMethodNoArgs(object, method);
    if (given == NULL) {
        return -1;
    }
    long long number = PyLong_AsLongLong(given);
    Py_DECREF(given);
    return number;
}

/* The address of a tensor's first element. */
static int
read_address(PyObject *array, uint64_t *address)
{
    PyObject *given = PyObject_CallMethodNoArgs(array, NAME.data_ptr);
    if (given == NULL) {
        return -1;
    }
    *address = PyLong_AsUnsignedLongLong(given);
    Py_DECREF(given);
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether a weak reference still refers to an object. */
static int
refers_to(PyObject *weak, PyObject *object)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;
    if (PyWeakref_GetRef(weak, &found) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(found);
    return found == object;
#else
    return PyWeakref_GetObject(weak) == object;
#endif
}

/* Call a method of two arguments, or of one, for its effect. */
static int
call_for_effect(PyObject *object, PyObject *method, PyObject *first, PyObject *second)
{
    PyObject *args[] = {object, first, second};
    size_t count = second == NULL ? 2 : 3;
    PyObject *done = PyObject_VectorcallMethod(method, args, count, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Check that a tensor is where its wrapper says, and has torch keep it for a stream. */
static int
take_tensor(PyObject *storage, PyObject *array, PyObject *stream)
{
    uint64_t address, first = PyLong_AsUnsignedLongLong(slot(storage, FOREIGN.first));
    long long itemsize = PyLong_AsLongLong(slot(storage, PASSED.itemsize));
    long long reach = PyLong_AsLongLong(slot(storage, PASSED.reach));
    PyObject *memory = PyObject_CallMethodNoArgs(array, NAME.untyped_storage);
    if (memory == NULL) {
        return -1;
    }
    long long nbytes = number_of(memory, NAME.nbytes), offset = 0;
    int failed = nbytes < 0 || (offset = number_of(array, NAME.storage_offset)) < 0
        || read_address(array, &address) < 0;
    if (!failed && (address != first || nbytes < offset * itemsize + reach)) {
        failed = call_for_effect(storage, NAME.check_there, array, NULL) < 0;
    }
    if (!failed) {
        PyObject *kept = slot(storage, PASSED.memory);
        int is_told = slot(storage, PASSED.told) == stream && refers_to(kept, memory);
        failed = !is_told && call_for_effect(storage, NAME.keep, array, stream) < 0;
    }
    Py_DECREF(memory);
    return failed ? -1 : 0;
}

static int
raise_version(PyObject *array)
{
    int is_inference = ask(array, NAME.is_inference);
    if (is_inference != 0) {
        return is_inference < 0 ? -1 : 0;
    }
    PyObject *one = PyTuple_Pack(1, array);
    if (one == NULL) {
        return -1;
    }
    PyObject *done = PyObject_CallOneArg(slot(KNOWN.torch, TORCH.raise_versions), one);
    Py_DECREF(one);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

int
take_tensors(PyObject *work, PyObject *tensors, PyObject *arrays, PyObject *stream)
{
    PyObject *foreign = slot(work, WORK.foreign), *written = slot(work, WORK.written);
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(foreign); at++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(foreign, at));
        PyObject *storage = slot(PyTuple_GET_ITEM(tensors, number), TENSOR.storage);
        if (take_tensor(storage, PyTuple_GET_ITEM(arrays, number), stream) < 0) {
            return -1;
        }
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(written); at++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(written, at));
        if (raise_version(PyTuple_GET_ITEM(arrays, number)) < 0) {
            return -1;
        }
    }
    return 0;
}
