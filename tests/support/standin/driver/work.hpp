// Streams and the work in them.
//
// Work runs as late as CUDA allows: when a call waits for it, and then only what that wait needs.  So the operands of an operation
// must stay valid and unchanged as long as on the slowest device, and streams are ordered only if the program orders them.
//
// standin_set_order chooses other orders that CUDA allows: as early as possible, or at random, when some of the work that waits, of any
// stream, runs during every call that adds work.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "common.hpp"

namespace standin {

typedef std::function<int()> Act;                  // returns a CUDA error

struct Work {
  Act act;                                         // may be empty, to mark a point in the order
  std::vector<std::shared_ptr<Work>> after;
  bool done = false;
};
typedef std::shared_ptr<Work> WorkPointer;

// A capture in progress, shared by all streams that take part in it.
struct Capture {
  int mode;
  const Thread* thread;                            // the thread that began it
  struct Stream* origin;
  bool broken = false;
  std::vector<WorkPointer> nodes;                  // in the order of the calls
};

struct Stream {
  int device = 0;
  bool non_blocking = false;
  bool legacy = false;                             // the null stream, which waits for the blocking streams, and they for it
  WorkPointer last;                                // its latest work
  std::shared_ptr<Capture> capture;
  WorkPointer last_captured;
};

// The error of a failed kernel.  The context is lost, and every later call reports it.
extern int context_error;

// The stream of a handle for the calling thread; null if the handle is not a stream.
Stream* stream_of(const void* handle);
Stream* new_stream(int device, bool non_blocking);
bool delete_stream(const void* handle);

// Adds work to a stream, to run after the work in the stream and after `also`.  In a capture it becomes a node of the graph.
int add(Stream* stream, Act act, const std::vector<WorkPointer>& also = {});
int add(const void* handle, Act act, const std::vector<WorkPointer>& also = {});

// Runs this piece of work, after everything that it depends on.
void run(const WorkPointer& last);
void run_stream(Stream* stream);
void run_device(int device);

// Returns every stream that takes part in the capture to its own work.
void leave_capture(const std::shared_ptr<Capture>& capture);

// The error of a call that may wait or allocate, if a capture forbids it; this invalidates the capture.  A capture forbids it to its
// own thread unless its mode is relaxed, and to all threads if its mode is global; but not to threads of a laxer mode of their own.
int unsafe_during_capture(const char* function);

}  // namespace standin
