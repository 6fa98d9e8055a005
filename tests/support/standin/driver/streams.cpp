// The calls that create streams, wait for them, and order them by events.
#include "events.hpp"
#include "work.hpp"

using namespace standin;

API int cudaStreamCreateWithPriority(void** made, unsigned flags, int) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  *made = new_stream(self.device, (flags & cudaStreamNonBlocking) != 0);
  return result(context_error);
}
API int cudaStreamCreateWithFlags(void** made, unsigned flags) { return cudaStreamCreateWithPriority(made, flags, 0); }
API int cudaStreamCreate(void** made) { return cudaStreamCreateWithPriority(made, cudaStreamDefault, 0); }
API int cudaStreamDestroy(void* handle) {
  Lock lock(everything);
  return result(delete_stream(handle) ? 0 : (int)cudaErrorInvalidResourceHandle);
}
API int cudaStreamGetFlags(const void* handle, unsigned* flags) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  return *flags = stream->non_blocking ? cudaStreamNonBlocking : cudaStreamDefault, 0;
}
API int cudaStreamGetPriority(const void* handle, int* priority) {
  Lock lock(everything);
  if (!stream_of(handle)) return result(cudaErrorInvalidResourceHandle);
  return *priority = 0, 0;
}
API int cudaStreamSynchronize(const void* handle) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->broken = true;
    return result(refused(cudaErrorStreamCaptureUnsupported, "a wait for a stream that is captured"));
  }
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  run_stream(stream);
  return result(context_error);
}
API int cudaStreamQuery(const void* handle) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  if (!stream->last || stream->last->done) return result(context_error);
  run_stream(stream);                              // a caller that polls must find it done eventually
  return cudaErrorNotReady;
}
API int cudaStreamWaitEvent(const void* handle, void* given, unsigned) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  Event* event = (Event*)given;
  if (!stream || !event) return result(cudaErrorInvalidResourceHandle);
  if (std::shared_ptr<Capture> theirs = event->capture.lock()) {                       // the stream joins the capture
    if (stream->capture && stream->capture != theirs) return result(cudaErrorStreamCaptureMerge);
    if (stream->legacy) {
      theirs->broken = true;
      return result(cudaErrorStreamCaptureImplicit);
    }
    stream->capture = theirs;
    return result(add(stream, nullptr, {event->captured}));
  }
  if (stream->capture && event->work) {            // a graph cannot wait for work outside it
    stream->capture->broken = true;
    return result(cudaErrorStreamCaptureIsolation);
  }
  return result(add(stream, nullptr, {event->work}));
}
