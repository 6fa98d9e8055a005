// Plans of the native engine as Python's objects: of moves, with arithmetic or without, and of packed ones.
#include "module.h"

#include <algorithm>

#include "convert_move.h"
#include "packed_move.h"

namespace gpulayout_module {
namespace {

constexpr int MOST_AXES = 62;  // so many of two places have 2^62 elements: no move needs more
constexpr int MOST_NUMBERS = 3 + GL_MOST_PARAMETERS;  // of an axis

PyObject* refused(const char* why) { return PyErr_SetString(PyExc_ValueError, why), nullptr; }

// Axes, each a tuple of so many integers.  How many there are; -1: with an exception.
int read_axes(PyObject* given, Py_ssize_t count, int64_t (*axes)[MOST_NUMBERS]) {
    const Py_ssize_t rank = PySequence_Size(given);
    if (rank > MOST_AXES) return PyErr_Format(PyExc_ValueError, "at most %d axes, not %zd", MOST_AXES, rank), -1;
    for (Py_ssize_t k = 0; k < rank; k++) {
        PyObject* axis = PySequence_GetItem(given, k);
        if (!axis) return -1;
        bool ok = PyTuple_Check(axis) && PyTuple_Size(axis) == count;
        if (!ok) PyErr_Format(PyExc_TypeError, "an axis is a tuple of %zd integers, see choose_plan.py", count);
        for (Py_ssize_t i = 0; ok && i < count; i++) ok = as_number(PyTuple_GetItem(axis, i), axes[k][i]);
        Py_DECREF(axis);
        if (!ok) return -1;
    }
    return int(rank);
}

// Adds what an axis of n places covers to the bytes between a first and a last element.  False: they do not fit in 63 bits.
bool add_reach(int64_t n, int64_t stride, int64_t& reach) {
    int64_t way;
    return n < 2 || (!__builtin_mul_overflow(n, stride, &way) && way > INT64_MIN && !__builtin_add_overflow(reach, way < 0 ? -way : way, &reach));
}

// The axes (extent, bound, source stride, target stride) of elements of `size` bytes.
int read_loops(PyObject* given, int64_t size, gl_axis* axes) {
    int64_t rows[MOST_AXES][MOST_NUMBERS], bytes = size, read = size, written = size;
    const int rank = read_axes(given, 4, rows);
    for (int k = 0; k < rank; k++) {
        const auto [extent, bound, source, target] = axes[k] = {rows[k][0], rows[k][1], rows[k][2], rows[k][3]};
        if (bound < 0 || extent < bound) return refused("0 <= bound <= extent"), -1;
        if (__builtin_mul_overflow(bytes, extent ? extent : 1, &bytes) || !add_reach(bound, source, read) || !add_reach(extent, target, written))
            return refused("a move has fewer than 2^63 bytes"), -1;
    }
    return rank;
}

// ------------------------------------------------------------------------------------------------------------ kinds of plans

PyObject* truth(int64_t value) { return PyBool_FromLong(long(value)); }

PyObject* move_words(const void* plan) {
    gl_description d = gl_describe(static_cast<const gl_move*>(plan));
    return Py_BuildValue("{s:s,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:N,s:L,s:L}", "kernel", d.kernel, "element_bytes", d.element, "slot_bytes", d.slot,
                         "along_target", d.along_target, "along_source", d.along_source, "walked", d.walked, "boxes", d.boxes,
                         "scratch_bytes", d.scratch, "streams", truth(d.streams), "fills", d.fills, "most_threads", d.most_threads);
}
PyObject* packed_words(const void* plan) {
    gl_packed_description d = gl_packed_describe(static_cast<const gl_packed*>(plan));
    return Py_BuildValue("{s:L,s:L,s:L,s:N,s:L}", "most", d.most, "boxes", d.boxes, "scratch_bytes", d.scratch, "turns", truth(d.turns),
                         "most_threads", d.most_threads);
}
PyObject* convert_words(const void* plan) {
    gl_convert_description d = gl_convert_describe(static_cast<const gl_convert*>(plan));
    return Py_BuildValue("{s:L,s:L,s:L,s:N,s:N,s:N,s:L,s:L}", "boxes", d.boxes, "box", d.box, "run", d.run, "gathers", truth(d.gathers),
                         "scatters", truth(d.scatters), "streams", truth(d.streams), "scratch_bytes", d.scratch, "most_threads", d.most_threads);
}

}  // namespace

struct PlanKind {
    gl_result (*run)(const void* plan, const char* source, char* target, const void* const* parameters, int threads, gl_poll poll, void* about);
    PyObject* (*describe)(const void* plan);
    void (*free)(void* plan);
};

namespace {

const PlanKind MOVES = {[](const void* plan, const char* source, char* target, const void* const*, int threads, gl_poll poll, void* about) {
                            return gl_run(static_cast<const gl_move*>(plan), source, target, threads, poll, about);
                        },
                        move_words, [](void* plan) { gl_free(static_cast<gl_move*>(plan)); }};
const PlanKind PACKED = {[](const void* plan, const char* source, char* target, const void* const*, int threads, gl_poll poll, void* about) {
                             return gl_packed_run(static_cast<const gl_packed*>(plan), source, target, threads, poll, about);
                         },
                         packed_words, [](void* plan) { gl_packed_free(static_cast<gl_packed*>(plan)); }};
const PlanKind CONVERSIONS = {[](const void* plan, const char* source, char* target, const void* const* parameters, int threads, gl_poll poll, void* about) {
                                  return gl_convert_run(static_cast<const gl_convert*>(plan), source, target, parameters, threads, poll, about);
                              },
                              convert_words, [](void* plan) { gl_convert_free(static_cast<gl_convert*>(plan)); }};

// The object of a plan; nullptr, with an exception, where there is no memory for either.
PyObject* kept(PyObject* type, const PlanKind& kind, void* plan, int64_t bytes, int parameters = 0) {
    if (!plan) return PyErr_NoMemory();
    PlanObject* self = made<PlanObject>(type);
    if (!self) return kind.free(plan), nullptr;
    self->kind = &kind, self->plan = plan, self->bytes = bytes, self->parameters = parameters;
    return reinterpret_cast<PyObject*>(self);
}

PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject* words) {
    PyObject* given;
    long long size;
    const char* pad;
    Py_ssize_t pad_size;
    static const char* names[] = {"axes", "itemsize", "pad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, words, "OLy#:Plan", const_cast<char**>(names), &given, &size, &pad, &pad_size)) return nullptr;
    if (size < 1 || pad_size != size) return refused("the pad has the bytes of an element");
    gl_axis axes[MOST_AXES];
    const int rank = read_loops(given, size, axes);
    if (rank < 0) return nullptr;
    gl_move* plan = gl_plan(rank, axes, size, pad);
    return kept(reinterpret_cast<PyObject*>(type), MOVES, plan, plan ? gl_describe(plan).bytes : 0);
}

bool is_width(int bits) { return bits == 1 || bits == 2 || bits == 4 || bits == 8; }

// Whether runs of the first axis are whole bytes of a packed target with gaps, and axes without gaps have all places that are
// written.
bool is_whole(const gl_packed_move& move) {
    int64_t places = 1, per = 8 / move.target_bits;
    bool dense = true, whole = move.rank > 0 && move.axes[0].target == 1 && move.axes[0].extent % per == 0;
    for (int k = 0; k < move.rank; k++) {
        const gl_axis& a = move.axes[k];
        if (a.extent != 1 || a.bound != 1) dense &= a.target == places;
        if (k > 0) whole &= a.extent == 1 || a.target % per == 0;
        places *= a.extent;
    }
    return move.slots >= 0 && move.slots <= places && (dense || (move.slots == places && (per == 1 || whole)));
}

}  // namespace

PyObject* packed_plan(PyObject* module, PyObject* args, PyObject* words) {
    PyObject* given;
    long long slots, start;
    gl_packed_move move{};
    static const char* names[] = {"axes", "slots", "start", "source_bits", "target_bits", "source_big", "target_big", "pad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, words, "OLLiippb:packed_plan", const_cast<char**>(names), &given, &slots, &start, &move.source_bits,
                                     &move.target_bits, &move.source_big, &move.target_big, &move.pad))
        return nullptr;
    if (!is_width(move.source_bits) || !is_width(move.target_bits)) return refused("an element has 1, 2, 4 or 8 bits");
    if (start < 0 || start >= 8 / move.source_bits) return refused("a move begins in the first byte of its source");
    gl_axis axes[MOST_AXES];
    move.rank = read_loops(given, 8, axes), move.axes = axes, move.slots = slots, move.start = start;
    if (move.rank < 0) return nullptr;
    if (!is_whole(move)) return refused("gaps are whole bytes between runs of whole bytes; axes have all places");
    gl_packed* plan = gl_packed_plan(&move);
    return kept(static_cast<State*>(PyModule_GetState(module))->types[PLAN], PACKED, plan, plan ? gl_packed_describe(plan).bytes : 0);
}

PyObject* convert_plan(PyObject* module, PyObject* args, PyObject* words) {
    PyObject *given, *starts;
    gl_arithmetic arithmetic{};
    static const char* names[] = {"axes", "source", "target", "steps", "saturate", "starts", "swapped", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, words, "OIIIpO!|p:convert_plan", const_cast<char**>(names), &given, &arithmetic.source,
                                     &arithmetic.target, &arithmetic.steps, &arithmetic.saturate, &PyTuple_Type, &starts, &arithmetic.swapped))
        return nullptr;
    const int parameters = int(std::min<Py_ssize_t>(PyTuple_Size(starts), GL_MOST_PARAMETERS + 1));
    if (parameters > GL_MOST_PARAMETERS) return refused("too many parameters");
    for (int q = 0; q < parameters; q++)
        if (!as_number(PyTuple_GetItem(starts, q), arithmetic.starts[q])) return nullptr;
    for (unsigned left = arithmetic.steps; left; left >>= 5)
        if ((left & 7) > 5 || !(left & 7) || ((left & 7) != 5 && int(left >> 3 & 3) >= parameters))
            return refused("a step is one of five operations with one of the parameters");
    int64_t rows[MOST_AXES][MOST_NUMBERS] = {}, bytes = 8;
    gl_convert_axis axes[MOST_AXES];
    const int rank = read_axes(given, 3 + parameters, rows);
    if (rank < 0) return nullptr;
    for (int k = 0; k < rank; k++) {
        const int64_t* row = rows[k];
        if (row[0] < 1 || __builtin_mul_overflow(bytes, row[0], &bytes)) return refused("a move has 1 to 2^60 elements");
        axes[k] = {row[0], row[1], row[2], {row[3], row[4], row[5]}};
    }
    gl_convert* plan = gl_convert_plan(rank, axes, &arithmetic);
    const int64_t work = plan ? 2 * gl_convert_describe(plan).bytes : 0;  // arithmetic takes about twice the time of a move
    return kept(static_cast<State*>(PyModule_GetState(module))->types[PLAN], CONVERSIONS, plan, work, parameters);
}

// ------------------------------------------------------------------------------------------------------------------ methods

bool Parameters::open(PyObject* const* arrays, Py_ssize_t number) {
    for (; count < number; count++)
        if (PyObject_GetBuffer(arrays[count], &buffers[count], PyBUF_SIMPLE)) return false;
    return true;
}

void Parameters::close() {
    while (count) PyBuffer_Release(&buffers[--count]);
}

// In the main thread handlers of signals run, as between any two instructions of Python.
int look(void* state) {
    PyThreadState** kept = static_cast<PyThreadState**>(state);
    PyEval_RestoreThread(*kept);
    int raised = PyErr_CheckSignals();
    *kept = PyEval_SaveThread();
    return raised;
}

bool execute(const PlanObject* plan, const char* source, char* target, const Parameters& parameters, int64_t threads) {
    const void* values[GL_MOST_PARAMETERS] = {};
    for (int q = 0; q < parameters.count; q++) values[q] = parameters.buffers[q].buf;
    return done(plan->bytes, threads, [&](int most, gl_poll poll, void* about) { return plan->kind->run(plan->plan, source, target, values, most, poll, about); });
}

namespace {

PyObject* plan_run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    const PlanObject* plan = reinterpret_cast<PlanObject*>(self);
    if (count != 5 + plan->parameters)
        return PyErr_Format(PyExc_TypeError, "run(source, source_offset, target, target_offset, threads) and %d parameters", plan->parameters);
    int64_t source_offset, target_offset, threads;
    if (!as_number(args[1], source_offset) || !as_number(args[3], target_offset) || !as_number(args[4], threads)) return nullptr;
    Py_buffer source{}, target{};
    Parameters parameters;
    const bool is_open = !PyObject_GetBuffer(args[0], &source, PyBUF_STRIDED_RO) && !PyObject_GetBuffer(args[2], &target, PyBUF_STRIDED) &&
                         parameters.open(args + 5, plan->parameters);
    const bool is_done = is_open && execute(plan, static_cast<const char*>(source.buf) + source_offset, static_cast<char*>(target.buf) + target_offset, parameters, threads);
    PyBuffer_Release(&source), PyBuffer_Release(&target), parameters.close();
    if (!is_done) return nullptr;
    Py_RETURN_NONE;
}

PyObject* plan_describe(PyObject* self, PyObject*) {
    const PlanObject* plan = reinterpret_cast<PlanObject*>(self);
    return plan->kind->describe(plan->plan);
}

void plan_free(PyObject* self) {
    PlanObject* plan = reinterpret_cast<PlanObject*>(self);
    if (plan->plan) plan->kind->free(plan->plan);
    free_object(self);
}

PyMethodDef plan_methods[] = {
    {"run", as_method(plan_run), METH_FASTCALL,
     "run(source, source_offset, target, target_offset, threads, *parameters)\n--\n\nMove between two buffers; offsets are bytes from the first element of each.\n\n"
     "Parameters are contiguous arrays of f64 if a side is f64 or has integers of 32 or 64 bits, else of f32."},
    {"call", as_method(plan_call), METH_FASTCALL,
     "call(source, target, make, arguments, words, tensors, writes, threads, source_offset, target_offset, *parameters)\n--\n\nA call of these arrays, which passed all checks, or None.\n\n"
     "make(*arguments, **words) makes such a target, writes(target) comes before it is written, threads() is how many may move;\n"
     "tensors: how both are opened; offsets are bytes from the first element of each."},
    {"describe", plan_describe, METH_NOARGS, "describe()\n--\n\nWhat the plan does, as a dict."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot plan_slots[] = {
    {Py_tp_doc, const_cast<char*>("Plan(axes, itemsize, pad)\n--\n\nA move; axes are (extent, bound, source stride, target stride), minor first.\n\n"
                                  "packed_plan and convert_plan make those of other moves.")},
    {Py_tp_new, reinterpret_cast<void*>(plan_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(plan_free)},
    {Py_tp_methods, plan_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec plan_spec = {"gpulayout.cpu._native.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT, plan_slots};

}  // namespace gpulayout_module
