// Device memory: ranges of this process's address space that fault when anything but the device touches them.
#pragma once
#include "common.hpp"

namespace standin {

const size_t DEVICE_BYTES = size_t(32) << 30;      // as much as a device has
const int HOST = -1;                               // in the place of a device

enum class Kind { NONE, DEVICE, PINNED, MANAGED };

// An allocation, or an empty one (NONE) for memory that CUDA does not know.
struct Allocation {
  Kind kind = Kind::NONE;
  int device = HOST;                               // for managed memory that where it was allocated
  char* begin = nullptr;
  size_t bytes = 0;
  // Whole pages of its own: no access that is allowed to one allocation reaches another.
  char* pages = nullptr;
  size_t page_bytes = 0;
};

// The allocation that an address lies in.  One past the end belongs to none.
Allocation allocation_of(const void* address);

// True when the address is in a device's range, allocated or not: the host must not touch it.
bool is_device_memory(const void* address);

// True when a range of this many bytes may be copied: host memory that CUDA does not know, or within one allocation.
bool within_one_allocation(const void* address, size_t bytes);

int allocate(Kind kind, int device, size_t bytes, void** address);
// False when no allocation of this kind begins there.
bool release(Kind kind, void* address);
size_t allocated_bytes(int device);

// Within its life the host may touch the allocation of this address.
class Opened {
 public:
  explicit Opened(const void* address);
  ~Opened();
  Opened(const Opened&) = delete;

 private:
  Allocation allocation_;
};

// Within its life the running thread is a kernel of this device: an allocation of the device is opened when the kernel first touches it, and
// closed at the end.  So a kernel can reach neither another device's memory nor what was freed, nor what lies between allocations.
class KernelAccess {
 public:
  explicit KernelAccess(int device);
  ~KernelAccess();
  KernelAccess(const KernelAccess&) = delete;
};

// For the host shim's handler of faults: opens the memory for the kernel that runs, or says that it must not be touched.
bool open_for_kernel(void* address);

}  // namespace standin
