// The C interface of packed moves: see packed_move.cpp.
#ifndef GPULAYOUT_PACKED_MOVE_H
#define GPULAYOUT_PACKED_MOVE_H

#include "strided_move.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gl_packed gl_packed;

// A move of elements that have 1, 2, 4 or 8 bits on each side, the first of a byte in its lowest bits or, on a big side, in its
// highest; 8 bits are a byte for each element, of which the lowest bits count.  Axes are as in gl_plan, but strides count elements.  Only the first `slots` places are
// written, in the order of the axes; the most major axis may extend beyond them.  The bits after them become 0 up to a whole byte.
typedef struct {
    int rank;
    const gl_axis* axes;
    int64_t slots;
    int64_t start;                 // element 0 of the source is so many elements after the first one of its first byte
    int source_bits, target_bits;  // a packed target has no gaps, or its first axis has only whole bytes
    int source_big, target_big;
    unsigned char pad;
} gl_packed_move;

typedef struct {
    int64_t most, boxes, scratch;  // places of a box, number of boxes, bytes of memory that a thread needs
    int64_t turns;                 // whether bytes are moved between the two sides
    int64_t bytes;                 // bytes read and written
    int64_t most_threads;
} gl_packed_description;

// As the functions of strided_move.h.
gl_packed* gl_packed_plan(const gl_packed_move* move);
void gl_packed_free(gl_packed* plan);
gl_packed_description gl_packed_describe(const gl_packed* plan);
enum gl_result gl_packed_run(const gl_packed* plan, const void* source, void* target, int threads, gl_poll poll, void* about);

#ifdef __cplusplus
}
#endif
#endif
