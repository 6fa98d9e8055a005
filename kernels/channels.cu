// Channels: pixels of 2 to 16 channels, stored pixel by pixel on one side and channel by channel, in planes, on the other.
//
// Both sides are accessed in whole sectors; in between, lanes exchange registers, without shared memory.
// Axis 0 is the pixel axis, axis 1 the channel axis.  Pixels are contiguous: GPL_CHANNELS elements from one to the next.
//
// A register holds a word of 4 bytes: E elements, or part of one.  A lane gets E neighbouring pixels, one word per plane, in
// D = GPL_CHANNELS registers (two or four times as many for elements of 8 or 16 bytes).  On the pixel side these are D * 4
// contiguous bytes, and if each lane read its own, each would touch different sectors.  Instead, to planes:
//   read     D = EVEN * ODD, EVEN a power of two.  Lanes read groups of EVEN registers, lane L the groups L, 32 + L, ...;
//            if a group is more than 16 bytes, PIECES lanes together read one of their PIECES groups after the other
//   square   those lanes exchange pieces among themselves, half of the pieces in each of log2(PIECES) steps
//   spread   lane L has the groups 32 k + L and needs ODD * L + c, for k and c from 0 to ODD - 1.  In step c it takes one
//            from lane (ODD * L + c) % 32.  Since ODD is odd, every lane is read exactly once, and offers the right group:
//            lane s offers the k with (32 k + s) % ODD == c.  In the order 0, 32, 64, ... modulo ODD that is number c - s.
//            So the groups are rotated by s % ODD places, bit by bit, and then every step has its own register
//   transpose  E pixels of words become words of E pixels, byte by byte
//   write    word c goes to plane c: 32 lanes write 128, 256 or 512 contiguous bytes
// From planes to pixels, the steps run backwards; `collect` undoes `spread`.
//
// Example, u8 with 3 channels: E = 4, D = ODD = 3, EVEN = 1, a chunk of 128 pixels r g b in 96 words.
//
//   memory             word 0          word 1          word 2          word 3               word 95
//   (pixels)       | r0 g0 b0 r1 | g1 b1 r2 g2 | b2 r3 g3 b3 | r4 g4 b4 r5 |  ...  | b126 r127 g127 b127 |
//
//                            lane 0        lane 1        lane 5          lane 31
//   read       part[0]       w0            w1            w5              w31           a row is 128 bytes of memory
//              part[1]       w32           w33           w37             w63
//              part[2]       w64           w65           w69             w95
//
//   spread     part[0]       w0            w3            w15             w93           a lane has its own 4 pixels
//              part[1]       w1            w4            w16             w94           (lane 5 takes words 15, 16, 17
//              part[2]       w2            w5            w17             w95            from lanes 15, 16, 17)
//
//   transpose  plane[0]      r0 .. r3      r4 .. r7      r20 .. r23      r124 .. r127  a row is 128 bytes of a plane
//              plane[1]      g0 .. g3      g4 .. g7      g20 .. g23      g124 .. g127
//              plane[2]      b0 .. b3      b4 .. b7      b20 .. b23      b124 .. b127
//
// Example, f32 with 16 channels: E = 1, D = EVEN = 16, 4 pieces of 16 bytes.  Lanes 0 to 3 read the 64 bytes of pixel 0,
// then those of pixels 1, 2 and 3; the square gives each lane its own pixel.
//
// A warp takes GPL_CHUNKS times 32 * E pixels of one row; it issues all reads before it uses the first.  count[0] is
// the number of such spans in a row, `total` the number of all spans.  Complete spans check no bounds.
// Padding is written in the same pass: pixels, channels and rows outside the bounds become pad and are not read.  Channels of
// the source that have no plane are read with the others and dropped.
//
// With 3 channels, a thread takes 2.5 instructions per element of 1 byte, 6.8 of 4 bytes and 11 of 8 bytes; with 15, where
// ODD is largest, 4, 9.3 and 17 (sm_90, whole spans, all instructions; a test counts them).
//
// Macros: those of move.cuh, GPL_CHANNELS, GPL_PLANES (the bound of the channel axis: planes that hold elements, at most
// GPL_CHANNELS), GPL_CHUNKS, GPL_TO_PLANES (1; 0 for planes to pixels).
#if !defined(GPL_CHANNELS) || !defined(GPL_PLANES) || !defined(GPL_CHUNKS) || !defined(GPL_TO_PLANES)
#error "channels.cu needs GPL_CHANNELS, GPL_PLANES, GPL_CHUNKS and GPL_TO_PLANES"
#endif
#include "move.cuh"

#define GPL_WORD_BYTES (GPL_ELEMENT_BYTES < 4 ? 4 : GPL_ELEMENT_BYTES)
#define GPL_E (GPL_WORD_BYTES / GPL_ELEMENT_BYTES)
#define GPL_D (GPL_CHANNELS * GPL_WORD_BYTES / 4)
#define GPL_EVEN (GPL_D & -GPL_D)
#define GPL_ODD (GPL_D / GPL_EVEN)
#define GPL_PIECES (GPL_EVEN < 4 ? 1 : GPL_EVEN / 4)
#define GPL_VECTORS (GPL_ODD * GPL_PIECES)
#define GPL_VECTOR_BYTES (4 * GPL_D / GPL_VECTORS)
#define GPL_PER_VECTOR (GPL_VECTOR_BYTES / GPL_ELEMENT_BYTES)
#define GPL_PIXELS (32 * GPL_E)                      // of a chunk
#define GPL_ALL_LANES 0xffffffffu

// A lane's part of a chunk, in three views: for exchanges, on the pixel side, and on the plane side.
union GplPixels {
  unsigned part[GPL_D];
  GplChunk<GPL_VECTOR_BYTES> vector[GPL_VECTORS];
  GplChunk<GPL_WORD_BYTES> plane[GPL_CHANNELS];
};

// Lanes of a square: lane t has piece t of every lane's group and needs its own group, or the reverse.  Each step exchanges
// half of the pieces, those whose lane and number differ in one bit; the remaining squares are half as large.
__device__ __forceinline__ void gpl_square(GplPixels& pixels, unsigned lane) {
  const int size = GPL_VECTOR_BYTES / 4;
#pragma unroll
  for (int bit = 0; 1 << bit < GPL_PIECES; ++bit) {
    const int apart = 1 << bit;
    const bool upper = lane & apart;
#pragma unroll
    for (int i = 0; i < GPL_D; ++i) {
      if (i / size & apart) continue;
      unsigned &low = pixels.part[i], &high = pixels.part[(i + apart * size) % GPL_D];
      const unsigned given = __shfl_xor_sync(GPL_ALL_LANES, upper ? low : high, apart);
      low = upper ? given : low;
      high = upper ? high : given;
    }
  }
}

// Group i becomes group i + places; 0 <= places < ODD.
__device__ __forceinline__ void gpl_rotate(GplPixels& pixels, unsigned places) {
#pragma unroll
  for (int bit = 0; 1 << bit < GPL_ODD; ++bit) {
    const GplPixels before = pixels;
    const int shift = (GPL_ODD - (1 << bit)) * GPL_EVEN;
#pragma unroll
    for (int i = 0; i < GPL_D; ++i) pixels.part[i] = places >> bit & 1 ? before.part[(i + shift) % GPL_D] : before.part[i];
  }
}

// n % ODD for n <= 480, by multiplication.
__device__ __forceinline__ unsigned gpl_residue(unsigned n) { return n - n * (65536 / GPL_ODD + 1) / 65536 * GPL_ODD; }

// Groups 32 k + lane to groups ODD * lane + c.  A shuffle takes the lane number modulo 32.
__device__ __forceinline__ void gpl_spread(GplPixels& pixels, unsigned lane) {
#if GPL_ODD > 1
  GplPixels offered;
#pragma unroll
  for (int i = 0; i < GPL_D; ++i) offered.part[i / GPL_EVEN * 32 % GPL_ODD * GPL_EVEN + i % GPL_EVEN] = pixels.part[i];
  gpl_rotate(offered, gpl_residue(lane));
#pragma unroll
  for (int i = 0; i < GPL_D; ++i)
    pixels.part[i] = __shfl_sync(GPL_ALL_LANES, offered.part[i], GPL_ODD * lane + i / GPL_EVEN);
#endif
}

// Groups ODD * lane + c to groups 32 k + lane.  In step c, lane s gets one from the lane L with ODD * L + c == s modulo 32.
// The 8th power of an odd number is 1 modulo 32, so the 7th power of ODD is its inverse.
#define GPL_INVERSE (GPL_ODD * GPL_ODD % 32 * GPL_ODD * GPL_ODD % 32 * GPL_ODD * GPL_ODD % 32 * GPL_ODD % 32)
__device__ __forceinline__ void gpl_collect(GplPixels& pixels, unsigned lane) {
#if GPL_ODD > 1
  GplPixels taken;
#pragma unroll
  for (int i = 0; i < GPL_D; ++i)
    taken.part[i] = __shfl_sync(GPL_ALL_LANES, pixels.part[i], GPL_INVERSE * (lane - i / GPL_EVEN));
  gpl_rotate(taken, gpl_residue(32 * GPL_ODD - lane));
#pragma unroll
  for (int i = 0; i < GPL_D; ++i) pixels.part[i] = taken.part[i / GPL_EVEN * 32 % GPL_ODD * GPL_EVEN + i % GPL_EVEN];
#endif
}

// The word that element i of word j comes from, and its position there.  Channel c of pixel x is element
// x * GPL_CHANNELS + c of the pixels, and element x of plane c.
#if GPL_TO_PLANES
#define GPL_WORD(j, i) (((i) * GPL_CHANNELS + (j)) / GPL_E)
#define GPL_SPOT(j, i) (((i) * GPL_CHANNELS + (j)) % GPL_E)
#else
#define GPL_WORD(j, i) (((j) * GPL_E + (i)) % GPL_CHANNELS)
#define GPL_SPOT(j, i) (((j) * GPL_E + (i)) / GPL_CHANNELS)
#endif

// __byte_perm picks 4 of the 8 bytes of two words, one digit of the selector for each.
__device__ __forceinline__ void gpl_transpose_words(GplPixels& pixels) {
#if GPL_E > 1
  const GplPixels before = pixels;
#pragma unroll
  for (int j = 0; j < GPL_D; ++j) {
    const unsigned first = before.part[GPL_WORD(j, 0)], second = before.part[GPL_WORD(j, 1)];
#if GPL_E == 2
    pixels.part[j] = __byte_perm(first, second, 0x5410 + 0x0022 * GPL_SPOT(j, 0) + 0x2200 * GPL_SPOT(j, 1));
#else
    const unsigned low = __byte_perm(first, second, 0x0040 + GPL_SPOT(j, 0) + 0x10 * GPL_SPOT(j, 1));
    const unsigned high = __byte_perm(before.part[GPL_WORD(j, 2)], before.part[GPL_WORD(j, 3)],
                                      0x0040 + GPL_SPOT(j, 2) + 0x10 * GPL_SPOT(j, 3));
    pixels.part[j] = __byte_perm(low, high, 0x5410);
#endif
  }
#endif
}

// The first element of a lane's first vector, counted from the first element of the span, and the distance from there to
// vector k of chunk h.
__device__ __forceinline__ unsigned gpl_vector_start(unsigned lane) {
  const unsigned inner = lane % GPL_PIECES;
  return ((lane - inner) * GPL_PIECES + inner) * GPL_PER_VECTOR;
}
#define GPL_VECTOR_STEP(h, k) \
  ((h) * GPL_PIXELS * GPL_CHANNELS + ((k) / GPL_PIECES * 32 + (k) % GPL_PIECES) * GPL_PIECES * GPL_PER_VECTOR)

// A warp's part of a row.
struct GplSpan {
  const gpl_source_element* from;    // at a lane's first vector, or its first word of plane 0
  gpl_target_element* to;
  unsigned lane, start, pixel;       // positions in the span: in elements on the pixel side, in pixels on the plane side
  // Pixels of the row from the span's first on: `bound` counts those with elements, up to one more than a span, and `extent`
  // all of them, up to a span.  So both fit 32 bits.
  unsigned bound, extent;
  GplParameters parameters;          // of its first pixel, in channel 0
};

__device__ __forceinline__ unsigned gpl_left(gpl_uint whole, gpl_uint first, unsigned most) {
  return first >= whole ? 0 : whole - first < most ? (unsigned)(whole - first) : most;
}

__device__ __forceinline__ GplSpan gpl_span(gpl_uint number, const void* __restrict__ source, void* __restrict__ target,
                                            const GplMove& move) {
  const gpl_uint others = gpl_divide(number, move.count[0]);
  const gpl_uint first = (number - others * move.count[0].value) * (GPL_CHUNKS * GPL_PIXELS);
  const GplPlace row = gpl_place<2>(others, move);
  GplSpan span;
  span.lane = threadIdx.x % 32;
  span.start = gpl_vector_start(span.lane), span.pixel = span.lane * GPL_E;
  const gpl_uint on_pixels = first * GPL_CHANNELS + span.start, on_planes = first + span.pixel;
  span.from = gpl_at(source, row.source + (GPL_TO_PLANES ? on_pixels : on_planes));
  span.to = gpl_at(target, row.target + (GPL_TO_PLANES ? on_planes : on_pixels));
  span.bound = row.inside ? gpl_left(move.axis[0].bound, first, GPL_CHUNKS * GPL_PIXELS + 1) : 0;
  span.extent = gpl_left(move.axis[0].extent.value, first, GPL_CHUNKS * GPL_PIXELS);
  span.parameters = gpl_along_axis(row.parameters, first, 0, move);
  return span;
}

// ---- planes ----
//
// Elements that change on the way do so beside the planes, where a word belongs to one channel.  GPL_ELEMENT_BYTES are those of
// the pixels, and a word of a plane has more bytes in memory, or fewer: 4 pixels of u8 become 16 bytes of f32.

#if GPL_CHANGES
template <class Element> union GplWordOf {
  typename GplHalves<GPL_E * sizeof(Element)>::type word;
  Element element[GPL_E];
};
#endif

// Word c of COUNT chunks to a plane.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void gpl_store_plane(gpl_target_element* to, const GplPixels (&pixels)[COUNT], int c, const GplSpan& span,
                                                const GplMove& move) {
#if GPL_CHANGES
  const GplOperands channel = gpl_operands(gpl_along_axis(span.parameters, c, 1, move), move);
#pragma unroll
  for (int h = 0; h < COUNT; ++h) {
    const unsigned first = span.pixel + h * GPL_PIXELS;
    GplWordOf<gpl_target_element> made;
    gpl_compute(pixels[h].plane[c].element, made.element, channel, first, WHOLE ? GPL_NO_END : span.extent, move);
    if (WHOLE || first + GPL_E <= span.extent) *(decltype(made.word)*)(to + h * GPL_PIXELS) = made.word;
    else
#pragma unroll
      for (int i = 0; i < GPL_E; ++i)
        if (first + i < span.extent) to[h * GPL_PIXELS + i] = made.element[i];
  }
#else
#pragma unroll
  for (int h = 0; h < COUNT; ++h)
    gpl_store<GPL_WORD_BYTES>(to + h * GPL_PIXELS, WHOLE ? 0 : span.pixel + h * GPL_PIXELS, WHOLE ? GPL_E : span.extent,
                              pixels[h].plane[c]);
#endif
}

// Word c of COUNT chunks from a plane; what is outside the bound becomes pad, or any number if it changes.
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void gpl_load_plane(const gpl_source_element* from, GplPixels (&pixels)[COUNT], int c, const GplSpan& span,
                                               const GplMove& move) {
#if GPL_CHANGES
  const GplOperands channel = gpl_operands(gpl_along_axis(span.parameters, c, 1, move), move);
  GplWordOf<gpl_source_element> given[COUNT] = {};
#pragma unroll
  for (int h = 0; h < COUNT; ++h) {
    const unsigned first = span.pixel + h * GPL_PIXELS;
    if (WHOLE || first + GPL_E <= span.bound) given[h].word = *(const decltype(given[h].word)*)(from + h * GPL_PIXELS);
    else
#pragma unroll
      for (int i = 0; i < GPL_E; ++i)
        if (first + i < span.bound) given[h].element[i] = from[h * GPL_PIXELS + i];
  }
#pragma unroll
  for (int h = 0; h < COUNT; ++h)
    gpl_compute(given[h].element, pixels[h].plane[c].element, channel, span.pixel + h * GPL_PIXELS,
                WHOLE ? GPL_NO_END : span.bound, move);
#else
#pragma unroll
  for (int h = 0; h < COUNT; ++h)
    pixels[h].plane[c] = gpl_load<GPL_WORD_BYTES, GPL_WORD_BYTES>(
        from + h * GPL_PIXELS, WHOLE ? 0 : span.pixel + h * GPL_PIXELS, WHOLE ? GPL_E : span.bound, move);
#endif
}

// COUNT chunks at once.  Unless WHOLE, elements are checked one by one.
#if GPL_TO_PLANES
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void gpl_move(const GplSpan& span, const GplMove& move) {
  GplPixels pixels[COUNT];
  // In elements, across pixels.  The source may end after the last plane of the last pixel.
  const unsigned bound = span.bound ? (span.bound - 1) * GPL_CHANNELS + GPL_PLANES : 0;
#pragma unroll
  for (int h = 0; h < COUNT; ++h)
#pragma unroll
    for (int k = 0; k < GPL_VECTORS; ++k) {
      const int step = GPL_VECTOR_STEP(h, k);
      pixels[h].vector[k] = gpl_load<GPL_VECTOR_BYTES, GPL_VECTOR_BYTES>(span.from + step, WHOLE ? 0 : span.start + step,
                                                                         WHOLE ? GPL_PER_VECTOR : bound, move);
    }
#pragma unroll
  for (int h = 0; h < COUNT; ++h) gpl_square(pixels[h], span.lane), gpl_spread(pixels[h], span.lane), gpl_transpose_words(pixels[h]);
  gpl_target_element* to = span.to;
#pragma unroll
  for (int c = 0; c < GPL_PLANES; ++c, to += (gpl_int)move.axis[1].target_stride) gpl_store_plane<WHOLE>(to, pixels, c, span, move);
  GplChunk<GPL_WORD_BYTES> pad;
  gpl_pad(move, pad.word);
#pragma unroll 1
  for (gpl_uint c = GPL_PLANES; c < move.axis[1].extent.value; ++c, to += (gpl_int)move.axis[1].target_stride)
#pragma unroll 1
    for (int h = 0; h < COUNT; ++h)
      gpl_store<GPL_WORD_BYTES>(to + h * GPL_PIXELS, WHOLE ? 0 : span.pixel + h * GPL_PIXELS, WHOLE ? GPL_E : span.extent, pad);
}
#else
template <bool WHOLE, int COUNT>
__device__ __forceinline__ void gpl_move(const GplSpan& span, const GplMove& move) {
  GplPixels pixels[COUNT];
  const gpl_source_element* from = span.from;
#pragma unroll
  for (int c = 0; c < GPL_CHANNELS; ++c, from += (gpl_int)move.axis[1].source_stride)
    if (c < GPL_PLANES) gpl_load_plane<WHOLE>(from, pixels, c, span, move);
    else
#pragma unroll
      for (int h = 0; h < COUNT; ++h) gpl_pad(move, pixels[h].plane[c].word);
#pragma unroll
  for (int h = 0; h < COUNT; ++h) gpl_transpose_words(pixels[h]), gpl_collect(pixels[h], span.lane), gpl_square(pixels[h], span.lane);
#pragma unroll
  for (int h = 0; h < COUNT; ++h)
#pragma unroll
    for (int k = 0; k < GPL_VECTORS; ++k) {
      const int step = GPL_VECTOR_STEP(h, k);
      gpl_store<GPL_VECTOR_BYTES>(span.to + step, WHOLE ? 0 : span.start + step,
                                  WHOLE ? GPL_PER_VECTOR : span.extent * GPL_CHANNELS, pixels[h].vector[k]);
    }
}
#endif

GPL_KERNEL gpl_channels(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  const gpl_uint number = gpl_block() * (GPL_THREADS / 32) + threadIdx.x / 32;
  if (number >= move.total) return;                               // the whole warp, before any exchange
  GplSpan span = gpl_span(number, source, target, move);
  // The gap after a pixel's last plane is part of the source only if another pixel follows.
  const unsigned needed = GPL_CHUNKS * GPL_PIXELS + (GPL_TO_PLANES && GPL_PLANES < GPL_CHANNELS);
  if (span.bound >= needed) return gpl_move<true, GPL_CHUNKS>(span, move);
#pragma unroll 1
  do {
    gpl_move<false, 1>(span, move);
    span.from += GPL_PIXELS * (GPL_TO_PLANES ? GPL_CHANNELS : 1), span.to += GPL_PIXELS * (GPL_TO_PLANES ? 1 : GPL_CHANNELS);
    span.parameters = gpl_along_axis(span.parameters, GPL_PIXELS, 0, move);
    span.bound -= min(span.bound, GPL_PIXELS), span.extent -= min(span.extent, GPL_PIXELS);
  } while (GPL_CHUNKS > 1 && span.extent > 0);
}
