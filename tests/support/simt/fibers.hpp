// Stacks and the switch between them: the machine-dependent part of the shim.
//
// A Context is a stopped computation.  start() makes one that will call a function on a stack; switch_to() stops the running
// one and continues another.
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "unwatched.hpp"

#if defined(SIMT_UCONTEXT) || !defined(__x86_64__)
#define SIMT_USE_UCONTEXT 1
#include <ucontext.h>
#endif

namespace simt {

static const int MAX_THREADS = 1024;               // per block, as on every CUDA device
static const size_t PAGE = 4096;
static const size_t STACK = 256 << 10;             // a kernel holds a 4 KB parameter struct or two, more under ASan

// One set of stacks per process, however many kernels are loaded: an `inline` variable of default visibility is a unique
// symbol, even across libraries opened with RTLD_LOCAL.  Only one launch runs at a time.  With one set per library the
// process would soon reach the system's limit of 65530 mappings.
struct __attribute__((visibility("default"))) StackPool {
  char* memory;
  bool guarded[MAX_THREADS];
};
__attribute__((visibility("default"))) inline StackPool stack_pool;

static const size_t POOL = MAX_THREADS * (PAGE + STACK);   // address space; pages cost memory once touched

SIMT_UNWATCHED char* stack_memory() {
  if (stack_pool.memory) return stack_pool.memory;
  void* memory = mmap(nullptr, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("simt: no memory for stacks");
    abort();
  }
  return stack_pool.memory = (char*)memory;
}

SIMT_UNWATCHED char* stack_of(int thread) {   // the page below it is a guard: a stack that overflows faults
  char* guard = stack_memory() + (size_t)thread * (PAGE + STACK);
  if (!stack_pool.guarded[thread]) stack_pool.guarded[thread] = mprotect(guard, PAGE, PROT_NONE) == 0;
  return guard + PAGE;
}

#ifdef SIMT_USE_UCONTEXT

struct Context { ucontext_t saved; };

SIMT_UNWATCHED void start(Context& context, int thread, void (*function)()) {
  getcontext(&context.saved);
  context.saved.uc_stack.ss_sp = stack_of(thread);
  context.saved.uc_stack.ss_size = STACK;
  context.saved.uc_link = nullptr;
  makecontext(&context.saved, function, 0);
}

SIMT_UNWATCHED void switch_to(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

#else

struct Context { void* stack_pointer; };

extern "C" void simt_switch(void** save, void* load);   // System V: only these six are callee-saved
asm(R"(
.text
.local simt_switch
.type simt_switch, @function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch, . - simt_switch
)");

SIMT_UNWATCHED void start(Context& context, int thread, void (*function)()) {
  void** top = (void**)(stack_of(thread) + STACK);
  *--top = nullptr;                                // keeps the stack aligned at entry
  *--top = (void*)function;                        // simt_switch returns into it
  for (int i = 0; i < 6; ++i) *--top = nullptr;    // the six saved registers
  context.stack_pointer = top;
}

SIMT_UNWATCHED void switch_to(Context& from, Context& to) { simt_switch(&from.stack_pointer, to.stack_pointer); }

#endif

}  // namespace simt
