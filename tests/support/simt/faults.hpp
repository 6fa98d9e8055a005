// A kernel that accesses forbidden memory or never ends stops its launch with a message, instead of the whole process.
//
// Only if SIMT_CATCH_FAULTS is set: the sanitizers report faults better themselves.
#pragma once
#ifdef SIMT_CATCH_FAULTS
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

// A caller can keep memory closed until a kernel touches it.  At a fault, this function opens the memory and returns true; it
// returns false for a wild access.  Because of its default visibility, all kernels of a process share it, like the stacks in
// fibers.hpp.
extern "C" {
__attribute__((visibility("default"))) inline bool (*simt_open_memory)(void* address);
}

namespace simt {

static sigjmp_buf fault_return;
static void* fault_address;
static int fault_signal;

static const int FAULT_SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGVTALRM, SIGILL};
static const int FAULT_COUNT = 5;
#ifndef SIMT_SECONDS
#define SIMT_SECONDS 60   // of processor time for one launch
#endif

inline void on_fault(int signal, siginfo_t* info, void*) {
  if (signal == SIGSEGV && simt_open_memory && simt_open_memory(info->si_addr)) return;
  fault_signal = signal;
  fault_address = info->si_addr;
  siglongjmp(fault_return, 1);
}

// Handlers for the duration of one launch.  They need their own stack, since the kernel may have hit the guard page of its
// stack.
class FaultHandlers {
 public:
  FaultHandlers() {
    static char stack[64 << 10];
    stack_t wanted = {}, now = {};
    sigaltstack(nullptr, &now);
    wanted.ss_sp = stack;
    wanted.ss_size = sizeof stack;
    if (now.ss_flags & SS_DISABLE) sigaltstack(&wanted, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;   // NODEFER: the jump out need not restore the mask
    for (int i = 0; i < FAULT_COUNT; ++i) sigaction(FAULT_SIGNALS[i], &action, &before_[i]);
    set_timer(SIMT_SECONDS);
  }
  ~FaultHandlers() {
    set_timer(0);
    for (int i = 0; i < FAULT_COUNT; ++i) sigaction(FAULT_SIGNALS[i], &before_[i], nullptr);
  }

 private:
  static void set_timer(long seconds) {
    struct itimerval timer = {};
    timer.it_value.tv_sec = seconds;
    setitimer(ITIMER_VIRTUAL, &timer, nullptr);
  }
  struct sigaction before_[FAULT_COUNT];
};

inline void describe_fault(char* text, size_t bytes) {
  if (fault_signal == SIGVTALRM)
    snprintf(text, bytes, "does not end: stopped after %d seconds", SIMT_SECONDS);
  else if (fault_signal == SIGFPE)
    snprintf(text, bytes, "division by zero");
  else if (fault_signal == SIGILL)             // from the address checks that host_module.py compiles in
    snprintf(text, bytes, "misaligned access");
  else
    snprintf(text, bytes, "invalid memory access: address %p", fault_address);
}

}  // namespace simt
#endif
