"""Words that are no target, in every call that takes one: one reader, which says what names there are."""

import re

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import refusal

X, LINE, SHAPE = np.ones((2, 3), np.float32), np.ones(6, np.float32), "f32[2,3]"


def of_dask(verb):
    def call(word):
        array = pytest.importorskip("dask.array").ones((2, 3), dtype=np.float32)
        return verb(array, word)

    return call


def of_torch(name, *given):
    def call(word):
        pytest.importorskip("torch")
        return getattr(gl.torch, name)(*given, word)

    return call


def of_file(word):
    return gl.relayout_file(gl.Array(LINE, SHAPE), "never.npy", target=word)


DOORS = {
    "pack": lambda word: gl.pack(X, word),
    "pack, converted": lambda word: gl.pack(X, word, dtype="f16"),
    "plan": lambda word: gl.plan(SHAPE, word),
    "plan, converted": lambda word: gl.plan(SHAPE, word, dtype="f16"),
    "relayout": lambda word: gl.relayout(LINE, SHAPE, word),
    "relayout_many": lambda word: gl.relayout_many([(LINE, SHAPE, word)]),
    "relayout in place": lambda word: gl.relayout(LINE, SHAPE, word, out=LINE),
    "asarray": lambda word: gl.asarray(X, word),
    "Array.to": lambda word: gl.asarray(X, "F").to(word),
    "relayout_file": of_file,
    "convert_linear": lambda word: gl.convert_linear(np.arange(3), SHAPE, word),
    "explain": lambda word: gl.plan(SHAPE, "F").explain() and gl.plan(SHAPE, word),
    "dask.pack": of_dask(lambda array, word: gl.dask.pack(array, word)),
    "dask.relayout": of_dask(lambda array, word: gl.dask.relayout(array.reshape(-1), SHAPE, word)),
    "torch.Pack": of_torch("Pack"),
    "torch.Relayout": of_torch("Relayout", SHAPE),
}
WORDS = {
    "moe": "such as cublas:block_scales",
    "fortran": "; write 'F'",
    "block_scales": "; did you mean 'cublas:block_scales'?",
    "channels_last": "; did you mean 'torch:channels_last'?",
    "float32": "; an element type stands before sizes, as in 'float32[2,3]', or in dtype='float32'",
    "f32": "; an element type stands before sizes, as in 'f32[2,3]', or in dtype='f32'",
    "NCWH": "; write 'named:NCWH:NCHW' if the array's dimensions are N, C, H and W",
    "acdb": "; write 'named:acdb:abcd' if the array's dimensions are a, b, c and d",
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("door", DOORS)
def test_a_word_that_is_no_target_is_refused_by_one_reader(door, word):
    if (door, word) == ("Array.to", "f32"):
        return  # which looks like NumPy's astype, and says so
    with pytest.raises(gl.ShapeTextError) as caught:
        DOORS[door](word)
    message = str(caught.value).removeprefix("job 0: ")
    assert message.startswith(
        f"{word!r} is neither a layout, such as {{1,0}}, nor a pattern, such as 'h w c -> c h w', nor the name of one: "
        "names are C, F, "
    )
    assert message.endswith(WORDS[word]), message


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("command", ["relayout", "pack", "explain"])
def test_the_command_line_has_the_same_reader(tmp_path, command, word):
    np.save(tmp_path / "a.npy", X)
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    said = refusal("explain", SHAPE, word) if command == "explain" else refusal(command, *paths, "--to", word)
    assert f"{word!r} is neither a layout, such as {{1,0}}, nor a pattern" in said
    assert said.endswith(re.sub(r"dtype='(\w+)'", r"--dtype \1", WORDS[word]))
    assert not paths[1].exists()


def test_an_owner_of_the_catalogue_is_told_its_names():
    with pytest.raises(gl.ShapeTextError, match="those of marlin are marlin:channel_scales, .*, marlin:weights, "):
        gl.pack(X, "marlin")


@pytest.mark.parametrize("word", ["moe", "F", "C", "NHWC", "float32", "i8"])
@pytest.mark.parametrize(
    "call",
    [
        gl.zeros,
        gl.code,
        lambda word: gl.relayout(LINE, gl.plan(SHAPE, "F").source, gl.plan(word, "F").source),
        lambda word: gl.stride_table(word),
    ],
)
def test_a_word_where_a_whole_shape_belongs_is_told_so(call, word):
    with pytest.raises(gl.ShapeTextError, match=rf"'{word}' is not a shape: write one, such as 'f32\[2,3\]"):
        call(word)


# ---- elements of fewer bits ------------------------------------------------------------------------------

PACKED = {1: ["s1", "u1"], 2: ["s2", "u2"], 4: ["s4", "u4", "f4e2m1fn"]}


@pytest.mark.parametrize("bits", PACKED)
@pytest.mark.parametrize("source", ["bf16", "f32", "u8", "pred", "c64"])
def test_a_target_of_fewer_bits_than_its_elements_says_which_dtype(source, bits):
    shape, layout = gl.Shape(source, (2, 3)), f"{{1,0:E({bits})}}"
    array, line = np.zeros((2, 3), shape.dtype), np.zeros(6, shape.dtype)
    for call in (
        lambda: gl.pack(array, layout),
        lambda: gl.plan(shape, layout),
        lambda: gl.relayout(line, shape, layout),
        lambda: gl.relayout_many([(line, shape, layout)]),
        lambda: gl.asarray(array, layout),
        lambda: gl.relayout_file(gl.Array(line, shape), "never.npy", target=layout),
    ):
        with pytest.raises(gl.LayoutError) as caught:
            call()
        said = str(caught.value)
        assert f"element_size_in_bits {bits} is not a storage size of {source} for {source}[2,3]" in said
        assert f"{source} takes {8 * shape.itemsize} bits. Elements of {bits} bit" in said
        for name in PACKED[bits]:
            # A signed type would make 0 of True where it has 1 bit, and no user packs truth in one of more.
            assert (f"dtype={name!r}" in said) == (source != "pred" or name.startswith("u"))
            if source != "c64":
                assert gl.pack(array, layout, dtype=name).dtype == np.uint8


@pytest.mark.parametrize(
    "source, given, bits", [("bf16", "u8", 4), ("f32", "u4", 2), ("f32", "u8", 16), ("s8", "u4", 32)]
)
def test_a_dtype_that_does_not_fit_the_layout_either_is_refused(source, given, bits):
    shape, layout = gl.Shape(source, (2, 3)), f"{{1,0:E({bits})}}"
    array = np.zeros((2, 3), shape.dtype)
    for call in (lambda: gl.pack(array, layout, dtype=given), lambda: gl.plan(shape, layout, dtype=given)):
        with pytest.raises(gl.LayoutError, match=f"^element_size_in_bits {bits} is not a storage size of {given} for"):
            call()
