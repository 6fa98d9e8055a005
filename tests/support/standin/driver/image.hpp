// Stands for machine code: a kernel's source and the options that it was compiled with.  NVRTC's stand-in writes it, modules read it.
#pragma once
#include <stdint.h>
#include <string.h>

#include <string>

namespace standin {

const char IMAGE_MAGIC[] = "STAND-IN IMAGE 1";       // with its null byte

struct Image {
  std::string source, options;                     // the options are separated by line ends
};

inline std::string written(const Image& image) {
  std::string text(IMAGE_MAGIC, sizeof IMAGE_MAGIC);
  for (const std::string* part : {&image.source, &image.options}) {
    const uint64_t bytes = part->size();
    text.append((const char*)&bytes, sizeof bytes).append(*part);
  }
  return text;
}

// False when the bytes are not such an image.
inline bool read(const void* data, Image& image) {
  const char* place = (const char*)data;
  if (memcmp(place, IMAGE_MAGIC, 4) || strcmp(place, IMAGE_MAGIC)) return false;
  place += sizeof IMAGE_MAGIC;
  for (std::string* part : {&image.source, &image.options}) {
    uint64_t bytes;
    memcpy(&bytes, place, sizeof bytes);
    part->assign(place += sizeof bytes, bytes);
    place += bytes;
  }
  return true;
}

}  // namespace standin
