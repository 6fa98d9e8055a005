// Random steps of index conversions and look-ups through the C++ interface of the native engine, compared with a loop over all.
//
//     indices SEED FIRST COUNT MOST_INDICES       does cases FIRST..FIRST+COUNT-1 of a seed
//
// Arrays are memory of their own, exactly as long as they must be, so AddressSanitizer sees every byte beside them.  A case
// depends on the seed and its number only.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "index_program.h"

namespace {

using namespace gpulayout;
typedef __int128 Wide;

struct Random {
    uint64_t state;
    uint64_t word() {  // SplitMix64
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9, z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    int64_t below(int64_t n) { return int64_t(word() >> 1) % n; }
    bool one_in(int64_t n) { return below(n) == 0; }
    int64_t size(int bits) { return std::max<int64_t>(int64_t(word() >> (64 - bits + below(bits))), 1); }  // any number of digits
};

// `count` integers, each `step` bytes after the other.
struct Integers {
    int64_t size, step;
    bool is_signed;
    std::vector<char> bytes;
    int64_t first;  // byte
    char* at(int64_t k) { return bytes.data() + first + k * step; }
    void put(int64_t k, int64_t value) { std::memcpy(at(k), &value, size_t(size)); }
    Wide get(int64_t k) {
        uint64_t value = 0;
        std::memcpy(&value, at(k), size_t(size));
        const int above = int(64 - 8 * size);
        return is_signed ? Wide(int64_t(value << above) >> above) : Wide(value);
    }
};

Integers drawn_integers(Random& random, int64_t count, int64_t rows) {
    Integers made{int64_t(1) << random.below(4), 0, random.one_in(2), {}, random.one_in(2) ? 0 : random.below(70)};
    made.step = random.one_in(3) ? made.size + random.below(9) : made.size;
    made.bytes.resize(size_t(made.first + std::max<int64_t>((count * rows - 1) * made.step + made.size, 0)));
    return made;
}

struct Case {
    int bits, sides = 0, results = 0;
    int64_t count, first_outside = INT64_MAX;
    Mode mode;
    Integers given;
    std::vector<Step> steps;
    std::vector<std::vector<uint64_t>> rows, wanted;  // numbers of each row, of each result
    std::vector<bool> is_past;

    uint64_t word(uint64_t x) const { return bits == 32 ? uint32_t(x) : x; }
    uint64_t weight(Random& random) const { return random.one_in(2) ? word(random.word() >> random.below(64)) : random.one_in(3) ? word(-7) : 1; }
};

void add_load(Case& c, Random& random) {
    const int64_t highest = c.given.size == 8 ? INT64_MAX : (int64_t(1) << (8 * c.given.size - c.given.is_signed)) - 1, start = c.sides * c.count;
    const int64_t bound = random.size(63), most = std::min(bound - 1, highest);
    for (int64_t k = 0; k < c.count; k++) c.given.put(start + k, random.one_in(9) ? most : most ? random.below(most) : 0);
    for (int64_t left = random.one_in(2) && c.count ? random.below(4) : 0; left > 0; left--) {  // outside, if its type has such numbers
        const int64_t k = random.below(c.count);
        c.given.put(start + k, random.one_in(2) ? -1 - random.below(bound) : bound < INT64_MAX - 9 ? bound + random.below(9) : bound);
    }
    Step s{Step::LOAD, int(c.rows.size()), int(random.below(int64_t(c.rows.size()))), 0, 1, c.weight(random), c.sides, bound, 0, {}};
    std::vector<uint64_t> sums(size_t(c.count), 0);
    for (int64_t k = 0; k < c.count; k++) {
        Wide x = c.given.get(start + k);
        if (c.mode == WRAP) x = (x % bound + bound) % bound;
        else if (c.mode == CLIP) x = std::min<Wide>(std::max<Wide>(x, 0), bound - 1);
        else if (x < 0 || x >= bound) c.first_outside = std::min(c.first_outside, k);
        sums[size_t(k)] = c.word(c.rows[size_t(s.base)][size_t(k)] + uint64_t(x) * s.weight);
    }
    c.rows.push_back(sums), c.steps.push_back(s), c.sides++;
}

void add_sum(Case& c, Random& random) {
    const bool in_place = random.one_in(2) && c.steps.back().kind == Step::ADD;  // as sums of several quotients are
    const int base = in_place ? c.steps.back().into : int(random.below(int64_t(c.rows.size()))), into = in_place ? base : int(c.rows.size());
    const int64_t divisor = random.one_in(3) ? 1 : random.one_in(3) ? int64_t(1) << random.below(c.bits - 1) : random.size(c.bits - 1);
    Step s{Step::ADD, into, base, int(random.below(int64_t(c.rows.size()))), divisor, c.weight(random), 0, 0, 0, {}};
    if (in_place && s.number == into) s.number = 0;
    std::vector<uint64_t> sums(size_t(c.count), 0);
    for (size_t k = 0; k < sums.size(); k++) sums[k] = c.word(c.rows[size_t(base)][k] + c.rows[size_t(s.number)][k] / uint64_t(divisor) * s.weight);
    if (in_place) c.rows[size_t(into)] = sums;
    else c.rows.push_back(sums);
    c.steps.push_back(s);
}

void add_bound(Case& c, Random& random) {
    const int number = int(random.below(int64_t(c.rows.size())));
    const std::vector<uint64_t>& row = c.rows[size_t(number)];
    const uint64_t most = row.empty() ? 0 : *std::max_element(row.begin(), row.end());
    const int64_t bound = int64_t(std::min<uint64_t>(random.one_in(3) ? most : random.one_in(3) ? most / 2 : most + 1, c.bits == 32 ? UINT32_MAX : INT64_MAX));
    for (size_t k = 0; k < row.size(); k++) c.is_past[k] = c.is_past[k] || row[k] >= uint64_t(bound);
    c.steps.push_back({Step::PAST, 0, 0, number, 1, 1, 0, bound, 0, {}});
}

void add_result(Case& c, Random& random) {
    const int number = int(random.below(int64_t(c.rows.size())));
    c.steps.push_back({Step::STORE, 0, 0, number, 1, 1, c.results++, 0, 0, {}}), c.wanted.push_back(c.rows[size_t(number)]);
}

void tell_what_checks(Case& c) {
    std::vector<bool> needed(c.rows.size());
    for (size_t k = c.steps.size(); k--;) {
        Step& s = c.steps[k];
        s.checks = s.kind == Step::PAST || (s.kind != Step::STORE && needed[size_t(s.into)]);
        if (s.checks) needed[size_t(s.base)] = needed[size_t(s.number)] = true;
    }
}

Case drawn(Random& random, int64_t most) {
    Case c{random.one_in(2) ? 32 : 64, 0, 0, random.one_in(3) ? random.below(most) : random.below(600), INT64_MAX, Mode(random.below(4)), {}, {}, {}, {}, {}};
    const int64_t loads = 1 + random.below(3);
    c.given = drawn_integers(random, c.count, loads), c.is_past.resize(size_t(c.count)), c.rows.resize(1, std::vector<uint64_t>(size_t(c.count), 0));
    while (c.sides < loads) add_load(c, random);
    const bool has_bounds = c.mode == MARK || c.mode == RAISE;
    for (int64_t left = random.below(8); left >= 0; left--) {
        add_sum(c, random);
        if (has_bounds && random.one_in(4)) add_bound(c, random);
        if (random.one_in(5)) add_result(c, random);
    }
    add_result(c, random);
    tell_what_checks(c);
    return c;
}

// What a call gives that writes, or only checks.
bool gives(Case& c, Random& random, const Program& program, bool writes, bool is_checked, int64_t expected) {
    const int64_t size = int64_t(1) << random.below(4), bytes = c.results * c.count * size, start = random.below(100);
    std::vector<char> room(size_t(start + bytes + 64), 0x5c);
    const Given given{c.given.at(0), c.sides, c.count * c.given.step, c.given.step, c.given.size, c.given.is_signed};
    const Conversion call{given, writes ? room.data() + start : nullptr, size, c.count, c.mode, is_checked};
    int64_t offender = -2;
    if (convert(program, call, 1 + int(random.below(3)), nullptr, nullptr, offender) != GL_DONE || offender != expected) return false;
    std::vector<char> want(room.size(), 0x5c);
    if (writes && expected >= 0) return true;  // what stands before it is not said
    for (int64_t row = 0, place = start; writes && row < c.results; row++)
        for (int64_t k = 0; k < c.count; k++, place += size) {
            const uint64_t x = c.wanted[size_t(row)][size_t(k)];
            const int64_t value = c.mode == MARK && c.is_past[size_t(k)] ? -1 : c.bits == 32 ? int64_t(int32_t(x)) : int64_t(x);
            std::memcpy(want.data() + place, &value, size_t(size));
        }
    return room == want;
}

bool converts_right(Random& random, int64_t most) {
    Case c = drawn(random, most);
    gl_set_caches(32768, 0, random.one_in(2) ? 0 : int64_t(1) << 40);
    const Program program = compiled(c.steps, c.bits, -1);
    int64_t expected = c.first_outside;
    for (int64_t k = 0; c.mode == RAISE && k < std::min(c.count, expected); k++)
        if (c.is_past[size_t(k)]) expected = k;
    if (expected == INT64_MAX) expected = -1;
    const bool looks = c.mode == RAISE || c.mode == MARK;
    return (!looks || gives(c, random, program, false, false, expected)) && gives(c, random, program, true, false, expected) &&
           (expected >= 0 || !looks || gives(c, random, program, true, true, -1));
}

// Element place // divisor * step of a source, or a pad, to the same place of the target, or to one of its own.
bool looks_up_right(Random& random, int64_t most) {
    const int64_t count = random.below(most), divisor = 1 + random.below(40), bound = random.one_in(2) ? count : random.below(count + 1);
    const int packed = int(random.below(3)), bits = 1 << random.below(packed ? 3 : 5), bytes = packed ? 1 : bits;
    LookUp call{};
    call.source_bits = packed == 1 ? bits : 8 * bytes, call.target_bits = packed == 2 ? bits : 8 * bytes;
    call.is_strided = !packed && random.one_in(2);
    for (char& pad : call.pad) pad = packed ? 1 : char(random.below(256));
    const int64_t unit = packed == 1 ? 1 : bytes, step = unit * (1 + random.below(3)), stride = call.is_strided ? bytes * (1 + random.below(3)) : bytes;
    const int64_t last = count ? (count - 1) / divisor * step : 0, slots = 8 / std::min(call.source_bits, 8);
    std::vector<char> source(size_t(last / slots + bytes));
    for (char& byte : source) byte = char(packed == 2 ? random.below(1 << bits) : random.below(256));
    const int64_t length = !count ? 0 : packed == 2 ? (count * bits + 7) / 8 : (count - 1) * stride + bytes;
    std::vector<char> target(size_t(length), 0), want = target;
    for (int64_t k = 0; k < count; k++) {
        const int64_t from = k / divisor * step;
        const char slot = packed == 1 ? char(uint8_t(source[size_t(from / slots)]) >> from % slots * bits & ((1 << bits) - 1)) : 0;
        const char* element = k >= bound ? call.pad : packed == 1 ? &slot : &source[size_t(from)];
        if (packed == 2) want[size_t(k * bits / 8)] = char(want[size_t(k * bits / 8)] | *element << k * bits % 8);
        else std::memcpy(&want[size_t(k * stride)], element, size_t(bytes));
    }
    std::vector<Step> steps = {{Step::LOAD, 1, 0, 0, 1, 1, 0, INT64_MAX, 1, {}},           {Step::ADD, 2, 0, 1, divisor, uint64_t(step), 0, 0, 0, {}},
                               {Step::PAST, 0, 0, 1, 1, 1, 0, bound, 1, {}},               {Step::ADD, 3, 0, 1, 1, uint64_t(stride), 0, 0, 0, {}},
                               {Step::STORE, 0, 0, 2, 1, 1, 0, 0, 0, {}},                  {Step::STORE, 0, 0, 3, 1, 1, 1, 0, 0, {}}};
    if (bound == count && random.one_in(2)) steps.erase(steps.begin() + 2);
    const Program program = compiled(steps, random.one_in(2) ? 32 : 64, count);
    call.source = source.data(), call.target = target.data();
    return look_up(program, call, 1 + int(random.below(3)), nullptr, nullptr) == GL_DONE && target == want;
}

}  // namespace

int main(int count, char** args) {
    if (count != 5) return 2;
    int64_t seed = std::atoll(args[1]), first = std::atoll(args[2]), cases = std::atoll(args[3]), most = std::atoll(args[4]);
    int sets = 0, wrong = 0;
    while (gl_instruction_set(sets)) sets++;
    for (int64_t number = first; number < first + cases; number++) {
        Random random{uint64_t(seed) << 32 | uint64_t(number)};
        const int set = int(random.below(sets));
        gl_use(set);
        if (random.one_in(5) ? looks_up_right(random, most) : converts_right(random, most)) continue;
        std::printf("case %lld is wrong, with %s\n", static_cast<long long>(number), gl_instruction_set(set));
        if (++wrong == 5) break;
    }
    return wrong > 0;
}
