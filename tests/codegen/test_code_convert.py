"""`convert` of a plan's generated code gives what the exact model says, in every language."""

import re
import subprocess

import numpy as np
import pytest

import gpulayout as gl
from tests.support import generated_code
from tests.support.generated_convert import FUSING, casts, compiled_c, in_python, with_steps

C_COMPILERS = pytest.mark.parametrize("compiler", ["C99", "C as C++"])
CASES = pytest.mark.parametrize("cases", [casts, with_steps])
LANGUAGES = ("cuda", "c", "python")


@pytest.mark.one_in(4)
@C_COMPILERS
@CASES
def test_c_converts_as_the_model_does(compiler, cases, tmp_path):
    if problem := generated_code.missing(compiler):
        pytest.skip(problem)
    listed = cases()
    results = compiled_c(listed, compiler, tmp_path)
    assert sum(case.check(result()) for case, result in zip(listed, results)) > 9000


@CASES
def test_python_converts_as_the_model_does(cases):
    assert sum(case.check(in_python(case)) for case in cases()) > 9000


# ---- what the tests must catch -----------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "right, wrong, cases",
    [
        ("volatile float y", "float y", with_steps),
        ("(low ? 0x800 : 0)", "0", casts),
        ("code & 1", "1", casts),
        ("code & 1", "0", casts),
        ("field < 1", "field < 0", casts),
        ("x != x ? 0 : ", "", casts),
    ],
)
def test_a_law_that_is_broken_in_c_is_found(right, wrong, cases, tmp_path):
    if problem := generated_code.missing("C as C++"):
        pytest.skip(problem)
    if "volatile" in right and not can_fuse():
        pytest.skip("this processor has no fused multiplication and addition")
    chosen = [case for case in cases() if right in gl.code(case.plan, "c")][:12]

    results = compiled_c(chosen, "C as C++", tmp_path, lambda text: text.replace(right, wrong))
    assert any(fails(case, result()) for case, result in zip(chosen, results))


def fails(case, found):
    try:
        case.check(found)
    except AssertionError:
        return True
    return False


def can_fuse():
    asked = subprocess.run(["g++", *FUSING, "-dM", "-E", "-x", "c++", "/dev/null"], capture_output=True, text=True)
    return bool(re.search(r"__FMA__|__ARM_FEATURE_FMA|__FP_FAST_FMA ", asked.stdout))


# ---- the text ----------------------------------------------------------------------------------------------------

MEANS, PIXELS = np.array([0.485, 0.456, 0.406]), "u8[2,4,3]{2,1,0}"


def functions(plan, name="it"):
    found = {}
    exec(gl.code(plan, "python", name=name), found)
    return {key.removeprefix(f"{name}_"): value for key, value in found.items() if key.startswith(f"{name}_")}


def test_offsets_and_convert_together_do_what_the_plan_does():
    plan = gl.plan(PIXELS, "{1,0,2:PD(2,5,3)T(2,2)}", dtype="bf16", unit=True, mean=MEANS, std=0.25)
    it = functions(plan)
    pixels = np.arange(24, dtype=np.uint8) * 10
    index = np.indices((2, 4, 3)).reshape(3, -1)
    out = np.zeros(plan.target.buffer_size, np.uint16)
    out[it["target_offset"](*index)] = it["convert"](pixels[it["source_offset"](*index)], MEANS[index[2]])
    assert np.array_equal(out, plan(pixels).view(np.uint16))


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_arithmetic_there_is_no_convert(language):
    text = gl.code(gl.plan("f32[2,3]", "{0,1:PD(3,5)}"), language)
    assert text.splitlines()[0].lstrip("/# ") == "f32[2,3]{1,0} to f32[2,3]{0,1:PD(3,5)}."
    assert "convert" not in text and "GPL" not in text and "import" not in text
    assert text.count("offset(") >= 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_both_sides_have_the_code_of_their_shapes(language):
    plan = gl.plan("f32[30,300]{1,0:T(8,128)}", "{0,1:PD(32,300)}", dtype="f16")
    text = "\n".join(line.strip() for line in gl.code(plan, language, name="it").splitlines())
    for side, shape in (("source", plan.source), ("target", plan.target)):
        single = gl.code(shape, language, name=side if language == "cuda" else f"it_{side}")
        body = single[single.index("struct" if language == "cuda" else f"it_{side}_rank") :]
        assert "\n".join(line.strip() for line in body.splitlines()) in text


def test_both_sides_have_indices_of_the_same_width():
    wide = gl.plan("u8[3,3]", "{1,0:T(65536,65536)}")
    assert gl.code(wide, "c").count("typedef unsigned long long") == 2
    assert gl.code(wide, "cuda").count("typedef unsigned long long index_t") == 2
    with pytest.raises(gl.LayoutError, match="bits 32 cannot hold"):
        gl.code(wide, bits=32)


def test_numbers_of_a_plan_are_constants_and_arrays_are_arguments():
    plan = gl.plan(PIXELS, "{1,0,2}", dtype="f32", unit=True, mean=MEANS, std=0.1)
    for text in (gl.code(plan, "c"), gl.code(plan)):
        assert "convert(unsigned char x, float mean) {" in text
        assert "const float unit = 255.0f;" in text and "const float std = 0.100000001f;" in text
        assert "(x / unit - mean) / std, each step rounded to f32, and the result to f32." in text
        assert "mean: for element (i0, i1, ...) of the source, number i2 of the array that the plan took." in text
    blocks = gl.plan("s8[4,256]", "{1,0}", dtype="bf16", scale=np.ones((2, 2)), zero_point=np.ones((4, 1), int))
    text = gl.code(blocks, "c")
    assert "convert(signed char x, float scale, float zero_point) {" in text
    assert "(x - zero_point) * scale" in text
    assert "number i0 / 2 * 2 + i1 / 128 of" in text
    assert "zero_point: for element (i0, i1, ...) of the source, number i0 of" in text
    cut = gl.plan("f8e4m3fn[576,300]", "F", dtype="bf16", scale=np.ones((5, 3)), block=128)
    assert "number i0 / 128 * 3 + i1 / 128 of the array that the plan took" in gl.code(cut).replace("\n// ", " ")


@pytest.mark.parametrize("number", [0.1, -1e-40, 3e38, 16777217, 1 / 3, -0.0, 2.0**-149])
def test_constants_are_exact(number, tmp_path):
    for kind, target in (("f32", np.float32), ("f64", np.float64)):
        plan = gl.plan(f"{kind}[2]", "{0}", scale=number, shift=0)
        literal = re.search(r"scale = (\S+?)f?;", gl.code(plan, "c"))[1]
        found, wanted = target(literal), target(number)
        assert found.tobytes() == wanted.tobytes()
        in_python = re.search(r"y \* (np\.\w+\(.*\))", gl.code(plan, "python"))[1]
        assert eval(in_python).tobytes() == wanted.tobytes()


def test_python_takes_numbers_arrays_and_codes():
    plan = gl.plan("u8[4]", "{0}", dtype="f16", scale=[1.0, 2.0, 3.0, 4.0], shift=-1)
    convert = functions(plan)["convert"]
    assert convert(3, 2) == np.float16(5) and type(convert(3, 2)) is np.float16
    assert convert([[1], [2]], [1, 2, 3]).tolist() == [[0, 1, 2], [1, 3, 5]]
    back = functions(gl.plan("bf16[4]", "{0}", dtype="s4"))["convert"]
    ones = np.array([1, -1], gl.ElementType.BF16.dtype)
    assert back(ones).tolist() == back(ones.view(np.uint16)).tolist() == back([0x3F80, 0xBF80]).tolist() == [1, 15]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_cannot_be_converted_is_named(language):
    with pytest.raises(TypeError, match="^convert from c64 to c128: .* the code of a plan from f32 to f64$"):
        gl.code(gl.plan("c64[2]", "{0}", dtype="c128"), language)
    with pytest.raises(gl.LayoutError, match="^scale is inf: generated code has finite constants$"):
        gl.code(gl.plan("f32[2]", "{0}", scale=np.inf), language)
    for name in ("source", "target", "convert"):
        assert gl.code("f32[2]", language, name=name)
        with pytest.raises(ValueError, match=f"^name '{name}' cannot .* one of its members has that name$"):
            gl.code(gl.plan("f32[2]", "{0}"), language, name=name)


@pytest.mark.parametrize("cases", [casts, with_steps])
def test_lines_are_short(cases):
    for case in cases():
        for language in LANGUAGES:
            text = gl.code(case.plan, language, name="x" * 40)
            own = text[text.rindex("#endif") :] if language == "cuda" else text
            assert max(map(len, own.splitlines())) <= 130
