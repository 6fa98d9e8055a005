// The C interface of moves whose elements change on the way: see convert_move.cpp.
#ifndef GPULAYOUT_CONVERT_MOVE_H
#define GPULAYOUT_CONVERT_MOVE_H

#include "strided_move.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GL_MOST_PARAMETERS = 3 };

// One loop: the element at c * source goes to c * target, both in bytes, with the value at c * parameters[p] of parameter p.
typedef struct {
    int64_t extent, source, target, parameters[GL_MOST_PARAMETERS];
} gl_convert_axis;

// Types and steps as kernels/convert.cuh takes them; starts: the first value of each parameter that is read; swapped: the bytes of
// the source's elements are in the other order than the machine's.
typedef struct {
    unsigned source, target, steps;
    int saturate;
    int64_t starts[GL_MOST_PARAMETERS];
    int swapped;
} gl_arithmetic;

typedef struct gl_convert gl_convert;

typedef struct {
    int64_t boxes, box, run;  // number of boxes; elements of one, and of a row in it that is converted at once
    int64_t gathers, scatters;  // whether boxes pass through a scratch tile before and after the arithmetic
    int64_t streams, scratch, bytes, most_threads;  // as those of gl_description
} gl_convert_description;

// A plan for up to 62 axes with extents of at least 1.  NULL: no memory.
gl_convert* gl_convert_plan(int rank, const gl_convert_axis* axes, const gl_arithmetic* arithmetic);
void gl_convert_free(gl_convert* plan);
gl_convert_description gl_convert_describe(const gl_convert* plan);

// Executes a plan, as gl_run.  Parameters are arrays of f64 if a side is f64 or has integers of 32 or 64 bits, else of f32.
// Source and target may be the same memory if every element stays where it is.
enum gl_result gl_convert_run(const gl_convert* plan, const void* source, void* target, const void* const* parameters, int threads,
                              gl_poll poll, void* about);

#ifdef __cplusplus
}
#endif
#endif
