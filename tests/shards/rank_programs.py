"""What ranks of a process group do in tests: each function runs in a process of its own, see `gloo_ranks`."""

import functools
import itertools
import os
import random
import signal
import sys
import threading
import tracemalloc

import numpy as np

import gpulayout as gl
from tests.support import random_shardings
from tests.support.waiting import wait_for, wait_until


def dist():
    """torch.distributed, which this file does not import: the process of the tests need not."""
    return sys.modules["torch.distributed"]


def torch():
    return sys.modules["torch"]


# ---- exchanges by the dozen ------------------------------------------------------------------------------------------


def random_exchanges(seed, count):
    """Run exchanges between any number of ranks: what is wrong with the first that is, or how many pieces came here."""
    rank, most = dist().get_rank(), dist().get_world_size()
    groups = [dist().new_group([*range(size)]) for size in range(1, most + 1)]
    rng, own, pieces = random.Random(seed), random.Random(f"{seed} {rank}"), 0
    cases = (random_shardings.drawn_case("on a group", seed, number) for number in itertools.count())
    fitting = (case for case in cases if ranks_of(case) <= most and not case.first_missing())
    for number, case in enumerate(itertools.islice(fitting, count)):
        ranks, options = ranks_of(case), {"max_bytes": rng.choice((None, "64M", 0, 0, 0)), "check": rng.random() < 0.5}
        if rank >= ranks:
            continue
        made = case.exchange()
        if options["max_bytes"] == 0:  # as little as can be, or a little more
            busiest = max(len(made.sends(k)) + len(made.receives(k)) for k in range(ranks))
            options["max_bytes"] = 32 * (busiest + number % 5)
        if wrong := run_case(case, made, groups[ranks - 1], own, options):
            return f"case {number}, rank {rank}, {options}: {wrong}\n{case}"
        limit = None if options["max_bytes"] == "64M" else options["max_bytes"]
        pieces += sum(len(each.receives) for each in made.rounds(rank, limit))
    return pieces


def ranks_of(case):
    return max(case.source.ranks, case.target.ranks)


def run_case(case, made, group, own, options):
    """What is wrong with the result of a case; None for nothing."""
    rank = dist().get_rank(group)
    buffer, out = (side[rank] if rank < len(side) else None for side in (case.buffers(), case.outs()))
    if buffer is not None and own.random() < 0.3:
        buffer.setflags(write=False)
    if own.random() < 0.4:
        buffer, out = as_tensor(buffer), as_tensor(out)
    if own.random() < 0.5:
        out = None
    found = made.run(buffer, group, out=out, **options)
    if out is not None and found is not out:
        return "another array than out"
    if rank >= case.target.ranks:
        return None if found is None else "an array for a rank without one"
    expected_type = random_shardings.cases.kept_dtype(shard) if (shard := case.target.shards[rank]) else None
    if isinstance(found, torch().Tensor):
        found = np.frombuffer(bytes_of(found), expected_type)
    return None if case.is_result(rank, found) else f"wrong bytes {found}"


def as_tensor(array):
    """The same bytes as a tensor, if PyTorch has their type."""
    kind = array is not None and getattr(torch(), array.dtype.name, None)
    return torch().from_numpy(array.copy().view(np.uint8)).view(kind) if kind else array


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


def buffer_of(side, rank, numbers):
    """What a rank holds: its box of an array of small whole numbers, which every type has."""
    box, shard = side.boxes[rank], side.shards[rank]
    if box is None:
        return None
    part = np.asarray(numbers[tuple(slice(*cut) for cut in box)]).astype(side.shape.dtype)
    return gl.pack(part, shard)


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
    "an out that is not an array": lambda buffer: (buffer, {"out": "x"}),
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


def without_a_group():
    dist().destroy_process_group()
    try:
        transpose(1).run(of_rank(transpose(1), 0))
    except gl.LayoutError as error:
        return str(error)


def wrong_arguments():
    """The errors of arguments that are wrong on their face, in a group of one."""
    made, found = transpose(1), []
    buffer = of_rank(made, 0)
    for arguments, options in (((buffer, "gloo"), {}), ((buffer,), {"check": "no"}), ((buffer,), {"out": [1]})):
        try:
            made.run(*arguments, **options)
        except (TypeError, BufferError) as error:
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
        after_packing(when, lambda: os.kill(os.getpid(), signal.SIGKILL))
    return with_out(made, rank, of_rank(made, rank), group, max_bytes=200 * made.ranks, check=check)


def after_packing(pieces, function):
    """Call a function of this process when it is to pack one more piece than these."""
    from gpulayout.shards.messages import Message

    pack, left = Message.pack, [pieces]

    @functools.wraps(pack)
    def pack_or_call(*arguments):
        left[0] -= 1
        if left[0] < 0:
            function()
        return pack(*arguments)

    Message.pack = pack_or_call


def one_stays_away(check, group):
    rank = dist().get_rank(group)
    made = transpose(dist().get_world_size(group))
    return None if rank == 1 else with_out(made, rank, of_rank(made, rank), group, check=check)


def one_differs_unchecked(group):
    """Rank 1 cuts its messages into other pieces, and nobody checks that."""
    rank = dist().get_rank(group)
    made = transpose(dist().get_world_size(group))
    max_bytes = 320 if rank else 640
    return with_out(made, rank, of_rank(made, rank), group, max_bytes=max_bytes, check=False)


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


def one_is_interrupted_on_the_way(check):
    """Rank 1 gets Ctrl-C when it has packed its first piece."""
    rank, made = dist().get_rank(), transpose(dist().get_world_size())
    if rank == 1:
        after_packing(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        return with_out(made, rank, of_rank(made, rank), max_bytes=200 * made.ranks, check=check)[0]
    except KeyboardInterrupt:
        return "interrupted"


class Interrupting:
    """A buffer at which Ctrl-C arrives when it is looked at."""

    @property
    def __array_interface__(self):
        raise KeyboardInterrupt


def one_is_interrupted_before_it_agrees(heard):
    """Rank 1 gets Ctrl-C and goes on with something else until rank 0 has heard of it."""
    rank = dist().get_rank()
    made = transpose(dist().get_world_size())
    if rank == 0:
        found = with_out(made, rank, of_rank(made, rank))
        heard.touch()
        return found
    try:
        made.run(Interrupting())
    except KeyboardInterrupt:
        wait_until(heard.exists)
        return "interrupted"


def a_lost_transfer():
    """Two transfers whose connection is closed: one never ends, and one has ended before that was asked."""
    from gpulayout.shards import process_group

    process_group.SECONDS, process_group.GRACE, found = 0.01, 0.2, []
    for has_ended in (False, True):
        waiter, end = process_group.Waiter(), threading.Event()
        waiter.wait_for(process_group.Transfer(end, 0, False, None))

        def is_lost(has_ended=has_ended, end=end):
            if has_ended:
                end.set()
            return True

        try:
            waiter.next(is_lost)
            found.append("ended")
        except RuntimeError as error:
            found.append(str(error))
    return found


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
