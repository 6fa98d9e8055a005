// Plans of moves whose elements change on the way as Python's objects.
#include "module.h"

#include <algorithm>

#include "convert_move.h"

namespace gpulayout_module {
namespace {

constexpr int64_t HOLDS_LOCK = 16 << 10;  // bytes written by a move that takes less time than to hand the lock over and back
constexpr int MOST_AXES = 62;
constexpr int64_t MOST_THREADS = 1024;

struct ConvertObject {
    PyObject_HEAD
    gl_convert* plan;
    int64_t bytes;
    int parameters;
};

// Integers of a sequence.  Their number; -1: with an exception.
Py_ssize_t read_numbers(PyObject* given, int64_t* numbers, Py_ssize_t most) {
    Py_ssize_t count = PySequence_Size(given);
    if (count > most) return PyErr_Format(PyExc_ValueError, "at most %zd numbers, not %zd", most, count), -1;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject* number = PySequence_GetItem(given, k);
        bool ok = number && as_number(number, numbers[k]);
        Py_XDECREF(number);
        if (!ok) return -1;
    }
    return count;
}

// The number of axes; -1: with an exception.
Py_ssize_t read_axes(PyObject* given, gl_convert_axis* axes, Py_ssize_t parameters) {
    Py_ssize_t rank = PySequence_Size(given);
    if (rank > MOST_AXES) return PyErr_Format(PyExc_ValueError, "at most %d axes, not %zd", MOST_AXES, rank), -1;
    int64_t bytes = 8;
    for (Py_ssize_t k = 0; k < rank; k++) {
        PyObject* axis = PySequence_GetItem(given, k);
        int64_t numbers[3 + GL_MOST_PARAMETERS] = {};
        Py_ssize_t count = axis ? read_numbers(axis, numbers, 3 + GL_MOST_PARAMETERS) : -1;
        Py_XDECREF(axis);
        if (count < 0) return -1;
        if (count != 3 + parameters || numbers[0] < 1 || __builtin_mul_overflow(bytes, numbers[0], &bytes))
            return PyErr_SetString(PyExc_ValueError, "an axis is (extent, source stride, target stride, a stride for each parameter); "
                                                     "a move has 1 to 2^60 elements"), -1;
        axes[k] = {numbers[0], numbers[1], numbers[2], {numbers[3], numbers[4], numbers[5]}};
    }
    return rank;
}

PyObject* convert_new(PyTypeObject* type, PyObject* args, PyObject* words) {
    PyObject *given, *starts;
    gl_arithmetic arithmetic{};
    static const char* names[] = {"axes", "source", "target", "steps", "saturate", "starts", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, words, "OIIIpO:Convert", const_cast<char**>(names), &given, &arithmetic.source, &arithmetic.target,
                                     &arithmetic.steps, &arithmetic.saturate, &starts))
        return nullptr;
    gl_convert_axis axes[MOST_AXES];
    Py_ssize_t parameters = read_numbers(starts, arithmetic.starts, GL_MOST_PARAMETERS);
    Py_ssize_t rank = parameters < 0 ? -1 : read_axes(given, axes, parameters);
    if (rank < 0) return nullptr;
    for (unsigned left = arithmetic.steps; left; left >>= 5)
        if ((left & 7) > 5 || !(left & 7) || ((left & 7) != 5 && int(left >> 3 & 3) >= parameters))
            return PyErr_SetString(PyExc_ValueError, "a step is one of five operations with one of the parameters"), nullptr;
    ConvertObject* self = made<ConvertObject>(reinterpret_cast<PyObject*>(type));
    if (!self) return nullptr;
    self->plan = gl_convert_plan(int(rank), axes, &arithmetic);
    if (!self->plan) return Py_DECREF(self), PyErr_NoMemory();
    self->bytes = gl_convert_describe(self->plan).bytes, self->parameters = int(parameters);
    return reinterpret_cast<PyObject*>(self);
}

void convert_free(PyObject* self) {
    gl_convert_free(reinterpret_cast<ConvertObject*>(self)->plan);
    free_object(self);
}

// False: with an exception.
bool execute(const ConvertObject* self, const char* source, char* target, const void* const* parameters, int64_t threads) {
    gl_result result;
    if (self->bytes <= HOLDS_LOCK)
        result = gl_convert_run(self->plan, source, target, parameters, 1, nullptr, nullptr);
    else {
        PyThreadState* state = PyEval_SaveThread();
        result = gl_convert_run(self->plan, source, target, parameters, int(std::clamp<int64_t>(threads, 1, MOST_THREADS)), look, &state);
        PyEval_RestoreThread(state);
    }
    if (result == GL_NO_MEMORY) PyErr_NoMemory();
    return result == GL_DONE;
}

PyObject* convert_run(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    ConvertObject* self = reinterpret_cast<ConvertObject*>(object);
    int64_t source_offset, target_offset, threads;
    if (count != 6) return PyErr_SetString(PyExc_TypeError, "run(source, source_offset, target, target_offset, parameters, threads)"), nullptr;
    if (!as_number(args[1], source_offset) || !as_number(args[3], target_offset) || !as_number(args[5], threads)) return nullptr;
    if (PySequence_Size(args[4]) != self->parameters) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%d parameters, not %zd", self->parameters, PySequence_Size(args[4]));
        return nullptr;
    }
    Py_buffer buffers[2 + GL_MOST_PARAMETERS];
    const void* parameters[GL_MOST_PARAMETERS] = {};
    int opened = 0;
    bool done = !PyObject_GetBuffer(args[0], &buffers[opened], PyBUF_STRIDED_RO) && ++opened && !PyObject_GetBuffer(args[2], &buffers[opened], PyBUF_STRIDED) && ++opened;
    for (int q = 0; done && q < self->parameters; q++) {
        PyObject* values = PySequence_GetItem(args[4], q);
        done = values && !PyObject_GetBuffer(values, &buffers[opened], PyBUF_SIMPLE);
        Py_XDECREF(values);  // its buffer holds it
        if (done) parameters[q] = buffers[opened++].buf;
    }
    done = done && execute(self, static_cast<const char*>(buffers[0].buf) + source_offset, static_cast<char*>(buffers[1].buf) + target_offset, parameters, threads);
    while (opened) PyBuffer_Release(&buffers[--opened]);
    if (!done) return nullptr;
    Py_RETURN_NONE;
}

PyObject* convert_describe(PyObject* self, PyObject*) {
    gl_convert_description d = gl_convert_describe(reinterpret_cast<ConvertObject*>(self)->plan);
    return Py_BuildValue("{s:L,s:L,s:L,s:N,s:N,s:N,s:L,s:L}", "boxes", d.boxes, "box", d.box, "run", d.run, "gathers", PyBool_FromLong(long(d.gathers)),
                         "scatters", PyBool_FromLong(long(d.scatters)), "streams", PyBool_FromLong(long(d.streams)), "scratch_bytes", d.scratch,
                         "most_threads", d.most_threads);
}

PyMethodDef methods[] = {
    {"run", as_method(convert_run), METH_FASTCALL,
     "run(source, source_offset, target, target_offset, parameters, threads)\n--\n\nMove between two buffers; offsets are bytes from the first element of each.\n\n"
     "Parameters are contiguous arrays of f64 if a side is f64 or has integers of 32 or 64 bits, else of f32."},
    {"describe", convert_describe, METH_NOARGS, "describe()\n--\n\nWhat the plan does, as a dict."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Convert(axes, source, target, steps, saturate, starts)\n--\n\nA move whose elements change; axes are (extent, source stride, "
                                  "target stride, a stride for each parameter).\n\nTypes and steps are numbers as in kernels/convert.cuh.")},
    {Py_tp_new, reinterpret_cast<void*>(convert_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(convert_free)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec convert_spec = {"gpulayout.cpu._native.Convert", sizeof(ConvertObject), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace gpulayout_module
