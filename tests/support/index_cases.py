"""Index conversions for the kernels' own tests: all three directions over a padded or a tiled shape, with the
expected result.
"""

import dataclasses

import numpy as np

import gpulayout as gl
from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.runtime import Launch
from gpulayout.moves.index_program import IndexProgram, convert_program, delinearize_program, linearize_program
from tests import reference
from tests.support.kernel_cases import BLOCK, forced_bits, forced_part
from tests.support.simt.record import FRESH, Buffer, Record


@dataclasses.dataclass(frozen=True)
class IndexCase:
    """One conversion of every index of a shape, and of a last one that must be reported."""

    direction: str
    given: np.ndarray  # (count,) or (rank, count)
    program: IndexProgram
    expected: np.ndarray  # the result without its last column
    launch: Launch

    def record(self, text=None):
        """The launch, written down; the offender's word is the last buffer."""
        count, result_bytes = self.given.shape[-1], self.expected.dtype.itemsize
        rank = self.program.rank if self.direction == "delinearize" else 1
        given = Buffer(self.given.nbytes, content=self.given.tobytes(), writable=False)
        result, offender = Buffer(rank * count * result_bytes), Buffer(8, content=b"\xff" * 8)
        launch = self.launch
        return Record(
            text or kernel_text(launch.file),
            dict(launch.macros),
            launch.kernel,
            launch.grid,
            (BLOCK,),
            (given, result, offender, launch.parameters),
        )

    def is_right(self, buffers):
        """True when a run left the expected bytes: the last index gave only its position."""
        count = self.given.shape[-1]
        got = np.frombuffer(buffers[1], self.expected.dtype).reshape(-1, count)
        untouched = got[:, -1:].tobytes() == bytes([FRESH]) * got[:, -1:].nbytes
        return (
            np.array_equal(got[:, :-1], self.expected)
            and untouched
            and int.from_bytes(buffers[2], "little") == count - 1
        )


def index_cases(given_type=np.int32, result_type=np.int64, bits=32, low_digits=1):
    """All three directions over a padded shape and its column-major twin: 5 x 7 x 40, or 3 x 4 x 5 where 8 bits hold no
    more.

    bits, low_digits   as for `forced_bits` and `forced_part`
    """
    given_type, result_type = np.dtype(given_type), np.dtype(result_type)
    small = 1 in (given_type.itemsize, result_type.itemsize)
    sizes, widths = ((3, 4, 5), (4, 4, 6)) if small else ((5, 7, 40), (6, 7, 41))
    source = gl.Shape("u8", sizes, gl.Layout((2, 0, 1), padded_dimensions=widths))
    target = gl.Shape("u8", sizes, gl.Layout((0, 1, 2)))
    logical = np.indices(sizes).reshape(3, -1)
    in_source = np.array([widths[2], widths[2] * widths[0], 1]) @ logical
    in_target = np.array([1, sizes[0], sizes[0] * sizes[1]]) @ logical
    padding, too_large = sizes[2], [[0], [0], [sizes[2]]]  # what the last index is
    cases = {
        "linearize": (np.c_[logical, too_large], in_source[None], linearize_program(source)),
        "delinearize": (np.r_[in_source, padding], logical, delinearize_program(source)),
        "convert_linear": (np.r_[in_source, padding], in_target[None], convert_program(source, target)),
    }
    with forced_bits(bits), forced_part(low_digits):
        yield from _cases(cases, given_type, result_type)


def tiled_index_cases(given_type=np.int32, result_type=np.int64, bits=32):
    """All three directions over a layout whose tiles do not divide, and one whose tiles join dimensions.

    Both need numbers besides the coordinates, on the way there and on the way back.  The last index lies where a tile
    is filled up.
    """
    given_type, result_type = np.dtype(given_type), np.dtype(result_type)
    small = 1 in (given_type.itemsize, result_type.itemsize)
    sizes = (2, 3, 5) if small else (9, 5, 26)
    source = gl.Shape("u8", sizes, gl.Layout((2, 0, 1), tiles=[(3,), (2,)]))
    target = gl.Shape("u8", sizes, gl.Layout((1, 2, 0), tiles=[(2, "*", 4), (3,)]))
    logical = np.indices(sizes).reshape(3, -1)
    places = [numbers_of(shape).argsort(kind="stable")[-logical.shape[1] :] for shape in (source, target)]
    too_large = [[0], [0], [sizes[2]]]
    cases = {
        "linearize": (np.c_[logical, too_large], places[0][None], linearize_program(source)),
        "delinearize": (np.r_[places[0], 3], logical, delinearize_program(source)),
        "convert_linear": (np.r_[places[0], 3], places[1][None], convert_program(source, target)),
    }
    with forced_bits(bits):
        yield from _cases(cases, given_type, result_type)


def numbers_of(shape):
    """The reference's number in every place of a shape."""
    layout = shape.layout
    tiles = [[size if isinstance(size, int) else "*" for size in tile] for tile in layout.tiles]
    return reference.tiled_numbers(
        shape.dimensions, layout.minor_to_major, layout.padded_dimensions, tiles, layout.tail_padding_alignment
    )


def _cases(cases, given_type, result_type):
    for direction, (given, expected, program) in cases.items():
        launch = index_launch(
            program, given.shape[-1], "raise", (given_type.itemsize, given_type.kind == "i"), result_type.itemsize
        )
        yield IndexCase(direction, given.astype(given_type), program, expected.astype(result_type), launch)
