// Index conversions and look-up moves in C++: see index_program.cpp.
#pragma once
#include <memory>
#include <vector>

#include "strided_move.h"

namespace gpulayout {

constexpr int64_t NONE = INT64_MIN;

struct Quotient {  // number // divisor * weight; number: a register, or NONE, the given linear index
    int64_t number, divisor;
    uint64_t weight;  // modulo 2^64
};

// As in gpulayout/moves/index_program.py.
struct Instruction {
    int64_t load = NONE, bound = NONE, keep = NONE, store = NONE;
    std::vector<Quotient> terms, adds;
};

enum Direction { LINEARIZE, DELINEARIZE, CONVERT_LINEAR, LOOK_UP };
enum Mode { RAISE, WRAP, CLIP, MARK };

// given, results: rows of coordinates that it reads, and of results; size: places that a given linear index points into.
struct Program {
    Direction direction;
    int64_t given, results, size;
    virtual ~Program() = default;
};

// streamed: results of so many bytes are written around the caches.  std::invalid_argument: the instructions are no program.
std::unique_ptr<const Program> compiled(Direction direction, const std::vector<Instruction>& instructions, int64_t size, int bits, int64_t streamed);

struct Given {  // rows of integers of 1, 2, 4 or 8 bytes
    const char* at;
    int64_t rows, row, step;  // bytes from a row, and from an integer, to the next
    int64_t size;
    bool is_signed;
};

struct Conversion {
    Given given;
    char* result;  // rows of `count` integers without gaps; nullptr: only check
    int64_t result_size, count;
    Mode mode;
    bool is_checked;  // all indices are in the buffer and, with RAISE, no padding
};

// offender: the lowest position of an index that cannot be converted, or -1.
gl_result convert(const Program& program, const Conversion& call, int threads, gl_poll poll, void* about, int64_t& offender);

struct LookUp {  // see gpulayout/moves/lookup_move.py
    const char* source;  // the first element of each side
    char* target;
    int source_bits, target_bits;
    int is_strided;  // the target has strides of its own
    char pad[16];
};

gl_result look_up(const Program& program, const LookUp& call, int threads, gl_poll poll, void* about);

}  // namespace gpulayout
