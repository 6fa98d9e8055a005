// The order of packed elements within a byte, for bits.cuh and bits_turn.cu.
//
// A side is big if the first element of a byte has its highest bits.  What is read from it, and what is written to it, is turned
// byte by byte; in between, element 0 is in the lowest bits of byte 0.
//   bits 2: 0b00011011 are the elements 0 1 2 3 of a big byte, and turned they are 0b11100100
//
// Macros: GPL_SOURCE_BITS, GPL_TARGET_BITS; GPL_SOURCE_BIG, GPL_TARGET_BIG (0 1; 0 if they are missing).
#ifndef GPL_BIT_ORDER_CUH
#define GPL_BIT_ORDER_CUH
#if !defined(GPL_SOURCE_BITS) || !defined(GPL_TARGET_BITS)
#error "bit_order.cuh needs GPL_SOURCE_BITS and GPL_TARGET_BITS"
#endif
#ifndef GPL_SOURCE_BIG
#define GPL_SOURCE_BIG 0
#endif
#ifndef GPL_TARGET_BIG
#define GPL_TARGET_BIG 0
#endif

// Each byte of a word with its elements in the other order: halves swap, then their halves, down to elements of BITS bits.
template <int BITS>
__device__ __forceinline__ unsigned gpl_turned_bytes(unsigned word) {
#pragma unroll
  for (int width = 4; width >= BITS; width /= 2) {
    const unsigned lower = ~0u / ((1u << width) + 1);                  // width 4: 0x0f0f0f0f
    word = (word & lower) << width | (word >> width & lower);
  }
  return word;
}

// A word from the source with its elements from the lowest bits on, and a word as it is in the target.
__device__ __forceinline__ unsigned gpl_from_source(unsigned word) {
  return GPL_SOURCE_BIG ? gpl_turned_bytes<GPL_SOURCE_BITS>(word) : word;
}
__device__ __forceinline__ unsigned gpl_to_target(unsigned word) {
  return GPL_TARGET_BIG ? gpl_turned_bytes<GPL_TARGET_BITS>(word) : word;
}

#endif
