"""Conversions with arithmetic on the way, judged by ml_dtypes, ONNX's reference evaluator and torchvision.

A judge that is not installed skips its tests.  Where a judge follows another law, the test says so and leaves it out.
"""

import importlib
import importlib.util

import numpy as np
import pytest

import gpulayout as gl

FINITE_ONLY = ("f6e3m2fn", "f6e2m3fn", "f4e2m1fn")  # neither infinities nor NaN
WITH_NAN = (
    "f16",
    "bf16",
    "f8e5m2",
    "f8e4m3",
    "f8e4m3fn",
    "f8e3m4",
    "f8e5m2fnuz",
    "f8e4m3fnuz",
    "f8e4m3b11fnuz",
)


def dtype_of(name):
    return gl.Shape(name, ()).dtype


def all_values(name):
    """Every bit pattern of a type of up to 16 bits."""
    dtype = dtype_of(name)
    count = 1 << (6 if name.startswith("f6") else gl.Shape(name, ()).element_type.bits)
    return np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype)


def judged_numbers(target):
    """All numbers of the target type as f32, the points halfway between neighbours, the f32 next to each on both sides,
    zeros, infinities, the largest numbers, NaN, and random bit patterns; in two dimensions.
    """
    with np.errstate(invalid="ignore"):
        every = all_values(target).astype(np.float32)
    every = np.unique(every[np.isfinite(every)])
    wide = every.astype(np.float64)
    with np.errstate(over="ignore"):
        points = np.concatenate([wide, (wide[1:] + wide[:-1]) / 2, wide[:1] * 2, wide[-1:] * 2]).astype(np.float32)
    points = np.concatenate([points, *(np.nextafter(points, np.float32(end)) for end in (-np.inf, np.inf))])
    bits = np.random.default_rng(5).integers(0, 1 << 32, 30_000, np.uint32).view(np.float32)
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45])
    found = np.concatenate([points, special, bits])
    return np.resize(found, (-(-len(found) // 7), 7))


def turned(values, **arguments):
    """The conversion on the way of a transpose, turned back."""
    return gl.transpose(values, "a b -> b a", **arguments).T


def assert_same(found, expected, given=None):
    """Bit for bit, NaN excepted."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    bits = f"u{found.dtype.itemsize}"
    found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
    differ = found.view(bits) != expected.view(bits)
    differ &= ~((found != found) & (expected != expected))  # NaN
    where = tuple(np.argwhere(differ)[0]) if differ.any() else None
    assert where is None, (where, None if given is None else given[where], found[where], expected[where])


# ---- ml_dtypes: from f32 to small floats it rounds once ----------------------------------------------------------


@pytest.mark.parametrize("target", WITH_NAN)
def test_ml_dtypes_casts_f32_to_small_floats(target):
    values = judged_numbers(target)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype_of(target))
    assert_same(turned(values, dtype=target, saturate=False), expected, values)


@pytest.mark.parametrize("target", FINITE_ONLY)
def test_ml_dtypes_casts_f32_to_floats_without_nan(target):
    """ml_dtypes has a law of its own for NaN."""
    values = np.nan_to_num(judged_numbers(target), nan=1.0, posinf=np.inf, neginf=-np.inf)
    assert_same(turned(values, dtype=target), values.astype(dtype_of(target)), values)


@pytest.mark.parametrize("source", [*WITH_NAN, *FINITE_ONLY])
def test_ml_dtypes_widens_every_number(source):
    values = all_values(source).reshape(-1, 8)
    for target in ("f32", "f64"):
        with np.errstate(invalid="ignore"):  # signalling NaN
            expected = values.astype(dtype_of(target))
        assert_same(turned(values, dtype=target), expected, values)


def test_ml_dtypes_casts_positive_numbers_to_powers_of_two():
    """Zero, negative and tiny numbers follow another law there."""
    values = judged_numbers("f8e8m0fnu")
    values = np.where((values >= 2.0**-126) & (values < 2.0**127), values, np.float32(1))
    assert_same(turned(values, dtype="f8e8m0fnu"), values.astype(dtype_of("f8e8m0fnu")), values)


# ---- ONNX --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def onnx():
    pytest.importorskip("onnx", reason="onnx is not installed")
    importlib.import_module("onnx.reference")
    return importlib.import_module("onnx")


def evaluated(onnx, operator, inputs, output, **attributes):
    """What ONNX's reference evaluator gives for one operator; `output` is the element type of its result."""
    helper, numbered = onnx.helper, [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(operator, numbered, ["y"], **attributes)
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(each.dtype)) for each in inputs]
    described = [
        helper.make_tensor_value_info(name, kind, each.shape) for name, kind, each in zip(numbered, types, inputs)
    ]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype_of(output))), None)
    graph = helper.make_graph([node], "judge", described, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    with np.errstate(all="ignore"):
        return onnx.reference.ReferenceEvaluator(model).run(None, dict(zip(numbered, inputs)))[0]


def onnx_type(onnx, name):
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype_of(name)))


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("target", ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2fnuz", "f8e5m2", "f16", "bf16"])
def test_onnx_casts_f32(onnx, target, saturate):
    """ONNX saturates f8e5m2 too.  This library keeps its infinities, so with `saturate` only smaller numbers count."""
    values = judged_numbers(target)
    if target == "f8e5m2" and saturate:
        values = np.where(np.abs(values) < 57344, values, np.float32(1))
    expected = evaluated(onnx, "Cast", [values], target, to=onnx_type(onnx, target), saturate=int(saturate))
    assert_same(turned(values, dtype=target, saturate=saturate), expected, values)


@pytest.mark.parametrize("saturate", [True, False])
def test_onnx_casts_positive_numbers_to_powers_of_two(onnx, saturate):
    """ONNX drops the sign, and rounds f32's subnormal numbers as if they were normal."""
    values = np.abs(judged_numbers("f8e8m0fnu"))
    values = np.where((values >= 2.0**-126) & np.isfinite(values), values, np.float32(1))
    attributes = {"to": onnx_type(onnx, "f8e8m0fnu"), "saturate": int(saturate), "round_mode": "nearest"}
    expected = evaluated(onnx, "Cast", [values], "f8e8m0fnu", **attributes)
    assert_same(turned(values, dtype="f8e8m0fnu", saturate=saturate), expected, values)


def activations(rows=64, columns=48):
    """Numbers of which some are out of range, and scales and zero points for each column."""
    chance = np.random.default_rng(2)
    values = chance.standard_normal((rows, columns)).astype(np.float32) * 40
    values[:4] = np.round(values[:4])  # many ties with a scale of a power of two
    scale = chance.uniform(0.1, 0.5, columns).astype(np.float32)
    scale[::5] = 0.25
    return values, scale, chance.integers(0, 4, columns)


@pytest.mark.parametrize("target", ["u8", "s8", "u16", "s16", "u4", "s4"])
def test_onnx_quantises_per_channel(onnx, target):
    values, scale, zero_point = activations()
    points = zero_point.astype(dtype_of(target))
    expected = evaluated(onnx, "QuantizeLinear", [values, scale, points], target, axis=1)
    assert_same(turned(values, dtype=target, scale=scale, zero_point=zero_point), expected, values)


@pytest.mark.parametrize("target", ["u8", "s8", "s4"])
@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("axis", [0, 1])
def test_onnx_quantises_per_block(onnx, target, axis, size):
    values, _, _ = activations()
    sizes = [values.shape[0], values.shape[1]]
    sizes[axis] //= size
    chance = np.random.default_rng(3)
    scale = chance.uniform(0.1, 0.5, sizes).astype(np.float32)
    points = chance.integers(0, 4, sizes).astype(dtype_of(target))
    expected = evaluated(onnx, "QuantizeLinear", [values, scale, points], target, axis=axis, block_size=size)
    found = turned(values, dtype=target, scale=scale, zero_point=points.astype(np.int32))
    assert_same(found, expected, values)


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("target", ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2fnuz"])
def test_onnx_quantises_to_floats(onnx, target, saturate):
    values, scale, _ = activations()
    zero = np.zeros(scale.shape, dtype_of(target))
    expected = evaluated(onnx, "QuantizeLinear", [values * 30, scale, zero], target, axis=1, saturate=int(saturate))
    assert_same(turned(values * 30, dtype=target, scale=scale, divide=True, saturate=saturate), expected, values)


@pytest.mark.parametrize("target", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u4", "s4"])
def test_onnx_dequantises_per_channel(onnx, source, target):
    values, scale, zero_point = activations()
    low, high = (0, 16) if source == "u4" else (-8, 8) if source == "s4" else (None, None)
    if low is None:
        low, high = np.iinfo(dtype_of(source)).min, np.iinfo(dtype_of(source)).max + 1
    numbers = np.random.default_rng(4).integers(low, high, values.shape).astype(dtype_of(source))
    inputs = [numbers, scale, zero_point.astype(dtype_of(source))]
    expected = evaluated(onnx, "DequantizeLinear", inputs, target, axis=1, output_dtype=onnx_type(onnx, target))
    assert_same(turned(numbers, dtype=target, scale=scale, zero_point=zero_point), expected, numbers)


# ---- torchvision -------------------------------------------------------------------------------------------------

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(scope="module")
def transforms():
    """torchvision's functions.  Beside a torch of another build, which lacks CUDA, its compiled operators do not load;
    these functions use none, so it is enough that the operators have a declaration.
    """
    torch = pytest.importorskip("torch")
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision.transforms.functional")


def images(count=4, height=32, width=24):
    """Pixels of every value in every channel."""
    every = np.arange(count * height * width * 3) * 7 % 256
    return every.astype(np.uint8).reshape(count, height, width, 3)


def test_torchvision_normalises_images(transforms):
    pixels = images()
    expected = np.stack([transforms.normalize(transforms.to_tensor(each), MEAN, DEVIATION).numpy() for each in pixels])
    arguments = {"dtype": "f32", "unit": True, "mean": MEAN, "std": DEVIATION}
    assert_same(gl.transpose(pixels, "n h w c -> n c h w", **arguments), expected)
    assert_same(gl.transpose(pixels[0], "h w c -> c h w", **arguments), expected[0])


def test_torchvision_normalises_tensors(transforms):
    torch = pytest.importorskip("torch")
    pixels = torch.from_numpy(images())
    planes = [transforms.to_tensor(each.numpy()) for each in pixels]
    expected = torch.stack([transforms.normalize(each, MEAN, DEVIATION) for each in planes])
    found = gl.transpose(pixels, "n h w c -> n c h w", dtype="f32", unit=True, mean=MEAN, std=DEVIATION)
    assert type(found) is torch.Tensor and torch.equal(found, expected)


def test_torchvision_brings_images_to_one(transforms):
    pixels = images()[0]
    assert_same(gl.transpose(pixels, "h w c -> c h w", dtype="f32", unit=True), transforms.to_tensor(pixels).numpy())


@pytest.mark.parametrize("steps", ["mean and std", "mean", "std"])
def test_torchvision_normalises_floats(transforms, steps):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(6).uniform(0, 1, (30, 20, 3)).astype(np.float32)
    mean, deviation = (chosen if name in steps else None for name, chosen in (("mean", MEAN), ("std", DEVIATION)))
    planes = torch.from_numpy(values.transpose(2, 0, 1).copy())
    expected = transforms.normalize(planes, mean or [0.0] * 3, deviation or [1.0] * 3).numpy()
    chosen = {name: each for name, each in (("mean", mean), ("std", deviation)) if each}
    assert_same(gl.transpose(values, "h w c -> c h w", dtype="f32", **chosen), expected)
