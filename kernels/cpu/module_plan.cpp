// Plans of the native engine as Python's objects.
#include "module.h"

#include <algorithm>

namespace gpulayout_module {
namespace {

constexpr int64_t HOLDS_LOCK = 32 << 10;  // bytes of a move that takes less time than to hand the lock over and back
constexpr int MOST_AXES = 62;             // so many of two places have 2^62 elements: no move needs more
constexpr int64_t MOST_THREADS = 1024;
constexpr const char* AN_AXIS = "an axis is a tuple (extent, bound, source stride, target stride)";

// Adds what an axis of n places covers to the bytes between a first and a last element.  False: they do not fit in 63 bits.
bool add_reach(int64_t n, int64_t stride, int64_t& reach) {
    int64_t way;
    return n < 2 || (!__builtin_mul_overflow(n, stride, &way) && way > INT64_MIN && !__builtin_add_overflow(reach, way < 0 ? -way : way, &reach));
}

// The number of axes; -1: with an exception.
Py_ssize_t read_axes(PyObject* given, int64_t size, gl_axis* axes) {
    Py_ssize_t rank = PySequence_Size(given);
    if (rank > MOST_AXES) return PyErr_Format(PyExc_ValueError, "at most %d axes, not %zd", MOST_AXES, rank), -1;
    int64_t bytes = size, read = size, written = size;
    for (Py_ssize_t k = 0; k < rank; k++) {
        PyObject* axis = PySequence_GetItem(given, k);
        if (!axis) return -1;
        long long extent, bound, source, target;
        bool is_tuple = PyTuple_Check(axis) && PyTuple_Size(axis) == 4;
        bool ok = is_tuple && PyArg_ParseTuple(axis, "LLLL", &extent, &bound, &source, &target);
        Py_DECREF(axis);
        if (!is_tuple) PyErr_SetString(PyExc_TypeError, AN_AXIS);
        if (!ok) return -1;
        if (bound < 0 || extent < bound) return PyErr_SetString(PyExc_ValueError, "0 <= bound <= extent"), -1;
        if (__builtin_mul_overflow(bytes, extent ? extent : 1, &bytes) || !add_reach(bound, source, read) || !add_reach(extent, target, written))
            return PyErr_SetString(PyExc_ValueError, "a move has fewer than 2^63 bytes"), -1;
        axes[k] = {extent, bound, source, target};
    }
    return rank;
}

PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject* words) {
    PyObject* given;
    long long size;
    const char* pad;
    Py_ssize_t pad_size;
    static const char* names[] = {"axes", "itemsize", "pad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, words, "OLy#:Plan", const_cast<char**>(names), &given, &size, &pad, &pad_size)) return nullptr;
    if (size < 1 || pad_size != size) return PyErr_SetString(PyExc_ValueError, "the pad has the bytes of an element"), nullptr;
    gl_axis axes[MOST_AXES];
    Py_ssize_t rank = read_axes(given, size, axes);
    if (rank < 0) return nullptr;
    gl_move* move = gl_plan(int(rank), axes, size, pad);
    if (!move) return PyErr_NoMemory();
    PlanObject* self = made<PlanObject>(reinterpret_cast<PyObject*>(type));
    if (!self) return gl_free(move), nullptr;
    self->move = move, self->bytes = gl_describe(move).bytes;
    return reinterpret_cast<PyObject*>(self);
}

void plan_free(PyObject* self) {
    gl_free(reinterpret_cast<PlanObject*>(self)->move);
    free_object(self);
}

PyObject* plan_run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 5) return PyErr_SetString(PyExc_TypeError, "run(source, source_offset, target, target_offset, threads)"), nullptr;
    int64_t source_offset, target_offset, threads;
    if (!as_number(args[1], source_offset) || !as_number(args[3], target_offset) || !as_number(args[4], threads)) return nullptr;
    Py_buffer source, target;
    if (PyObject_GetBuffer(args[0], &source, PyBUF_STRIDED_RO)) return nullptr;
    if (PyObject_GetBuffer(args[2], &target, PyBUF_STRIDED)) return PyBuffer_Release(&source), nullptr;
    bool done = execute(reinterpret_cast<PlanObject*>(self), static_cast<const char*>(source.buf) + source_offset,
                        static_cast<char*>(target.buf) + target_offset, threads);
    PyBuffer_Release(&source), PyBuffer_Release(&target);
    if (!done) return nullptr;
    Py_RETURN_NONE;
}

PyObject* plan_describe(PyObject* self, PyObject*) {
    gl_description d = gl_describe(reinterpret_cast<PlanObject*>(self)->move);
    return Py_BuildValue("{s:s,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:N,s:L,s:L}", "kernel", d.kernel, "element_bytes", d.element, "slot_bytes", d.slot,
                         "along_target", d.along_target, "along_source", d.along_source, "walked", d.walked, "boxes", d.boxes,
                         "scratch_bytes", d.scratch, "streams", PyBool_FromLong(long(d.streams)), "fills", d.fills, "most_threads", d.most_threads);
}

PyMethodDef plan_methods[] = {
    {"run", as_method(plan_run), METH_FASTCALL,
     "run(source, source_offset, target, target_offset, threads)\n--\n\nMove between two buffers; offsets are bytes from the first element of each."},
    {"call", as_method(plan_call), METH_FASTCALL,
     "call(source, target, make, arguments, words, tensors, writes, threads)\n--\n\nA call of these arrays, which passed all checks, or None.\n\n"
     "make(*arguments, **words) makes such a target, writes(target) comes before it is written, threads() is how many may move;\n"
     "tensors: how both are opened."},
    {"describe", plan_describe, METH_NOARGS, "describe()\n--\n\nWhat the plan does, as a dict."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot plan_slots[] = {
    {Py_tp_doc, const_cast<char*>("Plan(axes, itemsize, pad)\n--\n\nA move; axes are (extent, bound, source stride, target stride), minor first.")},
    {Py_tp_new, reinterpret_cast<void*>(plan_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(plan_free)},
    {Py_tp_methods, plan_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec plan_spec = {"gpulayout.cpu._native.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT, plan_slots};

int look(void* state) {
    PyThreadState** kept = static_cast<PyThreadState**>(state);
    PyEval_RestoreThread(*kept);
    int raised = PyErr_CheckSignals();
    *kept = PyEval_SaveThread();
    return raised;
}

bool execute(const PlanObject* plan, const char* source, char* target, int64_t threads) {
    gl_result result;
    if (plan->bytes <= HOLDS_LOCK)
        result = gl_run(plan->move, source, target, 1, nullptr, nullptr);
    else {
        PyThreadState* state = PyEval_SaveThread();
        result = gl_run(plan->move, source, target, int(std::clamp<int64_t>(threads, 1, MOST_THREADS)), look, &state);
        PyEval_RestoreThread(state);
    }
    if (result == GL_NO_MEMORY) PyErr_NoMemory();
    return result == GL_DONE;  // a stopped move has the exception of a signal handler
}

}  // namespace gpulayout_module
