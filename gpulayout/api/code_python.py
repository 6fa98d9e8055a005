"""Generated code in Python, for ints and for NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpulayout.api.code_parts import WIDTH, Dialect, bodies, coordinates, heading, limit, load, wrapped
from gpulayout.layout.shape import Shape

_DIALECT = Dialect("#", "//", None)


def python_text(shape: Shape, name: str) -> str:
    """Functions and constants whose names begin with `name`."""
    indices = coordinates(shape)
    offset, index = bodies(shape, _DIALECT)
    returned = ", ".join(["is_element", *indices])
    truth = ["(0 <= linear)", f"(linear < {limit(shape)})", *(f"({each} < {size})" for each, size in index.bounds)]
    lines = [
        f"{name}_rank = {shape.rank}",
        f"{name}_dimensions = {shape.dimensions}",
        f"{name}_element_count = {shape.element_count}",
        f"{name}_buffer_size = {shape.buffer_size}",
        *function(
            f"{name}_offset({', '.join(indices)})",
            "The linear index of an element; nothing is checked.",
            [*offset.assignments, ("return", _like(indices[0] if indices else "", offset.total))],
        ),
        *function(
            f"{name}_index(linear)",
            f"Return {returned}; for padding and past the end of the buffer, is_element is False.",
            [
                *((each, _like("linear", value)) for each, value in index.assignments),
                ("is_element", " & ".join(truth)),
                ("return", returned if indices else f"({returned},)"),
            ],
        ),
    ]
    if found := load(shape, _DIALECT):
        text, value = found
        lines += function(f"{name}_load(buffer, linear)", text, [("return", value)])
    result = ", ".join(["True", *(["{index}"] if indices else [])])
    example = f"{name}_index({{linear}}) is ({result}{'' if indices else ','})"
    return heading(shape, _DIALECT, f"{name}_offset", example) + "".join(f"{line}\n" for line in lines)


def _like(given: str, value: str) -> str:
    """The value; a constant 0 gets the shape of the given array."""
    return f"0 * {given}" if value == "0" and given else value


def function(signature: str, comment: str, lines: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A function whose lines assign a value to a name, or return it."""
    yield from ("", "", *wrapped(f"def {signature}:"))
    yield from (f"    {part}" for part in wrapped(f'"""{comment}"""', ""))
    for name, value in lines:
        start = "return " if name == "return" else f"{name} = "
        if len(start + value) <= WIDTH:
            yield f"    {start}{value}"
        else:
            yield from (f"    {start}(", *(f"        {part}" for part in wrapped(value, "")), "    )")
