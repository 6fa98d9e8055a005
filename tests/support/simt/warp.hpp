// Warp shuffles and votes.  All live threads of the warp must take part; the mask is ignored.
#pragma once
#include "scheduler.hpp"

namespace simt {

inline uint64_t lane_values[MAX_WARPS][32];

SIMT_UNWATCHED int lane() { return number_of(current) % warpSize; }

// The first barrier waits until every lane has given its value, the second until every lane has taken one.
template <class V> SIMT_UNWATCHED_ENTRY V shuffle(V value, int source, int line) {
  static_assert(sizeof(V) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t* values = lane_values[current->warp];
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  values[lane()] = bits;
  warp_barrier(line);
  bits = values[source & 31];
  warp_barrier(line);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// On a device, a lane that would read beyond its warp keeps its own value.
SIMT_UNWATCHED int lane_or_own(int source) { return source < 0 || source > 31 ? lane() : source; }

unsigned ballot(bool vote, int line);

#ifdef SIMT_RUNTIME
SIMT_UNWATCHED_ENTRY unsigned ballot(bool vote, int line) {
  const int first = number_of(current) / warpSize * warpSize;
  uint64_t* values = lane_values[current->warp];
  values[lane()] = vote;
  warp_barrier(line);
  unsigned result = 0;
  for (int i = 0; i < warpSize && first + i < thread_count; ++i)
    if (threads[first + i].state != DONE && values[i]) result |= 1u << i;
  warp_barrier(line);
  return result;
}
#endif

}  // namespace simt

#define __shfl_sync(mask, value, source) simt::shuffle(value, source, __LINE__)
#define __shfl_xor_sync(mask, value, flip) simt::shuffle(value, simt::lane() ^ (flip), __LINE__)
#define __shfl_up_sync(mask, value, by) simt::shuffle(value, simt::lane_or_own(simt::lane() - (int)(by)), __LINE__)
#define __shfl_down_sync(mask, value, by) simt::shuffle(value, simt::lane_or_own(simt::lane() + (int)(by)), __LINE__)
#define __ballot_sync(mask, vote) simt::ballot(vote, __LINE__)
#define __any_sync(mask, vote) (simt::ballot(vote, __LINE__) != 0)
#define __all_sync(mask, vote) (simt::ballot(!(vote), __LINE__) == 0)
