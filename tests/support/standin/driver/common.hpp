// What every part of the stand-in shares: how functions are exported, how errors are reported, what belongs to a thread.
#pragma once
#include <driver_types.h>
#include <stddef.h>
#include <stdint.h>

#include <mutex>

#define API extern "C" __attribute__((visibility("default")))

namespace standin {

const int DEVICES = 2;

// One lock for everything: work runs in whichever thread waits for it, one piece at a time.  No code under the lock may wait for
// Python's interpreter lock, because a thread that has that one may be waiting for this one.
extern std::recursive_mutex everything;
typedef std::lock_guard<std::recursive_mutex> Lock;

// CUDA's state of a host thread.
struct Thread {
  int device = 0;
  bool entered = false;       // a context is current: a driver call needs one, and only the runtime's calls establish it
  int last_error = 0;
};
extern thread_local Thread self;

inline void enter_context() { self.entered = true; }

// Reports a refused call on standard error when STANDIN_VERBOSE is set; returns the error.
int refused(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

// The result of a runtime call; the thread's last error is kept as CUDA keeps it.
inline int result(int error) {
  if (error) self.last_error = error;
  return error;
}

// The driver's error codes that have no twin of the same number among the runtime's.
enum DriverError { INVALID_VALUE = 1, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };

}  // namespace standin
