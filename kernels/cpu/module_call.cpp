// Calls that passed before: what two arrays said of themselves that had passed all checks of a call.  Arrays that say the
// same, and lie apart, are moved without the checks.
#include "module.h"

#include <array>

namespace gpulayout_module {
namespace {

constexpr int MOST_DIMENSIONS = 8, MOST_QUESTIONS = 16;  // of arrays that are recognised

// False, without an exception: a question that cannot be answered.  An interrupt stays.
bool unanswered() {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return false;
}

// --------------------------------------------------------------------------------------------------------------- tensors

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

// How tensors are asked whether they are plain memory: arrays/torch_tensors.py has the questions.
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

// DLPack's table of a library, and (function, its argument in a tuple, or None for the tensor, answer) of each question.
PyObject* tensors_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *capsule, *questions;
    if (!PyArg_ParseTuple(args, "OO!:Tensors", &capsule, &PyTuple_Type, &questions)) return nullptr;
    const Exchange* exchange = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    if (!exchange) return nullptr;
    while (exchange && exchange->major != 1) exchange = exchange->older;
    if (!exchange || !exchange->show) return PyErr_SetString(PyExc_ValueError, "the library shows no tensors by DLPack 1"), nullptr;
    Tensors* self = made<Tensors>(reinterpret_cast<PyObject*>(type));
    if (!self) return nullptr;
    self->exchange = exchange, self->kept = Py_NewRef(questions), self->count = PyTuple_Size(questions);
    bool ok = self->count <= MOST_QUESTIONS;
    for (Py_ssize_t k = 0; ok && k < self->count; k++) {
        Question& q = self->questions[k];
        PyObject* arguments;
        PyObject* question = PyTuple_GetItem(questions, k);
        ok = PyTuple_Check(question) && PyArg_ParseTuple(question, "OOO", &q.function, &arguments, &q.answer);
        if (!ok) break;
        q.is_of_tensor = arguments == Py_None;
        if (!q.is_of_tensor && PyTuple_Check(arguments) && PyTuple_Size(arguments)) q.argument = PyTuple_GetItem(arguments, 0);
    }
    if (!ok) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "at most %d questions, each a tuple of three", MOST_QUESTIONS);
        Py_DECREF(self);
        return nullptr;
    }
    return reinterpret_cast<PyObject*>(self);
}

int tensors_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<Tensors*>(self)->kept);
    return 0;
}

void tensors_free(PyObject* self) {
    PyObject_GC_UnTrack(self);
    Py_XDECREF(reinterpret_cast<Tensors*>(self)->kept);
    free_object(self);
}

PyObject* tensors_are_plain(PyObject* self, PyObject* tensor) {
    bool found = is_plain(reinterpret_cast<Tensors*>(self), tensor);
    return PyErr_Occurred() ? nullptr : PyBool_FromLong(found);
}

// ------------------------------------------------------------------------------------------------------------------ facts

// What an array says of itself.
struct Facts {
    PyObject *type = nullptr, *dtype = nullptr;  // dtype: of NumPy's arrays
    uint32_t code = 0;                           // of tensors: DLPack's type
    int rank = 0;
    int64_t itemsize = 0, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];  // strides in bytes
    int64_t low = 0, high = 0;                   // bytes from the first element to the lowest, and to one past the highest
};

// An array that is open to be read or written, until it is closed: its memory stays where it is.  (Not by a destructor: when the
// process ends, a thread that waits for Python's lock is unwound without it.)
struct View {
    Py_buffer buffer{};  // of NumPy's arrays
    PyObject *dtype = nullptr, *storage = nullptr;  // storage: of tensors, which another thread may give another one
    char* data = nullptr;
    void close() {
        PyBuffer_Release(&buffer);  // nothing if it was not filled
        Py_XDECREF(dtype), Py_XDECREF(storage);
    }
};

struct Call {
    PyObject_HEAD
    const State* state;
    PlanObject* plan;
    Facts source, target;
    int64_t begins[2];  // bytes from the first element of each to where the plan begins
    PyObject *make, *arguments, *words;  // make(*arguments, **words) is a new target; nullptr: targets are given
    PyObject *writes, *threads;          // writes(target) comes before it is written, threads() of them may move; or nullptr
    Tensors* tensors;                    // nullptr: NumPy's arrays
    Parameters parameters;
};

template <typename Size> bool take_sizes(Facts& facts, int64_t rank, const Size* sizes, const Size* strides, int64_t step) {
    if (rank > MOST_DIMENSIONS) return false;
    facts.rank = int(rank);
    for (int k = 0; k < facts.rank; k++) facts.sizes[k] = sizes[k], facts.strides[k] = strides[k] * step;
    return true;
}

bool open_array(const State* state, PyObject* array, int flags, Facts& facts, View& view) {
    facts.dtype = view.dtype = PyObject_GetAttr(array, state->dtype);
    if (!view.dtype || PyObject_GetBuffer(array, &view.buffer, flags)) return unanswered();
    view.data = static_cast<char*>(view.buffer.buf), facts.itemsize = view.buffer.itemsize;
    return take_sizes(facts, view.buffer.ndim, view.buffer.shape, view.buffer.strides, 1);
}

bool show(const Tensors* tensors, PyObject* tensor, DLTensor& shown, char*& data) {
    if (tensors->exchange->show(tensor, &shown)) return unanswered();
    data = shown.data ? shown.data + shown.offset : nullptr;
    return data && shown.device == DLPACK_CPU;
}

bool open_tensor(const Tensors* tensors, PyObject* tensor, bool is_new, Facts& facts, View& view) {
    DLTensor shown{};
    if ((!is_new && !is_plain(tensors, tensor)) || !show(tensors, tensor, shown, view.data)) return false;
    facts.itemsize = shown.bits / 8;
    facts.code = shown.code | uint32_t(shown.bits) << 8 | uint32_t(shown.lanes) << 16;
    bool is_plain_type = shown.lanes == 1 && shown.bits % 8 == 0;
    bool has_strides = shown.strides || !shown.rank;  // older releases leave them out
    return is_plain_type && has_strides && take_sizes(facts, shown.rank, shown.sizes, shown.strides, facts.itemsize);
}

// is_new: the call has just made the array, in the state of the thread in which its source was plain.
bool opened(const Call* call, PyObject* array, bool is_new, int flags, Facts& facts, View& view) {
    facts.type = reinterpret_cast<PyObject*>(Py_TYPE(array));
    return call->tensors ? open_tensor(call->tensors, array, is_new, facts, view) : open_array(call->state, array, flags, facts, view);
}

// A tensor whose storage was resized shows more than it has.
bool has_storage(const State* state, PyObject* tensor, int64_t itemsize, int64_t needed, View& view) {
    view.storage = PyObject_CallMethodObjArgs(tensor, state->untyped_storage, nullptr);
    int64_t numbers[2];  // bytes of the storage; elements before the first one
    for (int k = 0; k < 2; k++) {
        PyObject* found = !view.storage ? nullptr : k ? PyObject_CallMethodObjArgs(tensor, state->storage_offset, nullptr)
                                                      : PyObject_CallMethodObjArgs(view.storage, state->nbytes, nullptr);
        bool is_number = found && as_number(found, numbers[k]);
        Py_XDECREF(found);
        if (!is_number) return unanswered();
    }
    return numbers[0] >= needed && numbers[1] <= (numbers[0] - needed) / itemsize;
}

bool is_known(const Call* call, const Facts& known, PyObject* array, bool is_new, int flags, View& view) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(array)) != known.type) return false;
    Facts facts;
    if (!opened(call, array, is_new, flags, facts, view) || facts.dtype != known.dtype || facts.code != known.code || facts.rank != known.rank) return false;
    for (int k = 0; k < known.rank; k++)
        if (facts.sizes[k] != known.sizes[k] || facts.strides[k] != known.strides[k]) return false;
    return !call->tensors || is_new || has_storage(call->state, array, known.itemsize, known.high, view);
}

// An array in memory of its own, or in that of an array of the same type: no map of a file, which another map could show at
// another address.
bool owns_memory(const State* state, PyObject* array, bool is_base = false) {
    PyObject* base = PyObject_GetAttr(array, state->base);
    if (!base) return unanswered();
    bool owns = base == Py_None || (!is_base && Py_TYPE(base) == Py_TYPE(array) && owns_memory(state, base, true));
    Py_DECREF(base);
    return owns;
}

bool take_facts(const Call* call, PyObject* array, Facts& known) {
    Facts facts;
    View view;
    bool is_open = opened(call, array, false, PyBUF_STRIDED_RO, facts, view);
    facts.high = facts.itemsize;
    for (int k = 0; is_open && k < facts.rank; k++) {
        int64_t reach, &side = facts.strides[k] < 0 ? facts.low : facts.high;
        is_open = facts.sizes[k] > 0 && !__builtin_mul_overflow(facts.sizes[k] - 1, facts.strides[k], &reach) && !__builtin_add_overflow(side, reach, &side);
    }
    if (is_open) known = facts, Py_INCREF(known.type), Py_XINCREF(known.dtype);
    view.close();
    return is_open;
}

// ------------------------------------------------------------------------------------------------------------------ calls

// Whether an open array is still where it was, after other code of Python ran.
bool stays(const Call* call, PyObject* array, const View& view) {
    DLTensor shown{};
    char* data;
    return !call->tensors || (show(call->tensors, array, shown, data) && data == view.data);
}

// Moves between arrays that are known, if they lie apart; true if it did.
bool move_apart(const Call* call, PyObject* read, const View& source, PyObject* written, const View& target) {
    if (source.data + call->source.high > target.data + call->target.low && target.data + call->target.high > source.data + call->source.low) return false;
    int64_t threads = 1;
    if (call->threads) {
        PyObject* number = PyObject_CallNoArgs(call->threads);
        bool is_number = number && as_number(number, threads);
        Py_XDECREF(number);
        if (!is_number) return false;
    }
    if (call->writes) {
        PyObject* said = PyObject_CallFunctionObjArgs(call->writes, written, nullptr);
        if (!said) return false;
        Py_DECREF(said);
    }
    return stays(call, read, source) && stays(call, written, target) && execute(call->plan, source.data + call->begins[0], target.data + call->begins[1], call->parameters, threads);
}

PyObject* call_again(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 2) return PyErr_SetString(PyExc_TypeError, "again(source, target)"), nullptr;
    const Call* call = reinterpret_cast<Call*>(self);
    bool makes = args[1] == Py_None, is_done = false;
    if (makes != !!call->make) Py_RETURN_NONE;
    if (!makes && reinterpret_cast<PyObject*>(Py_TYPE(args[1])) != call->target.type) Py_RETURN_NONE;
    if (!makes && !call->tensors && !owns_memory(call->state, args[1])) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_NONE;
    }
    View source, target;
    PyObject* written = nullptr;
    if (is_known(call, call->source, args[0], false, PyBUF_STRIDED_RO, source)) {
        written = makes ? PyObject_Call(call->make, call->arguments, call->words) : Py_NewRef(args[1]);
        if (!written) unanswered();
    }
    if (written && is_known(call, call->target, written, makes, PyBUF_STRIDED, target)) is_done = move_apart(call, args[0], source, written, target);
    source.close(), target.close();
    if (is_done) return written;
    Py_XDECREF(written);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

std::array<PyObject*, 11> held_by(const Call* call) {
    return {reinterpret_cast<PyObject*>(call->plan), reinterpret_cast<PyObject*>(call->tensors), call->source.type, call->source.dtype,
            call->target.type, call->target.dtype, call->make, call->arguments, call->words, call->writes, call->threads};
}

int call_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    for (PyObject* held : held_by(reinterpret_cast<Call*>(self))) Py_VISIT(held);
    for (Py_buffer& buffer : reinterpret_cast<Call*>(self)->parameters.buffers) Py_VISIT(buffer.obj);
    return 0;
}

void call_free(PyObject* self) {
    PyObject_GC_UnTrack(self);
    for (PyObject* held : held_by(reinterpret_cast<Call*>(self))) Py_XDECREF(held);
    reinterpret_cast<Call*>(self)->parameters.close();
    free_object(self);
}

PyMethodDef call_methods[] = {
    {"again", as_method(call_again), METH_FASTCALL,
     "again(source, target)\n--\n\nMove between arrays that say what those of the call said, and lie apart; return the target.  Else None.  A target of None is made."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot call_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(call_traverse)},
    {Py_tp_dealloc, reinterpret_cast<void*>(call_free)},
    {Py_tp_methods, call_methods},
    {0, nullptr},
};
PyMethodDef tensors_methods[] = {
    {"are_plain", tensors_are_plain, METH_O, "are_plain(tensor)\n--\n\nWhether the answers of a tensor are those of plain memory."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot tensors_slots[] = {
    {Py_tp_doc, const_cast<char*>("Tensors(exchange, questions)\n--\n\nHow tensors are opened: DLPack's table, and (function, arguments or None for the tensor, answer) of each question.")},
    {Py_tp_new, reinterpret_cast<void*>(tensors_new)},
    {Py_tp_traverse, reinterpret_cast<void*>(tensors_traverse)},
    {Py_tp_dealloc, reinterpret_cast<void*>(tensors_free)},
    {Py_tp_methods, tensors_methods},
    {0, nullptr},
};

}  // namespace

// No Py_tp_clear: as in a tuple, what is in a cycle with them can be cleared, and they stay whole.
PyType_Spec tensors_spec = {"gpulayout.cpu._native.Tensors", sizeof(Tensors), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, tensors_slots};
PyType_Spec call_spec = {"gpulayout.cpu._native.Call", sizeof(Call), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, call_slots};

PyObject* plan_call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    const int parameters = reinterpret_cast<PlanObject*>(self)->parameters;
    if (count != 10 + parameters)
        return PyErr_Format(PyExc_TypeError, "call(source, target, make, arguments, words, tensors, writes, threads, source_offset, target_offset) and %d parameters", parameters);
    const State* state = state_of(self);
    if ((args[2] != Py_None && !PyTuple_Check(args[3])) || (args[4] != Py_None && !PyDict_Check(args[4])) ||
        (args[5] != Py_None && Py_TYPE(args[5]) != reinterpret_cast<PyTypeObject*>(state->types[TENSORS])))
        return PyErr_SetString(PyExc_TypeError, "arguments are a tuple, words a dict, tensors of the type Tensors"), nullptr;
    Call* call = made<Call>(state->types[CALL]);
    if (!call) return nullptr;
    auto kept = [&](int k) { return args[k] == Py_None ? nullptr : Py_NewRef(args[k]); };
    call->state = state, call->plan = reinterpret_cast<PlanObject*>(Py_NewRef(self));
    call->make = kept(2), call->arguments = kept(3), call->words = kept(4), call->tensors = reinterpret_cast<Tensors*>(kept(5));
    call->writes = kept(6), call->threads = kept(7);
    if (as_number(args[8], call->begins[0]) && as_number(args[9], call->begins[1]) && call->parameters.open(args + 10, parameters) && take_facts(call, args[0], call->source) && take_facts(call, args[1], call->target)) return reinterpret_cast<PyObject*>(call);
    Py_DECREF(call);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

}  // namespace gpulayout_module
