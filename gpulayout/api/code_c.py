"""Generated code in CUDA C++ and in C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpulayout.api.code_parts import Dialect, bodies, coordinates, heading, limit, load, wrapped, wrapped_code
from gpulayout.layout.shape import Shape

_UNSIGNED = {32: "unsigned int", 64: "unsigned long long"}


def cuda_text(shape: Shape, name: str, bits: int, within: str = "") -> str:
    """A struct whose functions and constants are static.

    within   what stands before its name where others call it: "outer::"

    Functions and constants outside a class would make NVRTC warn about each one that a kernel does not use.
    """
    dialect = Dialect("//", "/", bits)
    constants = [f"{each} = {value}" for each, value in _constants(shape)]
    declared = [f"static constexpr index_t {', '.join(each)};" for each in (constants[:-2], constants[-2:]) if each]
    lines = [
        f"typedef {_UNSIGNED[bits]} index_t;",
        f"static constexpr int rank = {shape.rank};",
        *(part for each in declared for part in wrapped_code(each)),
        *_functions(shape, dialect, "static __host__ __device__ __forceinline__ ", "", "bool"),
    ]
    return _heading(shape, dialect, f"{within}{name}::", "true") + struct(name, lines)


def struct(name: str, lines: Iterable[str]) -> str:
    """A struct with these members."""
    members = "".join(f"  {line}\n" if line else "\n" for line in lines)
    return f"struct {name} {{\n{members}}};\n"


def c_text(shape: Shape, name: str, bits: int) -> str:
    """Functions and macros whose names begin with `name`."""
    dialect = Dialect("//", "/", bits)
    lines = [
        f"typedef {_UNSIGNED[bits]} {name}_index_t;",
        f"#define {name}_rank {shape.rank}",
        *(f"#define {name}_{each} {value}" for each, value in _constants(shape)),
        *_functions(shape, dialect, "static inline ", f"{name}_", "int"),
    ]
    return _heading(shape, dialect, f"{name}_", "1") + "".join(f"{line}\n" for line in lines)


def _constants(shape: Shape) -> list[tuple[str, int]]:
    sizes = [(f"size{dim}", size) for dim, size in enumerate(shape.dimensions)]
    return [*sizes, ("element_count", shape.element_count), ("buffer_size", shape.buffer_size)]


def _heading(shape: Shape, dialect: Dialect, prefix: str, truth: str) -> str:
    names = coordinates(shape)
    pointers = "".join(f", &{each}" for each in names)
    writes = f" and sets {', '.join(names)} to {{index}}" if names else ""
    return heading(shape, dialect, f"{prefix}offset", f"{prefix}index({{linear}}{pointers}) returns {truth}{writes}")


def _functions(shape: Shape, dialect: Dialect, head: str, prefix: str, truth: str) -> Iterator[str]:
    """The lines of the functions.

    head     what begins a declaration
    prefix   what begins a name
    truth    the type of truth
    """
    number, indices = f"{prefix}index_t", coordinates(shape)
    no = "false" if truth == "bool" else "0"
    offset, index = bodies(shape, dialect)
    direct = set(indices) - set(dict(index.bounds))  # written without a name of their own
    tests = [f"{each} < {size}" for each, size in [("linear", limit(shape)), *index.bounds]]
    yield from function(
        "The linear index of an element.  Nothing is checked.",
        f"{head}{number} {prefix}offset({', '.join(f'{number} {each}' for each in indices) or 'void'})",
        [
            *(f"(void){each};" for each in indices if each not in offset.used),
            *(f"const {number} {each} = {value};" for each, value in offset.assignments),
            f"return {offset.total};",
        ],
    )
    yield from function(
        f"Writes the logical index of a place.  For padding and past the end of the buffer it returns {no}, and what "
        "it writes means nothing.",
        f"{head}{truth} {prefix}index({number} linear{''.join(f', {number}* out{dim}' for dim in range(shape.rank))})",
        [
            *([] if limit(shape) else ["(void)linear;"]),
            *(
                f"{f'*out{each[1:]}' if each in direct else f'const {number} {each}'} = {value};"
                for each, value in index.assignments
            ),
            *(f"*out{each[1:]} = {each};" for each in indices if each not in direct),
            f"return {' && '.join(tests) if limit(shape) else no};",
        ],
    )
    if found := load(shape, dialect):
        text, value = found
        declaration = f"{head}unsigned char {prefix}load(const unsigned char* buffer, {number} linear)"
        yield from function(text, declaration, [f"return (unsigned char)({value});"])


def function(comment: str, declaration: str, lines: Sequence[str]) -> Iterator[str]:
    """The lines of a function, after a blank one; each line of the comment begins a new one."""
    yield ""
    yield from (f"// {part}" for line in comment.splitlines() for part in wrapped(line, ""))
    *above, last = wrapped_code(declaration)
    yield from (*above, f"{last} {{")
    for line in lines:
        yield from (f"  {part}" for part in wrapped_code(line))
    yield "}"
