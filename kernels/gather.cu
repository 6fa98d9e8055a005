// General gather: any move, one target place after another.  It is the last resort: writes are contiguous, but reads
// follow the strides, so a warp may fetch 32 sectors of 32 bytes for 32 elements.
//
// `total` is the number of places.  One thread fills GPL_PLACES of them, 256 apart, and issues all its loads before the
// first store.  A place is decoded with one division per axis, minor first:
//   extents 3, 5: place 7 -> coordinates (7 % 3, 7 / 3) = (1, 2)
#include "gather.cuh"

GPL_KERNEL gpl_gather(const void* __restrict__ source, void* __restrict__ target, const __grid_constant__ GplMove move) {
  gpl_gather_places(source, target, move, gpl_block());
}
