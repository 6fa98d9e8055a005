"""A launch of decoded machine code: registers, memory, divergence and barriers of many blocks at once.

All threads that are at the same instruction execute it together, those of other warps and blocks too: a register is a
row of an array with an element for each thread.  The group at the lowest instruction goes first, so that lanes of a
warp that took different ways meet again where the ways meet.  An instruction counts once for each warp that has a lane
in the group, whatever its guard says, as a device issues it.

    if (lane < 16) a; else b; c;       a: 1, b: 1, c: 1 instruction of the warp, not 2 for c

A barrier holds the threads of a block until all that have not ended are there.
"""

import dataclasses
import heapq

import numpy as np

from tests.support.sass.arrivals import Arrivals
from tests.support.sass.memory import cycles, distinct
from tests.support.sass.operands import Fault, Unknown
from tests.support.sass.operations import OPERATIONS

LANES = 32
SHARED_WINDOW = 1024  # from sm_90 on, a block's arrays begin behind 1 KB of the system's
# The constant bank 0: where the parameters of a kernel begin, the sizes of the grid, the
# sizes of a block and the end of a thread's local memory.
_PARAMETERS = {
    "sm_75": 0x160,
    "sm_80": 0x160,
    "sm_86": 0x160,
    "sm_89": 0x160,
    "sm_90": 0x210,
    "sm_100": 0x380,
    "sm_120": 0x380,
}
_GRID = {"sm_100": 0x370, "sm_120": 0x370}
_BLOCK = {"sm_100": 0x360, "sm_120": 0x360}
_STACK = {"sm_100": 0x37C, "sm_120": 0x37C}
_LOCAL = 2048  # bytes of a thread; its stack grows downwards from there
_UNSET = 0xA5A5A5A5  # registers and shared memory before they are written
_FIRST = -(1 << 30)  # added to a number, so that its group goes first
_AHEAD = 1 << 20  # instructions of one thread before it is taken to loop forever


@dataclasses.dataclass(frozen=True)
class Memory:
    """A buffer of the launch, from `address` up to `end`; `data` begins at a multiple of 16, at or before it."""

    address: int
    end: int
    data: np.ndarray  # of bytes
    writable: bool

    @property
    def origin(self):
        return self.address & ~15


@dataclasses.dataclass
class Requests:
    """The accesses to one kind of memory in one direction: warp instructions, bytes, and what they touched.

    parts   sectors of 32 bytes for global memory, cycles of 128 bytes for shared memory
    least   the fewest parts that the bytes of each request could take
    """

    requests: int = 0
    nbytes: int = 0
    parts: int = 0
    least: int = 0

    def add(self, requests, nbytes, parts, least):
        self.requests += int(requests)
        self.nbytes += int(nbytes)
        self.parts += int(parts)
        self.least += int(least)


@dataclasses.dataclass
class Counted:
    """What a launch took.

    issued         instructions, of warps
    by_lanes       the same, of lanes that were active
    opcodes        issued, by name
    before_read    instructions of a warp before its first read of global memory, on average
    in_flight      bytes of a thread that are under way at once, the most of any thread
    traffic        {"global read": Requests, ...}
    """

    issued: int = 0
    by_lanes: int = 0
    opcodes: dict = dataclasses.field(default_factory=dict)
    before_read: float = 0
    in_flight: int = 0
    traffic: dict = dataclasses.field(default_factory=dict)

    def plus(self, other):
        """Both together; the larger of what is not a sum."""
        traffic = {
            name: Requests(
                *(a + b for a, b in zip(dataclasses.astuple(found), dataclasses.astuple(other.traffic[name])))
            )
            for name, found in self.traffic.items()
        }
        opcodes = {
            name: self.opcodes.get(name, 0) + other.opcodes.get(name, 0) for name in {*self.opcodes, *other.opcodes}
        }
        return Counted(
            self.issued + other.issued,
            self.by_lanes + other.by_lanes,
            opcodes,
            max(self.before_read, other.before_read),
            max(self.in_flight, other.in_flight),
            traffic,
        )


@dataclasses.dataclass(frozen=True)
class Launch:
    """Blocks of 256 threads in a grid of three dimensions, with the bytes of all parameters."""

    architecture: str
    grid: tuple
    threads: int
    parameters: bytes
    shared_bytes: int
    memories: tuple
    literals: dict = dataclasses.field(default_factory=dict)  # other constant banks, as arrays of bytes


class Machine:
    """Some blocks of a launch.

    steps_of   None, or for each warp the instructions that it executed: (number, what an access of memory touched)
    """

    def __init__(self, launch, blocks, traced=False):
        self.launch = launch
        self.threads = launch.threads * len(blocks)
        self.warps = self.threads // LANES
        self.warp_of = np.arange(self.threads) // LANES
        self.thread = (np.arange(self.threads) % launch.threads).astype(np.uint32)
        self.block_of = np.arange(self.threads) // launch.threads
        numbers = np.asarray(blocks)
        self.block_x = (numbers % launch.grid[0]).astype(np.uint32)
        self.block_y = (numbers // launch.grid[0]).astype(np.uint32)
        self.registers = np.full((256, self.threads), _UNSET, np.uint32)
        # A uniform register has a copy for each lane: lanes that branched apart run on, and do not wait for the others
        # of their warp where a device brings them together again.
        self.uniform = np.full((64, self.threads), _UNSET, np.uint32)
        self.predicates = np.zeros((8, self.threads), bool)
        self.uniform_predicates = np.zeros((8, self.threads), bool)
        self.predicates[7] = self.uniform_predicates[7] = True
        self.local = None  # made when it is used, as most kernels do not
        self.shared_size = SHARED_WINDOW + launch.shared_bytes + 15 & ~15
        self.shared = np.full(self.shared_size * len(blocks), 0xA5, np.uint8)
        self.constants = {0: _parameters(launch), **launch.literals}  # banks
        self.counted = Counted(
            traffic={f"{space} {way}": Requests() for space in ("global", "shared") for way in ("read", "write")}
        )
        self.pending = {}  # register -> bytes of the load that will fill it, for each thread
        self.arrivals = Arrivals(self.threads)
        self.under_way = np.zeros(self.threads, np.int64)
        self.steps = np.zeros(self.warps, np.int64)  # instructions of each warp so far
        self.first_read = np.full(self.warps, -1, np.int64)
        self.steps_of = [[] for _ in range(self.warps)] if traced else None

    def run(self, instructions):
        """Execute the blocks to their ends.

        The group at the lowest instruction goes first, so lanes that branched apart meet again.  A function that is
        called stands behind the kernel's own code; its lanes go before all others, or these would not wait for them.
        """
        self.functions = min((each.target for each in instructions if each.opcode == "CALL"), default=len(instructions))
        waiting, queue, groups = [], [0], {0: np.arange(self.threads)}
        with np.errstate(all="ignore"):
            while queue or waiting:
                if not queue:  # every thread that is left waits at a barrier
                    for number, lanes in waiting:
                        self._join(queue, groups, number + 1, lanes)
                    waiting = []
                number = heapq.heappop(queue)
                number -= _FIRST if number < 0 else 0
                lanes = groups.pop(number)
                self._run_group(instructions, number, lanes, queue, groups, waiting)
        read = self.first_read >= 0
        self.counted.before_read = float(self.first_read[read].mean()) if read.any() else 0.0
        return self.counted

    def _run_group(self, instructions, number, lanes, queue, groups, waiting):
        """Execute instructions in order until the group branches apart, waits, ends or meets another group."""
        group = Group(self, lanes)
        for _ in range(_AHEAD):
            instruction = instructions[number]
            self._count(instruction, group)
            try:
                operation = OPERATIONS[instruction.opcode]
                after = operation(self, instruction, group)
            except (KeyError, Unknown) as error:
                raise Fault(f"not known: {instruction.text} ({error})") from error
            if after is None:
                number += 1
                if number in groups:
                    self._join(queue, groups, number, group.lanes)
                    return
                continue
            if isinstance(after, str):  # at a barrier
                waiting.append((number, group.lanes))
                return
            if after.dtype != bool:  # a return: each lane goes on at a number of its own
                for target in np.unique(after):
                    self._join(queue, groups, int(target), group.lanes[after == target])
                return
            taken = after  # a mask over the group's lanes; the others go on, or end
            others = group.lanes[~taken]
            if instruction.opcode == "EXIT":
                if others.size:
                    self._join(queue, groups, number + 1, others)
                return
            if others.size:
                self._join(queue, groups, number + 1, others)
            if taken.any():
                self._join(queue, groups, instruction.target, group.lanes[taken])
            return
        raise Fault("threads do not end")

    def _join(self, queue, groups, number, lanes):
        """Lanes reach an instruction, where others may be already."""
        if number in groups:
            groups[number] = np.sort(np.concatenate([groups[number], lanes]))
        else:
            groups[number] = lanes
            heapq.heappush(queue, number + (_FIRST if number >= self.functions else 0))

    def _count(self, instruction, group):
        counted = self.counted
        counted.issued += group.warp_count
        counted.by_lanes += group.lanes.size
        counted.opcodes[instruction.opcode] = counted.opcodes.get(instruction.opcode, 0) + group.warp_count
        self.steps[group.own_warps] += 1
        if self.steps_of is not None:
            for warp in np.arange(self.warps)[group.own_warps]:
                self.steps_of[warp].append((instruction.number, None))
        if self.pending:
            self._settle(instruction, group)

    def own_memory(self, space):
        """(bytes, bytes of each owner, owners of all threads) of shared memory, S, and of local memory, L."""
        if space == "S":
            return self.shared, self.shared_size, self.block_of
        if self.local is None:
            self.local = np.full(self.threads * _LOCAL, 0xA5, np.uint8)
        return self.local, _LOCAL, np.arange(self.threads)

    def touched(self, lanes, address, nbytes, is_global):
        """Note what each warp's access touches: the sectors and the bytes in them, or the cycles of shared memory."""
        warps = lanes // LANES
        for warp in distinct(warps) if self.steps_of is not None else ():
            own = warps == warp
            if is_global:
                sectors, lanes_of = np.unique(address[own] // np.uint64(32), return_counts=True)
                found = sectors.astype(np.int64), lanes_of * nbytes
            else:
                found = cycles(lanes[own], address[own], nbytes)[2]
            self.steps_of[warp][-1] = self.steps_of[warp][-1][0], found

    # ---- loads under way ----

    def _settle(self, instruction, group):
        """The loads whose results the instruction uses have arrived."""
        for number in instruction.touched:
            found = self.pending.get(number)
            if found is not None:
                self.under_way[group.index] -= found[group.index]
                found[group.index] = 0

    def loads(self, number, count, lanes, nbytes):
        """A load into `count` registers from `number` on is under way."""
        for k in range(count):
            found = self.pending.setdefault(number + k, np.zeros(self.threads, np.int64))
            self.under_way[lanes] -= found[lanes]
            found[lanes] = nbytes // count
        self.reads(lanes, nbytes)

    def reads(self, lanes, nbytes):
        """So many bytes of each of these lanes are under way, too."""
        self.under_way[lanes] += nbytes
        if lanes.size:
            self.counted.in_flight = max(self.counted.in_flight, int(self.under_way[lanes].max()))
            warps = distinct(lanes // LANES)
            new = warps[self.first_read[warps] < 0]
            self.first_read[new] = self.steps[new]


class Group:
    """Threads that are at the same instruction."""

    def __init__(self, machine, lanes):
        self.lanes = lanes
        is_all = lanes.size == machine.threads
        self.index = slice(None) if is_all else lanes
        self.warp_index = machine.warp_of if is_all else machine.warp_of[lanes]  # of each lane
        self.own_warps = slice(None) if is_all else distinct(self.warp_index)
        self.warp_count = machine.warps if is_all else self.own_warps.size
        begins = np.diff(self.warp_index, prepend=-1) != 0
        self.first = np.flatnonzero(begins)  # of each warp, its first lane in the group
        self.first_lanes = lanes[self.first]
        self.own_warp_of = np.cumsum(begins) - 1  # of each lane, the place of its warp among the group's


def _parameters(launch):
    """The constant bank 0."""
    start = _PARAMETERS[launch.architecture]
    bank = np.full(start + len(launch.parameters) + 64, 0xA5, np.uint8)
    bank[start : start + len(launch.parameters)] = np.frombuffer(launch.parameters, np.uint8)
    for place, values in (
        (_GRID.get(launch.architecture, 0xC), launch.grid),
        (_BLOCK.get(launch.architecture, 0), (launch.threads, 1, 1)),
        (_STACK.get(launch.architecture, 0x28), (_LOCAL,)),
    ):
        bank[place : place + 4 * len(values)] = np.array(values, np.uint32).view(np.uint8)
    return bank
