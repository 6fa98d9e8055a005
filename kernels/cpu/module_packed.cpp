// Plans of packed moves as Python's objects.  They run, and are called again, as all plans.
#include "module.h"

namespace gpulayout_module {
namespace {

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

PyObject* refused(const char* why) { return PyErr_SetString(PyExc_ValueError, why), nullptr; }

PyObject* packed_new(PyTypeObject* type, PyObject* args, PyObject* words) {
    PyObject* given;
    long long slots, start;
    gl_packed_move move{};
    static const char* names[] = {"axes", "slots", "start", "source_bits", "target_bits", "source_big", "target_big", "pad", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, words, "OLLiippb:Packed", const_cast<char**>(names), &given, &slots, &start, &move.source_bits,
                                     &move.target_bits, &move.source_big, &move.target_big, &move.pad))
        return nullptr;
    if (!is_width(move.source_bits) || !is_width(move.target_bits)) return refused("an element has 1, 2, 4 or 8 bits");
    if (start < 0 || start >= 8 / move.source_bits) return refused("a move begins in the first byte of its source");
    gl_axis axes[MOST_AXES];
    Py_ssize_t rank = read_axes(given, 8, axes);
    if (rank < 0) return nullptr;
    move.rank = int(rank), move.axes = axes, move.slots = slots, move.start = start;
    if (!is_whole(move)) return refused("gaps are whole bytes between runs of whole bytes; axes have all places");
    gl_packed* plan = gl_packed_plan(&move);
    if (!plan) return PyErr_NoMemory();
    PlanObject* self = made<PlanObject>(reinterpret_cast<PyObject*>(type));
    if (!self) return gl_packed_free(plan), nullptr;
    self->packed = plan, self->bytes = gl_packed_describe(plan).bytes;
    return reinterpret_cast<PyObject*>(self);
}

PyObject* packed_describe(PyObject* self, PyObject*) {
    gl_packed_description d = gl_packed_describe(reinterpret_cast<PlanObject*>(self)->packed);
    return Py_BuildValue("{s:L,s:L,s:L,s:N,s:L}", "most", d.most, "boxes", d.boxes, "scratch_bytes", d.scratch, "turns",
                         PyBool_FromLong(long(d.turns)), "most_threads", d.most_threads);
}

PyMethodDef packed_methods[] = {
    {"run", as_method(plan_run), METH_FASTCALL, RUN_TEXT},
    {"call", as_method(plan_call), METH_FASTCALL, CALL_TEXT},
    {"describe", packed_describe, METH_NOARGS, "describe()\n--\n\nWhat the plan does, as a dict."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot packed_slots[] = {
    {Py_tp_doc, const_cast<char*>("Packed(axes, slots, start, source_bits, target_bits, source_big, target_big, pad)\n--\n\n"
                                  "A packed move; see moves/packed_move.py.")},
    {Py_tp_new, reinterpret_cast<void*>(packed_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(plan_free)},
    {Py_tp_methods, packed_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec packed_spec = {"gpulayout.cpu._native.Packed", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT, packed_slots};

}  // namespace gpulayout_module
