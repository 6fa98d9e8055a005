// Copies and fills.
#include <string.h>

#include <memory>
#include <string>

#include "memory.hpp"
#include "work.hpp"

using namespace standin;

namespace {

const char* outside(const void* address, size_t bytes) {
  return within_one_allocation(address, bytes) ? nullptr : "leaves its allocation";
}

// Executes a copy when its turn comes.  The memory may have been freed since the call.
int copy_now(void* to, const void* from, size_t bytes) {
  if (outside(to, bytes) || outside(from, bytes)) return refused(cudaErrorIllegalAddress, "a copy of memory that was freed");
  Opened there(to);
  if (allocation_of(from).begin == allocation_of(to).begin) return memmove(to, from, bytes), 0;
  Opened here(from);
  return memcpy(to, from, bytes), 0;
}

// Managed memory counts as both host and device memory.
bool kind_fits(const void* to, const void* from, int kind) {
  const Kind target = allocation_of(to).kind, source = allocation_of(from).kind;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return kind == cudaMemcpyDefault || ((target == Kind::MANAGED || to_device == (target == Kind::DEVICE)) &&
                                       (source == Kind::MANAGED || from_device == (source == Kind::DEVICE)));
}

bool is_pageable(const void* address) { return allocation_of(address).kind == Kind::NONE; }

int copy_in(Stream* stream, void* to, const void* from, size_t bytes, int kind) {
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (outside(to, bytes) || outside(from, bytes)) return refused(cudaErrorInvalidValue, "a copy of %zu bytes leaves its allocation", bytes);
  if (!kind_fits(to, from, kind)) return refused(cudaErrorInvalidMemcpyDirection, "a copy of kind %d between other kinds of memory", kind);
  if (!bytes) return 0;
  if (stream->capture && (is_pageable(to) || is_pageable(from))) {
    stream->capture->broken = true;
    return refused(cudaErrorStreamCaptureUnsupported, "a copy of pageable memory during a capture");
  }
  if (is_pageable(from)) {                         // staged: the caller may change it as soon as the call returns
    auto staged = std::make_shared<std::string>((const char*)from, bytes);
    return add(stream, [=] { return copy_now(to, staged->data(), bytes); });
  }
  if (int error = add(stream, [=] { return copy_now(to, from, bytes); })) return error;
  if (is_pageable(to)) run(stream->last);          // the call returns when the bytes have arrived
  return context_error;
}

}  // namespace

API int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, const void* handle) {
  Lock lock(everything);
  enter_context();
  return result(copy_in(stream_of(handle), to, from, bytes, kind));
}
API int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  Stream* stream = stream_of(nullptr);
  if (int error = copy_in(stream, to, from, bytes, kind)) return result(error);
  // Even this call does not wait for copies within device memory.
  if (!is_device_memory(to) || !is_device_memory(from)) run_stream(stream);
  return result(context_error);
}
API int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, const void* handle) {
  Lock lock(everything);
  enter_context();
  if (bytes && (allocation_of(to).device != to_device || allocation_of(from).device != from_device))
    return result(refused(cudaErrorInvalidValue, "a copy from device %d to device %d of memory that is elsewhere", from_device, to_device));
  return result(copy_in(stream_of(handle), to, from, bytes, cudaMemcpyDeviceToDevice));
}
API int cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}
API int cudaMemsetAsync(void* to, int value, size_t bytes, const void* handle) {
  Lock lock(everything);
  enter_context();
  if (is_pageable(to) || outside(to, bytes))
    return result(refused(cudaErrorInvalidValue, "a fill of %zu bytes leaves its allocation", bytes));
  return result(add(handle, [=] {
    if (outside(to, bytes)) return refused(cudaErrorIllegalAddress, "a fill of memory that was freed");
    Opened there(to);
    return memset(to, value, bytes), 0;
  }));
}
API int cudaMemset(void* to, int value, size_t bytes) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
#if STANDIN_CUDA_VERSION >= 13000
API int cudaMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation, unsigned, const void* handle) {
#else
API int cudaMemPrefetchAsync(const void* address, size_t bytes, int, const void* handle) {
#endif
  Lock lock(everything);
  if (allocation_of(address).kind != Kind::MANAGED || outside(address, bytes)) return result(cudaErrorInvalidValue);
  return result(add(handle, nullptr));             // a prefetch only moves pages
}
