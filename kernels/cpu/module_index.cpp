// Index programs of the native engine as Python's objects.
#include "module.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include "index_program.h"

namespace gpulayout_module {
namespace {

using namespace gpulayout;

struct IndexObject {
    PyObject_HEAD
    const Program* program;
};
const Program& program_of(PyObject* self) { return *reinterpret_cast<IndexObject*>(self)->program; }

// Calls of the constructor.  False: with an exception.
bool read_steps(PyObject* given, std::vector<Step>& steps) {
    for (Py_ssize_t k = 0, count = PySequence_Size(given); k < count; k++) {
        PyObject* one = PySequence_GetItem(given, k);
        Step s{};
        long long divisor, side, bound;
        unsigned long long weight;
        const bool is_tuple = one && PyTuple_Check(one);
        if (one && !is_tuple) PyErr_SetString(PyExc_TypeError, "a step is a tuple, see index.py");
        const bool ok = is_tuple && PyArg_ParseTuple(one, "iiiiLKLLp:step", &s.kind, &s.into, &s.base, &s.number, &divisor, &weight, &side, &bound, &s.checks);
        Py_XDECREF(one);
        if (!ok) return false;
        s.divisor = divisor, s.weight = weight, s.side = side, s.bound = bound;
        steps.push_back(s);
    }
    return !PyErr_Occurred();
}

PyObject* index_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* given;
    long long places;
    int bits;
    if (!PyArg_ParseTuple(args, "OiL:IndexProgram", &given, &bits, &places)) return nullptr;
    if (bits != 32 && bits != 64) return PyErr_SetString(PyExc_ValueError, "words of 32 or 64 bits"), nullptr;
    try {
        std::vector<Step> steps;
        if (!read_steps(given, steps)) return nullptr;
        std::unique_ptr<Program> program(new Program(compiled(std::move(steps), bits, places)));
        IndexObject* self = made<IndexObject>(reinterpret_cast<PyObject*>(type));
        if (self) self->program = program.release();
        return reinterpret_cast<PyObject*>(self);
    } catch (const std::invalid_argument& error) {
        return PyErr_SetString(PyExc_ValueError, error.what()), nullptr;
    } catch (const std::exception&) {
        return PyErr_NoMemory();
    }
}

void index_free(PyObject* self) {
    delete reinterpret_cast<IndexObject*>(self)->program;
    free_object(self);
}

// ---------------------------------------------------------------------------------------------------------------- calls

// A buffer, to be closed by hand as in `View`: the end of a daemon thread within a call runs destructors without the lock.
struct Opened {
    Py_buffer view{};
    bool is_open;
    Opened(PyObject* object, int flags) : is_open(object && !PyObject_GetBuffer(object, &view, flags)) {}
    void close() { PyBuffer_Release(&view); }
    // The letter of the elements in NumPy's format, after the order of their bytes.
    char letter() const { return view.format && *view.format ? view.format[std::strlen(view.format) - 1] : '?'; }
    bool has_integers() const { return std::strchr("bhilqBHILQ", letter()); }
    bool is_signed() const { return letter() >= 'a'; }
};

// The rows of what is given.  False: it has others.
bool open_given(const Py_buffer& view, const Program& program, Conversion& call) {
    const int last = view.ndim - 1;
    if ((last != 0 && last != 1) || (last ? view.shape[0] : 1) < program.given) return false;
    call.count = view.shape[last];
    call.given = {static_cast<const char*>(view.buf), program.given, last ? view.strides[0] : 0, view.strides[last], view.itemsize, false};
    return true;
}

// False: with an exception.
bool convert_opened(const Program& program, const Opened& given, const Opened& result, bool writes, Conversion call, int64_t threads, int64_t& offender) {
    bool fits = program.places < 0 && call.mode >= RAISE && call.mode <= MARK && given.has_integers() && open_given(given.view, program, call);
    call.given.is_signed = given.is_signed();
    if (writes) {
        call.result = static_cast<char*>(result.view.buf), call.result_size = result.view.itemsize;
        fits = fits && result.has_integers() && result.view.len / result.view.itemsize == program.results * call.count;
    }
    if (!fits) return PyErr_SetString(PyExc_ValueError, "arrays of integers that fit the program"), false;
    int64_t bytes = call.count * (call.given.rows * call.given.size + program.results * call.result_size);
    return done(bytes, threads, [&](int most, gl_poll poll, void* about) { return convert(program, call, most, poll, about, offender); });
}

PyObject* index_convert(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int64_t mode, checked, threads, offender = -1;
    if (count != 5) return PyErr_SetString(PyExc_TypeError, "convert(given, result, mode, is_checked, threads)"), nullptr;
    if (!as_number(args[2], mode) || !as_number(args[3], checked) || !as_number(args[4], threads)) return nullptr;
    const bool writes = args[1] != Py_None;
    Opened given(args[0], PyBUF_STRIDES | PyBUF_FORMAT);
    Opened result(given.is_open ? args[writes] : nullptr, PyBUF_FORMAT | (writes ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_STRIDES));
    const bool is_done = result.is_open && convert_opened(program_of(self), given, result, writes, {{}, nullptr, 1, 0, Mode(mode), checked != 0}, threads, offender);
    given.close(), result.close();
    if (!is_done) return nullptr;
    if (offender < 0) Py_RETURN_NONE;
    return PyLong_FromLongLong(offender);
}

PyObject* index_look_up(PyObject* self, PyObject* args) {
    PyObject *from, *to;
    LookUp call{};
    const char* pad;
    Py_ssize_t pad_size;
    int threads;
    if (!PyArg_ParseTuple(args, "OOiipppy#i:look_up", &from, &to, &call.source_bits, &call.target_bits, &call.source_big, &call.target_big,
                          &call.is_strided, &pad, &pad_size, &threads))
        return nullptr;
    const Program& program = program_of(self);
    auto is_size = [](int bits) { return bits > 0 && bits <= 128 && !(bits & (bits - 1)); };
    if (program.places < 0 || !is_size(call.source_bits) || !is_size(call.target_bits) || pad_size > 16 ||
        pad_size != std::max({call.source_bits, call.target_bits, 8}) / 8)
        return PyErr_SetString(PyExc_ValueError, "a look-up, of elements of 1, 2, 4 bits or 1, 2, 4, 8, 16 bytes"), nullptr;
    std::memcpy(call.pad, pad, size_t(pad_size));
    Opened source(from, PyBUF_STRIDED_RO), target(source.is_open ? to : nullptr, PyBUF_STRIDED);
    call.source = static_cast<const char*>(source.view.buf), call.target = static_cast<char*>(target.view.buf);
    auto work = [&](int most, gl_poll poll, void* about) { return look_up(program, call, most, poll, about); };
    const bool is_done = target.is_open && done(program.places * (call.source_bits + call.target_bits) / 8, threads, work);
    source.close(), target.close();
    if (!is_done) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef index_methods[] = {
    {"convert", as_method(index_convert), METH_FASTCALL,
     "convert(given, result, mode, is_checked, threads)\n--\n\nConvert indices; the lowest position of one that cannot be converted, or None.\n\n"
     "result: None only checks; mode: 0 raises, 1 wraps, 2 clips, 3 marks."},
    {"look_up", index_look_up, METH_VARARGS,
     "look_up(source, target, source_bits, target_bits, source_big, target_big, is_strided, pad, threads)\n--\n\n"
     "Write each place of the target."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot index_slots[] = {
    {Py_tp_doc, const_cast<char*>("IndexProgram(steps, bits, places)\n--\n\nSteps of gpulayout/cpu/index.py.\n\n"
                                  "places: that a look-up writes, else -1.")},
    {Py_tp_new, reinterpret_cast<void*>(index_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(index_free)},
    {Py_tp_methods, index_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec index_spec = {"gpulayout.cpu._native.IndexProgram", sizeof(IndexObject), 0, Py_TPFLAGS_DEFAULT, index_slots};

}  // namespace gpulayout_module
