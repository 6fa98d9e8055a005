"""Generated code finds every element where the library and the reference find it."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.codegen import code_parts
from tests.support import generated_code
from tests.support.generated_code import check, compiled, in_python, random_shapes

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = pytest.mark.parametrize("compiler", generated_code.COMPILERS)
# Linear indices past 2^31, with the bits in which the code can hold them.
LARGE = {
    "u8[20000,9,50000,7]": (64,),
    "u8[5,9,11,7,4,3000,1000,10]{0,1,3,2,5,4,7,6}": (64,),
    "u8[3000,3000000]{1,0:T(8,128)}": (64,),
    "u8[70000,70001]{0,1:T(5,3)(2)}": (64,),
    "u8[70001,70001]{1,0:T(*,7)(3)}": (64,),
    "u8[641,6700417]": (64,),  # the last place is 2^32
    "u8[70000,7001,11]{0,2,1:T(2,*,7)(3)}": (64,),
    "u8[50000,70001]{0,1:PD(60001,70001)T(12,8)}": (32, 64),
    "u8[3,1000000007]": (32, 64),
    "u8[<=3000000000]{0:PD(4000000000)}": (32, 64),
    "u8[2,4611686018427387903]{1,0}": (64,),
    "u8[9223372036854775807]": (64,),
}


@pytest.fixture(autouse=True)
def _needs_its_compiler(request):
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("compiler")
    if name and (problem := generated_code.missing(name)):
        pytest.skip(problem)


# ---- every place -------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@COMPILER
@pytest.mark.parametrize("bits", [32, 64])
def test_compiled_code_finds_every_element(compiler, bits, tmp_path):
    beyond = [0, 1, 2, 1000, 2**31, 2**32 - 20_000] + [2**32, 2**62] * (bits == 64)
    shapes = random_shapes()
    codes = compiled(shapes, compiler, tmp_path, bits=bits)
    assert sum(check(shape, code, beyond) for shape, code in zip(shapes, codes)) > 8000


def test_python_code_finds_every_element():
    shapes = random_shapes()
    assert sum(check(shape, code, [0, 1, 2**40]) for shape, code in zip(shapes, in_python(shapes))) > 8000


def test_the_random_layouts_have_everything_that_a_table_can_have():
    tables = [gl.stride_table(shape) for shape in random_shapes()]
    assert len(tables) > 50
    assert sum(bool(table.numbers) for table in tables) > 10 and sum(table.is_strided for table in tables) > 10
    assert sum(len(digits) > 1 for table in tables for digits in table.numbers) > 2
    assert sum(shape.layout.tail_padding_alignment > 1 for shape in random_shapes()) > 5


def large_indices(shape):
    """Some logical indices of a large shape, of shape (rank, n): its ends, and random ones."""
    rng, sizes = np.random.default_rng(1), np.array(shape.bounds)[:, None]
    return np.concatenate([0 * sizes, sizes - 1, sizes // 2, rng.integers(0, sizes, (shape.rank, 500))], axis=1)


def large_shapes(bits):
    """The large shapes whose linear indices fit, with random ones of 64 bits."""
    named = [gl.parse_shape(text) for text, widths in LARGE.items() if bits in widths]
    return named if bits == 32 else [*named, *generated_code.random_large_shapes()]


@pytest.mark.one_in(2)
@COMPILER
def test_large_layouts_are_right_at_their_ends(compiler, tmp_path):
    for bits in (32, 64):
        shapes = large_shapes(bits)
        for shape, code in zip(shapes, compiled(shapes, compiler, tmp_path, bits=bits)):
            check_large(shape, code)


def check_large(shape, code):
    index = large_indices(shape)
    places = [gl.linearize(tuple(map(int, point)), shape) for point in index.T]
    assert code.offset(index).tolist() == places, shape
    truth, back = code.index(np.array(places, np.uint64))
    assert truth.all() and np.array_equal(back, index), shape
    around = {place + step for place in places[:3] for step in (-1, 1, 2, 5)}
    around = [place for place in around if 0 <= place < shape.buffer_size]
    table, (truth, _) = gl.stride_table(shape), code.index(np.array(around, np.uint64))
    assert truth.tolist() == [table.is_element(place) for place in around], shape


def test_python_code_takes_ints_and_arrays_of_any_wide_integer():
    names = {}
    exec(gl.code("bf16[16,256]{1,0:T(8,128)(2,1)}", "python"), names)
    assert names["layout_offset"](9, 130) == 3077 and names["layout_index"](3077) == (True, 9, 130)
    assert names["layout_index"](-1)[0] is False and names["layout_index"](4096)[0] is False
    for dtype in (np.int32, np.int64, np.uint64):
        truth, *index = names["layout_index"](np.arange(4096, dtype=dtype).reshape(64, 64))
        assert truth.all() and truth.shape == (64, 64)
        assert np.array_equal(names["layout_offset"](*index), np.arange(4096).reshape(64, 64))
    names = {}
    exec(gl.code("f32[1,3]{0,1:PD(1,4)}", "python", name="it"), names)
    assert np.array_equal(names["it_index"](np.arange(4))[1], [0, 0, 0, 0])  # an array, though always 0
    assert [names[f"it_{each}"] for each in ("rank", "dimensions", "element_count", "buffer_size")] == [2, (1, 3), 3, 4]


# ---- packed elements ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["u4[3,5]{0,1:E(4)}", "u2[9]{0:T(4)E(2,big)}", "u1[3,11]{1,0:E(1)}", "u1[9]{0:E(1,big)}"]
)
def test_load_gives_the_bits_of_a_packed_element(text):
    shape, names = gl.parse_shape(text), {}
    exec(gl.code(shape, "python"), names)
    values = np.random.default_rng(0).integers(0, 2**shape.bits_per_element, shape.dimensions, np.uint8)
    buffer = gl.pack(values, shape)
    index = np.indices(shape.dimensions)
    assert np.array_equal(names["layout_load"](buffer, names["layout_offset"](*index)), values)
    formula = re.search(r"return (buffer.*)", gl.code(shape, "python"))[1]
    assert f"return (unsigned char)({formula.replace('//', '/')});" in gl.code(shape, "c")
    assert "* 1" not in formula
    assert "load" not in gl.code(shape.with_layout(None), "c")


# ---- the text ----------------------------------------------------------------------------------------------------


def test_the_text_is_the_same_in_every_process():
    program = (
        "import sys, gpulayout as gl\n"
        "for language in ('cuda', 'c', 'python'):\n"
        "    for shape in sys.argv[1:]: print(gl.code(shape, language))"
    )
    shapes = ["f32[9,5,26]{2,1,0:T(*,4)(3)}", "bf16[16,256]{1,0:T(8,128)(2,1)}", "u8[7,5,9,11]"]
    texts = [
        subprocess.run(
            [sys.executable, "-c", program, *shapes],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1] and texts[0].count("offset") > 9


@pytest.mark.parametrize("language", ["cuda", "c", "python"])
def test_the_text_is_short_and_begins_with_the_shape_and_a_worked_example(language):
    for shape in random_shapes():
        text = gl.code(shape, language)
        head = " ".join(line.lstrip("/# ") for line in text.splitlines()[:6])
        assert head.startswith(f"{shape}: ")
        if shape.element_count:
            last = tuple(size - 1 for size in shape.dimensions)
            assert f"offset({', '.join(map(str, last))}) is {gl.linearize(last, shape)}, and " in head
        assert max(map(len, text.splitlines())) <= max(120, len(str(shape)) + 20), text
        assert not re.search(r"(?m)(index_t\*?|=|\bconst)$", text), text  # a name stands on the line of its type
        assert len(text.splitlines()) <= 22 + 8 * shape.rank + 4 * len(gl.stride_table(shape).numbers)


def test_an_untiled_dimension_is_one_multiplication_and_the_outermost_remainder_is_left_out():
    for language in ("cuda", "c", "python"):
        assert "return i0 * 495 + i1 * 99 + i2 * 11 + i3" in gl.code("u8[7,5,9,11]", language)
    text = gl.code("u8[7,5,9,11]", "c")
    assert "%" not in text and text.count(" / ") == 3
    assert "*out0 = linear / 128 % 8 + linear / 2048 * 8;" in gl.code("f32[16,256]{1,0:T(8,128)}")


def test_the_width_is_that_of_the_reach():
    def width(shape, **options):
        return 64 if "unsigned long long" in gl.code(shape, "c", **options) else 32

    assert width("u8[2147483647]") == 32 and width("u8[2147483648]") == 64
    assert width("u8[3,3]{1,0:T(65536,65536)}") == 64  # nine elements that are far apart
    assert width("u8[4294967295]", bits=32) == 32 and width("u8[3]", bits=64) == 64
    cannot = r"^bits 32 cannot hold the numbers of u8\[4294967296\]\{0\}, which reach 4294967296"
    with pytest.raises(gl.LayoutError, match=cannot):
        gl.code("u8[4294967296]", "c", bits=32)
    assert "static constexpr index_t size0 = 3000000000;" in gl.code("u8[3000000000]", bits=32)


# ---- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a b", "a;", "é", "a\n", "a_", "_a", "a__b", "int", "class", "lambda", "restrict", "blockIdx", "x" * 41]
    + ["offset", "index", "index_t", "size0", "rank", "element_count", "a::b", "a/*", 'a"'],
)
def test_names_that_would_break_a_kernel_are_refused(name):
    with pytest.raises(ValueError, match="^name .* cannot name generated code: ") as error:
        gl.code("f32[2]", name=name)
    assert not isinstance(error.value, gl.LayoutError)


@pytest.mark.parametrize("name", ["a", "A1", "tiles_of_8", "x" * 40])
def test_other_names_prefix_everything(name):
    for language in ("c", "python"):
        text = gl.code("f32[2,3]", language, name=name)
        defined = re.findall(r"(?m)^(?:#define |typedef unsigned int |static inline \w+ |def |(?=\w+ = ))(\w+)", text)
        assert len(defined) >= 6 and all(each.startswith(f"{name}_") for each in defined), defined
    assert re.findall(r"(?m)^\w+ (\w+)", gl.code("f32[2,3]", name=name)) == [name]


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="language 'rust' is not one of 'cuda', 'c', 'python'"):
        gl.code("f32[2]", "rust")
    with pytest.raises(ValueError, match="bits 16 is not 32 or 64"):
        gl.code("f32[2]", bits=16)
    with pytest.raises(ValueError, match="bits 32 is for CUDA and C"):
        gl.code("f32[2]", "python", bits=32)
    with pytest.raises(TypeError, match="name 3 cannot name generated code: it is an int, not a str"):
        gl.code("f32[2]", name=3)
    with pytest.raises(TypeError, match="shape must be a Shape or its text"):
        gl.code([2, 3])
    with pytest.raises(gl.LayoutError, match="dimension 1 is unbounded"):
        gl.code("f32[2,?]")
    with pytest.raises(gl.LayoutError, match="has 128 dimensions: 127 is the limit for generated code"):
        gl.code(gl.Shape("f32", (1,) * 128))


@COMPILER
def test_the_most_dimensions_compile(compiler, tmp_path):
    shape = gl.Shape("u8", (1, 2) * 6 + (1,) * 115)
    (code,) = compiled([shape], compiler, tmp_path)
    index = np.array([(0, bit) for bit in (1, 0, 1, 1, 0, 1)]).reshape(-1).tolist() + [0] * 115
    assert code.offset(np.array(index)[:, None]).tolist() == [0b101101]
    truth, back = code.index(np.array([0b101101, 64]))
    assert truth.tolist() == [True, False] and back[:, 0].tolist() == index


def test_the_program_of_the_documentation_runs(tmp_path):
    if problem := generated_code.missing("C99"):
        pytest.skip(problem)
    page = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
    (tmp_path / "main.c").write_text(re.search(r"```c\n(.*?)```", page, flags=re.DOTALL)[1])
    (tmp_path / "padded.h").write_text(gl.code("f32[2,3]{0,1:PD(3,5)}", "c", name="padded"))
    subprocess.run(["gcc", "-std=c99", *generated_code.WARNINGS, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[:3] == ["0: (0,0) 0", "1: (1,0) 10", "3: (0,1) 1"]
    assert len(printed.splitlines()) == 6


# ---- broken generators -------------------------------------------------------------------------------------------

# A fault in code_parts.py, and the shapes that show it: random ones in Python, or large ones in C.
TWINS = {
    "a sign lost": ("{'-' if part.weight < 0 else '+'}", "+", "python"),
    "no bounds": ("if name in sums and step.bound]", "if False]", "python"),
    "a weight lost": ("if abs(part.weight) != 1 else", "if abs(part.weight) > 2 else", "python"),
    "another modulus": ("part = part._replace(modulus=modulus)", "part = part._replace(modulus=modulus + 1)", "python"),
    "a remainder of anything": ("is_remainder = other ==", "is_remainder = other.weight < 0 or other ==", "python"),
    "a shared quotient of another divisor": ('text = f"{part.name}_by_{part.divisor}"', "text = part.name", "python"),
    "64 bits divided as 32": ("(size - 1) // below < _UINT32_VALUES", "True", "c"),
    "a number thought smaller": ("1 + sum((sizes", "1 - sum((sizes", "c"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_generator_is_caught(twin, monkeypatch, tmp_path):
    old, new, where = TWINS[twin]
    source = pathlib.Path(code_parts.__file__).read_text()
    assert source.count(old) == 1
    broken = {"__name__": code_parts.__name__}
    exec(compile(source.replace(old, new), code_parts.__file__, "exec"), broken)
    monkeypatch.setattr(code_parts, "body_of", broken["body_of"])
    with pytest.raises((AssertionError, NameError)):
        if where == "python":
            for shape, code in zip(random_shapes(), in_python(random_shapes())):
                check(shape, code, [0, 1])
        else:
            for bits in (32, 64):
                shapes = large_shapes(bits)
                for shape, code in zip(shapes, compiled(shapes, "C99", tmp_path, bits=bits)):
                    check_large(shape, code)
