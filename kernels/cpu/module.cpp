// The native engine as a module of Python, in the limited API: one file for all Pythons from 3.11 on.
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <initializer_list>
#include <utility>

#include "file_runs.h"
#include "strided_move.h"

namespace {

constexpr int64_t HOLDS_LOCK = 32 << 10;  // bytes of a move that takes less time than to hand the lock over and back
constexpr int MOST_AXES = 62;             // so many of two places have 2^62 elements: no move needs more
constexpr int64_t MOST_CACHE = int64_t(1) << 40;
constexpr int MOST_THREADS = 1024;

struct Plan {
    PyObject_HEAD
    gl_move* move;
    int64_t bytes;
};

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

// --------------------------------------------------------------------------------------------- calls that passed before
// `call` keeps what two arrays said of themselves that had passed all checks of a call.  `again` recognises arrays that
// say the same; if they also lie apart, it moves without the checks.

constexpr int MOST_DIMENSIONS = 8, MOST_QUESTIONS = 16;  // of arrays that are recognised
PyObject* call_type;
PyObject *dtype_name, *base_name, *storage_name, *nbytes_name, *offset_name;  // interned

// DLPack, version 1: a tensor, and the functions of its library, of which `show` fills a DLTensor.
struct DLTensor {
    char* data;
    int32_t device, device_number, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *sizes, *strides;  // strides in elements
    uint64_t offset;
};
struct Exchange {
    uint32_t major, minor;
    const Exchange* older;
    void* others[3];
    int (*show)(PyObject* tensor, DLTensor* shown);
};
constexpr int32_t DLPACK_CPU = 1;

// How tensors are asked whether they are plain memory: api/torch_tensors.py has the questions.
struct Question {
    PyObject *function, *argument, *answer;  // argument: nullptr for none
    bool is_of_tensor;
};
struct Tensors {
    PyObject_HEAD
    const Exchange* exchange;
    PyObject* kept;  // owns the questions
    Py_ssize_t count;
    Question questions[MOST_QUESTIONS];
};

// What an array says of itself.
struct Facts {
    PyObject *type = nullptr, *dtype = nullptr;  // dtype: of NumPy's arrays
    uint32_t code = 0;                           // of tensors: DLPack's type
    int rank = 0;
    int64_t itemsize = 0, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];  // strides in bytes
    int64_t low = 0, high = 0;                   // bytes from the first element to the lowest, and to one past the highest
};

// An array that is open to be read or written, until it is closed.  (Not by a destructor: when the process ends, a thread that
// waits for Python's lock is unwound without it.)
struct View {
    Py_buffer buffer{};  // of NumPy's arrays
    char* data = nullptr;
    void close() { PyBuffer_Release(&buffer); }  // nothing if it was not filled
};

struct Call {
    PyObject_HEAD
    Plan* plan;
    Facts source, target;
    PyObject *make, *arguments, *words;  // make(*arguments, **words) is a new target; nullptr: targets are given
    PyObject *writes, *threads;          // writes(target) comes before it is written, threads() of them may move; or nullptr
    Tensors* tensors;                    // nullptr: NumPy's arrays
};

// False, without an exception: a question that cannot be answered.  An interrupt stays.
bool unanswered() {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return false;
}

template <typename Size> bool take_sizes(Facts& facts, int64_t rank, const Size* sizes, const Size* strides, int64_t step) {
    if (rank > MOST_DIMENSIONS) return false;
    facts.rank = int(rank);
    for (int k = 0; k < facts.rank; k++) facts.sizes[k] = sizes[k], facts.strides[k] = strides[k] * step;
    return true;
}

bool open_array(PyObject* array, int flags, Facts& facts, View& view) {
    facts.dtype = PyObject_GetAttr(array, dtype_name);
    if (!facts.dtype) return unanswered();
    Py_DECREF(facts.dtype);  // the array holds it
    if (PyObject_GetBuffer(array, &view.buffer, flags)) return unanswered();
    view.data = static_cast<char*>(view.buffer.buf), facts.itemsize = view.buffer.itemsize;
    return take_sizes(facts, view.buffer.ndim, view.buffer.shape, view.buffer.strides, 1);
}

// Whether the answers of a tensor are those of plain memory.
bool is_plain(const Tensors* tensors, PyObject* tensor) {
    for (const Question* q = tensors->questions; q < tensors->questions + tensors->count; q++) {
        PyObject* found = PyObject_CallFunctionObjArgs(q->function, q->is_of_tensor ? tensor : q->argument, nullptr);
        if (!found) return unanswered();
        int same = found == q->answer ? 1 : PyObject_RichCompareBool(found, q->answer, Py_EQ);
        Py_DECREF(found);
        if (same != 1) return unanswered();
    }
    return true;
}

bool open_tensor(const Tensors* tensors, PyObject* tensor, bool is_new, Facts& facts, View& view) {
    DLTensor shown{};
    if ((!is_new && !is_plain(tensors, tensor)) || tensors->exchange->show(tensor, &shown)) return unanswered();
    view.data = shown.data + shown.offset, facts.itemsize = shown.bits / 8;
    facts.code = shown.code | uint32_t(shown.bits) << 8 | uint32_t(shown.lanes) << 16;
    bool is_plain_type = shown.lanes == 1 && shown.bits % 8 == 0;
    bool has_strides = shown.strides || !shown.rank;  // older releases leave them out
    return shown.data && shown.device == DLPACK_CPU && is_plain_type && has_strides && take_sizes(facts, shown.rank, shown.sizes, shown.strides, facts.itemsize);
}

// is_new: the call has just made the array, in the state of the thread in which its source was plain.
bool opened(const Call* call, PyObject* array, bool is_new, int flags, Facts& facts, View& view) {
    facts.type = reinterpret_cast<PyObject*>(Py_TYPE(array));
    return call->tensors ? open_tensor(call->tensors, array, is_new, facts, view) : open_array(array, flags, facts, view);
}

// A tensor whose storage was resized shows more than it has.
bool has_storage(PyObject* tensor, int64_t itemsize, int64_t needed) {
    PyObject* storage = PyObject_CallMethodObjArgs(tensor, storage_name, nullptr);
    PyObject* nbytes = storage ? PyObject_CallMethodObjArgs(storage, nbytes_name, nullptr) : nullptr;
    PyObject* offset = nbytes ? PyObject_CallMethodObjArgs(tensor, offset_name, nullptr) : nullptr;
    int64_t from = offset ? PyLong_AsLongLong(offset) : 0, held = nbytes ? PyLong_AsLongLong(nbytes) : 0;
    for (PyObject* each : {storage, nbytes, offset}) Py_XDECREF(each);
    return !PyErr_Occurred() ? from * itemsize + needed <= held : unanswered();
}

bool is_known(const Call* call, const Facts& known, PyObject* array, bool is_new, int flags, View& view) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(array)) != known.type) return false;
    Facts facts;
    if (!opened(call, array, is_new, flags, facts, view) || facts.dtype != known.dtype || facts.code != known.code || facts.rank != known.rank) return false;
    for (int k = 0; k < known.rank; k++)
        if (facts.sizes[k] != known.sizes[k] || facts.strides[k] != known.strides[k]) return false;
    return !call->tensors || is_new || has_storage(array, known.itemsize, known.high);
}

// An array in memory of its own, or in that of an array of the same type: no map of a file, which another map could show at
// another address.
bool owns_memory(PyObject* array, bool is_base = false) {
    PyObject* base = PyObject_GetAttr(array, base_name);
    if (!base) return unanswered();
    bool owns = base == Py_None || (!is_base && Py_TYPE(base) == Py_TYPE(array) && owns_memory(base, true));
    Py_DECREF(base);
    return owns;
}

bool take_facts(const Call* call, PyObject* array, Facts& known) {
    Facts facts;
    View view;
    bool is_open = opened(call, array, false, PyBUF_STRIDED_RO, facts, view);
    view.close();
    if (!is_open) return false;
    facts.high = facts.itemsize;
    for (int k = 0; k < facts.rank; k++) {
        if (facts.sizes[k] < 1) return false;
        int64_t reach = (facts.sizes[k] - 1) * facts.strides[k];
        (reach < 0 ? facts.low : facts.high) += reach;
    }
    known = facts;
    Py_INCREF(known.type), Py_XINCREF(known.dtype);
    return true;
}

PyObject* plan_call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 8) return PyErr_SetString(PyExc_TypeError, "call(source, target, make, arguments, words, tensors, writes, threads)"), nullptr;
    PyTypeObject* type = reinterpret_cast<PyTypeObject*>(call_type);
    Call* call = reinterpret_cast<Call*>(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
    if (!call) return nullptr;
    auto kept = [&](int k) { return args[k] == Py_None ? nullptr : Py_NewRef(args[k]); };
    call->plan = reinterpret_cast<Plan*>(Py_NewRef(self));
    call->make = kept(2), call->arguments = kept(3), call->words = kept(4), call->tensors = reinterpret_cast<Tensors*>(kept(5));
    call->writes = kept(6), call->threads = kept(7);
    if (take_facts(call, args[0], call->source) && take_facts(call, args[1], call->target)) return reinterpret_cast<PyObject*>(call);
    Py_DECREF(call);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

void call_free(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Call* call = reinterpret_cast<Call*>(self);
    for (PyObject* held : {reinterpret_cast<PyObject*>(call->plan), reinterpret_cast<PyObject*>(call->tensors), call->source.type, call->source.dtype,
                           call->target.type, call->target.dtype, call->make, call->arguments, call->words, call->writes, call->threads})
        Py_XDECREF(held);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

// Moves between arrays that are known, if they lie apart; true if it did.
bool move_apart(const Call* call, const View& source, const View& target, PyObject* written) {
    if (source.data + call->source.high > target.data + call->target.low && target.data + call->target.high > source.data + call->source.low) return false;
    PyObject* number = call->threads ? PyObject_CallNoArgs(call->threads) : nullptr;
    long threads = number ? PyLong_AsLong(number) : 1;
    PyObject* said = call->writes && !PyErr_Occurred() ? PyObject_CallFunctionObjArgs(call->writes, written, nullptr) : nullptr;
    Py_XDECREF(number), Py_XDECREF(said);
    return !PyErr_Occurred() && execute(call->plan, source.data, target.data, threads_of(threads));
}

PyObject* call_again(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 2) return PyErr_SetString(PyExc_TypeError, "again(source, target)"), nullptr;
    const Call* call = reinterpret_cast<Call*>(self);
    bool makes = args[1] == Py_None, is_done = false;
    if (makes != !!call->make) Py_RETURN_NONE;
    if (!makes && reinterpret_cast<PyObject*>(Py_TYPE(args[1])) != call->target.type) Py_RETURN_NONE;
    if (!makes && !call->tensors && !owns_memory(args[1])) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_NONE;
    }
    View source, target;
    PyObject* written = nullptr;
    if (is_known(call, call->source, args[0], false, PyBUF_STRIDED_RO, source)) {
        written = makes ? PyObject_Call(call->make, call->arguments, call->words) : Py_NewRef(args[1]);
        if (!written) unanswered();
    }
    if (written && is_known(call, call->target, written, makes, PyBUF_STRIDED, target)) is_done = move_apart(call, source, target, written);
    source.close(), target.close();
    if (is_done) return written;
    Py_XDECREF(written);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

// DLPack's table of a library, and (function, its argument in a tuple, or None for the tensor, answer) of each question.
PyObject* tensors_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *capsule, *questions;
    if (!PyArg_ParseTuple(args, "OO!:Tensors", &capsule, &PyTuple_Type, &questions)) return nullptr;
    const Exchange* exchange = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    if (!exchange) return nullptr;
    while (exchange && exchange->major != 1) exchange = exchange->older;
    if (!exchange || !exchange->show) return PyErr_SetString(PyExc_ValueError, "the library shows no tensors by DLPack 1"), nullptr;
    Tensors* self = reinterpret_cast<Tensors*>(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
    if (!self) return nullptr;
    self->exchange = exchange, self->kept = Py_NewRef(questions), self->count = PyTuple_Size(questions);
    bool ok = self->count <= MOST_QUESTIONS;
    for (Py_ssize_t k = 0; ok && k < self->count; k++) {
        Question& q = self->questions[k];
        PyObject* arguments;
        ok = PyArg_ParseTuple(PyTuple_GetItem(questions, k), "OOO", &q.function, &arguments, &q.answer);
        if (!ok) break;
        q.is_of_tensor = arguments == Py_None;
        if (!q.is_of_tensor && PyTuple_Check(arguments) && PyTuple_Size(arguments)) q.argument = PyTuple_GetItem(arguments, 0);
    }
    if (!ok) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "at most %d questions", MOST_QUESTIONS);
        Py_DECREF(self);
        return nullptr;
    }
    return reinterpret_cast<PyObject*>(self);
}

void tensors_free(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Py_XDECREF(reinterpret_cast<Tensors*>(self)->kept);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject* tensors_are_plain(PyObject* self, PyObject* tensor) {
    bool found = is_plain(reinterpret_cast<Tensors*>(self), tensor);
    return PyErr_Occurred() ? nullptr : PyBool_FromLong(found);
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
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plan_call)), METH_FASTCALL,
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
PyType_Spec plan_spec = {"gpulayout.cpu._native.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

PyMethodDef call_methods[] = {
    {"again", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_again)), METH_FASTCALL,
     "again(source, target)\n--\n\nMove between arrays that say what those of the call said, and lie apart; return the target.  Else None.  A target of None is made."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot call_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(call_free)}, {Py_tp_methods, call_methods}, {0, nullptr}};
PyMethodDef tensors_methods[] = {
    {"are_plain", tensors_are_plain, METH_O, "are_plain(tensor)\n--\n\nWhether the answers of a tensor are those of plain memory."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot tensors_slots[] = {
    {Py_tp_doc, const_cast<char*>("Tensors(exchange, questions)\n--\n\nHow tensors are opened: DLPack's table, and (function, arguments or None for the tensor, answer) of each question.")},
    {Py_tp_new, reinterpret_cast<void*>(tensors_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(tensors_free)},
    {Py_tp_methods, tensors_methods},
    {0, nullptr},
};
PyType_Spec tensors_spec = {"gpulayout.cpu._native.Tensors", sizeof(Tensors), 0, Py_TPFLAGS_DEFAULT, tensors_slots};
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

// --------------------------------------------------------------------------------------------------------- runs of files

// read_runs, or write_runs if there are tails.  Buffers are closed as in `View`.
PyObject* move_runs(PyObject* args, bool writes) {
    int file, around = -1, has_tails = 0, keeps_tails = 0;
    PyObject *memory, *places, *tails = nullptr;
    long long length;
    if (writes ? !PyArg_ParseTuple(args, "iOOLOpp:write_runs", &file, &memory, &places, &length, &tails, &has_tails, &keeps_tails)
               : !PyArg_ParseTuple(args, "iiOOL:read_runs", &file, &around, &memory, &places, &length))
        return nullptr;
    Py_buffer bytes{}, starts{}, kept{};
    bool is_open = !PyObject_GetBuffer(memory, &bytes, writes ? PyBUF_SIMPLE : PyBUF_WRITABLE) && !PyObject_GetBuffer(places, &starts, PyBUF_SIMPLE) &&
                   (!writes || !PyObject_GetBuffer(tails, &kept, PyBUF_WRITABLE));
    int64_t count = starts.len / 8, needed, done = -1;
    if (is_open && (length < 1 || __builtin_mul_overflow(count, length, &needed) || needed > bytes.len || (keeps_tails && length < gl_page()) ||
                    ((has_tails || keeps_tails) && count > kept.len / gl_page())))
        PyErr_SetString(PyExc_ValueError, "memory has all runs and tails a page for each; runs that keep tails are as long as a page");
    else if (is_open) {
        char* first = static_cast<char*>(bytes.buf);
        const int64_t* each = static_cast<const int64_t*>(starts.buf);
        PyThreadState* state = PyEval_SaveThread();
        done = writes ? gl_write_runs(file, first, each, count, length, static_cast<char*>(kept.buf), has_tails, keeps_tails)
                      : gl_read_runs(file, around, first, each, count, length);
        PyEval_RestoreThread(state);
    }
    PyBuffer_Release(&bytes), PyBuffer_Release(&starts), PyBuffer_Release(&kept);
    return done < 0 ? nullptr : PyLong_FromLongLong(done);
}

PyObject* read_runs(PyObject*, PyObject* args) { return move_runs(args, false); }
PyObject* write_runs(PyObject*, PyObject* args) { return move_runs(args, true); }

PyMethodDef methods[] = {
    {"read_runs", read_runs, METH_VARARGS,
     "read_runs(descriptor, around, memory, places, length)\n--\n\nFill memory with runs at these places (int64) of a file.  Returns how many could be read.\n\n"
     "around: another descriptor of the file, around the page cache, or -1."},
    {"write_runs", write_runs, METH_VARARGS,
     "write_runs(descriptor, memory, places, length, tails, has_tails, keeps_tails)\n--\n\nWrite runs of memory to these places of a file.  Returns how many could be written.\n\n"
     "tails: a page for each run; it has what is written before the run, and keeps what the run leaves for the next one."},
    {"set_caches", set_caches, METH_VARARGS, "set_caches(first, second, third)\n--\n\nBytes of the caches, for plans made from now on."},
    {"instruction_sets", instruction_sets, METH_NOARGS, "instruction_sets()\n--\n\nThose of this machine, best last."},
    {"use", use, METH_O, "use(number)\n--\n\nThe instruction set of plans made from now on."},
    {nullptr, nullptr, 0, nullptr},
};

int add_plan(PyObject* module) {
    const std::pair<PyObject**, const char*> names[] = {
        {&dtype_name, "dtype"}, {&base_name, "base"}, {&storage_name, "untyped_storage"}, {&nbytes_name, "nbytes"}, {&offset_name, "storage_offset"}};
    for (auto& [name, text] : names)
        if (!(*name = PyUnicode_InternFromString(text))) return -1;
    PyObject* plan_type = PyType_FromSpec(&plan_spec);
    PyObject* tensors_type = PyType_FromSpec(&tensors_spec);
    call_type = PyType_FromSpec(&call_spec);
    if (!plan_type || !tensors_type || !call_type) return -1;
    int failed = PyModule_AddObjectRef(module, "Plan", plan_type) || PyModule_AddObjectRef(module, "Tensors", tensors_type) ? -1 : 0;
    Py_DECREF(plan_type), Py_DECREF(tensors_type);
    return failed;
}
PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(add_plan)}, {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "gpulayout.cpu._native", "Strided moves in C++.", 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
