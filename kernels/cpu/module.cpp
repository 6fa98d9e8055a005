// The Python module of the native engine: its settings, and runs of files.
#include "module.h"

#include <utility>

#include "file_runs.h"
#include "index_program.h"

namespace gpulayout_module {
namespace {

constexpr int64_t MOST_CACHE = int64_t(1) << 40;

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
    bool is_aligned = reinterpret_cast<uintptr_t>(starts.buf) % sizeof(int64_t) == 0 && starts.len % Py_ssize_t(sizeof(int64_t)) == 0;
    if (is_open && (!is_aligned || length < 1 || __builtin_mul_overflow(count, length, &needed) || needed > bytes.len || (keeps_tails && length < gl_page()) ||
                    ((has_tails || keeps_tails) && count > kept.len / gl_page())))
        PyErr_SetString(PyExc_ValueError, "places are int64; memory has all runs, and tails a page for each; runs that keep tails are as long as a page");
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
    {"packed_plan", as_method(packed_plan), METH_VARARGS | METH_KEYWORDS,
     "packed_plan(axes, slots, start, source_bits, target_bits, source_big, target_big, pad)\n--\n\nA Plan of a packed move; see moves/packed_move.py."},
    {"convert_plan", as_method(convert_plan), METH_VARARGS | METH_KEYWORDS,
     "convert_plan(axes, source, target, steps, saturate, starts)\n--\n\nA Plan of a move whose elements change; axes are (extent, source stride, target "
     "stride, a stride for each parameter).\n\nTypes and steps are numbers as in kernels/convert.cuh."},
    {nullptr, nullptr, 0, nullptr},
};

// ------------------------------------------------------------------------------------------------------------- the module

int fill_module(PyObject* module) {
    State* state = static_cast<State*>(PyModule_GetState(module));
    const std::pair<PyObject**, const char*> names[] = {{&state->dtype, "dtype"},
                                                        {&state->base, "base"},
                                                        {&state->untyped_storage, "untyped_storage"},
                                                        {&state->nbytes, "nbytes"},
                                                        {&state->storage_offset, "storage_offset"}};
    for (auto& [name, text] : names)
        if (!(*name = PyUnicode_InternFromString(text))) return -1;
    PyType_Spec* const specs[] = {&plan_spec, &index_spec, &call_spec, &tensors_spec};
    for (int k = 0; k < 4; k++) {
        state->types[k] = PyType_FromModuleAndSpec(module, specs[k], nullptr);
        if (!state->types[k] || PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(state->types[k]))) return -1;
    }
    return 0;
}

int traverse_module(PyObject* module, visitproc visit, void* arg) {
    for (PyObject* type : static_cast<State*>(PyModule_GetState(module))->types) Py_VISIT(type);
    return 0;
}

int clear_module(PyObject* module) {
    for (PyObject*& type : static_cast<State*>(PyModule_GetState(module))->types) Py_CLEAR(type);
    return 0;
}

void free_module(void* module) {
    State* state = static_cast<State*>(PyModule_GetState(static_cast<PyObject*>(module)));
    clear_module(static_cast<PyObject*>(module));
    for (PyObject* name : {state->dtype, state->base, state->untyped_storage, state->nbytes, state->storage_offset}) Py_XDECREF(name);
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill_module)}, {0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gpulayout.cpu._native", "Strided moves in C++.", sizeof(State), methods, slots, traverse_module, clear_module, free_module};

}  // namespace
}  // namespace gpulayout_module

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&gpulayout_module::definition); }
