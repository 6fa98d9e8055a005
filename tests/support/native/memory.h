// Memory for the programs that stress the engine: noise, and regions between pages that nobody may touch.
#ifndef GPULAYOUT_TEST_MEMORY_H
#define GPULAYOUT_TEST_MEMORY_H

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cases.h"

namespace {

constexpr int64_t MARGIN = 192;

struct Failure {
    std::string what;
};

const std::vector<char>& noise() {
    static const std::vector<char> made = [] {
        std::vector<char> all(65521);  // a prime: no stride hides a wrong place
        Random random(1);
        for (char& c : all) c = char(random.below(256));
        return all;
    }();
    return made;
}

// Calls part(offset, noise, bytes) for n bytes of noise.
template <class Part> void each_part(int64_t n, int64_t phase, Part part) {
    int64_t size = int64_t(noise().size());
    for (int64_t done = 0; done < n;) {
        int64_t at = (phase + done) % size, some = std::min(n - done, size - at);
        part(done, noise().data() + at, some);
        done += some;
    }
}
void fill(char* to, int64_t n, int64_t phase) {
    each_part(n, phase, [&](int64_t at, const char* from, int64_t some) { std::memcpy(to + at, from, size_t(some)); });
}
bool is_filled(const char* to, int64_t n, int64_t phase) {
    bool same = true;
    each_part(n, phase, [&](int64_t at, const char* from, int64_t some) { same &= !std::memcmp(to + at, from, size_t(some)); });
    return same;
}

// Memory between two pages that nobody may touch.
class Region {
    char* begin;

public:
    Region() {
        void* at = mmap(nullptr, size_t(ROOM + 2 * PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) std::perror("mmap"), std::exit(2);
        begin = static_cast<char*>(at) + PAGE;
        mprotect(begin - PAGE, size_t(PAGE), PROT_NONE), mprotect(begin + ROOM, size_t(PAGE), PROT_NONE);
    }
    ~Region() { munmap(begin - PAGE, size_t(ROOM + 2 * PAGE)); }
    Region(const Region&) = delete;
    void allow(bool allowed) const { mprotect(begin, size_t(ROOM), allowed ? PROT_READ | PROT_WRITE : PROT_NONE); }
    char* forbidden() const { return begin - PAGE; }
    int64_t before(const char* at) const { return std::min(MARGIN, int64_t(at - begin)); }
    int64_t after(const char* end) const { return std::min(MARGIN, int64_t(begin + ROOM - end)); }
    char* place(int64_t bytes, Random& random) const {
        int64_t where = random.below(5);
        return where < 2 ? begin : where < 4 ? begin + ROOM - bytes : begin + PAGE + random.below(128);
    }
};

}  // namespace
#endif
