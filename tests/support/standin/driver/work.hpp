// Streams and the work in them.
//
// Work is done as late as CUDA allows: when somebody waits for it, and then only what that wait needs.  So what an operation was given
// must stay valid and unchanged for as long as on the slowest device, and an order between streams that nobody asked for does not happen.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "common.hpp"

namespace standin {

typedef std::function<int()> Act;                  // returns an error of CUDA's

struct Work {
  Act act;                                         // may be empty: a point in an order
  std::vector<std::shared_ptr<Work>> after;
  bool done = false;
};
typedef std::shared_ptr<Work> WorkPointer;

// A capture in progress, shared by all streams that take part in it.
struct Capture {
  int mode;
  const Thread* thread;                            // who began it
  struct Stream* origin;
  bool broken = false;
  std::vector<WorkPointer> nodes;                  // what was captured, in the order of the calls
};

struct Stream {
  int device = 0;
  bool non_blocking = false;
  bool legacy = false;                             // the null stream, which waits for the blocking ones and they for it
  WorkPointer last;                                // what was put into it last
  std::shared_ptr<Capture> capture;
  WorkPointer last_captured;
};

// The error of a kernel that failed.  The context is lost: every later call reports it.
extern int context_error;

// The stream of a handle, for the thread that asks; null for a handle that is no stream.
Stream* stream_of(const void* handle);
Stream* new_stream(int device, bool non_blocking);
bool delete_stream(const void* handle);

// Puts work behind what is in the stream, and behind `also`.  In a capture it becomes a node of the graph instead.
int add(Stream* stream, Act act, const std::vector<WorkPointer>& also = {});
int add(const void* handle, Act act, const std::vector<WorkPointer>& also = {});

// Does this piece of work, after all that it comes after.
void run(const WorkPointer& last);
void run_stream(Stream* stream);
void run_device(int device);

// Every stream that takes part in the capture goes back to its own work.
void leave_capture(const std::shared_ptr<Capture>& capture);

// The error for a call that may wait or allocate, if a capture forbids it; the capture is broken then.
int unsafe_during_capture(const char* function);

}  // namespace standin
