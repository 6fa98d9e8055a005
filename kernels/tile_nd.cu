// Tile of many axes through shared memory, for minor axes that are short on both sides.
//
// A tile is a box over up to 16 axes: enough of the source's minor axes that it is read in runs of about 128 bytes, and
// enough of the target's that it is written in such runs.  Axes of the box are whole, but for axis 0 and axis 1, which
// may be cut: count[i] pieces of tile[i] places, or single places where nothing is cut and they are outer axes.  The rest
// of `axis` are first the outer axes, which only move the box about, then the box's whole axes, which have no part in the
// number of a tile.
//
// The elements of a box are numbered twice: in the order of the source while reading and in that of the target while
// writing, so that neighbouring lanes meet neighbouring addresses.  A number is split once, into low + low.value * high;
// where the two parts lie is looked up in two tables, and the sum of both entries is all there is to know:
//
//   bits 16..63   offset in elements from the first element of the source, or place of the target
//   bits 14..15   not 0: outside the bound, or outside the extent
//   bits  0..13   place in shared memory
//
// The tables hold low + high entries rather than low * high, and a block fills them once, a thread an entry or two.  So
// an element costs one division however many axes there are.  Example, f32 2^22 reversed: a box of 6 axes of the source
// and 5 of the target has 2048 elements and tables of 2 x (64 + 32) entries.
//
// `step` is what one coordinate of an axis moves in shared memory; the host chooses steps that keep lanes apart:
//   the box above: steps 1 2 4 8 16 32 along the source's axes, 65 130 260 520 1040 along the target's: lanes that
//   write read places 65 apart, in banks 1 apart
//
// Macros: those of move.cuh.
#include "move.cuh"

#define GPL_DIGITS 16                // axes of a box; planning/tile_box.py keeps to this and the next two
#define GPL_ENTRIES 512              // of all four tables
#define GPL_BOX_BYTES 10240          // shared memory of a box
#define GPL_BATCH 4                  // elements of a thread that are loaded before the first is stored
#define GPL_OUTSIDE 0x4000           // in one entry; the sum of two has it or twice it
#define GPL_ANY_OUTSIDE 0xC000
#define GPL_PLACE 0x3FFF

// GplDivisor for numbers inside a tile: 32 bits in every build.
struct GplSmallDivisor {
  unsigned value, multiplier, shift;
};

__device__ __forceinline__ unsigned gpl_divide(unsigned n, const GplSmallDivisor& by) {
  return (__umulhi(n, by.multiplier) + n) >> by.shift;
}

struct GplDigit {
  GplSmallDivisor extent;            // of the box along this axis
  unsigned axis, step;               // which of GplMove, and its step in shared memory
};

// The axes of a box in the order of one side, minor first.
struct GplOrder {
  GplSmallDivisor low;               // elements of the low digits
  unsigned low_digits, digits;       // low ones and all
  unsigned entries;                  // of both tables, first the low one's
  GplDigit digit[GPL_DIGITS];
};

struct GplBoxMove {
  GplMove move;
  GplOrder read, write;
  unsigned elements;                 // of a box that is not cut off
};

// A block's box: its first element on both sides, and its first coordinate along the two axes that may be cut.
struct GplBox {
  GplPlace place;
  gpl_uint first[2];
};

__device__ __forceinline__ GplBox gpl_box(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
  GplBox box = {gpl_place<2>(others, move), {(number - above * move.count[0].value) * move.tile[0].value,
                                             (above - others * move.count[1].value) * move.tile[1].value}};
  box.place.source += box.first[0] * move.axis[0].source_stride + box.first[1] * move.axis[1].source_stride;
  box.place.target += box.first[0] * move.axis[0].target_stride + box.first[1] * move.axis[1].target_stride;
  box.place.inside = box.place.inside && box.first[0] < move.axis[0].bound && box.first[1] < move.axis[1].bound;
  return box;
}

// One entry of an order's tables.  Low ones start from the box's own place.
template <bool READ>
__device__ __forceinline__ unsigned long long gpl_entry(unsigned number, const GplOrder& order, const GplBox& box, const GplMove& move) {
  const bool high = number >= order.low.value;
  const unsigned end = high ? order.digits : order.low_digits;
  unsigned rest = high ? number - order.low.value : number, place = 0;
  gpl_uint offset = high ? 0 : READ ? box.place.source : box.place.target;
  bool inside = !READ || box.place.inside;
#pragma unroll 1
  for (unsigned i = high ? order.low_digits : 0; i < end; ++i) {
    const GplDigit& digit = order.digit[i];
    const GplAxis& axis = move.axis[digit.axis];
    const unsigned above = gpl_divide(rest, digit.extent), coordinate = rest - above * digit.extent.value;
    const gpl_uint first = digit.axis == 0 ? box.first[0] : digit.axis == 1 ? box.first[1] : 0;
    rest = above;
    place += coordinate * digit.step;
    offset += coordinate * (READ ? axis.source_stride : axis.target_stride);
    inside = inside && first + coordinate < (READ ? axis.bound : axis.extent.value);
  }
  return (unsigned long long)(long long)(gpl_int)offset << 16 | (inside ? 0 : GPL_OUTSIDE) | place;
}

__device__ __forceinline__ unsigned long long gpl_look_up(unsigned number, const GplOrder& order, const unsigned long long* table) {
  const unsigned high = gpl_divide(number, order.low);
  return table[number - high * order.low.value] + table[order.low.value + high];
}

__device__ __forceinline__ gpl_uint gpl_offset(unsigned long long sum) { return (gpl_uint)((long long)sum >> 16); }

GPL_KERNEL gpl_tile_nd(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplBoxMove nd) {
  __shared__ gpl_element shared_nd[GPL_BOX_BYTES / GPL_ELEMENT_BYTES];
  __shared__ unsigned long long table[GPL_ENTRIES];
  if (gpl_block() >= nd.move.total) return;                       // the whole block, before any barrier
  const GplBox box = gpl_box(gpl_block(), nd.move);
  const unsigned reads = nd.read.entries, entries = reads + nd.write.entries;
  for (unsigned entry = threadIdx.x; entry < entries; entry += GPL_THREADS)
    table[entry] = entry < reads ? gpl_entry<true>(entry, nd.read, box, nd.move) : gpl_entry<false>(entry - reads, nd.write, box, nd.move);
  __syncthreads();                                                // the tables are complete
  for (unsigned first = threadIdx.x; first < nd.elements; first += GPL_BATCH * GPL_THREADS) {
    gpl_element value[GPL_BATCH];
    unsigned place[GPL_BATCH];
#pragma unroll
    for (int k = 0; k < GPL_BATCH; ++k) {
      if (first + k * GPL_THREADS >= nd.elements) break;
      const unsigned long long sum = gpl_look_up(first + k * GPL_THREADS, nd.read, table);
      gpl_pad(nd.move, value[k]);
      if (!(sum & GPL_ANY_OUTSIDE)) value[k] = *gpl_at(source, gpl_offset(sum));
      place[k] = (unsigned)sum & GPL_PLACE;
    }
#pragma unroll
    for (int k = 0; k < GPL_BATCH; ++k)
      if (first + k * GPL_THREADS < nd.elements) shared_nd[place[k]] = value[k];
  }
  __syncthreads();                                                // the box is complete
#pragma unroll 4
  for (unsigned number = threadIdx.x; number < nd.elements; number += GPL_THREADS) {
    const unsigned long long sum = gpl_look_up(number, nd.write, table + reads);
    if (!(sum & GPL_ANY_OUTSIDE)) *gpl_at(target, gpl_offset(sum)) = shared_nd[(unsigned)sum & GPL_PLACE];
  }
}
