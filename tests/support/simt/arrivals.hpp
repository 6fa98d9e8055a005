// Asynchronous copies to shared memory: __pipeline_memcpy_async, __pipeline_commit, __pipeline_wait_prior.
//
// On a device, such a copy may arrive at any time until its thread has waited for it.  Here the memory holds 0xA5 from the
// beginning of the copy on, and the bytes from the wait on.  So code that reads too early reads 0xA5, and so does code that
// still reads what was there before: an earlier copy to a place to which a later one is on its way leaves 0xA5 there.  The
// trace, which counts accesses, sees only the bytes, at the beginning.
#pragma once
#include "scheduler.hpp"

namespace simt {

struct Arrival {
  void* to;
  const void* from;
  unsigned bytes;
  int group;
};

inline const int MOST_ARRIVALS = 128;  // of a thread at once
struct Arrivals {
  Arrival waiting[MOST_ARRIVALS];
  int first, count;                    // in a ring
  int group;                           // groups that ended
};
inline Arrivals arrivals[MAX_THREADS];

SIMT_UNWATCHED void drop_arrivals() {
  for (int i = 0; i < thread_count; ++i) arrivals[i].first = arrivals[i].count = arrivals[i].group = 0;
}

SIMT_UNWATCHED Arrivals& own_arrivals() { return arrivals[number_of(current)]; }

SIMT_UNWATCHED void begin_arrival(void* to, const void* from, unsigned bytes) {
  Arrivals& own = own_arrivals();
  if (own.count == MOST_ARRIVALS) __builtin_trap();
  own.waiting[(own.first + own.count++) % MOST_ARRIVALS] = {to, from, bytes, own.group};
}

SIMT_UNWATCHED void end_group() { ++own_arrivals().group; }

// The next copy that is in none of the last `left` groups, to a place of its own; false if there is none.
SIMT_UNWATCHED bool take_arrival(int left, Arrival& arrival) {
  Arrivals& own = own_arrivals();
  while (own.count && own.waiting[own.first].group < own.group - left) {
    arrival = own.waiting[own.first];
    own.first = (own.first + 1) % MOST_ARRIVALS;
    --own.count;
    bool is_alone = true;
    for (int i = 0; i < own.count; ++i) {
      const Arrival& later = own.waiting[(own.first + i) % MOST_ARRIVALS];
      const char *from = (const char*)arrival.to, *to = (const char*)later.to;
      is_alone = is_alone && (from + arrival.bytes <= to || to + later.bytes <= from);
    }
    if (is_alone) return true;
  }
  return false;
}

template <class V> __forceinline__ void copy_or_fill(void* to, const void* from) {
  V value;
  memset(&value, 0xA5, sizeof value);
  *(V*)to = from ? *(const V*)from : value;
}

__forceinline__ void copy_or_fill(void* to, const void* from, unsigned bytes) {
  if (bytes == 4) copy_or_fill<unsigned>(to, from);
  else if (bytes == 8) copy_or_fill<unsigned long long>(to, from);
  else if (bytes == 16) copy_or_fill<uint4>(to, from);
  else __builtin_trap();
}

}  // namespace simt

#ifdef SIMT_TRACE
__forceinline__ void __pipeline_memcpy_async(void* to, const void* from, unsigned bytes) { simt::copy_or_fill(to, from, bytes); }
#else
__forceinline__ void __pipeline_memcpy_async(void* to, const void* from, unsigned bytes) {
  simt::copy_or_fill(to, nullptr, bytes);
  simt::begin_arrival(to, from, bytes);
}
#endif
__forceinline__ void __pipeline_commit() { simt::end_group(); }
__forceinline__ void __pipeline_wait_prior(int left) {
  simt::Arrival arrival;
  while (simt::take_arrival(left, arrival)) simt::copy_or_fill(arrival.to, arrival.from, arrival.bytes);
}
