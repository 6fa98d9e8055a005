// Shared by all parts of the stand-in: exported functions, error reports, and the state of a thread.
#pragma once
#include <driver_types.h>
#include <stddef.h>
#include <stdint.h>

#include <mutex>

#define API extern "C" __attribute__((visibility("default")))

namespace standin {

const int DEVICES = 2;

// One lock for everything: work runs in whichever thread waits for it, one piece at a time.  No code under the lock may wait for
// Python's interpreter lock, because a thread that holds it may be waiting for this lock.
extern std::recursive_mutex everything;
typedef std::lock_guard<std::recursive_mutex> Lock;

// CUDA's state of a host thread.
struct Thread {
  int device = 0;
  bool entered = false;       // a context is current; driver calls need one, and only runtime calls establish it
  int last_error = 0;
  int capture_mode = 0;       // what captures forbid to this thread: see unsafe_during_capture
};
extern thread_local Thread self;

inline void enter_context() { self.entered = true; }

// Reports a refused call on standard error when STANDIN_VERBOSE is set; returns the error.
int refused(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

// The result of a runtime call; remembers the thread's last error, as CUDA does.
inline int result(int error) {
  if (error) self.last_error = error;
  return error;
}

// The driver's error codes whose numbers the runtime does not use for the same error.
enum DriverError { INVALID_VALUE = 1, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };

}  // namespace standin
