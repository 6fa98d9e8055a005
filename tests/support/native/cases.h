// Random moves for stress.cpp, and the slow loop that says what they write.
#ifndef GPULAYOUT_TEST_CASES_H
#define GPULAYOUT_TEST_CASES_H

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "strided_move.h"

namespace {

constexpr int64_t ROOM = 1 << 26, PAGE = 1 << 16;  // of each side; the largest page of any processor

// The generator gives the same numbers everywhere; the library's distributions do not.
struct Random {
    std::mt19937_64 engine;
    explicit Random(uint64_t seed) : engine(seed) {}
    int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
    bool one_in(int64_t n) { return below(n) == 0; }
    int64_t of(std::initializer_list<int64_t> list) { return list.begin()[below(int64_t(list.size()))]; }
};

// What a run of this program draws: moves of up to so many bytes or so, all of them of that size or only some.
struct Run {
    uint64_t seed;
    int64_t most;
    bool all_large;
    Run after(uint64_t more) const { return {seed + more, most, all_large}; }
};

int64_t some_bytes(const Run& run, Random& random) {
    return run.all_large ? run.most / (1 + random.below(4)) : std::min(run.most, random.of({200, 3000, 40000, run.most}));
}

struct Span {  // of the bytes from coordinate 0
    int64_t low = 0, high = 0;
    int64_t bytes() const { return high - low; }
};

struct Case {
    std::vector<gl_axis> axes;
    int64_t size = 1;
    std::vector<char> pad;
    int64_t second = 1 << 20, third = 32 << 20;
    int set = 0, threads = 1;

    Span span(bool of_source) const {
        Span s;
        for (const gl_axis& a : axes) {
            int64_t n = of_source ? a.bound : a.extent;
            if (!n) return {};
            int64_t reach = (n - 1) * (of_source ? a.source : a.target);
            (reach < 0 ? s.low : s.high) += reach;
        }
        s.high += size;
        return s;
    }
    bool is_empty(bool of_source) const {
        for (const gl_axis& a : axes)
            if (!(of_source ? a.bound : a.extent)) return true;
        return false;
    }
    std::string text() const {
        std::string s = "size " + std::to_string(size) + " set " + std::to_string(set) + " threads " + std::to_string(threads) +
                        " caches " + std::to_string(second) + " " + std::to_string(third) + " axes";
        for (const gl_axis& a : axes)
            s += " (" + std::to_string(a.extent) + ", " + std::to_string(a.bound) + ", " + std::to_string(a.source) + ", " +
                 std::to_string(a.target) + ")";
        return s;
    }
};

int instruction_sets() {
    int n = 0;
    while (gl_instruction_set(n)) n++;
    return n;
}

std::vector<int> shuffled(int n, Random& random) {
    std::vector<int> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    for (int k = n - 1; k > 0; k--) std::swap(all[size_t(k)], all[size_t(random.below(k + 1))]);
    return all;
}

int64_t some_bound(Random& random, int style) {
    if (style == 0) return random.of({2, 3, 4});
    if (style == 1) return random.of({2, 3, 4, 64, 128, 256, 512});
    return random.of({1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257, 1 + random.below(70),
                      1 + random.below(2000)});
}

// Strides that give every place its own bytes: axes in an order, each past all before it, with gaps perhaps, but not between
// the first `tight` ones.
std::vector<int64_t> laid_out(const std::vector<int64_t>& widths, int64_t size, const std::vector<int>& order, int tight, Random& random) {
    std::vector<int64_t> strides(widths.size());
    int64_t step = size, gaps = random.one_in(3) ? 1 + random.below(4) : 0;
    for (int d : order) {
        if (tight-- <= 0 && gaps) {
            if (random.one_in(2)) step += size * random.of({1, 1, 3, 16}) + (gaps == 2 ? random.below(2) : 0);
            if (gaps == 3) step = (step + 63) / 64 * 64;
            if (gaps == 4 && step > 500) step = (step + 1023) / 1024 * 1024;
        }
        strides[size_t(d)] = step, step *= std::max<int64_t>(widths[size_t(d)], 1);
    }
    return strides;
}

struct Loops {  // of a case that is being drawn
    std::vector<int64_t> bound, extent, source, target;
    size_t rank() const { return bound.size(); }
};

void add_padding(Loops& l, int64_t most_places, Random& random) {
    int64_t places = 1;
    for (int64_t n : l.bound) places *= n;
    l.extent = l.bound;
    if (!random.one_in(3)) return;
    for (int64_t& n : l.extent)
        if (random.one_in(3)) {
            int64_t more = random.of({1, 1, 2, 3, 5, 28, n}), all = places / n * (n + more);
            if (all <= most_places) places = all, n += more;
        }
}

// Anything.
Loops draw_any(int64_t size, const Run& run, Random& random) {
    Loops l;
    l.bound.resize(size_t(random.one_in(8) ? random.below(9) : 1 + random.below(5)));
    int style = int(random.below(5)), rank = int(l.rank());
    int64_t places = 1, left = std::max<int64_t>(1, some_bytes(run, random) / size);
    for (int64_t& n : l.bound) n = std::min(std::max<int64_t>(left / places, 1), some_bound(random, style)), places *= n;
    add_padding(l, 2 * left, random);
    if (rank && random.one_in(30)) l.bound[size_t(random.below(rank))] = 0;
    if (rank && random.one_in(100)) {
        size_t d = size_t(random.below(rank));
        l.bound[d] = l.extent[d] = 0;
    }
    l.source = laid_out(l.bound, size, shuffled(rank, random), 0, random);
    l.target = laid_out(l.extent, size, shuffled(rank, random), 0, random);
    if (random.one_in(20))
        for (int64_t& stride : l.source) stride = random.below(100) - 50;
    if (rank == 2 && random.one_in(3) && std::gcd(l.extent[0], l.extent[1]) == 1 && l.extent[0] > 1 && l.extent[1] > 1)
        l.target = {l.extent[1] * size, l.extent[0] * size};  // places of both axes alternate; each still has its own
    for (int64_t& stride : l.source) stride *= random.one_in(12) ? 0 : random.one_in(10) ? -1 : 1;
    return l;
}

// Two axes that turn, zip or unzip, and some more beside them or above them.
Loops draw_turned(int64_t size, const Run& run, Random& random) {
    int64_t kind = random.below(4), places = 1, left = std::max<int64_t>(1, some_bytes(run, random) / size);
    // One short of a vector: a vector that begins at the last place of this side ends an element past it.
    auto few = [&] { return size <= 2 && random.one_in(4) ? 16 / size - 1 : random.of({2, 3, 4, 2, 3, 4, 5, 6}); };
    auto many = [&] { return random.one_in(2) ? 2 + random.below(150) : random.of({7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 128, 256, 1500}); };
    Loops l;
    l.bound = {kind == 0 ? few() : many(), kind == 1 ? few() : many()};  // minor in the target; in the source
    std::vector<int> target{0}, source{1}, others;
    for (int k = 2, rank = 2 + int(random.below(4)); k < rank; k++) {
        l.bound.push_back(random.one_in(2) ? few() : 2 + random.below(40));
        int64_t where = random.below(4);
        others.push_back(k);
        if (where == 0) target.push_back(k), others.pop_back();
        if (where == 1) source.push_back(k), others.pop_back();
    }
    for (int64_t& n : l.bound) n = std::min(std::max<int64_t>(left / places, 1), n), places *= n;
    if (random.one_in(4)) add_padding(l, 2 * left, random);
    l.extent.resize(l.rank());
    for (size_t k = 0; k < l.rank(); k++) l.extent[k] = std::max(l.extent[k], l.bound[k]);
    int tight_target = int(target.size()), tight_source = int(source.size());
    auto rest = [&](std::vector<int>& order) {
        for (int d : shuffled(int(l.rank()), random))
            if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
    };
    if (random.one_in(2)) tight_target++, target.push_back(1);
    if (random.one_in(2)) tight_source++, source.push_back(0);
    rest(target), rest(source);
    l.source = laid_out(l.bound, size, source, tight_source, random);
    l.target = laid_out(l.extent, size, target, tight_target, random);
    for (int d : others) l.source[size_t(d)] *= random.one_in(12) ? 0 : random.one_in(10) ? -1 : 1;
    if (random.one_in(6)) l.source[1] = -l.source[1];
    return l;
}

// Places that lie evenly apart in the source: reversed, every other one, one for all; beside or above others.
Loops draw_steps(int64_t size, const Run& run, Random& random) {
    int64_t left = some_bytes(run, random) / size, n = std::max<int64_t>(std::min(2 + random.below(random.one_in(2) ? 300 : 3000), left), 2);
    int64_t step = size * random.of({-1, 2, 0, -1, 2, 0, 3, -2, 4}), apart = std::max<int64_t>(std::abs(step), size) * n;
    Loops l;
    l.bound = {n, 1 + random.below(random.one_in(2) ? 4 : std::max<int64_t>(left / n, 1))};
    l.extent = {n + (random.one_in(6) ? 1 + random.below(9) : 0), l.bound[1] + (random.one_in(6) ? 1 + random.below(9) : 0)};
    l.source = {step, (apart + size * random.below(3)) * random.of({1, 1, 1, -1, 0})};
    l.target = {size, (l.extent[0] + (random.one_in(3) ? random.below(20) : 0)) * size};
    if (random.one_in(3)) {
        l.bound.push_back(1 + random.below(4)), l.extent.push_back(l.bound[2]);
        l.source.push_back(random.one_in(2) ? 0 : std::abs(l.source[1]) * l.bound[1]), l.target.push_back(l.target[1] * l.extent[1]);
    }
    return l;
}

// Channels of short groups of places: without gaps in a group, with gaps between groups on the side where channels are minor.
Loops draw_grouped(int64_t size, const Run& run, Random& random) {
    int64_t channels = 2 + random.below(3), group = 2 + random.below(40), left = some_bytes(run, random) / size;
    Loops l;
    l.bound = l.extent = {channels, group, 1 + random.below(std::max<int64_t>(left / channels / group, 1))};
    std::vector<int64_t> minor{size, channels * size, (channels * group + random.of({1, 3, 16})) * size};
    std::vector<int64_t> planes{group * l.bound[2] * size, size, group * size};
    bool zips = random.one_in(2);
    l.source = zips ? planes : minor, l.target = zips ? minor : planes;
    return l;
}

// Short runs in places that are longer, without gaps between those in the target.
Loops draw_placed(int64_t size, const Run& run, Random& random) {
    int64_t n = 1 + random.below(5), place = n + 1 + random.below(4), few = 1 + random.below(4);
    int64_t many = 1 + random.below(std::max<int64_t>(some_bytes(run, random) / size / place / few, 1));
    Loops l;
    l.bound = {n, many, few}, l.extent = {place, many, few};
    l.source = laid_out(l.bound, size, random.one_in(2) ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 2, 1}, 1, random);
    l.target = laid_out(l.extent, size, {0, 1, 2}, 2, random);
    return l;
}

// Runs of whole lines.
Loops draw_lined(int64_t size, const Run& run, Random& random) {
    int64_t n = 64 / std::gcd(int64_t(64), size) * (1 + random.below(12)), left = std::max<int64_t>(some_bytes(run, random) / size / n, 4);
    int64_t few = std::min<int64_t>(2 + random.below(30), left / 2);
    Loops l;
    l.bound = l.extent = {n, few, 1 + random.below(left / few)};
    l.source = laid_out(l.bound, size, {0, 2, 1}, 3, random);
    l.target = laid_out(l.extent, size, {0, 1, 2}, 3, random);
    return l;
}

// Matrices that are turned, with rows up to two places short of vectors or lines, which may lie multiples of 1 KB apart: a vector
// that begins at the last place of a row ends past it.
Loops draw_short_rows(int64_t size, const Run& run, Random& random) {
    int64_t vector = std::max<int64_t>(16 / size, 1), left = std::max<int64_t>(some_bytes(run, random) / size, 64);
    int64_t columns = std::max<int64_t>(vector * random.of({1, 1, 4, 4, 16, 64}) - random.below(3), 1);
    int64_t rows = vector * (1 + random.below(8)) + (random.one_in(2) ? 0 : random.below(vector)), row = columns * size;
    if (random.one_in(2)) row = (row + 1023) / 1024 * 1024;
    Loops l;
    l.bound = l.extent = {rows, columns, random.one_in(2) ? 1 : 1 + random.below(std::max<int64_t>(left / rows / columns, 1))};
    l.source = {row, size, row * rows}, l.target = {size, rows * size, rows * columns * size};
    return l;
}

void draw_axes(Case& c, const Run& run, Random& random) {
    bool turns = random.one_in(2);
    auto draw = random.one_in(10) ? draw_grouped : random.one_in(12) ? draw_placed : random.one_in(12) ? draw_short_rows : random.one_in(6) ? draw_steps : random.one_in(12) ? draw_lined : turns ? draw_turned : draw_any;
    Loops l = draw(c.size, run, random);
    for (size_t k = 0; k < l.rank(); k++) {
        if (random.one_in(turns ? 30 : 10)) l.target[k] = -l.target[k];
        if (l.bound[k] <= 1 && random.one_in(4)) l.source[k] = (random.below(1000) - 500) * (1 << random.below(31));  // never used
        if (l.extent[k] <= 1 && random.one_in(4)) l.target[k] = random.below(3 * c.size);
        c.axes.push_back({l.extent[k], l.bound[k], l.source[k], l.target[k]});
    }
    std::stable_sort(c.axes.begin(), c.axes.end(), [](const gl_axis& a, const gl_axis& b) {
        int64_t s = std::abs(a.target), t = std::abs(b.target);
        return s != t ? s < t : a.extent < b.extent;
    });
}

Case drawn(const Run& run, uint64_t number) {
    std::seed_seq both{uint32_t(run.seed), uint32_t(run.seed >> 32), uint32_t(number), uint32_t(number >> 32)};
    uint32_t words[2];
    both.generate(words, words + 2);
    Random random(words[0] | uint64_t(words[1]) << 32);
    for (;;) {
        Case c;
        c.size = random.one_in(4) ? 1 + random.below(48) : random.of({1, 1, 2, 2, 4, 4, 8, 8, 16, 3, 6, 12});
        draw_axes(c, run, random);
        c.pad.resize(size_t(c.size));
        for (char& byte : c.pad) byte = char(random.below(256));
        c.second = random.of({1 << 11, 1 << 14, 1 << 16, 1 << 20});
        c.third = c.second < 1 << 14 && random.one_in(2) ? 3 : 32 << 20;
        c.set = int(random.below(instruction_sets()));
        c.threads = int(1 + random.below(4));
        if (std::max(c.span(true).bytes(), c.span(false).bytes()) < ROOM - 2 * PAGE) return c;
    }
}

void write_slowly(const Case& c, const char* source, char* target) {
    if (c.is_empty(false)) return;
    std::vector<int64_t> at(c.axes.size());
    for (;;) {
        bool is_element = true;
        int64_t from = 0, to = 0;
        for (size_t k = 0; k < at.size(); k++) {
            is_element &= at[k] < c.axes[k].bound;
            to += at[k] * c.axes[k].target;
        }
        for (size_t k = 0; is_element && k < at.size(); k++) from += at[k] * c.axes[k].source;
        std::memcpy(target + to, is_element ? source + from : c.pad.data(), size_t(c.size));
        size_t k = 0;
        for (; k < at.size() && ++at[k] == c.axes[k].extent; k++) at[k] = 0;
        if (k == at.size()) return;
    }
}

}  // namespace
#endif
