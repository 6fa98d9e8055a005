"""Generated code in CUDA C++ and in C: where elements lie, and `convert`, what becomes of each.

In C, `convert` is written out for its one pair of types.  Every type but the integers of 64 bits has its exact values
in double, so an element becomes a double, or a float if the steps are in f32, and is rounded once to the target.  A
cast from 64 bits to a float goes through the odd one of the two nearest doubles, which a later rounding to fewer bits
takes as it would the integer itself.

In CUDA, the text of kernels/convert.cuh stands in front, and is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpulayout.codegen.code_parts import (
    ConvertFunction,
    Dialect,
    bodies,
    comment_of,
    coordinates,
    heading,
    limit,
    load,
    wrapped,
    wrapped_code,
)
from gpulayout.gpu.change import arithmetic_macros
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.float_formats import FORMATS
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import range_of

C_TYPES = {
    "pred": "unsigned char",
    "s8": "signed char",
    "s16": "short",
    "s32": "int",
    "s64": "long long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "u64": "unsigned long long",
    "f32": "float",
    "f64": "double",
}
VALUES = frozenset(map(ElementType, C_TYPES))
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}  # by bytes
_POWER = ElementType.F8E8M0FNU
_UNSIGNED = {32: "unsigned int", 64: "unsigned long long"}


def cuda_text(shape: Shape, name: str, bits: int, within: str = "") -> str:
    """A struct whose functions and constants are static.

    within   what stands before its name where others call it: "outer::"

    Functions and constants outside a class would make NVRTC warn about each one that a kernel does not use.
    """
    dialect = Dialect("//", "/", bits)
    constants = [f"{constant} = {value}" for constant, value in _shape_constants(shape)]
    lists = [", ".join(part) for part in (constants[:-2], constants[-2:]) if part]
    lines = [
        f"typedef {_UNSIGNED[bits]} index_t;",
        f"static constexpr int rank = {shape.rank};",
        *(part for constants in lists for part in wrapped_code(f"static constexpr index_t {constants};")),
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
        *(f"#define {name}_{constant} {value}" for constant, value in _shape_constants(shape)),
        *_functions(shape, dialect, "static inline ", f"{name}_", "int"),
    ]
    return _heading(shape, dialect, f"{name}_", "1") + "".join(f"{line}\n" for line in lines)


def _shape_constants(shape: Shape) -> list[tuple[str, int]]:
    sizes = [(f"size{dim}", size) for dim, size in enumerate(shape.dimensions)]
    return [*sizes, ("element_count", shape.element_count), ("buffer_size", shape.buffer_size)]


def _heading(shape: Shape, dialect: Dialect, prefix: str, truth: str) -> str:
    names = coordinates(shape)
    pointers = "".join(f", &{name}" for name in names)
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
    tests = [f"{value} < {size}" for value, size in [("linear", limit(shape)), *index.bounds]]
    yield from function(
        "The linear index of an element.  Nothing is checked.",
        f"{head}{number} {prefix}offset({', '.join(f'{number} {name}' for name in indices) or 'void'})",
        [
            *(f"(void){name};" for name in indices if name not in offset.used),
            *(f"const {number} {name} = {value};" for name, value in offset.assignments),
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
                f"{f'*out{name[1:]}' if name in direct else f'const {number} {name}'} = {value};"
                for name, value in index.assignments
            ),
            *(f"*out{name[1:]} = {name};" for name in indices if name not in direct),
            f"return {' && '.join(tests) if limit(shape) else no};",
        ],
    )
    if loading := load(shape, dialect):
        comment, value = loading
        declaration = f"{head}unsigned char {prefix}load(const unsigned char* buffer, {number} linear)"
        yield from function(comment, declaration, [f"return (unsigned char)({value});"])


def function(comment: str, declaration: str, lines: Sequence[str]) -> Iterator[str]:
    """The lines of a function, after a blank one; each line of the comment begins a new one."""
    yield ""
    yield from (f"// {part}" for line in comment.splitlines() for part in wrapped(line, ""))
    *above, last = wrapped_code(declaration)
    yield from (*above, f"{last} {{")
    for line in lines:
        yield from (f"  {part}" for part in wrapped_code(line))
    yield "}"


# ---- `convert` -----------------------------------------------------------------------------------------------------


def c_type(element_type: ElementType) -> str:
    """The type of an element in C: its own, or that of its code."""
    return C_TYPES.get(element_type.value, WORDS[element_type.itemsize])


def _constants(conversion: ConvertFunction) -> list[str]:
    """The declarations of the constants of `convert`, with enough digits for any compiler to find them exactly."""
    compute, lines = conversion.arithmetic.compute, []
    digits, suffix = (9, "f") if compute is ElementType.F32 else (17, "")
    for name, number in conversion.constants:
        text = f"{number:.{digits}g}"
        text = text if "." in text or "e" in text else f"{text}.0"
        lines.append(f"const {c_type(compute)} {name} = {text}{suffix};")
    return lines


def _parameters(conversion: ConvertFunction, element: str) -> str:
    """The parameters of `convert`; `element` is the type of the first one."""
    real = c_type(conversion.arithmetic.compute)
    return ", ".join([f"{element} x", *(f"{real} {operand.name}" for operand in conversion.arguments)])


# ---- C: the one pair of types is written out -----------------------------------------------------------------------


def c_convert(conversion: ConvertFunction, prefix: str) -> Iterator[str]:
    """The function `convert` and those that it calls."""
    source, target = c_type(conversion.arithmetic.source), c_type(conversion.arithmetic.target)
    lines = _c_lines(conversion, prefix)
    yield from _helpers(conversion, prefix, " ".join(lines))
    yield from function(
        "\n".join(comment_of(conversion, VALUES)),
        f"static inline {target} {prefix}convert({_parameters(conversion, source)})",
        [*_constants(conversion), *lines],
    )


def _c_lines(conversion: ConvertFunction, prefix: str) -> list[str]:
    """The statements of `convert`."""
    arithmetic = conversion.arithmetic
    source, target, real = arithmetic.source, arithmetic.target, c_type(arithmetic.compute)
    if not arithmetic.steps:
        if not (source.is_floating or target.is_floating):
            return _whole_lines(source, target)
        return [f"const double y = {_as_double(source, target, prefix)};", f"return {_from_double(target, prefix)};"]
    lines = ["// volatile: each step is rounded, and no two of them become one"]
    lines.append(f"volatile {real} y = ({real}){_as_number(source, prefix)};")
    for symbol, name in conversion.steps:
        lines.append(f"y = y {symbol} {name};" if name else f"y = ({real}){prefix}rint(y);")
    return [*lines, f"return {_from_double(target, prefix) if target is not arithmetic.compute else 'y'};"]


def _whole(number: int, bits: int, is_signed: bool) -> str:
    """The literal of an integer."""
    if bits == 64:
        least = "(-9223372036854775807LL - 1)"
        return least if number == -(2**63) else f"{number}{'LL' if is_signed else 'ULL'}"
    if bits == 32:
        return "(-2147483647 - 1)" if number == -(2**31) else f"{number}{'' if is_signed else 'u'}"
    return str(number)


def _as_number(source: ElementType, prefix: str) -> str:
    """`x` as a number of C."""
    if source.value in C_TYPES:
        return "(x & 1)" if source is ElementType.PRED else "x"
    if source.is_integral:
        mask, sign = (1 << source.bits) - 1, 1 << source.bits - 1
        return f"(((x & {mask}) ^ {sign}) - {sign})" if source.is_signed else f"(x & {mask})"
    return f"{prefix}decoded(x)"


def _as_double(source: ElementType, target: ElementType, prefix: str) -> str:
    """`x` as a double that a cast rounds as it would `x`."""
    if source.is_integral and source.itemsize == 8 and target is not ElementType.F64:
        return f"{prefix}odd(x)"
    return f"(double){_as_number(source, prefix)}"


def _from_double(target: ElementType, prefix: str) -> str:
    """`y` as an element."""
    if target.value in ("f32", "f64"):
        return f"({c_type(target)})y"
    return "y != 0" if target is ElementType.PRED else f"{prefix}encoded(y)"


def _code(value: str, target: ElementType) -> str:
    """An integer as an element: fewer than 8 bits with zeros above."""
    bits = f"({value} & {(1 << target.bits) - 1})" if target.bits < 8 else value
    return f"({c_type(target)}){bits}"


def _whole_lines(source: ElementType, target: ElementType) -> list[str]:
    """A cast between integers: the nearest number in range."""
    kind = c_type(source) if source.itemsize >= 4 else "int"
    wide, signed = source.bits if source.itemsize >= 4 else 16, kind in ("int", "long long")
    lines = [f"{kind} y = {_as_number(source, '')};"]
    if target is ElementType.PRED:
        return [*lines, "return y != 0;"]
    (lowest, highest), (low, high) = range_of(source), range_of(target)
    if lowest < low:
        lines.append(f"if (y < {_whole(low, wide, signed)}) y = {_whole(low, wide, signed)};")
    if highest > high:
        lines.append(f"if (y > {_whole(high, wide, signed)}) y = {_whole(high, wide, signed)};")
    return [*lines, f"return {_code('y', target)};"]


def _helpers(conversion: ConvertFunction, prefix: str, text: str) -> Iterator[str]:
    """The functions that the statements in `text` call."""
    source, target = conversion.arithmetic.source, conversion.arithmetic.target
    decodes, encodes = (f"{prefix}{name}(" in text for name in ("decoded", "encoded"))
    if decodes or (encodes and target.is_floating):
        yield from ("", f"typedef union {{ double value; unsigned long long code; }} {prefix}bits_t;")
    if decodes:
        yield from _decoded(source, prefix)
    if f"{prefix}odd(" in text:
        yield from _odd(source, prefix)
    if f"{prefix}rint(" in text or (encodes and target.is_integral):
        yield from _rint(prefix)
    if encodes and target.is_floating:
        yield from _encoded_float(target, conversion.arithmetic.saturate, prefix)
    elif encodes:
        yield from _encoded_whole(target, prefix)


def _decoded(source: ElementType, prefix: str) -> Iterator[str]:
    declaration = f"static inline double {prefix}decoded({c_type(source)} x)"
    if source is _POWER:
        lines = [f"{prefix}bits_t bits;", "bits.code = x == 255 ? 0x7FF8000000000000ULL : (x + 896ULL) << 52;"]
        yield from function(f"The number of a code of {source}.", declaration, [*lines, "return bits.value;"])
        return
    form = FORMATS[source]
    implicit, extra = 1 << form.mantissa_bits, 1023 - form.bias - form.mantissa_bits
    magnitude = form.sign - 1
    lines = [
        f"const unsigned magnitude = x & {magnitude}u, field = magnitude >> {form.mantissa_bits};",
        f"const unsigned significand = (magnitude & {implicit - 1}u) | (field ? {implicit}u : 0u);",
        f"{prefix}bits_t power;",
        f"power.code = ((field ? field : 1) + {extra}ULL) << 52;",
    ]
    if form.infinity is not None:
        lines += [
            f"if (magnitude > {form.infinity}u) power.code = 0x7FF8000000000000ULL;",
            f"if (magnitude == {form.infinity}u) power.code = 0x7FF0000000000000ULL;",
        ]
    elif form.nan is not None:
        code = "x" if form.nan == form.sign else "magnitude"
        lines.append(f"if ({code} == {form.nan}u) power.code = 0x7FF8000000000000ULL;")
    lines.append(f"return x & {form.sign}u ? -(significand * power.value) : significand * power.value;")
    yield from function(f"The number of a code of {source}.", declaration, lines)


def _odd(source: ElementType, prefix: str) -> Iterator[str]:
    kind, suffix = c_type(source), "LL" if source.is_signed else "ULL"
    small = f"x < {2**53}{suffix}" + (f" && x > -{2**53}{suffix}" if source.is_signed else "")
    yield from function(
        "The integer as a double; of its two neighbours, the one whose last bit is 1, so that a later "
        "rounding to fewer bits goes the right way.",
        f"static inline double {prefix}odd({kind} x)",
        [f"const {kind} low = x & 0x7FF;", f"return (double)({small} ? x : (x - low) | (low ? 0x800 : 0));"],
    )


def _rint(prefix: str) -> Iterator[str]:
    yield from function(
        "The nearest integer, half to even: the sum with 2^52 has no place for a fraction.  A zero loses its sign.",
        f"static inline double {prefix}rint(double x)",
        [
            "const double large = x < 0 ? -4503599627370496.0 : 4503599627370496.0;",
            "volatile double sum = x + large;",
            "return x > -4503599627370496.0 && x < 4503599627370496.0 ? sum - large : x;",
        ],
    )


def _encoded_whole(target: ElementType, prefix: str) -> Iterator[str]:
    low, high = range_of(target)
    codes = (number & (1 << target.bits) - 1 if target.bits < 8 else number for number in (low, high))
    least, most = (_whole(code, target.bits, target.is_signed) for code in codes)
    limit = float(high + 1 if target.bits == 64 else high)
    nan = "" if low == 0 else "x != x ? 0 : "
    yield from function(
        f"The nearest integer, half to even; out of the range of {target} the nearest one in range, and 0 for a nan.",
        f"static inline {c_type(target)} {prefix}encoded(double x)",
        [
            f"if (!(x > {float(low)!r})) return {nan}{least};",
            f"if (x >= {limit!r}) return {most};",
            f"return {_code(f'(int){prefix}rint(x)' if target.bits < 8 else f'{prefix}rint(x)', target)};",
        ],
    )


def _encoded_float(target: ElementType, saturate: bool, prefix: str) -> Iterator[str]:
    declaration = f"static inline {c_type(target)} {prefix}encoded(double x)"
    lines = [f"{prefix}bits_t bits;", "bits.value = x;"]
    if target is _POWER:
        lines += [
            "if (x != x || x < 0) return 255;",
            "bits.code = (bits.code & 0x7FFFFFFFFFFFFFFFULL) + 0x8000000000000ULL;",
            "const int code = (int)(bits.code >> 52) - 896;",
            f"return (unsigned char)(code < 0 ? 0 : code > 254 ? {254 if saturate else 255} : code);",
        ]
        yield from function(f"The nearest power of two, ties up, as a code of {target}.", declaration, lines)
        return
    form, kind = FORMATS[target], c_type(target)
    cut, beyond = 52 - form.mantissa_bits, form.too_large(saturate)
    lines += [
        f"if (x != x) return {form.nan or 0};",
        f"int field = (int)(bits.code >> 52 & 0x7FF) - {1023 - form.bias}, shift = {cut};",
        "const unsigned long long significand = (bits.code & 0xFFFFFFFFFFFFFULL) | 0x10000000000000ULL;",
        "if (field < 1) {  // subnormal numbers share the least exponent",
        "  shift += 1 - field;",
        "  field = 1;",
        "}",
        "if (shift > 60) shift = 60;  // far below half of the least number",
        "const unsigned long long rest = significand & ((1ULL << shift) - 1), half = 1ULL << (shift - 1);",
        "unsigned code = (unsigned)(significand >> shift);",
        "if (rest > half || (rest == half && (code & 1))) ++code;",
        f"code += (unsigned)(field - 1) << {form.mantissa_bits};  // the leading one adds one to the exponent",
        f"if (code > {form.largest}u) code = {beyond}u;",
    ]
    if form.nan == form.sign:
        lines.append("if (code == 0) return 0;")
    lines.append(f"return ({kind})(bits.code >> 63 ? code | {form.sign}u : code);")
    yield from function(f"The nearest code of {target}, half to even.", declaration, lines)


# ---- CUDA C++: the kernels' own conversions are called -------------------------------------------------------------


def cuda_convert(conversion: ConvertFunction) -> Iterator[str]:
    """The member function `convert`."""
    arithmetic = conversion.arithmetic
    macros = dict(arithmetic_macros(arithmetic))
    word = WORDS[macros["GPL_CODE_BYTES"]]
    sides = arithmetic.source, arithmetic.target
    source, target = ("bool" if side is ElementType.PRED else c_type(side) for side in sides)
    codes = [WORDS[side.itemsize] for side in sides]
    code, result = [f"const {word} code = ({codes[0]})x;"], [f"return ({target})found;"]
    if source in ("float", "double"):
        union = f"union {{ {source} value; {codes[0]} code; }} bits;"
        code = [union, "bits.value = x;", f"const {word} code = bits.code;"]
    if target in ("float", "double"):
        union = f"union {{ {target} value; {codes[1]} code; }} result;"
        result = [union, f"result.code = ({codes[1]})found;", "return result.value;"]
    names = [parameter.name for parameter in conversion.parameters]
    operand = "".join(f"number == {number} ? {name} : " for number, name in enumerate(names[:-1]))
    operand += names[-1] if names else ("double()" if macros["GPL_CODE_BYTES"] == 8 else "float()")
    captured = "number" if len(names) > 1 else ""
    from_, to = (f"gpl_type({macros[f'GPL_{side}_TYPE']}u)" for side in ("SOURCE", "TARGET"))
    saturate = "true" if arithmetic.saturate else "false"
    yield from function(
        "\n".join(comment_of(conversion, VALUES)),
        f"static __device__ __forceinline__ {target} convert({_parameters(conversion, source)})",
        [
            *_constants(conversion),
            *code,
            f"const {word} found = gpl_converted<{word}>(",
            f"    code, {from_}, {to}, {saturate}, {macros['GPL_STEPS']}u,",
            f"    [&](unsigned {captured}) {{ return {operand}; }});",
            *result,
        ],
    )
