// A square block of packed elements, transposed in registers, for bits_turn.cu, bits_turn_wide.cu and bits_turn_any.cu.
//
// A word has GPL_SIDE slots, and a block as many words: slot q of word p becomes slot p of word q.
//   bits 4: 8 words of 8 slots.  Squares swap across the diagonal, first of 4 x 4 slots, then 2 x 2, then single slots:
//   half-words of rows p and p + 4, bytes of rows p and p + 2, nibbles of rows p and p + 1.
#ifndef GPL_BITS_TURN_CUH
#define GPL_BITS_TURN_CUH
#if !defined(GPL_SOURCE_BITS)
#error "bits_turn.cuh needs GPL_SOURCE_BITS"
#endif

#define GPL_SIDE (32 / GPL_SOURCE_BITS)

__device__ __forceinline__ void gpl_transpose_bits(unsigned (&row)[GPL_SIDE]) {
#pragma unroll
  for (int half = GPL_SIDE / 2; half > 0; half /= 2) {
    const int shift = half * GPL_SOURCE_BITS;
    const unsigned lower = ~0u / ((1u << shift) + 1);              // shift 4: 0x0f0f0f0f
#pragma unroll
    for (int p = 0; p < GPL_SIDE; ++p) {
      if (p & half) continue;
      const unsigned first = row[p], second = row[p + half];
      if (shift >= 8) {                                            // whole bytes: two instructions for five
        row[p] = __byte_perm(first, second, shift == 16 ? 0x5410 : 0x6240);
        row[p + half] = __byte_perm(first, second, shift == 16 ? 0x7632 : 0x7351);
      } else {
        const unsigned swapped = (first >> shift ^ second) & lower;
        row[p] = first ^ swapped << shift;
        row[p + half] = second ^ swapped;
      }
    }
  }
}

#endif
