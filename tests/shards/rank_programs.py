"""What ranks of a process group do in tests: each function runs in a process of its own, see `gloo_ranks`."""

import functools
import os
import random
import signal
import sys
import threading
import tracemalloc

import ml_dtypes  # noqa: F401  # its names of types
import numpy as np

import gpulayout as gl
from tests.support.waiting import wait_for, wait_until

TYPES = "f32", "f32", "u8", "bf16", "f64", "f8e4m3fn"


def dist():
    """torch.distributed, which this file does not import: the process of the tests need not."""
    return sys.modules["torch.distributed"]


def torch():
    return sys.modules["torch"]


# ---- exchanges by the dozen ------------------------------------------------------------------------------------------


def random_layout(rng, sizes):
    fields = {"minor_to_major": rng.sample(range(len(sizes)), len(sizes))}
    if rng.random() < 0.4:
        fields["padded_dimensions"] = [size + rng.choice((0, 1, 3)) for size in sizes]
    if rng.random() < 0.4 and sizes:
        fields["tiles"] = [tuple(rng.choice((1, 2, 3)) for _ in range(rng.choice((1, 2))))]
    return gl.Layout(**fields)


def random_box(rng, sizes):
    if rng.random() < 0.2:
        return None
    cuts = [sorted((rng.randint(0, size), rng.randint(0, size))) for size in sizes]
    return tuple(slice(*cut) for cut in cuts) or ...


def random_exchange(rng, ranks):
    """An exchange between this many ranks, and the array that they hold."""
    sizes = [rng.choice((1, 2, 3, 5, 6, 8)) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
    boxes = [random_box(rng, sizes) for _ in range(ranks)]
    if sizes:  # some ranks hold the whole array together, cut along one dimension
        dim, owners = rng.randrange(len(sizes)), rng.sample(range(ranks), rng.randint(1, ranks))
        cuts = [0, *sorted(rng.randint(0, sizes[dim]) for _ in owners[1:]), sizes[dim]]
        for owner, first, last in zip(owners, cuts, cuts[1:]):
            boxes[owner] = (*[slice(None)] * dim, slice(first, last))
    else:
        boxes[rng.randrange(ranks)] = ...
    before, after = (gl.Shape(rng.choice(TYPES), sizes, random_layout(rng, sizes)) for _ in range(2))
    if rng.random() < 0.7:
        after = gl.Shape(before.element_type, sizes, after.layout)
    options = {} if before.element_type is after.element_type else {"dtype": after.element_type}
    made = gl.exchange(
        gl.Sharding(before, boxes), gl.Sharding(after, [random_box(rng, sizes) for _ in range(ranks)]), **options
    )
    numbers = np.array([rng.randint(0, 15) for _ in range(int(np.prod(sizes)))]).reshape(sizes)
    return made, numbers


def buffer_of(side, rank, numbers):
    """What a rank holds: its box of an array of small whole numbers, which every type has."""
    box, shard = side.boxes[rank], side.shards[rank]
    if box is None:
        return None
    part = np.asarray(numbers[tuple(slice(*cut) for cut in box)]).astype(side.shape.dtype)
    return gl.pack(part, shard)


def random_exchanges(seed, count):
    """Run exchanges; what is wrong with the first that goes wrong, or the number of pieces that travelled."""
    rng, rank, ranks = random.Random(seed), dist().get_rank(), dist().get_world_size()
    own, pieces = random.Random(f"{seed} {rank}"), 0
    for number in range(count):
        made, numbers = random_exchange(rng, ranks)
        busiest = max(len(made.sends(k)) + len(made.receives(k)) for k in range(ranks))
        max_bytes = rng.choice((None, "64M", 32 * busiest, 64 * busiest))
        check = rng.random() < 0.5
        buffer, expected = (buffer_of(side, rank, numbers) for side in (made.source, made.target))
        out = None if expected is None or own.random() < 0.5 else np.full_like(expected, 1)
        if buffer is not None and own.random() < 0.3:
            buffer.setflags(write=False)
        as_tensors = own.random() < 0.4 and made.source.shape.dtype.isbuiltin == made.target.shape.dtype.isbuiltin == 1
        given = [each if each is None or not as_tensors else torch().from_numpy(each.copy()) for each in (buffer, out)]
        found = made.run(given[0], out=given[1], max_bytes=max_bytes, check=check)
        if out is not None and found is not given[1]:
            return f"case {number}: {made} gave another array than out"
        if expected is None:
            if found is not None:
                return f"case {number}: {made} gave an array to a rank that holds nothing"
        elif bytes_of(found) != expected.tobytes():
            return f"case {number}: {made}\n{made.source}\n{made.target}\nmax_bytes={max_bytes} gave other bytes"
        limit = None if max_bytes == "64M" else max_bytes
        pieces += sum(len(each.sends) for each in made.rounds(rank, limit))
    return pieces


def bytes_of(found):
    return found.tobytes() if isinstance(found, np.ndarray) else bytes(found.clone().untyped_storage())


def page_example(code):
    """Run the example of the page, between its two shardings of ones."""
    rows = gl.Sharding.by_mesh("bf16[1024,512]", {"tp": 4}, ("tp", None))
    made = gl.exchange(rows, gl.Sharding.by_mesh("bf16[1024,512]{0,1}", {"tp": 2}, (None, "tp")))
    names = {"exchange": made, "torch": torch()}
    exec(code, names)
    found = names["out"]
    return found if found is None else (str(found.dtype), found.numel(), bool((found == 1).all()))


# ---- one exchange, with something wrong on a rank --------------------------------------------------------------------

ROWS, COLUMNS = 48, 48


def transpose(ranks, target="f32[48,48]{0,1}", **options):
    """From rows to columns: every rank has a message for every other one."""
    rows = gl.Sharding.by_mesh(f"f32[{ROWS},{COLUMNS}]", {"x": ranks}, ("x",))
    return gl.exchange(rows, gl.Sharding.by_mesh(target, {"x": ranks}, (None, "x")), **options)


def of_rank(made, rank):
    return buffer_of(made.source, rank, np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 251)


def is_right(made, rank, found):
    expected = buffer_of(made.target, rank, np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 251)
    return bytes_of(found) == expected.tobytes()


def with_out(made, rank, buffer, group=None, **options):
    """Run into memory that remembers whether a byte was written: (error, whether `out` is as it was)."""
    out = np.full(made.target.shards[rank].buffer_length, 7, np.float32)
    try:
        made.run(buffer, group, **{"out": out, **options})
    except (TypeError, ValueError, BufferError, ConnectionError) as error:
        return f"{type(error).__name__}: {error}", bool((out == 7).all())
    return None, is_right(made, rank, out)


BAD = {
    "short": lambda buffer: (buffer[:-1], {}),
    "another type": lambda buffer: (buffer.astype(np.float64), {}),
    "none": lambda buffer: (None, {}),
    "a list": lambda buffer: (buffer.tolist(), {}),
    "a gradient": lambda buffer: (torch().from_numpy(buffer).requires_grad_(), {}),
    "the same memory": lambda buffer: (buffer, {"out": buffer}),
    "a read-only out": lambda buffer: (buffer, {"out": np.frombuffer(bytes(buffer.nbytes), np.float32)}),
    "a short out": lambda buffer: (buffer, {"out": np.zeros(3, np.float32)}),
    "an out that is no array": lambda buffer: (buffer, {"out": "x"}),
    "bytes that are no number": lambda buffer: (buffer, {"max_bytes": "many"}),
    "too few bytes": lambda buffer: (buffer, {"max_bytes": 10}),
}


def every_bad_buffer():
    """{what is wrong on rank 1: what this rank gets}"""
    made, rank = transpose(dist().get_world_size()), dist().get_rank()
    found = {}
    for name, change in BAD.items():
        buffer, options = of_rank(made, rank), {}
        if rank == 1:
            buffer, options = change(buffer)
        found[name] = with_out(made, rank, buffer, **options)
    return found, with_out(made, rank, of_rank(made, rank))


def every_disagreement():
    """{what is other on rank 1: what this rank gets}"""
    ranks, rank = dist().get_world_size(), dist().get_rank()
    usual = transpose(ranks)
    others = {
        "target": (transpose(ranks, "f32[48,48]{1,0}"), {}),
        "arithmetic": (transpose(ranks, dtype="f32", scale=2.0), {}),
        "max_bytes": (usual, {"max_bytes": "1M"}),
    }
    found = {}
    for name, (other, options) in others.items():
        made, options = (other, options) if rank == 1 else (usual, {})
        found[name] = with_out(made, rank, of_rank(made, rank), **options)
    return found


def too_many_or_few():
    """The errors of exchanges between 2 and 4 ranks in a group of another size."""
    rank = dist().get_rank()
    found = []
    for ranks in (2, 4):
        made = transpose(ranks)
        buffer = of_rank(made, rank) if rank < ranks else None
        try:
            made.run(buffer)
        except gl.LayoutError as error:
            found.append(str(error))
    return found


def in_subgroups():
    """Groups of some of the ranks, one after the other and two at once."""
    rank = dist().get_rank()
    groups = [dist().new_group(members) for members in ((1, 3, 4), (0, 2), (0, 1, 2, 3, 4))]
    found = []
    for members, group in (((1, 3, 4), groups[0]), ((0, 2), groups[1])):
        if rank in members:
            made, place = transpose(len(members)), members.index(rank)
            found.append(is_right(made, place, made.run(of_rank(made, place), group)))
        else:
            try:
                transpose(len(members)).run(None, group)
            except gl.LayoutError as error:
                found.append(str(error))
    return found


def in_threads(rounds):
    """Two threads, each with a group of its own; and two that share one."""
    rank, ranks = dist().get_rank(), dist().get_world_size()
    groups = [dist().new_group() for _ in range(2)]
    made, found = transpose(ranks), []

    def work(group):
        for _ in range(rounds):
            found.append(is_right(made, rank, made.run(of_rank(made, rank), group, max_bytes=200 * ranks)))

    threads = [threading.Thread(target=work, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, with_out(made, rank, of_rank(made, rank))


def one_group_in_two_threads():
    """On rank 1 another thread is within a call when this one begins."""
    from gpulayout.shards.process_group import locks

    rank, found = dist().get_rank(), []
    made = transpose(dist().get_world_size())
    if rank != 1:
        return with_out(made, rank, of_rank(made, rank))
    lock = locks[dist().group.WORLD.group_name] = WatchedLock()
    lock.acquire()
    thread = threading.Thread(target=lambda: found.append(with_out(made, rank, of_rank(made, rank))))
    thread.start()
    wait_for(lock.is_wanted)
    lock.release()
    thread.join()
    return found[0]


class WatchedLock:
    """A lock that says when a thread has to wait for it."""

    def __init__(self):
        self.lock, self.is_wanted, self.release = (lock := threading.Lock()), threading.Event(), lock.release

    def acquire(self, blocking=True):
        is_free = self.lock.acquire(blocking=False)
        if is_free or not blocking:
            return is_free
        self.is_wanted.set()
        return self.lock.acquire()


# ---- ranks that die, stay away or are interrupted --------------------------------------------------------------------


def one_dies(when, check, group):
    """Rank 1 ends before its call, or when it has packed a number of pieces."""
    rank = dist().get_rank(group)
    made = transpose(dist().get_world_size(group))
    if rank == 1:
        if when is None:
            os.kill(os.getpid(), signal.SIGKILL)
        end_after(when)
    return with_out(made, rank, of_rank(made, rank), group, max_bytes=200 * made.ranks, check=check)


def end_after(packed):
    from gpulayout.shards.messages import Message

    pack, left = Message.pack, [packed]

    @functools.wraps(pack)
    def pack_or_end(*arguments):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return pack(*arguments)

    Message.pack = pack_or_end


def one_stays_away(check, group):
    rank = dist().get_rank(group)
    made = transpose(dist().get_world_size(group))
    return None if rank == 1 else with_out(made, rank, of_rank(made, rank), group, check=check)


def one_is_interrupted(check):
    """Rank 0 waits for rank 1, which stays away, and gets Ctrl-C."""
    from gpulayout.shards.process_group import WAITER

    rank = dist().get_rank()
    made = transpose(dist().get_world_size())
    if rank:
        return None

    def interrupt():
        wait_until(lambda: any(thread.name == WAITER for thread in threading.enumerate()))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        made.run(of_rank(made, rank), check=check)
    except KeyboardInterrupt:
        return "interrupted"


def peak_memory(max_bytes):
    """Bytes that a run allocates at most, beside its buffers; and whether its result is right."""
    ranks, rank = dist().get_world_size(), dist().get_rank()
    rows = gl.Sharding.by_mesh("u8[1024,1024]", {"x": ranks}, ("x",))
    made = gl.exchange(rows, gl.Sharding.by_mesh("u8[1024,1024]{0,1:T(4)}", {"x": ranks}, (None, "x")))
    numbers = np.arange(1 << 20).reshape(1024, 1024) % 251
    buffer, expected = (buffer_of(side, rank, numbers) for side in (made.source, made.target))
    out = np.zeros_like(expected)
    made.run(buffer, out=out, max_bytes=max_bytes)
    tracemalloc.start()
    made.run(buffer, out=out, max_bytes=max_bytes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, out.tobytes() == expected.tobytes()
