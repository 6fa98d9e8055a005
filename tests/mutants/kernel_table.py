"""The kernel mutants: what is replaced in which file, and what fault that is.

The text to replace stands in its file exactly once; tests/mutants/test_mutants.py fails when it no longer does.  `equivalent` is there for
mutants that no test can notice, and says why.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A fault of a kernel file, named by what it is."""

    file: str
    what: str
    old: str
    new: str
    equivalent: str = ""

    @property
    def name(self):
        return f"{self.file}: {self.what}"


# ---- proofs ----

AGAIN = (
    "a number past the last one is decoded modulo all extents, so such a block does the work of another tile once more and writes the same "
    "bytes to the same places"
)
READ_AGAIN = (
    "a number past the last one is decoded modulo all extents, so it is read what another item reads; the guard in front of the store "
    "is the one that counts"
)
NO_SLOTS = "`first` to `last` of such a group are no slots: none is read, no byte of it is stored, and only whole groups are read as one"
ONLY_SLOWER = "the same words one by one, at the end of the last warp"
NO_BOUNDS = "a program that is not padded has no bound but the largest number, so the pass finds nothing"
NO_REST = (
    "where an axis is split, `lanes` are 4 * n / unit, and the bound, the tile's first place and the places before a lane are multiples of "
    "the unit: left * lanes is a multiple of 4 (tests/gpu/test_many_axes.py shows it of the plans)"
)
LEFT_OUT_LATER = "the steps read nothing but parameters, and such slots are left out before the source is read"
SAME_REST = "below the bound the rest of a division by it is the number itself"
NEAREST = (
    "the tests' machine begins with the nearest reciprocal, and a device with one within 1 ulp, from which only this divisor's may end "
    "elsewhere (tests/kernels/test_quick_division.py)"
)
ROOM = (
    "four steps from integers of 16 bits, with parameters as near as is asked, leave numbers of 0 or far above 2^-100, where what is left of "
    "a quotient is still exact; the code asks for more"
)
SLOWER = "with a phase of 0 and chunks that are asked for their ends, the same bytes move"
IN_PIECES = "chunks that are not cut out of two vectors are put together from pieces, with the same bytes"
ZERO_IS_FIRST = (
    "what is behind the last index counts as 0, which is refused only where a dimension has no places: there all indices are, and "
    "the least position is reported"
)

# fmt: off
MUTANTS = (
    # ---- tile.cu
    Mutant("tile.cu", "barrier removed", "  __syncthreads();\n", ""),
    Mutant("tile.cu", "swizzle of the first write dropped",
           "const unsigned position = gpl_position(row, c);", "const unsigned position = row * GPL_CHUNKS + c;"),
    Mutant("tile.cu", "guard of the last row of a 2-D grid dropped",
           "  if (GPL_INDEX_BITS == 64 && gpl_block() >= move.total) return;", "  if (false) return;"),
    Mutant("tile.cu", "edge of b off by one",
           "tile.b + GPL_TILE_B <= move.axis[0].bound && tile.a + GPL_TILE_A <= move.axis[1].bound;",
           "tile.b + GPL_TILE_B <= move.axis[0].bound + 1 && tile.a + GPL_TILE_A <= move.axis[1].bound;"),
    Mutant("tile.cu", "edge of a not asked",
           "tile.b + GPL_TILE_B <= move.axis[0].bound && tile.a + GPL_TILE_A <= move.axis[1].bound;", "tile.b + GPL_TILE_B <= move.axis[0].bound;"),
    Mutant("tile.cu", "target stride in 32 bits",
           "const gpl_uint a = tile.a + number * GPL_P, b = tile.b + column * GPL_N, stride = move.axis[1].target_stride;",
           "const gpl_uint a = tile.a + number * GPL_P, b = tile.b + column * GPL_N; const unsigned stride = move.axis[1].target_stride;"),
    Mutant("tile.cu", "source stride in 32 bits",
           "b = tile.b + row, stride = move.axis[0].source_stride;", "b = tile.b + row; const unsigned stride = move.axis[0].source_stride;"),
    Mutant("tile.cu", "a row past the bound is read", "  if (rows > (COUNT - 1) * GPL_ROWS_PER_LOAD)", "  if (rows >= (COUNT - 1) * GPL_ROWS_PER_LOAD)"),
    Mutant("tile.cu", "a chunk that a bound cuts is read whole", "if (tile.place.inside && a + GPL_N <= move.axis[1].bound)",
           "if (tile.place.inside && a < move.axis[1].bound)"),
    Mutant("tile.cu", "tiles of pad are read", "if (tile.place.inside && a + GPL_N", "if (a + GPL_N"),
    Mutant("tile.cu", "pad of a partial tile dropped", "  if (move.ragged) gpl_load_rest(source, tile, shared, move);\n", ""),
    Mutant("tile.cu", "rows past the bound are not pad", "if (tile.b + row < move.axis[0].bound && tile.a", "if (tile.a"),
    Mutant("tile.cu", "cut chunks of rows past the bound are read", "    if (b >= move.axis[0].bound) continue;\n", ""),
    Mutant("tile.cu", "elements past the bound of a are read", "    if (a < bound) element = gpl_fetch", "    element = gpl_fetch"),
    Mutant("tile.cu", "bound of a in another tile", "  if (cut == bound || cut - tile.a >= GPL_TILE_A) return;", "  if (cut == bound) return;"),
    Mutant("tile.cu", "elements before the extent dropped", "  if (!WHOLE && move.ragged) gpl_store_rest(target, tile, shared, move);\n", ""),
    Mutant("tile.cu", "a chunk that an extent cuts is written whole", "right + GPL_N <= beside", "right < beside"),
    Mutant("tile.cu", "rows past the extent are written", "(down < below && ", "("),
    Mutant("tile.cu", "extent of b in another tile", "  if (first - tile.b >= GPL_TILE_B) return;\n", ""),
    Mutant("tile.cu", "first column of a tile in 32 bits",
           "  gpl_uint a, b;           // first coordinates", "  unsigned a, b;           // first coordinates"),
    Mutant("tile.cu", "all rows of a thread have the parameters of the first", "tile.place.parameters, a + down, 1, move)", "tile.place.parameters, a, 1, move)"),
    Mutant("tile.cu", "all chunks of a row have the parameters of the first", "row, b + right, GPL_NO_END", "row, b, GPL_NO_END"),
    Mutant("tile.cu", "parameters of the rows of a cut chunk", "tile.place.parameters, a + p, 1, move), move), b,", "tile.place.parameters, a, 1, move), move), b,"),
    Mutant("tile.cu", "parameters of the elements of a cut chunk", "a + p, 1, move), move), b,", "a + p, 1, move), move), first,"),
    Mutant("tile.cu", "16 bytes for a narrower target with 64-bit offsets",
           "#if GPL_INDEX_BITS == 64 && GPL_TARGET_BYTES == GPL_ELEMENT_BYTES", "#if GPL_INDEX_BITS == 64"),

    # ---- tile_any.cu
    Mutant("tile_any.cu", "barrier removed",
           "read, move.tile[1], tile, move);\n  __syncthreads();\n", "read, move.tile[1], tile, move);\n"),
    Mutant("tile_any.cu", "barrier of full tiles removed",
           "gpl_full_side<true, true>(from, tile.first.source, down, shared, tile, move);\n    __syncthreads();\n",
           "gpl_full_side<true, true>(from, tile.first.source, down, shared, tile, move);\n"),
    Mutant("tile_any.cu", "pitch of one side plus 1",
           "{in.extent_b, in.extent_a, right, pitch, GPL_ELEMENT_BYTES};",
           "{in.extent_b, in.extent_a, right, pitch + GPL_ELEMENT_BYTES, GPL_ELEMENT_BYTES};"),
    Mutant("tile_any.cu", "shared memory without room for the pitch", ": GPL_SHARED_BYTES) / 16]", ": GPL_SHARED_BYTES - 1024) / 16]"),
    Mutant("tile_any.cu", "guard of the last row of a 2-D grid dropped",
           "  if (gpl_block() >= move.total) return;                          // the whole block, before any barrier\n", "", AGAIN),
    Mutant("tile_any.cu", "edge of a not asked", "tile.first.inside && tile.a + GPL_FULL_A <= move.axis[1].bound &&", "tile.first.inside &&"),
    Mutant("tile_any.cu", "row behind the last of a full tile", "(left[part] <= k * ROWS || ", "(left[part] < k * ROWS || "),
    Mutant("tile_any.cu", "first coordinates of a tile in 32 bits",
           "  gpl_uint a, b;                     // first coordinates", "  unsigned a, b;                     // first coordinates"),
    Mutant("tile_any.cu", "rest of a row dropped", "rest = all % E,", "rest = 0 * all,"),
    Mutant("tile_any.cu", "rows do not turn", "min(spot + step, spot + step + turn)", "spot + step"),
    Mutant("tile_any.cu", "shared memory of padded tiles not filled", "if (in.bound_a < in.extent_a || in.bound_b < in.extent_b ||", "if (false ||"),
    Mutant("tile_any.cu", "matrices behind the last of a stack are written",
           "(unsigned)min(move.axis[2].bound - row * move.depth, move.depth);", "(unsigned)move.depth;"),
    Mutant("tile_any.cu", "all tiles along a have the first parameters", "gpl_along_axis(tile.first.parameters, tile.a, 1, move)", "tile.first.parameters"),
    Mutant("tile_any.cu", "all tiles along b have the first parameters",
           "gpl_along_axis(gpl_along_axis(tile.first.parameters, tile.a, 1, move), tile.b, 0, move);",
           "gpl_along_axis(tile.first.parameters, tile.a, 1, move);"),
    Mutant("tile_any.cu", "all rows of a full tile have the first parameters", "tile.first.parameters, row + k * ROWS, 1,", "tile.first.parameters, row, 1,"),
    Mutant("tile_any.cu", "columns of a full tile by the thread", "column + part * LANES, GPL_NO_END, move", "column, GPL_NO_END, move"),
    Mutant("tile_any.cu", "all rows of a batch have the first parameters", "a = share.row + k * share.row_step,", "a = share.row,"),
    Mutant("tile_any.cu", "all pieces of a batch have the first parameters", "b = share.minor + k * share.minor_step;", "b = share.minor;"),
    Mutant("tile_any.cu", "rows of a tile begin where they would without a sector",
           "(READS ? first - (gpl_int)(GPL_AHEAD * stride) : first - shift)", "(READS ? first - (gpl_int)(GPL_AHEAD * stride) : first)"),
    Mutant("tile_any.cu", "a row in front of the first is read", "(k == 0 && skips)", "(k == 0 && false)"),
    Mutant("tile_any.cu", "places in front of a row are written", "place >= none && ", ""),
    Mutant("tile_any.cu", "padding in front of the last tile is not filled", "tile.b > move.axis[0].bound && ", "false && "),
    Mutant("tile_any.cu", "rows of the next batch are those of the first", "  share.row += N * share.row_step, ", "  "),
    Mutant("tile_any.cu", "pieces of the next batch are those of the first", ", share.minor += N * share.minor_step;", ";"),
    Mutant("tile_any.cu", "all runs have the parameters of the first", "      share.row = row;\n", ""),
    Mutant("tile_any.cu", "parameters of a row begin with the first lane's", "row, 1u << turns, column * E, 0};", "row, 1u << turns, 0, 0};"),
    Mutant("tile_any.cu", "parameters of a run begin with the first lane's", "0, 0, thread * E, GPL_THREADS * E};", "0, 0, 0, GPL_THREADS * E};"),
    Mutant("tile_any.cu", "rows that touch are a run, whatever their parameters", "(READS || !GPL_VARIES) && side.wide", "side.wide"),
    Mutant("tile_any.cu", "the rest of each row has the parameters of the first row", "tile.first.parameters, major, 1, move), move);", "tile.first.parameters, 0, 1, move), move);"),
    Mutant("tile_any.cu", "the rest of a row has the parameters of its beginning", "gpl_computed(*at, row, minor, GPL_NO_END", "gpl_computed(*at, row, 0, GPL_NO_END"),
    Mutant("tile_any.cu", "a stack of a narrower target", "gpl_put<GPL_ELEMENT_BYTES>(to, gpl_computed(*gpl_shared", "*(gpl_element*)to = (gpl_computed(*gpl_shared"),

    # ---- tile_words.cu
    Mutant("tile_words.cu", "barrier removed", "  __syncthreads();\n  // The last pass", "  // The last pass"),
    Mutant("tile_words.cu", "guard of the last row of a 2-D grid dropped",
           "  if (gpl_block() >= move.total) return;                          // the whole block, before any barrier\n", "", AGAIN),
    Mutant("tile_words.cu", "words past the source's memory are read",
           "column.reads = all || (some && gpl_in_memory(", "column.reads = all || (some || gpl_in_memory("),
    Mutant("tile_words.cu", "element by element loop dropped", "column.slow && row < column.rows;", "false && row < column.rows;"),
    Mutant("tile_words.cu", "last word of the source in 32 bits",
           "const gpl_uint first = word + b * stride, last",
           "const unsigned first = word + b * stride; const gpl_uint last"),
    Mutant("tile_words.cu", "rows of the target that begin at other places of a sector take the first one's",
           "gpl_words_before(gpl_low(row + turn * (long long)step)), back", "gpl_words_before(gpl_low(row)), back"),
    Mutant("tile_words.cu", "ends of rows in another tile",
           "word[end] + left - tile.b >= GPL_TILE_B", "word[end] - tile.b >= GPL_TILE_B"),
    Mutant("tile_words.cu", "rows of the target that do not exist are written",
           "const unsigned down = gpl_least(move.axis[1].extent.value - tile.a, (unsigned)move.tile[1].value);     // rows of the target",
           "const unsigned down = (unsigned)move.tile[1].value;"),
    Mutant("tile_words.cu", "rows in front of the first are read", "const unsigned front = none ?", "const unsigned front = false ?"),
    Mutant("tile_words.cu", "shared memory of padded tiles not filled", "  if (padded) {\n", "  if (false) {\n"),
    Mutant("tile_words.cu", "ends of rows not written", "word[2] = {0, last};", "word[2] = {0, 0};"),

    # ---- tile_nd.cu
    Mutant("tile_nd.cu", "barrier after the table removed",
           "  __syncthreads();                                                // the table is complete\n", ""),
    Mutant("tile_nd.cu", "barrier after the first box removed",
           "  __syncthreads();                                                // the box is complete\n", ""),
    Mutant("tile_nd.cu", "barrier after a box is written removed",
           "    __syncthreads();                                              // the box is free\n", ""),
    Mutant("tile_nd.cu", "barrier after the next box removed",
           "    __syncthreads();                                              // the next one is complete\n", ""),
    Mutant("tile_nd.cu", "barrier after a checked box removed",
           "    __syncthreads();                                              // a checked box is complete\n", ""),
    Mutant("tile_nd.cu", "barrier after a checked box is written removed",
           "    __syncthreads();                                              // a checked box is free\n", ""),
    Mutant("tile_nd.cu", "guard of the last row of a 2-D grid dropped",
           "  if (gpl_block() >= nd.move.total) return;                       // the whole block, before any barrier\n", "", AGAIN),
    Mutant("tile_nd.cu", "edge off by one", "whole = whole && left >= tile;", "whole = whole && left + 1 >= tile;"),
    Mutant("tile_nd.cu", "edge one place further", "(unsigned)min(left, tile) - 1)", "(unsigned)min(left, tile))"),
    Mutant("tile_nd.cu", "offset of a lane in 32 bits", "  gpl_uint offset = lane.offset +", "  unsigned offset = lane.offset +"),
    Mutant("tile_nd.cu", "bytes of a lane in 32 bits", "const long long bytes = (long long)(gpl_int)offset", "const int bytes = (int)offset"),
    Mutant("tile_nd.cu", "last row of a thread dropped", "  if (count > 0) side.template rows<GPL_HELD - 1, 1>(row);\n", ""),
    Mutant("tile_nd.cu", "four rows of a thread dropped", "    side.template rows<GPL_BATCH, 4>(row);\n", ""),
    Mutant("tile_nd.cu", "last row of a checked box dropped",
           "  if (count & 1) side.template rows<0, 1>(row), next.template rows<0, 1>(row);\n", ""),
    Mutant("tile_nd.cu", "rows in which a split axis ends dropped",
           "own < side.last_lanes ? side.rows :", "own < side.last_lanes ? side.full :"),
    Mutant("tile_nd.cu", "lanes that end before the last rows take them too", "own < side.last_lanes ? side.rows :", "own < side.lanes ? side.rows :"),
    Mutant("tile_nd.cu", "first place along a cut axis in 32 bits", "  gpl_uint first[2];\n", "  unsigned first[2];\n"),
    Mutant("tile_nd.cu", "tiles of pad are read", "bool data = WRITES || corner.others.inside,", "bool data = true,"),
    Mutant("tile_nd.cu", "the next box is read from the first", "reader.from = gpl_at(reader.from, nd.step[number].source);\n    gpl_held", "gpl_held"),
    Mutant("tile_nd.cu", "the next box is written over the first", "    writer.to = gpl_at(writer.to, nd.step[number].target);\n    __sync", "    __sync"),
    Mutant("tile_nd.cu", "places in parameters are added to places in the box", "return GPL_VARIES ? entry.shared & 0xFFFF : entry.shared;", "return entry.shared;"),
    Mutant("tile_nd.cu", "places in parameters have no sign", "(int)entry.shared >> 16;", "entry.shared >> 16;"),
    Mutant("tile_nd.cu", "boxes of cut axes have the first parameters", "place = gpl_along_axis(place, corner.first[i], i, nd.move);", "place = place;"),
    Mutant("tile_nd.cu", "boxes of other axes have the first parameters", "place = corner.others.parameters;", "place = gpl_first_parameters(nd.move);"),
    Mutant("tile_nd.cu", "parameters of the lanes that read", "nd.side[1].lanes - 1), nd.part[1], nd)", "nd.side[0].lanes - 1), nd.part[0], nd)"),
    Mutant("tile_nd.cu", "all lanes have the parameters of the first", "gpl_sum(min(threadIdx.x % GPL_LANES, nd.side[1].lanes - 1)", "gpl_sum(min(0u, nd.side[1].lanes - 1)"),
    Mutant("tile_nd.cu", "all rows have the parameters of the first", "gpl_operands(gpl_at_entry(parameters, entry), nd.move)", "gpl_operands(parameters, nd.move)"),
    Mutant("tile_nd.cu", "places of the narrower side in bytes of the wider", "(WRITES ? GPL_TARGET_BYTES : GPL_SOURCE_BYTES);", "GPL_ELEMENT_BYTES;"),

    # ---- box_words.cu
    Mutant("box_words.cu", "barrier after the runs removed",
           "  __syncthreads();                                                // the table of runs and the places are complete\n", ""),
    Mutant("box_words.cu", "barrier after the box removed",
           "    __syncthreads();                                              // the box and all tables are complete\n", ""),
    Mutant("box_words.cu", "barrier between boxes removed",
           "    __syncthreads();                                              // the box is written, and the next one known\n", ""),
    Mutant("box_words.cu", "tables of lanes kept for a shorter run", "    if (length != extent.length) gpl_fill", "    if (!length) gpl_fill"),
    Mutant("box_words.cu", "words are read past the source's memory", "    } else if (in_memory) gpl_read_box", "    } else if (true) gpl_read_box"),
    Mutant("box_words.cu", "a word is read that the source holds in part",
           "(gpl_int)(move.high - offset) >= GPL_E)", "(gpl_int)(move.high - offset) > 0)"),
    Mutant("box_words.cu", "single elements at the end shifted", "length - GPL_ENDS + number;", "length - GPL_ENDS + number - 1;"),
    Mutant("box_words.cu", "boxes of pad are read", "    if (!which.inside) {\n", "    if (false) {\n"),
    Mutant("box_words.cu", "a box past an axis has all runs", "    else runs = (unsigned)box.left[i] * per[i].runs;\n", "    else runs = runs;\n"),
    Mutant("box_words.cu", "a box past an axis has whole runs",
           "    if (per[i].elements) length = (unsigned)box.left[i] * per[i].elements;\n", "    if (per[i].elements) length = length;\n"),
    Mutant("box_words.cu", "offset of a run in 32 bits", "run.x += coordinate * digit.stride;", "run.x += coordinate * (unsigned)digit.stride;"),

    # ---- copy.cu
    Mutant("copy.cu", "read guard dropped", "    if (number < chunks)\n", ""),
    Mutant("copy.cu", "write guard dropped", "    if (number >= chunks) continue;\n", ""),
    Mutant("copy.cu", "tail guard dropped", "    if (tail < move.total) *gpl_at", "    *gpl_at"),
    Mutant("copy.cu", "head dropped", "    if (first < head) *gpl_at", "    if (false) *gpl_at"),
    Mutant("copy.cu", "number of a chunk in 32 bits", "source, from + number * GPL_PER_CHUNK", "source, from + (unsigned)(number * GPL_PER_CHUNK)"),
    Mutant("copy.cu", "chunks in 32 bits", "const gpl_uint head = move.head, chunks", "const unsigned head = move.head, chunks"),
    Mutant("copy.cu", "parameters of a chunk are those before the head", "operands, head + number * GPL_PER_CHUNK,", "operands, number * GPL_PER_CHUNK,"),
    Mutant("copy.cu", "parameters of the head are the first's", "operands, first, move.total, move);", "operands, 0, move.total, move);"),
    Mutant("copy.cu", "parameters of the tail are the first's", "operands, tail, move.total, move);", "operands, 0, move.total, move);"),
    Mutant("copy.cu", "chunks of a narrower target are as far apart as those of 16 bytes",
           "  GplWord<GPL_TARGET_PART(16)>::type* to = (GplWord<GPL_TARGET_PART(16)>::type*)gpl_at", "  uint4* to = (uint4*)gpl_at"),

    # ---- rows.cu
    Mutant("rows.cu", "guard dropped", "  if (item >= move.total) return;\n", ""),
    Mutant("rows.cu", "write guard dropped",
           "    if (!WHOLE && !gpl_below(first, k, move.steps.places, move)) continue;\n", ""),
    Mutant("rows.cu", "bound of a row in 32 bits", "  gpl_uint bound[GPL_ITEMS];         //", "  unsigned bound[GPL_ITEMS];         //"),
    Mutant("rows.cu", "padding rows are read", "GPL_PER_CHUNK : inside ? move.axis[0].bound : 0;", "GPL_PER_CHUNK : move.axis[0].bound;"),
    Mutant("rows.cu", "place in the row in 32 bits", "  gpl_uint start[GPL_ITEMS];", "  unsigned start[GPL_ITEMS];"),
    Mutant("rows.cu", "number of a thread in 32 bits", "const gpl_uint item = gpl_block()", "const unsigned item = gpl_block()"),
    Mutant("rows.cu", "place along the steps in 32 bits", "  gpl_uint chunk, place;", "  unsigned chunk, place;"),
    Mutant("rows.cu", "rows of a thread are those of the next", "  if (move.steps.apart == 1) first.place *= GPL_ITEMS;", "  if (false) first.place *= GPL_ITEMS;"),
    Mutant("rows.cu", "padded rows count as whole", "move.axis[0].bound == move.axis[0].extent.value && ", ""),
    Mutant("rows.cu", "only the first step is asked for the bound",
           "first.place + (GPL_ITEMS - 1) * move.steps.apart < move.steps.bound;", "first.place < move.steps.bound;"),
    Mutant("rows.cu", "row of a step in 32 bits", "const gpl_uint row = first.row.target", "const unsigned row = first.row.target"),
    Mutant("rows.cu", "steps along a row start at its beginning", "(gpl_along(move) ? 0 : k * move.steps.target_step)", "0"),
    Mutant("rows.cu", "phase of the target in elements of the wider side", "target / GPL_TARGET_BYTES", "target / GPL_ELEMENT_BYTES"),
    Mutant("rows.cu", "rows that begin inside a chunk count as whole", "(GPL_PER_CHUNK == 1 || GPL_WHOLE_ROWS)", "(GPL_PER_CHUNK == 1 || GPL_CHANGES)"),
    Mutant("rows.cu", "whole rows are moved like others", "(GPL_PER_CHUNK == 1 || GPL_WHOLE_ROWS)", "(GPL_PER_CHUNK == 1)", SLOWER),
    Mutant("rows.cu", "all rows of a thread have the parameters of the first", "return gpl_ahead(row.parameters, k, move.step, GPL_ALONG_OTHERS);", "return row.parameters;"),
    Mutant("rows.cu", "parameters from the beginning of a row", "(chunk, operands, number[k],", "(chunk, operands, start[k],"),
    Mutant("rows.cu", "more chunks of a thread than the host counts", "|| GPL_OWN_PARAMETERS ?", "?"),

    # ---- channels.cu
    Mutant("channels.cu", "guard of a warp dropped",
           "  if (number >= move.total) return;                               // the whole warp, before any exchange\n", ""),
    Mutant("channels.cu", "gap behind the last pixel is read", "+ (GPL_TO_PLANES && GPL_PLANES < GPL_CHANNELS);", ";"),
    Mutant("channels.cu", "offset on the side of the pixels in 32 bits", "const gpl_uint on_pixels =", "const unsigned on_pixels ="),
    Mutant("channels.cu", "one plane of padding dropped",
           "  for (gpl_uint c = GPL_PLANES; c < move.axis[1].extent.value;", "  for (gpl_uint c = GPL_PLANES + 1; c < move.axis[1].extent.value;"),
    Mutant("channels.cu", "offset on the side of the planes in 32 bits",
           "on_planes = first + span.pixel;", "on_planes = (unsigned)(first + span.pixel);"),
    Mutant("channels.cu", "first pixel of a span in 32 bits", "const gpl_uint first = (number", "const unsigned first = (number"),
    Mutant("channels.cu", "shift of the last chunks forgotten", "span.bound -= min(span.bound, GPL_PIXELS), ", ""),
    Mutant("channels.cu", "spans have the parameters of the row", "gpl_along_axis(row.parameters, first, 0, move);", "row.parameters;"),
    Mutant("channels.cu", "planes that are written have the parameters of the first",
           "#if GPL_CHANGES\n  const GplOperands channel = gpl_operands(gpl_along_axis(span.parameters, c, 1, move), move);\n#pragma unroll\n  for",
           "#if GPL_CHANGES\n  const GplOperands channel = gpl_operands(span.parameters, move);\n#pragma unroll\n  for"),
    Mutant("channels.cu", "planes that are read have the parameters of the first",
           "gpl_operands(gpl_along_axis(span.parameters, c, 1, move), move);\n  GplWordOf", "gpl_operands(span.parameters, move);\n  GplWordOf"),
    Mutant("channels.cu", "all chunks that are written have the parameters of the first", "made.element, channel, first, WHOLE", "made.element, channel, span.pixel, WHOLE"),
    Mutant("channels.cu", "all chunks that are read have the parameters of the first", "channel, span.pixel + h * GPL_PIXELS,\n", "channel, span.pixel,\n"),
    Mutant("channels.cu", "chunks at the end of a row have the parameters of the first",
           "gpl_along_axis(span.parameters, GPL_PIXELS, 0, move);", "span.parameters;"),
    Mutant("channels.cu", "changed words past the row are written whole", "if (WHOLE || first + GPL_E <= span.extent)", "if (WHOLE || first < span.extent)"),
    Mutant("channels.cu", "changed pixels past the row are written", "        if (first + i < span.extent) to[", "        to["),
    Mutant("channels.cu", "words past the row are read whole before they change", "if (WHOLE || first + GPL_E <= span.bound)", "if (WHOLE || first < span.bound)"),
    Mutant("channels.cu", "pixels past the row are read before they change", "        if (first + i < span.bound) given", "        given"),

    # ---- bits_turn.cu
    Mutant("bits_turn.cu", "guard dropped", "  if (!exists) return;\n", ""),
    Mutant("bits_turn.cu", "padding is read", "  if (exists && block.inside) {\n", "  if (exists) {\n"),
    Mutant("bits_turn.cu", "rows of the source by the target's step", "p * move.source_step", "p * move.target_step"),
    Mutant("bits_turn.cu", "row of a block in 32 bits",
           "row[p] = from[(gpl_int)(p * move.source_step)]", "row[p] = from[(int)(p * move.source_step)]"),
    Mutant("bits_turn.cu", "number of a block in 32 bits", "const gpl_uint number = gpl_block()", "const unsigned number = gpl_block()"),
    Mutant("bits_turn.cu", "rows that are apart are read as vectors", "move.source_step != 1 || ", ""),
    Mutant("bits_turn.cu", "vectors of the source at any address", " || !GPL_IS_ALIGNED(from)", ""),
    Mutant("bits_turn.cu", "rows that are apart are written as vectors", "move.target_step == 1 && ", ""),
    Mutant("bits_turn.cu", "vectors of the target at any address", "!exists || GPL_IS_ALIGNED(to)", "true"),
    Mutant("bits_turn.cu", "one lane without a block keeps its warp from vectors", "!exists || GPL_IS_ALIGNED(to)", "exists && GPL_IS_ALIGNED(to)", ONLY_SLOWER),
    Mutant("bits_turn.cu", "both lanes of a pair write the first halves", "half = 4 * odd;", "half = 0;"),
    Mutant("bits_turn.cu", "half of the last block of an odd number not written", "if ((number | 1) < move.total)", "if (number < move.total && odd)"),
    Mutant("bits_turn.cu", "a block behind the last is written", "if ((number | 1) < move.total)", "if (number < move.total)"),
    Mutant("bits_turn.cu", "place of a block of the other lane in 32 bits", "const gpl_uint other = __shfl_xor_sync(GPL_ALL_LANES, place, 1), half",
           "const gpl_uint other = __shfl_xor_sync(GPL_ALL_LANES, (unsigned)place, 1), half"),

    # ---- bits_turn.cuh
    Mutant("bits_turn.cuh", "single slots not swapped", "half > 0; half", "half > 1; half"),
    Mutant("bits_turn.cuh", "bytes change places", "0x6240", "0x2640"),
    Mutant("bits_turn.cuh", "half-words change places", "0x7632", "0x3276"),

    # ---- bits_turn_wide.cu
    Mutant("bits_turn_wide.cu", "guard dropped", "  if (!exists) return;\n", ""),
    Mutant("bits_turn_wide.cu", "rows behind the grid's last tile", "  if (others >= move.total) return; ", "  "),
    Mutant("bits_turn_wide.cu", "padding along other axes is read", "if (exists && place.inside && b", "if (exists && b"),
    Mutant("bits_turn_wide.cu", "padding along b is read", "b < move.axis[0].bound && ", ""),
    Mutant("bits_turn_wide.cu", "padding along a is read", " && a < move.axis[1].bound", ""),
    Mutant("bits_turn_wide.cu", "lanes keep half of the words", "step < GPL_WORDS; step", "2 * step < GPL_WORDS; step"),
    Mutant("bits_turn_wide.cu", "the other words are given", "upper ? word[p] : word[p + step]", "upper ? word[p + step] : word[p]"),
    Mutant("bits_turn_wide.cu", "all lanes write the same rows", "own * move.target_step", "0"),
    Mutant("bits_turn_wide.cu", "vectors begin at the lane's own word", "(b - own)", "b"),
    Mutant("bits_turn_wide.cu", "row of a block in 32 bits", "(gpl_int)(p * move.source_step)", "(int)(p * move.source_step)"),
    Mutant("bits_turn_wide.cu", "row of the target in 32 bits", "(gpl_int)(t * move.target_step)", "(int)(t * move.target_step)"),
    Mutant("bits_turn_wide.cu", "number of a tile in 32 bits", "gpl_divide(gpl_block(), move.count[0])", "gpl_divide((unsigned)gpl_block(), move.count[0])"),
    Mutant("bits_turn_wide.cu", "word of b in 32 bits", "const gpl_uint b = ", "const unsigned b = "),
    Mutant("bits_turn_wide.cu", "vector of a in 32 bits", "const gpl_uint a = ", "const unsigned a = "),
    Mutant("bits_turn_wide.cu", "rows of blocks not turned", "= gpl_from_source(word[i][p]);", "= word[i][p];"),
    Mutant("bits_turn_wide.cu", "columns of blocks not turned", "= gpl_to_target(word[i][q]);", "= word[i][q];"),

    # ---- bits_turn_any.cu
    Mutant("bits_turn_any.cu", "neighbouring block not taken",
           "__funnelshift_l(word[-1], word[0], (unsigned)(to", "__funnelshift_l(word[0], word[0], (unsigned)(to"),
    Mutant("bits_turn_any.cu", "words of two rows left out", "start < limit) *(unsigned*)", "start < limit - GPL_SIDE) *(unsigned*)"),
    Mutant("bits_turn_any.cu", "row after the last one along the axes between", "gpl_place<2>(others + 1 - move.lower, move)", "place"),
    Mutant("bits_turn_any.cu", "row after the last one of a not read", "  if (left < GPL_WIDE && after.inside) block", "  if (false) block"),
    Mutant("bits_turn_any.cu", "padding after the last row of a is read", "left < GPL_WIDE && after.inside", "left < GPL_WIDE"),
    Mutant("bits_turn_any.cu", "next row of the same column", "move), a + 1, move);", "move), a, move);"),
    Mutant("bits_turn_any.cu", "padding of b is read", "begin + rows <= move.axis[0].bound && ", ""),
    Mutant("bits_turn_any.cu", "words before the source are read", "GPL_OFFSET(slot) >= phase && ", ""),
    Mutant("bits_turn_any.cu", "words past the source are read", "4 * GPL_WORDS + 4 <=", "4 * GPL_WORDS <="),
    Mutant("bits_turn_any.cu", "first word of the target not kept to its slots", "const int first = b < 0 ? (int)-b : 0,", "const int first = 0,"),
    Mutant("bits_turn_any.cu", "bits after the last slot not 0", "  if (last < GPL_SIDE) word &=", "  if (false) word &="),
    Mutant("bits_turn_any.cu", "word of two rows written by both", "(b < 0 && move.lower && slot != 0)", "false"),
    Mutant("bits_turn_any.cu", "whole words past the end of the target", "move.lower && !rows.last ? extent", "move.lower ? extent"),
    Mutant("bits_turn_any.cu", "row of the target in 32 bits", "  gpl_uint slot;\n  unsigned count;\n  bool last;", "  unsigned slot;\n  unsigned count;\n  bool last;"),
    Mutant("bits_turn_any.cu", "row of the source in 32 bits",
           "const gpl_uint slot = (p < rows ? from : onward) + p * stride;", "const unsigned slot = (p < rows ? from : onward) + p * stride;"),

    # ---- the order of elements within a byte
    Mutant("bit_order.cuh", "halves of a byte do not swap", "for (int width = 4; width", "for (int width = 2; width"),
    Mutant("bit_order.cuh", "elements of a byte do not swap", "width >= BITS; width", "width > BITS; width"),
    Mutant("bit_order.cuh", "a big target is written as a little one", "return GPL_TARGET_BIG ?", "return false ?"),
    Mutant("bits.cuh", "slot of a big byte from the lowest bits on", "GPL_SOURCE_BIG ? 8 - GPL_SOURCE_BITS : 0;", "0;"),
    Mutant("bits.cuh", "second word of 32 bits not turned", "gpl_from_source(((const unsigned*)word)[1])", "((const unsigned*)word)[1]"),
    Mutant("bits.cuh", "bytes at the end of a source not turned", "gpl_from_source(from[i]) <<", "from[i] <<"),
    Mutant("bits.cu", "words of a group not turned", "gpl_from_source(aligned.word[i]), gpl_from_source(aligned.word[i + 1])", "aligned.word[i], aligned.word[i + 1]"),
    Mutant("bits.cu", "groups of one run not turned", "    gpl_change_width(slots);\n    gpl_make_target(slots);\n", "    gpl_change_width(slots);\n"),
    Mutant("bits.cu", "groups of several runs not turned", "gpl_change_width(slots);\n  gpl_make_target(slots);\n", "gpl_change_width(slots);\n"),
    Mutant("bits_any.cu", "bytes of a target with gaps not turned", "gpl_to_target(value[k])", "value[k]"),
    Mutant("bits_turn.cu", "rows of blocks not turned", "row[p] = gpl_from_source(row[p]);", ";"),
    Mutant("bits_turn.cu", "columns of blocks not turned", "row[q] = gpl_to_target(row[q]);", ";"),
    Mutant("bits_turn_any.cu", "first words of rows not turned", "gpl_from_source(word[part]),", "word[part],"),
    Mutant("bits_turn_any.cu", "parts of words not turned", "  word = gpl_to_target(word);\n", ""),
    Mutant("bits_turn_any.cu", "words at the ends of b not turned", "= gpl_to_target(value);", "= value;"),
    Mutant("bits_turn_any.cu", "words between the ends of b not turned", "gpl_to_target(__funnelshift_l(word[-1]", "(__funnelshift_l(word[-1]"),
    Mutant("lookup.cu", "words of a target that is looked up not turned", "gpl_to_target(word)", "word"),

    # ---- bits.cuh
    Mutant("bits.cuh", "upper end of the source's memory not asked", "aligned.place < size && size - aligned.place >= BYTES * count", "aligned.place < size"),
    Mutant("bits.cuh", "lower end of the source's memory not asked", "aligned.place < size && size - aligned.place >= BYTES * count",
           "(gpl_int)(size - aligned.place) >= BYTES * count"),
    Mutant("bits.cuh", "fifth byte of 32 bits dropped", "  for (int i = 0; i < 5; ++i)\n", "  for (int i = 0; i < 4; ++i)\n"),
    Mutant("bits.cuh", "slots of the first group before the target not counted",
           "group.first = begin < before ? (int)(before - begin) : 0;", "group.first = 0;"),
    Mutant("bits.cuh", "last byte of a word that is not full dropped",
           "(last * GPL_TARGET_BITS + 7) / 8; ++i", "last * GPL_TARGET_BITS / 8; ++i"),
    Mutant("bits.cuh", "bytes past the source's memory are read", "    if (from + i < high) bits", "    bits"),
    Mutant("bits.cuh", "upper end of the source's memory not asked for two words", "if (word >= low && word + 8 <= high)", "if (word >= low)"),
    Mutant("bits.cuh", "lower end of the source's memory not asked for two words", "if (word >= low && word + 8 <= high)", "if (word + 8 <= high)"),
    Mutant("bits.cuh", "first slot of a group in 32 bits",
           "const gpl_uint begin = group.number * slots, end", "const unsigned begin = group.number * slots; const gpl_uint end"),
    Mutant("bits.cuh", "slots before the target in the total", "end = move.total + before;", "end = move.total;"),
    Mutant("bits.cuh", "slot of the source in 32 bits", "(gpl_int)(slot / GPL_SLOTS);", "(int)(slot / GPL_SLOTS);"),
    Mutant("bits.cuh", "word of packed slots in 32 bits", "(gpl_int)(from / (BYTES * GPL_SLOTS)) * BYTES", "(int)(from / (BYTES * GPL_SLOTS)) * BYTES"),
    Mutant("bits.cuh", "word of bytes in 32 bits", "(gpl_int)(from & ~(gpl_uint)(BYTES - 1))", "(int)(from & ~(gpl_uint)(BYTES - 1))"),
    Mutant("bits.cuh", "phase of the source's address not added", "const gpl_uint from = slot + phase * GPL_SLOTS;", "const gpl_uint from = slot;"),
    Mutant("bits.cuh", "group of the target in 32 bits",
           "(unsigned char*)target + group.number * BYTES - move.head;", "(unsigned char*)target + (unsigned)group.number * BYTES - move.head;"),

    # ---- move.cuh
    Mutant("move.cuh", "block number in 32 bits",
           "  return (gpl_uint)blockIdx.y * gridDim.x + blockIdx.x;", "  return blockIdx.y * gridDim.x + blockIdx.x;"),
    Mutant("move.cuh", "upper half of a pad of 8 bytes dropped",
           "value = move.pad[0] | (unsigned long long)move.pad[1] << 32;", "value = move.pad[0];"),
    Mutant("move.cuh", "chunk that reaches past its row is read whole",
           "  if (start < bound && bound - start >= elements) {\n#pragma unroll\n    for (int i = 0; i < BYTES / LOAD",
           "  if (start < bound) {\n#pragma unroll\n    for (int i = 0; i < BYTES / LOAD"),
    Mutant("move.cuh", "chunk that reaches past its row is written whole",
           "if (start < extent && extent - start >= elements) {", "if (start < extent) {"),
    Mutant("move.cuh", "bound of a coordinate off by one", "coordinate < move.axis[i].bound;", "coordinate <= move.axis[i].bound;"),
    Mutant("move.cuh", "offset of the target forgotten from the second axis on",
           "place.target += coordinate * move.axis[i].target_stride;", "place.target += i ? 0 : coordinate * move.axis[i].target_stride;"),
    Mutant("move.cuh", "parameters along the axes forgotten", "    place.parameters = gpl_along_axis(place.parameters, coordinate, i, move);\n", ""),
    Mutant("move.cuh", "pieces of a narrower source as far apart as those of the wider", "gpl_fetch<LOAD>(from + i * piece);",
           "gpl_fetch<LOAD>((const gpl_source_element*)((const gpl_element*)from + i * piece));"),

    # ---- element.cuh
    Mutant("element.cuh", "all elements of a narrower source are the first", "chunk.element[i] = found.element[i];", "chunk.element[i] = found.element[0];"),
    Mutant("element.cuh", "all elements of a narrower target are the first", "(gpl_target_element)chunk.element[i];", "(gpl_target_element)chunk.element[0];"),
    Mutant("element.cuh", "chunks of a narrower source are read whole", "((BYTES) / GPL_ELEMENT_BYTES * GPL_SOURCE_BYTES)", "(BYTES)"),
    Mutant("element.cuh", "chunks of a narrower target are written whole", "((BYTES) / GPL_ELEMENT_BYTES * GPL_TARGET_BYTES)", "(BYTES)"),
    Mutant("element.cuh", "offset in the source in 32 bits", "(const gpl_source_element*)base + (gpl_int)offset", "(const gpl_source_element*)base + (int)offset"),
    Mutant("element.cuh", "offset in the target in 32 bits", "(gpl_target_element*)base + (gpl_int)offset", "(gpl_target_element*)base + (int)offset"),
    Mutant("element.cuh", "all parameters have the steps of the first", "steps * stride.at[p];", "steps * stride.at[0];"),
    Mutant("element.cuh", "one value is taken from the place of a run", "(gpl_varies(p, GPL_ALONG_OTHERS) ? place : move.first).at[p]", "place.at[p]"),
    Mutant("element.cuh", "all runs have the values of the first", "(gpl_varies(p, GPL_ALONG_OTHERS) ? place : move.first).at[p]", "move.first.at[p]"),
    Mutant("element.cuh", "place of a run in parameters in 32 bits", "(gpl_int)(gpl_varies(p, GPL_ALONG_OTHERS) ? place", "(int)(gpl_varies(p, GPL_ALONG_OTHERS) ? place"),
    Mutant("element.cuh", "values of a run are not loaded", "    if (!gpl_varies(p, GPL_ALONG_AXIS_0))\n      operands", "    if (!gpl_varies(p, GPL_ALONG_AXIS_0 | GPL_ALONG_OTHERS))\n      operands"),
    Mutant("element.cuh", "all elements have the value of the run", "if (!gpl_varies(p, GPL_ALONG_AXIS_0)) return", "if (true) return"),
    Mutant("element.cuh", "numbers past the row have parameters", "first + begin + i < extent ? first + begin + i : 0;", "first + begin + i;"),
    Mutant("element.cuh", "place of an element in parameters in 32 bits", "(gpl_int)(operands.place.at[p]", "(int)(operands.place.at[p]"),
    Mutant("element.cuh", "all elements of a chunk have the parameters of the first", "const gpl_uint number = extent ==", "const gpl_uint number = true ? first : extent =="),
    Mutant("element.cuh", "elements with parameters of their own are the first", "code[i] = given[begin + i];", "code[i] = given[i];"),
    Mutant("element.cuh", "always saturates", "gpl_type(GPL_TARGET_TYPE), GPL_SATURATE, GPL_STEPS", "gpl_type(GPL_TARGET_TYPE), true, GPL_STEPS"),
    Mutant("element.cuh", "a chunk is computed from its second element on", "gpl_compute(chunk.element, chunk.element, operands, number,", "gpl_compute(chunk.element, chunk.element, operands, number + 1,"),

    # ---- index.cuh
    Mutant("index.cuh", "number of an index in 32 bits",
           "((unsigned long long)blockIdx.y * gridDim.x + blockIdx.x)", "(blockIdx.y * gridDim.x + blockIdx.x)"),
    Mutant("index.cuh", "the last offender instead of the first", "(bad >> k & 1)) atomicMin(", "(bad >> k & 1)) atomicMax("),
    Mutant("index.cuh", "bad indices are written too", "(GPL_HAS(k) && !(bad >> k & 1))) to", "GPL_HAS(k)) to"),
    Mutant("index.cuh", "indices behind the last are written", "if (ALL || (GPL_HAS(k) && !", "if (ALL || (!"),
    Mutant("index.cuh", "indices behind the last are read", "ALL || GPL_HAS(k) ? from", "true ? from"),
    Mutant("index.cuh", "indices behind the last are reported", "    if (GPL_HAS(k) && (bad >> k & 1)) atomicMin", "    if (bad >> k & 1) atomicMin", ZERO_IS_FIRST),
    Mutant("index.cuh", "indices left are counted from one",
           "count - first < most ? (unsigned)(count - first)", "count - first < most ? (unsigned)(count - first) + 1"),

    Mutant("index.cuh", "padding is not marked",
           "padding >> k & 1 ? (gpl_out)-1 : (gpl_out)value[k]", "(gpl_out)value[k]"),
    Mutant("index.cuh", "bad indices are written where there are four",
           "!(bad | padding)) gpl_write<true>(sum", "!padding) gpl_write<true>(sum"),
    Mutant("index.cuh", "padding is not marked where there are four",
           "!(bad | padding)) gpl_write<true>(sum", "!bad) gpl_write<true>(sum"),
    Mutant("index.cuh", "the mark fills 32 bits alone", "(gpl_out)-1 : ", "(gpl_out)(unsigned)-1 : "),

    # ---- bits.cu
    Mutant("bits.cu", "slot of the source in 32 bits",
           "__device__ __forceinline__ bool gpl_read_group(GplSlots<GPL_GROUP_WORDS>& slots, const void* source, gpl_uint slot,",
           "__device__ __forceinline__ bool gpl_read_group(GplSlots<GPL_GROUP_WORDS>& slots, const void* source, unsigned slot,"),
    Mutant("bits.cu", "slot of a run in 32 bits", "  const gpl_uint slot = move.first_slot +", "  const unsigned slot = move.first_slot +"),
    Mutant("bits.cu", "source that steps is read as a run", "steps = move.axis[0].source_stride != 1;", "steps = false;"),
    Mutant("bits.cu", "padding is read as a run", "!walk.outer.inside || walk.minor >= bound", "walk.minor >= bound"),
    Mutant("bits.cu", "padding at the end of a run is read", "!walk.outer.inside || walk.minor >= bound", "!walk.outer.inside"),
    Mutant("bits.cu", "run reaches one slot past its bound", "(unsigned)(bound - walk.minor) : most;", "(unsigned)(bound - walk.minor) + 1 : most;"),
    Mutant("bits.cu", "group of a run that ends is read as a whole", "== GPL_GROUP_SLOTS &&\n", ">= GPL_GROUP_SLOTS - 1 &&\n"),
    Mutant("bits.cu", "words past the source are read", "if (!gpl_holds(aligned, words + 1, move)) return false;", ""),
    Mutant("bits.cu", "vectors past the source are read", "if (!gpl_holds(aligned, vectors + 1, move)) return false;", ""),
    Mutant("bits.cu", "words of a run past the source are read", "if (!gpl_holds(aligned, words + 1, move)) {", "if (false) {"),
    Mutant("bits.cu", "last word of a run is not read", "i < words ? aligned.word[i + 1] : 0;", "i + 1 < words ? aligned.word[i + 1] : 0;"),
    Mutant("bits.cu", "vectors are not shifted by two words", "for (int half = 2; half > 0", "for (int half = 1; half > 0"),
    Mutant("bits.cu", "slots behind a run not cleared", "(run & gpl_lowest_slots(count))", "run"),
    Mutant("bits.cu", "padding of a run takes what is there", "& gpl_lowest_slots(elements);", "& gpl_lowest_slots(count);"),
    Mutant("bits.cu", "bits above an element not cleared", "word[i] &= GPL_VALUE_MASK * GPL_EACH_BYTE;", ";"),
    Mutant("bits.cu", "bits above an element are packed", "(odd << width & ~lower)", "(odd << width)"),
    Mutant("bits.cu", "slot past the end of a part", "begin + i >= last) continue;", "begin + i > last) continue;"),
    Mutant("bits.cu", "groups behind the target are not left out", "  if (group.last <= group.first) return;\n", "", NO_SLOTS),

    # ---- lookup.cu
    Mutant("lookup.cu", "offset of the target in 32 bits", "(gpl_int)(lookup.apart ?", "(int)(lookup.apart ?"),
    Mutant("lookup.cu", "places behind the last are looked up",
           "given[k] = GPL_IS_PLACE(k) ? first + k * GPL_THREADS : 0;", "given[k] = first + k * GPL_THREADS;"),
    Mutant("lookup.cu", "slots behind the last are looked up",
           "begin + k < to.last ? to.slot + begin + k : to.slot + begin;", "to.slot + begin + k;", LEFT_OUT_LATER),
    Mutant("lookup.cu", "write guard dropped", "    if (GPL_IS_PLACE(k)) *(gpl_element*)", "    *(gpl_element*)"),
    Mutant("lookup.cu", "padding is read", "    if (outside >> k & 1) gpl_pad(lookup, value[k]);\n    else value", "    value"),
    Mutant("lookup.cu", "weight of a stored coordinate in 32 bits", "number[k] * (gpl_uint)instruction.row;", "number[k] * (unsigned)instruction.row;"),
    Mutant("lookup.cu", "numbers are not kept for later instructions", "    gpl_keep(instruction, number, kept);\n", ""),
    Mutant("lookup.cu", "instructions read the terms of the first one", "    term += instruction.terms;\n", ""),
    Mutant("lookup.cu", "place in the source in 32 bits", "(const char*)source + (gpl_int)place", "(const char*)source + (int)place"),

    # ---- convert.cuh
    Mutant("convert.cuh", "ties away from zero", "(rest == half && (whole & 1))", "rest == half"),
    Mutant("convert.cuh", "subnormal numbers of the target keep their exponents", "above > 0 ? above : 0", "above"),
    Mutant("convert.cuh", "subnormal numbers of the source have a leading one", "field ? fraction | (W)1 << type.mantissa : fraction;", "fraction | (W)1 << type.mantissa;"),
    Mutant("convert.cuh", "bits above an unsigned integer are read", "(Real)(code & gpl_ones<W>(type.bits))", "(Real)code"),
    Mutant("convert.cuh", "bits above a signed integer are read", "gpl_signed(code << above) >> above", "gpl_signed(code)"),
    Mutant("convert.cuh", "bits above a short float are read", "x.code = magnitude << (real", "x.code = code << (real"),
    Mutant("convert.cuh", "-0 where nan is", "  if (type.special == GPL_UNSIGNED_ZERO && code == 0) return 0;\n", ""),
    Mutant("convert.cuh", "nan counts as the largest number", "type.special == GPL_NAN ? all - 1 : all;", "all;"),
    Mutant("convert.cuh", "subnormal numbers are rounded to more places", "  if (place.code < least) place.code = least;\n", ""),
    Mutant("convert.cuh", "ties of bf16 away from zero", "0x7FFF + (x.code >> 16 & 1)", "0x8000"),
    Mutant("convert.cuh", "nan becomes an integer", "return x != x ? 0 : result.code & range.all;", "return result.code & range.all;"),
    Mutant("convert.cuh", "long integers go through a real", "type.bits <= gpl_real_type<W>().mantissa;", "true;"),
    Mutant("convert.cuh", "exponents of a short float are not put right", "  x.real = gpl_multiplied(x.real, scale.real);\n", ""),
    Mutant("convert.cuh", "infinity saturates", "type.special == GPL_IEEE ? largest + 1 : saturate", "saturate"),
    Mutant("convert.cuh", "powers of two round down", "(x.significand >> (top - 1) & 1)", "0"),
    Mutant("convert.cuh", "the lowest integer is left out", "(all >> 1) + negative", "all >> 1"),
    Mutant("convert.cuh", "large numbers are shifted out of the word", "x.exponent >= 8 * (int)sizeof(W)", "x.exponent > 8 * (int)sizeof(W)"),
    Mutant("convert.cuh", "rint loses the sign", "  result.code |= negative;\n", ""),
    Mutant("convert.cuh", "all steps take the first parameter", "gpl_step<W>(operation, x, parameter(number))", "gpl_step<W>(operation, x, parameter(0))"),
    Mutant("convert.cuh", "integers of up to 32 bits wrap on a device", "max(min(gpl_to_s32(x), high), ~high)", "gpl_to_s32(x)"),
    Mutant("convert.cuh", "unsigned integers of up to 32 bits wrap on a device", "min(gpl_to_u32(x), all)", "gpl_to_u32(x)"),
    Mutant("convert.cuh", "f8e4m3fn saturates on a device", " + (!saturate && fabsf(x) > 464)", ""),
    Mutant("convert.cuh", "the middle between the largest f8e5m2 and infinity", "fabsf(x) >= 61440", "fabsf(x) > 61440"),
    Mutant("convert.cuh", "f8e5m2 is the lower half of f16", "(unsigned short)(code << 8)", "(unsigned short)code"),
    Mutant("convert.cuh", "rint cuts on a device", "\"cvt.rni.f32.f32 %0,\"", "\"cvt.rzi.f32.f32 %0,\""),
    Mutant("convert.cuh", "rint of f64 cuts on a device", "\"cvt.rni.f64.f64 %0,\"", "\"cvt.rzi.f64.f64 %0,\""),
    Mutant("convert.cuh", "quick quotients are never done again", "  if (!is_sure) {\n", "  if (false) {\n"),
    Mutant("convert.cuh", "small quick quotients are taken", "  if (!is_near) is_sure &= (fabsf", "  if (false) is_sure &= (fabsf"),
    Mutant("convert.cuh", "divisors of any size are quick", "is_sure &= divisor.code - (117u << 23) <= 20u << 23 && ", "is_sure &= "),
    Mutant("convert.cuh", "divisors with a wrong reciprocal are quick", " && (~divisor.code & 0x7FFFFF);", ";", NEAREST),
    Mutant("convert.cuh", "quotients of quotients are near", "      is_near &= i == 0;\n", "", ROOM),
    Mutant("convert.cuh", "products are near", "is_near &= next == GPL_DIVIDE && (operation == GPL_ADD || operation == GPL_SUBTRACT);", "is_near &= next == GPL_DIVIDE;", ROOM),
    Mutant("convert.cuh", "sums with any parameter are near", "      if (QUICK && is_near) is_sure &= gpl_is_near(parameter(number));\n", ""),
    Mutant("convert.cuh", "floats are near", "source.kind != GPL_FLOAT && source.kind != GPL_POWER && source.bits <= 16;", "source.bits <= 32;"),
    Mutant("convert.cuh", "long integers take no steps", "  if (!steps && !gpl_is_exact<W>", "  if (!gpl_is_exact<W>"),

    # ---- many.cu
    Mutant("many.cu", "first block of a job goes to the one before", "many.first[job + step] <= block", "many.first[job + step] < block"),
    Mutant("many.cu", "blocks of a job counted from the launch", "blockIdx.x - many.first[number]", "blockIdx.x"),
    Mutant("many.cu", "search for a job begins with half the step", "step = 32; step", "step = 16; step"),
    Mutant("many.cu", "search reads past the last job", "job + step < GPL_JOBS && ", ""),

    # ---- shift.cuh
    Mutant("shift.cuh", "lower end of the source's memory not asked", "vectors >= (const unsigned char*)gpl_at(source, move.low) &&", "true &&"),
    Mutant("shift.cuh", "upper end of the source's memory not asked",
           "vectors + 2 * GPL_SOURCE_PART(BYTES) <= (const unsigned char*)gpl_at(source, move.high)", "true"),
    Mutant("shift.cuh", "what lies past a row is not made pad",
           "    if (start < bound && bound - start >= elements) return chunk;\n", "    return chunk;\n"),
    Mutant("shift.cuh", "second vector is always the next one", "(vector + (phase != 0))", "(vector + 1)"),
    Mutant("shift.cuh", "bytes not shifted, words alone",
           "LOAD < 4 ? __funnelshift_r(word[i], word[i + 1], 8 * (read.phase & 3)) : word[i]", "word[i]"),
    Mutant("shift.cuh", "phase of a narrower source in vectors of the wider", "from & (GPL_SOURCE_PART(BYTES) - 1));", "from & (BYTES - 1));"),
    Mutant("shift.cuh", "phase of a narrower source in its own bytes",
           "GPL_SOURCE_BYTES == GPL_ELEMENT_BYTES ? phase : phase / GPL_SOURCE_BYTES * GPL_ELEMENT_BYTES;", "phase;"),
    Mutant("shift.cuh", "vectors of a narrower source need twice 16 bytes", "vectors + 2 * GPL_SOURCE_PART(BYTES) <=", "vectors + 2 * BYTES <=", IN_PIECES),

    # ---- gather.cu
    Mutant("gather.cu", "number of a block in one dimension", "move, gpl_block());", "move, blockIdx.x);"),

    # ---- gather.cuh
    Mutant("gather.cuh", "read guard dropped", "    if (first + k * GPL_THREADS >= move.total) continue;\n", "", READ_AGAIN),
    Mutant("gather.cuh", "write guard dropped", "    if (first + k * GPL_THREADS < move.total)\n", ""),
    Mutant("gather.cuh", "padding is read", "if (place.inside) value", "value"),
    Mutant("gather.cuh", "number of a place in 32 bits", "const gpl_uint first = block", "const unsigned first = block"),
    Mutant("gather.cuh", "place in the target in 32 bits", "  gpl_uint to[GPL_PLACES];", "  unsigned to[GPL_PLACES];"),
    Mutant("gather.cuh", "all places take the first parameters", "parameters[k] = place.parameters;", "parameters[k] = gpl_first_parameters(move);"),

    # ---- bits_any.cu
    Mutant("bits_any.cu", "read guard dropped", "    if (first + k * GPL_THREADS >= move.total) continue;\n", "", READ_AGAIN),
    Mutant("bits_any.cu", "write guard dropped", "if (first + k * GPL_THREADS < move.total) *gpl_at", "*gpl_at"),
    Mutant("bits_any.cu", "minor coordinate not carried on within a byte", "++i, ++walk.minor)", "++i)"),
    Mutant("bits_any.cu", "place in the target in 32 bits", "  gpl_uint to[GPL_ITEMS];", "  unsigned to[GPL_ITEMS];"),

    # ---- instructions.cuh
    Mutant("instructions.cuh", "bound of a sum off by one", "number[k] >= instruction.bound", "number[k] > instruction.bound"),
    Mutant("instructions.cuh", "all terms are divided", "if (term.shift == GPL_NO_DIVISION)", "if (false)"),
    Mutant("instructions.cuh", "all terms are of the given index",
           "    if (term[t].source) gpl_add(number, kept[term[t].source - 1], term[t]);\n    else gpl_add", "    gpl_add"),
    Mutant("instructions.cuh", "sums in 32 bits", "typedef gpl_uint gpl_numbers[GPL_ITEMS];", "typedef unsigned gpl_numbers[GPL_ITEMS];"),

    # ---- index_program.cu
    Mutant("index_program.cu", "padding of the source is no error",
           "left, none);\n  if (program.mode != GPL_MARK) bad |= padding;\n", "left, none);\n"),
    Mutant("index_program.cu", "bound of a coordinate off by one", "coordinate >= bound) << k", "coordinate > bound) << k"),
    Mutant("index_program.cu", "coordinates of padding are not marked", "gpl_mark(number, padding, coordinate);", "gpl_mark(number, 0, coordinate);"),
    Mutant("index_program.cu", "padding is looked for where there is none", "if (program.padded) padding", "padding", NO_BOUNDS),
    Mutant("index_program.cu", "padding of the source is converted",
           "left, sum);\n  if (program.mode != GPL_MARK) bad |= padding;\n", "left, sum);\n"),
    Mutant("index_program.cu", "marked padding is an error",
           "left, sum);\n  if (program.mode != GPL_MARK) bad |= padding;\n", "left, sum);\n  bad |= padding;\n"),

    # ---- index.cu
    Mutant("index.cu", "bound of a coordinate off by one", "(coordinate >= digit.bound) << k", "(coordinate > digit.bound) << k"),
    Mutant("index.cu", "product of a coordinate and its stride in the width of digits",
           "(gpl_number)coordinate * (gpl_uint)digit.stride", "(gpl_number)coordinate * (gpl_number)digit.stride"),
    Mutant("index.cu", "padding of the source is converted",
           "    if (table.padded) padding |= gpl_padding", "    if (false) padding |= gpl_padding"),
    Mutant("index.cu", "padding of the source is no error",
           "table);\n  if (table.mode != GPL_MARK) bad |= padding;\n", "table);\n"),
    Mutant("index.cu", "padding of the source is no error where linear indices are converted",
           "  }\n  if (table.mode != GPL_MARK) bad |= padding;\n", "  }\n"),
    Mutant("index.cu", "marked padding is an error where linear indices are converted",
           "  }\n  if (table.mode != GPL_MARK) bad |= padding;\n", "  }\n  bad |= padding;\n"),
    Mutant("index.cu", "digits of the upper part not taken", "rest[k].low = rest[k].above;", "rest[k].low = 0;"),
    Mutant("index.cu", "coordinates of padding are not marked", "ALL ? 0 : padding, result);", "0, result);"),
    Mutant("index.cu", "nothing is written without a result", "  if (!index) return;\n", ""),

    # ---- coordinate.cuh
    Mutant("coordinate.cuh", "large unsigned numbers are negative", "(T)-1 < (T)1 && ", ""),
    Mutant("coordinate.cuh", "clipped to the size", "negative ? 0 : bound - 1;", "negative ? 0 : bound;"),
    Mutant("coordinate.cuh", "wrapped one too far", "bound - 1 - rest : rest;", "bound - rest : rest;"),
    Mutant("coordinate.cuh", "no second time around", "far < bound ? far : far % bound;", "far < bound ? far : far - bound;"),
    Mutant("coordinate.cuh", "divided where that is not needed", "far < bound ? far : far % bound;", "far % bound;", SAME_REST),
)
