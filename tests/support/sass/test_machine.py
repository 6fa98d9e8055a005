"""The interpreter of machine code computes what C++ means, counts what warps issue, and refuses what a device would."""

import numpy as np
import pytest

from tests.support import nvrtc
from tests.support.sass import launches, memory
from tests.support.sass.machine import Launch, Memory
from tests.support.sass.operands import Fault

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)
pytestmark = needs_disassembler
THREADS, SOURCE, TARGET = 256, 0x10000000000, 0x20000000000
rng = np.random.default_rng(5)


def launched(body, architecture, source, target, grid=(1, 1, 1)):
    """Run the body of a kernel of two pointers to 32-bit numbers; (target, counts)."""
    text = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) control(
    const unsigned* __restrict__ source, unsigned* __restrict__ target) {{
  const unsigned i = blockIdx.x * {THREADS} + threadIdx.x, lane = threadIdx.x % 32;
  (void)lane, (void)source;
  {body}
}}"""
    compiled = nvrtc.compiled(text, architecture, {})
    memories = (
        Memory(SOURCE, SOURCE + source.nbytes, source.view(np.uint8).copy(), False),
        Memory(TARGET, TARGET + target.nbytes, target.view(np.uint8).copy(), True),
    )
    launch = Launch(
        architecture,
        grid,
        THREADS,
        np.array([SOURCE, TARGET], np.uint64).tobytes(),
        compiled.usage["control"].shared_bytes,
        memories,
        {int(name[1]): data for name, data in launches.sections(compiled.cubin, r"\.nv\.constant([1-9])\.control")},
    )
    counted = launches.executed(launch, launches.code(compiled.cubin, "control"))
    return memories[1].data.view(np.uint32), counted


def signed(values):
    return values.view(np.int32)


# C expressions of unsigned a, b and unsigned long long w = (b, a), v = (a, b), and the same in NumPy.
EXPRESSIONS = {
    "a + b": lambda a, b, w, v: a + b,
    "a - b * 7": lambda a, b, w, v: a - b * np.uint32(7),
    "a * b + 0x1234567": lambda a, b, w, v: a * b + np.uint32(0x1234567),
    "__umulhi(a, b)": lambda a, b, w, v: (a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32),
    "(unsigned)__mulhi((int)a, (int)b)": lambda a, b, w, v: (signed(a).astype(np.int64) * signed(b) >> 32).astype(
        np.uint32
    ),
    "(__umulhi(a >> 1, 613566757u) + (a >> 1)) >> 3": lambda a, b, w, v: (a >> np.uint32(1)) // np.uint32(7),
    "(unsigned)(w + v >> 32)": lambda a, b, w, v: (w + v >> np.uint64(32)).astype(np.uint32),
    "(unsigned)(w - v >> 32)": lambda a, b, w, v: (w - v >> np.uint64(32)).astype(np.uint32),
    "(unsigned)(w * v >> 32)": lambda a, b, w, v: (w * v >> np.uint64(32)).astype(np.uint32),
    "(unsigned)__umul64hi(w, v)": lambda a, b, w, v: np.array(
        [int(x) * int(y) >> 64 & 0xFFFFFFFF for x, y in zip(w, v)], np.uint32
    ),
    "(unsigned)(w >> (b & 63))": lambda a, b, w, v: (w >> (b & np.uint32(63)).astype(np.uint64)).astype(np.uint32),
    "(unsigned)(w << (a & 63) >> 32)": lambda a, b, w, v: (
        w << (a & np.uint32(63)).astype(np.uint64) >> np.uint64(32)
    ).astype(np.uint32),
    "(unsigned)((long long)w >> (b & 63))": lambda a, b, w, v: (
        w.astype(np.int64) >> (b & np.uint32(63)).astype(np.int64)
    ).astype(np.uint32),
    "(unsigned)((int)a >> (b & 31))": lambda a, b, w, v: (signed(a) >> signed(b & np.uint32(31))).astype(np.uint32),
    "__funnelshift_r(a, b, b)": lambda a, b, w, v: (w >> (b & np.uint32(31)).astype(np.uint64)).astype(np.uint32),
    "__byte_perm(a, b, 0x5140)": lambda a, b, w, v: (a & 255) | (b & 255) << 8 | (a & 0xFF00) << 8 | (b & 0xFF00) << 16,
    "__byte_perm(a, b, a)": lambda a, b, w, v: permuted(a, b, a),
    "a < b": lambda a, b, w, v: a < b,
    "(int)a < (int)b": lambda a, b, w, v: signed(a) < signed(b),
    "w < v": lambda a, b, w, v: w < v,
    "(long long)w >= (long long)v": lambda a, b, w, v: w.astype(np.int64) >= v.astype(np.int64),
    "w == (v ^ (unsigned long long)(a & 1))": lambda a, b, w, v: w == (v ^ (a & np.uint32(1))),
    "min(a, b) + max((int)a, (int)b)": lambda a, b, w, v: (
        np.minimum(a, b) + np.maximum(signed(a), signed(b)).view(np.uint32)
    ),
    "max((int)(a - b), 0)": lambda a, b, w, v: np.maximum(signed(a - b), 0).view(np.uint32),
    "(w & (1ull << (a & 63))) != 0 ? 3 : 5": lambda a, b, w, v: np.where(
        w >> (a & np.uint32(63)).astype(np.uint64) & np.uint64(1), 3, 5
    ),
    "(a & b) ^ (~a | 0x0ff0)": lambda a, b, w, v: (a & b) ^ (~a | np.uint32(0x0FF0)),
    "(unsigned)p + (unsigned)(p >> 32)": lambda a, b, w, v: addresses(a),
    "(a > b && lane < 7) || (b & 3) == 2 ? a : b": lambda a, b, w, v: np.where(
        (a > b) & (np.arange(a.size) % 32 < 7) | (b & 3 == 2), a, b
    ),
    "__shfl_sync(~0u, a, lane * 3 + 1)": lambda a, b, w, v: a.reshape(-1, 32)[
        :, np.arange(32) * 3 % 32 + 1 - 32 * (np.arange(32) * 3 % 32 == 31)
    ].ravel(),
    "__shfl_xor_sync(~0u, a, 5)": lambda a, b, w, v: a.reshape(-1, 32)[:, np.arange(32) ^ 5].ravel(),
    "a / 10 + b % 1000003": lambda a, b, w, v: a // np.uint32(10) + b % np.uint32(1000003),
}


def permuted(a, b, selector):
    eight = np.stack([a, b], axis=1).view(np.uint8)
    chosen = np.stack([selector >> np.uint32(4 * k) & np.uint32(7) for k in range(4)], axis=1)
    return np.take_along_axis(eight, chosen, 1).view(np.uint32).ravel()


def addresses(a):
    found = SOURCE + 4 * signed(a).astype(np.int64)
    return (found & 0xFFFFFFFF).astype(np.uint32) + (found >> 32).astype(np.uint32)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_arithmetic_is_that_of_the_language(architecture):
    """Random numbers, and those at which carries and signs change."""
    edges = np.array([0, 1, 2, 7, 31, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1], np.uint32)
    a = np.concatenate([np.repeat(edges, 10), rng.integers(0, 2**32, THREADS - 100, np.uint32)])
    b = np.concatenate([np.tile(edges, 10), rng.integers(0, 2**32, THREADS - 100, np.uint32)])
    w = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    v = b.astype(np.uint64) | a.astype(np.uint64) << np.uint64(32)
    body = f"const unsigned a = source[i], b = source[{THREADS} + i];\n"
    body += "const unsigned long long w = a | (unsigned long long)b << 32, v = b | (unsigned long long)a << 32;\n"
    body += "const unsigned long long p = (unsigned long long)(source + (int)a);\n"
    body += "\n".join(f"target[{k * THREADS} + i] = {text};" for k, text in enumerate(EXPRESSIONS))
    found, _ = launched(body, architecture, np.concatenate([a, b]), np.zeros(THREADS * len(EXPRESSIONS), np.uint32))
    with np.errstate(over="ignore"):
        for (text, meaning), got in zip(EXPRESSIONS.items(), found.reshape(-1, THREADS)):
            expected = np.asarray(meaning(a, b, w, v)).astype(np.uint32)
            wrong = np.flatnonzero(got != expected)
            assert not wrong.size, (text, [f"{x:#x}" for x in (*a[wrong[:3]], *b[wrong[:3]], *got[wrong[:3]])])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_warp_issues_both_ways_of_a_branch_and_the_longest_of_its_loops(architecture):
    """Even lanes store once in one place, odd lanes in another; lane l then stores l times."""
    body = """
  volatile unsigned* to = target;
  if (lane & 1) { to[i] = 1; to[i] = 3; } else { to[i + 256] = 2; }
  #pragma unroll 1
  for (unsigned k = 0; k < lane; ++k) to[512 + i] = k;"""
    _, counted = launched(body, architecture, np.zeros(1, np.uint32), np.zeros(768, np.uint32))
    assert counted.opcodes["STG"] == (THREADS // 32) * (3 + 31)
    assert counted.traffic["global write"].nbytes == 4 * (THREADS // 32) * (16 * 2 + 16 + 31 * 32 // 2)
    assert counted.by_lanes < 32 * counted.issued


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_barriers_order_what_threads_of_a_block_write_and_read(architecture):
    body = f"""
  __shared__ unsigned box[{THREADS}];
  box[threadIdx.x] = source[i];
  __syncthreads();
  const unsigned found = box[{THREADS - 1} - threadIdx.x];
  __syncthreads();
  box[threadIdx.x * 7 % {THREADS}] = found;
  __syncthreads();
  target[i] = box[threadIdx.x];"""
    values = rng.integers(0, 2**32, 3 * THREADS, np.uint32)
    found, counted = launched(body, architecture, values, np.zeros(3 * THREADS, np.uint32), grid=(3, 1, 1))
    expected = np.zeros((3, THREADS), np.uint32)
    expected[:, np.arange(THREADS) * 7 % THREADS] = values.reshape(3, -1)[:, ::-1]
    assert np.array_equal(found, expected.ravel())
    assert counted.opcodes["BAR"] == 3 * 3 * THREADS // 32
    read, write = counted.traffic["shared read"], counted.traffic["shared write"]
    assert read.parts == read.least == read.requests and write.parts == write.requests


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("step, cycles", [(1, 1), (2, 2), (16, 16), (32, 32), (33, 1), (0, 1)])
def test_bank_conflicts_are_counted(step, cycles, architecture):
    body = f"""
  __shared__ volatile unsigned box[1200];
  for (unsigned k = threadIdx.x; k < 1200; k += {THREADS}) box[k] = k;
  __syncthreads();
  if (threadIdx.x < 32) target[i] = box[lane * {step}];"""
    found, counted = launched(body, architecture, np.zeros(1, np.uint32), np.zeros(THREADS, np.uint32))
    assert found[:32].tolist() == [step * lane for lane in range(32)]
    assert counted.traffic["shared read"].parts == cycles


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("step, first, sectors", [(1, 0, 4), (1, 1, 5), (2, 0, 8), (8, 0, 32), (100, 3, 32), (0, 0, 1)])
def test_sectors_are_counted(step, first, sectors, architecture):
    body = f"if (threadIdx.x < 32) target[i] = source[lane * {step} + {first}];"
    _, counted = launched(body, architecture, np.zeros(4000, np.uint32), np.zeros(THREADS, np.uint32))
    assert counted.traffic["global read"].parts == sectors and counted.traffic["global read"].requests == 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loads_are_under_way_until_their_first_use(architecture):
    together = """const uint4* from = (const uint4*)source; const uint4 a = from[i], b = from[i + 256];
  target[i] = a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;"""
    one_by_one = """const uint4* from = (const uint4*)source; const uint4 a = from[i]; const uint4 b = from[a.x];
  target[i] = a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;"""
    source, target = np.zeros(4 * 512, np.uint32), np.zeros(THREADS, np.uint32)
    flights = [launched(body, architecture, source, target)[1].in_flight for body in (together, one_by_one)]
    assert flights[0] == 32 and flights[1] < 32


COPIES = f"""
  __shared__ uint4 box[2][{THREADS}];
  const unsigned first = (unsigned)__cvta_generic_to_shared(&box[0][threadIdx.x]);
  const unsigned second = (unsigned)__cvta_generic_to_shared(&box[1][threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(first), "l"((const uint4*)source + i));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(second), "l"(source + i));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group %0;" ::"n"(WAIT) : "memory");
  __syncthreads();
  target[i] = box[0][{THREADS - 1} - threadIdx.x].y;
  target[{THREADS} + i] = box[1][{THREADS - 1} - threadIdx.x].x;"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("left", (0, 1, 2))
def test_copies_arrive_when_their_thread_waits_for_their_group(left, architecture):
    """They are under way until then; memory that nobody waited for holds no bytes of the source."""
    values = rng.integers(0, 2**32, 4 * THREADS, np.uint32)
    found, counted = launched(COPIES.replace("WAIT", str(left)), architecture, values, np.zeros(2 * THREADS, np.uint32))
    unknown = np.full(THREADS, 0xA5A5A5A5, np.uint32)
    expected = values[1::4] if left < 2 else unknown, values[:THREADS] if left < 1 else unknown
    assert np.array_equal(found.reshape(2, -1)[:, ::-1], expected)
    assert counted.in_flight == 16 + 4 and counted.traffic["global read"].nbytes == THREADS * (16 + 4)
    assert counted.traffic["shared write"].nbytes == THREADS * (16 + 4)


FAULTS = {
    "outside": ("target[i + 1] = 1;", "outside the buffers"),
    "before": ("target[(int)i - 1] = source[0];", "outside the buffers"),
    "read outside": ("target[i] = source[i + 1];", "outside the buffers"),
    "copied outside": (
        "__shared__ unsigned box[1]; (void)target;\n"
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(box)),'
        ' "l"(source + i + 1));',
        "outside the buffers",
    ),
    "read-only": ("((unsigned*)source)[i] = target[i];", "store to the source"),
    "misaligned": ("target[i] = *(unsigned*)((char*)source + 2 * (i & 1));", "no multiple of 4"),
    "wide": ("if (i < 9) *(uint4*)(target + i) = make_uint4(1, 2, 3, 4);", "no multiple of 16"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("body, message", FAULTS.values(), ids=FAULTS)
def test_wrong_accesses_are_faults(body, message, architecture):
    with pytest.raises(Fault, match=message):
        launched(body, architecture, np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32))


def test_what_is_not_known_is_a_fault_and_names_the_instruction():
    body, numbers = (
        "target[i] = __float_as_uint(__sinf(__uint_as_float(source[i])));",
        np.zeros(THREADS, np.uint32),
    )
    with pytest.raises(Fault, match="not known: MUFU.SIN"):
        launched(body, "sm_90", numbers, numbers)


# ---- what is counted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", (1, 2, 4, 8, 16))
@pytest.mark.parametrize("spread", (1, 3, 40, 1 << 12))
def test_sectors_and_cycles_are_those_of_each_warp_taken_alone(nbytes, spread):
    for count in (1, 31, 96, 200):
        lanes = np.sort(rng.choice(256, count, replace=False))
        address = rng.integers(0, spread, count) * nbytes
        words = max(nbytes // 4, 1)
        sectors, turns = set(), {}
        for lane, place in zip(lanes.tolist(), address.tolist()):
            sectors |= {(lane // 32, byte // 32) for byte in range(place, place + nbytes)}
            for word in range(place // 4, place // 4 + words):
                turns.setdefault(lane * words // 32, {}).setdefault(word % 32, set()).add(word)
        warps = np.unique(lanes // 32, return_counts=True)[1].tolist()
        least = sum(-(-active * nbytes // 32) for active in warps)
        found = memory.sectors(lanes, (address + SOURCE).astype(np.uint64), nbytes)
        assert found == (len(warps), nbytes * count, len(sectors), least)
        slowest = sum(max(map(len, banks.values())) for banks in turns.values())
        assert memory.cycles(lanes, address, nbytes) == (len(warps), nbytes * count, slowest, len(turns))
