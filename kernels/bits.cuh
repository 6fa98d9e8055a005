// Elements of 1, 2 or 4 bits in packed buffers, for bits.cu, bits_any.cu, bits_turn_any.cu and lookup.cu.
//
// A slot is the place of one element: GPL_SOURCE_BITS wide in the source and GPL_TARGET_BITS in the target, 8 on a side that
// is not packed.  Slot 0 is in the lowest bits of byte 0, on a big side (bit_order.cuh) in the highest:
//   bits 4: slot 5 is byte 5 / 2 = 2, bits 4..7           bits 1: slot 13 is byte 13 / 8 = 1, bit 5
//   and big: bits 0..3                                    and big: bit 2
// The strides of a GplMove count slots; the move begins at slot `first_slot` of the source; `low` and `high` bound the
// source's memory in bytes.  Only the low bits of an element are used; wider slots get zeros above them.
//
// Macros: GPL_SOURCE_BITS, GPL_TARGET_BITS (1 2 4 8); those of bit_order.cuh.
#ifndef GPL_BITS_CUH
#define GPL_BITS_CUH
#if !defined(GPL_SOURCE_BITS) || !defined(GPL_TARGET_BITS)
#error "bits.cuh needs GPL_SOURCE_BITS and GPL_TARGET_BITS"
#endif
#include "bit_order.cuh"
#include "move.cuh"

#define GPL_VALUE_BITS (GPL_SOURCE_BITS < GPL_TARGET_BITS ? GPL_SOURCE_BITS : GPL_TARGET_BITS)
#define GPL_VALUE_MASK ((1u << GPL_VALUE_BITS) - 1)
#define GPL_SLOTS (8 / GPL_SOURCE_BITS)              // of a source byte

// The byte of the source in which a slot begins, and the bit at which it begins in gpl_from_source.
__device__ __forceinline__ const unsigned char* gpl_slot_byte(const void* source, gpl_uint slot) {
  return (const unsigned char*)source + (gpl_int)(slot / GPL_SLOTS);              // a packed buffer has no slots below 0
}
__device__ __forceinline__ unsigned gpl_slot_bit(gpl_uint slot) { return (unsigned)slot % GPL_SLOTS * GPL_SOURCE_BITS; }

__device__ __forceinline__ unsigned gpl_slot(const void* source, gpl_uint slot) {
  const unsigned turned = GPL_SOURCE_BIG ? 8 - GPL_SOURCE_BITS : 0;                // 2 bits: 0 2 4 6 ^ 6 are 6 4 2 0
  return *gpl_slot_byte(source, slot) >> (gpl_slot_bit(slot) ^ turned) & GPL_VALUE_MASK;
}

// The aligned word or vector of BYTES bytes of the source in which a slot begins, how many bits before the slot, and how many
// bytes after the lowest byte of the source's memory.
//   slot 5 of 4 bits at an address 3 past a multiple of 4: byte 2, so the word begins 1 byte into the source; 8 + 4 bits
template <int BYTES>
struct GplAligned {
  const typename GplWord<BYTES>::type* word;
  unsigned shift;
  gpl_uint place;
};

template <int BYTES>
__device__ __forceinline__ GplAligned<BYTES> gpl_aligned(const void* source, gpl_uint slot, const GplMove& move) {
  const unsigned phase = (unsigned)((unsigned long long)source % BYTES);
  const gpl_uint from = slot + phase * GPL_SLOTS;                                 // counts from an aligned address
  const gpl_int offset = GPL_SLOTS > 1 ? (gpl_int)(from / (BYTES * GPL_SLOTS)) * BYTES : (gpl_int)(from & ~(gpl_uint)(BYTES - 1));
  return {(const typename GplWord<BYTES>::type*)((const unsigned char*)source - phase + offset),
          (unsigned)from % (BYTES * GPL_SLOTS) * GPL_SOURCE_BITS, (gpl_uint)offset - phase - move.low};
}

// Whether the source's memory holds `count` words or vectors from there on.
template <int BYTES>
__device__ __forceinline__ bool gpl_holds(const GplAligned<BYTES>& aligned, int count, const GplMove& move) {
  const gpl_uint size = move.high - move.low;
  return aligned.place < size && size - aligned.place >= BYTES * count;
}

// 32 bits of a packed source from a slot on, from the two aligned words that hold them.  If those reach past the source's
// memory, the bits are read byte by byte, and those outside are 0.
__device__ __forceinline__ unsigned gpl_slots(const void* source, gpl_uint slot, const GplMove& move) {
  const unsigned char* from = gpl_slot_byte(source, slot);
  const unsigned phase = (unsigned)((unsigned long long)from & 3), shift = gpl_slot_bit(slot);
  const unsigned char *word = from - phase;
  const unsigned char *low = (const unsigned char*)source + (gpl_int)move.low, *high = (const unsigned char*)source + (gpl_int)move.high;
  if (word >= low && word + 8 <= high)
    return __funnelshift_r(gpl_from_source(((const unsigned*)word)[0]), gpl_from_source(((const unsigned*)word)[1]), 8 * phase + shift);
  unsigned long long bits = 0;
#pragma unroll 1
  for (int i = 0; i < 5; ++i)
    if (from + i < high) bits |= (unsigned long long)gpl_from_source(from[i]) << 8 * i;
  return (unsigned)(bits >> shift);
}

// A thread's aligned group of bytes of a target without gaps.  Its slots from `first` up to `last` are in the target; `slot`
// is the number of its slot 0, which may be before the target.
struct GplGroup {
  gpl_uint number, slot;
  int first, last;
};
#define GPL_WORD_SLOTS (32 / GPL_TARGET_BITS)

template <int BYTES, class Move>
__device__ __forceinline__ GplGroup gpl_target_group(const Move& move) {
  const int slots = BYTES * 8 / GPL_TARGET_BITS;
  const gpl_uint before = move.head * (8 / GPL_TARGET_BITS);             // slots of the first group before the target
  GplGroup group;
  group.number = gpl_block() * GPL_THREADS + threadIdx.x;
  const gpl_uint begin = group.number * slots, end = move.total + before;
  group.slot = begin - before;
  group.first = begin < before ? (int)(before - begin) : 0;
  group.last = begin >= end ? 0 : end - begin < slots ? (int)(end - begin) : slots;
  return group;
}

template <int BYTES, class Move>
__device__ __forceinline__ unsigned char* gpl_group_at(void* target, const GplGroup& group, const Move& move) {
  return (unsigned char*)target + group.number * BYTES - move.head;
}

// The slots of an aligned word of the target from `first` up to `last`, and zeros up to the end of the last byte.
__device__ __forceinline__ void gpl_store_word(unsigned char* to, int first, int last, unsigned value) {
  if (first == 0 && last == GPL_WORD_SLOTS) {
    *(unsigned*)to = value;
    return;
  }
  for (int i = first * GPL_TARGET_BITS / 8; i < (last * GPL_TARGET_BITS + 7) / 8; ++i) to[i] = (unsigned char)(value >> 8 * i);
}

// The minor coordinate of a place, and the place given by the other axes.
struct GplWalk {
  gpl_uint minor, rest;
  GplPlace outer;
};

__device__ __forceinline__ GplWalk gpl_walk(gpl_uint number, const GplMove& move) {
  GplWalk walk;
  walk.rest = gpl_divide(number, move.axis[0].extent);
  walk.minor = number - walk.rest * move.axis[0].extent.value;
  walk.outer = gpl_place<1, GPL_AXES - 1>(walk.rest, move);
  return walk;
}

// The element at a walk's position, or the pad.
__device__ __forceinline__ unsigned gpl_value(const void* source, const GplWalk& walk, const GplMove& move) {
  if (!walk.outer.inside || walk.minor >= move.axis[0].bound) return move.pad[0] & GPL_VALUE_MASK;
  return gpl_slot(source, move.first_slot + walk.outer.source + walk.minor * move.axis[0].source_stride);
}

#endif
