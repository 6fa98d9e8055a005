// Memory that is written for the first time.
#pragma once
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>

namespace gpulayout {

// Has Linux make the huge pages that begin in from..to-1 and end before `last`, so that it is fast at it; of pages that are there
// it costs a call of the system each.  The kernel zeroes a huge page towards the address that is asked for, and much faster
// upwards: 240 MB written in order took 14 ms with the last address of each page first, 25 ms with the first.
//
//     pages of 2 MB from address 0 on, of which a row fills 1 MB to 7 MB; from..to is 1 MB to 3 MB:  asks for the end of 2 to 4 MB
inline void make_pages(const char* from, const char* to, const char* last) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t HUGE_PAGE = 2 << 20, PAGE = 4096;
    constexpr int POPULATE_WRITE = 23;  // an error of kernels before 5.14, and where pages have another size
    for (uintptr_t at = (uintptr_t(from) + HUGE_PAGE - 1) & -HUGE_PAGE; at < uintptr_t(to) && at + HUGE_PAGE <= uintptr_t(last); at += HUGE_PAGE)
        madvise(reinterpret_cast<void*>(at + HUGE_PAGE - PAGE), PAGE, POPULATE_WRITE);
#else
    (void)from, (void)to, (void)last;
#endif
}

}  // namespace gpulayout
