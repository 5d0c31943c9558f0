/* The common case of `LaunchOp.build`, `submit` and `put_once`: the stream is the sole one of all
 * tensors, and nothing is deferred, recorded or intercepted. Each function tests that first; the
 * Python definition makes every other call, from the start.
 *
 * Timelines, borrows and clocks change here in steps with no call among them, so no other code sees
 * a state in between. The calls of a submission, to torch and to the driver, come before those
 * steps, with `device.busy` set: a call that re-enters is refused.
 */
#include "launch_op.h"

#include "method.h"
#include "names.h"
#include "torch_tensors.h"

enum outcome { FAILED = -1, NOT_MINE = 0, DONE = 1 };
enum { NEAR = 4 }; /* uses that `put_on_sole` appends to without a search */

/* --- the device's lock -------------------------------------------------------------------------- */

/* Take the lock, and give it; NULL with an exception if a signal handler raised meanwhile. */
static PyObject *
lock_device(PyObject *device)
{
    PyObject *lock = Py_NewRef(slot(device, DEVICE.lock));
    PyObject *taken = PyObject_CallMethodNoArgs(lock, NAME.enter);
    if (taken == NULL) {
        Py_CLEAR(lock);
    }
    Py_XDECREF(taken);
    return lock;
}

/* Release the lock; an exception that is set stays set. */
static void
unlock_device(PyObject *lock)
{
    PyObject *error = PyErr_Occurred() ? take_raised() : NULL;
    PyObject *done = PyObject_CallMethodNoArgs(lock, NAME.release);
    if (done == NULL) {
        PyErr_WriteUnraisable(lock);
    }
    Py_XDECREF(done);
    Py_DECREF(lock);
    if (error != NULL) {
        raise_again(error);
    }
}

/* Whether a critical section may begin, with no deferred work to be settled before. */
static int
is_idle(PyObject *device)
{
    return slot(device, DEVICE.busy) == Py_None && slot(device, DEVICE.forked) == Py_False
        && PyObject_Size(slot(device, DEVICE.deferred)) == 0;
}

/* Whether C can build and submit operations of some work: its attributes are all in slots. */
static int
is_shared(PyObject *work)
{
    return PyObject_TypeCheck(work, WORK_CLASS) && slot(work, WORK.label) != NULL
        && slot(work, WORK.device) != NULL && slot(work, WORK.caller) != NULL
        && slot(work, WORK.foreign) != NULL && slot(work, WORK.written) != NULL
        && slot(work, WORK.check) != NULL;
}

/* --- built -------------------------------------------------------------------------------------- */

/* The user's frame, `depth` frames up, or the innermost one if there are fewer. */
static PyFrameObject *
frame_above(int depth)
{
    PyFrameObject *first = PyThreadState_GetFrame(PyThreadState_Get());
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)first);
    for (; depth > 1 && frame != NULL; depth--) {
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    if (frame == NULL) {
        return first;
    }
    Py_DECREF(first);
    return frame;
}

/* Note the site of the user's call in a borrow. A repeated call has the code of the last one. */
static int
sign(PyObject *borrow, PyObject *work, int depth)
{
    PyFrameObject *frame = frame_above(depth);
    if (frame == NULL) {
        return NOT_MINE; /* a thread began with the call itself */
    }
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    if (code != slot(work, WORK.caller)) {
        Py_SETREF(frame, (PyFrameObject *)PyObject_CallOneArg(
            KNOWN.user_frame_above, (PyObject *)frame));
        if (frame == NULL) {
            Py_DECREF(code);
            return FAILED;
        }
        Py_SETREF(code, (PyObject *)PyFrame_GetCode(frame));
        set_slot(work, WORK.caller, code);
    }
    PyObject *instruction = PyLong_FromLong(PyFrame_GetLasti(frame));
    Py_DECREF(frame);
    if (instruction != NULL) {
        set_slot(borrow, BORROW.code, code);
        set_slot(borrow, BORROW.instruction, instruction);
        Py_DECREF(instruction);
    }
    Py_DECREF(code);
    return instruction == NULL ? FAILED : DONE;
}

/* Whether torch may forbid the write of an output: then the Python definition asks for the reason. */
static int
may_be_forbidden(PyObject *work, PyObject *arrays)
{
    PyObject *written = slot(work, WORK.written);
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(written); at++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(written, at));
        if (PyTuple_GET_SIZE(arrays) == 0 || PyTuple_GET_ITEM(arrays, number) == Py_None) {
            return 1;
        }
        PyObject *needs = PyObject_GetAttr(PyTuple_GET_ITEM(arrays, number), NAME.requires_grad);
        if (needs == NULL) {
            return FAILED;
        }
        Py_DECREF(needs);
        if (needs != Py_False) {
            return 1;
        }
    }
    return 0;
}

/* Have a borrow hold the timelines of all uses, or none. The lock is held; there are no calls. */
static int
hold(PyObject *borrow, PyObject *uses)
{
    Py_ssize_t count = PyTuple_GET_SIZE(uses);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *timeline = slot(PyTuple_GET_ITEM(uses, at), USE.timeline);
        PyObject *held = slot(timeline, TIMELINE.held);
        if (held == Py_None && slot(timeline, TIMELINE.stream) != Py_None) {
            set_slot(timeline, TIMELINE.held, borrow);
        }
        else if (held != borrow) {
            while (at-- > 0) {
                timeline = slot(PyTuple_GET_ITEM(uses, at), USE.timeline);
                if (slot(timeline, TIMELINE.held) == borrow) {
                    set_slot(timeline, TIMELINE.held, Py_None);
                }
            }
            return NOT_MINE;
        }
    }
    return DONE;
}

/* Set all attributes of an operation that is not built yet. */
static void
prepare(PyObject *op, PyObject *borrow, const struct launch *parts)
{
    PyObject *work = parts->work;
    set_slot(op, OP.label, slot(work, WORK.label));
    set_slot(op, OP.state, KNOWN.closed);
    set_slot(op, OP.device, slot(work, WORK.device));
    set_slot(op, OP.chosen, Py_None);
    set_slot(op, OP.outcome, Py_None);
    set_slot(op, OP.uses, Py_None);
    set_slot(op, OP.result, parts->result);
    set_slot(op, OP.count, NAME.zero);
    set_slot(op, OP.work, work);
    set_slot(op, OP.arrays, parts->arrays);
    set_slot(op, OP.borrow, borrow);
    set_slot(borrow, BORROW.work, work);
    set_slot(borrow, BORROW.tensors, parts->tensors);
    set_slot(borrow, BORROW.uses, parts->uses);
}

/* Build an operation whose tensors no other operation holds. */
static int
build(PyObject *op, const struct launch *parts, int depth)
{
    int is_doubtful = may_be_forbidden(parts->work, parts->arrays);
    if (is_doubtful != 0) {
        return is_doubtful < 0 ? FAILED : NOT_MINE;
    }
    PyObject *borrow = BORROW_CLASS->tp_new(BORROW_CLASS, NAME.none, NULL);
    if (borrow == NULL) {
        return FAILED;
    }
    prepare(op, borrow, parts);
    PyObject *device = slot(parts->work, WORK.device), *lock = NULL;
    int found = sign(borrow, parts->work, depth);
    if (found == DONE) {
        lock = lock_device(device);
        found = lock == NULL ? FAILED : is_idle(device) ? hold(borrow, parts->uses) : NOT_MINE;
    }
    if (found == DONE) {
        set_slot(op, OP.state, KNOWN.built);
    }
    if (lock != NULL) {
        unlock_device(lock);
    }
    Py_DECREF(borrow);
    return found;
}

PyObject *
new_launch_op(const struct launch *parts, int depth)
{
    PyObject *op = OP_CLASS->tp_new(OP_CLASS, NAME.none, NULL);
    if (op == NULL) {
        return NULL;
    }
    int found = is_shared(parts->work) ? build(op, parts, depth) : NOT_MINE;
    if (found == NOT_MINE) {
        /* The Python definition counts its own frame. */
        PyObject *frames = PyLong_FromLong(depth);
        PyObject *args[] = {
            op, parts->work, parts->tensors, parts->uses, parts->result, parts->arrays, frames};
        PyObject *built = PyObject_Vectorcall(DEFINITION[OP_BUILD], args, 7, NULL);
        Py_XDECREF(frames);
        Py_XDECREF(built);
        found = built == NULL ? FAILED : DONE;
    }
    if (found == FAILED) {
        Py_CLEAR(op);
    }
    return op;
}

/* LaunchOp.build(work, tensors, uses, result, arrays=(), depth=2) */
PyObject *
launch_op_build(PyObject *op, PyObject *const *args, Py_ssize_t count)
{
    if (count < 4 || count > 6 || !is_shared(args[0])) {
        return NULL;
    }
    struct launch parts = {args[0], args[1], args[2], args[3], count > 4 ? args[4] : NAME.none};
    long depth = count > 5 ? PyLong_AsLong(args[5]) : 2;
    if (!PyTuple_Check(parts.tensors) || !PyTuple_Check(parts.uses)
        || !PyTuple_Check(parts.arrays)) {
        return NULL;
    }
    return build(op, &parts, (int)depth) == DONE ? Py_NewRef(op) : NULL;
}

/* --- submitted ---------------------------------------------------------------------------------- */

/* Whether all work of a stream runs once: 1, or 0 while another library captures it. */
static int
runs_once(PyObject *stream)
{
    if (slot(stream, STREAM.is_plain) == Py_True) {
        return 1;
    }
    PyObject *captures = PyObject_CallMethodNoArgs(slot(stream, STREAM.queue), NAME.is_capturing);
    if (captures == NULL) {
        return FAILED;
    }
    Py_DECREF(captures);
    return captures == Py_False;
}

/* Whether an operation follows the work of a stream with nothing to wait for or to record. */
static int
has_only(PyObject *op, PyObject *stream, PyObject *theirs)
{
    PyObject *work = slot(op, OP.work), *borrow = slot(op, OP.borrow), *device = slot(op, OP.device);
    PyObject *uses = slot(borrow, BORROW.uses);
    if (slot(op, OP.uses) != Py_None || PyTuple_GET_SIZE(uses) == 0
        || slot(work, WORK.check) != Py_None || !is_unset(KNOWN.intercepted)) {
        return 0;
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(uses); at++) {
        PyObject *timeline = slot(PyTuple_GET_ITEM(uses, at), USE.timeline);
        if (slot(timeline, TIMELINE.stream) != stream) {
            return 0;
        }
    }
    if (PyTuple_GET_SIZE(slot(work, WORK.foreign)) == 0) {
        return slot(stream, STREAM.is_plain) == Py_True;
    }
    if (theirs == NULL) {
        PyObject *tensors = slot(borrow, BORROW.tensors);
        theirs = torch_stream(work, tensors, slot(op, OP.arrays), device);
    }
    if (theirs != stream) {
        return PyErr_Occurred() ? FAILED : 0;
    }
    return runs_once(stream);
}

/* Move a use to a submission on the sole stream of its timeline. */
static int
move_use(PyObject *use, PyObject *timeline, PyObject *stream, PyObject *count)
{
    if (slot(use, USE.stream) == stream) {
        set_slot(use, USE.count, count);
        return 0;
    }
    PyObject *uses = slot(timeline, TIMELINE.uses);
    if (PyList_GET_SIZE(uses) < NEAR) { /* as `put_on_sole` begins */
        set_slot(use, USE.stream, stream);
        set_slot(use, USE.count, count);
        set_slot(use, USE.outcome, Py_None);
        set_slot(use, USE.timeline, timeline);
        return PyList_Append(uses, use);
    }
    PyObject *args[] = {timeline, use, stream, count};
    PyObject *done = PyObject_VectorcallMethod(NAME.put_on_sole, args, 4, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Release the borrow of an operation on one timeline. */
static int
release(PyObject *timeline, PyObject *borrow)
{
    if (slot(timeline, TIMELINE.held) == borrow) {
        set_slot(timeline, TIMELINE.held, Py_None);
        return 0;
    }
    PyObject *done = PyObject_CallMethodOneArg(timeline, NAME.release, borrow);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Record that the driver has the work: the counts of the stream, of the operation and of its uses. */
static int
record(PyObject *op, PyObject *stream, PyObject *count, PyObject *uses)
{
    PyObject *borrow = slot(op, OP.borrow);
    set_slot(op, OP.stream, stream);
    if (PyObject_SetAttr(slot(stream, STREAM.queue), NAME.marked, count) < 0) {
        return -1;
    }
    set_slot(op, OP.count, count);
    set_slot(stream, STREAM.issued, count);
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(uses); at++) {
        PyObject *use = PyTuple_GET_ITEM(uses, at);
        PyObject *timeline = Py_NewRef(slot(use, USE.timeline));
        int failed = move_use(use, timeline, stream, count) < 0 || release(timeline, borrow) < 0;
        Py_DECREF(timeline);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

/* Set an exception again that a method was told of, unless that has raised another one. */
static void
finish_telling(PyObject *error, PyObject *done)
{
    if (done == NULL) {
        Py_DECREF(error);
        return;
    }
    Py_DECREF(done);
    raise_again(error);
}

/* Record work that an exception has interrupted, which stays set. */
static void
end_interrupted(PyObject *op, PyObject *stream, int is_put)
{
    PyObject *error = take_raised();
    PyObject *args[] = {op, stream, NAME.none, error, is_put ? Py_True : Py_False, Py_True};
    PyObject *done = PyObject_VectorcallMethod(NAME.end_interrupted, args, 4, NAME.put_flags);
    finish_telling(error, done);
}

/* Hand the work to the driver and record it. `device.busy` is set. */
static int
launch(PyObject *op, PyObject *stream, PyObject *tensors, PyObject *uses)
{
    PyObject *work = slot(op, OP.work);
    if (PyTuple_GET_SIZE(slot(work, WORK.foreign)) != 0
        && take_tensors(work, tensors, slot(op, OP.arrays), stream) < 0) {
        return -1;
    }
    PyObject *args[] = {work, stream, tensors};
    PyObject *put = PyObject_VectorcallMethod(NAME.launch, args, 3, NULL);
    PyObject *count = NULL;
    int is_put = put != NULL;
    Py_XDECREF(put);
    if (is_put) {
        count = PyNumber_Add(slot(stream, STREAM.issued), NAME.one);
    }
    int failed = count == NULL || record(op, stream, count, uses) < 0;
    Py_XDECREF(count);
    if (failed) {
        end_interrupted(op, stream, is_put);
    }
    return failed ? -1 : 0;
}

/* Put an operation on a stream, if that has only to follow it. The lock is held. */
static int
put(PyObject *op, PyObject *stream, PyObject *theirs)
{
    PyObject *device = slot(op, OP.device), *borrow = slot(op, OP.borrow);
    if (!is_idle(device) || slot(stream, STREAM.has_loose_ends) != Py_False) {
        return NOT_MINE;
    }
    int may_skip = has_only(op, stream, theirs);
    if (may_skip <= 0) {
        return may_skip;
    }
    PyObject *tensors = Py_NewRef(slot(borrow, BORROW.tensors));
    PyObject *uses = Py_NewRef(slot(borrow, BORROW.uses));
    PyObject *arrays = Py_NewRef(slot(op, OP.arrays));
    set_slot(device, DEVICE.busy, slot(op, OP.label));
    int failed = launch(op, stream, tensors, uses) < 0;
    if (!failed) {
        set_slot(borrow, BORROW.tensors, NAME.none);
        set_slot(borrow, BORROW.uses, NAME.none);
        set_slot(op, OP.arrays, NAME.none);
        set_slot(op, OP.state, KNOWN.submitted);
    }
    set_slot(device, DEVICE.busy, Py_None);
    Py_DECREF(tensors); /* last: the finalisers of tensors may launch */
    Py_DECREF(uses);
    Py_DECREF(arrays);
    return failed ? FAILED : DONE;
}

static int
lock_and_put(PyObject *op, PyObject *stream, PyObject *theirs)
{
    PyObject *lock = lock_device(slot(op, OP.device));
    if (lock == NULL) {
        return FAILED;
    }
    int found = put(op, stream, theirs);
    unlock_device(lock);
    return found;
}

/* Whether an operation has been built, of work that C knows. */
static int
is_built(PyObject *op)
{
    PyObject *state = slot(op, OP.state);
    return (state == KNOWN.built || state == KNOWN.taken)
        && is_shared(slot(op, OP.work));
}

/* LaunchOp.put_once(stream, theirs=None) */
PyObject *
launch_op_put_once(PyObject *op, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || count > 2 || !is_built(op) || !Py_IS_TYPE(args[0], STREAM_CLASS)) {
        return NULL;
    }
    PyObject *theirs = count == 2 && args[1] != Py_None ? args[1] : NULL;
    return lock_and_put(op, args[0], theirs) == DONE ? Py_NewRef(Py_None) : NULL;
}

/* The stream of an operation, borrowed: the given one, the chosen one, torch's or the default.
 * NULL without an exception if the Python definition has to choose. */
static PyObject *
choose(PyObject *op, PyObject *given, PyObject **theirs)
{
    PyObject *device = slot(op, OP.device), *work = slot(op, OP.work);
    PyObject *chosen = given != Py_None ? given : slot(op, OP.chosen);
    if (chosen == Py_None) {
        if (!is_unset(slot(device, DEVICE.current))) {
            return NULL;
        }
        chosen = slot(device, DEVICE.default_);
        if (PyTuple_GET_SIZE(slot(work, WORK.foreign)) != 0) {
            PyObject *tensors = slot(slot(op, OP.borrow), BORROW.tensors);
            chosen = *theirs = torch_stream(work, tensors, slot(op, OP.arrays), device);
        }
    }
    if (chosen == NULL || !Py_IS_TYPE(chosen, STREAM_CLASS)) {
        return NULL;
    }
    int is_fit = slot(chosen, STREAM.device) == device
        && slot(chosen, STREAM.may_be_sole) == Py_True;
    return is_fit ? chosen : NULL;
}

/* Record why a submission failed; the exception stays set. */
static void
abandon(PyObject *op)
{
    PyObject *error = take_raised();
    PyObject *done = PyObject_CallMethodOneArg(op, NAME.abandon, error);
    finish_telling(error, done);
}

/* LaunchOp.submit(stream=None) */
PyObject *
launch_op_submit(PyObject *op, PyObject *const *args, Py_ssize_t count)
{
    PyObject *theirs = NULL;
    if (count > 1 || slot(op, OP.state) != KNOWN.built || !is_built(op)) {
        return NULL;
    }
    PyObject *stream = choose(op, count == 1 ? args[0] : Py_None, &theirs);
    if (stream == NULL) {
        return NULL;
    }
    Py_INCREF(stream);
    int found = lock_and_put(op, stream, theirs);
    Py_DECREF(stream);
    if (found == FAILED) {
        abandon(op);
    }
    return found == DONE ? Py_NewRef(op) : NULL;
}

/* LaunchOp.__del__: only an operation that was built and not run leaves anything to do. */
PyObject *
launch_op_del(PyObject *op, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    PyObject *state = slot(op, OP.state);
    return state == KNOWN.built || state == KNOWN.taken ? NULL : Py_NewRef(Py_None);
}
