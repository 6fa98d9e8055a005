// What the parts of the Python module share: module.cpp makes it, module_plan.cpp has the plans, module_call.cpp recognises
// calls, module_index.cpp converts indices and looks places up.
// All use the limited API: one file for all Pythons from 3.11 on.
#pragma once
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "convert_move.h"
#include "strided_move.h"

namespace gpulayout_module {

enum { PLAN, INDEX_PROGRAM, CALL, TENSORS };

// Of one interpreter: a process can have several.
struct State {
    PyObject* types[4];  // Plan, ...
    PyObject *dtype, *base, *untyped_storage, *nbytes, *storage_offset;  // names of attributes
};

struct PlanKind;
struct PlanObject {
    PyObject_HEAD
    const PlanKind* kind;
    void* plan;
    int64_t bytes;  // of a plain move that takes about as long
    int parameters;
};

extern PyType_Spec plan_spec, index_spec, call_spec, tensors_spec;

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
template <class Function> PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Looks for signals, as `gl_poll`; about: where the state of the thread is, which does not hold the lock.
int look(void* about);

// work(threads, poll, about), without the lock if it takes longer than to hand it over and back.  False: with an exception, which
// is that of a signal handler if the work was stopped.
template <class Work> bool done(int64_t bytes, int64_t threads, Work work) {
    constexpr int64_t HOLDS_LOCK = 32 << 10, MOST_THREADS = 1024;
    gl_result result;
    if (bytes <= HOLDS_LOCK)
        result = work(1, nullptr, nullptr);
    else {
        PyThreadState* state = PyEval_SaveThread();
        result = work(int(threads < 1 ? 1 : threads < MOST_THREADS ? threads : MOST_THREADS), look, &state);
        PyEval_RestoreThread(state);
    }
    if (result == GL_NO_MEMORY) PyErr_NoMemory();
    return result == GL_DONE;
}

// The arrays of a plan's parameters, open until they are closed.
struct Parameters {
    Py_buffer buffers[GL_MOST_PARAMETERS]{};
    int count = 0;
    bool open(PyObject* const* arrays, Py_ssize_t number);  // false: with an exception
    void close();
};

// Moves, with at most so many threads.  False: with an exception.
bool execute(const PlanObject* plan, const char* source, char* target, const Parameters& parameters, int64_t threads);

PyObject* plan_call(PyObject* plan, PyObject* const* args, Py_ssize_t count);  // a method of plans
PyObject* packed_plan(PyObject* module, PyObject* args, PyObject* words);
PyObject* convert_plan(PyObject* module, PyObject* args, PyObject* words);

}  // namespace gpulayout_module
