"""Which elements a parameter is for: as NumPy broadcasts it, where that keeps the array's shape; blocks where said.

Blocks are said by `block`, or by a parameter with as many dimensions as the array.
"""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.arithmetic_cases import in_every_place

SIZES = (0, 1, 2, 3, 4, 6)
ARRAYS = [sizes for rank in range(3) for sizes in itertools.product(SIZES, repeat=rank)]


def expected_sum(array, shift, block):
    """What NumPy gives, or blocks, or None; `in_every_place` repeats the numbers of blocks."""
    dimensions, sizes = array.shape, shift.shape
    more = len(sizes) - len(dimensions)
    if any(size != 1 for size in sizes[: max(more, 0)]):
        return None
    last = (1,) * -more + sizes[max(more, 0) :]
    if all(size in (1, own) for size, own in zip(last, dimensions)):
        return (array + shift).reshape(dimensions)
    if block is None and more:
        return None
    counts = [(1, own, -(-own // block)) if block else (1, own, *divisors(own)) for own in dimensions]
    fits = all(size in allowed for size, allowed in zip(last, counts))
    return array + in_every_place(shift.reshape(last), dimensions, block) if fits else None


def divisors(number):
    return [each for each in range(1, number) if number % each == 0]


@pytest.mark.parametrize("name", ["mean", "std"])
def test_means_for_channels_are_not_taken_for_bands_of_rows(name):
    """Libraries of images keep them as (3, 1, 1), for C H W."""
    image = np.ones((480, 640, 3), np.float32)
    for sizes in ((3, 1, 1), (1, 4, 1)):
        numbers = np.arange(1, 1 + max(sizes), dtype=np.float32).reshape(sizes)
        with pytest.raises(gl.LayoutError, match=f"^{name} of shape .* a parameter broadcasts as in NumPy"):
            gl.transpose(image, **{name: numbers})
        block = tuple(own // size for own, size in zip(image.shape, sizes))
        assert gl.transpose(image, **{name: numbers}, block=block).shape == (3, 640, 480)
    assert gl.transpose(image, **{name: [1, 2, 3]}).shape == (3, 640, 480)


@pytest.mark.parametrize("width", [224, 336, 384, 1920])  # 3 divides all but the first
def test_a_number_for_each_channel_of_c_h_w_is_no_number_for_bands_of_columns(width):
    image = np.random.default_rng(0).integers(0, 256, (3, 4, width)).astype(np.uint8)
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    with pytest.raises(
        gl.LayoutError, match=r"^mean of shape \(3,\) .* index of dimension 0, reshape it to \(3, 1, 1\)$"
    ):
        gl.transpose(image, "c h w -> h w c", dtype="f32", unit=True, mean=mean, std=std)
    columns = {"mean": mean.reshape(3, 1, 1), "std": std.reshape(3, 1, 1)}
    found = gl.transpose(image, "c h w -> h w c", dtype="f32", unit=True, **columns)
    expected = (image / np.float32(255) - columns["mean"]) / columns["std"]
    np.testing.assert_allclose(found, expected.transpose(1, 2, 0), atol=1e-5)


def test_a_scale_for_each_row_of_an_int8_matrix_is_none_for_blocks_of_columns():
    weight = np.random.default_rng(0).integers(-127, 128, (64, 256)).astype(np.int8)
    scale = np.linspace(0.5, 1.5, 64, dtype=np.float32)
    with pytest.raises(gl.LayoutError, match=r"^scale of shape \(64,\) .* reshape it to \(64, 1\)$"):
        gl.transpose(weight, "o i -> o i", dtype="f32", scale=scale)
    found = gl.transpose(weight, "o i -> o i", dtype="f32", scale=scale[:, None])
    assert np.array_equal(found, weight * scale[:, None])


FITS_WITH_ADVICE = [  # array, parameter, the block that is named
    ((576, 256), (5, 2), 128),
    ((576, 256), (5, 3), 116),
    ((576, 256), (5,), None),
    ((1024, 4096), (7, 32), None),
    ((256, 512), (256, 16), 32),
    ((256, 500), (256, 16), 32),
    ((4, 512), (16,), 32),
]


@pytest.mark.parametrize("dimensions, sizes, block", FITS_WITH_ADVICE, ids=str)
def test_the_block_that_an_error_names_fits(dimensions, sizes, block):
    array, scale = np.ones(dimensions, np.float32), np.ones(sizes)
    try:
        gl.transpose(array, scale=scale)
    except gl.LayoutError as error:
        assert (f"such as block={block}" in str(error)) == (block is not None) and ("block=" in str(error)) == bool(
            block
        )
    if block is not None:
        gl.transpose(array, scale=scale, block=block)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dimensions", ARRAYS, ids=str)
def test_every_small_parameter_is_numpy_s_or_blocks_that_are_said_or_refused(dimensions):
    array = np.arange(np.prod(dimensions, dtype=int), dtype=np.float32).reshape(dimensions)
    axes = tuple(range(len(dimensions)))
    for sizes in (sizes for rank in range(4) for sizes in itertools.product(SIZES, repeat=rank)):
        shift = np.arange(np.prod(sizes, dtype=int), dtype=np.float32).reshape(sizes) * 100
        for block in (None, 2, 4):
            expected = expected_sum(array, shift, block)
            if expected is None:
                with pytest.raises(gl.LayoutError, match=f"shift of shape {re.escape(str(sizes))} does not fit"):
                    gl.transpose(array, axes, shift=shift, block=block)
            else:
                found = gl.transpose(array, axes, shift=shift, block=block)
                assert found.tolist() == expected.tolist(), (sizes, block)


# ---- every way into the library --------------------------------------------------------------------------------------

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5
SHORT = [1.0, 2.0]  # 2 divides 4, but two numbers are no row of four


def by_torch(call):
    torch = pytest.importorskip("torch")
    torch.compiler.reset()
    return torch.compile(call, backend="eager", fullgraph=True)(torch.from_numpy(ROWS.copy()))


def by_export(call):
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):
        def forward(self, x):
            return call(x)

    return torch.export.export(Module(), (torch.from_numpy(ROWS.copy()),))


def by_gradient(call):
    return call(pytest.importorskip("torch").from_numpy(ROWS.copy()).requires_grad_())


def by_dask(function, *arguments):
    dask = pytest.importorskip("dask.array")
    return getattr(gl.dask, function)(dask.from_array(ROWS if function != "relayout" else ROWS.ravel()), *arguments)


def by_file(folder, **options):
    np.save(folder / "in.npy", ROWS)
    return gl.relayout_file(folder / "in.npy", folder / "out.npy", **options)


def by_model(folder, scale):
    from safetensors.numpy import save_file

    save_file({"w": ROWS}, folder / "a.safetensors")
    return gl.relayout_file(folder / "a.safetensors", folder / "b.safetensors", tensors={"w": {"scale": scale}})


WAYS = {
    "transpose": lambda **given: gl.transpose(ROWS, **given),
    "pack": lambda **given: gl.pack(ROWS, "F", **given),
    "unpack": lambda **given: gl.unpack(ROWS.ravel(), "f32[3,4]", **given),
    "relayout": lambda **given: gl.relayout(ROWS.ravel(), "f32[3,4]", "F", **given),
    "relayout_many": lambda **given: gl.relayout_many([(ROWS.ravel(), "f32[3,4]", "F")], **given),
    "plan": lambda **given: gl.plan("f32[3,4]", "F", **given),
    "code": lambda **given: gl.code(gl.plan("f32[3,4]", "F", **given), "c"),
    "Array": lambda **given: gl.asarray(ROWS).to("F", **given),
    "compile, transpose": lambda **given: by_torch(lambda x: gl.transpose(x, **given)),
    "compile, pack": lambda **given: by_torch(lambda x: gl.pack(x, "F", **given)),
    "export": lambda **given: by_export(lambda x: gl.transpose(x, **given)),
    "gradient": lambda **given: by_gradient(lambda x: gl.pack(x, "F", **given)),
    "jit": lambda **given: pytest.importorskip("jax").jit(lambda x: gl.transpose(x, **given))(ROWS),
    "dask.transpose": lambda **given: gl.dask.transpose(pytest.importorskip("dask.array").from_array(ROWS), **given),
    "dask.pack": lambda **given: gl.dask.pack(pytest.importorskip("dask.array").from_array(ROWS), "F", **given),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", WAYS)
def test_every_call_refuses_numbers_that_numpy_would_not_broadcast(way):
    with pytest.raises(Exception, match=r"scale of shape \(2,\) does not fit an array of shape \(3, 4\)") as caught:
        WAYS[way](scale=SHORT)
    assert "block=2" in str(caught.value)
    WAYS[way](scale=SHORT, block=2)
    WAYS[way](scale=[SHORT], divide=True)


@pytest.mark.parametrize("way", ["mapping", "text", "TOML", "command line"])
def test_rules_of_models_have_blocks_and_divisors(tmp_path, way):
    from safetensors.numpy import load_file, save_file

    save_file({"w": ROWS}, tmp_path / "a.safetensors")
    text = "scale=1,2; block=2; divide"
    rules = {
        "mapping": {"w": {"scale": SHORT, "block": 2, "divide": True}},
        "text": {"w": text},
        "TOML": tmp_path / "my.toml",
        "command line": [f"w={text}"],
    }
    (tmp_path / "my.toml").write_text("[[tensor]]\nmatch = 'w'\nscale = [1.0, 2.0]\nblock = 2\ndivide = true\n")
    gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors=rules[way])
    assert (load_file(tmp_path / "b.safetensors")["w"] == ROWS / [1, 1, 2, 2]).all()


def test_files_refuse_them_too(tmp_path):
    for call in (lambda: by_file(tmp_path, scale=SHORT), lambda: by_model(tmp_path, SHORT)):
        with pytest.raises(gl.LayoutError, match=r"scale of shape \(2,\) does not fit an array of shape \(3, 4\)"):
            call()
    by_file(tmp_path, scale=SHORT, block=2, divide=True)
    assert (np.load(tmp_path / "out.npy") == ROWS / [1, 1, 2, 2]).all()


# ---- what was silent -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows, columns", [(576, 256), (192, 256), (200, 300)])
def test_blocks_of_128_whose_last_one_is_cut(executor, rows, columns):
    """Scales of f8 weights, as checkpoints have them."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((rows, columns)).astype(ml_dtypes.float8_e4m3fn)
    scale = rng.random((-(-rows // 128), -(-columns // 128))).astype(np.float32) + 0.5
    spread = scale.repeat(128, 0)[:rows].repeat(128, 1)[:, :columns]
    expected = (weight.astype(np.float32) * spread).astype(ml_dtypes.bfloat16)
    given = executor.array(weight.view(np.uint8) if executor.name == "cupy" else weight)
    shape = gl.Shape("f8e4m3fn", weight.shape)
    found = executor.host(gl.unpack(given.reshape(-1), shape, dtype="bf16", scale=scale, block=128))
    assert found.view(np.uint16).tolist() == expected.view(np.uint16).tolist()


@pytest.mark.parametrize("library", [np.asarray, lambda array: pytest.importorskip("torch").from_numpy(array)])
@pytest.mark.parametrize(
    "source, target", [("f4e2m1fn", "f32"), ("f8e4m3fn", "bf16"), ("f6e3m2fn", "f16"), ("f32", "f8e5m2")]
)
def test_codes_of_scales_are_no_numbers(source, target, library):
    """u8 beside floats of few bits is how MX files store scales; as numbers, 127 would be 127 and not 1."""
    values, codes = np.ones((4, 64), gl.ElementType.of(source).dtype), np.full((4, 2), 127, np.uint8)
    text = r"^scale holds u8 elements beside f\w+, whose scales are often stored as codes of f8e8m0fnu, powers of two"
    with pytest.raises(TypeError, match=text):
        gl.transpose(values, dtype=target, scale=library(codes))
    for scale in (codes.view(ml_dtypes.float8_e8m0fnu), np.ones((4, 2), np.float32), 1):
        assert (gl.transpose(values, dtype=target, scale=scale).astype(np.float32) == 1).all()
    pixels = np.ones((4, 64), np.uint8)
    assert (gl.transpose(pixels, dtype="f32", scale=library(codes)) == 127).all()


@pytest.mark.parametrize("target", gl.ElementType)
def test_saturate_false_is_refused_where_there_is_no_nan(target):
    values = np.ones(4, np.complex64 if target.is_complex else np.float32)
    if target.is_integral or (target.is_floating and not target.holds(np.nan)):
        with pytest.raises(TypeError, match=f"^saturate=False for {target}: {target} has no nan"):
            gl.pack(values, "C", dtype=target, saturate=False)
    else:
        assert gl.pack(values, "C", dtype=target, saturate=False).shape == (4,)
