"""XLA's own answers: every row of data/xla_vectors.json that concerns order, padding, indexing and text runs here.

A row states an operation, its arguments and the answer; most answers were asserted by XLA's unit tests or observed on
real XLA, and each row says which.  Rows that need a feature this library does not have are left out by `missing_feature`,
which works the reason out from the row itself; `test_every_row_is_accounted_for` pins how many there are of each.
"""
import collections
import json
import math
import pathlib
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, PaddingValue, Shape

ROWS = json.loads((pathlib.Path(__file__).parent / "data" / "xla_vectors.json").read_text())["vectors"]


# ---- which rows are in scope ----------------------------------------------------------------------

SUB_BYTE = ("s1", "u1", "s2", "u2", "s4", "u4", "f4e2m1fn")
IN_TEXT = (                          # the first that is found in any text of the row is its reason
    ("tuples", r"^\s*\("), ("tokens and opaque values", r"^\s*(token|opaque)\b"), ("buffer shapes", r"^\s*b\("),
    ("dynamic sizes", r"<=|\?"), ("tiles", r"(?<![A-Z])T\("), ("tail padding alignment", r"(?<![A-Z])L\("),
    ("element size in bits", r"(?<![A-Z])E\("), ("memory space", r"(?<![A-Z])S\("), ("split configuration", r"SC\("),
    ("dynamic metadata prefix", r"(?<![A-Z])M\("), ("sparse layouts", r"(?<![A-Z])D\(|[#*]\("),
)


def missing_feature(row):
    """What the row needs that this library does not have; None when it can run."""
    given = row["in"]
    texts = [value for value in given.values() if isinstance(value, str)]
    for feature, pattern in IN_TEXT:
        if any(re.search(pattern, text) for text in texts):
            return feature
    if given.get("tiles"):
        return "tiles"
    if given.get("tail", 1) != 1:
        return "tail padding alignment"
    if given.get("type", given.get("name")) in SUB_BYTE or "bits" in given:
        return "elements smaller than a byte"
    if "splits" in given:
        return "split configuration"
    if "meta" in given:
        return "dynamic metadata prefix"
    if "pointer" in given or isinstance(given.get("index"), str):
        return "sparse layouts"
    if given.get("name") in ("tuple", "token"):
        return "types without elements"
    return None


RUN = [row for row in ROWS if missing_feature(row) is None]


def test_every_row_is_accounted_for():
    reasons = collections.Counter(missing_feature(row) or "run" for row in ROWS)
    assert reasons == {
        "run": 228, "tiles": 60, "elements smaller than a byte": 11, "tuples": 11, "split configuration": 11,
        "element size in bits": 9, "tokens and opaque values": 7, "sparse layouts": 7, "buffer shapes": 7, "dynamic sizes": 6,
        "tail padding alignment": 3, "dynamic metadata prefix": 3, "memory space": 1, "types without elements": 1,
    }
    assert len(ROWS) == 365


def test_rows_that_are_left_out_cannot_run():
    """A text of every such row is refused; once the library reads it, the row has to come in."""
    for row in ROWS:
        texts = [value for value in row["in"].values() if isinstance(value, str) and set("[{") & set(value)]
        if missing_feature(row) and texts:
            assert not all(can_be_read(text) for text in texts), row["id"]


def can_be_read(text):
    try:
        (gl.parse_layout if text.startswith("{") else gl.parse_shape)(text)
    except LayoutError:
        return False
    return True


# ---- the operations ------------------------------------------------------------------------------

def shape_of(given, **fields):
    """The shape of a row, f32 where it names no type."""
    order = given.get("minor_to_major")
    if given.get("padded_dimensions") is not None:
        fields["padded_dimensions"] = given["padded_dimensions"]
    if order is None and fields:
        order = range(len(given["dims"]) - 1, -1, -1)
    return Shape(given.get("type", "f32"), given["dims"], None if order is None else Layout(order, **fields))


def row_of(shape):
    """A shape as rows write it."""
    return {"dims": list(shape.dimensions), "minor_to_major": list(shape.layout.minor_to_major)}


def both(given):
    return shape_of(given["in"]), shape_of(given["result"])


def linear_roundtrip(given):
    shape = shape_of(given)
    index = gl.delinearize(given["linear"], shape)
    return {"index": list(index), "linear": gl.linearize(index, shape)}


def bump_to_the_end(given):
    shape, index, sequence = shape_of(given), tuple(given["start"]), []
    while (index := gl.bump_indices(shape, index)) is not None:
        sequence.append(list(index))
    return {"sequence": sequence, "then": False}


def padded_memory(given):
    shape = Shape("u8", given["dims"], Layout(given["minor_to_major"], padded_dimensions=given["padded_dimensions"],
                                              padding_value=PaddingValue[given["padding_value"].removesuffix("_PAD")]))
    letters = np.array([ord(letter) for letter in given["values"]], np.uint8).reshape(given["dims"])
    return [chr(place) if place else given["pad_shown"] for place in gl.pack(letters, shape)]


def padding_value_fill(given):
    """Name by name; UNKNOWN may be anything, INVALID is refused."""
    filled = {}
    for name in PaddingValue:
        try:
            layout = Layout((0,), padded_dimensions=(2,), padding_value=name)
        except LayoutError:
            filled[f"{name.name}_PAD"] = "reject"
            continue
        shape = Shape(given["type"], (1,), layout)
        value = np.frombuffer(shape.padding_bytes, shape.dtype)[0].item()
        filled[f"{name.name}_PAD"] = str(value) if math.isinf(value) else value
    return filled


def strides_to_layout(given):
    try:
        layout = gl.layout_from_strides(given["dims"], given["byte_strides"], itemsize=4, padding=False)
    except LayoutError:
        return None
    return {"minor_to_major": list(layout.minor_to_major)}


def decompose_bitcast(given):
    """XLA's order of preference: a reshape, then a transpose, then transpose, reshape and transpose."""
    source, target = both(given)
    if gl.reshape_is_bitcast(source, target):
        return {"kind": "reshape"}
    transpose = gl.deduce_transpose_dimensions_for_bitcast(source, target)
    if transpose:
        return {"kind": "transpose", "dims": list(transpose)}
    first, _, middle, second = gl.decompose_bitcast(source, target)
    return {"kind": "trt", "transpose1": list(first), "mid": list(middle.dimensions), "transpose2": list(second)}


def transpose_is_bitcast(given):
    return gl.transpose_is_bitcast(*both(given), given["permutation"], ignore_element_type=given["ignore_element_type"])


def align_layouts(given):
    found = gl.align_layouts(shape_of(given["in"]), given["result_dims"])
    return found and list(found.layout.minor_to_major)


def normalized_transpose(given):
    sizes, permutation = gl.normalized_transpose(given["in_dims"], given["permutation"])
    return {"dims": list(sizes), "permutation": list(permutation)}


def shape_equal(given):
    options = {"fp_precision": "ignore_float_precision"}
    ignored = {options[name]: True for name in given["ignore"]}
    first, second = gl.parse_shape(given["lhs"]), gl.parse_shape(given["rhs"])
    assert ignored or (first == second) == gl.shapes_equal(first, second)
    return gl.shapes_equal(first, second, **ignored)


def primitive_type(given):
    """`bits` counts the significant ones, which differ from the storage for pred alone."""
    found = gl.ElementType.of(given["name"])
    return {"id": found.proto_number, "bits": 1 if found == "pred" else 8 * found.itemsize, "bytes": found.itemsize}


def roundtrip(given):
    return str(gl.parse_shape(given["text"]))


def layout_of(given):
    return Layout(given["minor_to_major"])


OPERATIONS = {
    "multi_to_linear": lambda g: gl.linearize(g["index"], shape_of(g)),
    "linear_to_multi": lambda g: list(gl.delinearize(g["linear"], shape_of(g))),
    "linear_roundtrip": linear_roundtrip,
    "bump_indices": bump_to_the_end,
    "dimension_stride": lambda g: shape_of(g).stride(g["dim"]),
    "index_in_bounds": lambda g: shape_of(g).index_in_bounds(g["index"]),
    "compare_indices": lambda g: gl.compare_indices(g["lhs"], g["rhs"]),
    "for_each_index_count": lambda g: shape_of(g).element_count,
    "padded_memory": padded_memory,
    "padded_byte_size": lambda g: shape_of(g).nbytes,
    "is_padded": lambda g: shape_of(g).is_padded,
    "padded_stride": lambda g: shape_of(g).stride(g["dim"]),
    "validate_padding": shape_of,
    "padded_permute": lambda g: {
        "dims": list((result := shape_of(g).permute_dimensions(g["permutation"])).dimensions),
        "padded_dimensions": list(result.layout.padded_dimensions)},
    "padding_value_fill": padding_value_fill,
    "byte_size": lambda g: shape_of(g).nbytes,
    "byte_strides": lambda g: list(shape_of(g).byte_strides),
    "byte_strides_is_major_to_minor": lambda g: (strides_to_layout(g) or {}).get("minor_to_major") == [3, 2, 1, 0],
    "strides_to_layout": strides_to_layout,
    "default_layout": lambda g: list(Shape("f32", (1,) * g["rank"]).layout.minor_to_major),
    "descending_layout": lambda g: list(Layout.descending(g["rank"]).minor_to_major),
    "ascending_layout": lambda g: list(Layout.ascending(g["rank"]).minor_to_major),
    "from_major_to_minor": lambda g: list(Layout.from_major_to_minor(g["major_to_minor"]).minor_to_major),
    "is_monotonic": lambda g: {"dim0_minor": layout_of(g).is_monotonic_with_dim0_minor,
                               "dim0_major": layout_of(g).is_monotonic_with_dim0_major},
    "logical_to_physical": lambda g: list(layout_of(g).logical_to_physical()),
    "major_minor": lambda g: {"minor": [layout_of(g).minor(i) for i in range(4)],
                              "major": [layout_of(g).major(i) for i in range(4)]},
    "dims_consecutive": lambda g: layout_of(g).are_dimensions_consecutive(g["dims"]),
    "move_dim_to_major": lambda g: list(layout_of(g).move_dimension_to_major(g["dim"]).minor_to_major),
    "move_dim_to_minor": lambda g: list(layout_of(g).move_dimension_to_minor(g["dim"]).minor_to_major),
    "layout_delete_dimension": lambda g: {"minor_to_major": list(layout_of(g).delete_dimensions([g["dim"]]).minor_to_major)},
    "delete_dimensions": lambda g: row_of(shape_of(g).delete_dimensions(g["delete"])),
    "prepend_major": lambda g: row_of(shape_of(g).prepend_major_dimension(g["bound"])),
    "append_minor": lambda g: row_of(shape_of(g).append_minor_dimension(g["bound"])),
    "append_major": lambda g: row_of(shape_of(g).append_major_dimension(g["bound"])),
    "insert_dimensions": lambda g: row_of(shape_of(g).insert_dimensions(g["at"], g["bounds"])),
    "permute_dimensions": lambda g: row_of(shape_of(g).permute_dimensions(g["permutation"])),
    "permute_ignoring_layout": lambda g: row_of(shape_of(g).permute_dimensions(g["permutation"]).with_default_order()),
    "reorder_logical": lambda g: row_of(shape_of(g).permute_dimensions(g["permutation"])),
    "transpose_is_bitcast": transpose_is_bitcast,
    "reshape_is_bitcast": lambda g: gl.reshape_is_bitcast(*both(g)),
    "deduce_transpose": lambda g: (found := gl.deduce_transpose_dimensions_for_bitcast(*both(g))) and list(found),
    "decompose_bitcast": decompose_bitcast,
    "descending_same_physical": lambda g: list(gl.with_descending_layout_and_same_physical_layout(shape_of(g)).dimensions),
    "align_layouts": align_layouts,
    "normalized_transpose": normalized_transpose,
    "elements_in": lambda g: shape_of(g).element_count,
    "is_zero_element": lambda g: shape_of(g).is_zero_element_array,
    "true_rank": lambda g: shape_of(g).true_rank,
    "is_effective_scalar": lambda g: shape_of(g).is_effective_scalar,
    "get_dimension": lambda g: shape_of(g).dimension(g["dim"]),
    "has_degenerate_dims": lambda g: shape_of(g).has_degenerate_dimensions,
    "effectively_most_major": lambda g: shape_of(g).is_effectively_most_major_dimension(g["dim"]),
    "dims_unmodified_by_reshape": lambda g: [list(pair) for pair in gl.dimensions_unmodified_by_reshape(g["in"], g["out"])],
    "inserted_or_deleted_1s": lambda g: gl.inserted_or_deleted_1_sized_dimensions(g["pre"], g["post"]) is not None,
    "last_dim_is_minor_most": lambda g: gl.parse_shape(g["shape"]).last_dimension_is_minor_most,
    "shape_equal": shape_equal,
    "layout_equal": lambda g: gl.parse_layout(g["lhs"]) == gl.parse_layout(g["rhs"]),
    "compatible": lambda g: gl.shapes_compatible(gl.parse_shape(g["lhs"]), gl.parse_shape(g["rhs"])),
    "copy_layout": lambda g: gl.parse_shape(g["dst"]).with_layout(gl.parse_shape(g["src"]).layout),
    "validate_layout": lambda g: shape_of(g) and "ok",
    "make_shape": lambda g: shape_of(g) and "ok",
    "print_layout": lambda g: str(Layout(g["m2m"])),
    "print_shape": lambda g: {"with_layout": str(gl.parse_shape(g["shape"])),
                              "without_layout": gl.parse_shape(g["shape"]).text_without_layout()},
    "parse_roundtrip": roundtrip,
    "parse_normalize": roundtrip,
    "parse_reject": roundtrip,
    "parse_strict_reject": roundtrip,
    "primitive_type": primitive_type,
}

# Where this library decided otherwise, and what it answers.
DIFFERENCES = {
    # Negative dimension numbers count from the end, as everywhere in Python; XLA's process dies.
    "layout_delete_dimension.005": {"minor_to_major": [0]},
}
UNKNOWN_MAY_BE_ANYTHING = "any (NaN allowed)"


def test_no_operation_is_listed_in_vain():
    assert set(OPERATIONS) == {row["op"] for row in RUN}


@pytest.mark.parametrize("row", RUN, ids=lambda row: row["id"])
def test_row(row):
    run = OPERATIONS[row["op"]]
    if row["id"] in DIFFERENCES:
        assert run(row["in"]) == DIFFERENCES[row["id"]]
    elif "error" in row:
        with pytest.raises(IndexError if row["op"] == "multi_to_linear" else LayoutError):
            run(row["in"])
    elif row["op"] == "padding_value_fill":
        found = run(row["in"])
        assert {name: value for name, value in row["out"].items() if value != UNKNOWN_MAY_BE_ANYTHING}.items() <= found.items()
    else:
        assert run(row["in"]) == row["out"]
