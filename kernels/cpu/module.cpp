// The native engine as a module of Python, in the limited API: one file for all Pythons from 3.11 on.
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <initializer_list>

#include "strided_move.h"

namespace {

constexpr int64_t HOLDS_LOCK = 32 << 10;  // bytes of a move that takes less time than to hand the lock over and back
constexpr int MOST_AXES = 62;             // so many of two places have 2^62 elements: no move needs more
constexpr int64_t MOST_CACHE = int64_t(1) << 40;
constexpr int MOST_THREADS = 1024;
constexpr int MOST_DIMENSIONS = 8;        // of arrays that a plan recognises

// What an array that passed all checks of a call said of itself.
struct Facts {
    PyObject *type, *dtype;
    int ndim;
    Py_ssize_t sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    int64_t low, high;  // bytes from its first element: the lowest, and one past the highest
};

struct Plan {
    PyObject_HEAD
    gl_move* move;
    int64_t bytes;
};

// A call that passed all checks.  It belongs to one caller: other callers of its plan check other things.
struct Call {
    PyObject_HEAD
    Plan* plan;
    Facts source, target;
    PyObject *empty, *result;  // numpy.empty and its arguments for a new target; nullptr: none was made
};
PyObject* call_type;
PyObject *dtype_name, *base_name;  // interned

constexpr const char* AN_AXIS = "an axis is a tuple (extent, bound, source stride, target stride)";

// The number of axes; -1: with an exception.
Py_ssize_t read_axes(PyObject* given, int64_t size, gl_axis* axes) {
    Py_ssize_t rank = PySequence_Size(given);
    if (rank > MOST_AXES) return PyErr_Format(PyExc_ValueError, "at most %d axes, not %zd", MOST_AXES, rank), -1;
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
        int64_t way;  // offsets and the bytes of all places are counted in 63 bits; a source stride of one element counts for nothing
        if (__builtin_mul_overflow(size, extent ? extent : 1, &size) || __builtin_mul_overflow(extent, target, &way) ||
            (bound > 1 && __builtin_mul_overflow(bound, source, &way)))
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
    allocfunc alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    Plan* self = reinterpret_cast<Plan*>(alloc(type, 0));
    if (!self) return gl_free(move), nullptr;
    self->move = move, self->bytes = gl_describe(move).bytes;
    return reinterpret_cast<PyObject*>(self);
}

void plan_free(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    gl_free(reinterpret_cast<Plan*>(self)->move);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

// Looks for signals: in the main thread their handlers run, as between any two instructions of Python.
int look(void* state) {
    PyThreadState** kept = static_cast<PyThreadState**>(state);
    PyEval_RestoreThread(*kept);
    int raised = PyErr_CheckSignals();
    *kept = PyEval_SaveThread();
    return raised;
}

bool execute(Plan* self, const char* source, char* target, int threads) {  // false: with an exception
    gl_result result;
    if (self->bytes <= HOLDS_LOCK)
        result = gl_run(self->move, source, target, 1, nullptr, nullptr);
    else {
        PyThreadState* state = PyEval_SaveThread();
        result = gl_run(self->move, source, target, threads, look, &state);
        PyEval_RestoreThread(state);
    }
    if (result == GL_NO_MEMORY) PyErr_NoMemory();
    return result == GL_DONE;  // a stopped move has the exception of a signal handler
}

int threads_of(long given) { return given < 1 ? 1 : given > MOST_THREADS ? MOST_THREADS : int(given); }

PyObject* plan_run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 5) return PyErr_SetString(PyExc_TypeError, "run(source, source_offset, target, target_offset, threads)"), nullptr;
    long long source_offset = PyLong_AsLongLong(args[1]), target_offset = PyLong_AsLongLong(args[3]);
    long threads = PyLong_AsLong(args[4]);
    if (PyErr_Occurred()) return nullptr;
    Py_buffer source, target;
    if (PyObject_GetBuffer(args[0], &source, PyBUF_STRIDED_RO)) return nullptr;
    if (PyObject_GetBuffer(args[2], &target, PyBUF_STRIDED)) return PyBuffer_Release(&source), nullptr;
    bool done = execute(reinterpret_cast<Plan*>(self), static_cast<const char*>(source.buf) + source_offset,
                        static_cast<char*>(target.buf) + target_offset, threads_of(threads));
    PyBuffer_Release(&source), PyBuffer_Release(&target);
    if (!done) return nullptr;
    Py_RETURN_NONE;
}

PyObject* plan_run_at(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 3) return PyErr_SetString(PyExc_TypeError, "run_at(source, target, threads)"), nullptr;
    long long source = PyLong_AsLongLong(args[0]), target = PyLong_AsLongLong(args[1]);
    long threads = PyLong_AsLong(args[2]);
    if (PyErr_Occurred()) return nullptr;
    if (!execute(reinterpret_cast<Plan*>(self), reinterpret_cast<const char*>(source), reinterpret_cast<char*>(target), threads_of(threads)))
        return nullptr;
    Py_RETURN_NONE;
}

// --------------------------------------------------------------------------------------------- calls that passed before
// `call` keeps what two arrays said of themselves that had passed all checks of a call.  `again` recognises arrays that
// say the same; if they also lie apart, it moves without the checks.

bool take_facts(Facts& facts, PyObject* array) {
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)) return PyErr_Clear(), false;
    bool known = view.ndim <= MOST_DIMENSIONS;
    facts.ndim = view.ndim, facts.low = 0, facts.high = view.itemsize;
    for (int k = 0; known && k < view.ndim; k++) {
        facts.sizes[k] = view.shape[k], facts.strides[k] = view.strides[k];
        int64_t reach = (view.shape[k] - 1) * view.strides[k];
        (reach < 0 ? facts.low : facts.high) += reach;
        known = view.shape[k] > 0;
    }
    PyBuffer_Release(&view);
    facts.dtype = known ? PyObject_GetAttr(array, dtype_name) : nullptr;
    if (!facts.dtype) return PyErr_Clear(), false;
    facts.type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(array)));
    return true;
}

PyObject* plan_call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 4) return PyErr_SetString(PyExc_TypeError, "call(source, target, empty, result)"), nullptr;
    PyTypeObject* type = reinterpret_cast<PyTypeObject*>(call_type);
    Call* call = reinterpret_cast<Call*>(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
    if (!call) return nullptr;
    call->plan = reinterpret_cast<Plan*>(Py_NewRef(self));
    if (!take_facts(call->source, args[0]) || !take_facts(call->target, args[1])) {
        Py_DECREF(call);
        Py_RETURN_NONE;
    }
    if (args[2] != Py_None) call->empty = Py_NewRef(args[2]), call->result = Py_NewRef(args[3]);
    return reinterpret_cast<PyObject*>(call);
}

void call_free(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Call* call = reinterpret_cast<Call*>(self);
    for (PyObject* held : {reinterpret_cast<PyObject*>(call->plan), call->source.type, call->source.dtype, call->target.type, call->target.dtype, call->empty, call->result})
        Py_XDECREF(held);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

// True if the array says the same; `view` is then to be released.
bool is_known(const Facts& facts, PyObject* array, Py_buffer& view, int flags) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(array)) != facts.type) return false;
    PyObject* dtype = PyObject_GetAttr(array, dtype_name);
    Py_XDECREF(dtype);  // the facts hold the one that it is compared with
    if (dtype != facts.dtype) return PyErr_Clear(), false;
    if (PyObject_GetBuffer(array, &view, flags)) return PyErr_Clear(), false;
    bool known = view.ndim == facts.ndim;
    for (int k = 0; known && k < facts.ndim; k++) known = view.shape[k] == facts.sizes[k] && view.strides[k] == facts.strides[k];
    if (!known) PyBuffer_Release(&view);
    return known;
}

// An array in memory of its own, or in that of an array of the same type: no map of a file, which another map could show at
// another address.
bool owns_memory(PyObject* array, bool is_base = false) {
    PyObject* base = PyObject_GetAttr(array, base_name);
    if (!base) return PyErr_Clear(), false;
    bool owns = base == Py_None || (!is_base && Py_TYPE(base) == Py_TYPE(array) && owns_memory(base, true));
    Py_DECREF(base);
    return owns;
}

PyObject* call_again(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count < 2 || count > 3) return PyErr_SetString(PyExc_TypeError, "again(source, target, threads=1)"), nullptr;
    Call* call = reinterpret_cast<Call*>(self);
    long threads = count == 3 ? PyLong_AsLong(args[2]) : 1;
    if (threads == -1 && PyErr_Occurred()) return nullptr;
    Py_buffer source, target;
    bool makes = args[1] == Py_None;
    if (makes && !call->empty) Py_RETURN_NONE;
    if (!makes && !owns_memory(args[1])) Py_RETURN_NONE;
    if (!is_known(call->source, args[0], source, PyBUF_STRIDED_RO)) Py_RETURN_NONE;
    PyObject* written = makes ? PyObject_Call(call->empty, call->result, nullptr) : Py_NewRef(args[1]);
    if (!written) return PyBuffer_Release(&source), nullptr;
    PyObject* result = Py_None;
    if (is_known(call->target, written, target, PyBUF_STRIDED)) {
        const char* from = static_cast<const char*>(source.buf);
        char* to = static_cast<char*>(target.buf);
        if (from + call->source.high <= to + call->target.low || to + call->target.high <= from + call->source.low)
            result = execute(call->plan, from, to, threads_of(threads)) ? written : nullptr;
        PyBuffer_Release(&target);
    }
    PyBuffer_Release(&source);
    Py_XINCREF(result);
    Py_DECREF(written);
    return result;
}

PyObject* plan_describe(PyObject* self, PyObject*) {
    gl_description d = gl_describe(reinterpret_cast<Plan*>(self)->move);
    return Py_BuildValue("{s:s,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:N,s:L,s:L}", "kernel", d.kernel, "element_bytes", d.element, "slot_bytes", d.slot,
                         "along_target", d.along_target, "along_source", d.along_source, "walked", d.walked, "boxes", d.boxes,
                         "scratch_bytes", d.scratch, "streams", PyBool_FromLong(long(d.streams)), "fills", d.fills, "most_threads", d.most_threads);
}

PyMethodDef plan_methods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plan_run)), METH_FASTCALL,
     "run(source, source_offset, target, target_offset, threads)\n--\n\nMove between two buffers; offsets are bytes from the first element of each."},
    {"run_at", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plan_run_at)), METH_FASTCALL,
     "run_at(source, target, threads)\n--\n\nThe same between two addresses of memory that nobody frees meanwhile."},
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plan_call)), METH_FASTCALL,
     "call(source, target, empty, result)\n--\n\nA call of these arrays, which passed all checks, or None; empty(*result) makes such a target, or both are None."},
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
PyType_Spec plan_spec = {"gpulayout.cpu._native.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

PyMethodDef call_methods[] = {
    {"again", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_again)), METH_FASTCALL,
     "again(source, target, threads=1)\n--\n\nMove between arrays that say what those of the call said, and lie apart; return the target.  Else None.  A target of None is made."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot call_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(call_free)}, {Py_tp_methods, call_methods}, {0, nullptr}};
PyType_Spec call_spec = {"gpulayout.cpu._native.Call", sizeof(Call), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, call_slots};

PyObject* set_caches(PyObject*, PyObject* args) {
    long long first, second, third;
    if (!PyArg_ParseTuple(args, "LLL", &first, &second, &third)) return nullptr;
    if (first < 0 || second < 0 || third < 0 || second > MOST_CACHE || third > MOST_CACHE)
        return PyErr_SetString(PyExc_ValueError, "a cache has 0 to 2^40 bytes"), nullptr;
    gl_set_caches(first, second, third);
    Py_RETURN_NONE;
}

PyObject* instruction_sets(PyObject*, PyObject*) {
    PyObject* found = PyList_New(0);
    const char* name;
    for (int number = 0; found && (name = gl_instruction_set(number)); number++) {
        PyObject* text = PyUnicode_FromString(name);
        if (!text || PyList_Append(found, text)) Py_CLEAR(found);
        Py_XDECREF(text);
    }
    PyObject* result = found ? PyList_AsTuple(found) : nullptr;
    Py_XDECREF(found);
    return result;
}

PyObject* use(PyObject*, PyObject* number) {
    long wanted = PyLong_AsLong(number);
    if (wanted == -1 && PyErr_Occurred()) return nullptr;
    if (wanted != int(wanted) || !gl_instruction_set(int(wanted))) return PyErr_Format(PyExc_ValueError, "no instruction set %ld", wanted);
    gl_use(int(wanted));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_caches", set_caches, METH_VARARGS, "set_caches(first, second, third)\n--\n\nBytes of the caches, for plans made from now on."},
    {"instruction_sets", instruction_sets, METH_NOARGS, "instruction_sets()\n--\n\nThose of this machine, best last."},
    {"use", use, METH_O, "use(number)\n--\n\nThe instruction set of plans made from now on."},
    {nullptr, nullptr, 0, nullptr},
};

int add_plan(PyObject* module) {
    dtype_name = PyUnicode_InternFromString("dtype"), base_name = PyUnicode_InternFromString("base");
    PyObject* type = PyType_FromSpec(&plan_spec);
    call_type = PyType_FromSpec(&call_spec);
    if (!type || !call_type || !dtype_name || !base_name) return -1;
    int failed = PyModule_AddObjectRef(module, "Plan", type);
    Py_DECREF(type);
    return failed;
}
PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(add_plan)}, {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "gpulayout.cpu._native", "Strided moves in C++.", 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
