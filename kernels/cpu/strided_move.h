// The C interface of the native engine: see strided_move.cpp.
#ifndef GPULAYOUT_STRIDED_MOVE_H
#define GPULAYOUT_STRIDED_MOVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One loop of a move: target[c * target] = source[c * source] while c < bound, the pad for bound <= c < extent.
typedef struct {
    int64_t extent, bound, source, target;  // strides in bytes
} gl_axis;

typedef struct gl_move gl_move;

// What a plan does, for people and tests.
typedef struct {
    const char* kernel;         // "any", "run", "copy", "step", "turn", "zip", "unzip" or "fill"; NULL: there is nothing to move
    int64_t element, slot;      // bytes that a kernel moves as one element, and of the place that it has in the target
    int64_t along_target, along_source, walked;  // places of a box along each side, and axes that are walked in it
    int64_t boxes, scratch;     // number of boxes; bytes of memory that a thread needs for a box, 0: it writes to the target
    int64_t streams;            // whether the target is written around the caches
    int64_t fills;              // regions of padding that are filled apart
    int64_t bytes;              // bytes written
    int64_t most_threads;       // the most threads that speed the move up
} gl_description;

enum gl_result { GL_DONE = 0, GL_STOPPED = 1, GL_NO_MEMORY = 2 };

// Called by the thread that called gl_run, 20 milliseconds or more after the last call, between two portions of the move (for a
// file that is read as memory that may take long); not 0: stop as soon as possible.
typedef int (*gl_poll)(void* about);

// A plan for up to 62 axes that are minor first in the target, 0 <= bound <= extent; `pad` has `size` bytes.  NULL: no memory.
gl_move* gl_plan(int rank, const gl_axis* axes, int64_t size, const void* pad);
void gl_free(gl_move* plan);
gl_description gl_describe(const gl_move* plan);

// The same for a part of a move that reads and writes `touched` bytes in all; 0: for a whole move.
gl_move* gl_plan_part(int rank, const gl_axis* axes, int64_t size, const void* pad, int64_t touched);

// Executes a plan with at most `threads` threads.  Addresses are those of coordinate 0 on all axes.  The bytes from the first
// to the last element of the source may be read, gaps among them; those of the target are written where elements and padding
// are.  These two do not overlap.
enum gl_result gl_run(const gl_move* plan, const void* source, void* target, int threads, gl_poll poll, void* about);

// The same in the calling thread, with memory at a page of so many bytes as gl_describe says: for moves within other work.
void gl_run_within(const gl_move* plan, const void* source, void* target, void* scratch);

// Bytes of the first-, second- and third-level cache, for plans made from now on.  (Nothing depends on the first.)
void gl_set_caches(int64_t first, int64_t second, int64_t third);
int64_t gl_second_level(void);
int gl_streams(int64_t touched);  // whether a move that reads and writes so many bytes writes around the caches
void gl_stream(char* to, const char* from, int64_t bytes);  // writes around them; a fence has to follow

// The name of instruction set 0, 1, ... that this machine has; NULL past the best.  gl_use picks one of these for plans made
// from now on.
const char* gl_instruction_set(int number);
void gl_use(int number);
int gl_used_set(void);  // its number

#ifdef __cplusplus
}
#endif
#endif
