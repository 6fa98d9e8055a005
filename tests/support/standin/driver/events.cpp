// Events: recorded in a stream, waited for, and timed by this machine's clock, not by a device's.
#include "events.hpp"

#include <time.h>

using namespace standin;

namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

}  // namespace

API int cudaEventCreateWithFlags(void** made, unsigned flags) {
  Lock lock(everything);
  enter_context();
  Event* event = new Event;
  event->timed = !(flags & cudaEventDisableTiming);
  return *made = event, 0;
}
API int cudaEventCreate(void** made) { return cudaEventCreateWithFlags(made, cudaEventDefault); }
API int cudaEventDestroy(void* event) { return delete (Event*)event, 0; }
API int cudaEventRecord(void* given, const void* handle) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  Event* event = (Event*)given;
  if (!stream || !event) return result(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    if (int error = add(stream, nullptr)) return result(error);
    event->capture = stream->capture;
    event->captured = stream->last_captured;
    return 0;
  }
  auto seconds = event->seconds = std::make_shared<double>(0);         // the event may be recorded again or destroyed before the work is done
  if (int error = add(stream, [seconds] { return *seconds = now(), 0; })) return result(error);
  event->capture.reset();
  event->work = stream->last;
  return 0;
}
API int cudaEventSynchronize(void* event) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  run(((Event*)event)->work);
  return result(context_error);
}
API int cudaEventQuery(void* event) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  const WorkPointer work = ((Event*)event)->work;
  if (!work || work->done) return result(context_error);
  run(work);                                       // a caller that polls must find it done eventually
  return cudaErrorNotReady;
}
API int cudaEventElapsedTime(float* milliseconds, void* begin, void* end) {
  Lock lock(everything);
  for (const Event* event : {(Event*)begin, (Event*)end}) {
    if (!event->timed || !event->work) return result(cudaErrorInvalidResourceHandle);
    if (!event->work->done) return result(cudaErrorNotReady);
  }
  *milliseconds = (float)(1e3 * (*((Event*)end)->seconds - *((Event*)begin)->seconds));
  return 0;
}
API int cudaEventElapsedTime_v2(float* milliseconds, void* begin, void* end) { return cudaEventElapsedTime(milliseconds, begin, end); }
