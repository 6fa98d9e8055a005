"""Names of the catalogue as text: wherever a shape or a layout is taken, and what errors say."""

import subprocess
import sys
import time

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.not_here import why_not_here

NAMED = "cublas:block_scales[200,10]"
SHAPE = gl.parse_shape("f8e8m0fnu[200,10]{1,0:T(128,4)(32,4)(4,1,1,4)}")


@pytest.mark.parametrize(
    "text, shape",
    [
        (NAMED, str(SHAPE)),
        (" cublas:block_scales [ 200 , 10 ] ", str(SHAPE)),
        ("cublas:block_scales(dtype=u8)[200,10]", "u8[200,10]{1,0:T(128,4)(32,4)(4,1,1,4)}"),
        ("cublas:block_scales[8,200,10]", "f8e8m0fnu[8,200,10]{2,1,0:T(128,4)(32,4)(4,1,1,4)}"),
        ("cublas:block_scales[2,8,200,10]", "f8e8m0fnu[2,8,200,10]{3,2,1,0:T(128,4)(32,4)(4,1,1,4)}"),
        ("cudnn:nchw_vect_c(vector=4,dtype=u8)[2,6,5,5]", "u8[2,6,5,5]{3,2,1,0:T(4,1,1)}"),
        ("xla_tpu:matrix(dtype=s4)[64,200]", "s4[64,200]{1,0:T(64,128)(8,1)E(4)}"),
        ("cublas:block_scales[0,10]", "f8e8m0fnu[0,10]{1,0:T(128,4)(32,4)(4,1,1,4)}"),
        ("cublaslt:col32(dtype=s32)[7,33]", "s32[7,33]{0,1:T(32,1)}"),
    ],
)
def test_a_name_is_read_as_a_shape(text, shape):
    assert str(gl.parse_shape(text)) == shape and str(gl.xla.parse_any_shape(text)) == shape
    assert gl.stride_table(text) == gl.stride_table(shape)


def test_a_name_is_taken_wherever_a_shape_is():
    scales = np.arange(2000, dtype=np.uint8).reshape(200, 10)
    named, plain = "cublas:block_scales(dtype=u8)[200,10]", SHAPE.replace(element_type="u8")
    packed = gl.pack(scales, plain)
    np.testing.assert_array_equal(gl.pack(scales, named), packed)
    np.testing.assert_array_equal(gl.unpack(packed, named), scales)
    np.testing.assert_array_equal(gl.relayout(packed, named, "u8[200,10]"), scales.reshape(-1))
    assert gl.linearize((130, 7), named) == gl.linearize((130, 7), plain)
    assert gl.code(named, "c") == gl.code(plain, "c")
    assert gl.plan("u8[200,10]", named).target == plain


def test_a_name_without_sizes_is_a_layout_for_the_array():
    scales = np.arange(2000, dtype=np.uint8).reshape(200, 10)
    wanted = gl.pack(scales, SHAPE.replace(element_type="u8"))
    np.testing.assert_array_equal(gl.pack(scales, "cublas:block_scales"), wanted)
    np.testing.assert_array_equal(gl.pack(scales, "cublas:block_scales(dtype=u8)"), wanted)
    np.testing.assert_array_equal(gl.relayout(scales.ravel(), "u8[200,10]", "cublas:block_scales"), wanted)
    assert gl.plan("f8e4m3fn[3,200,10]", "cublas:block_scales").target.dimensions == (3, 200, 10)
    floats = np.exp2(scales.astype(np.float32) % 4)
    packed = gl.pack(floats, "cublas:block_scales", dtype="f8e4m3fn")
    np.testing.assert_array_equal(gl.unpack(packed, "cublas:block_scales(dtype=f8e4m3fn)[200,10]").astype("f4"), floats)


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "cublas:block_scale[200,10]",
            "'cublas:block_scale' is not in the catalogue: did you mean 'cublas:block_scales'?",
        ),
        ("cublass:block_scales[200,10]", "'cublass:block_scales' is not in the catalogue: did you mean"),
        ("nobody:zzz[2]", "'nobody:zzz' is not in the catalogue: owners are "),
        ("cublas:block_scales[200]", "cublas:block_scales takes 2 sizes, rows and columns, but got 1: (200,)"),
        (
            "xla_tpu:vector[]",
            "xla_tpu:vector takes 1 size, elements, but got 0: (); more in front stack so many arrays",
        ),
        ("cudnn:nchw_vect_c(vector=16)[1,2,3,4]", "vector 16 of cudnn:nchw_vect_c is none of 32, 4"),
        ("cublas:block_scales[]", "but got 0: ()"),
        ("cublas:block_scales[200,1O]", "size '1O' of cublas:block_scales[rows,columns] is not a number"),
        ("cublas:block_scales[200,-1]", "size '-1' of cublas:block_scales[rows,columns] is not a number"),
        ("cublas:block_scales[200,]", "size '' of cublas:block_scales[rows,columns] is not a number"),
        ("cublas:block_scales[200,10", "is not a name of the catalogue and sizes, such as"),
        ("cublas:block_scales[200,10]{1,0}", "is not a name of the catalogue and sizes, such as"),
        (
            "cublas:block_scales(dtype=f32)[200,10]",
            "cublas:block_scales has no dtype f32: it takes f8e8m0fnu, f8e4m3fn",
        ),
        (
            "cublas:block_scales(dtype=f99)[200,10]",
            "element type 'f99' is neither an XLA name nor the name of a NumPy dtype (did you mean 'f16', 'f32' or "
            "'f64'?); cublas:b",
        ),
        (
            "cublas:block_scales(dtype=7)[200,10]",
            "element type 7 is neither an XLA name nor a NumPy dtype; cublas:block",
        ),
        ("cublas:block_scales(self=1)[200,10]", "cublas:block_scales has no choice 'self': choices are dtype"),
        ("cublas:block_scales(size=3)[200,10]", "cublas:block_scales has no choice 'size': choices are dtype"),
        ("cublas:block_scales(u8)[200,10]", "choice 'u8' of cublas:block_scales is not one word=value"),
        (
            "cublas:block_scales(dtype=u8,dtype=u8)[2,3]",
            "choice 'dtype=u8' of cublas:block_scales is not one word=value",
        ),
        ("cublas:block_scales(dtype=u8)", "is a layout: write its sizes for the whole shape"),
        ("cublas:block_scales[9223372036854775807,10]", "2^63"),
        ("cublas:block_scales[99999999999999999999,10]", "is not a number"),
    ],
)
def test_errors_say_what_fits(text, message):
    with pytest.raises(gl.LayoutError) as caught:
        gl.parse_shape(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ("gptq:act_order", "act-order is no layout: it sorts rows by a permutation that comes with the model. Index"),
        ("marlin:act_order", "act-order is no layout"),
        ("gptq:desc_act", "act-order is no layout"),
        ("Marlin:g_idx", "act-order is no layout"),
        ("kleidiai:rhs_pack_nxk_qsi4c32p", "sums of elements are no layout: they are computed. Lay out the elements"),
        ("onednn:s8s8_compensation", "sums of elements are no layout"),
        ("triton:row_sums", "sums of elements are no layout"),
        ("ggml:q4_0_4x8", "blocks of ggml are no layout: they hold scales between elements, and its repacks flip"),
        ("llama_cpp:q8_0", "blocks of ggml are no layout"),
        ("marlin:requantized", "quantisation is no layout: it computes new elements. Give gl.pack scale="),
        ("awq:dequantize", "quantisation is no layout"),
        ("torchao:quantization", "quantisation is no layout"),
        ("cutlass:swizzle_128b", "xor swizzles are no layout of global memory"),
        ("tma:swizzle_32b", "xor swizzles are no layout of global memory"),
        ("flashinfer:w31_halves", "up before gate is no layout: the halves change places. Swap them first, by np.roll"),
        ("vllm:NHD", "vLLM's NHD is 'vllm:LBNHC'"),
        ("vllm:hnd", "vLLM's HND is 'vllm:LBHNC'"),
    ],
)
def test_what_is_no_layout_is_said_by_name(text, message):
    for call in (gl.catalogue.find, lambda name: gl.parse_shape(f"{name}[4,4]")):
        with pytest.raises(gl.ShapeTextError) as caught:
            call(text)
        assert str(caught.value).startswith(f"{text!r} is not in the catalogue: {message}")
        assert "\n" not in str(caught.value)
    owner, _, word = text.partition(":")
    if owner not in ("kleidiai", "ggml", "llama_cpp", "cutlass", "tma", "vllm"):  # these say what the word means
        with pytest.raises(gl.ShapeTextError, match=f"'{word}' is not in the catalogue: {message}"):
            gl.catalogue.find(word)
    if text == text.lower():
        with pytest.raises(gl.ShapeTextError, match="is not in the catalogue: "):
            gl.pack(np.zeros((4, 4), np.uint8), text)


def test_no_entry_is_said_to_be_no_layout():
    assert not [entry.name for entry in gl.catalogue.entries() if why_not_here(entry.name)]
    assert not [name for name in ("cublas:block_scale", "marlin:wieghts", "gptq:qwieght") if why_not_here(name)]


@pytest.mark.parametrize("axis", [0, 1])
def test_up_before_gate_is_halves_in_the_other_order(axis):
    """What the error for it says to write."""
    gate, up = np.arange(12).reshape(2, 3, 2)
    halves = np.concatenate([gate, up], axis)
    size = halves.shape[axis]
    np.testing.assert_array_equal(np.roll(halves, size // 2, axis), np.concatenate([up, gate], axis))


@pytest.mark.parametrize(
    "name, smallest, refused",
    [
        ("cutlass:sparse_metadata", (32, 2), (48, 2)),
        ("cutlass:sparse_metadata(dtype=s32)", (16, 2), (8, 2)),
        ("torchao:int4_tensor_core", (8, 128), (8, 64)),
        ("torchao:int4_tensor_core(inner_k_tiles=2)", (8, 32), (8, 16)),
        ("torchao:int4_cpu", (64, 2), (32, 2)),
        ("torchao:int4_cpu(isa=avx2)", (32, 2), (16, 2)),
        ("vllm:key_cache", (1, 1, 1, 8), (1, 1, 1, 4)),
        ("vllm:key_cache(dtype=f32)", (1, 1, 1, 4), (1, 1, 1, 2)),
        ("flashinfer:shuffle_matrix_a", (32, 1), (16, 1)),
        ("flashinfer:shuffle_matrix_a(epilogue_tile=64)", (16, 1), (8, 1)),
        ("flashinfer:shuffle_matrix_a(block_k=128)", (32, 128), (32, 64)),
    ],
)
def test_the_smallest_sizes_of_a_rule_are_taken(name, smallest, refused):
    """A rule that no single size says; it refuses no more than the owner does."""
    entry = gl.catalogue.find(name.partition("(")[0])
    assert gl.parse_shape(f"{name}[{','.join(map(str, smallest))}]").dimensions == smallest
    with pytest.raises(gl.LayoutError) as caught:
        gl.parse_shape(f"{name}[{','.join(map(str, refused))}]")
    assert f"; {entry.owner}: {entry.refuses}" in str(caught.value)


def test_a_layout_for_another_array_is_refused():
    scales = np.zeros((200, 10), np.float32)
    with pytest.raises(gl.LayoutError, match="cublas:block_scales has no dtype f32: it takes f8e8m0fnu"):
        gl.pack(scales, "cublas:block_scales")
    with pytest.raises(gl.LayoutError, match="takes 2 sizes, rows and columns, but got 1"):
        gl.relayout(np.zeros(4, np.uint8), "u8[4]", "cublas:block_scales")
    with pytest.raises(gl.LayoutError, match="'cublas:block' is not in the catalogue"):
        gl.plan("u8[4,4]", "cublas:block")


def test_wrong_values_in_python():
    scales = gl.catalogue.cublas.block_scales
    with pytest.raises(gl.LayoutTypeError, match="sizes of cublas:block_scales .* entry 1 is 10.0, a float"):
        scales(200, 10.0)
    with pytest.raises(gl.LayoutError, match="negative size: dimension 0 is -1"):
        scales(-1, 10)
    with pytest.raises(gl.LayoutTypeError, match="no choice 'tile'"):
        scales(200, 10, tile=4)
    with pytest.raises(gl.LayoutError, match="'awq' names no entry: write one of 'awq:gemv_fast', 'awq:qweight'"):
        gl.catalogue.find("awq")
    with pytest.raises(gl.LayoutError, match="7 is not in the catalogue"):
        gl.catalogue.find(7)
    with pytest.raises(AttributeError, match="module 'gpulayout.catalogue' has no attribute 'cublas2'"):
        gl.catalogue.cublas2


@pytest.mark.parametrize("value", [False, np.bool_(False), 128.0, None, [128]], ids=repr)
def test_a_value_that_only_equals_a_choice_is_refused(value):
    with pytest.raises(gl.LayoutTypeError, match="block_k .* of flashinfer:gate_up is neither an int nor text"):
        gl.catalogue.flashinfer.gate_up(256, 512, block_k=value)
    assert gl.catalogue.flashinfer.gate_up(256, 512, block_k=np.int64(128)) == gl.parse_shape(
        "flashinfer:gate_up(block_k=128)[256,512]"
    )


def test_digits_of_other_scripts_are_no_number():
    with pytest.raises(gl.LayoutError, match="is none of 0, 128, 64, 256"):
        gl.parse_shape("flashinfer:gate_up(block_k=\u0661\u0662\u0668)[256,512]")


@pytest.mark.parametrize("in_front", [(3,), (0,), (2, 0, 5)], ids=str)
@pytest.mark.parametrize("entry", gl.catalogue.entries(), ids=lambda entry: entry.name)
def test_sizes_in_front_are_the_most_major(entry, in_front):
    for dtype in entry.types:
        one = entry(*entry.usual, dtype=dtype)
        shape = entry(*in_front, *entry.usual, dtype=dtype)
        assert shape.dimensions == (*in_front, *one.dimensions) and shape.layout.tiles == one.layout.tiles
        assert shape.layout.minor_to_major[one.rank :] == tuple(reversed(range(len(in_front))))
        assert shape.buffer_size == one.buffer_size * int(np.prod(in_front))


def test_a_long_text_is_refused_quickly():
    with pytest.raises(gl.LayoutError):
        gl.parse_shape("cublas:block_scales[" + "9," * 500_000 + "9]")


@pytest.mark.machine
def test_thousands_of_sizes_in_front_are_read_in_one_step():
    """A step for each of them would take 14 seconds, for the longest text that is read at all."""
    begin = time.process_time()
    shape = gl.parse_shape("cublas:block_scales[" + "1," * 4900 + "200,10]")
    assert time.process_time() - begin < 2
    assert shape.rank == 4902 and shape.dimensions[-2:] == (200, 10) and shape.buffer_size == 3072


def test_a_name_loads_the_catalogue_and_one_owner():
    script = (
        "import sys, gpulayout as gl; print('gpulayout.catalogue' in sys.modules); "
        "gl.parse_shape('cublas:block_scales[2,3]'); "
        "print(*sorted(name.split('.')[2] for name in sys.modules if name.startswith('gpulayout.catalogue.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "cublas", "entry", "names", "not_here", "tensor_text", "tensors"]
