// Many runs of one open file in one call.  Python's threads hand its lock over for every call of the system, and a file of
// 6 GB in runs of 24 KB has 500,000 of them.
//
// A run is read around the page cache where the caller has a descriptor for that.  Such a descriptor reads whole pages into
// memory that begins with a page, so bytes are copied from a buffer:
//
//     bytes 26 000 to 51 999     read 24 576 to 53 247, and copy these bytes
//
// What cannot be read this way is read the usual one, and what cannot be read that way either is left to the caller.
#define _FILE_OFFSET_BITS 64
#include "file_runs.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace {

const int64_t PAGE = sysconf(_SC_PAGESIZE);
const int64_t BUFFER = std::max<int64_t>(PAGE, 64 << 10);  // bytes, and a whole number of pages
constexpr int64_t MOST = 1 << 30;                 // bytes in one call of the system: macOS takes no more than 2^31 - 1
constexpr int64_t LAST_PLACE = int64_t(1) << 62;  // sums of places and lengths stay within 63 bits

int64_t page_start(int64_t place) { return place / PAGE * PAGE; }

bool is_place(int64_t place, int64_t length) { return 0 <= place && place <= LAST_PLACE - length; }

// call: pread or pwrite
template <typename Memory, typename Call>
bool move_all(Call call, int file, Memory* memory, int64_t size, int64_t place) {
    while (size) {
        int64_t count = call(file, memory, size_t(std::min(size, MOST)), off_t(place));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        memory += count, place += count, size -= count;
    }
    return true;
}

// buffer: whole pages
bool read_around(int around, char* buffer, char* memory, int64_t place, int64_t end) {
    for (int64_t next; place < end; memory += next - place, place = next) {
        int64_t first = page_start(place);
        next = std::min(end, first + BUFFER);
        int64_t size = page_start(next + PAGE - 1) - first, found;
        do found = pread(around, buffer, size_t(size), off_t(first));
        while (found < 0 && errno == EINTR);
        if (found < next - first) return false;
        memcpy(memory, buffer + (place - first), size_t(next - place));
    }
    return true;
}

}  // namespace

int64_t gl_page() { return PAGE; }

int64_t gl_read_runs(int file, int around, char* memory, const int64_t* places, int64_t count, int64_t length) {
    void* pages = nullptr;
    bool goes_around = around >= 0 && !posix_memalign(&pages, size_t(PAGE), size_t(BUFFER));
    std::unique_ptr<void, decltype(&free)> buffer(goes_around ? pages : nullptr, free);
    for (int64_t k = 0; k < count; k++, memory += length) {
        if (!is_place(places[k], length)) return k;
        goes_around = goes_around && read_around(around, static_cast<char*>(pages), memory, places[k], places[k] + length);
        if (!goes_around && !move_all(pread, file, memory, length, places[k])) return k;
    }
    return count;
}

int64_t gl_write_runs(int file, const char* memory, const int64_t* places, int64_t count, int64_t length, char* tails, bool has_tails, bool keeps_tails) {
    for (int64_t k = 0; k < count; k++, memory += length) {
        if (!is_place(places[k], length)) return k;
        char* tail = has_tails || keeps_tails ? tails + k * PAGE : nullptr;
        int64_t before = has_tails ? places[k] % PAGE : 0, after = keeps_tails ? (places[k] + length) % PAGE : 0;
        int64_t first = before ? std::min(PAGE - before, length) : 0;  // bytes of the run that make the tail a page
        if (before) {
            memcpy(tail + before, memory, size_t(first));
            if (!move_all(pwrite, file, tail, before + first, places[k] - before)) return k;
        }
        if (!move_all(pwrite, file, memory + first, length - first - after, places[k] + first)) return k;
        if (after) memcpy(tail, memory + length - after, size_t(after));
    }
    return count;
}
