"""Errors that people meet first: what is almost a layout, a type, a keyword or a number, and what to write instead."""

import math
import pickle

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays.library import RequiresGrad, TracedArray
from gpulayout.files.errors import FileError, OutputExistsError
from gpulayout.moves.blocks import NoSmallerBlock
from tests.support.model_files import model

X, LINE = np.arange(20, dtype=np.float32).reshape(4, 5), np.arange(20, dtype=np.float32)


# ---- layouts -----------------------------------------------------------------------------------------------------

LAYOUTS = {
    "{1,0:T[8,128]}": "expected '(' (write T(8,128)), at character 6 ('[') of '{1,0:T[8,128]}'",
    "{1,0:PD[8,128]}": "expected '(' (write PD(8,128)), at character 7 ('[') of '{1,0:PD[8,128]}'",
    "{1,0:T[8,{2}]}": "expected '(' (write T(...)), at character 6 ('[') of '{1,0:T[8,{2}]}'",
    "{1 0}": "expected '}' (commas separate dimension numbers, as in {1,0}), at character 3 ('0') of '{1 0}'",
    "T(8,128)": "; tiles follow the order and a colon: write '{1,0:T(8,128)}' if the array has 2 dimensions in C order",
    "t(8)(2)": "; tiles follow the order and a colon: write '{1,0:T(8)(2)}' if the array has 2 dimensions in C order",
    "T(2,*,128)": "write '{2,1,0:T(2,*,128)}' if the array has 3 dimensions in C order",
    **dict.fromkeys(["Fortran", "fortran order", "column-major", "col_major", "F-order"], "; write 'F'"),
    **dict.fromkeys(["row-major", "Row Major", "C order", "c_contiguous", "descending"], "; write 'C'"),
}


@pytest.mark.parametrize("text", LAYOUTS)
def test_what_is_almost_a_layout_says_what_to_write(text):
    for call in (lambda: gl.pack(X, text), lambda: gl.plan("f32[4,5]", text), lambda: gl.relayout(X, "C", text)):
        with pytest.raises(gl.ShapeTextError) as caught:
            call()
        assert str(caught.value).endswith(LAYOUTS[text])


@pytest.mark.parametrize("text, order", [("Fortran", "ascending"), ("row-major", "descending"), ("F", "ascending")])
def test_words_for_orders_are_answered_where_a_layout_is_read(text, order):
    with pytest.raises(gl.ShapeTextError, match=rf"'{text}' is not a layout: write gl.Layout.{order}\(rank\), or its"):
        gl.parse_layout(text)
    with pytest.raises(gl.ShapeTextError, match=r"tiles follow the order and a colon: write '\{1,0:T\(8,128\)\}' if "):
        gl.parse_layout("t(8,128)")


def test_the_suggested_texts_are_layouts():
    assert gl.plan("f32[4,5]", "{1,0:T(8)(2)}").target.layout.tiles and gl.parse_layout("{2,1,0:T(2,*,128)}").tiles


# ---- element types -----------------------------------------------------------------------------------------------

TYPES = {
    "f23": "'f16', 'f32' or 'f64'",
    "float31": "'f16', 'f32' or 'f64'",
    "flaot32": "'f32'",
    "fp16": "'f16'",
    "unit8": "'u8'",
    "bf61": "'bf16'",
    "bflaot16": "'bf16'",
    "complex46": "'c64' or 'c128'",
    "bolean": "'pred'",
    "doubel": "'f64'",
}


@pytest.mark.parametrize("word", TYPES)
def test_a_type_that_is_misspelt_is_answered_with_those_that_are_near(word):
    for call in (lambda: gl.parse_shape(f"{word}[4,5]"), lambda: gl.pack(X, "C", dtype=word)):
        with pytest.raises((TypeError, gl.ShapeTextError)) as caught:
            call()
        assert f"(did you mean {TYPES[word]}?)" in str(caught.value)


@pytest.mark.parametrize("word", ["nonsense", "x32", "float_", "zz", "token1"])
def test_a_word_that_is_near_no_type_gets_no_hint(word):
    with pytest.raises(gl.ShapeTextError) as caught:
        gl.parse_shape(f"{word}[4,5]")
    assert "did you mean" not in str(caught.value)


# ---- keywords ----------------------------------------------------------------------------------------------------

OUT = "out belongs to the call that moves, as in plan(buffer, out=out)"
LIMIT, CHUNKS = (
    "max_bytes is for gl.relayout, plans and gl.relayout_file",
    "chunk_size is for pack, unpack and relayout",
)
KEYWORDS = {
    "plan, out": (lambda: gl.plan("f32[2]", "F", out=LINE), OUT),
    "plan, nmaes": (lambda: gl.plan("f32[2]", "F", nmaes="a"), "did you mean names?"),
    "pack, outt": (lambda: gl.pack(X, "F", outt=LINE), "did you mean out?"),
    "pack, max_byte": (lambda: gl.pack(X, "F", max_byte=1), LIMIT),
    "pack, chunksize": (lambda: gl.pack(X, "F", chunksize=1), CHUNKS),
    "pack, names": (lambda: gl.pack(X, "F", names="hw"), "names are for gl.plan and draw"),
    "relayout, max_byte": (lambda: gl.relayout(LINE, "f32[4,5]", "F", max_byte=1), "did you mean max_bytes?"),
    "relayout_many, max_byte": (lambda: gl.relayout_many([(LINE, "f32[4,5]", "F")], max_byte=1), LIMIT),
    "relayout_many, chunksize": (lambda: gl.relayout_many([], chunksize=1), CHUNKS),
    "Array.to, max_byte": (lambda: gl.asarray(X, "F").to("C", max_byte=1), "did you mean max_bytes?"),
    "relayout_file, max_byte": (lambda: gl.relayout_file("a.npy", "b.npy", max_byte=1), "did you mean max_bytes?"),
    "relayout_file, tensor": (lambda: gl.relayout_file("a.npy", "b.npy", tensor={}), "did you mean tensors?"),
    "relayout_file, chunksize": (lambda: gl.relayout_file("a.npy", "b.npy", chunksize=1), CHUNKS),
    "transpose, output": (lambda: gl.transpose(X, "a b -> b a", output=X), "did you mean out?"),
}


@pytest.mark.parametrize("case", KEYWORDS)
def test_a_keyword_is_answered_with_one_of_the_call_or_with_its_call(case):
    call, hint = KEYWORDS[case]
    with pytest.raises(TypeError) as caught:
        call()
    assert f"{case.partition(', ')[2]!r} is " in str(caught.value) and f": {hint}" in str(caught.value)


def test_a_keyword_of_dask_is_answered_with_one_of_the_call():
    array = pytest.importorskip("dask.array").ones((2, 3), dtype=np.float32)
    with pytest.raises(TypeError, match="'chunksize' is not a keyword of this call: did you mean chunk_size?"):
        gl.dask.pack(array, "F", chunksize=1)
    with pytest.raises(
        TypeError, match="'max_byte' is not a keyword of this call: max_bytes is for gl.relayout, plans"
    ):
        gl.dask.pack(array, "F", max_byte=1)


# ---- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [gl.Layout.descending, gl.Layout.ascending])
@pytest.mark.parametrize("rank", [1 << 40, 1 << 70])
def test_a_rank_that_no_memory_holds_is_refused(make, rank):
    with pytest.raises(gl.LayoutError, match=f"^rank {rank} is more than 1048576 dimensions$"):
        make(rank)
    assert make(64).rank == 64


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((1, 2, 99), "position 99 is out of range for layout {1,0}: a new dimension can be inserted at 0..2"),
        ((1, 2, -1), "position -1 is out of range for layout {1,0}: a new dimension can be inserted at 0..2"),
        ((1, -1), "width -1 is negative for layout {1,0}"),
        ((-1, 2), "at -1 is out of range for layout {1,0}: a new dimension can be inserted at 0..2"),
    ],
)
def test_a_dimension_that_has_no_place_is_not_inserted(arguments, problem):
    with pytest.raises(gl.LayoutError) as caught:
        gl.Layout((1, 0)).insert_dimension(*arguments)
    assert str(caught.value) == problem
    assert [str(gl.Layout((1, 0)).insert_dimension(1, 2, at)) for at in range(3)] == ["{1,2,0}", "{2,1,0}", "{2,0,1}"]


@pytest.mark.parametrize("size", [-1, 2.5, 1 << 63])
def test_a_tile_that_joins_dimensions_is_shown_whole(size):
    with pytest.raises(gl.LayoutError) as caught:
        gl.Tile((2, "*", size))
    assert str(caught.value) == (
        f"tile (2, COMBINE, {size}) has an entry that is neither a size in 1..2^63-1 nor '*': entry 2 is {size}"
    )


CALLS = {
    "pack": lambda **options: gl.pack(X, "F", **options),
    "transpose": lambda **options: gl.transpose(X, "a b -> b a", **options),
    "plan": lambda **options: gl.plan("f32[4,5]", "F", **options)(LINE),
    "Array.to": lambda **options: gl.asarray(X, "F").to("C", **options).buffer,
}


@pytest.mark.parametrize("no", [False, np.False_, None])
@pytest.mark.parametrize("verb", CALLS)
def test_no_division_is_one_rule_however_it_is_written(verb, no):
    options = {"dtype": "s8", "scale": 2.0, "zero_point": 1}
    if no is None:
        assert CALLS[verb](**options, divide=no).tobytes() == CALLS[verb](**options).tobytes()
        return
    with pytest.raises(TypeError, match="^divide=False with zero_point: from f32 to s8 they quantise"):
        CALLS[verb](**options, divide=no)
    assert CALLS[verb](scale=2.0, divide=no).tobytes() == CALLS[verb](scale=2.0).tobytes()


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("name", ["scale", "shift"])
def test_the_sign_of_a_nan_is_not_that_of_the_call_before(verb, name):
    """A call with a nan has the bits of one whose nan comes in an array, however often it ran with the other nan."""
    nans = [math.nan, math.copysign(math.nan, -1.0)]
    for nan in nans * 3:
        for value in (nan, [nan] * 5) if verb == "pack" else (nan,):
            assert CALLS[verb](**{name: value}).tobytes() == CALLS[verb](**{name: np.array(nan)}).tobytes()


# ---- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["many", 0, -1, 3.5, "1Q"])
@pytest.mark.parametrize("rules", [None, {".*": "F"}])
def test_a_limit_that_is_none_is_refused_also_where_all_tensors_are_copied(tmp_path, limit, rules):
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    source.write_bytes(model({"w": ("F32", (2, 3))}, None))
    with pytest.raises(gl.LayoutError, match=r"^max_bytes .* is not (a number of bytes|an integer)"):
        gl.relayout_file(source, target, tensors=rules, max_bytes=limit)
    assert not target.exists()


# ---- names that users see ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "public"),
    [
        (RequiresGrad("x"), BufferError),
        (TracedArray("x"), TypeError),
        (FileError("x", "; advice"), ValueError),
        (OutputExistsError("x"), FileExistsError),
        (NoSmallerBlock(8, "for x"), gl.LayoutError),
    ],
)
def test_errors_are_shown_and_pickled_as_public_classes(error, public):
    kind = type(error)
    assert (kind.__module__, kind.__qualname__) == (public.__module__, public.__qualname__)
    assert repr(error).startswith(f"{public.__name__}(") and isinstance(error, public)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is public and str(again) == str(error)
    assert b"gpulayout." not in pickle.dumps(error)
