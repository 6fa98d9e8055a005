// One coordinate of an index, checked, wrapped or clipped.  No macro depends on the launch, so this file is also the preamble
// of an elementwise kernel.
//
// Numbers: the modes GPL_RAISE, GPL_WRAP, GPL_CLIP and GPL_MARK.
#ifndef GPL_COORDINATE_CUH
#define GPL_COORDINATE_CUH
#if !defined(GPL_RAISE) || !defined(GPL_WRAP) || !defined(GPL_CLIP) || !defined(GPL_MARK)
#error "coordinate.cuh needs GPL_RAISE, GPL_WRAP, GPL_CLIP and GPL_MARK"
#endif

// Sign-extended to 64 bits: a negative number becomes larger than any bound, so one comparison checks both ends.
template <typename T>
__device__ __forceinline__ unsigned long long gpl_widen(T value) { return (unsigned long long)(long long)value; }

// A coordinate brought into 0..bound-1; with GPL_RAISE it may stay outside.  -1 wraps to bound - 1 and clips to 0.
template <typename T>
__device__ __forceinline__ unsigned long long gpl_coordinate(T value, unsigned long long bound, unsigned long long mode) {
  const unsigned long long wide = gpl_widen(value);
  if (wide < bound || mode == GPL_RAISE) return wide;
  const bool negative = (T)-1 < (T)1 && (long long)wide < 0;       // the first condition: T is signed
  if (mode == GPL_CLIP) return negative ? 0 : bound - 1;
  const unsigned long long far = negative ? ~wide : wide;          // ~wide is -1 - value
  const unsigned long long rest = far < bound ? far : far % bound; // no division for -bound .. -1, the usual case of wrapping
  return negative ? bound - 1 - rest : rest;
}

#endif
