// Modules, their kernels, and launches.
//
// A kernel is a library that Python builds from the source in the image, with the host compiler.  A launch reads every argument before it
// returns, as CUDA does; the kernel runs when its turn comes.
#include <dlfcn.h>
#include <stdio.h>

#include <memory>
#include <string>

#include "image.hpp"
#include "memory.hpp"
#include "work.hpp"

using namespace standin;

namespace {

struct Module {
  Image image;
  int device;
};

// As in tests/support/simt/launch.hpp; the arguments follow, each at a multiple of 16 bytes.
struct LaunchHeader {
  uint32_t grid[3], block[3];
  int32_t order, races;
  uint64_t seed;
  int64_t first, last;
  uint64_t unused;
};
struct alignas(16) Slot {
  char bytes[16];
};
static_assert(sizeof(LaunchHeader) % sizeof(Slot) == 0, "arguments begin at a slot");
size_t slots(size_t bytes) { return (bytes + sizeof(Slot) - 1) / sizeof(Slot); }

struct Function {
  std::string name;
  int device;
  std::vector<size_t> parameter_bytes;
  const char* (*launch)(const void* description);  // null, or why the kernel failed
};
typedef std::shared_ptr<std::vector<Slot>> Description;

// Returns the path of a library with this kernel, or null.
const char* (*build)(const char* source, const char* options, const char* kernel);

std::vector<size_t> parameters_of(void* library, const std::string& kernel) {
  auto signature = (void (*)(char*, size_t))dlsym(library, ("simt_signature_" + kernel).c_str());
  std::string text(1 << 14, '\0');                 // one word for each, kind and bytes: "p8 p8 s1024 i8"
  signature(&text[0], text.size());
  std::vector<size_t> found;
  for (size_t at = 0; text[at]; at = text.find(' ', at) + 1) found.push_back(strtoull(&text[at + 1], nullptr, 10));
  return found;
}

Description described(const Function& function, const unsigned (&sizes)[6], void** arguments) {
  LaunchHeader header = {{sizes[0], sizes[1], sizes[2]}, {sizes[3], sizes[4], sizes[5]}, 0, 0, 1, 0, -1, 0};
  size_t count = slots(sizeof header);
  for (size_t bytes : function.parameter_bytes) count += slots(bytes);
  auto description = std::make_shared<std::vector<Slot>>(count);
  Slot* place = description->data();
  memcpy(place, &header, sizeof header);
  place += slots(sizeof header);
  for (size_t k = 0; k < function.parameter_bytes.size(); ++k) {
    memcpy(place, arguments[k], function.parameter_bytes[k]);
    place += slots(function.parameter_bytes[k]);
  }
  return description;
}

int launch_now(const Function& function, const Description& description) {
  KernelAccess access(function.device);
  const char* why = function.launch(description->data());
  if (!why) return 0;
  fprintf(stderr, "stand-in: kernel %s: %s\n", function.name.c_str(), why);
  return strstr(why, "misaligned") ? cudaErrorMisalignedAddress : strstr(why, "memory") ? cudaErrorIllegalAddress : cudaErrorLaunchFailure;
}

// The error that refuses a launch, or 0.
int launch_error(const Function& function, const unsigned (&sizes)[6], Stream* stream, void** extra) {
  const char* name = function.name.c_str();
  if (!self.entered) return refused(INVALID_CONTEXT, "%s is launched without a context", name);
  if (function.device != self.device) return refused(INVALID_HANDLE, "%s is launched on another device", name);
  if (!stream || stream->device != self.device) return refused(INVALID_HANDLE, "%s is launched on another device's stream", name);
  const uint64_t threads = (uint64_t)sizes[3] * sizes[4] * sizes[5];
  if (extra || !sizes[0] || !sizes[1] || !sizes[2] || sizes[0] > 0x7FFFFFFF || sizes[1] > 65535 || sizes[2] > 65535 || !threads ||
      threads > 1024 || sizes[5] > 64)
    return refused(INVALID_VALUE, "%s is launched with a wrong grid, block or list of arguments", name);
  return 0;
}

}  // namespace

API void standin_set_build(const char* (*callback)(const char*, const char*, const char*)) { build = callback; }

API int cuModuleLoadData(void** made, const void* data) {
  auto module = std::make_unique<Module>();
  if (!self.entered) return refused(INVALID_CONTEXT, "a module is loaded without a context");
  if (!read(data, module->image)) return refused(INVALID_IMAGE, "a module holds machine code, which nothing here can run");
  module->device = self.device;
  return *made = module.release(), 0;
}
API int cuModuleUnload(void* module) { return delete (Module*)module, 0; }
API int cuModuleGetFunction(void** made, void* handle, const char* name) {
  const Module& module = *(Module*)handle;
  const char* path = build(module.image.source.c_str(), module.image.options.c_str(), name);      // not under the lock, because it runs Python
  if (!path) return refused(NOT_FOUND, "there is no kernel %s", name);
  Lock lock(everything);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  auto function = std::make_unique<Function>(Function{name, module.device, {}, nullptr});
  if (!library) return refused(INVALID_IMAGE, "%s", dlerror());
  function->launch = (const char* (*)(const void*))dlsym(library, ("simt_launch_" + function->name).c_str());
  if (!function->launch) return refused(NOT_FOUND, "%s", dlerror());
  auto open_memory = (bool (**)(void*))dlsym(library, "simt_open_memory");              // see tests/support/simt/faults.hpp
  *open_memory = open_for_kernel;
  function->parameter_bytes = parameters_of(library, function->name);
  return *made = function.release(), 0;            // never freed: CuPy does not release it, and waiting launches need it
}
API int cuFuncGetAttribute(int* value, int attribute, void*) { return *value = attribute == 0 ? 1024 : 0, 0; }      // threads per block
API int cuFuncSetAttribute(void*, int, int) { return 0; }
API int cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                       void* stream_handle, void** arguments, void** extra) {
  Lock lock(everything);
  const Function& function = *(Function*)handle;
  const unsigned sizes[] = {gx, gy, gz, bx, by, bz};
  Stream* stream = stream_of(stream_handle);
  if (int error = launch_error(function, sizes, stream, extra)) return error;
  (void)shared_bytes;                              // kernels with dynamic shared memory do not compile on the host shim
  const Description description = described(function, sizes, arguments);
  return add(stream, [&function, description] { return launch_now(function, description); });
}
