"""The owners' own tensors: their dimensions, the way back to sizes, and cuts of a tensor that are cuts of its array."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.entry import Size
from gpulayout.catalogue.entry import entry as entry_of
from gpulayout.catalogue.names import Named, name_of, shape_of_tensor
from gpulayout.catalogue.tensor_text import read_tensor
from gpulayout.catalogue.tensors import shape_in, tensor_axis, tensor_of
from tests.support.catalogue_cases import random_call, values_for
from tests.support.effort import ALL

ENTRIES = gl.catalogue.entries()
WITH_TENSORS = [entry for entry in ENTRIES if entry.tensor]
CASES = 200 if ALL else 12  # of each entry
CUT_IN_FRONT = ("cutlass:sparse_metadata", "flashinfer:gate_up_scales")  # and along no other axis

# By a shape: the tensor that the owner's code makes of it or declares for it.
OWNERS = {
    "aiter:scales[512,16]": "f8e8m0fnu[512,16]",
    "aiter:scales(dtype=u8)[100,3]": "u8[256,8]",
    "aiter:weights[8,4096,512]": "bf16[8,4096,512]",
    "awq:gemv_fast[4096,1024]": "s16[1024,1024]",
    "awq:qweight[1024,4096]": "s32[1024,512]",
    "awq:qzeros[32,4096]": "s32[32,512]",
    "cutlass:sparse_metadata[4096,256]": "s16[4096,256]",
    "flashinfer:block_major_k[8,4096,2048]": "u8[8,16,4096,128]",
    "flashinfer:gate_up[8,4096,2048]": "u8[8,4096,2048]",
    "flashinfer:gate_up(dtype=bf16,block_k=64)[8,4096,2048]": "bf16[8,32,4096,64]",
    "flashinfer:gate_up_scales(dtype=f8e4m3fn)[8,4096,256]": "f8e4m3fn[8,4096,256]",
    "flashinfer:gated_rows[4096,2048]": "u8[4096,2048]",
    "flashinfer:kv_cache[128,2,16,8,64]": "bf16[128,2,16,8,64]",
    "flashinfer:kv_cache(order=hnd)[128,2,16,8,64]": "bf16[128,2,8,16,64]",
    "flashinfer:shuffle_matrix_a[4096,2048]": "u8[4096,2048]",
    "flashinfer:shuffle_matrix_a(block_k=128)[4096,2048]": "u8[16,4096,128]",
    "flashinfer:shuffle_matrix_sf_a[4096,256]": "u8[4096,256]",
    "gguf:mxfp4[8,4096]": "u8[8,2048]",
    "gguf:q4_0[4096]": "u8[2048]",
    "gguf:q4_0[8,4096,1024]": "u8[8,4096,512]",
    "gptq:qweight[4096,1024]": "s32[512,1024]",
    "gptq:qweight(dtype=u2)[4096,1024]": "s32[256,1024]",
    "gptq:qweight(dtype=u8)[4096,1024]": "s32[1024,1024]",
    "gptq:qzeros[32,4096]": "s32[32,512]",
    "gptq:qzeros(dtype=u2)[32,4096]": "s32[32,256]",
    "marlin:channel_scales[4096]": "f16[1,4096]",
    "marlin:channel_scales(dtype=bf16)[8,4096]": "bf16[8,1,4096]",
    "marlin:scales[32,4096]": "f16[32,4096]",
    "marlin:weights[4096,1024]": "s32[256,2048]",
    "marlin:weights(dtype=u8)[4096,1024]": "s32[256,4096]",
    "marlin:weights(dtype=f8e4m3fn)[8,4096,1024]": "s32[8,256,4096]",
    "marlin:zero_points[32,4096]": "s32[32,512]",
    "marlin:zero_points(dtype=u8)[32,4096]": "s32[32,1024]",
    "torchao:int4_cpu[4096,1024]": "u8[4096,512]",
    "torchao:int4_tensor_core[4096,1024]": "s32[512,8,32,4]",
    "torchao:int4_tensor_core(inner_k_tiles=2)[9,1024]": "s32[2,32,32,1]",
    "transformers:column_halves_to_pairs[32,2880,5760]": "bf16[32,2880,5760]",
    "transformers:column_pairs_to_halves(dtype=f16)[2880,5760]": "f16[2880,5760]",
    "transformers:row_pairs_to_halves(dtype=u8)[5760,1440]": "u8[5760,1440]",
    "triton:hopper_scales[4096,128]": "u8[128,4096]",
    "triton:hopper_scales(warps=4)[100,3]": "u8[4,128]",
    "vllm:BHLNC[32,128,8,16,256]": "bf16[128,8,32,16,256]",
    "vllm:BLHNC[32,128,8,16,256]": "bf16[128,32,8,16,256]",
    "vllm:BLNHC(dtype=u8)[32,128,8,16,256]": "u8[128,32,16,8,256]",
    "vllm:LBHNC[32,128,8,16,256]": "bf16[32,128,8,16,256]",
    "vllm:LBNHC(dtype=f16)[32,128,8,16,256]": "f16[32,128,16,8,256]",
    "vllm:LHBNC(dtype=f8e4m3fn)[32,128,8,16,256]": "f8e4m3fn[32,8,128,16,256]",
    "vllm:key_cache[128,16,8,64]": "bf16[128,8,8,16,8]",
    "vllm:key_cache(dtype=u8)[128,16,8,64]": "u8[128,8,4,16,16]",
    "vllm:value_cache[128,16,8,64]": "bf16[128,8,64,16]",
}


def cases(entry, count=CASES):
    """Shapes with all types and choices of an entry, of random sizes, and what was chosen."""
    rng = random.Random(f"tensors of {entry.name}")
    values = [choice.values for choice in entry.choices]
    wanted = {(dtype, *chosen) for dtype in entry.types for chosen in itertools.product(*values)}
    seen = set()
    while len(seen) < len(wanted) or count > 0:
        _, dtype, choices, shape = random_call(entry, rng)
        if (dtype, *choices.values()) not in seen or count > 0:
            seen.add((dtype, *choices.values()))
            count -= 1
            yield shape, choices


def stored(shape, tensor):
    """The packed payload of a shape as an array with the bytes and the dimensions of a tensor."""
    return in_tensor(values_for(shape), shape, tensor)


def in_tensor(values, shape, tensor):
    packed = np.asarray(gl.pack(np.ascontiguousarray(values), shape)).view(np.uint8)
    return packed.view(f"u{tensor.element_type.itemsize}").reshape(tensor.dimensions)


# ---- dimensions, and the way back ----------------------------------------------------------------------


def test_every_tensor_is_in_the_table():
    assert {text.partition("[")[0].partition("(")[0] for text in OWNERS} == {entry.name for entry in WITH_TENSORS}


@pytest.mark.parametrize("text", OWNERS)
def test_a_tensor_is_its_owner_s(text):
    name = text[: text.rindex("[")]
    entry = gl.catalogue.find(name.partition("(")[0])
    choices = dict(pair.split("=") for pair in name.partition("(")[2].rstrip(")").split(",") if pair)
    choices = {key: int(value) if value.isdigit() else value for key, value in choices.items()}
    tensor = tensor_of(entry, gl.parse_shape(text), choices)
    assert str(tensor) == OWNERS[text]
    said = name if "dtype=" in name else f"{name.rstrip(')')}{',' if '(' in name else '('}dtype={entry.types[0]})"
    back = shape_of_tensor(said, *tensor)
    assert tensor_of(entry, back, choices) == tensor
    assert (back == gl.parse_shape(text)) == ("[100,3]" not in text and "[9," not in text)  # which owners round up


@pytest.mark.one_in(2)
@pytest.mark.parametrize("entry", WITH_TENSORS, ids=lambda entry: entry.name)
def test_a_tensor_has_the_bytes_and_gives_the_shape(entry):
    with_tensor = 0
    for shape, choices in cases(entry, 4 * CASES):
        tensor = tensor_of(entry, shape, choices)
        if tensor is None:  # only of shapes that the owner pads in memory, but not in a tensor
            assert shape.nbytes > shape.unpadded_nbytes and "ceil" not in entry.tensor
            continue
        with_tensor += 1
        assert np.prod(tensor.dimensions, dtype=int) * tensor.element_type.itemsize == shape.nbytes
        back = shape_in(entry, tensor, choices | {"dtype": shape.element_type.value})
        assert tensor_of(entry, back, choices) == tensor and back.nbytes == shape.nbytes
        assert back == shape or shape.nbytes > shape.unpadded_nbytes
    assert with_tensor >= CASES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_s_text_names_each_size_once(entry):
    for dtype in entry.types if entry.tensor else ():
        for values in itertools.product(*(choice.values for choice in entry.choices)):
            choices = {choice.name: value for choice, value in zip(entry.choices, values)}
            _, dimensions = read_tensor(entry.tensor, gl.ElementType.of(dtype), choices)
            named = [dimension.size for dimension in dimensions if dimension.size]
            assert sorted(named) == sorted(size.name for size in entry.sizes), (choices, dimensions)


def test_owners_without_a_tensor_have_none():
    for entry in set(ENTRIES) - set(WITH_TENSORS):
        shape = entry(*entry.usual)
        assert tensor_of(entry, shape) is None and tensor_axis(entry, shape, 0) is None
    assert tensor_of(gl.catalogue.flashinfer.gate_up_scales, gl.catalogue.flashinfer.gate_up_scales(128, 3)) is None


def test_no_elements():
    weights = gl.catalogue.marlin.weights
    for sizes in ((0, 64), (16, 0), (0, 16, 64)):
        tensor = tensor_of(weights, weights(*sizes))
        assert 0 in tensor.dimensions and shape_in(weights, tensor, {"dtype": "u4"}) == weights(*sizes)
        assert tensor_axis(weights, weights(*sizes), len(sizes) - 1) == (len(sizes) - 1, Fraction(1, 2), 64)


# ---- cuts ----------------------------------------------------------------------------------------------


def slices(size, multiple):
    """The pieces of an axis that are cut at multiples, at most a few of them."""
    cuts = [*range(multiple, size, multiple)]
    cuts = cuts if len(cuts) < 8 else [cuts[0], cuts[len(cuts) // 2], cuts[-1]]
    return [(begin, end) for begin, end in itertools.combinations([0, *cuts, size], 2) if (begin, end) != (0, size)]


def check_cuts(entry, shape, choices):
    """How many pieces of the array were compared with those of the tensor."""
    tensor, compared = tensor_of(entry, shape, choices), 0
    values, whole = values_for(shape), stored(shape, tensor)
    for axis, size in enumerate(shape.dimensions):
        there = tensor_axis(entry, shape, axis, choices)
        for begin, end in slices(size, there.multiple) if there else ():
            cut = (slice(None),) * axis + (slice(begin, end),)
            if entry.name == "marlin:scales" and values[cut].shape[-2] == 1:
                continue  # one group lies in another order, and is refused
            part = entry(*values[cut].shape, dtype=shape.element_type, **choices)
            own = tensor_of(entry, part, choices)
            first = begin / there.step
            assert first.denominator == 1
            last = int(first) + own.dimensions[there.axis]
            assert end < size or last == tensor.dimensions[there.axis]
            piece = np.take(whole, range(int(first), last), axis=there.axis)
            np.testing.assert_array_equal(piece, in_tensor(values[cut], part, own), strict=True)
            compared += 1
    return compared


@pytest.mark.one_in(3)
@pytest.mark.parametrize("entry", WITH_TENSORS, ids=lambda entry: entry.name)
def test_a_cut_tensor_is_that_of_the_cut_array(entry):
    compared = sum(check_cuts(entry, *case) for case in cases(entry) if tensor_of(entry, *case) is not None)
    assert compared >= (3 if entry.name in CUT_IN_FRONT else CASES)


@pytest.mark.parametrize("entry", WITH_TENSORS, ids=lambda entry: entry.name)
def test_an_axis_without_cuts_has_none(entry):
    """Where no place in the tensor is told, halves of the tensor are not those of the array."""
    for values in itertools.product(*(choice.values for choice in entry.choices)):
        choices = {choice.name: value for choice, value in zip(entry.choices, values)}
        shape = entry(*(min(size, 512 if len(entry.usual) < 3 else 16) for size in entry.usual), **choices)
        tensor = tensor_of(entry, shape, choices)
        whole = stored(shape, tensor)
        for axis in range(shape.rank):
            if tensor_axis(entry, shape, axis, choices) is None:
                half = np.split(values_for(shape), 2, axis)[0]
                part = entry(*half.shape, **choices)
                own = tensor_of(entry, part, choices)
                for place in range(whole.ndim):
                    piece = np.split(whole, 2, place)[0] if whole.shape[place] % 2 == 0 else whole
                    assert not np.array_equal(piece, in_tensor(half, part, own)), (axis, place, choices)


@pytest.mark.parametrize(
    "text, axis, there",
    [
        ("marlin:weights[4096,4096]", 0, (0, 16, 16)),
        ("marlin:weights[4096,4096]", 1, (1, Fraction(1, 2), 64)),
        ("marlin:weights[8,4096,4096]", 0, (0, 1, 1)),
        ("marlin:weights[8,4096,4096]", 2, (2, Fraction(1, 2), 64)),
        ("marlin:weights[8,4096,4096]", -1, (2, Fraction(1, 2), 64)),
        ("gptq:qweight[4096,4096]", 0, (0, 8, 32)),
        ("gptq:qweight[4096,4096]", 1, (1, 1, 1)),
        ("awq:gemv_fast[4096,4096]", 0, (0, 4, 4)),
        ("awq:gemv_fast[4096,4096]", 1, (1, 1, 64)),
        ("vllm:key_cache[128,16,8,64]", 3, (2, 8, 8)),
        ("vllm:key_cache[128,16,8,64]", 1, (3, 1, 1)),
        ("aiter:scales[4096,128]", 0, (0, 1, 256)),
        ("aiter:scales[4096,128]", 1, None),
        ("aiter:weights[4096,128]", 1, None),
        ("triton:hopper_scales[4096,128]", 1, (1, Fraction(1, 32), 2)),
        ("flashinfer:gated_rows[4096,128]", 0, None),
        ("transformers:column_halves_to_pairs[4096,128]", 1, None),
        ("transformers:column_pairs_to_halves[4096,128]", 0, (0, 1, 1)),
        ("transformers:row_pairs_to_halves[4096,128]", 0, None),
        ("transformers:row_pairs_to_halves[4096,128]", 1, (1, 1, 1)),
        ("vllm:BHLNC[32,128,8,16,256]", 0, (2, 1, 1)),
        ("vllm:LBNHC[32,128,8,16,256]", 2, (3, 1, 1)),
        ("torchao:int4_tensor_core[4096,1024]", 1, (1, 128, 128)),
    ],
)
def test_where_an_axis_lies(text, axis, there):
    assert tensor_axis(gl.catalogue.find(text.partition("[")[0]), gl.parse_shape(text), axis) == there


def test_the_size_of_an_axis_does_not_change_where_it_lies():
    shuffled = gl.catalogue.flashinfer.shuffle_matrix_a
    assert {tensor_axis(shuffled, shuffled(rows, 7), 0) for rows in (32, 64, 96, 4096)} == {(0, 1, 32)}
    halves = gl.catalogue.flashinfer.gated_rows
    assert {tensor_axis(halves, halves(rows, 7), 0) for rows in (2, 4, 16, 4096)} == {None}
    tiles = gl.catalogue.torchao.int4_tensor_core
    assert {tensor_axis(tiles, tiles(rows, 256), 0) for rows in (1, 7, 8, 9, 4096)} == {(0, 8, 8)}
    scales = gl.catalogue.marlin.scales
    assert {tensor_axis(scales, scales(experts, 4, 64), 0) for experts in (0, 1, 2)} == {(0, 1, 1)}


def made_up(tensor, types, layout):
    facts = dict.fromkeys(("summary", "about", "owner", "version", "source", "judged_by", "stored"), "made up")
    sizes = (Size("rows", "rows"), Size("columns", "columns"))
    return entry_of(sizes=sizes, types=types, tensor=tensor, **facts)(layout)


def test_words_are_not_cut():
    """8 columns in each word, of an owner who takes any number of them."""
    words = made_up("s32[rows,columns/8]", ("u4",), lambda: gl.Layout((1, 0)))
    assert tensor_axis(words, words(4, 64), 1) == (1, 8, 8) and tensor_of(words, words(4, 4)) is None
    assert check_cuts(words, words(4, 64), {}) > 8


def test_blocks_that_grow_with_the_size_are_not_cut():
    """Columns in each half of the rows: twice as many rows are two such blocks, but three times as many are not."""

    def halves(rows, columns):
        return gl.Layout((1, 0), tiles=((max(rows // 2, 1), columns), (max(rows // 2, 1), 1)))

    blocks = made_up("dtype[rows,columns]", ("u8",), halves)
    assert tensor_axis(blocks, blocks(8, 3), 0) is None


# ---- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_name_is_read_as_its_shape(entry):
    for shape, choices in cases(entry):
        named = Named(entry, choices, None)
        assert gl.parse_shape(name_of(named, shape)) == shape
        name = name_of(named._replace(choices=choices | {"dtype": shape.element_type.value}), shape)
        assert name == name_of(named, shape) and name.startswith(entry.name)
        for choice in entry.choices:
            assert (f"{choice.name}=" in name) == (choices[choice.name] != choice.values[0])
        assert ("dtype=" in name) == (shape.element_type != entry.types[0])
        assert name_of(name[: name.rindex("[")], shape) == name


@pytest.mark.parametrize(
    "text, stored_type, dimensions, shape",
    [
        ("gptq:qweight(dtype=u4)", "s32", (512, 4096), "gptq:qweight[4096,4096]"),
        ("gptq:qweight(dtype=u2)", "s32", (512, 4096), "gptq:qweight(dtype=u2)[8192,4096]"),
        (" marlin:weights ( dtype = u8 ) ", "s32", (8, 4, 256), "marlin:weights(dtype=u8)[8,64,64]"),
        ("marlin:scales", "bf16", (4, 64), "marlin:scales(dtype=bf16)[4,64]"),
        ("marlin:channel_scales", "f16", (3, 1, 64), "marlin:channel_scales[3,64]"),
        ("flashinfer:gate_up", "u8", (2, 64, 128), "flashinfer:gate_up[2,64,128]"),
        ("flashinfer:gate_up(block_k=128)", "u8", (2, 64, 128), "flashinfer:gate_up(block_k=128)[64,256]"),
        ("aiter:scales", "u8", (256, 8), "aiter:scales(dtype=u8)[256,8]"),
    ],
)
def test_a_name_and_a_tensor_are_a_shape(text, stored_type, dimensions, shape):
    found = shape_of_tensor(text, gl.ElementType(stored_type), dimensions)
    assert found == gl.parse_shape(shape) and name_of(text, found) == shape


@pytest.mark.parametrize(
    "text, stored_type, dimensions, message",
    [
        (
            "marlin:weights",
            "f32",
            (256, 8192),
            "tensor f32[256,8192] is not marlin:weights, which is s32[rows/16,columns*bits/2]: its type is not s32; "
            "where the bytes are the same, write the sizes: marlin:weights[rows,columns]",
        ),
        ("marlin:weights", "s32", (8192,), "it has 1 dimension, not 2; where the bytes are the same, write the sizes"),
        ("marlin:weights", "s32", (4, 127), "dimension 1 is 127, not a multiple of 2; where the bytes"),
        ("marlin:weights(dtype=u8)", "s32", (4, 130), "dimension 1 is 130, not a multiple of 4; where the bytes"),
        (
            "marlin:weights",
            "s32",
            (4, 130),
            "columns 65 is not a multiple of 64; Marlin in vLLM: rows must be a multiple of 16, columns of 64; where",
        ),
        ("gptq:qweight", "s32", (2, 8), "rows 16 is not a multiple of 32; AutoGPTQ: rows must be a multiple of 32; "),
        ("gptq:qweight", "s32", (2, 8), "; write gptq:qweight(dtype=u2)"),
        ("gptq:qweight(dtype=u4)", "s32", (2, 8), "where the bytes are the same, write the sizes: gptq:qweight[rows"),
        ("torchao:int4_tensor_core", "s32", (2, 4, 32, 1), "3 is 1, not 4; write torchao:int4_tensor_core(inner_k_til"),
        ("torchao:int4_tensor_core", "s32", (2, 4, 31, 4), "dimension 2 is 31, not 32; where the bytes"),
        ("flashinfer:gate_up(block_k=64)", "u8", (2, 64, 128), "dimension 2 is 128, not 64; where the bytes"),
        ("marlin:scales", "f32", (4, 64), "marlin:scales has no dtype f32: it takes f16, bf16; where the bytes"),
        ("marlin:scales(dtype=bf16)", "f16", (4, 64), "its type is not bf16; where the bytes"),
        ("aiter:scales", "u8", (100, 8), "dimension 0 is 100, not a multiple of 256; where the bytes"),
        ("cublas:block_scales", "u8", (128, 4), "cublas:block_scales has no tensor that gives its sizes, as u8[128,4]"),
        ("marlin:weights[16,64]", "s32", (1, 128), "marlin:weights has sizes (16, 64) already, so tensor s32[1,128] "),
        ("marlin:weights(tile=3)", "s32", (1, 128), "marlin:weights has no choice 'tile'"),
        (
            "gptq:qweight",
            "s32",
            (512, 4096),
            "tensor s32[512,4096] may hold elements of 4, 2 or 8 bits: write gptq:qweight(dtype=u4), "
            "gptq:qweight(dtype=u2) or gptq:qweight(dtype=u8)",
        ),
        ("marlin:weights", "s32", (4, 256), "may hold elements of 4 or 8 bits: write marlin:weights(dtype=u4) or mar"),
        ("marlin:wieghts", "s32", (1, 128), "did you mean 'marlin:weights'?"),
    ],
)
def test_a_tensor_that_does_not_fit(text, stored_type, dimensions, message):
    with pytest.raises(gl.LayoutError) as caught:
        shape_of_tensor(text, gl.ElementType(stored_type), dimensions)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_shape_of_other_choices_is_refused():
    gate_up = gl.catalogue.flashinfer.gate_up
    for call in (tensor_of, lambda *arguments: tensor_axis(*arguments[:2], 0, *arguments[2:])):
        with pytest.raises(gl.LayoutError, match="is not flashinfer:gate_up, which is u8"):
            call(gate_up, gate_up(64, 128, block_k=128), {"block_k": 64})
    with pytest.raises(gl.LayoutError, match="is not flashinfer:gate_up, which is u8"):
        name_of("flashinfer:gate_up", gate_up(64, 128, block_k=128))
    with pytest.raises(gl.LayoutError, match="is not marlin:weights, which is u8"):
        name_of("marlin:weights(dtype=u8)", gl.catalogue.marlin.weights(64, 128))
    with pytest.raises(gl.LayoutError, match="dimension 2 is out of range"):
        tensor_axis(gate_up, gate_up(64, 128), 2)
    with pytest.raises(gl.LayoutError, match="takes 2 sizes"):
        tensor_of(gate_up, gl.parse_shape("u8[3]"))


@pytest.mark.parametrize("text", ["s32", "s32[]", "s32[rows*columns]", "s32[4/rows]", "s32[rows+1]", "s32[rows 4]"])
def test_a_text_that_is_no_tensor(text):
    with pytest.raises(ValueError, match="is not"):
        read_tensor(text, gl.ElementType.U4, {})
