"""Moves of a whole array each, by which the kernels' instructions are counted: `python -m tests.support.sass`."""

from tests.support.kernel_cases import Case, backwards, move_of, transposed


def moves(width):
    """The moves of one element size, of about half a million elements each, and a small one."""
    name = {1: "u8", 2: "f16", 4: "f32", 8: "f64", 16: "c128"}[width]
    for case in [*tiles(width), *boxes(width), *rows(width), *others(width)]:
        yield Case(f"{name} {case.name}", case.move, case.source_phase, case.target_phase)


def tiles(width):
    yield Case("768x768 turned", transposed(width, (768, 768), (1, 0)))
    yield Case("16,48,704 turned, all partial", transposed(width, (16, 48, 704), (0, 2, 1)))
    yield Case("639x833 turned", transposed(width, (639, 833), (1, 0)))
    yield Case("1021x1019 turned", transposed(width, (1021, 1019), (1, 0)))
    yield Case("200,33,31 turned, all partial", transposed(width, (200, 33, 31), (0, 2, 1)))
    yield Case("1000x17 turned", transposed(width, (1000, 17), (1, 0)))


def boxes(width):
    yield Case("8,16^4 reversed", transposed(width, (8, 16, 16, 16, 16), backwards(5)))
    yield Case("8^6 reversed", transposed(width, (8,) * 6, backwards(6)))
    yield Case("2^18 reversed", transposed(width, (2,) * 18, backwards(18)))
    yield Case("3^11 reversed", transposed(width, (3,) * 11, backwards(11)))
    yield Case("100,50,7,7 to channels last", transposed(width, (100, 50, 7, 7), (0, 2, 3, 1)))
    yield Case("4^4 reversed, one block", transposed(width, (4,) * 4, backwards(4)))


def rows(width):
    for nbytes in (64, 256):
        run = nbytes // width
        yield Case(f"128,64 rows of {nbytes} bytes swapped", transposed(width, (128, 64, run), (1, 0, 2)))
    run = 256 // width
    yield Case("rows padded, shifted", move_of(width, [(run, run - 1, 1, 1), (4000, 4000, run - 1, run)]))


def others(width):
    yield Case("copied", transposed(width, (1 << 18,), (0,)))
    yield Case("pixels of 3 to planes", transposed(width, (1 << 16, 3), (1, 0)))
    yield Case("planes to pixels of 3", transposed(width, (3, 1 << 16), (1, 0)))
