// Chunks of a source that is not aligned to whole chunks: each is cut out of the two aligned vectors that hold it.
//
// Neighbouring lanes then read neighbouring vectors.  Reads as narrow as the alignment would leave gaps between lanes, and a
// warp would touch the same sectors once for every piece of a chunk.  The second vector is another lane's first, so it
// comes from the cache.
//
// Vectors may include bytes outside a row, but none outside the source's memory: there, chunks are assembled from pieces.
// Reading and shifting are two steps, so that a thread issues all its reads before it uses the first.
#ifndef GPL_SHIFT_CUH
#define GPL_SHIFT_CUH
#include "move.cuh"

// The vectors read for a chunk, which starts `phase` bytes into the first.
template <int BYTES>
struct GplRead {
  GplChunk<BYTES> vector[2];
  unsigned phase;
};

template <int BYTES>
__device__ __forceinline__ bool gpl_holds(const void* source, const unsigned char* vectors, const GplMove& move) {
  return vectors >= (const unsigned char*)gpl_at(source, move.low) &&
         vectors + 2 * GPL_SOURCE_PART(BYTES) <= (const unsigned char*)gpl_at(source, move.high);
}

// Reads the chunk that starts `start` elements into a row of `bound` elements, as in gpl_load.
template <int BYTES, int LOAD>
__device__ __forceinline__ GplRead<BYTES> gpl_read(const void* source, const gpl_source_element* from, gpl_uint start, gpl_uint bound,
                                                   const GplMove& move) {
  GplRead<BYTES> read;
  read.phase = 0;
  if constexpr (BYTES >= 4 && LOAD < BYTES) {
    const unsigned phase = (unsigned)((unsigned long long)from & (GPL_SOURCE_PART(BYTES) - 1));
    const unsigned char* vectors = (const unsigned char*)from - phase;      // a pointer, not a number: the compiler must know its memory
    const bool some = start < bound || start + (BYTES / GPL_ELEMENT_BYTES - 1) < bound;
    if (some && gpl_holds<BYTES>(source, vectors, move)) {
      typedef typename GplWord<GPL_SOURCE_PART(BYTES)>::type gpl_vector;
      const gpl_vector* vector = (const gpl_vector*)vectors;
      read.vector[0].word = gpl_fetch<BYTES>((const gpl_source_element*)vector);
      read.vector[1].word = gpl_fetch<BYTES>((const gpl_source_element*)(vector + (phase != 0)));
      read.phase = GPL_SOURCE_BYTES == GPL_ELEMENT_BYTES ? phase : phase / GPL_SOURCE_BYTES * GPL_ELEMENT_BYTES;
      return read;
    }
  }
  read.vector[0] = gpl_load<BYTES, LOAD>(from, start, bound, move);
  return read;
}

// The chunk out of the vectors that were read; elements outside the row are pad.
//   16 bytes from byte 10 on: words 2..5 of the eight without their first 2 bytes, then the first 2 bytes of word 6
template <int BYTES, int LOAD>
__device__ __forceinline__ GplChunk<BYTES> gpl_shifted(const GplRead<BYTES>& read, gpl_uint start, gpl_uint bound, const GplMove& move) {
  if constexpr (BYTES < 4 || LOAD == BYTES) return read.vector[0];
  else {
    const int words = BYTES / 4, elements = BYTES / GPL_ELEMENT_BYTES;
    union {
      GplChunk<BYTES> vector[2];
      unsigned word[2 * words];
    };
    vector[0].word = read.vector[0].word, vector[1].word = read.vector[1].word;
#pragma unroll
    for (int half = words / 2; half; half /= 2) {        // bit by bit of the phase, for the bits that LOAD leaves open
#pragma unroll
      for (int i = 0; i < words + half; ++i)
        if (LOAD <= 4 * half) word[i] = read.phase & (4 * half) ? word[i + half] : word[i];
    }
    union {
      GplChunk<BYTES> chunk;
      unsigned shifted[words];
    };
#pragma unroll
    for (int i = 0; i < words; ++i) shifted[i] = LOAD < 4 ? __funnelshift_r(word[i], word[i + 1], 8 * (read.phase & 3)) : word[i];
    if (start < bound && bound - start >= elements) return chunk;
    GplChunk<BYTES> padded;
    gpl_pad(move, padded.word);
#pragma unroll
    for (int i = 0; i < elements; ++i)
      if (start + i < bound) padded.element[i] = chunk.element[i];
    return padded;
  }
}

#endif
