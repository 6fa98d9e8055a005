// Moves that look up every place, for tiles that cut an array into too many regions or split bytes of a packed target.
//
// From the number of a place, the instructions of a program compute where its element is in the source.  If one of their
// numbers exceeds its bound, the place is padding.  Places are numbered by their linear index in the target.  If that is an
// array with its own strides, its elements are numbered row-major, and every stored coordinate adds to the offset.
//   s4[4,6]{1,0:E(4)} to s4[4,6]{1,0:T(2,3)E(4)}: place 3 is element (1, 0), slot 6, the low bits of byte 3
//
// A thread makes four places, 256 apart; if the target is packed, an aligned word, four slots at a time.
// Offsets in the source count slots if it is packed, else bytes.
//
// Macros: those of bits.cuh; GPL_SOURCE_BITS and GPL_TARGET_BITS are 8 on a side that is not packed, whatever the element.
#define GPL_AXES 1
#include "bits.cuh"
#include "instructions.cuh"

struct GplLookup {
  unsigned int pad[4];                    // the pad's bytes, repeated to 16
  unsigned long long total;               // places
  unsigned int head;                      // bytes before a packed target in its first aligned word
  unsigned int apart;                     // 1 if the target has its own strides
  unsigned int instructions, unused;
  GplInstructions list;
};

// Computes the offsets of four places in the source, and in a target with strides; returns which of them are padding.
__device__ __forceinline__ unsigned gpl_look_up(const GplLookup& lookup, const gpl_numbers& given, gpl_numbers& source, gpl_numbers& target) {
  gpl_numbers kept[GPL_REGISTERS];
  const GplTerm* term = lookup.list.term;
  unsigned outside = 0;
#pragma unroll 1
  for (int i = 0; i < (int)lookup.instructions; ++i) {
    const GplInstruction& instruction = lookup.list.instruction[i];
    gpl_numbers number;
    outside |= gpl_sum_up(instruction, term, given, kept, number);
    term += instruction.terms;
    gpl_keep(instruction, number, kept);
#pragma unroll 1
    for (int t = 0; t < instruction.adds; ++t) gpl_add(source, number, term[t]);
    term += instruction.adds;
    if (!instruction.stores) continue;
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) target[k] += number[k] * (gpl_uint)instruction.row;
  }
  return outside;
}

#if GPL_TARGET_BITS < 8

__device__ __forceinline__ void gpl_make_places(const void* source, void* target, const GplLookup& lookup) {
  const GplGroup to = gpl_target_group<4>(lookup);
  unsigned word = 0;
#pragma unroll 1
  for (int begin = to.first; begin < to.last; begin += GPL_ITEMS) {
    gpl_numbers given, from = {}, none = {};
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) given[k] = begin + k < to.last ? to.slot + begin + k : to.slot + begin;
    const unsigned outside = gpl_look_up(lookup, given, from, none);
#pragma unroll
    for (int k = 0; k < GPL_ITEMS; ++k) {
      if (begin + k >= to.last) continue;
      const unsigned value = outside >> k & 1 ? lookup.pad[0] & GPL_VALUE_MASK : gpl_slot(source, from[k]);
      word |= value << (begin + k) * GPL_TARGET_BITS;
    }
  }
  if (to.first < to.last) gpl_store_word(gpl_group_at<4>(target, to, lookup), to.first, to.last, gpl_to_target(word));
}

#else

__device__ __forceinline__ gpl_element gpl_element_at(const void* source, gpl_uint place) {
#if GPL_SOURCE_BITS < 8
  return (gpl_element)gpl_slot(source, place);
#else
  return *(const gpl_element*)((const char*)source + (gpl_int)place);
#endif
}

__device__ __forceinline__ void gpl_make_places(const void* source, void* target, const GplLookup& lookup) {
  const gpl_uint first = gpl_block() * (GPL_THREADS * GPL_ITEMS) + threadIdx.x;
#define GPL_IS_PLACE(k) (first + (k) * GPL_THREADS < lookup.total)
  gpl_numbers given, from = {}, to = {};
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) given[k] = GPL_IS_PLACE(k) ? first + k * GPL_THREADS : 0;
  const unsigned outside = gpl_look_up(lookup, given, from, to);
  gpl_element value[GPL_ITEMS];
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k) {
    if (outside >> k & 1) gpl_pad(lookup, value[k]);
    else value[k] = gpl_element_at(source, from[k]);
  }
#pragma unroll
  for (int k = 0; k < GPL_ITEMS; ++k)
    if (GPL_IS_PLACE(k)) *(gpl_element*)((char*)target + (gpl_int)(lookup.apart ? to[k] : given[k] * GPL_ELEMENT_BYTES)) = value[k];
}

#endif

GPL_KERNEL gpl_lookup(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplLookup lookup) {
  gpl_make_places(source, target, lookup);
}
