"""`convert` of generated code in CUDA C++: the text of kernels/convert.cuh stands in front, and is called."""

from __future__ import annotations

from collections.abc import Iterator

from gpulayout.api.code_c import function
from gpulayout.api.code_convert import ConvertFunction, comment_of
from gpulayout.api.code_convert_c import VALUES, WORDS, c_type, constants, signature
from gpulayout.gpu.change import arithmetic_macros
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.layout.element_type import ElementType


def cuda_header() -> str:
    """What `cuda_convert` calls.  It may stand in a file several times."""
    return kernel_text("convert.cuh")


def cuda_convert(conversion: ConvertFunction) -> Iterator[str]:
    """The member function `convert`, by the conversions of the kernels themselves."""
    arithmetic = conversion.arithmetic
    macros = dict(arithmetic_macros(arithmetic))
    word = WORDS[macros["GPL_CODE_BYTES"]]
    source, target = (
        "bool" if side is ElementType.PRED else c_type(side) for side in (arithmetic.source, arithmetic.target)
    )
    names = [each.name for each in conversion.parameters]
    operand = "".join(f"number == {number} ? {name} : " for number, name in enumerate(names[:-1]))
    operand += names[-1] if names else ("double()" if macros["GPL_CODE_BYTES"] == 8 else "float()")
    captured = "number" if len(names) > 1 else ""
    from_, to = (f"gpl_type({macros[f'GPL_{side}_TYPE']}u)" for side in ("SOURCE", "TARGET"))
    saturate = "true" if arithmetic.saturate else "false"
    yield from function(
        "\n".join(comment_of(conversion, VALUES)),
        signature(conversion, "static __device__ __forceinline__ ", "convert", (source, target)),
        [
            *constants(conversion),
            *_cuda_code(arithmetic.source, source, word),
            f"const {word} found = gpl_converted<{word}>(",
            f"    code, {from_}, {to}, {saturate}, {macros['GPL_STEPS']}u,",
            f"    [&](unsigned {captured}) {{ return {operand}; }});",
            *_cuda_value(arithmetic.target, target, word),
        ],
    )


def _bits(element_type: ElementType) -> str:
    """A union of a float and its bits."""
    return f"union {{ {c_type(element_type)} value; {WORDS[element_type.itemsize]} code; }} bits;"


def _cuda_code(source: ElementType, given: str, word: str) -> list[str]:
    """`code` from `x`: its bits, zeros above."""
    if given in ("float", "double"):
        return [_bits(source), "bits.value = x;", f"const {word} code = bits.code;"]
    return [f"const {word} code = ({WORDS[source.itemsize]})x;"]


def _cuda_value(target: ElementType, made: str, word: str) -> list[str]:
    """Return the element whose bits are `found`."""
    if made in ("float", "double"):
        bits = _bits(target).replace("bits;", "result;")
        return [bits, f"result.code = ({WORDS[target.itemsize]})found;", "return result.value;"]
    return [f"return ({made})found;"]
