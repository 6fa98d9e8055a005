// Allocations made and freed in the order of a stream.
//
// An address is valid at once.  It is freed when the stream reaches the call, as late as all work.  So memory that another stream uses
// without waiting may be gone before that stream uses it.
#include <memory>

#include "memory.hpp"
#include "work.hpp"

using namespace standin;

namespace {

struct Pool {
  int device;
  uint64_t release_threshold = 0, used = 0, most_used = 0;
  explicit Pool(int device) : device(device) {}
};
Pool defaults[DEVICES] = {Pool(0), Pool(1)};
Pool* current[DEVICES] = {&defaults[0], &defaults[1]};
static_assert(DEVICES == 2, "one default pool for each");

int allocate_in(Pool* pool, size_t bytes, void** address, const void* handle) {
  enter_context();
  Stream* stream = stream_of(handle);
  if (!stream || stream->device != pool->device) return cudaErrorInvalidValue;
  if (stream->capture) return refused(cudaErrorStreamCaptureUnsupported, "an allocation in a graph");
  if (!bytes) return *address = nullptr, cudaErrorInvalidValue;
  if (int error = allocate(Kind::DEVICE, pool->device, bytes, address)) return error;
  pool->used += bytes;
  if (pool->used > pool->most_used) pool->most_used = pool->used;
  return add(stream, nullptr);
}

}  // namespace

API int cudaMallocAsync(void** address, size_t bytes, const void* stream) {
  Lock lock(everything);
  return result(allocate_in(current[self.device], bytes, address, stream));
}
API int cudaMallocFromPoolAsync(void** address, size_t bytes, void* pool, const void* stream) {
  Lock lock(everything);
  return result(allocate_in((Pool*)pool, bytes, address, stream));
}
API int cudaFreeAsync(void* address, const void* handle) {
  Lock lock(everything);
  const Allocation found = allocation_of(address);
  if (found.kind != Kind::DEVICE || found.begin != address) return result(refused(cudaErrorInvalidValue, "a free of memory that was not allocated"));
  Pool* pool = current[found.device];
  return result(add(handle, [=] {
    pool->used -= found.bytes < pool->used ? found.bytes : pool->used;
    return release(Kind::DEVICE, address) ? 0 : (int)cudaErrorInvalidValue;
  }));
}
API int cudaDeviceGetDefaultMemPool(void** pool, int device) { return *pool = &defaults[device], 0; }
API int cudaDeviceGetMemPool(void** pool, int device) { return *pool = current[device], 0; }
API int cudaDeviceSetMemPool(int device, void* pool) {
  if (((Pool*)pool)->device != device) return result(cudaErrorInvalidValue);
  return current[device] = (Pool*)pool, 0;
}
API int cudaMemPoolCreate(void** pool, const cudaMemPoolProps* wanted) {
  if (wanted->location.type != cudaMemLocationTypeDevice || wanted->location.id < 0 || wanted->location.id >= DEVICES)
    return result(cudaErrorInvalidValue);
  return *pool = new Pool(wanted->location.id), 0;
}
API int cudaMemPoolDestroy(void* pool) { return delete (Pool*)pool, 0; }
API int cudaMemPoolTrimTo(void*, size_t) { return 0; }             // freed memory is released at once
API int cudaMemPoolGetAttribute(const Pool* pool, int attribute, void* value) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold: return *(uint64_t*)value = pool->release_threshold, 0;
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent: return *(uint64_t*)value = pool->used, 0;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh: return *(uint64_t*)value = pool->most_used, 0;
    default: return result(refused(cudaErrorNotSupported, "attribute %d of a memory pool", attribute));
  }
}
API int cudaMemPoolSetAttribute(Pool* pool, int attribute, const void* value) {
  if (attribute != cudaMemPoolAttrReleaseThreshold) return result(refused(cudaErrorNotSupported, "attribute %d of a memory pool", attribute));
  return pool->release_threshold = *(const uint64_t*)value, 0;
}
