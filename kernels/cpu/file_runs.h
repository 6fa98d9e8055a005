// The C interface of reading and writing many runs of one open file: see file_runs.cpp.
#pragma once
#include <cstdint>

// Both move `count` runs of `length` bytes between `memory`, where they stand one after the other, and places of the file.
// They return how many they moved, which is fewer only if the file ends or the system says no.

// around: another descriptor of the file, around the system's page cache, or -1.
int64_t gl_read_runs(int file, int around, char* memory, const int64_t* places, int64_t count, int64_t length);

// tails: a page for each run, of which the bytes after its last page boundary take the beginning.
// has_tails: what comes before a run in its first page stands there, and is written with it.  keeps_tails: the bytes after
// its last page boundary go there instead of to the file, which takes runs of at least a page.
int64_t gl_write_runs(int file, const char* memory, const int64_t* places, int64_t count, int64_t length, char* tails, bool has_tails, bool keeps_tails);

int64_t gl_page();  // bytes
