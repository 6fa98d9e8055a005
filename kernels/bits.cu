// Packed elements to a target without gaps: pack, unpack, and relayouts that do not keep whole bytes together.
//
// One thread makes one aligned group of bytes of the target: GPL_MOST_WRITTEN, or as many as GPL_MOST_READ bytes of a wider
// source hold.  So no two threads write the same byte, and none reads the target.
//   16 and 32, 4 bits to 8: 16 slots from 8 bytes        8 to 1: 32 slots to 4 bytes        4 to 4: 32 slots to 16 bytes
// `total` is the number of slots, `head` the number of bytes of the first aligned group before the target.  Partial words at
// both ends are written byte by byte; unused bits of the last byte become 0.
//
// A thread decodes its first slot with one division per axis.  If all slots of its group are elements, and consecutive in the
// source, it reads them together.  If not, it makes parts of the group, each a word of the narrower side, run by run: it walks
// along the minor axis and decodes again where that axis ends.
//   bits 4 to 4, extents 5, 3: the part of slots 8..15 begins at (3, 1), and has the runs (3, 1) (4, 1) and (0, 2) .. (4, 2)
// Slots of 8 bits come from and go to words of the narrower side in a few operations each (gpl_change_width).
//
// 4 bits and 1 bit to 8: 6.2 and 7 instructions per element.  8 bits to 4 and 1: 3.2 and 4.1; 4.5 and 5.4 from odd addresses.
//
// Macros: those of bits.cuh.  Numbers: GPL_MOST_READ, GPL_MOST_WRITTEN.
#if !defined(GPL_MOST_READ) || !defined(GPL_MOST_WRITTEN)
#error "bits.cu needs GPL_MOST_READ and GPL_MOST_WRITTEN"
#endif
#include "bits.cuh"

#define GPL_OF_MOST_READ (GPL_MOST_READ * GPL_TARGET_BITS / GPL_SOURCE_BITS)
#define GPL_GROUP_BYTES (GPL_OF_MOST_READ < GPL_MOST_WRITTEN ? GPL_OF_MOST_READ : GPL_MOST_WRITTEN)
#define GPL_GROUP_WORDS (GPL_GROUP_BYTES / 4)
#define GPL_GROUP_SLOTS (GPL_GROUP_WORDS * GPL_WORD_SLOTS)
#define GPL_NARROW_SLOTS (32 / GPL_VALUE_BITS)                          // of a word of the narrower side
#define GPL_PART_SLOTS (GPL_NARROW_SLOTS < GPL_GROUP_SLOTS ? GPL_NARROW_SLOTS : GPL_GROUP_SLOTS)
#define GPL_PARTS (GPL_GROUP_SLOTS / GPL_PART_SLOTS)
#define GPL_TOGETHER 8                                                   // slots that are read before the first is used
#define GPL_WORDS_READ(made) (((made) * GPL_SOURCE_BITS + GPL_TARGET_BITS - 1) / GPL_TARGET_BITS)      // for `made` words
#define GPL_EACH_BYTE 0x01010101u

// Source and target words of the same slots.  `word` has as many as the longer of both, and begins with those of the source.
template <int MADE>
struct GplSlots {
  unsigned word[MADE < GPL_WORDS_READ(MADE) ? GPL_WORDS_READ(MADE) : MADE];
};

// Source words to target words.
//
// Unpacking splits each byte in halves, and these again, until a byte has one slot; the bits above it are cleared at the end.
//   4 bits, 0x76543210: shifted by 4 it is 0x07654321.  Bytes of both in turns are 0x43322110 and 0x07766554, and without the
//   upper halves 0x03020100 and 0x07060504
// Packing joins two bytes, and these again, until a byte is full.
//   4 bits, 0x03020100 and 0x07060504: the even bytes are 0x06040200, the odd ones 0x07050301, and both joined 0x76543210
template <int MADE>
__device__ __forceinline__ void gpl_change_width(GplSlots<MADE>& slots) {
  unsigned* word = slots.word;
  if (GPL_SOURCE_BITS < GPL_TARGET_BITS) {
#pragma unroll
    for (int width = 4; width >= GPL_VALUE_BITS; width /= 2) {
      const int made = (MADE * GPL_VALUE_BITS + width - 1) / width;
#pragma unroll
      for (int i = (made - 1) / 2; i >= 0; --i) {
        const unsigned lower = word[i], upper = lower >> width;
        if (2 * i + 1 < made) word[2 * i + 1] = __byte_perm(lower, upper, 0x7362);
        word[2 * i] = __byte_perm(lower, upper, 0x5140);
      }
    }
#pragma unroll
    for (int i = 0; i < MADE; ++i) word[i] &= GPL_VALUE_MASK * GPL_EACH_BYTE;
  }
  if (GPL_SOURCE_BITS > GPL_TARGET_BITS) {
#pragma unroll
    for (int width = GPL_VALUE_BITS; width <= 4; width *= 2) {
      const unsigned lower = ((1u << width) - 1) * GPL_EACH_BYTE;
#pragma unroll
      for (int i = 0; i < MADE * 4 / width; ++i) {
        const unsigned even = __byte_perm(word[2 * i], word[2 * i + 1], 0x6420), odd = __byte_perm(word[2 * i], word[2 * i + 1], 0x7531);
        word[i] = (even & lower) | (odd << width & ~lower);
      }
    }
  }
}

// Words with their elements from the lowest bits on, to words as they are in the target.
__device__ __forceinline__ void gpl_make_target(GplSlots<GPL_GROUP_WORDS>& slots) {
#pragma unroll
  for (int i = 0; i < GPL_GROUP_WORDS; ++i) slots.word[i] = gpl_to_target(slots.word[i]);
}

// Reads the source words of a group whose slots are consecutive in the source from `slot` on: out of the aligned words that
// hold them or, if the source is not packed, out of vectors.  Returns false if those reach past the source's memory.
//   8 bits, 32 slots from 10 bytes past a vector on: words 2 to 10 of 3 vectors, without the first 2 bytes and the last 2
__device__ __forceinline__ bool gpl_read_group(GplSlots<GPL_GROUP_WORDS>& slots, const void* source, gpl_uint slot,
                                               const GplMove& move) {
  const int words = GPL_WORDS_READ(GPL_GROUP_WORDS);
  if constexpr (GPL_SLOTS > 1) {
    const GplAligned<4> aligned = gpl_aligned<4>(source, slot, move);
    if (!gpl_holds(aligned, words + 1, move)) return false;
#pragma unroll
    for (int i = 0; i < words; ++i) slots.word[i] = __funnelshift_r(gpl_from_source(aligned.word[i]), gpl_from_source(aligned.word[i + 1]), aligned.shift);
  } else {
    const GplAligned<16> aligned = gpl_aligned<16>(source, slot, move);
    const int vectors = words / 4;
    union {
      uint4 vector[vectors + 1];
      unsigned word[words + 4];
    };
    if (!aligned.shift) {
#pragma unroll
      for (int i = 0; i < vectors; ++i) vector[i] = aligned.word[i];
#pragma unroll
      for (int i = 0; i < words; ++i) slots.word[i] = word[i];
      return true;
    }
    if (!gpl_holds(aligned, vectors + 1, move)) return false;
#pragma unroll
    for (int i = 0; i <= vectors; ++i) vector[i] = aligned.word[i];
#pragma unroll
    for (int half = 2; half > 0; half /= 2) {                          // by 2 words and by 1: bits 6 and 5 of the shift
#pragma unroll
      for (int i = 0; i < words + 2; ++i)
        if (i < words + half) word[i] = aligned.shift & 32 * half ? word[i + half] : word[i];
    }
#pragma unroll
    for (int i = 0; i < words; ++i) slots.word[i] = __funnelshift_r(word[i], word[i + 1], aligned.shift);
  }
  return true;
}

// On by some slots of a run of the minor axis; where that axis ends, to the next run.
__device__ __forceinline__ void gpl_step(GplWalk& walk, unsigned slots, const GplMove& move) {
  walk.minor += slots;
  if (walk.minor < move.axis[0].extent.value) return;
  walk.minor = 0;
  walk.outer = gpl_place<1, GPL_AXES - 1>(++walk.rest, move);
}

// The next slots of a run that are elements, at most `most`.
__device__ __forceinline__ unsigned gpl_elements(const GplWalk& walk, unsigned most, const GplMove& move) {
  const gpl_uint bound = move.axis[0].bound;
  if (!walk.outer.inside || walk.minor >= bound) return 0;
  return bound - walk.minor < most ? (unsigned)(bound - walk.minor) : most;
}

// A word of the narrower side from the walk on, of which the first `elements` slots are consecutive in the source; the others
// have any bits.
__device__ __forceinline__ unsigned gpl_part_of_run(const void* source, const GplWalk& walk, unsigned elements, const GplMove& move) {
  const gpl_uint slot = move.first_slot + walk.outer.source + walk.minor;
  if constexpr (GPL_SOURCE_BITS <= GPL_TARGET_BITS) return gpl_slots(source, slot, move);
  else {
    const GplAligned<4> aligned = gpl_aligned<4>(source, slot, move);
    const unsigned words = (elements + 3) / 4;
    if (!gpl_holds(aligned, words + 1, move)) {
      unsigned part = 0;
#pragma unroll 1
      for (unsigned i = 0; i < elements; ++i) part |= gpl_slot(source, slot + i) << i * GPL_TARGET_BITS;
      return part;
    }
    GplSlots<1> slots;
    unsigned below = aligned.word[0];
#pragma unroll
    for (int i = 0; i < GPL_WORDS_READ(1); ++i) {
      const unsigned above = i < words ? aligned.word[i + 1] : 0;
      slots.word[i] = __funnelshift_r(below, above, aligned.shift);
      below = above;
    }
    gpl_change_width(slots);
    return slots.word[0];
  }
}

__device__ __forceinline__ unsigned gpl_lowest_slots(unsigned count) {
  return count < GPL_NARROW_SLOTS ? (1u << count * GPL_VALUE_BITS) - 1 : ~0u;
}

// The slots `first` to `last` of a part, where the minor axis is consecutive in the source: run by run.
__device__ __forceinline__ unsigned gpl_part_of_runs(const void* source, GplWalk& walk, int first, int last, const GplMove& move) {
  const unsigned pad = (move.pad[0] & GPL_VALUE_MASK) * (~0u / GPL_VALUE_MASK);          // in every slot
  unsigned part = 0;
#pragma unroll 1
  while (first < last) {
    const gpl_uint left = move.axis[0].extent.value - walk.minor;
    const unsigned count = left < last - first ? (unsigned)left : last - first, elements = gpl_elements(walk, count, move);
    unsigned run = pad;
    if (elements) run ^= (gpl_part_of_run(source, walk, elements, move) ^ pad) & gpl_lowest_slots(elements);
    part |= (run & gpl_lowest_slots(count)) << first * GPL_VALUE_BITS;
    first += count;
    gpl_step(walk, count, move);
  }
  return part;
}

// The same where the minor axis steps through the source: slot by slot.
__device__ __forceinline__ unsigned gpl_part_of_slots(const void* source, GplWalk& walk, int first, int last, const GplMove& move) {
  unsigned part = 0;
#pragma unroll 1
  for (int begin = 0; begin < GPL_PART_SLOTS; begin += GPL_TOGETHER) {
    unsigned value[GPL_TOGETHER];
#pragma unroll
    for (int i = 0; i < GPL_TOGETHER; ++i) {
      value[i] = 0;
      if (begin + i < first || begin + i >= last) continue;
      value[i] = gpl_value(source, walk, move);
      gpl_step(walk, 1, move);
    }
#pragma unroll
    for (int i = 0; i < GPL_TOGETHER; ++i) part |= value[i] << (begin + i) * GPL_VALUE_BITS;
  }
  return part;
}

GPL_KERNEL gpl_bits(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const GplGroup group = gpl_target_group<GPL_GROUP_BYTES>(move);
  if (group.last <= group.first) return;
  unsigned char* to = gpl_group_at<GPL_GROUP_BYTES>(target, group, move);
  const bool whole = group.first == 0 && group.last == GPL_GROUP_SLOTS, steps = move.axis[0].source_stride != 1;
  GplWalk walk = gpl_walk(group.slot + group.first, move);
  union {
    GplSlots<GPL_GROUP_WORDS> slots;
    GplWord<GPL_GROUP_BYTES>::type made;
  };
  if (whole && !steps && gpl_elements(walk, GPL_GROUP_SLOTS, move) == GPL_GROUP_SLOTS &&
      gpl_read_group(slots, source, move.first_slot + walk.outer.source + walk.minor, move)) {
    gpl_change_width(slots);
    gpl_make_target(slots);
    *(GplWord<GPL_GROUP_BYTES>::type*)to = made;
    return;
  }
#pragma unroll 1
  for (int begin = 0; begin < GPL_GROUP_SLOTS; begin += GPL_PART_SLOTS) {
    const int first = max(group.first - begin, 0), last = min(group.last - begin, GPL_PART_SLOTS);
    const unsigned part =
        steps ? gpl_part_of_slots(source, walk, first, last, move) : gpl_part_of_runs(source, walk, first, last, move);
#pragma unroll
    for (int i = 1; i < GPL_PARTS; ++i) slots.word[i - 1] = slots.word[i];             // so that they stay in registers
    slots.word[GPL_PARTS - 1] = part;
  }
  if (GPL_SOURCE_BITS < GPL_TARGET_BITS) gpl_change_width(slots);
  gpl_make_target(slots);
  if (whole) *(GplWord<GPL_GROUP_BYTES>::type*)to = made;
  else {
#pragma unroll
    for (int i = 0; i < GPL_GROUP_WORDS; ++i) {
      const int first = max(group.first - i * GPL_WORD_SLOTS, 0), last = min(group.last - i * GPL_WORD_SLOTS, GPL_WORD_SLOTS);
      gpl_store_word(to + 4 * i, first, last, slots.word[i]);
    }
  }
}
