"""The outcome of each faulty program of faults.py, and its outcome on a twin: a stand-in without the check.

A replacement is a line of the stand-in's C++ and the line that replaces it.  The line must occur exactly once, so a
replacement cannot silently lose the check that it removes.
"""

import signal
from typing import NamedTuple

ILLEGAL = "cudaErrorIllegalAddress"


class Twin(NamedTuple):
    """The outcome on the stand-in, the replacement (file, line, other line), and the outcome on the resulting twin."""

    outcome: str
    replacement: tuple[str, str, str]
    outcome_on_twin: str


EAGER = ("work.cpp", "  stream->last = work;\n", "  stream->last = work;\n  run(work);\n")
FREED_STAYS_OPEN = (
    "memory.cpp",
    "  madvise(gone.pages, gone.page_bytes, MADV_DONTNEED);\n  protect(gone, PROT_NONE);\n",
    "  protect(gone, PROT_READ | PROT_WRITE);\n",
)
ANY_RANGE = ("memory.cpp", "  return (char*)address + bytes <= found.begin + found.bytes;\n", "  return true;\n")
ARGUMENTS_BY_ADDRESS = (
    "modules.cpp",
    """  const Description description = described(function, sizes, arguments);
  return add(stream, [&function, description] { return launch_now(function, description); });
""",
    """  return add(stream, [&function, sizes, arguments] {
    return launch_now(function, described(function, sizes, arguments));
  });
""",
)
NO_CONTEXT = (
    "modules.cpp",
    '  if (!self.entered) return refused(INVALID_CONTEXT, "%s is launched without a context", name);\n',
    "",
)

TWINS = {
    "a_kernel_on_another_stream_than_its_input": Twin("wrong", EAGER, "right"),
    "an_array_dropped_while_another_stream_reads_it": Twin("wrong", EAGER, "right"),
    "pinned_memory_changed_before_it_is_copied": Twin("wrong", EAGER, "right"),
    "managed_memory_read_before_the_kernel_ended": Twin("wrong", EAGER, "right"),
    "memory_changed_in_one_stream_while_another_reads_it": Twin(
        "wrong", ("work.cpp", "  else if (order != LATE) run_some();\n", "  (void)run_some;\n"), "right"
    ),
    "a_kernel_reads_freed_memory": Twin(ILLEGAL, FREED_STAYS_OPEN, "right"),
    "memory_freed_in_one_stream_and_used_in_another": Twin(ILLEGAL, FREED_STAYS_OPEN, "right"),
    "the_host_reads_device_memory": Twin(
        signal.SIGSEGV.name, ("memory.cpp", "  if (kind == Kind::DEVICE) protect(made, PROT_NONE);\n", ""), "right"
    ),
    "a_copy_past_an_allocation": Twin("cudaErrorInvalidValue", ANY_RANGE, "right"),
    "a_fill_past_an_allocation": Twin("cudaErrorInvalidValue", ANY_RANGE, "right"),
    "a_kernel_writes_just_past_an_allocation": Twin(
        ILLEGAL,
        ("memory.cpp", "  if (!gaps_are_untouched(gone)) {\n", "  if (false && !gaps_are_untouched(gone)) {\n"),
        "right",
    ),
    "a_kernel_reads_far_past_an_allocation": Twin(
        ILLEGAL,
        (
            "memory.cpp",
            "  range.used += bytes + PAGE;                      // a page without access after each\n",
            "  range.used += bytes;\n",
        ),
        "wrong",
    ),
    "a_kernel_reads_another_devices_memory": Twin(
        ILLEGAL, ("memory.cpp", " || touched.device != kernel_device", ""), "right"
    ),
    "memory_taken_for_zeros": Twin(
        "wrong", ("memory.cpp", "  if (made.bytes <= FILLED) memset(made.begin, FRESH, made.bytes);\n", ""), "right"
    ),
    "a_misaligned_access": Twin(
        "cudaErrorMisalignedAddress",
        ("modules.cpp", "  if (!why) return 0;\n", "  if (!why || *why) return 0;\n"),
        "wrong",
    ),
    "arguments_changed_after_the_launch": Twin("right", ARGUMENTS_BY_ADDRESS, "wrong"),
    "arguments_changed_after_the_capture": Twin("right", ARGUMENTS_BY_ADDRESS, "wrong"),
    "a_launch_without_a_context": Twin("CUDA_ERROR_INVALID_CONTEXT", NO_CONTEXT, "right"),
    "a_launch_on_another_devices_stream": Twin(
        "CUDA_ERROR_INVALID_HANDLE", ("modules.cpp", " || stream->device != self.device", ""), "wrong"
    ),
    "a_launch_on_another_device": Twin(
        "CUDA_ERROR_INVALID_HANDLE",
        (
            "modules.cpp",
            "  if (function.device != self.device) "
            'return refused(INVALID_HANDLE, "%s is launched on another device", name);\n',
            "",
        ),
        "right",
    ),
    "a_wait_within_a_capture": Twin(
        "cudaErrorStreamCaptureUnsupported",
        ("devices.cpp", "  if (int error = unsafe_during_capture(__func__)) return result(error);\n", ""),
        "right",
    ),
    "a_wait_in_another_thread_within_a_capture": Twin(
        "cudaErrorStreamCaptureInvalidated",
        (
            "work.cpp",
            "(capture->mode == cudaStreamCaptureModeGlobal && self.capture_mode == cudaStreamCaptureModeGlobal)",
            "(void(self), false)",
        ),
        "right",
    ),
    "a_branch_of_a_capture_that_is_not_joined": Twin(
        "cudaErrorStreamCaptureUnjoined",
        ("graphs.cpp", "  if (!joined) return result(cudaErrorStreamCaptureUnjoined);\n", "  (void)joined;\n"),
        "right",
    ),
    "the_library_on_another_stream": Twin("wrong", EAGER, "right"),
    "the_library_in_a_thread_that_entered_no_context": Twin("CUDA_ERROR_INVALID_CONTEXT", NO_CONTEXT, "right"),
}
