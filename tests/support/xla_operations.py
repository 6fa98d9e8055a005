"""The operations of data/xla_vectors.json: the library's result for the arguments of a row."""

import math

import numpy as np

import gpulayout as gl
from gpulayout import Layout, LayoutError, PaddingValue, Shape
from gpulayout.xla import BufferShape, OpaqueShape, TokenShape, TupleShape


def shape_of(given, **fields):
    """The shape of a row, f32 where it names no type; or its text."""
    if "shape" in given:
        return gl.parse_shape(given["shape"])
    order = given.get("minor_to_major")
    if given.get("padded_dimensions") is not None:
        fields["padded_dimensions"] = given["padded_dimensions"]
    fields |= {field: given[name] for name, field in LAYOUT_FIELDS.items() if name in given and field != "index_type"}
    if order is None and fields:
        order = range(len(given["dims"]) - 1, -1, -1)
    return Shape(given.get("type", "f32"), given["dims"], None if order is None else Layout(order, **fields))


def index_of_row(given):
    """The index of a place, or None for padding."""
    table = gl.stride_table(shape_of(given))
    return list(table.index_of(given["linear"])) if table.is_element(given["linear"]) else None


def tiled_memory(given):
    """The row-major number of the element in every place."""
    shape = shape_of(given)
    table, places = gl.stride_table(shape), np.arange(shape.buffer_size)
    is_element, numbers = table.is_element(places), np.full(shape.buffer_size, given["pad_shown"])
    numbers[is_element] = (
        np.ravel_multi_index(table.index_of(places[is_element]), shape.dimensions) if shape.element_count else ()
    )
    return numbers.tolist()


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
    while (index := gl.xla.bump_indices(shape, index)) is not None:
        sequence.append(list(index))
    return {"sequence": sequence, "then": False}


def padded_memory(given):
    shape = Shape(
        "u8",
        given["dims"],
        Layout(
            given["minor_to_major"],
            padded_dimensions=given["padded_dimensions"],
            padding_value=PaddingValue[given["padding_value"].removesuffix("_PAD")],
        ),
    )
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
        layout = gl.xla.layout_from_strides(given["dims"], given["byte_strides"], itemsize=4, padding=False)
    except LayoutError:
        return None
    return {"minor_to_major": list(layout.minor_to_major)}


def decompose_bitcast(given):
    source, target = both(given)
    kind = gl.xla.bitcast_kind(source, target)
    if kind == "reshape":
        return {"kind": kind}
    if kind == "transpose":
        return {"kind": kind, "dims": list(gl.xla.deduce_transpose_dimensions_for_bitcast(source, target))}
    first, _, middle, second = gl.xla.decompose_bitcast(source, target)
    return {"kind": "trt", "transpose1": list(first), "mid": list(middle.dimensions), "transpose2": list(second)}


def transpose_is_bitcast(given):
    return gl.xla.transpose_is_bitcast(
        *both(given), given["permutation"], ignore="element_type" if given["ignore_element_type"] else ()
    )


def align_layouts(given):
    found = gl.xla.align_layouts(shape_of(given["in"]), given["result_dims"])
    return found and list(found.layout.minor_to_major)


def normalized_transpose(given):
    sizes, permutation = gl.xla.normalized_transpose(given["in_dims"], given["permutation"])
    return {"dims": list(sizes), "permutation": list(permutation)}


def layout_equal(given):
    names = {"all_but_minor_to_major": "layout_except_minor_to_major"}
    return gl.xla.layouts_equal(given["lhs"], given["rhs"], ignore=[names.get(name, name) for name in given["ignore"]])


def delete_from_layout(given):
    found = layout_of(given).delete_dimensions([given["dim"]])
    splits = (
        {"splits": [[split.dimension, list(split.split_indices)] for split in found.split_configs]}
        if "splits" in given
        else {}
    )
    return {"minor_to_major": list(found.minor_to_major), **splits}


def byte_strides(given):
    """None if the shape has none."""
    try:
        return list(shape_of(given).byte_strides)
    except LayoutError:
        return None


def validate_layout(given):
    shape_of(given).validate_layout()
    return "ok"


def transpose_is_bitcast_tiled(given):
    return gl.xla.transpose_is_bitcast(given["in"], given["result"], given["permutation"])


def shape_equal(given):
    names = {"fp_precision": "float_precision"}
    ignored = [names[name] for name in given["ignore"]]
    first, second = gl.parse_shape(given["lhs"]), gl.parse_shape(given["rhs"])
    assert ignored or (first == second) == gl.xla.shapes_equal(first, second)
    return gl.xla.shapes_equal(first, second, ignore=ignored)


def primitive_type(given):
    """`bits` counts the significant ones, which differ from the storage for pred and for what is smaller than a
    byte.
    """
    if given["name"] in WITHOUT_ELEMENTS:
        return {"id": WITHOUT_ELEMENTS[given["name"]].proto_number, "bits": None, "bytes": None}
    found = gl.ElementType.of(given["name"])
    return {"id": found.proto_number, "bits": found.bits, "bytes": found.itemsize}


def roundtrip(given):
    return str(gl.parse_shape(given["text"]))


LAYOUT_FIELDS = {
    "tiles": "tiles",
    "tail": "tail_padding_alignment",
    "element_size_in_bits": "element_size_in_bits",
    "splits": "split_configs",
    "meta": "dynamic_shape_metadata_prefix_bytes",
    "index": "index_type",
    "pointer": "pointer_type",
}
WITHOUT_ELEMENTS = {"tuple": TupleShape, "opaque": OpaqueShape, "token": TokenShape, "buffer": BufferShape}


def pack_subbyte(given):
    """The bytes of a packed 1-D buffer; the row's values are signed."""
    name, bits = f"s{given['bits']}", given["bits"]
    return gl.pack(
        given["values"], Shape(name, (len(given["values"]),), Layout((0,), element_size_in_bits=bits))
    ).tolist()


def layout_of(given):
    """The layout of a row, whose order has one of two names."""
    order = given["m2m"] if "m2m" in given else given["minor_to_major"]
    return Layout(order, **{field: given[name] for name, field in LAYOUT_FIELDS.items() if name in given})


OPERATIONS = {
    "pack_subbyte": pack_subbyte,
    "multi_to_linear": lambda g: gl.linearize(g["index"], shape_of(g)),
    "linear_to_multi": lambda g: list(gl.delinearize(g["linear"], shape_of(g))),
    "linear_roundtrip": linear_roundtrip,
    "bump_indices": bump_to_the_end,
    "dimension_stride": lambda g: shape_of(g).stride(g["dim"]),
    "index_in_bounds": lambda g: shape_of(g).index_in_bounds(g["index"]),
    "compare_indices": lambda g: gl.xla.compare_indices(g["lhs"], g["rhs"]),
    "for_each_index_count": lambda g: gl.xla.each_index(shape_of(g)).shape[1],
    "padded_memory": padded_memory,
    "padded_byte_size": lambda g: shape_of(g).nbytes,
    "is_padded": lambda g: shape_of(g).is_padded,
    "padded_stride": lambda g: shape_of(g).stride(g["dim"]),
    "validate_padding": shape_of,
    "padded_permute": lambda g: {
        "dims": list((result := shape_of(g).permute_dimensions(g["permutation"])).dimensions),
        "padded_dimensions": list(result.layout.padded_dimensions),
    },
    "padding_value_fill": padding_value_fill,
    "byte_size": lambda g: shape_of(g).unpadded_nbytes,
    "byte_size_recursive": lambda g: shape_of(g).nbytes,
    "allocated_bytes": lambda g: shape_of(g).nbytes,
    "byte_strides": byte_strides,
    "tiled_index": lambda g: gl.stride_table(shape_of(g)).linear_of(g["index"]),
    "tiled_delinearize": index_of_row,
    "tiled_memory": tiled_memory,
    "physical_dims": lambda g: list(shape_of(g).physical_dimensions),
    "is_untiled": lambda g: gl.xla.is_untiled(shape_of({"dims": g["physical_dims"], "tiles": g["tiles"]})),
    "byte_strides_is_major_to_minor": lambda g: gl.xla.byte_strides_is_major_to_minor(
        g["byte_strides"], g["dims"], g["type"]
    ),
    "strides_to_layout": strides_to_layout,
    "default_layout": lambda g: list(Shape("f32", (1,) * g["rank"]).layout.minor_to_major),
    "descending_layout": lambda g: list(Layout.descending(g["rank"]).minor_to_major),
    "ascending_layout": lambda g: list(Layout.ascending(g["rank"]).minor_to_major),
    "from_major_to_minor": lambda g: list(Layout.from_major_to_minor(g["major_to_minor"]).minor_to_major),
    "is_monotonic": lambda g: {
        "dim0_minor": layout_of(g).is_ascending,
        "dim0_major": layout_of(g).is_descending,
    },
    "logical_to_physical": lambda g: list(layout_of(g).logical_to_physical()),
    "major_minor": lambda g: {
        "minor": [layout_of(g).minor(i) for i in range(4)],
        "major": [layout_of(g).major(i) for i in range(4)],
    },
    "dims_consecutive": lambda g: layout_of(g).are_dimensions_consecutive(g["dims"]),
    "move_dim_to_major": lambda g: list(layout_of(g).move_dimension_to_major(g["dim"]).minor_to_major),
    "move_dim_to_minor": lambda g: list(layout_of(g).move_dimension_to_minor(g["dim"]).minor_to_major),
    "move_dim_to_major_shape": lambda g: str(shape_of(g).move_dimension_to_major(g["dim"])),
    "set_to_default_layout": lambda g: str(shape_of(g).with_default_order()),
    "host_shape": lambda g: {"is_host": shape_of(g).is_host_shape, "host": str(shape_of(g).as_host_shape())},
    "max_split_size": lambda g: gl.xla.max_split_size(shape_of(g), g["dim"]),
    "max_elements_in_split": lambda g: gl.xla.max_elements_in_split(shape_of(g)),
    "change_element_type": lambda g: str(shape_of(g).with_element_type(g["type"])),
    "layout_delete_dimension": delete_from_layout,
    "delete_dimensions": lambda g: row_of(shape_of(g).delete_dimensions(g["delete"])),
    "prepend_major": lambda g: row_of(shape_of(g).prepend_major_dimension(g["bound"])),
    "append_minor": lambda g: row_of(shape_of(g).append_minor_dimension(g["bound"])),
    "append_major": lambda g: row_of(shape_of(g).append_major_dimension(g["bound"])),
    "insert_dimensions": lambda g: row_of(shape_of(g).insert_dimensions(g["at"], g["bounds"])),
    "permute_dimensions": lambda g: row_of(shape_of(g).permute_dimensions(g["permutation"])),
    "permute_ignoring_layout": lambda g: row_of(shape_of(g).permute_dimensions_ignoring_layout(g["permutation"])),
    "reorder_logical": lambda g: row_of(shape_of(g).permute_dimensions(g["permutation"])),
    "transpose_is_bitcast": transpose_is_bitcast,
    "transpose_is_bitcast_tiled": transpose_is_bitcast_tiled,
    "reshape_is_bitcast_tiled": lambda g: gl.xla.reshape_is_bitcast(g["in"], g["result"]),
    "reshape_is_bitcast": lambda g: gl.xla.reshape_is_bitcast(*both(g)),
    "deduce_transpose": lambda g: (found := gl.xla.deduce_transpose_dimensions_for_bitcast(*both(g))) and list(found),
    "decompose_bitcast": decompose_bitcast,
    "descending_same_physical": lambda g: list(
        gl.xla.with_descending_layout_and_same_physical_layout(shape_of(g)).dimensions
    ),
    "align_layouts": align_layouts,
    "normalized_transpose": normalized_transpose,
    "elements_in": lambda g: shape_of(g).element_count,
    "is_zero_element": lambda g: shape_of(g).is_zero_element_array,
    "true_rank": lambda g: shape_of(g).true_rank,
    "is_effective_scalar": lambda g: shape_of(g).is_effective_scalar,
    "get_dimension": lambda g: shape_of(g).dimension(g["dim"]),
    "has_degenerate_dims": lambda g: shape_of(g).has_degenerate_dimensions,
    "effectively_most_major": lambda g: shape_of(g).is_effectively_most_major_dimension(g["dim"]),
    "dims_unmodified_by_reshape": lambda g: [
        list(pair) for pair in gl.xla.dimensions_unmodified_by_reshape(g["in"], g["out"])
    ],
    "inserted_or_deleted_1s": lambda g: gl.xla.inserted_or_deleted_1_sized_dimensions(g["pre"], g["post"]) is not None,
    "last_dim_is_minor_most": lambda g: gl.parse_shape(g["shape"]).last_dimension_is_minor_most,
    "shape_equal": shape_equal,
    "layout_equal": layout_equal,
    "layouts_in_shapes_equal": lambda g: gl.xla.layouts_in_shapes_equal(g["lhs"], g["rhs"]),
    "compatible": lambda g: gl.xla.shapes_compatible(gl.parse_shape(g["lhs"]), gl.parse_shape(g["rhs"])),
    "copy_layout": lambda g: gl.xla.copy_layout_between_shapes(g["src"], g["dst"]),
    "validate_layout": validate_layout,
    "make_shape": lambda g: shape_of(g) and "ok",
    "print_layout": lambda g: str(layout_of(g)),
    "print_shape": lambda g: {
        "with_layout": str(gl.parse_shape(g["shape"])),
        "without_layout": gl.parse_shape(g["shape"]).text_without_layout(),
    },
    "parse_roundtrip": roundtrip,
    "parse_normalize": roundtrip,
    "parse_reject": roundtrip,
    "parse_strict_reject": roundtrip,
    "primitive_type": primitive_type,
}
