"""When two shapes are equal but for something.  `==` compares everything; `bitcast` compares bytes."""
from __future__ import annotations

from gpulayout.model.arguments import takes_shapes
from gpulayout.model.shape import Shape


@takes_shapes("first", "second")
def shapes_equal(first: Shape, second: Shape, *, ignore_layout: bool = False, minor_to_major_only: bool = False,
                 ignore_element_type: bool = False, ignore_float_precision: bool = False) -> bool:
    """True when two shapes are equal in everything that is not to be ignored.  XLA: `Shape::Equal` and its options.

    ignore_layout            neither order nor padding
    minor_to_major_only      of the layout, the order alone
    ignore_element_type      any type will do
    ignore_float_precision   all real floating-point types count as one

    >>> shapes_equal(Shape("f32", (2, 3)), Shape("bf16", (2, 3)), ignore_float_precision=True)
    True
    """
    if first.dimensions != second.dimensions:
        return False
    same_type = first.element_type is second.element_type
    both_float = first.element_type.kind == second.element_type.kind == "float"
    if not (same_type or ignore_element_type or (ignore_float_precision and both_float)):
        return False
    if ignore_layout:
        return True
    if minor_to_major_only:
        return first.layout.minor_to_major == second.layout.minor_to_major
    return first.layout == second.layout


@takes_shapes("first", "second")
def shapes_compatible(first: Shape, second: Shape) -> bool:
    """True when both describe the same logical array, each in its own layout.  XLA: `Compatible`.

    >>> from gpulayout import Layout
    >>> shapes_compatible(Shape("f32", (3, 2), Layout((0, 1))), Shape("f32", (3, 2)))
    True
    """
    return shapes_equal(first, second, ignore_layout=True)
