// Index conversions and look-up moves in C++: see index_program.cpp.
#pragma once
#include <memory>
#include <vector>

#include "strided_move.h"

namespace gpulayout {

// Exact division of words by multiplication, see `divisor_of`.
enum Division { NOTHING, SHIFT, MULTIPLY };
struct Divisor {
    Division way;
    int shift;  // MULTIPLY: beyond the width of a word
    uint64_t multiplier, plus;
};

// `RowStep` of gpulayout/cpu/index.py.
struct Step {
    enum Kind { LOAD, ADD, PAST, STORE };
    int kind, into, base, number;
    int64_t divisor;
    uint64_t weight;  // modulo 2^64
    int64_t side, bound;
    int checks;
    Divisor by;
};

enum Mode { RAISE, WRAP, CLIP, MARK };

struct IndexKernels;
struct Program {
    std::vector<Step> steps;
    int bits;
    int64_t places;  // that a look-up writes; -1: it is a conversion
    const IndexKernels* set;
    int rows;
    int64_t given, results;  // rows of what is given, and of results
};

// Fills in what the first three fields say.  std::invalid_argument: the steps are no program.
Program compiled(std::vector<Step> steps, int bits, int64_t places);

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
    int source_big, target_big;  // places of a byte of a packed side are counted from its highest bits
    int is_strided;  // the target has strides of its own
    char pad[16];
};

gl_result look_up(const Program& program, const LookUp& call, int threads, gl_poll poll, void* about);

}  // namespace gpulayout
