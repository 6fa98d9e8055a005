// Error codes, their names and texts, and calls of functions that the stand-in lacks.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdexcept>
#include <string>

#include "common.hpp"

namespace standin {

std::recursive_mutex everything;
thread_local Thread self;

int refused(int error, const char* format, ...) {
  if (getenv("STANDIN_VERBOSE")) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "stand-in: error %d: ", error);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
  }
  return error;
}

namespace {

struct Error {
  int code;
  const char *name, *text;
};

const Error RUNTIME[] = {
    {0, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not begun in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "dependency created on uncaptured work in another capture"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const Error DRIVER[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
};

template <size_t N> const Error* found(const Error (&errors)[N], int code) {
  for (const Error& error : errors)
    if (error.code == code) return &error;
  return nullptr;
}

const Error& runtime_error(int code) {
  static const Error unknown = {-1, "cudaErrorUnknown", "unknown error"};
  const Error* error = found(RUNTIME, code);
  return error ? *error : unknown;
}

const Error& driver_error(int code) {
  const Error* error = found(DRIVER, code);
  return error ? *error : runtime_error(code);          // most codes are the same in both
}

}  // namespace
}  // namespace standin

using namespace standin;

API const char* cudaGetErrorName(int code) { return runtime_error(code).name; }
API const char* cudaGetErrorString(int code) { return runtime_error(code).text; }
API int cudaPeekAtLastError() { return self.last_error; }
API int cudaGetLastError() {
  const int error = self.last_error;
  self.last_error = 0;
  return error;
}
API int cuGetErrorName(int code, const char** name) { return *name = driver_error(code).name, 0; }
API int cuGetErrorString(int code, const char** text) { return *text = driver_error(code).text, 0; }

// Called by functions that CuPy's modules need and the stand-in lacks; see cupy_modules.py.
API int standin_missing(const char* name) {
  fprintf(stderr, "stand-in: %s is missing\n", name);
  return result(cudaErrorNotSupported);
}

// The same for kernels that exist only as machine code.  CuPy expects no exception there, so the process ends, which is better than a wrong result.
API void standin_no_kernel(const char* name) { throw std::runtime_error(std::string("stand-in: no machine code for ") + name); }
