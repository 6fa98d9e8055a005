"""Generated code, compiled for this machine's CPU and called on arrays of indices.

All shapes of a test go into one translation unit: C as C99 or as C++, and CUDA as C++ without its qualifiers.
"""

import ctypes
import functools
import hashlib
import math
import random
import shutil
import subprocess
import types

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from tests.support import strategies
from tests.support.effort import examples
from tests.support.index_cases import numbers_of

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wpedantic", "-Werror")
# The language of the code, and how it is compiled.
COMPILERS = {
    "C99": ("c", ("gcc", "-std=c99", "-x", "c")),
    "C as C++": ("c", ("g++", "-std=c++11", "-x", "c++")),
    "CUDA": ("cuda", ("g++", "-std=c++17", "-x", "c++", "-D__host__=", "-D__device__=", "-D__forceinline__=inline")),
}
# What no random layout is sure to have.
SPECIAL = (
    "f32[]",
    "f32[]{:T(4)}",
    "f32[0,3]",
    "f32[0,3]{0,1:PD(2,3)}",
    "f32[3,0]{1,0:T(2,2)}",
    "f32[1,1,1]",
    "f32[1,5]{0,1:PD(3,5)}",
    "f32[<=5,3]{0,1}",
    "s4[3,5]{1,0:E(4)}",
    "u1[9]{0:T(4)L(32)E(1)}",
    "f32[6]{0:T(3)(2)}",
    "f32[6]{0:T(4)L(16)}",
    "bf16[16,256]{1,0:T(8,128)(2,1)}",
    "f32[30,300]{1,0:T(8,128)}",
    "f32[9,5,26]{2,1,0:T(*,4)(3)}",
    "f32[9,5,26]{1,2,0:T(2,*,4)(3)}",
    "u8[7,5,9,11]",
    "u8[2,2,2,2,2,2,2,2,2,2,2,2]{0,2,4,6,8,10,1,3,5,7,9,11}",
)


@functools.cache
def random_shapes():
    """Shapes in any layout that places elements, with at most 10,000 places; the special ones first."""
    found = []

    @settings(max_examples=examples(120), phases=[Phase.generate], database=None)
    @given(st.data())
    def draw(data):
        sizes = data.draw(strategies.dimensions(max_rank=5, max_elements=400))
        shape = gl.Shape("u8", sizes, data.draw(strategies.tiled_layouts(sizes)))
        if shape.buffer_size <= 10_000:
            found.append(shape)

    draw()
    return (*map(gl.parse_shape, SPECIAL), *dict.fromkeys(found))


@functools.cache
def random_large_shapes(count=60):
    """Tiled shapes with linear indices past 2^32, in any order and padding."""
    rng, found = random.Random(0), []
    while len(found) < count:
        sizes = [rng.choice((1, 3, 5, 70, 999, 1024, 65536, 70001, 10**6)) for _ in range(rng.randint(2, 5))]
        tiles = [
            (*(rng.choice((1, 2, 3, 7, 8, 128, "*")) for _ in range(rng.randint(0, 2))), rng.choice((2, 5, 6, 128)))
            for _ in range(rng.randint(1, 3))
        ]
        widths = [size + rng.choice((0, 0, 1, 5)) for size in sizes]
        layout = gl.Layout(rng.sample(range(len(sizes)), len(sizes)), padded_dimensions=widths, tiles=tiles)
        if math.prod(widths) < 2**50 and gl.Shape("u8", sizes, layout).buffer_size > 2**32:
            found.append(gl.Shape("u8", sizes, layout))
    return tuple(found)


def missing(compiler):
    """The reason why code cannot be compiled here, or None."""
    command = COMPILERS[compiler][1][0]
    return None if shutil.which(command) else f"no compiler: {command} is not on the PATH"


def compiled(shapes, compiler, folder, change=lambda text: text, **options):
    """For every shape an object with `offset` and `index` of its code.

    offset(index)   (rank, n) -> (n,)
    index(linear)   (n,) -> truth of shape (n,), index of shape (rank, n)

    change     what is done to each text first
    """
    language, command = COMPILERS[compiler]
    dot = "::" if language == "cuda" else "_"
    texts = [change(gl.code(shape, language, name=f"L{n}", **options)) for n, shape in enumerate(shapes)]
    callers = [_callers(f"L{n}", dot, shape.rank) for n, shape in enumerate(shapes)]
    unit = "\n".join([*texts, *_within_c(command[0], ["typedef unsigned long long wide;", *callers])])
    # a library of the same name would not be loaded again
    name = hashlib.sha256(f"{compiler} {unit}".encode()).hexdigest()[:20]
    source, library = folder / f"{name}.txt", folder / f"{name}.so"
    source.write_text(unit)
    done = subprocess.run(
        [*command, *WARNINGS, "-O1", "-fPIC", "-shared", str(source), "-o", str(library)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:3000]
    loaded = ctypes.CDLL(str(library))
    return [_functions(loaded, f"L{n}", shape.rank) for n, shape in enumerate(shapes)]


def in_python(shapes, **options):
    """The same as `compiled`, of the code in Python."""
    found = []
    for shape in shapes:
        names = {}
        exec(gl.code(shape, "python", name="it", **options), names)

        def index(linear, names=names, rank=shape.rank):
            truth, *coordinates = names["it_index"](linear)
            return truth, np.array(coordinates, np.int64).reshape(rank, len(linear))

        found.append(types.SimpleNamespace(offset=lambda at, names=names: names["it_offset"](*at), index=index))
    return found


@functools.cache
def expected(shape):
    """(logical indices of all elements, their places, the number of the element in every place or -1).

    Places are the library's, numbers the reference's.
    """
    numbers = numbers_of(shape)
    logical = np.indices(shape.bounds).reshape(shape.rank, shape.element_count)
    places = gl.linearize(logical, shape) if shape.element_count else np.empty(0, np.int64)
    assert np.array_equal(numbers[places], np.arange(shape.element_count)), shape
    return logical, places, numbers


def check(shape, code, beyond):
    """Compare with the library and with the reference, in every place; `beyond` are places past the end.

    Returns the number of elements found.
    """
    logical, places, numbers = expected(shape)
    if shape.element_count:
        assert np.array_equal(np.broadcast_to(code.offset(logical), places.shape), places), shape
    truth, index = code.index(np.arange(shape.buffer_size))
    assert np.array_equal(truth, numbers >= 0), shape
    assert np.array_equal(index[:, numbers >= 0], logical[:, numbers[numbers >= 0]]), shape
    if shape.rank and shape.buffer_size:
        marked = gl.delinearize(np.arange(shape.buffer_size), shape, padding="mark")
        assert np.array_equal(np.where(truth, index, -1), marked), shape
    assert not np.any(code.index(shape.buffer_size + np.array(beyond, np.int64))[0]), shape
    return int(np.count_nonzero(truth))


# ---- callers of one shape's functions --------------------------------------------------------------------------


def _within_c(command, lines):
    return ['extern "C" {', *lines, "}"] if command == "g++" else lines


def _callers(name, dot, rank):
    """Functions over arrays: C cannot be called from Python when it is inline."""
    number = f"{name}{dot}index_t"
    given = ", ".join(f"({number})given[{dim} * count + n]" for dim in range(rank))
    results = "".join(f"{number} out{dim} = 0; " for dim in range(rank))
    pointers = "".join(f", &out{dim}" for dim in range(rank))
    writes = " ".join(f"result[{dim} * count + n] = out{dim};" for dim in range(rank))
    return f"""
void {name}_offsets(const wide* given, long count, wide* result);
void {name}_offsets(const wide* given, long count, wide* result) {{
  (void)given;
  for (long n = 0; n < count; ++n) result[n] = {name}{dot}offset({given});
}}
void {name}_indices(const wide* linear, long count, unsigned char* truth, wide* result);
void {name}_indices(const wide* linear, long count, unsigned char* truth, wide* result) {{
  (void)result;
  for (long n = 0; n < count; ++n) {{
    {results}
    truth[n] = {name}{dot}index(({number})linear[n]{pointers}) ? 1 : 0;
    {writes}
  }}
}}"""


def _functions(library, name, rank):
    def offset(index):
        given = np.ascontiguousarray(index, np.uint64)
        result = np.empty(given.shape[-1], np.uint64)
        getattr(library, f"{name}_offsets")(_pointer(given), ctypes.c_long(result.size), _pointer(result))
        return result

    def index(linear):
        given = np.ascontiguousarray(linear, np.uint64)
        truth, result = np.empty(given.size, np.uint8), np.empty((rank, given.size), np.uint64)
        getattr(library, f"{name}_indices")(
            _pointer(given), ctypes.c_long(given.size), _pointer(truth), _pointer(result)
        )
        return truth.astype(bool), result.astype(np.int64)

    return types.SimpleNamespace(offset=offset, index=index)


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)
