// Elements of 1, 2 or 4 bits in packed buffers, for bits.cu, bits_any.cu, bits_turn_any.cu and lookup.cu.
//
// A slot is the place of one element: GPL_SOURCE_BITS wide in the source and GPL_TARGET_BITS in the target, 8 on a side that
// is not packed.  Slot 0 is in the lowest bits of byte 0:
//   bits 4: slot 5 is byte 5 / 2 = 2, bits 4..7           bits 1: slot 13 is byte 13 / 8 = 1, bit 5
// The strides of a GplMove count slots; the move begins at slot `first_slot` of the source; `low` and `high` bound the
// source's memory in bytes.  Only the low bits of an element are used; wider slots get zeros above them.
//
// Macros: GPL_SOURCE_BITS, GPL_TARGET_BITS (1 2 4 8).
#ifndef GPL_BITS_CUH
#define GPL_BITS_CUH
#if !defined(GPL_SOURCE_BITS) || !defined(GPL_TARGET_BITS)
#error "bits.cuh needs GPL_SOURCE_BITS and GPL_TARGET_BITS"
#endif
#include "move.cuh"

#define GPL_VALUE_BITS (GPL_SOURCE_BITS < GPL_TARGET_BITS ? GPL_SOURCE_BITS : GPL_TARGET_BITS)
#define GPL_VALUE_MASK ((1u << GPL_VALUE_BITS) - 1)
#define GPL_SLOTS (8 / GPL_SOURCE_BITS)              // of a source byte

// The byte of the source in which a slot begins, and the bit at which it begins.
__device__ __forceinline__ const unsigned char* gpl_slot_byte(const void* source, gpl_uint slot) {
  return (const unsigned char*)source + (gpl_int)(slot / GPL_SLOTS);              // a packed buffer has no slots below 0
}
__device__ __forceinline__ unsigned gpl_slot_bit(gpl_uint slot) { return (unsigned)slot % GPL_SLOTS * GPL_SOURCE_BITS; }

__device__ __forceinline__ unsigned gpl_slot(const void* source, gpl_uint slot) {
  return *gpl_slot_byte(source, slot) >> gpl_slot_bit(slot) & GPL_VALUE_MASK;
}

// 32 bits of the source from a slot on, from the two aligned words that hold them.  If those reach past the source's
// memory, the bits are read byte by byte, and those outside are 0.
//   slot 5 of 4 bits at an address 3 past a multiple of 4: byte 2, so the words at 4 and 8, shifted by 8 + 4 bits
__device__ __forceinline__ unsigned gpl_slots(const void* source, gpl_uint slot, const GplMove& move) {
  const unsigned char* from = gpl_slot_byte(source, slot);
  const unsigned phase = (unsigned)((unsigned long long)from & 3), shift = gpl_slot_bit(slot);
  const unsigned char *word = from - phase;
  const unsigned char *low = (const unsigned char*)source + (gpl_int)move.low, *high = (const unsigned char*)source + (gpl_int)move.high;
  if (word >= low && word + 8 <= high)
    return __funnelshift_r(((const unsigned*)word)[0], ((const unsigned*)word)[1], 8 * phase + shift);
  unsigned long long bits = 0;
#pragma unroll 1
  for (int i = 0; i < 5; ++i)
    if (from + i < high) bits |= (unsigned long long)from[i] << 8 * i;
  return (unsigned)(bits >> shift);
}

// A thread's aligned word of a target without gaps.  Its slots from `first` up to `last` are in the target; `slot` is the
// number of its slot 0, which may be before the target.
struct GplWord32 {
  gpl_uint number, slot;
  int first, last;
};
#define GPL_WORD_SLOTS (32 / GPL_TARGET_BITS)

template <class Move>
__device__ __forceinline__ GplWord32 gpl_target_word(const Move& move) {
  const gpl_uint before = move.head * (8 / GPL_TARGET_BITS);             // slots of the first word before the target
  GplWord32 word;
  word.number = gpl_block() * GPL_THREADS + threadIdx.x;
  const gpl_uint begin = word.number * GPL_WORD_SLOTS, end = move.total + before;
  word.slot = begin - before;
  word.first = begin < before ? (int)(before - begin) : 0;
  word.last = begin >= end ? 0 : end - begin < GPL_WORD_SLOTS ? (int)(end - begin) : GPL_WORD_SLOTS;
  return word;
}

template <class Move>
__device__ __forceinline__ void gpl_store_word(void* target, const GplWord32& word, unsigned value, const Move& move) {
  unsigned char* to = (unsigned char*)target + word.number * 4 - move.head;
  const bool whole = word.first == 0 && word.last == GPL_WORD_SLOTS;
  if (whole) {
    *(unsigned*)to = value;
    return;
  }
  for (int i = word.first * GPL_TARGET_BITS / 8; i < (word.last * GPL_TARGET_BITS + 7) / 8; ++i) to[i] = (unsigned char)(value >> 8 * i);
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
  walk.outer = gpl_place<1>(walk.rest, move);
  return walk;
}

// The element at a walk's position, or the pad.
__device__ __forceinline__ unsigned gpl_value(const void* source, const GplWalk& walk, const GplMove& move) {
  if (!walk.outer.inside || walk.minor >= move.axis[0].bound) return move.pad[0] & GPL_VALUE_MASK;
  return gpl_slot(source, move.first_slot + walk.outer.source + walk.minor * move.axis[0].source_stride);
}

#endif
