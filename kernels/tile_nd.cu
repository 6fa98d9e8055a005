// Tile of many axes through shared memory, for minor axes that are short on both sides.
//
// A tile is a box over up to 13 axes: enough of the source's minor axes to read runs of about 128 bytes, and enough of the
// target's to write such runs.  The axes of the box are whole except axis 0 and axis 1, which may be cut: count[i] pieces of
// tile[i] places, or single places if nothing is cut and they are outer axes.  The rest of `axis` are the outer axes, which
// only move the box.
//
// A box is walked twice, in the order of the source to read and in the order of the target to write, so that neighbouring
// lanes access neighbouring addresses.  On each side, a walk consists of rows of up to 32 lanes.  The most minor digits of
// the order make a lane's number, the other digits a row's number, and an axis may be split between the two.  Example, f32
// 2^22 reversed, a box of 5 axes of the source and 6 of the target: axes that are contiguous both in memory and in shared
// memory are one digit, of 32 on the source's side and of 64 on the target's:
//
//   reading   lane = digit of 32; row = digits of 2 2 2 2 2 2              64 rows of 32 lanes
//   writing   lane = half of the digit of 64; row = its 2, then 2 2 2 2 2   64 rows of 32 lanes
//
// A table in shared memory holds the offsets of every lane and every row; a block fills it once, an entry or two per thread.
// A thread keeps its lane and takes every eighth row.  So an element costs no division, however many axes there are: on each
// side one look-up of a row, which all lanes of a warp share, two additions, one access to the box, one to memory.
//
// If neighbours in the source are neighbours in shared memory, small elements enter it in words of 4 bytes.  If all runs of
// the target are whole words, they leave it as words, assembled from 4 bytes or 2 halves.
//
// Banks: `step` is the distance in shared memory between coordinates; the host chooses steps that put the lanes of a row in
// different banks.  In the box above, the steps are 1 2 4 8 16 elements along the source's axes and 33 66 132 264 528 1056
// along the target's: lanes that write are 33 words apart, so their banks are 1 apart.
//
// An element of 4 bytes costs 12 instructions, 6 per side; 24 with everything that a thread with 8 rows per side does once,
// except for the table.  tests/kernels/test_nvrtc.py counts them.
//
// Macros: those of move.cuh; GPL_READ_BYTES, GPL_WRITE_BYTES: of one access to the source, and to the target.
#include "move.cuh"

#define GPL_LANES 32
#define GPL_WARPS (GPL_THREADS / GPL_LANES)
#define GPL_DIGITS 16                // of an order; the same number as in gpu/parameters.py, like the next
#define GPL_SHARED_BYTES 16384       // of a table and a box
#define GPL_BATCH (GPL_ELEMENT_BYTES == 16 ? 4 : 8)    // rows that a thread loads before it stores the first
typedef GplWord<GPL_READ_BYTES>::type gpl_piece;       // read at once
typedef GplChunk<GPL_WRITE_BYTES> gpl_written;         // written at once

// GplDivisor for numbers inside a tile: 32 bits in every build.
struct GplSmallDivisor {
  unsigned value, multiplier, shift;
};

__device__ __forceinline__ unsigned gpl_divide(unsigned n, const GplSmallDivisor& by) {
  return (__umulhi(n, by.multiplier) + n) >> by.shift;
}

// A piece of an axis.  Its coordinate c is place c * unit along the axis, counted from the tile's first place along axis
// `cut`, or from 0 if `cut` is not 0 or 1.  Places from `bound` on are outside.  If the axis is split into lanes and rows,
// `lanes` is the number of lanes per four places (a word of 4 bytes may hold four), and a row has fewer at the bound.  Then
// the bound, the tile and `unit` are whole words of the axis, so places * lanes / 4 has no remainder.
struct GplDigit {
  GplSmallDivisor size;
  unsigned short step, cut, unit, lanes;         // step in bytes of shared memory, for one coordinate
  gpl_uint stride, bound;                        // in elements
};

struct GplOrder {
  unsigned lanes, last_lanes;        // in each of the first `full` rows; in the others
  unsigned full, rows;
  unsigned lane_digits, digits;      // digit[0..lane_digits) are the lanes', the rest the rows'
  unsigned first;                    // the first row's entry
  unsigned checked;                  // not 0: any tile may have rows that are outside
  GplDigit digit[GPL_DIGITS];
};

struct GplBoxMove {
  GplMove move;
  GplOrder order[2];                 // reading, writing
  unsigned apart[4];                 // bytes from a written piece's first element to each, in shared memory
  unsigned entries, box;             // of the table; bytes from it to the box
};

// The place of a lane or a row: x is its offset in elements; the upper bits of y are its offset in shared memory, in bytes,
// and the lower 16 bits count how many of its lanes are inside.
#if GPL_INDEX_BITS == 32
typedef uint2 GplEntry;
#else
typedef ulonglong2 GplEntry;
#endif
__device__ __forceinline__ unsigned gpl_bytes(const GplEntry& entry) { return (unsigned)entry.y >> 16; }
__device__ __forceinline__ unsigned gpl_inside(const GplEntry& entry) { return (unsigned)entry.y & 0xFFFF; }

// The number of a tile, decoded: its first places along the axes that may be cut, and the number of the outer axes.
struct GplCorner {
  gpl_uint first[2], others;
};

__device__ __forceinline__ GplCorner gpl_corner(gpl_uint number, const GplMove& move) {
  const gpl_uint above = gpl_divide(number, move.count[0]), others = gpl_divide(above, move.count[1]);
  return {{(number - above * move.count[0].value) * move.tile[0].value, (above - others * move.count[1].value) * move.tile[1].value},
          others};
}

// One entry of the table: 32 lanes for reading, 32 for writing, the rows for reading, the rows for writing.  The offsets of
// lanes include the box's.
__device__ __forceinline__ GplEntry gpl_entry(unsigned entry, const GplCorner& corner, const GplBoxMove& nd) {
  const bool is_lane = entry < 2 * GPL_LANES, writes = is_lane ? entry >= GPL_LANES : entry >= nd.order[1].first;
  const GplOrder& order = nd.order[writes];
  unsigned number = is_lane ? entry % GPL_LANES : entry - order.first, bytes = 0, inside = GPL_LANES;
  gpl_uint offset = 0;
  const unsigned end = is_lane ? order.lane_digits : order.digits;
#pragma unroll 1
  for (unsigned i = is_lane ? 0 : order.lane_digits; i < end; ++i) {
    const GplDigit& digit = order.digit[i];
    const unsigned above = gpl_divide(number, digit.size), coordinate = number - above * digit.size.value;
    const gpl_uint from = (digit.cut == 0 ? corner.first[0] : digit.cut == 1 ? corner.first[1] : 0) + coordinate * digit.unit;
    number = above;
    bytes += coordinate * digit.step;
    offset += coordinate * digit.stride;
    const unsigned left = from < digit.bound ? (unsigned)min(digit.bound - from, (gpl_uint)(4 * GPL_LANES)) : 0;
    inside = min(inside, left * digit.lanes / 4);
  }
  if (is_lane) {
    const GplPlace place = gpl_place<2>(corner.others, nd.move);
    bool data = place.inside;
    offset += writes ? place.target : place.source;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const GplAxis& axis = nd.move.axis[i];
      offset += corner.first[i] * (writes ? axis.target_stride : axis.source_stride);
      data = data && corner.first[i] < axis.bound;
    }
    if (!writes && !data) inside = 0;
  }
  GplEntry result;
  result.x = offset;
  result.y = bytes << 16 | inside;
  return result;
}

// One thread on one side: its lane (GPL_LANES for none), and its place in memory and in the box.
template <bool WHOLE>
struct GplReader {
  const void* source;
  gpl_uint from;
  unsigned char* to;
  unsigned lane;
  const GplMove& move;

  template <int ROWS>
  __device__ __forceinline__ void rows(const GplEntry* row) const {
    GplEntry entry[ROWS];
    gpl_piece value[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      entry[i] = row[i * GPL_WARPS];
      if (!WHOLE) gpl_pad(move, value[i]);
      if (WHOLE || lane < gpl_inside(entry[i])) value[i] = *(const gpl_piece*)gpl_at(source, from + entry[i].x);
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) *(gpl_piece*)(to + gpl_bytes(entry[i])) = value[i];
  }
};

template <bool WHOLE>
struct GplWriter {
  void* target;
  gpl_uint to;
  const unsigned char* from;
  unsigned lane;
  const unsigned (&apart)[4];

  template <int ROWS>
  __device__ __forceinline__ void rows(const GplEntry* row) const {
    GplEntry entry[ROWS];
    gpl_written value[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      entry[i] = row[i * GPL_WARPS];
#pragma unroll
      for (int j = 0; j < GPL_WRITE_BYTES / GPL_ELEMENT_BYTES; ++j)
        value[i].element[j] = *(const gpl_element*)(from + gpl_bytes(entry[i]) + (j ? apart[j] : 0));
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (WHOLE || lane < gpl_inside(entry[i])) ((gpl_written*)gpl_at(target, to + entry[i].x))->word = value[i].word;
  }
};

// The rows of a thread, every eighth: first the full ones, then those in which a split axis ends.  It loads up to GPL_BATCH
// rows at once.
template <class Side>
__device__ __forceinline__ void gpl_walk(const Side& side, const GplEntry* table, const GplOrder& order) {
  const unsigned lane = threadIdx.x % GPL_LANES, warp = threadIdx.x / GPL_LANES;
#pragma unroll 1
  for (int last = 0; last < 2; ++last) {
    const unsigned begin = (last ? order.full : 0) + warp, end = last ? order.rows : order.full;
    if (begin >= end || lane >= (last ? order.last_lanes : order.lanes)) continue;
    const GplEntry* row = table + order.first + begin;
    unsigned count = (end - begin + GPL_WARPS - 1) / GPL_WARPS;
#pragma unroll 1
    for (; count >= GPL_BATCH; count -= GPL_BATCH, row += GPL_BATCH * GPL_WARPS) side.template rows<GPL_BATCH>(row);
    if (GPL_BATCH > 4 && (count & 4)) side.template rows<4>(row), row += 4 * GPL_WARPS;
    if (count & 2) side.template rows<2>(row), row += 2 * GPL_WARPS;
    if (count & 1) side.template rows<1>(row);
  }
}

GPL_KERNEL gpl_tile_nd(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplBoxMove nd) {
  __shared__ uint4 shared_nd[GPL_SHARED_BYTES / 16];
  if (gpl_block() >= nd.move.total) return;                       // the whole block, before any barrier
  GplEntry* const table = (GplEntry*)shared_nd;
  unsigned char* const box = (unsigned char*)shared_nd + nd.box;
  const GplCorner corner = gpl_corner(gpl_block(), nd.move);
  for (unsigned entry = threadIdx.x; entry < nd.entries; entry += GPL_THREADS) table[entry] = gpl_entry(entry, corner, nd);
  const unsigned lane = threadIdx.x % GPL_LANES;
  const gpl_uint end0 = corner.first[0] + nd.move.tile[0].value, end1 = corner.first[1] + nd.move.tile[1].value;
  __syncthreads();                                                // the table is complete
  {
    const GplEntry own = table[lane];
    const bool inside = gpl_inside(own), whole = !nd.order[0].checked && end0 <= nd.move.axis[0].bound && end1 <= nd.move.axis[1].bound;
    if (whole && inside) gpl_walk(GplReader<true>{source, own.x, box + gpl_bytes(own), lane, nd.move}, table, nd.order[0]);
    else gpl_walk(GplReader<false>{source, own.x, box + gpl_bytes(own), inside ? lane : GPL_LANES, nd.move}, table, nd.order[0]);
  }
  __syncthreads();                                                // the box is complete
  {
    const GplEntry own = table[GPL_LANES + lane];
    const bool inside = gpl_inside(own), whole = end0 <= nd.move.axis[0].extent.value && end1 <= nd.move.axis[1].extent.value;
    if (whole && inside) gpl_walk(GplWriter<true>{target, own.x, box + gpl_bytes(own), lane, nd.apart}, table, nd.order[1]);
    else gpl_walk(GplWriter<false>{target, own.x, box + gpl_bytes(own), inside ? lane : GPL_LANES, nd.apart}, table, nd.order[1]);
  }
}
