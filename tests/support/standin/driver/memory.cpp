// Allocations, and who may access them.
//
// A device's range is reserved without access.  Every allocation gets its own pages in it, and none are used twice, so the
// address of freed memory stays invalid.  An allocation ends with its last page, except for a gap that keeps it aligned; after it comes
// a page without access.  So an access past the end faults or lands in the gap.  Freeing the memory checks the gaps on both
// sides, and finds what was written there.
#include "memory.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <map>
#include <vector>

#include "work.hpp"

namespace standin {
namespace {

const size_t PAGE = 4096, ALIGNMENT = 256;         // of every allocation, as CUDA guarantees
const size_t ADDRESSES = size_t(1) << 42;          // of a device: more than any session allocates
const size_t FILLED = size_t(64) << 20;            // larger allocations are left zero, as fresh pages are
const int FRESH = 0xA5, GAP = 0xC3;

struct Range {
  char* begin = nullptr;
  size_t used = 0, live_bytes = 0;
};
Range ranges[DEVICES];
std::map<char*, Allocation> allocations;           // by their first byte

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

char* fresh_pages(Range& range, size_t bytes) {
  if (!range.begin) {
    void* found = mmap(nullptr, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) return nullptr;
    range.begin = (char*)found;
  }
  if (range.used + bytes + PAGE > ADDRESSES) return nullptr;
  char* pages = range.begin + range.used;
  range.used += bytes + PAGE;                      // a page without access after each
  return pages;
}

void protect(const Allocation& allocation, int access) { mprotect(allocation.pages, allocation.page_bytes, access); }

void fill(const Allocation& made) {
  char *const last = made.begin + made.bytes, *const end = made.pages + made.page_bytes;
  memset(made.pages, GAP, (size_t)(made.begin - made.pages));
  if (made.bytes <= FILLED) memset(made.begin, FRESH, made.bytes);
  memset(last, GAP, (size_t)(end - last));
}

bool gaps_are_untouched(const Allocation& allocation) {
  const char* const end = allocation.pages + allocation.page_bytes;
  for (const char* p = allocation.pages; p != end; ++p) {
    if (p == allocation.begin) p += allocation.bytes;
    if (p == end) break;
    if (*p != (char)GAP) return false;
  }
  return true;
}

// ---- the running kernel ----
int kernel_device = HOST;                          // under the lock, like everything below
thread_local bool is_kernel_thread = false;
std::vector<Allocation> opened;

}  // namespace

Allocation allocation_of(const void* address) {
  auto found = allocations.upper_bound((char*)address);
  if (found == allocations.begin()) return {};
  --found;
  // An empty allocation has an address too.
  const size_t reach = found->second.bytes ? found->second.bytes : 1;
  return (char*)address < found->second.begin + reach ? found->second : Allocation{};
}

bool is_device_memory(const void* address) {
  for (const Range& range : ranges)
    if (range.begin && (char*)address >= range.begin && (char*)address < range.begin + ADDRESSES) return true;
  return false;
}

bool within_one_allocation(const void* address, size_t bytes) {
  if (!bytes) return true;
  const Allocation found = allocation_of(address);
  if (found.kind == Kind::NONE) return !is_device_memory(address);
  return (char*)address + bytes <= found.begin + found.bytes;
}

int allocate(Kind kind, int device, size_t bytes, void** address) {
  Range& range = ranges[device];
  const size_t page_bytes = whole(bytes ? bytes : 1, PAGE);
  if (bytes > DEVICE_BYTES || range.live_bytes + bytes > DEVICE_BYTES) return cudaErrorMemoryAllocation;
  char* pages;
  if (kind == Kind::DEVICE) {
    pages = fresh_pages(range, page_bytes);
  } else {
    void* found = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pages = found == MAP_FAILED ? nullptr : (char*)found;
  }
  if (!pages) return cudaErrorMemoryAllocation;
  const Allocation made{kind, device, pages + page_bytes - whole(bytes ? bytes : 1, ALIGNMENT), bytes, pages, page_bytes};
  if (kind == Kind::DEVICE) protect(made, PROT_READ | PROT_WRITE);
  fill(made);
  if (kind == Kind::DEVICE) protect(made, PROT_NONE);
  if (kind == Kind::DEVICE) range.live_bytes += bytes;
  allocations[made.begin] = made;
  *address = made.begin;
  return 0;
}

bool release(Kind kind, void* address) {
  auto found = allocations.find((char*)address);
  if (found == allocations.end() || found->second.kind != kind) return false;
  const Allocation gone = found->second;
  if (kind == Kind::DEVICE) protect(gone, PROT_READ);
  if (!gaps_are_untouched(gone)) {
    fprintf(stderr, "stand-in: bytes just outside an allocation of %zu bytes were written\n", gone.bytes);
    context_error = cudaErrorIllegalAddress;
  }
  allocations.erase(found);
  if (kind != Kind::DEVICE) {
    munmap(gone.pages, gone.page_bytes);
    return true;
  }
  ranges[gone.device].live_bytes -= gone.bytes;
  madvise(gone.pages, gone.page_bytes, MADV_DONTNEED);
  protect(gone, PROT_NONE);
  return true;
}

size_t allocated_bytes(int device) { return ranges[device].live_bytes; }

Opened::Opened(const void* address) : allocation_(allocation_of(address)) {
  if (allocation_.kind == Kind::DEVICE) protect(allocation_, PROT_READ | PROT_WRITE);
}

Opened::~Opened() {
  if (allocation_.kind == Kind::DEVICE) protect(allocation_, PROT_NONE);
}

KernelAccess::KernelAccess(int device) {
  kernel_device = device;
  is_kernel_thread = true;
  opened.reserve(1024);                            // so that the fault handler need not allocate
}

KernelAccess::~KernelAccess() {
  for (const Allocation& allocation : opened) protect(allocation, PROT_NONE);
  opened.clear();
  is_kernel_thread = false;
  kernel_device = HOST;
}

bool open_for_kernel(void* address) {
  if (!is_kernel_thread) return false;
  // Pages decide, not bytes: the gaps are on the pages and cannot be closed.
  auto next = allocations.upper_bound((char*)address);
  if (next == allocations.end() || (char*)address < next->second.pages) {
    if (next == allocations.begin()) return false;
    --next;
  }
  const Allocation& touched = next->second;
  if (touched.kind != Kind::DEVICE || touched.device != kernel_device || (char*)address < touched.pages ||
      (char*)address >= touched.pages + touched.page_bytes)
    return false;
  for (const Allocation& known : opened)
    if (known.pages == touched.pages) return false;      // already open, so this is another kind of fault
  opened.push_back(touched);
  protect(touched, PROT_READ | PROT_WRITE);
  return true;
}

}  // namespace standin

using namespace standin;

API int cudaMalloc(void** address, size_t bytes) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  return result(context_error ? context_error : allocate(Kind::DEVICE, self.device, bytes, address));
}
API int cudaMallocManaged(void** address, size_t bytes, unsigned flags) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  if (!bytes || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) return result(cudaErrorInvalidValue);
  return result(context_error ? context_error : allocate(Kind::MANAGED, self.device, bytes, address));
}
API int cudaHostAlloc(void** address, size_t bytes, unsigned) {
  Lock lock(everything);
  if (int error = unsafe_during_capture(__func__)) return result(error);
  enter_context();
  return result(context_error ? context_error : allocate(Kind::PINNED, self.device, bytes, address));
}
API int cudaFree(void* address) {
  Lock lock(everything);
  if (!address) return 0;
  const Allocation found = allocation_of(address);
  if (found.kind != Kind::DEVICE && found.kind != Kind::MANAGED) return result(refused(cudaErrorInvalidValue, "a free of memory that was not allocated"));
  run_device(found.device);                        // waits for the device
  if (!release(found.kind, address)) return result(refused(cudaErrorInvalidValue, "a free of an address inside an allocation"));
  return result(context_error);
}
API int cudaFreeHost(void* address) {
  Lock lock(everything);
  if (!address) return 0;
  for (int device = 0; device < DEVICES; ++device) run_device(device);
  return result(release(Kind::PINNED, address) ? context_error : (int)cudaErrorInvalidValue);
}
API int cudaMemGetInfo(size_t* unused, size_t* total) {
  Lock lock(everything);
  enter_context();
  *total = DEVICE_BYTES;
  *unused = DEVICE_BYTES - allocated_bytes(self.device);
  return result(context_error);
}
API int cudaPointerGetAttributes(cudaPointerAttributes* found, const void* address) {
  Lock lock(everything);
  const Allocation allocation = allocation_of(address);
  memset(found, 0, sizeof *found);
  found->device = allocation.kind == Kind::NONE ? -2 : allocation.device;              // CUDA's own number for memory it does not know
  found->type = allocation.kind == Kind::DEVICE    ? cudaMemoryTypeDevice
                : allocation.kind == Kind::MANAGED ? cudaMemoryTypeManaged
                : allocation.kind == Kind::PINNED  ? cudaMemoryTypeHost
                                                   : cudaMemoryTypeUnregistered;
  if (allocation.kind != Kind::NONE) found->devicePointer = (void*)address;
  if (allocation.kind != Kind::DEVICE) found->hostPointer = (void*)address;
  return 0;
}
