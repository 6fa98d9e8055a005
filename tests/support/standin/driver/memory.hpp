// Device memory: ranges of this process's address space that fault when anything but the device accesses them.
#pragma once
#include "common.hpp"

namespace standin {

const size_t DEVICE_BYTES = size_t(32) << 30;      // memory of a device
const int HOST = -1;                               // instead of a device

enum class Kind { NONE, DEVICE, PINNED, MANAGED };

// An allocation, or an empty one (NONE) for memory that CUDA does not know.
struct Allocation {
  Kind kind = Kind::NONE;
  int device = HOST;                               // for managed memory, the device that was current at its allocation
  char* begin = nullptr;
  size_t bytes = 0;
  // Its own whole pages, so that opening one allocation does not open another.
  char* pages = nullptr;
  size_t page_bytes = 0;
};

// The allocation that contains an address.  An address one past the end belongs to none.
Allocation allocation_of(const void* address);

// True when the address is in a device's range, allocated or not: the host must not access it.
bool is_device_memory(const void* address);

// True when a range of this many bytes may be copied: host memory that CUDA does not know, or within one allocation.
bool within_one_allocation(const void* address, size_t bytes);

int allocate(Kind kind, int device, size_t bytes, void** address);
// False when no allocation of this kind begins there.
bool release(Kind kind, void* address);
size_t allocated_bytes(int device);

// While this object lives, the host may access the allocation of this address.
class Opened {
 public:
  explicit Opened(const void* address);
  ~Opened();
  Opened(const Opened&) = delete;

 private:
  Allocation allocation_;
};

// While this object lives, the running thread is a kernel of this device: an allocation of the device opens when the kernel first accesses it,
// and closes at the end.  So a kernel cannot reach another device's memory, freed memory, or the space between allocations.
class KernelAccess {
 public:
  explicit KernelAccess(int device);
  ~KernelAccess();
  KernelAccess(const KernelAccess&) = delete;
};

// For the fault handler of the host shim: opens the memory for the running kernel; false when the kernel must not access it.
bool open_for_kernel(void* address);

}  // namespace standin
