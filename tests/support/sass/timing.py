"""How long the blocks of a launch take on one multiprocessor, from the machine code's own control bits.

Every instruction says when its warp may go on: how many cycles it stalls, which of six scoreboards it holds until its
result is there (write) or its operands are read (read), and which it waits for.  So no dependence is analysed:

    bits 105..125 of an instruction: stall 4, yield 1, write 3, read 3, wait mask 6, reuse of operands 4

A warp issues its instructions in order.  Each of four schedulers issues one instruction a cycle, of the warp that was
ready first.  Stations that warps share serve one request after another: the pipelines of a scheduler, and for the whole
multiprocessor shared memory, the connection to the level-2 cache, and its share of memory.

The steps of a warp are those that the interpreter executed: (number of the instruction, what it touched).  It touched
None, or cycles of shared memory, or in global memory (sectors, bytes in each).
"""

import dataclasses
import heapq

SCHEDULERS, SCOREBOARDS, NONE, NARROW = 4, 6, 7, 4  # sectors of a request that take no longer than one
_PIPES = {  # cycles for which an instruction holds a pipeline of its scheduler; all others are integer ones
    "multiply": (2, ("IMAD", "FFMA", "FMUL", "FADD", "HFMA2", "HADD2", "HMUL2")),
    "special": (8, ("MUFU", "FLO", "POPC", "I2F", "F2I", "F2F", "BREV", "S2R", "CS2R")),
    "branch": (2, ("BRA", "BSSY", "BSYNC", "EXIT", "BAR", "NOP", "WARPSYNC", "CALL", "RET", "BREAK", "YIELD")),
    "double": (32, ("DADD", "DMUL", "DFMA", "DSETP")),
}
_PIPE_OF = {opcode: (pipe, cycles) for pipe, (cycles, opcodes) in _PIPES.items() for opcode in opcodes}
_MEMORY = ("LDG", "LDGSTS", "STG", "LDS", "STS", "LDL", "STL", "RED", "REDG", "SHFL")
MEMORY, LINK, SHARED, ISSUE, INTEGER = "memory", "link", "shared", "issue", "integer"


@dataclasses.dataclass(frozen=True)
class Chip:
    """A multiprocessor in cycles: a fit to the moves that an H100 measured, from what is known of its kind.

    latency    from a request of global memory to its result, if nothing else is under way
    hit        the same for sectors that the block has read before
    shared     the same of shared memory
    special    of other results that a stall alone does not wait for
    operands   until a request has read its registers
    barrier    from the arrival of the last warp to the next instruction
    jump       after a branch that is taken
    begin      from the end of a block to the first instruction of the next one in its place
    link       of the connection to the level-2 cache, for a sector
    sector     of the multiprocessor's share of memory, for a sector that the block has not touched
    """

    latency: float = 1000
    hit: float = 40
    shared: float = 33
    special: float = 30
    operands: float = 12
    barrier: float = 30
    jump: float = 25
    begin: float = 300
    link: float = 32 / 36
    sector: float = 0


@dataclasses.dataclass(frozen=True)
class Control:
    """The control bits of an instruction but the yield flag and the reuse of operands; NONE is no scoreboard."""

    stall: int
    write: int
    read: int
    waits: tuple


def control(bits):
    """The control bits of an instruction, from its bits 105 on.

    >>> control(0b0000_000010_111_001_0_0100)
    Control(stall=4, write=1, read=7, waits=(1,))
    """
    waits = tuple(k for k in range(SCOREBOARDS) if bits >> 11 >> k & 1)
    return Control(max(bits & 15, 1), bits >> 5 & 7, bits >> 8 & 7, waits)


class _Warp:
    def __init__(self, steps, block, scheduler, ready):
        self.steps, self.block, self.scheduler, self.ready = steps, block, scheduler, ready
        self.place, self.boards = 0, [0.0] * SCOREBOARDS
        self.copies, self.groups = 0.0, []  # when asynchronous copies are there: of the open group, of those before


class _Block:
    def __init__(self, warps):
        self.left, self.waiting = warps, []
        self.sectors = {}  # that it touched, and when each is there


class Multiprocessor:
    """Blocks that run beside each other.

    program    the instructions
    blocks     for each block that was executed, the steps of its warps; the blocks that run are these in turns
    resident   so many run at a time
    busy       cycles that each station worked
    """

    def __init__(self, program, blocks, resident=1, chip=None):
        self.program, self.blocks, self.resident, self.chip = program, blocks, resident, chip or Chip()
        self.controls = [control(each.control) for each in program]
        self.pipes = [_pipe(each.opcode) for each in program]
        self.issue_free, self.pipe_free = [0.0] * SCHEDULERS, {}
        self.free = dict.fromkeys((SHARED, LINK, MEMORY), 0.0)
        self.busy = dict.fromkeys((ISSUE, INTEGER, SHARED, LINK, MEMORY), 0.0)
        self.ends, self.begun, self.queue, self.order = [], 0, [], 0

    def run(self, count):
        """When each of so many blocks ends, in order."""
        self.count = count
        for _ in range(min(self.resident, count)):
            self._begin(0.0)
        while self.queue:
            ready, _, warp = heapq.heappop(self.queue)
            self._issue(ready, warp)
        return self.ends

    def _begin(self, time):
        steps = self.blocks[self.begun % len(self.blocks)]
        block = _Block(len(steps))
        self.begun += 1
        for number, own in enumerate(steps):
            self._await(_Warp(own, block, number % SCHEDULERS, time))

    def _await(self, warp):
        """The warp is ready when its next instruction's scoreboards are free."""
        waits = self.controls[warp.steps[warp.place][0]].waits
        self._queue(max([warp.ready, *(warp.boards[board] for board in waits)]), warp)

    def _queue(self, time, warp):
        self.order += 1  # of two that are ready at a time, the one that came first
        heapq.heappush(self.queue, (time, self.order, warp))

    def _issue(self, time, warp):
        number, touched = warp.steps[warp.place]
        instruction, own = self.program[number], self.controls[number]
        pipe, cycles = self.pipes[number]
        key = warp.scheduler, pipe
        free = max(self.issue_free[warp.scheduler], self.pipe_free.get(key, 0.0))
        if free > time:
            self._queue(free, warp)
            return
        self.issue_free[warp.scheduler], self.pipe_free[key] = time + 1, time + cycles
        self.busy[ISSUE] += 1 / SCHEDULERS
        if pipe == INTEGER:
            self.busy[INTEGER] += cycles / SCHEDULERS
        done, read = self._served(time, instruction, touched, warp.block)
        for board, until in ((own.write, done), (own.read, read)):
            if board != NONE:
                warp.boards[board] = max(warp.boards[board], until)
        warp.ready, warp.place = time + own.stall, warp.place + 1
        _copies(warp, instruction, done)
        self._go_on(time, instruction, warp)

    def _go_on(self, time, instruction, warp):
        block = warp.block
        if warp.place == len(warp.steps):
            block.left -= 1
            if not block.left:
                self.ends.append(time)
                if self.begun < self.count:
                    self._begin(time + self.chip.begin)
        elif instruction.opcode == "BAR":
            block.waiting.append(warp)
        else:
            if warp.steps[warp.place][0] != instruction.number + 1:
                warp.ready += self.chip.jump
            self._await(warp)
        if block.waiting and len(block.waiting) == block.left:
            for each in block.waiting:
                each.ready = max(each.ready, time + self.chip.barrier)
                self._await(each)
            block.waiting = []

    def _served(self, time, instruction, touched, block):
        """When the result of an instruction is there, and when its operands were read."""
        chip, opcode = self.chip, instruction.opcode
        if opcode not in _MEMORY:
            return time + chip.special, time + chip.operands
        if touched is None:  # no lane asks, or the request is one of lanes only
            return time + chip.shared, time + chip.operands
        if not isinstance(touched, tuple):
            end = self._serve(SHARED, time, touched)
            return end + chip.shared, end + chip.operands
        sectors = touched[0].tolist()
        end = self._serve(SHARED, time, max(1, len(sectors) / NARROW))
        return self._from_global(end, opcode.startswith("LDG"), sectors, block), end + chip.operands

    def _from_global(self, time, is_load, sectors, block):
        """When all sectors of a request are there."""
        chip = self.chip
        new = [each for each in sectors if each not in block.sectors]
        done = max([time + chip.hit, *(block.sectors[each] for each in sectors if each in block.sectors)])
        passed = len(new if is_load else sectors)  # stores go to the level-2 cache even where the block wrote before
        if passed:
            arrived = self._serve(LINK, time, passed * chip.link)
            if new:
                arrived = max(arrived, self._serve(MEMORY, time, len(new) * chip.sector))
            done = max(done, arrived + chip.latency)
        block.sectors.update(dict.fromkeys(new, done))
        return done

    def _serve(self, station, time, cycles):
        """When a station that serves one request after another has served this one."""
        self.busy[station] += cycles
        self.free[station] = max(self.free[station], time) + cycles
        return self.free[station]


def _copies(warp, instruction, done):
    """LDGSTS begins a copy, LDGDEPBAR ends a group of them, DEPBAR waits for all groups but the last few."""
    if instruction.opcode == "LDGSTS":
        warp.copies = max(warp.copies, done)
    elif instruction.opcode == "LDGDEPBAR":
        warp.groups.append(warp.copies)
    elif instruction.opcode == "DEPBAR":
        left = instruction.operands[1].value
        warp.ready = max([warp.ready, *warp.groups[: len(warp.groups) - left]])


def _pipe(opcode):
    if opcode in _MEMORY:
        return SHARED, 1
    return ("uniform", 2) if opcode[0] == "U" or opcode in ("R2UR", "S2UR") else _PIPE_OF.get(opcode, (INTEGER, 2))
