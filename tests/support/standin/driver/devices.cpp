// The devices, their properties, and the contexts that threads enter.
#include <stdlib.h>
#include <string.h>

#include "memory.hpp"
#include "work.hpp"

using namespace standin;

namespace {

// As on a machine, CUDA_VISIBLE_DEVICES lists the devices that a process sees: "0" leaves one.
int device_count() {
  static const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  int count = 1;
  for (const char* at = visible; at && *at; ++at) count += *at == ',';
  return visible && count < DEVICES ? count : DEVICES;
}
bool is_device(int device) { return device >= 0 && device < device_count(); }

const int THREADS_PER_BLOCK = 1024, PROCESSORS = 4, L2_BYTES = 1 << 20;
const size_t SHARED_BYTES = 48 << 10;

}  // namespace

API int cudaDriverGetVersion(int* version) { return *version = STANDIN_CUDA_VERSION, 0; }
API int cudaRuntimeGetVersion(int* version) { return *version = STANDIN_CUDA_VERSION, 0; }
API int cudaGetDeviceCount(int* count) { return *count = device_count(), 0; }
API int cudaGetDevice(int* device) { return *device = self.device, 0; }
API int cudaSetDevice(int device) {
  if (!is_device(device)) return result(refused(cudaErrorInvalidDevice, "device %d is set, but there are only %d", device, device_count()));
  self.device = device;
  enter_context();                               // since CUDA 12 this establishes the context at once
  return 0;
}
API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (!is_device(device)) return result(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: return *value = 9, 0;
    case cudaDevAttrMaxThreadsPerBlock: return *value = THREADS_PER_BLOCK, 0;
    case cudaDevAttrMultiProcessorCount: return *value = PROCESSORS, 0;
    case cudaDevAttrWarpSize: return *value = 32, 0;
    case cudaDevAttrMaxSharedMemoryPerBlock: return *value = (int)SHARED_BYTES, 0;
    case cudaDevAttrL2CacheSize: return *value = L2_BYTES, 0;
    case cudaDevAttrUnifiedAddressing: return *value = 1, 0;
    case cudaDevAttrManagedMemory: return *value = 1, 0;
    case cudaDevAttrConcurrentManagedAccess: return *value = 1, 0;
    case cudaDevAttrMemoryPoolsSupported: return *value = 1, 0;
    default: return *value = 0, 0;
  }
}
API int cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
  if (!is_device(device)) return result(cudaErrorInvalidDevice);
  memset(found, 0, sizeof *found);
  strcpy(found->name, "stand-in");
  found->totalGlobalMem = DEVICE_BYTES;
  found->major = 9;
  found->warpSize = 32;
  found->maxThreadsPerBlock = THREADS_PER_BLOCK;
  found->multiProcessorCount = PROCESSORS;
  found->sharedMemPerBlock = SHARED_BYTES;
  found->l2CacheSize = L2_BYTES;
  found->unifiedAddressing = found->managedMemory = found->concurrentManagedAccess = 1;
  return 0;
}
API int cudaGetDeviceProperties_v2(cudaDeviceProp* found, int device) { return cudaGetDeviceProperties(found, device); }      // CUDA 12's name
API int cudaDeviceSynchronize() {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  run_device(self.device);
  return result(context_error);
}
API int cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, 0; }
API int cudaDeviceEnablePeerAccess(int, unsigned) { return result(cudaErrorPeerAccessUnsupported); }

// The marks between which a profiler looks; nobody does.
API int cudaProfilerStart() { return 0; }
API int cudaProfilerStop() { return 0; }

API int cuInit(unsigned) { return 0; }
API int cuDriverGetVersion(int* version) { return *version = STANDIN_CUDA_VERSION, 0; }
API int cuCtxGetCurrent(void** context) {
  static char contexts[DEVICES];
  return *context = self.entered ? &contexts[self.device] : nullptr, 0;
}
API int cuCtxGetDevice(int* device) { return *device = self.device, self.entered ? 0 : INVALID_CONTEXT; }
// NVRTC asks for a private table when it is loaded, and accepts a refusal.
API int cuGetExportTable(const void** table, const void*) { return *table = nullptr, NOT_FOUND; }
