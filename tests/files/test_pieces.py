"""Arrays in pieces of several files: the bytes that NumPy gives, for every nest of runs and whatever is asked for."""

import contextlib
import itertools
import math
import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.cpu import native
from gpulayout.files import engine, strided_runs
from gpulayout.files.errors import FileError
from gpulayout.files.npy import Header
from gpulayout.files.pieces import FilePiece, Pieces
from gpulayout.files.strided_runs import Nest, move_nest
from gpulayout.moves.runs import Runs
from tests.support.effort import examples

# Of the buffer, the gaps that are read, and long runs: small ones, so that short arrays are moved in every way.
SIZES = [(1 << 18, 1 << 11, 1 << 16), (100, 30, 60), (7, 3, 5), (1000, 0, 1), (64, 1000, 1 << 16)]


def sized(sizes):
    return patch.multiple(strided_runs, SCRATCH=sizes[0], SIEVE=sizes[1], LONG=sizes[2])


def pieces_of(segments):
    nbytes = sum(piece.runs.nbytes for segment in segments for piece in segment)
    return Pieces(Header("w", np.dtype(np.uint8), (nbytes,), False, "its shape"), tuple(map(tuple, segments)))


def places_by_law(segments):
    """Of each byte of the array: the file, and where it lies there."""
    found = []
    for segment in segments:
        starts = [piece.runs.starts().tolist() for piece in segment]
        for row in itertools.zip_longest(*starts):
            for piece, start in zip(segment, row):
                if start is not None:
                    found += [(piece.stream, start + byte) for byte in range(piece.runs.length)]
    return found


def read(pieces, starts, length):
    memory = np.full(len(starts) * length + 1, 77, np.uint8)
    pieces.read_runs(memory.data[:-1] if length else memory.data, np.array(starts, np.int64), length)
    assert memory[-1] == 77
    return memory[:-1]


@st.composite
def nests(draw, counts, offset):
    """Runs at places of a file that no others share: loops with and without gaps, in both directions; and their end."""
    length = draw(st.sampled_from([0, 1, 2, 3, 4, 8, 12, 40]))
    size, loops, low = length, [], 0
    for count in reversed(counts):
        stride = size + draw(st.sampled_from([0, 0, 0, 1, 2, 30]))
        size, backwards = size + (count - 1) * stride, draw(st.booleans()) and draw(st.booleans())
        loops.insert(0, (count, -stride if backwards else stride))
        low += (count - 1) * stride if backwards else 0
    return Runs(offset + low, length, tuple(loops)), offset + size


@st.composite
def arrays(draw):
    """Segments whose files are numbers, some of which are alike, and the sizes of the files."""
    segments, ends = [], [draw(st.integers(0, 9)), draw(st.integers(0, 9))]
    for _ in range(draw(st.integers(0, 3))):
        counts = draw(st.lists(st.sampled_from([1, 2, 3, 7]), max_size=2))
        segment = []
        for _ in range(draw(st.integers(1, 3))):
            file = draw(st.integers(0, 1))
            runs, ends[file] = draw(nests(counts, ends[file] + draw(st.sampled_from([0, 0, 5]))))
            segment.append((file, runs))
        shifts = [draw(st.sampled_from([0, 0, 1]))] * 4
        members = [segment]
        for shift in shifts[: draw(st.sampled_from([0, 0, 1, 4]))]:
            jump = max(ends) - min(FilePiece(None, "", runs).span[0] for _, runs in segment) + shift
            members.append([(file, runs._replace(offset=runs.offset + jump)) for file, runs in members[-1]])
            ends = [end + jump for end in ends]
        segments += members
    return segments, ends


@st.composite
def asked(draw, nbytes):
    """Runs of one length that do not overlap, in any order, mostly at equal distances."""
    length = draw(st.integers(1, min(nbytes, draw(st.sampled_from([4, 60, 1 << 20])))))
    distance = length + draw(st.sampled_from([0, 0, 1, 16, 100]))
    starts = range(draw(st.integers(0, nbytes - length)), nbytes - length + 1, distance)
    return draw(st.sampled_from([starts, starts[:9], starts[::-1], [*starts[::3], *starts[1::3]]])), length


@contextlib.contextmanager
def files_of(folder, ends):
    """Two open files of random bytes, and the bytes."""
    contents = [np.random.default_rng(end).integers(0, 255, end, np.uint8, endpoint=True) for end in ends]
    with contextlib.ExitStack() as stack:
        streams = []
        for number, content in enumerate(contents):
            (folder / str(number)).write_bytes(content.tobytes())
            streams.append(stack.enter_context(open(folder / str(number), "r+b", buffering=0)))
        yield streams, contents


@pytest.mark.parametrize("native_engine", [False, True])
@settings(max_examples=examples(100))
@given(data=st.data())
def test_every_byte_is_read_and_written_where_the_law_says(tmp_path_factory, native_engine, data):
    drawn, ends = data.draw(arrays())
    with files_of(tmp_path_factory.mktemp("pieces"), ends) as (streams, contents), native.chosen(native_engine):
        segments = [[FilePiece(streams[file], "w", runs) for file, runs in segment] for segment in drawn]
        pieces, law = pieces_of(segments), places_by_law(segments)
        array = np.array([contents[streams.index(file)][place] for file, place in law], np.uint8)
        with sized(data.draw(st.sampled_from(SIZES))):
            assert np.array_equal(read(pieces, [0], array.size), array)
            if not array.size:
                return
            starts, length = data.draw(asked(array.size))
            index = np.add.outer(np.array(starts, np.int64), np.arange(length)).reshape(-1)
            assert np.array_equal(read(pieces, starts, length), array[index])
            news = np.arange(index.size, dtype=np.uint8) + 1
            pieces.write_runs(memoryview(news.tobytes()), np.array(starts, np.int64), length)
        for place, new in zip(index.tolist(), news):
            file, offset = law[place]
            contents[streams.index(file)][offset] = new
        for stream, content in zip(streams, contents):
            assert np.array_equal(np.fromfile(stream.name, np.uint8), content)


def test_any_of_the_runs_may_lie_in_a_piece(tensors):
    parts = [tensors(offset, (7, 1), np.uint8) for offset in (0, 7)]
    pieces, content = pieces_of([[part.piece(1) for part in parts]]), np.hstack([part.array for part in parts])
    for chosen in itertools.product([0, 1], repeat=7):
        starts = [2 * row + column for row, column in enumerate(chosen)]
        assert np.array_equal(read(pieces, starts, 1), content.reshape(-1)[starts])
        content.reshape(-1)[starts] += 1
        pieces.write_runs(memoryview(content.reshape(-1)[starts].tobytes()), np.array(starts), 1)
        assert np.array_equal(read(pieces, [0], 14), content.reshape(-1))


def test_neighbours_in_a_file_are_one_piece_only_where_all_their_runs_are(tensors):
    part = tensors(0, (8,), np.uint8)
    for loops in (((2, 2),), ((2, -2),)):
        pair = [FilePiece(part.stream, "w", Runs(2, 2, ((2, -2),))), FilePiece(part.stream, "w", Runs(4, 2, loops))]
        assert read(pieces_of([pair]), [0], 8).tolist() == [part.array[place] for _, place in places_by_law([pair])]


# ---- what becomes of tensors -----------------------------------------------------------------------------------------


class TensorInFile:
    """A tensor in C order: its elements, and its runs."""

    def __init__(self, folder, name, offset, dtype, dimensions):
        self.array = np.arange(1, 1 + math.prod(dimensions), dtype=dtype).reshape(dimensions) * (offset + 1)
        self.offset, self.name = offset, name
        (folder / name).write_bytes(bytes(offset) + self.array.tobytes() + b"behind")
        self.stream = open(folder / name, "r+b", buffering=0)

    def piece(self, axis, begin=0, end=None, step=1):
        """A run for each row before an axis, of the indices `begin` to `end` of the axis."""
        rows = math.prod(self.array.shape[:axis])
        inner = self.array.itemsize * math.prod(self.array.shape[axis + 1 :])
        whole = inner * self.array.shape[axis]
        length = inner * (self.array.shape[axis] if end is None else end) - inner * begin
        runs = Runs(self.offset + inner * begin, length, ((rows, whole),))
        return FilePiece(self.stream, f"{self.name}: w", runs)

    def every(self, axis, begin, step):
        """Every so many indices of an axis."""
        rows, count = math.prod(self.array.shape[:axis]), len(range(begin, self.array.shape[axis], step))
        inner = self.array.itemsize * math.prod(self.array.shape[axis + 1 :])
        loops = ((rows, inner * self.array.shape[axis]), (count, inner * step))
        return FilePiece(self.stream, f"{self.name}: w", Runs(self.offset + inner * begin, inner, loops))

    def flipped(self, axes):
        """Parts of the first axes in reverse order."""
        count = math.prod(self.array.shape[:axes])
        size = self.array.nbytes // count
        return FilePiece(
            self.stream, f"{self.name}: w", Runs(self.offset + (count - 1) * size, size, ((count, -size),))
        )


@pytest.fixture
def tensors(tmp_path):
    """Opens tensors in files of their own."""
    opened = []

    def tensor(offset, dimensions, dtype=np.uint16):
        opened.append(TensorInFile(tmp_path, str(len(opened)), offset, dtype, dimensions))
        return opened[-1]

    yield tensor
    for each in opened:
        each.stream.close()


def check(segments, array):
    """The array, whole and in runs of any length."""
    pieces, content = pieces_of(segments), np.frombuffer(array.tobytes(), np.uint8)
    for length in {1, 2, 3, 16, 50, content.size // 2, content.size - 1, content.size} & {*range(1, content.size + 1)}:
        starts = np.arange(0, content.size - length + 1, max(length // 2, 1))
        index = np.add.outer(starts, np.arange(length)).reshape(-1)
        assert np.array_equal(read(pieces, starts, length), content[index]), length


@pytest.fixture(params=SIZES)
def sizes(request):
    with sized(request.param):
        yield


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.complex128])
def test_a_join_is_concatenate(tensors, sizes, axis, dtype):
    shapes = [[3, 4, 5] for _ in range(3)]
    for size, shape in zip((2, 7, 1), shapes):
        shape[axis] = size
    parts = [tensors(offset, shape, dtype) for offset, shape in zip((0, 3, 128), shapes)]
    segment = [part.piece(axis) for part in parts]
    check([[piece] for piece in segment] if axis == 0 else [segment], np.concatenate([p.array for p in parts], axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_in_turns_is_a_stack_behind_the_axis(tensors, sizes, axis):
    parts = [tensors(offset, (3, 4, 5)) for offset in (0, 7)]
    array = np.stack([part.array for part in parts], axis + 1)
    check([[part.piece(axis + 1) if axis < 2 else part.every(2, 0, 1) for part in parts]], array)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("begin, end", [(0, 2), (2, 4), (1, 4), (0, 0)])
def test_a_cut_is_a_slice(tensors, sizes, axis, begin, end):
    part = tensors(5, (6, 4, 7))
    check([[part.piece(axis, begin, end)]], part.array[(slice(None),) * axis + (slice(begin, end),)])


@pytest.mark.parametrize("axis, begin, step", [(0, 1, 3), (1, 0, 2), (2, 3, 4)])
def test_every_so_many_is_a_slice_with_a_step(tensors, sizes, axis, begin, step):
    part = tensors(5, (6, 4, 7))
    check([[part.every(axis, begin, step)]], part.array[(slice(None),) * axis + (slice(begin, None, step),)])


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_flip_is_a_flip(tensors, sizes, axes):
    part = tensors(5, (6, 4, 7))
    check([[part.flipped(axes)]], np.flip(part.array, tuple(range(axes))))


def test_a_stack_of_joins_of_cuts(tensors, sizes):
    """Members at equal distances and elsewhere, of two parts each."""
    parts = [[tensors(offset, (4, 6)), tensors(offset + 2, (4, 3))] for offset in (0, 9, 100, 4, 4)]
    segments = [[left.piece(1, 2, 5), right.piece(1)] for left, right in parts]
    check(segments, np.stack([np.concatenate([left.array[:, 2:5], right.array], 1) for left, right in parts]))


def test_experts_that_one_file_has_in_any_order(tensors, sizes):
    file = tensors(3, (7, 5, 4))
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [1, 3, 5], [5, 0, 6, 2], [4]):
        pieces = [FilePiece(file.stream, f"w{number}", Runs(3 + 40 * number, 40)) for number in order]
        check([[piece] for piece in pieces], file.array[order])


# ---- what the system is asked for ------------------------------------------------------------------------------------


def calls_for(loops, length, pitch, sizes, *, writes=False):
    """The runs of each call, and their bytes, that moves runs to or from memory where they are `pitch` bytes apart."""
    count, calls = math.prod(count for count, _ in loops), []
    memory = np.zeros((count, pitch), np.uint8)[:, :length].reshape(1, 1, *[count for count, _ in loops], length)
    nest = Nest(None, np.array([[1 << 20]]), loops, length)
    with sized(sizes):
        move_nest(nest, memory, lambda *call: calls.append((len(call[1]), call[2].size, call[3])), writes=writes)
    assert all(nbytes == runs * each for nbytes, runs, each in calls)
    return [(runs, each) for _, runs, each in calls]


@pytest.mark.parametrize("loops", [((1000, 8),), ((1000, -8),), ((50, 160), (20, 8))])
@pytest.mark.parametrize("writes", [False, True])
def test_runs_without_gaps_are_moved_together_within_the_memory_of_the_buffer(loops, writes):
    assert calls_for(loops, 8, 9, SIZES[0], writes=writes) == [(1, 8000)]
    bounded = calls_for(loops, 8, 9, (800, 10, 100), writes=writes)
    assert max(each for _, each in bounded) <= 800 and len(bounded) <= 13 and {runs for runs, _ in bounded} == {1}


@pytest.mark.parametrize("stride", [24, -24])
def test_gaps_are_read_where_they_are_short_and_never_written(stride):
    assert calls_for(((100, stride),), 8, 9, (1 << 18, 24, 100)) == [(1, 2384)]
    assert calls_for(((100, stride),), 8, 9, (1 << 18, 23, 100)) == [(100, 8)]
    assert calls_for(((100, stride),), 8, 8, (1 << 18, 23, 100)) == [(100, 8)]
    assert calls_for(((100, stride),), 8, 9, (1 << 18, 24, 100), writes=True) == [(100, 8)]
    assert calls_for(((10, 1000), (10, stride)), 8, 9, (1 << 18, 24, 100)) == [(10, 224)]
    assert calls_for(((100, 100),), 8, 9, (80, 24, 100)) == [(10, 8)] * 10
    assert calls_for(((100, stride),), 8, 9, (80, 24, 100)) == [(1, 80)] * 25


def test_long_runs_go_straight_to_memory():
    assert calls_for(((5, 100),), 100, 101, (1 << 18, 24, 100)) == [(1, 100)] * 5
    assert calls_for(((5, 100),), 100, 100, (1 << 18, 24, 100)) == [(5, 100)]
    assert calls_for(((5, 99),), 99, 101, (1 << 18, 24, 100)) == [(1, 495)]


# ---- as blocks are moved ---------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    memory=st.sampled_from([1 << 13, 1 << 15, 1 << 20]), pairs=st.integers(1, 2), pattern=st.sampled_from(["ij", "ji"])
)
@example(memory=1 << 13, pairs=1, pattern="ij")
def test_blocks_move_from_pieces_to_pieces(tmp_path_factory, memory, pairs, pattern):
    folder = tmp_path_factory.mktemp("blocks")
    left, right = (TensorInFile(folder, name, 128, np.uint16, (60, size)) for name, size in (("a", 50), ("b", 31)))
    target = TensorInFile(folder, "out", 10, np.uint16, (60, 81) if pattern == "ij" else (81, 60))
    plan = gl.plan("u16[60,81]", "{1,0}" if pattern == "ij" else "{0,1}")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [each.stream.close() for each in (left, right, target)])
        source = pieces_of([[left.piece(1), right.piece(1)]])
        blocks = plan.blocks(memory)
        engine.move_jobs(
            engine.jobs_of(blocks, source, pieces_of([[target.flipped(1)]])), lambda more: None, pairs=pairs
        )
    joined = np.concatenate([left.array, right.array], 1)
    expected = np.flip(joined if pattern == "ij" else joined.T, 0)
    assert (folder / "out").read_bytes() == bytes(10) + expected.tobytes() + b"behind"


def test_threads_read_at_the_same_time(tensors):
    parts = [tensors(offset, (3000, size)) for offset, size in ((0, 5), (6, 2))]
    pieces = pieces_of([[part.piece(1) for part in parts]])
    content = np.concatenate([part.array for part in parts], 1).tobytes()
    asked_for = [(start, min(997, len(content) - start)) for start in range(0, len(content), 400)]
    with ThreadPoolExecutor(8) as threads, sized((500, 100, 400)):
        found = [*threads.map(lambda part: read(pieces, part[:1], part[1]).tobytes(), asked_for)]
    assert found == [content[start : start + length] for start, length in asked_for]


def test_the_files_of_the_pieces_are_listed_once(tensors):
    parts = [tensors(0, (2, 2)), tensors(0, (2, 2))]
    pieces = pieces_of([[part.piece(1) for part in parts], [parts[0].piece(0)]])
    assert pieces.streams == (parts[0].stream, parts[1].stream) and pieces.stream is None


# ---- files that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native_engine", [False, True])
@pytest.mark.parametrize("row", [2, 3000, 70_000])
def test_a_file_that_becomes_shorter_is_an_error_with_its_tensor_and_numbers(tensors, native_engine, row):
    parts = [tensors(offset, (3, row), np.uint8) for offset in (0, 8)]
    pieces = pieces_of([[part.piece(1) for part in parts]])
    os.truncate(parts[1].stream.name, 3 * row + 7)
    says = rf"w: the file has become shorter .* it has {3 * row + 7} bytes, but its shape needs {3 * row + 8}$"
    with native.chosen(native_engine), pytest.raises(FileError, match=says) as caught:
        read(pieces, [0], 6 * row)
    assert str(caught.value).startswith("1: ")
    read(pieces, [0], 3 * row)


@pytest.mark.parametrize("native_engine", [False, True])
def test_errors_of_the_system_name_the_tensor(tensors, native_engine):
    parts = [tensors(0, (3, 2), np.uint8), tensors(8, (3, 4), np.uint8)]
    with open(parts[1].stream.name, "rb", buffering=0) as stream, native.chosen(native_engine):
        pieces = pieces_of([[parts[0].piece(1), parts[1].piece(1)._replace(stream=stream)]])
        with pytest.raises(OSError, match="1: w"):
            pieces.write_runs(memoryview(bytes(18)), np.array([0]), 18)


def test_pieces_that_are_no_array_are_refused(tensors):
    part, other = tensors(0, (3, 2)), tensors(0, (2, 2))
    with pytest.raises(ValueError, match="w: pieces of 20 bytes are not an array of 20"):
        pieces_of([[part.piece(1), other.piece(1)]])
    with pytest.raises(ValueError, match="w: pieces of 12 bytes are not an array of 13"):
        Pieces(Header("w", np.dtype(np.uint8), (13,), False), ((part.piece(1),),))
