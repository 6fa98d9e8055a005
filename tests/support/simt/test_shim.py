"""On the host shim, correct kernels give right results, and broken ones give wrong results or fail."""

import ctypes
import os
import pathlib
import resource
import struct
import subprocess
import sys

import numpy as np
import pytest

from tests.support.simt import host_module, toolchain
from tests.support.simt.controls import TEXT, WITHOUT_FIRST_BARRIER, WITHOUT_SECOND_BARRIER, matrix, tiles
from tests.support.simt.host_module import ASCENDING, DESCENDING, ORDERS, RANDOM, LaunchError
from tests.support.simt.sparse import sparse_bytes

pytestmark = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))

KERNELS = (
    "transpose",
    "transpose_loop",
    "copy_bytes",
    "lucky_order",
    "two_barriers",
    "return_before_barrier",
    "mixed_barriers",
    "sum_struct",
    "intrinsics",
)
SHAPES = ((1, 1), (1, 33), (33, 1), (32, 32), (31, 33), (64, 96), (100, 257), (2, 1025))


def controls(text=TEXT, kernels=KERNELS, **macros):
    return host_module.load(text, kernels, macros)


def wrong_transposes(module, kernel, order):
    """The number of shapes for which the kernel does not give the transpose."""
    wrong = 0
    for rows, columns in SHAPES:
        source, target = matrix(rows, columns), np.full((columns, rows), 0xFFFFFFFF, np.uint32)
        grid = tiles(rows, columns) if kernel == "transpose" else 2
        module.kernel(kernel)(grid, (32, 8), (source, target, rows, columns), order=order, seed=7)
        wrong += not np.array_equal(target, source.T)
    return wrong


# ---- values ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", ["transpose", "transpose_loop"])
def test_right_kernels_are_right_in_every_order(kernel, order):
    assert wrong_transposes(controls(), kernel, order) == 0


def test_the_portable_fiber_switch_gives_the_same_values():
    module = controls(kernels=("transpose", "transpose_loop"), SIMT_UCONTEXT=1)
    assert wrong_transposes(module, "transpose", RANDOM) == 0
    assert wrong_transposes(module, "transpose_loop", DESCENDING) == 0


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_barrier_gives_wrong_values_in_every_order(order):
    assert wrong_transposes(controls(WITHOUT_FIRST_BARRIER, ("transpose",)), "transpose", order) > 0


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_second_barrier_in_a_loop_gives_wrong_values_in_every_order(order):
    assert wrong_transposes(controls(WITHOUT_SECOND_BARRIER, ("transpose_loop",)), "transpose_loop", order) > 0


COPIES = """
extern "C" __global__ void copies(const unsigned* source, unsigned* target) {
  __shared__ uint4 box[2][32];
  const unsigned i = threadIdx.x;
  __pipeline_memcpy_async(&box[0][i], (const uint4*)source + i, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(&box[1][i], source + i, 4);
  __pipeline_commit();
  __pipeline_wait_prior(LEFT);
  __syncthreads();
  target[i] = box[0][31 - i].y;
  target[32 + i] = box[1][31 - i].x;
}
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("left", (0, 1, 2))
def test_copies_arrive_when_their_thread_waits_for_their_group(left, order):
    source, target = np.arange(128, dtype=np.uint32), np.zeros((2, 32), np.uint32)
    host_module.load(COPIES, ("copies",), {"LEFT": left}).kernel("copies")(1, 32, (source, target), order=order)
    unknown = np.full(32, 0xA5A5A5A5, np.uint32)
    expected = source[1::4] if left < 2 else unknown, source[:32] if left < 1 else unknown
    assert np.array_equal(target[:, ::-1], expected)


@pytest.mark.parametrize("order", ORDERS)
def test_a_place_to_which_a_later_copy_is_on_its_way_holds_nothing(order):
    source, target = np.arange(128, dtype=np.uint32), np.zeros((2, 32), np.uint32)
    text = COPIES.replace("&box[1][i]", "&box[0][i].y")
    host_module.load(text, ("copies",), {"LEFT": 1}).kernel("copies")(1, 32, (source, target), order=order)
    assert (target[0] == 0xA5A5A5A5).all()


def test_a_race_that_ascending_order_hides_shows_in_the_others():
    source, right = np.arange(64, dtype=np.uint32), []
    for order in ORDERS:
        target = np.zeros(64, np.uint32)
        controls().kernel("lucky_order")(1, 64, (source, target), order=order)
        right.append(np.array_equal(target, np.r_[source[:32], source[:32]]))
    assert right == [True, False, False]


@pytest.mark.parametrize("order", ORDERS)
def test_intrinsics_give_what_the_device_gives(order):
    rows, extremes = np.zeros((80, 8), np.uint32), np.array([0, 99, 0, 0], np.uint64)
    controls().kernel("intrinsics")(1, 80, (rows, extremes), order=order)
    warp, lane = np.divmod(np.arange(64), 32)  # the third warp has 16 lanes: an xor may leave it
    whole = rows[:64]
    assert np.array_equal(whole[:, 0], 32 * 32 * warp + 496)
    assert np.array_equal(rows[:, 1], np.where(np.arange(80) % 32, np.arange(80) - 1, np.arange(80)))
    assert np.array_equal(rows[:, 2], np.arange(80) // 32 * 32)
    assert set(whole[:, 3]) == {0xAAAAAAAA} and set(rows[64:, 3]) == {0xAAAA}
    assert set(rows[:, 4]) == {0x77553311} and set(rows[:, 5]) == {0x6789ABCD}
    assert np.array_equal(whole[:, 6], 3 + np.maximum(lane, 3) * 16)
    assert set(rows[:, 7]) == {3 + 5 + 7}
    assert extremes.tolist() == [80, 5, 79, 2**64 - 1]


def test_a_struct_by_value_reaches_every_thread():
    numbers = np.arange(500, dtype=np.int64).tobytes() + struct.pack("<i4x", 500)
    target = np.zeros(2 * 256, np.int64)
    controls().kernel("sum_struct")(2, 256, (numbers, target, 0))
    assert set(target) == {499 * 500 // 2}


def test_shared_memory_functions_may_be_inline_templates_or_static():
    text = """
    template <int N> __device__ __forceinline__ unsigned turned(unsigned value) {
      __shared__ __align__(16) unsigned char bytes[4 * N];
      unsigned* words = (unsigned*)bytes;
      words[threadIdx.x] = value;
      __syncthreads();
      return words[N - 1 - threadIdx.x];
    }
    __device__ inline unsigned again(unsigned value) {
      __shared__ unsigned words[64];
      words[threadIdx.x] = value;
      __syncthreads();
      return words[63 - threadIdx.x];
    }
    static __device__ unsigned once(unsigned value) { __shared__ unsigned words[1]; words[0] = 1; return value; }
    extern "C" __global__ void twice(unsigned* data) { data[threadIdx.x] = once(again(turned<64>(data[threadIdx.x]))); }
    """
    data = np.arange(64, dtype=np.uint32)
    host_module.load(text, ["twice"], {}).kernel("twice")(1, 64, (data,))
    assert np.array_equal(data, np.arange(64))


# ---- launches that fail ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kernel, arguments, message",
    [
        ("two_barriers", (16,), "divergent barrier: thread 0 waits at line"),
        ("return_before_barrier", (16,), "divergent barrier: 16 threads of 32 returned before the barrier"),
        ("mixed_barriers", (), "deadlock: threads wait at barriers that never fill"),
    ],
)
def test_barriers_that_not_all_threads_reach_are_reported(kernel, arguments, message):
    target = np.zeros(32, np.uint32)
    with pytest.raises(LaunchError, match=f"{kernel}: {message}"):
        controls().kernel(kernel)(1, 32, (target, *arguments))


def test_the_same_kernels_run_when_all_threads_go_one_way():
    target = np.zeros(32, np.uint32)
    controls().kernel("two_barriers")(1, 32, (target, 0))
    assert set(target) == {2}
    controls().kernel("return_before_barrier")(1, 32, (target, 32))
    assert set(target) == {1}


@pytest.mark.parametrize("grid, block", [(1, 1025), (1, (32, 32, 2)), (1, 0), (0, 32), ((1, 65536), 32), (2**31, 1)])
def test_a_configuration_no_device_takes_is_refused(grid, block):
    with pytest.raises(LaunchError, match="is empty or over"):
        controls().kernel("copy_bytes")(grid, block, (0, 0, 0))


def test_a_wild_access_ends_the_launch_and_not_the_process():
    for _ in range(3):
        with pytest.raises(LaunchError, match="invalid memory access: address 0x40,"):
            controls().kernel("copy_bytes")(1, 32, (64, 64, 32), order=ASCENDING)
    test_a_struct_by_value_reaches_every_thread()


def test_a_misaligned_access_ends_the_launch():
    """x86 itself would execute it."""
    target = np.zeros(64, np.uint32)
    controls().kernel("return_before_barrier")(1, 32, (target.ctypes.data, 32))
    with pytest.raises(LaunchError, match="misaligned access, block"):
        controls().kernel("return_before_barrier")(1, 32, (target.ctypes.data + 1, 32))


def test_a_loop_that_never_ends_ends_the_launch():
    text = """
    extern "C" __global__ void forever(volatile int* target) { while (*target == 0) {} }
    extern "C" __global__ void divide(int* target, int by) { *target /= by; }
    """
    module = host_module.load(text, ["forever", "divide"], {"SIMT_SECONDS": 1})
    with pytest.raises(LaunchError, match="does not end: stopped after 1 seconds"):
        module.kernel("forever")(1, 1, (np.zeros(1, np.int32),))
    with pytest.raises(LaunchError, match="division by zero"):
        module.kernel("divide")(1, 1, (np.ones(1, np.int32), 0))


def test_arguments_that_do_not_fit_are_refused():
    copy, add = controls().kernel("copy_bytes"), controls().kernel("sum_struct")
    with pytest.raises(TypeError, match="copy_bytes takes 3 arguments, 2 given"):
        copy(1, 32, (0, 0))
    with pytest.raises(TypeError, match="copy_bytes argument 2 is a float"):
        copy(1, 32, (0, 0, 1.0))
    with pytest.raises(ValueError, match="copy_bytes argument 2 -1 is outside 0.."):
        copy(1, 32, (0, 0, -1))
    with pytest.raises(ValueError, match="sum_struct argument 0 has 3 bytes, the kernel's struct has 4008"):
        add(1, 32, (b"abc", 0, 0))


# ---- slices, sparse memory, cost ------------------------------------------------------------------
def test_a_slice_of_the_grid_runs_only_its_blocks():
    source, target = np.arange(1, 101, dtype=np.uint8), np.zeros(100, np.uint8)
    controls().kernel("copy_bytes")(10, 10, (source, target, 100), first=3, last=5)
    assert np.array_equal(np.flatnonzero(target), np.arange(30, 50))


@pytest.mark.parametrize("index_bits, is_right", [(64, True), (32, False)])
def test_sparse_memory_shows_an_index_that_wraps_at_2_to_the_32(index_bits, is_right):
    count = 2**32 + 1000
    source, target = sparse_bytes(count), sparse_bytes(count)
    source[-1000:] = np.arange(1000) % 255 + 1
    blocks = (count + 255) // 256
    kernel = controls(kernels=("copy_bytes",), INDEX_BITS=index_bits).kernel("copy_bytes")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kernel(blocks, 256, (source, target, count), first=blocks - 4)
    assert np.array_equal(target[-1000:], source[-1000:]) == is_right
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB: 64 MiB of 8 GiB


def test_a_launch_takes_no_new_memory():
    """A test run makes 100,000 tiny launches.  Each reuses the stacks of the previous one, whose pages exist by now."""
    source, target = matrix(32, 32), matrix(32, 32)
    kernel, arguments = controls().kernel("transpose"), (source.ctypes.data, target.ctypes.data, 32, 32)
    kernel((1, 1), (32, 8), arguments)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        kernel((1, 1), (32, 8), arguments)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 100  # new stacks would be 256 pages a launch


def test_many_modules_share_one_set_of_stacks():
    """The system allows a process 65530 mappings, and a stack with its guard page takes two."""
    text = 'extern "C" __global__ void wait(int* target) { __syncthreads(); target[threadIdx.x] = NUMBER; }'
    target = np.zeros(1024, np.int32)
    modules = host_module.load_many([(text, ("wait",), {"NUMBER": number}, 0) for number in range(1, 5)])
    counts = []
    for number, module in enumerate(modules, 1):
        module.kernel("wait")(1, 1024, (target,))
        assert set(target) == {number}
        counts.append(len(pathlib.Path("/proc/self/maps").read_text().splitlines()))
    assert counts[-1] - counts[0] < 100


# ---- toolchain ------------------------------------------------------------------------------------
def test_a_compile_error_names_the_line_of_the_kernel_text():
    with pytest.raises(toolchain.BuildError, match=r"kernel\.cu:2:"):
        host_module.load('extern "C" __global__ void bad() {\n  nonsense;\n}\n', ["bad"], {})


def test_missing_says_which_compiler_it_looked_for(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert toolchain.missing() == "no C++ compiler: no-such-compiler is not on the PATH"


def test_equal_texts_are_compiled_once_even_by_concurrent_processes(tmp_path):
    """Two processes start together with an empty cache; the time of the product shows a single build."""
    code = (
        "from tests.support.simt import toolchain\n"
        "path = toolchain.shared_library('int answer = 42;')\n"
        "print(path.stat().st_ino)\n"
    )
    root = pathlib.Path(__file__).resolve().parents[3]
    environment = {**os.environ, "SIMT_BUILD": str(tmp_path), "PYTHONPATH": str(root)}
    workers = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    inodes = {worker.communicate()[0] for worker in workers}
    assert len(inodes) == 1 and [worker.returncode for worker in workers] == [0, 0]
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_clones_share_products_and_other_headers_make_another(tmp_path, monkeypatch):
    """A folder of headers counts by its version, not by its place."""
    monkeypatch.setattr(toolchain, "build_folder", lambda: tmp_path)
    paths = []
    for place, version, value in (("one", "1", 1), ("two", "1", 1), ("three", "2", 2)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "value.hpp").write_text(f'__attribute__((visibility("default"))) int value = {value};\n')
        flag = toolchain.Headers(tmp_path / place, version)
        paths.append(toolchain.shared_library('#include "value.hpp"', (flag,)))
    assert paths[0] == paths[1] != paths[2]
    assert [ctypes.c_int.in_dll(ctypes.CDLL(str(path)), "value").value for path in paths] == [1, 1, 2]


def test_a_launch_keeps_the_interpreter_lock():
    assert isinstance(controls()._library, ctypes.PyDLL)
