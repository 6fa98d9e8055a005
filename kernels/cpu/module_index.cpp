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

constexpr int64_t HOLDS_LOCK = 32 << 10;  // bytes of a call that takes less time than to hand the lock over and back
constexpr int64_t MOST_THREADS = 1024;

struct IndexObject {
    PyObject_HEAD
    const Program* program;
};
const Program& program_of(PyObject* self) { return *reinterpret_cast<IndexObject*>(self)->program; }

// --------------------------------------------------------------------------------------------- a program from its tuples

// Calls with each item of a sequence.  False: with an exception.
template <class Use> bool each_item(PyObject* given, Use use) {
    for (Py_ssize_t k = 0, count = PySequence_Size(given); k < count; k++) {
        PyObject* one = PySequence_GetItem(given, k);
        bool ok = one && use(one);
        Py_XDECREF(one);
        if (!ok) return false;
    }
    return !PyErr_Occurred();
}

// An item of a tuple, a number or None; weights wrap.
int64_t number_of(PyObject* tuple, Py_ssize_t k) {
    PyObject* one = PyTuple_GetItem(tuple, k);
    return one == Py_None ? NONE : int64_t(PyLong_AsUnsignedLongLongMask(one));
}

// False: with an exception.
bool is_tuple(PyObject* given, Py_ssize_t count) {
    bool is = PyTuple_Check(given) && PyTuple_Size(given) == count;
    return is || (PyErr_SetString(PyExc_TypeError, "an instruction is (load, terms, bound, register, store, adds), see index_program.py"), false);
}

// Terms (register, divisor, weight), or quotients (divisor, weight).
bool read_quotients(PyObject* given, int has_register, std::vector<Quotient>& found) {
    return each_item(given, [&](PyObject* one) {
        if (!is_tuple(one, 2 + has_register)) return false;
        found.push_back({has_register ? number_of(one, 0) : NONE, number_of(one, has_register), uint64_t(number_of(one, 1 + has_register))});
        return !PyErr_Occurred();
    });
}

bool read_instruction(PyObject* given, Instruction& found) {
    if (!is_tuple(given, 6)) return false;
    found.load = number_of(given, 0), found.bound = number_of(given, 2), found.keep = number_of(given, 3), found.store = number_of(given, 4);
    return !PyErr_Occurred() && read_quotients(PyTuple_GetItem(given, 1), 1, found.terms) && read_quotients(PyTuple_GetItem(given, 5), 0, found.adds);
}

PyObject* index_new(PyTypeObject* type, PyObject* args, PyObject*) {
    const char* direction;
    PyObject* instructions;
    long long size, streamed;
    int bits;
    if (!PyArg_ParseTuple(args, "sOLiL:IndexProgram", &direction, &instructions, &size, &bits, &streamed)) return nullptr;
    static const char* const names[] = {"linearize", "delinearize", "convert_linear", "lookup"};
    const auto* name = std::find_if(names, names + 4, [&](const char* each) { return !std::strcmp(direction, each); });
    if (name == names + 4 || size < 0 || (bits != 32 && bits != 64))
        return PyErr_SetString(PyExc_ValueError, "a direction, a size from 0 on, and words of 32 or 64 bits"), nullptr;
    try {
        std::vector<Instruction> list;
        if (!each_item(instructions, [&](PyObject* one) { return list.emplace_back(), read_instruction(one, list.back()); })) return nullptr;
        std::unique_ptr<const Program> program = compiled(Direction(name - names), list, size, bits, streamed);
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

// work(threads, poll, about), without the lock if it takes long.  False: with an exception.
template <class Work> bool done(int64_t bytes, int64_t threads, Work work) {
    gl_result result;
    if (bytes <= HOLDS_LOCK)
        result = work(1, nullptr, nullptr);
    else {
        PyThreadState* state = PyEval_SaveThread();
        result = work(int(std::clamp<int64_t>(threads, 1, MOST_THREADS)), look, &state);
        PyEval_RestoreThread(state);
    }
    if (result == GL_NO_MEMORY) PyErr_NoMemory();
    return result == GL_DONE;  // a stopped call has the exception of a signal handler
}

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
    int dimensions = program.direction == LINEARIZE ? 2 : 1;
    if (view.ndim != dimensions || (dimensions == 2 && view.shape[0] < program.given)) return false;
    call.count = view.shape[dimensions - 1];
    call.given = {static_cast<const char*>(view.buf), dimensions == 2 ? program.given : 1, dimensions == 2 ? view.strides[0] : 0,
                  view.strides[dimensions - 1], view.itemsize, false};
    return true;
}

// False: with an exception.
bool convert_opened(const Program& program, const Opened& given, const Opened& result, bool writes, Conversion call, int64_t threads, int64_t& offender) {
    bool fits = program.direction != LOOK_UP && call.mode >= RAISE && call.mode <= MARK && given.has_integers() && open_given(given.view, program, call);
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
    if (!PyArg_ParseTuple(args, "OOiipy#i:look_up", &from, &to, &call.source_bits, &call.target_bits, &call.is_strided, &pad, &pad_size, &threads))
        return nullptr;
    const Program& program = program_of(self);
    auto is_size = [](int bits) { return bits > 0 && bits <= 128 && !(bits & (bits - 1)); };
    if (program.direction != LOOK_UP || !is_size(call.source_bits) || !is_size(call.target_bits) || pad_size > 16 ||
        pad_size != std::max({call.source_bits, call.target_bits, 8}) / 8)
        return PyErr_SetString(PyExc_ValueError, "a look-up, of elements of 1, 2, 4 bits or 1, 2, 4, 8, 16 bytes"), nullptr;
    std::memcpy(call.pad, pad, size_t(pad_size));
    Opened source(from, PyBUF_STRIDED_RO), target(source.is_open ? to : nullptr, PyBUF_STRIDED);
    call.source = static_cast<const char*>(source.view.buf), call.target = static_cast<char*>(target.view.buf);
    auto work = [&](int most, gl_poll poll, void* about) { return look_up(program, call, most, poll, about); };
    const bool is_done = target.is_open && done(program.size * (call.source_bits + call.target_bits) / 8, threads, work);
    source.close(), target.close();
    if (!is_done) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef index_methods[] = {
    {"convert", as_method(index_convert), METH_FASTCALL,
     "convert(given, result, mode, is_checked, threads)\n--\n\nConvert indices; the lowest position of one that cannot be converted, or None.\n\n"
     "result: None only checks; mode: 0 raises, 1 wraps, 2 clips, 3 marks."},
    {"look_up", index_look_up, METH_VARARGS,
     "look_up(source, target, source_bits, target_bits, is_strided, pad, threads)\n--\n\nWrite each place of the target."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot index_slots[] = {
    {Py_tp_doc, const_cast<char*>("IndexProgram(direction, instructions, size, bits, streamed)\n--\n\n"
                                  "A program of gpulayout/moves/index_program.py.\n\n"
                                  "streamed: coordinates of so many bytes are written around the caches.")},
    {Py_tp_new, reinterpret_cast<void*>(index_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(index_free)},
    {Py_tp_methods, index_methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec index_spec = {"gpulayout.cpu._native.IndexProgram", sizeof(IndexObject), 0, Py_TPFLAGS_DEFAULT, index_slots};

}  // namespace gpulayout_module
