// Runs the launches described in a file: the main program of every sanitizer and trace run.
//
//   program launches output library...
//
// The libraries hold the kernels, compiled for the sanitizer that this program is linked with.
// The file is written by record.py; all numbers are little-endian.
//   u32 number of launches, then for each:
//     u32 number of the kernel's library, u32 bytes of its name, the name
//     64 bytes: struct Launch of launch.hpp
//     u32 number of arguments, then for each:
//       u32 kind (0 value, 1 buffer, 2 value that begins with the address of a buffer), u32 phase, u64 bytes, u64 offset of
//       the pointer, the bytes; for kind 2 then u64 bytes of the value, the value
//   output: the bytes of every buffer after its launch, in order.
//
// This file is compiled without a sanitizer, once for all kernels and modes.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

extern "C" {   // present only in some of the programs
__attribute__((weak)) void __asan_poison_memory_region(const volatile void*, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, size_t);
__attribute__((weak)) void simt_trace_buffer(const void*, size_t);
__attribute__((weak)) void simt_trace_report();
}

static const size_t BUFFER_ALIGN = 256;     // as a CUDA allocation
static const size_t ARGUMENT_ALIGN = 16;    // see struct Launch
static const size_t LAUNCH_BYTES = 64;

[[noreturn]] static void stop(const std::string& why) {
  fprintf(stderr, "simt: %s\n", why.c_str());
  exit(3);
}

[[noreturn]] static void report_failed_launch(const std::string& kernel, const char* why) {   // a finding
  fprintf(stderr, "LAUNCH FAILED: %s: %s\n", kernel.c_str(), why);
  exit(1);
}

static void read_bytes(FILE* file, void* to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, file) != bytes) stop("the launch file ends early");
}

template <class N> static N read_number(FILE* file) {
  N number;
  read_bytes(file, &number, sizeof number);
  return number;
}

// Memory that ends exactly where the buffer ends.  For a sanitizer it begins at its phase.
struct Buffer {
  char* memory = nullptr;
  size_t phase, bytes;
  Buffer(size_t phase, size_t bytes) : phase(phase), bytes(bytes) {
    if (posix_memalign((void**)&memory, BUFFER_ALIGN, phase + bytes)) stop("no memory for a buffer");
  }
  char* begin() const { return memory + phase; }
};

struct Recorded {
  void* library;
  std::string name;
  std::vector<char> launch;          // struct Launch and the arguments after it
  std::vector<size_t> sizes;         // of value arguments; 0 for buffers
  std::vector<Buffer> buffers;
};

static void append_argument(Recorded& recorded, const void* value, size_t bytes) {
  const size_t start = recorded.launch.size();
  recorded.launch.resize(start + (bytes + ARGUMENT_ALIGN - 1) / ARGUMENT_ALIGN * ARGUMENT_ALIGN);
  memcpy(recorded.launch.data() + start, value, bytes);
}

static void read_argument(FILE* file, Recorded& recorded) {
  const uint32_t kind = read_number<uint32_t>(file);
  const size_t phase = read_number<uint32_t>(file), bytes = read_number<uint64_t>(file), offset = read_number<uint64_t>(file);
  if (kind) {
    Buffer buffer(phase, bytes);
    read_bytes(file, buffer.begin(), bytes);
    if (__asan_poison_memory_region) __asan_poison_memory_region(buffer.memory, phase);
    char* pointer = buffer.begin() + offset;
    recorded.buffers.push_back(buffer);
    std::vector<char> value(kind == 2 ? read_number<uint64_t>(file) : sizeof pointer);
    if (kind == 2) read_bytes(file, value.data(), value.size());
    memcpy(value.data(), &pointer, sizeof pointer);
    append_argument(recorded, value.data(), value.size());
    recorded.sizes.push_back(kind == 2 ? value.size() : 0);
  } else {
    std::vector<char> value(bytes);
    read_bytes(file, value.data(), bytes);
    append_argument(recorded, value.data(), bytes);
    recorded.sizes.push_back(bytes);
  }
}

static Recorded read_launch(FILE* file, const std::vector<void*>& libraries) {
  Recorded recorded;
  recorded.library = libraries.at(read_number<uint32_t>(file));
  recorded.name.resize(read_number<uint32_t>(file));
  read_bytes(file, &recorded.name[0], recorded.name.size());
  recorded.launch.resize(LAUNCH_BYTES);
  read_bytes(file, recorded.launch.data(), LAUNCH_BYTES);
  const uint32_t count = read_number<uint32_t>(file);
  for (uint32_t i = 0; i < count; ++i) read_argument(file, recorded);
  return recorded;
}

template <class F> static F* symbol(void* library, const std::string& name) {
  void* found = dlsym(library, name.c_str());
  if (!found) stop("no " + name + " in the library");
  return (F*)found;
}

// A launch with the wrong arguments would make every finding after it worthless.
static void check_arguments(const Recorded& recorded) {
  char text[4096], kind;
  symbol<void(char*, size_t)>(recorded.library, "simt_signature_" + recorded.name)(text, sizeof text);
  size_t parameter = 0, bytes;
  int used;
  for (const char* p = text; sscanf(p, "%c%zu %n", &kind, &bytes, &used) == 2; p += used, ++parameter) {
    if (parameter >= recorded.sizes.size()) continue;
    const size_t given = recorded.sizes[parameter];
    const bool fits = kind == 'p' ? !given || given == 8 : kind == 's' ? given == bytes : given >= bytes && given <= 8;
    if (!fits)
      stop(recorded.name + ": argument " + std::to_string(parameter) + " does not fit the kernel's " + kind +
           std::to_string(bytes));
  }
  if (parameter != recorded.sizes.size())
    stop(recorded.name + " takes " + std::to_string(parameter) + " arguments, " +
         std::to_string(recorded.sizes.size()) + " given");
}

static void run(FILE* output, const Recorded& recorded) {
  check_arguments(recorded);
  if (simt_trace_buffer)
    for (const Buffer& buffer : recorded.buffers) simt_trace_buffer(buffer.begin(), buffer.bytes);
  const char* why = symbol<const char*(const void*)>(recorded.library, "simt_launch_" + recorded.name)(recorded.launch.data());
  if (why) report_failed_launch(recorded.name, why);
  if (simt_trace_report) simt_trace_report();
  for (const Buffer& buffer : recorded.buffers) {
    fwrite(buffer.begin(), 1, buffer.bytes, output);
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(buffer.memory, buffer.phase);
    free(buffer.memory);
  }
}

static void* opened(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) stop(dlerror());
  return library;
}

int main(int count, char** words) {
  FILE* file = count > 3 ? fopen(words[1], "rb") : nullptr;
  FILE* output = count > 3 ? fopen(words[2], "wb") : nullptr;
  if (!file || !output) stop("usage: program launches output library...");
  std::vector<void*> libraries;
  for (int i = 3; i < count; ++i) libraries.push_back(opened(words[i]));
  const uint32_t launches = read_number<uint32_t>(file);
  for (uint32_t i = 0; i < launches; ++i) run(output, read_launch(file, libraries));
  return fclose(output) ? 3 : 0;
}
