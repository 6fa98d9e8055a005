"""Weights for the tests of gl.torch's packed tensors: plain tensors, and what NumPy and `gl.pack` say of them.

The logical array is a NumPy array of the shape's type.  The tensor has the same bits.  Of elements below a byte it has
codes: their bits, one element in each uint8.
"""

import ctypes

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")


def torch_type(dtype):
    """torch's type for an element type of NumPy."""
    return getattr(torch, np.dtype(dtype).name)


def random_values(dimensions, shape, rng):
    """An array of the shape's type, with random bits; `rng` is a random.Random."""
    data = rng.randbytes(int(np.prod(dimensions, dtype=int)) * shape.itemsize)
    if shape.element_type.is_sub_byte:
        codes = np.frombuffer(data, np.uint8) & (1 << shape.bits_per_element) - 1
        return _of_codes(codes, shape).reshape(dimensions)
    bits = np.frombuffer(data, f"u{shape.itemsize}")
    bits = bits & 1 if shape.dtype == bool else bits.copy()
    return bits.view(shape.dtype).reshape(dimensions)


def as_tensor(values, shape):
    """The plain tensor of an array: new memory."""
    bits = torch.from_numpy(np.array(values, order="C").view(f"u{values.itemsize}"))
    if shape.element_type.is_sub_byte:
        return bits & (1 << shape.bits_per_element) - 1
    return bits.view(torch_type(values.dtype))


def as_values(tensor, shape):
    """The array of a plain tensor."""
    tensor = tensor.detach().contiguous()
    if shape.element_type.is_sub_byte:
        return _of_codes(tensor.numpy(), shape)
    return tensor.view(getattr(torch, f"uint{8 * tensor.itemsize}")).numpy().view(shape.dtype)


def _of_codes(codes, shape):
    """Elements below a byte, whose bits are the lowest of each code."""
    sign = 1 << shape.bits_per_element - 1 if shape.element_type.value.startswith("s") else 0
    return ((codes.astype(np.int8) ^ sign) - sign).astype(shape.dtype)


def packed_bytes(values, shape):
    """The bytes that `gl.pack` writes."""
    return np.asarray(gl.pack(np.ascontiguousarray(values), shape)).view(np.uint8).tobytes()


def bytes_of(tensor, count=None):
    """The first bytes of a tensor's memory: those of the whole tensor, by default."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes if count is None else count)


def same_bits(tensor, values, shape):
    """Whether a plain tensor has the type, the sizes and the bits of an array."""
    expected = as_tensor(values, shape)
    return (
        tensor.dtype == expected.dtype
        and tensor.shape == expected.shape
        and gl.torch.layout_of(tensor) is None
        and bytes_of(tensor.detach().contiguous()) == bytes_of(expected)
    )


def random_box(dimensions, rng):
    """Slices of an array: any, the whole, one without elements, or of the first axes alone."""
    box = []
    for size in dimensions:
        begin, end = sorted(rng.randint(0, size) for _ in range(2))
        kind = rng.random()
        if kind < 0.3:
            begin, end = None, None
        elif kind < 0.9 and begin == end:
            begin, end = (begin - 1, end) if begin else (None, end + 1)
        box.append(slice(begin, end))
    return tuple(box[: rng.choice((len(box), len(box), rng.randint(1, len(box)))) if box else 0])


def named(entry, dtype, choices, sizes=None):
    """The text of an entry with its type and choices, and sizes if there are any."""
    chosen = ",".join(f"{name}={value}" for name, value in {"dtype": dtype, **choices}.items())
    return f"{entry.name}({chosen}){'' if sizes is None else list(sizes)}".replace(" ", "")


# ---- weights of 4 bits ---------------------------------------------------------------------------------

MARLIN = "marlin:weights(dtype=u4)"
GPTQ = "gptq:qweight(dtype=u4)"
ROWS, COLUMNS = 64, 128
MARLIN_SHAPE = gl.parse_shape(f"{MARLIN}[{ROWS},{COLUMNS}]")


def codes(seed=0, sizes=(ROWS, COLUMNS)):
    """A uint8 tensor of numbers below 16."""
    return torch.randint(0, 16, sizes, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def marlin_bytes(plain):
    """The bytes of Marlin's weights of a tensor of codes."""
    return packed_bytes(as_values(plain, MARLIN_SHAPE), MARLIN_SHAPE)


def gptq_words(plain):
    """GPTQ's int32 of codes, from its definition: row 8 i + j of a column in bits 4 j to 4 j + 3 of word i."""
    rows, columns = plain.shape
    words = torch.zeros(rows // 8, columns, dtype=torch.int64)
    for place in range(8):
        words |= plain[place::8].to(torch.int64) << 4 * place
    return torch.from_numpy(words.numpy().astype(np.uint32).view(np.int32))


def packed_parameter(seed=0, kind=torch.nn.Parameter):
    """A parameter in Marlin's layout, and its codes."""
    plain = codes(seed)
    parameter = kind(plain.clone(), requires_grad=False)
    return gl.torch.pack_(parameter, MARLIN), plain


class Layer(torch.nn.Module):
    """A layer that reads the words of its weight, and has a bias that stays plain."""

    def __init__(self, weight, bias=0.0):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.bias = torch.nn.Parameter(torch.full((3,), bias))

    def forward(self, x):
        """Odd, but it depends on every word."""
        return x + self.bias + (self.weight & 255).sum()


def packed_layer(seed=0):
    """A layer with weights in Marlin's layout, and their codes."""
    plain = codes(seed)
    layer = Layer(plain.clone())
    gl.torch.pack_(layer.weight, MARLIN)
    return layer, plain
