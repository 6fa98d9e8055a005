"""Two memory maps of one file: different addresses, the same bytes.  Only overlap in the file is refused."""

import itertools
import mmap
import os
import tempfile

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.memory import shared_bytes
from gpulayout.memory.shared_bytes import by_file, listed_map, overlap_in_file

SOURCE, TARGET = "f32[2,3]{1,0}", "f32[2,3]{0,1}"
BYTES = 24  # size of a buffer of SOURCE or TARGET
REFUSAL = " and out overlap in the file that both map: out must be separate memory$"
PLACES = (0, 4, 20, 24, 28, 4096, 8192 - BYTES)

# Every public function with an `out` that is checked against an input: the dtype and shape of both, and the call.
DOORS = {
    "relayout": ("f4", (6,), "f4", (6,), lambda given, out: gl.relayout(given, SOURCE, TARGET, out=out), "buffer"),
    "plan": ("f4", (6,), "f4", (6,), lambda given, out: gl.plan(SOURCE, TARGET)(given, out=out), "buffer"),
    "pack": ("f4", (2, 3), "f4", (6,), lambda given, out: gl.pack(given, TARGET, out=out), "array"),
    "unpack": ("f4", (6,), "f4", (2, 3), lambda given, out: gl.unpack(given, TARGET, out=out), "buffer"),
    "relayout_many": (
        "f4",
        (6,),
        "f4",
        (6,),
        lambda given, out: gl.relayout_many([(given, SOURCE, TARGET)], out=[out]),
        "job 0: buffer",
    ),
    "linearize": ("i8", (2, 3), "i8", (3,), lambda given, out: gl.linearize(given, TARGET, out=out), "index"),
    "delinearize": ("i8", (3,), "i8", (2, 3), lambda given, out: gl.delinearize(given, TARGET, out=out), "linear"),
    "convert_linear": (
        "i8",
        (3,),
        "i8",
        (3,),
        lambda given, out: gl.convert_linear(given, SOURCE, TARGET, out=out),
        "linear",
    ),
}


@pytest.fixture(params=["the system's list of maps", "names"])
def map_source(request, monkeypatch):
    """Both ways to find the file behind an array: the system's list, and the names that `np.memmap` keeps."""
    if request.param == "names":
        monkeypatch.setattr(shared_bytes, "MAPS", os.devnull)
    elif not os.path.exists(shared_bytes.MAPS):
        pytest.skip("this system lists no maps")


@pytest.fixture
def listed(monkeypatch):
    if not os.path.exists(shared_bytes.MAPS):
        pytest.skip("this system lists no maps")


@pytest.fixture
def path(tmp_path):
    """A file of 8192 bytes, zeros."""
    path = tmp_path / "data"
    path.write_bytes(bytes(8192))
    return path


def at(path, offset, dtype="f4", shape=(6,), mode="r+"):
    return np.memmap(path, dtype, mode, offset, shape)


@pytest.mark.parametrize("door", DOORS)
def test_an_input_and_an_output_over_the_same_bytes_are_refused(door, path, map_source):
    given_dtype, given_shape, out_dtype, out_shape, call, role = DOORS[door]
    for offset in (0, 8, 16):
        given, out = at(path, 0, given_dtype, given_shape, "r"), at(path, offset, out_dtype, out_shape)
        out[...] = 0
        before = path.read_bytes()
        assert not np.may_share_memory(given, out)
        with pytest.raises(BufferError, match=f"^{role}{REFUSAL}"):
            call(given, out)
        assert path.read_bytes() == before


@pytest.mark.parametrize("door", DOORS)
def test_other_bytes_of_the_file_and_other_files_stay_allowed(door, path, tmp_path, map_source):
    given_dtype, given_shape, out_dtype, out_shape, call, _ = DOORS[door]
    other = tmp_path / "other"
    other.write_bytes(bytes(8192))
    given = at(path, 0, given_dtype, given_shape, "r")
    for out in (
        at(path, given.nbytes, out_dtype, out_shape),
        at(path, 8192 - 48, out_dtype, out_shape),
        at(other, 0, out_dtype, out_shape),
    ):
        out[...] = 77
        expected = call(np.array(given), np.empty(out_shape, out_dtype))
        assert call(given, out) is out or door == "relayout_many"
        np.testing.assert_array_equal(out, np.asarray(expected).reshape(out_shape))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("read_at, write_at", list(itertools.product(PLACES, PLACES)))
def test_exactly_the_same_bytes_overlap(read_at, write_at, path, map_source):
    given, out = at(path, read_at, mode="r"), at(path, write_at)
    assert overlap_in_file(np.asarray(given), np.asarray(out)) == (abs(read_at - write_at) < BYTES)


def views(memory):
    """Arrays over a map from byte 8 on: other types, slices, strides, reversed."""
    plain = np.asarray(memory)
    assert type(plain) is np.ndarray
    reverse = memory[8 : 8 + BYTES][::-1]
    return [
        memory[8 : 8 + BYTES],
        plain[8 : 8 + BYTES],
        memory.view(np.ndarray)[4:][4:][:BYTES],
        memory[8 : 8 + BYTES].reshape(2, 12).T,
        reverse,
        np.lib.stride_tricks.as_strided(plain[8:], (BYTES,), (1,)),
        gl.view(plain[8 : 8 + BYTES].view("f4"), TARGET),
    ]


@pytest.mark.parametrize("offset", [0, 12, 4096, 4100])
def test_views_of_maps_are_found_in_the_file(offset, path, map_source):
    """The map of an array can begin before the array; the base of a view can be the memmap or a view of it."""
    for given in views(at(path, offset, "u1", (64,), "r")):
        for where, overlaps in (
            (8, True),
            (8 + BYTES - 1, True),
            (8 + BYTES, False),
            (8 - BYTES, False),
            (8 - BYTES + 1, True),
        ):
            if offset + where >= 0:
                out = at(path, offset + where, "u1", (BYTES,))
                assert overlap_in_file(np.asarray(given), np.asarray(out)) == overlaps, (given.shape, where)


def test_an_output_that_is_a_view_is_refused_too(path, map_source):
    given, whole = at(path, 8, mode="r"), at(path, 0, "u1", (64,))
    for out in [
        *views(whole)[:3],
        np.asarray(whole)[4:][4:][:BYTES],
        np.lib.stride_tricks.as_strided(whole[8:], (BYTES,), (1,)),
    ]:
        with pytest.raises(BufferError, match=f"^buffer{REFUSAL}"):
            gl.relayout(given, SOURCE, TARGET, out=out.view("f4"))


@pytest.mark.parametrize(
    "read, write, refused",
    [
        ("r", "r+", True),
        ("r+", "r+", True),
        ("c", "r+", True),
        ("r", "c", False),
        ("r+", "c", False),
        ("c", "c", False),
    ],
)
def test_copy_on_write_maps(read, write, refused, path, map_source):
    """Writes to such a map stay private; reads come from the file until the page is written."""
    at(path, 0)[:] = range(6)
    given, out = at(path, 0, mode=read), at(path, 0, mode=write)
    if refused:
        with pytest.raises(BufferError, match=f"^buffer{REFUSAL}"):
            gl.relayout(given, SOURCE, TARGET, out=out)
    else:
        assert gl.relayout(given, SOURCE, TARGET, out=out).tolist() == [0, 3, 1, 4, 2, 5]
    assert at(path, 0).tolist() == [0, 1, 2, 3, 4, 5] == given.tolist()


def test_another_name_of_the_file_hides_nothing(path, tmp_path, map_source):
    hard, soft = tmp_path / "hard", tmp_path / "soft"
    hard.hardlink_to(path)
    soft.symlink_to(path)
    for one, other in itertools.permutations((path, hard, soft), 2):
        assert overlap_in_file(np.asarray(at(one, 0, mode="r")), np.asarray(at(other, 0)))


def test_a_file_that_was_removed_is_still_the_same_file(path, map_source):
    given, out = at(path, 0, mode="r"), at(path, 0)
    path.unlink()
    assert overlap_in_file(np.asarray(given), np.asarray(out))


def test_a_file_that_took_the_name_of_another_is_another_file(path, tmp_path, listed):
    given = at(path, 0, mode="r")
    (tmp_path / "new").write_bytes(bytes(8192))
    os.replace(tmp_path / "new", path)
    assert not overlap_in_file(np.asarray(given), np.asarray(at(path, 0)))


def test_maps_without_a_name_are_known_from_the_systems_list(listed):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(8192))
        file.flush()
        memmap = np.memmap(file, "f4", "r+", shape=(6,))
        bare = mmap.mmap(file.fileno(), 0)
        arrays = [
            memmap,
            np.frombuffer(bare, "f4", 6),
            np.frombuffer(memoryview(bare), "f4", 6),
            np.ndarray((6,), "f4", bare),
        ]
        for given, out in itertools.permutations(arrays, 2):
            if not np.may_share_memory(given, out):
                with pytest.raises(BufferError, match=f"^buffer{REFUSAL}"):
                    gl.relayout(given, SOURCE, TARGET, out=out)
        assert overlap_in_file(arrays[1], np.asarray(memmap))


def test_a_map_that_was_resized_and_moved_is_found_again(path, listed):
    with open(path, "r+b") as file:
        bare = mmap.mmap(file.fileno(), 4096)
    barrier = mmap.mmap(-1, 1 << 22)  # takes the addresses below, so that growing has to move the map
    out = np.asarray(at(path, 0))
    assert overlap_in_file(np.frombuffer(bare, "f4", 6), out) and not overlap_in_file(
        np.frombuffer(bare, "f4", 6, 24), out
    )
    bare.resize(1 << 23)
    assert overlap_in_file(np.frombuffer(bare, "f4", 6), out) and not overlap_in_file(
        np.frombuffer(bare, "f4", 6, 24), out
    )
    barrier.close()


def test_the_systems_list_is_read_line_by_line(tmp_path, monkeypatch):
    """Adjacent maps of one file are one entry; an entry of inode 0 belongs to no file."""
    (tmp_path / "maps").write_bytes(
        b"1000-3000 r--s 00005000 fd:01 77 /data with spaces\n3000-4000 rw-p 00000000 00:00 0 \n"
        b"7f0000000000-7f0000001000 rw-p 00001000 00:2a 77 /other (deleted)\n"
    )
    monkeypatch.setattr(shared_bytes, "MAPS", tmp_path / "maps")
    starts = (0xFFF, 0x1000, 0x2000, 0x3000, 0x4000, 0x7F0000000000)
    assert {start: listed_map(start) for start in starts} == {
        0xFFF: None,
        0x1000: (0x1000, 0x5000, (b"fd:01", b"77"), True),
        0x2000: (0x2000, 0x6000, (b"fd:01", b"77"), True),
        0x3000: None,
        0x4000: None,
        0x7F0000000000: (0x7F0000000000, 0x1000, (b"00:2a", b"77"), False),
    }


def test_a_map_is_looked_up_once(path, monkeypatch, listed):
    opened = []

    class CountedPath:
        def __fspath__(self, path=shared_bytes.MAPS):
            opened.append(path)
            return path

    monkeypatch.setattr(shared_bytes, "MAPS", CountedPath())
    given, out = at(path, 0, mode="r"), at(path, 4096)
    for _ in range(3):
        gl.relayout(given, SOURCE, TARGET, out=out)
        gl.relayout(given[:], SOURCE, TARGET, out=np.asarray(out)[:])
    assert len(opened) == 2


def test_anonymous_memory_overlaps_with_nothing(path, map_source):
    bare = [np.frombuffer(mmap.mmap(-1, 4096), "f4") for _ in range(2)]
    private = (
        np.frombuffer(mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), "f4")
        if hasattr(mmap, "MAP_PRIVATE")
        else bare[0]
    )
    everything = [*bare, private, np.zeros(6, "f4"), np.zeros((2, 6), "f4")[0], np.asarray(at(path, 0))]
    assert not any(overlap_in_file(given, out) for given, out in itertools.permutations(everything, 2))


def test_empty_arrays_overlap_with_nothing(path, map_source):
    whole = np.asarray(at(path, 0))
    assert not overlap_in_file(whole[3:3], whole) and not overlap_in_file(whole, np.asarray(at(path, 0))[3:3])


# ---- many jobs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, outs, message",
    [
        ([0, 24], [48, 16], "^job 1: buffer and out overlap in the file that both map: out must be separate memory$"),
        ([0, 24], [72, 4], "^job 1: buffer and out overlap in the file"),
        (
            [0, 24],
            [48, 0],
            "^buffer of job 0 and out of job 1 overlap in the file that both map: "
            "out of job 1 must be separate memory$",
        ),
        (
            [0, 24],
            [28, 96],
            "^buffer of job 1 and out of job 0 overlap in the file that both map: "
            "out of job 0 must be separate memory$",
        ),
        (
            [0, 24],
            [48, 68],
            "^out of job [01] and out of job [01] overlap in the file that both map: "
            "out of job [01] must be separate memory$",
        ),
        ([0, 0], [48, 72], None),
        ([0, 12], [36, 4096], None),
        ([0, 24], [None, 68], None),
    ],
)
def test_overlap_between_jobs_of_a_list_is_found(given, outs, message, path, map_source):
    jobs = [(at(path, offset, mode="r"), SOURCE, TARGET) for offset in given]
    out = [None if offset is None else at(path, offset) for offset in outs]
    if message:
        with pytest.raises(BufferError, match=message):
            gl.relayout_many(jobs, out=out)
    else:
        gl.relayout_many(jobs, out=out)


def test_private_outputs_of_a_list_may_be_the_same_bytes_of_a_file(path, map_source):
    jobs = [(np.arange(6, dtype="f4") + number, SOURCE, TARGET) for number in range(3)]
    out = [at(path, 0, mode=mode) for mode in ("c", "r+", "c")]
    for number, result in enumerate(gl.relayout_many(jobs, out=out)):
        assert result.tolist() == [number + value for value in (0, 3, 1, 4, 2, 5)]


def test_files_are_kept_apart(path, tmp_path, map_source):
    other = tmp_path / "other"
    other.write_bytes(bytes(8192))
    arrays = [
        np.asarray(at(path, 0)),
        np.asarray(at(other, 0)),
        np.zeros(6),
        np.asarray(at(path, 24)),
        np.asarray(at(other, 8)),
    ]
    assert [(numbers, low, high) for numbers, low, high in by_file(arrays, 3)] == [
        ([0, 3], [0, 24], [24, 48]),
        ([1, 4], [0, 8], [24, 32]),
    ]
    assert by_file(arrays, 5) == [] == by_file(arrays[:1], 0)


# ---- cost ----------------------------------------------------------------------------------------------------


@pytest.fixture
def no_look_up(monkeypatch, path):
    """Looking a map up raises TypeError."""
    monkeypatch.setattr(shared_bytes, "MAPS", None)
    with pytest.raises(TypeError):
        overlap_in_file(np.asarray(at(path, 0, mode="r")), np.asarray(at(path, 0)))


@pytest.mark.parametrize(
    "given, out",
    [
        (np.zeros(6, "f4"), np.zeros(6, "f4")),
        (np.zeros((2, 6), "f4")[0], np.zeros((2, 6), "f4")[1]),
        (np.zeros((2, 6), "f4")[0], np.zeros(12, "f4")[6:]),
    ],
)
def test_plain_arrays_are_never_looked_up(given, out, monkeypatch, no_look_up):
    monkeypatch.setattr("gpulayout.arrays.arrays.overlap_in_file", None)
    gl.relayout(given, SOURCE, TARGET, out=out)
    gl.relayout_many([(given, SOURCE, TARGET)], out=[out])


def test_a_single_map_is_never_looked_up(path, no_look_up):
    for given, out in ((at(path, 0, mode="r"), np.zeros(6, "f4")), (np.zeros(6, "f4"), at(path, 0))):
        gl.relayout(given, SOURCE, TARGET, out=out)
        gl.relayout_many([(given, SOURCE, TARGET)], out=[out])
