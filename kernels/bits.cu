// Packed elements to a target without gaps: pack, unpack, and relayouts that do not keep whole bytes together.
//
// One thread makes one aligned word of the target, which is 32 / GPL_TARGET_BITS slots.  So no two threads write the same
// byte, and none reads the target.  `total` is the number of slots, `head` the number of bytes of the first aligned word
// before the target.  Partial words at both ends are written byte by byte; unused bits of the last byte become 0.
//
// A thread decodes its first slot with one division per axis, then walks along the minor axis and decodes again where that
// axis ends:
//   bits 4, extents 5, 3: the word of slots 8..15 begins at (3, 1), continues with (4, 1) (0, 2) .. and ends after (4, 2)
// If the slots of the word are in the same order in the source, the thread reads words and shifts them.
#include "bits.cuh"

#define GPL_TOGETHER (GPL_WORD_SLOTS < 8 ? GPL_WORD_SLOTS : 8)          // slots that are read before the first is used
#define GPL_WINDOW (32 / GPL_SOURCE_BITS)                                // slots that one gpl_slots reads

__device__ __forceinline__ void gpl_step(GplWalk& walk, const GplMove& move) {
  if (++walk.minor < move.axis[0].extent.value) return;
  walk.minor = 0;
  walk.outer = gpl_place<1>(++walk.rest, move);
}

// A whole word whose slots are consecutive in the source too.
__device__ __forceinline__ unsigned gpl_word_of_run(const void* source, gpl_uint slot, const GplMove& move) {
  if (GPL_SOURCE_BITS == GPL_TARGET_BITS) return gpl_slots(source, slot, move);
  unsigned word = 0;
#pragma unroll
  for (int begin = 0; begin < GPL_WORD_SLOTS; begin += GPL_WINDOW) {
    const unsigned window = gpl_slots(source, slot + begin, move);
#pragma unroll
    for (int i = 0; i < GPL_WINDOW; ++i)
      if (begin + i < GPL_WORD_SLOTS)
        word |= (window >> i * GPL_SOURCE_BITS & GPL_VALUE_MASK) << (begin + i) * GPL_TARGET_BITS;
  }
  return word;
}

// Any word: its slots `first` to `last`, slot by slot.
__device__ __forceinline__ unsigned gpl_word_of_slots(const void* source, GplWalk walk, int first, int last, const GplMove& move) {
  unsigned word = 0;
#pragma unroll 1
  for (int begin = 0; begin < GPL_WORD_SLOTS; begin += GPL_TOGETHER) {
    unsigned value[GPL_TOGETHER];
#pragma unroll
    for (int i = 0; i < GPL_TOGETHER; ++i) {
      value[i] = 0;
      if (begin + i < first || begin + i >= last) continue;
      value[i] = gpl_value(source, walk, move);
      gpl_step(walk, move);
    }
#pragma unroll
    for (int i = 0; i < GPL_TOGETHER; ++i) word |= value[i] << (begin + i) * GPL_TARGET_BITS;
  }
  return word;
}

GPL_KERNEL gpl_bits(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const GplWord32 to = gpl_target_word(move);
  if (to.last <= to.first) return;
  const GplWalk walk = gpl_walk(to.slot + to.first, move);
  const bool run = to.first == 0 && to.last == GPL_WORD_SLOTS && move.axis[0].source_stride == 1 && walk.outer.inside &&
                   walk.minor < move.axis[0].bound && move.axis[0].bound - walk.minor >= GPL_WORD_SLOTS;
  const unsigned word = run ? gpl_word_of_run(source, move.first_slot + walk.outer.source + walk.minor, move)
                            : gpl_word_of_slots(source, walk, to.first, to.last, move);
  gpl_store_word(target, to, word, move);
}
