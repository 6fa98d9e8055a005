"""zarr's `transpose` codec: the order in which a chunk's dimensions are stored, most major first.

    {"name": "transpose", "configuration": {"order": [2, 0, 1]}}        {1,0,2}

The codec stores `chunk.transpose(order)` in C order.  So the first entry of `order` is the most major dimension, and
the last one varies fastest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayout.interop.orders import said_in_full
from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

_EXAMPLE = "{'name': 'transpose', 'configuration': {'order': [1, 0]}}"


def from_zarr_transpose(codec: Mapping[str, Any] | Any) -> Layout:
    """The layout of the chunks that a `transpose` codec stores; the inverse of `to_zarr_transpose`.

    Parameters
    ----------
    codec : mapping or zarr.codecs.TransposeCodec
        The codec, or its JSON as Python values.

    Raises
    ------
    LayoutError
        It is another codec, or its order is not an ordering of dimensions.

    Notes
    -----
    The layout is that of the bytes if no later codec changes them: `bytes` in this machine's byte order, and no
    compression.  The orders "C" and "F" of drafts of zarr version 3 are refused, because they depend on other codecs.

    Examples
    --------
    >>> from_zarr_transpose({"name": "transpose", "configuration": {"order": [2, 0, 1]}})
    Layout((1, 0, 2))
    """
    fields = codec if isinstance(codec, Mapping) or not hasattr(codec, "to_dict") else codec.to_dict()
    if not isinstance(fields, Mapping):
        raise LayoutTypeError(
            f"codec {value_text(codec)} is {type_text(codec)}: it must be a TransposeCodec or a mapping, as {_EXAMPLE}"
        )
    if fields.get("name") != "transpose":
        raise LayoutError(f"codec {value_text(fields.get('name'))} is not zarr's transpose: write {_EXAMPLE}")
    configuration = fields.get("configuration")
    if not isinstance(configuration, Mapping) or set(configuration) != {"order"}:
        raise LayoutError(f"configuration {value_text(configuration)} of zarr's transpose is not {{'order': [...]}}")
    order = configuration["order"]
    if isinstance(order, str):
        raise LayoutError(f"order {value_text(order)} of zarr's transpose is not a list of dimensions, such as [1, 0]")
    return Layout.from_major_to_minor(order)


def to_zarr_transpose(layout: Shape | Layout | str) -> dict[str, Any]:
    """The `transpose` codec that stores chunks in this layout, as JSON values; the inverse of `from_zarr_transpose`.

    Parameters
    ----------
    layout : Layout, Shape or str

    Returns
    -------
    dict
        For the metadata of an array, or for `zarr.codecs.TransposeCodec.from_dict`.

    Raises
    ------
    LayoutError
        The layout has padding, a tile or another field beside the order.

    Examples
    --------
    >>> to_zarr_transpose("{1,0,2}")
    {'name': 'transpose', 'configuration': {'order': [2, 0, 1]}}
    """
    order = said_in_full(layout, "zarr's transpose codec").major_to_minor
    return {"name": "transpose", "configuration": {"order": list(order)}}
