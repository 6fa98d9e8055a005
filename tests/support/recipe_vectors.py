"""What the owners' code made of checkpoints: `tests/data/recipes`, and the tensors that it got.

Element n of tensor number i has the highest bits of (n + 1000003 i) * 2654435761 modulo 2^32.
"""

import hashlib
import json
import math
import pathlib

import numpy as np

from tests.support.model_files import entry, raw

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data" / "recipes"
FILES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def bits(shape, count, number=0):
    """The highest `count` bits, at most 16, in unsigned integers."""
    places = np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(1000003 * number)
    wide = places * np.uint64(2654435761) % np.uint64(1 << 32) >> np.uint64(32 - count)
    return wide.astype(np.uint8 if count <= 8 else np.uint16).reshape(shape)


def small_bf16(shape, number=0):
    """The bits of bf16 numbers below 2, neither infinite nor NaN."""
    return bits(shape, 16, number) & np.uint16(0xBFFF)


def even_bf16(shape, number=0):
    """The bits of bf16 numbers from 2^-7 to 2, with signs."""
    return bits(shape, 16, number) & np.uint16(0x83FF) | np.uint16(0x3C00)


def fp8_codes(shape):
    """Codes of f8e4m3fn without NaN."""
    codes = bits(shape, 8)
    return codes - ((codes & 0x7F) == 0x7F).astype(np.uint8)


def block_scales(shape):
    """Scales for blocks of FP8, as float32."""
    return (bits(shape, 16, 1).astype(np.float32) + np.float32(65536)) * np.float32(2.0**-28)


def as_float(numbers):
    """The float32 of bf16 bits."""
    return (numbers.astype(np.uint32) << 16).view(np.float32)


def as_bf16(numbers):
    """The bits of float32 numbers that are finite, rounded to the nearest bf16."""
    wide = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)


def mxfp4_scales(shape):
    """Exponents of MXFP4 with a bias of 127, the least and the greatest among them."""
    scales = bits(shape, 5, 1) + np.uint8(112)
    scales[0, :4, 0] = 0, 1, 253, 254
    return scales


def said(array, dtype):
    """What a vector says of an array."""
    data = np.ascontiguousarray(array).tobytes()
    return {
        "dtype": dtype,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(data).hexdigest(),
        "first": data[:24].hex(),
    }


def save_folder(folder, tensors, config):
    """A model as a hub has it: tensors by name, each a type of the format and an array of as many bytes."""
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        header[name] = entry(dtype, list(array.shape), len(data), len(data) + array.nbytes)
        data += array.tobytes()
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(raw({"__metadata__": {"format": "pt"}, **header}, data))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")


def wide_numbers(name):
    """The bits of the bf16 numbers that slime's code made FP8 of, by what a vector calls its input."""
    if name == "pieces_of_other_sizes":
        numbers = as_float(even_bf16((192, 320)))
        for number, (row, column) in enumerate(np.ndindex(3, 10)):
            numbers[64 * row : 64 * row + 64, 32 * column : 32 * column + 32] *= np.float32(1 - number / 64)
    elif name == "zeros_small_and_large":
        numbers = as_float(even_bf16((256, 384), 2))
        numbers[:128, 128:256] = 0
        numbers[128:, :128] *= np.float32(2.0**-20)
        numbers[128:, 256:] *= np.float32(2.0**20)
    else:  # ties: x / scale and x * (1 / scale) are on two sides of the middle of two codes
        numbers = as_float(even_bf16((128, 384), 3))
        numbers[:2, ::128] = [[3.875, 4.75, 4.3125], [0.36328125, -0.890625, -1.6171875]]
    return as_bf16(numbers)
