"""zarr's transpose codec, against the chunks that zarr writes."""

import itertools
import json

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import interop


@pytest.mark.parametrize("rank", range(5))
def test_a_chunk_has_the_bytes_of_the_layout(rank, tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")
    sizes = (2, 3, 4, 5)[:rank]
    array = np.arange(1, 1 + np.prod(sizes, dtype=int), dtype=np.int32).reshape(sizes)  # zarr leaves out zero chunks
    for order in itertools.permutations(range(rank)):
        shape = gl.Shape("s32", sizes, gl.Layout(order))
        codec = zarr.codecs.TransposeCodec.from_dict(interop.to_zarr_transpose(shape))
        folder = tmp_path / "".join(map(str, order))
        stored = zarr.create_array(folder, shape=sizes, chunks=sizes, dtype="i4", filters=[codec], compressors=None)
        stored[...] = array
        (chunk,) = [path for path in folder.rglob("*") if path.is_file() and path.name != "zarr.json"]
        assert chunk.read_bytes() == gl.pack(array, shape).tobytes()
        first, *_ = json.loads((folder / "zarr.json").read_text())["codecs"]
        assert interop.from_zarr_transpose(first) == interop.from_zarr_transpose(codec) == shape.layout
        assert interop.to_zarr_transpose(shape.layout) == first


@pytest.mark.parametrize(
    "codec, problem",
    [
        ({"name": "bytes", "configuration": {"endian": "little"}}, "codec 'bytes' is not zarr's transpose"),
        ({}, "codec None is not zarr's transpose"),
        ({"name": "transpose"}, "configuration None of zarr's transpose is not {'order': [...]}"),
        ({"name": "transpose", "configuration": {"order": [0], "axes": 1}}, "'axes': 1} of zarr's transpose is not"),
        ({"name": "transpose", "configuration": {"order": "F"}}, "order 'F' of zarr's transpose is not a list"),
        ({"name": "transpose", "configuration": {"order": [0, 2]}}, "major_to_minor (0, 2) is not an ordering"),
        ({"name": "transpose", "configuration": {"order": [0, 0]}}, "dimension 0 appears twice"),
        ({"name": "transpose", "configuration": {"order": 1}}, "major_to_minor 1 is not a sequence"),
        ([1, 0], "codec [1, 0] is a list"),
        ("transpose", "codec 'transpose' is a str"),
    ],
)
def test_other_codecs_are_refused(codec, problem):
    with pytest.raises(gl.LayoutError) as caught:
        interop.from_zarr_transpose(codec)
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["f32[2,3]{0,1:PD(3,5)}", "{1,0:T(2,2)}"])
def test_more_than_an_order_is_refused(text):
    with pytest.raises(
        gl.LayoutError, match="^(padded_dimensions|tiles) .* cannot be expressed as zarr's transpose codec$"
    ):
        interop.to_zarr_transpose(text)
