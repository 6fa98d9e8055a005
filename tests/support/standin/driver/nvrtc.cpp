// A library with NVRTC's name in front of the real one: it forwards every call, and keeps each program's source and options.
//
// So NVRTC compiles every kernel, with CuPy's own options, and CuPy reports its errors.  Only the machine code is replaced,
// by an image that the stand-in's modules understand.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <mutex>

#include "image.hpp"

#define API extern "C" __attribute__((visibility("default")))

using namespace standin;

namespace {

typedef void* Program;
std::mutex programs_mutex;
std::map<Program, Image> programs;
void* real;

template <class Function> Function* real_function(const char* name, Function*) {
  void* found = real ? dlsym(real, name) : nullptr;
  if (!found) {
    fprintf(stderr, "stand-in: NVRTC has no %s\n", name);
    abort();
  }
  return (Function*)found;
}
#define REAL(name) real_function(#name, name)

Image& image_of(Program program) {
  std::lock_guard<std::mutex> lock(programs_mutex);
  return programs[program];
}

}  // namespace

// Takes the path of the real NVRTC; must be called first.  Returns null, or why NVRTC cannot be loaded.
API const char* standin_set_nvrtc(const char* path) { return (real = dlopen(path, RTLD_NOW | RTLD_LOCAL)) ? nullptr : dlerror(); }

API int nvrtcCreateProgram(Program* program, const char* source, const char* name, int headers, const char** texts, const char** names) {
  const int error = REAL(nvrtcCreateProgram)(program, source, name, headers, texts, names);
  if (!error) image_of(*program) = {source, ""};
  return error;
}
API int nvrtcDestroyProgram(Program* program) {
  {
    std::lock_guard<std::mutex> lock(programs_mutex);
    programs.erase(*program);
  }
  return REAL(nvrtcDestroyProgram)(program);
}
API int nvrtcCompileProgram(Program program, int count, const char** options) {
  std::string& noted = image_of(program).options;
  noted.clear();
  for (int k = 0; k < count; ++k) noted.append(options[k]).append(1, '\n');
  return REAL(nvrtcCompileProgram)(program, count, options);
}
API int nvrtcGetCUBINSize(Program program, size_t* bytes) {
  if (int error = REAL(nvrtcGetCUBINSize)(program, bytes)) return error;
  return *bytes = written(image_of(program)).size(), 0;
}
API int nvrtcGetCUBIN(Program program, char* code) {
  const std::string image = written(image_of(program));
  return memcpy(code, image.data(), image.size()), 0;
}

API const char* nvrtcGetErrorString(int error) { return REAL(nvrtcGetErrorString)(error); }
API int nvrtcVersion(int* major, int* minor) { return REAL(nvrtcVersion)(major, minor); }
API int nvrtcGetNumSupportedArchs(int* count) { return REAL(nvrtcGetNumSupportedArchs)(count); }
API int nvrtcGetSupportedArchs(int* archs) { return REAL(nvrtcGetSupportedArchs)(archs); }
API int nvrtcGetPTXSize(Program program, size_t* bytes) { return REAL(nvrtcGetPTXSize)(program, bytes); }
API int nvrtcGetPTX(Program program, char* code) { return REAL(nvrtcGetPTX)(program, code); }
API int nvrtcGetProgramLogSize(Program program, size_t* bytes) { return REAL(nvrtcGetProgramLogSize)(program, bytes); }
API int nvrtcGetProgramLog(Program program, char* log) { return REAL(nvrtcGetProgramLog)(program, log); }
API int nvrtcAddNameExpression(Program program, const char* name) { return REAL(nvrtcAddNameExpression)(program, name); }
API int nvrtcGetLoweredName(Program program, const char* name, const char** lowered) {
  return REAL(nvrtcGetLoweredName)(program, name, lowered);
}
