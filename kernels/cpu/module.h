// What the parts of the Python module share: module.cpp makes it, module_plan.cpp, module_packed.cpp and module_convert.cpp have the
// plans, module_call.cpp recognises calls, module_index.cpp converts indices and looks places up.
// All use the limited API: one file for all Pythons from 3.11 on.
#pragma once
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "packed_move.h"
#include "strided_move.h"

namespace gpulayout_module {

// Of one interpreter: a process can have several.
struct State {
    PyObject *call_type, *tensors_type;
    PyObject *dtype, *base, *untyped_storage, *nbytes, *storage_offset;  // names of attributes
};

// A Plan or a Packed: one of both is there.
struct PlanObject {
    PyObject_HEAD
    gl_move* move;
    gl_packed* packed;
    int64_t bytes;
};

extern PyType_Spec plan_spec, packed_spec, convert_spec, index_spec, call_spec, tensors_spec;

// The state of the module that an object's type belongs to.
inline State* state_of(PyObject* object) { return static_cast<State*>(PyType_GetModuleState(Py_TYPE(object))); }

// An object of a type, zeroed.  nullptr: with an exception.
template <class Object> Object* made(PyObject* type) {
    PyTypeObject* exact = reinterpret_cast<PyTypeObject*>(type);
    return reinterpret_cast<Object*>(reinterpret_cast<allocfunc>(PyType_GetSlot(exact, Py_tp_alloc))(exact, 0));
}

// The end of `Py_tp_dealloc`.
inline void free_object(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

// False: with an exception.
inline bool as_number(PyObject* object, int64_t& number) {
    number = PyLong_AsLongLong(object);
    return number != -1 || !PyErr_Occurred();
}

// For tables of methods.
inline PyCFunction as_method(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Looks for signals, as `gl_poll`; about: where the state of the thread is, which does not hold the lock.
int look(void* about);

// Moves, with at most so many threads.  False: with an exception.
bool execute(const PlanObject* plan, const char* source, char* target, int64_t threads);

// Methods of plans.
PyObject* plan_run(PyObject* plan, PyObject* const* args, Py_ssize_t count);
PyObject* plan_call(PyObject* plan, PyObject* const* args, Py_ssize_t count);
void plan_free(PyObject* plan);
inline constexpr const char* RUN_TEXT =
    "run(source, source_offset, target, target_offset, threads)\n--\n\nMove between two buffers; offsets are bytes from the first element of each.";
inline constexpr const char* CALL_TEXT =
    "call(source, target, make, arguments, words, tensors, writes, threads)\n--\n\nA call of these arrays, which passed all checks, or None.\n\n"
    "make(*arguments, **words) makes such a target, writes(target) comes before it is written, threads() is how many may move;\n"
    "tensors: how both are opened.";

constexpr int MOST_AXES = 62;  // so many of two places have 2^62 elements: no move needs more
// The number of axes of elements of `size` bytes; -1: with an exception.
Py_ssize_t read_axes(PyObject* given, int64_t size, gl_axis* axes);

}  // namespace gpulayout_module
