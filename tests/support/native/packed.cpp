// Random packed moves through the C interface of the native engine, compared with a loop over all coordinates.
//
//     packed SEED FIRST COUNT MOST_PLACES        does cases FIRST..FIRST+COUNT-1 of a seed
//
// Source and target are memory of their own, exactly as long as they must be, so AddressSanitizer sees every byte beside them.
// Bytes of gaps must stay as they were.  A case depends on the seed and its number only.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "packed_move.h"

namespace {

struct Random {
    uint64_t state;
    int64_t below(int64_t n) {  // SplitMix64
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9, z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return int64_t((z ^ z >> 31) >> 1) % n;
    }
    bool one_in(int64_t n) { return below(n) == 0; }
};

struct Case {
    std::vector<gl_axis> axes;
    gl_packed_move move{};
    int64_t low = 0, high = 0, last = 0;  // lowest and highest slot of the source, highest of the target
    bool dense = true;
};

constexpr int64_t SIZES[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 257};
constexpr int WIDTHS[][2] = {{1, 1}, {2, 2}, {4, 4}, {1, 8}, {2, 8}, {4, 8}, {8, 1}, {8, 2}, {8, 4}};

void give_strides(Random& random, std::vector<gl_axis>& axes, int64_t gl_axis::*stride, std::vector<size_t> order, int64_t step, int64_t gap) {
    for (size_t k = 0; k < order.size(); k++) {
        axes[order[k]].*stride = step, step *= axes[order[k]].extent;
        if (k == 0) step += gap * random.below(3);
    }
}

Case drawn(Random& random, int64_t most) {
    Case c;
    const int* widths = WIDTHS[random.below(9)];
    int64_t places = 1, rank = random.below(6), per = 8 / widths[1];
    for (int64_t k = 0; k < rank; k++) {
        int64_t size = SIZES[random.below(17)], pad = random.one_in(4) ? random.below(6) : 0;
        if (places * (size + pad) > most) break;
        c.axes.push_back({size + pad, random.one_in(60) ? 0 : size, 1, 1}), places *= size + pad;
    }
    std::vector<size_t> order(c.axes.size());
    std::iota(order.begin(), order.end(), size_t(0));
    bool gaps = !c.axes.empty() && (per == 1 || c.axes[0].extent % per == 0) && random.one_in(3);
    give_strides(random, c.axes, &gl_axis::target, order, per == 1 && gaps ? 1 + random.below(3) : 1, gaps ? per : 0);
    for (size_t k = order.size(); k > 1; k--) std::swap(order[k - 1], order[size_t(random.below(int64_t(k)))]);
    if (random.one_in(2) && !order.empty()) std::swap(order[0], *std::find(order.begin(), order.end(), size_t(0)));
    give_strides(random, c.axes, &gl_axis::source, order, random.one_in(8) ? 2 : 1, random.one_in(3));
    int64_t step = 1;
    for (gl_axis& a : c.axes) {
        if (random.one_in(6)) a.source = -a.source;
        if (random.one_in(20)) a.source = 0;
        c.dense &= a.target == step || (a.extent == 1 && a.bound == 1), step *= a.extent;
        int64_t reach = std::max<int64_t>(a.bound - 1, 0) * a.source;
        (reach < 0 ? c.low : c.high) += reach, c.last += (a.extent - 1) * a.target;
    }
    int64_t tail = c.dense && places ? random.below(c.axes.empty() ? 1 : std::min<int64_t>(c.axes.back().extent, 3)) : 0;
    c.move = {int(c.axes.size()), c.axes.data(), places - tail, random.below(8 / widths[0]), widths[0], widths[1], int(random.below(2)), int(random.below(2)), uint8_t(random.below(256))};
    return c;
}

// Without what the engine knows of words: one bit after the other.  On a big side they are counted from the highest bit of each
// byte on, and those of an element too.
int bits_at(const uint8_t* memory, int64_t slot, int bits, bool big) {
    int value = 0;
    for (int k = 0; k < bits; k++) {
        int64_t bit = slot * bits + k, byte = bit >= 0 ? bit / 8 : -((7 - bit) / 8), in_byte = bit - 8 * byte;
        value |= (memory[byte] >> (big ? 7 - in_byte : in_byte) & 1) << (big ? bits - 1 - k : k);
    }
    return value;
}
void put_bits(uint8_t* memory, int64_t slot, int bits, bool big, int value) {
    for (int k = 0; k < bits; k++) {
        int64_t bit = slot * bits + k, in_byte = big ? 7 - bit % 8 : bit % 8;
        memory[bit / 8] = uint8_t((memory[bit / 8] & ~(1 << in_byte)) | (value >> (big ? bits - 1 - k : k) & 1) << in_byte);
    }
}

void write_slowly(const Case& c, const uint8_t* source, uint8_t* target) {
    const gl_packed_move& m = c.move;
    int mask = (1 << std::min(m.source_bits, m.target_bits)) - 1;
    for (int64_t place = 0; place < m.slots; place++) {
        int64_t left = place, from = m.start, to = 0;
        bool inside = true;
        for (const gl_axis& a : c.axes) {
            int64_t at = left % a.extent;
            left /= a.extent, inside &= at < a.bound, from += at * a.source, to += at * a.target;
        }
        put_bits(target, to, m.target_bits, m.target_big, (inside ? bits_at(source, from, m.source_bits, m.source_big) : m.pad) & mask);
    }
    if (c.dense && m.target_bits < 8)
        for (int64_t slot = m.slots; slot * m.target_bits % 8; slot++) put_bits(target, slot, m.target_bits, m.target_big, 0);
}

bool is_right(Random& random, int64_t most, int threads) {
    Case c = drawn(random, most);
    c.move.axes = c.axes.data();
    const gl_packed_move& m = c.move;
    int64_t per_source = 8 / m.source_bits, before = (-c.low + per_source - 1) / per_source;  // bytes of the source before its first one
    std::vector<uint8_t> source(size_t(before + (m.start + c.high) / per_source + 1));
    for (uint8_t& byte : source) byte = uint8_t(random.below(256));
    bool none = !m.slots;
    int64_t slots = none ? 0 : c.dense ? m.slots : c.last + 1;
    std::vector<uint8_t> target(size_t((slots * m.target_bits + 7) / 8));
    for (uint8_t& byte : target) byte = uint8_t(random.below(256));
    std::vector<uint8_t> want = target;
    write_slowly(c, source.data() + before, want.data());
    gl_packed* plan = gl_packed_plan(&m);
    if (!plan) return false;
    gl_result result = gl_packed_run(plan, source.data() + before, target.data(), threads, nullptr, nullptr);
    gl_packed_free(plan);
    return result == GL_DONE && target == want;
}

}  // namespace

int main(int count, char** args) {
    if (count != 5) return 2;
    int64_t seed = std::atoll(args[1]), first = std::atoll(args[2]), cases = std::atoll(args[3]), most = std::atoll(args[4]);
    int sets = 0, wrong = 0;
    while (gl_instruction_set(sets)) sets++;
    for (int64_t number = first; number < first + cases; number++) {
        Random random{uint64_t(seed) << 32 | uint64_t(number)};
        int set = int(random.below(sets)), threads = 1 + int(random.below(3));
        gl_use(set);
        if (is_right(random, most, threads)) continue;
        std::printf("case %lld is wrong, with %s and %d threads\n", static_cast<long long>(number), gl_instruction_set(set), threads);
        if (++wrong == 5) break;
    }
    return wrong > 0;
}
