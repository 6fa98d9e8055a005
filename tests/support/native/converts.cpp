// Random moves with arithmetic through the C interface of the native engine, compared with a loop over all elements.
//
//     converts SEED FIRST COUNT MOST_BYTES        does cases FIRST..FIRST+COUNT-1 of a seed
//
// What becomes of one element is asked of ../convert.cuh, with types at run time; other tests compare that with exact fractions.
// Here the places matter: both sides and all parameters lie against pages that nobody may touch, or anywhere between.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cases.h"
#include "convert_move.h"
#include "convert_words.h"
#include "memory.h"

#include "../convert.cuh"

namespace {

typedef unsigned long long Word;

unsigned real(unsigned special, unsigned bits, unsigned mantissa, unsigned bias) {
    return GPL_FLOAT | special << 3 | bits << 5 | mantissa << 12 | bias << 18;
}
unsigned whole(unsigned kind, unsigned bits) { return kind | bits << 5; }

const std::vector<unsigned> TYPES = {
    whole(GPL_BOOLEAN, 1), whole(GPL_SIGNED, 4), whole(GPL_UNSIGNED, 2), whole(GPL_SIGNED, 8), whole(GPL_UNSIGNED, 8), whole(GPL_SIGNED, 16),
    whole(GPL_UNSIGNED, 16), whole(GPL_SIGNED, 32), whole(GPL_UNSIGNED, 32), whole(GPL_SIGNED, 64), whole(GPL_UNSIGNED, 64),
    real(GPL_IEEE, 64, 52, 1023), real(GPL_IEEE, 32, 23, 127), real(GPL_IEEE, 16, 10, 15), real(GPL_IEEE, 16, 7, 127), real(GPL_NAN, 8, 3, 7),
    real(GPL_IEEE, 8, 2, 15), real(GPL_UNSIGNED_ZERO, 8, 3, 8), real(GPL_FINITE, 6, 2, 3), real(GPL_FINITE, 4, 1, 1), GPL_POWER | 8 << 5 | 127 << 18};
const std::vector<std::vector<unsigned>> STEPS = {{}, {}, {1}, {1, 2 | 1 << 3}, {4, 5, 2 | 1 << 3}, {3, 1 | 1 << 3}, {4, 3 | 1 << 3, 4 | 2 << 3}};

struct Change {
    std::vector<gl_convert_axis> axes;
    gl_arithmetic arithmetic{};
    int64_t from, to, number;  // bytes
    int parameters = 0;
    int64_t reach[GL_MOST_PARAMETERS] = {};  // values of each parameter
    int64_t second, third;
    int set, threads;

    Span span(int64_t gl_convert_axis::*stride, int64_t size) const {
        Span s;
        for (const gl_convert_axis& a : axes) ((a.*stride < 0) ? s.low : s.high) += (a.extent - 1) * (a.*stride);
        s.high += size;
        return s;
    }
    std::string text() const {
        std::string s = "types " + std::to_string(arithmetic.source) + " " + std::to_string(arithmetic.target) + " steps " + std::to_string(arithmetic.steps) +
                        (arithmetic.swapped ? " swapped" : "") + " set " + std::to_string(set) + " threads " + std::to_string(threads) + " axes";
        for (const gl_convert_axis& a : axes) {
            s += " (" + std::to_string(a.extent);
            for (int64_t stride : {a.source, a.target, a.parameters[0], a.parameters[1], a.parameters[2]}) s += ", " + std::to_string(stride);
            s += ")";
        }
        return s;
    }
};

int64_t bytes_of(unsigned type) { return std::max<int64_t>(1, int64_t(type >> 5 & 127) / 8); }
bool is_long(unsigned type) { return bytes_of(type) == 8 || (bytes_of(type) == 4 && (type & 7) != GPL_FLOAT); }

// Each parameter has a number for all, for each place along some axes, or for blocks of a split axis.
void draw_parameters(Change& c, Random& random) {
    for (int q = 0; q < c.parameters; q++) {
        int64_t step = 1;
        for (size_t k = 0; k < c.axes.size(); k++)
            if (random.one_in(3)) c.axes[k].parameters[q] = random.one_in(8) ? -step : step, step *= c.axes[k].extent;
        int64_t low = 0, high = 0;
        for (const gl_convert_axis& a : c.axes) (a.parameters[q] < 0 ? low : high) += (a.extent - 1) * a.parameters[q];
        c.arithmetic.starts[q] = -low, c.reach[q] = high - low + 1;
    }
}

// Elements in one row, and blocks of them that share values.
void draw_blocks(Change& c, int64_t places, Random& random) {
    const int64_t n = 2 + random.below(250), blocks = places / n + 1;
    c.axes = {{n, c.from, c.to, {}}, {blocks, n * c.from, n * c.to, {}}};
    for (int q = 0; q < c.parameters; q++) c.axes[1].parameters[q] = random.below(3), c.reach[q] = (blocks - 1) * c.axes[1].parameters[q] + 1;
}

Change drawn_change(const Run& run, uint64_t number) {
    Random random(run.seed * 1000003 + number);
    for (;;) {
        Change c;
        const auto some_type = [&] { return TYPES[size_t(random.below(int64_t(TYPES.size())))]; };
        c.arithmetic.source = some_type(), c.arithmetic.target = random.one_in(8) ? c.arithmetic.source : some_type();
        c.arithmetic.saturate = random.one_in(2);
        const std::vector<unsigned>& steps = STEPS[size_t(random.below(int64_t(STEPS.size())))];
        for (size_t k = 0; k < steps.size(); k++) {
            c.arithmetic.steps |= steps[k] << 5 * k;
            if (steps[k] != GPL_ROUND) c.parameters = std::max(c.parameters, int(steps[k] >> 3) + 1);
        }
        c.from = bytes_of(c.arithmetic.source), c.to = bytes_of(c.arithmetic.target);
        c.number = is_long(c.arithmetic.source) || is_long(c.arithmetic.target) ? 8 : 4;
        int rank = int(random.below(5)), style = int(random.below(5));
        std::vector<int64_t> extents(static_cast<size_t>(rank));
        int64_t places = 1, left = std::max<int64_t>(1, some_bytes(run, random) / std::max(c.from, c.to));
        for (int64_t& n : extents) n = std::min(std::max<int64_t>(left / places, 1), some_bound(random, style)), places *= n;
        std::vector<int> order = shuffled(rank, random);
        std::vector<int64_t> target = laid_out(extents, c.to, order, int(random.below(rank + 1)), random);
        if (random.one_in(2)) order = shuffled(rank, random);
        std::vector<int64_t> source = laid_out(extents, c.from, order, int(random.below(rank + 1)), random);
        for (int k = 0; k < rank; k++) {
            const size_t d = size_t(k);
            source[d] *= random.one_in(12) ? 0 : random.one_in(8) ? -1 : 1, target[d] *= random.one_in(8) ? -1 : 1;
            c.axes.push_back({extents[d], source[d], target[d], {}});
        }
        random.one_in(6) ? draw_blocks(c, left, random) : draw_parameters(c, random);
        c.second = random.of({1 << 8, 1 << 11, 1 << 14, 1 << 16, 1 << 20}), c.third = c.second < 1 << 14 ? 3 : 32 << 20;
        c.set = int(random.below(instruction_sets())), c.threads = int(1 + random.below(4));
        c.arithmetic.swapped = random.one_in(5);
        if (std::max(c.span(&gl_convert_axis::source, c.from).bytes(), c.span(&gl_convert_axis::target, c.to).bytes()) < ROOM - 2 * PAGE) return c;
    }
}

Word code_at(const char* at, int64_t bytes) {
    Word code = 0;
    std::memcpy(&code, at, size_t(bytes));
    return code;
}

// What becomes of an element whose parameters are at these places.
template <class W> Word changed(const Change& c, Word code, const char* const* values, const int64_t* at) {
    const GplType from = gpl_type(c.arithmetic.source);
    if (from.bits < 8) code &= gpl_ones<Word>(from.bits);
    if (from.kind == GPL_SIGNED) code = Word(int64_t(code << (64 - from.bits)) >> (64 - from.bits));
    return Word(gpl_converted<W>(W(code), from, gpl_type(c.arithmetic.target), c.arithmetic.saturate, c.arithmetic.steps, [&](unsigned q) {
        typename GplReal<W>::type value;
        std::memcpy(&value, values[q] + at[q] * int64_t(sizeof value), sizeof value);
        return value;
    }));
}

bool is_nan(Word code, unsigned number) {
    const GplType type = gpl_type(number);
    if (type.kind == GPL_POWER) return code == 255;
    if (type.kind != GPL_FLOAT || type.special == GPL_FINITE) return false;
    const Word all = gpl_ones<Word>(type.bits - 1), magnitude = code & all;
    return type.special == GPL_IEEE ? magnitude > all - (Word(1) << type.mantissa) : type.special == GPL_NAN ? magnitude == all : code == all + 1;
}

void check_elements(const Change& c, const char* source, char* found, char* want, const char* const* values) {
    std::vector<int64_t> at(c.axes.size());
    const bool is_wide = c.from == 8 || c.to == 8 || (c.arithmetic.steps && c.number == 8);
    for (;;) {
        int64_t from = 0, to = 0, places[GL_MOST_PARAMETERS];
        std::copy_n(c.arithmetic.starts, GL_MOST_PARAMETERS, places);
        for (size_t k = 0; k < at.size(); k++) {
            from += at[k] * c.axes[k].source, to += at[k] * c.axes[k].target;
            for (int q = 0; q < GL_MOST_PARAMETERS; q++) places[q] += at[k] * c.axes[k].parameters[q];
        }
        Word code = code_at(source + from, c.from);
        if (c.arithmetic.swapped) code = __builtin_bswap64(code) >> (64 - 8 * c.from);
        const Word is = code_at(found + to, c.to), all = c.to == 8 ? ~Word(0) : (Word(1) << 8 * c.to) - 1;
        const bool stays = c.arithmetic.source == c.arithmetic.target && !c.arithmetic.steps && (c.arithmetic.source & 7) != GPL_BOOLEAN;
        const GplType type = gpl_type(c.arithmetic.source);
        const Word wanted = (stays ? type.bits < 8 ? code & gpl_ones<Word>(type.bits) : code
                             : is_wide ? changed<Word>(c, code, values, places) : changed<unsigned>(c, code, values, places)) & all;
        const bool is_same = is == wanted || (!stays && is_nan(is, c.arithmetic.target) && is_nan(wanted, c.arithmetic.target));
        if (!is_same && (c.arithmetic.source & 7) != GPL_BOOLEAN)
            throw Failure{"from " + std::to_string(code) + " at " + std::to_string(from) + " comes " + std::to_string(is) + ", not " + std::to_string(wanted)};
        std::memcpy(want + to, found + to, size_t(c.to));
        size_t k = 0;
        for (; k < at.size() && ++at[k] == c.axes[k].extent; k++) at[k] = 0;
        if (k == at.size()) return;
    }
}

struct Rooms {
    Region sources, targets, parameters[GL_MOST_PARAMETERS];
};

void try_change(const Change& c, const Rooms& rooms, Random& random) {
    const Span from = c.span(&gl_convert_axis::source, c.from), to = c.span(&gl_convert_axis::target, c.to);
    const int64_t phase = random.below(60000);
    char *first = rooms.sources.place(from.bytes(), random), *low = rooms.targets.place(to.bytes(), random), *high = low + to.bytes();
    fill(first, from.bytes(), random.below(60000));
    if (c.from == 8 && c.to < 8 && random.one_in(2))  // integers next to halfway between two f32
        for (int64_t k = 0; k + 8 <= from.bytes(); k += 8) {
            const int64_t tie = ((random.below(1 << 24) | 1 << 24) * 2 + 1) * (int64_t(1) << 36) + random.below(3) - 1;
            std::memcpy(first + k, &tie, 8);
        }
    char* target = low - to.low;
    low -= rooms.targets.before(low), high += rooms.targets.after(high);
    fill(low, high - low, phase);
    std::vector<char> want(low, high);
    const char* values[GL_MOST_PARAMETERS] = {};
    for (int q = 0; q < c.parameters; q++) {
        char* at = rooms.parameters[q].place(c.reach[q] * c.number, random);
        at -= reinterpret_cast<uintptr_t>(at) % uintptr_t(c.number);  // parameters are aligned
        for (int64_t k = 0; k < c.reach[q]; k++) {
            const double value = double(random.below(2000) - 1000) / double(1 << random.below(12));
            const float single = float(value);
            std::memcpy(at + k * c.number, c.number == 8 ? static_cast<const void*>(&value) : &single, size_t(c.number));
        }
        values[q] = at;
    }
    gl_set_caches(1 << 15, c.second, c.third), gl_use(c.set);
    gl_convert* plan = gl_convert_plan(int(c.axes.size()), c.axes.data(), &c.arithmetic);
    if (!plan) throw Failure{"no plan"};
    const gl_result result = gl_convert_run(plan, first - from.low, target, reinterpret_cast<const void* const*>(values), c.threads, nullptr, nullptr);
    const gl_convert_description d = gl_convert_describe(plan);
    gl_convert_free(plan);
    if (result != GL_DONE) throw Failure{"result " + std::to_string(result)};
    check_elements(c, first - from.low, target, want.data() + (target - low), values);
    if (std::memcmp(low, want.data(), want.size())) throw Failure{"a byte between the elements of the target changed"};
    std::printf("kernel %s %s%s%s\n", gl_instruction_set(c.set), d.gathers ? "gathers" : "", d.scatters ? "scatters" : "", d.streams ? "streams" : "");
}

}  // namespace

int main(int count, char** words) {
    if (count != 5) return std::fprintf(stderr, "converts SEED FIRST COUNT MOST_BYTES\n"), 2;
    const Run run{std::strtoull(words[1], nullptr, 10), std::strtoll(words[4], nullptr, 10), false};
    const uint64_t first = std::strtoull(words[2], nullptr, 10), last = first + std::strtoull(words[3], nullptr, 10);
    Rooms rooms;
    for (uint64_t number = first; number < last; number++) try {
            Random random(run.seed * 7 + number);
            try_change(drawn_change(run, number), rooms, random);
        } catch (const Failure& failure) {
            return std::printf("WRONG: %s\n  case %llu: %s\n", failure.what.c_str(), static_cast<unsigned long long>(number), drawn_change(run, number).text().c_str()), 1;
        }
}
