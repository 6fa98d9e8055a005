"""`gl.code`: a layout or a plan as source text for other people's kernels."""

from __future__ import annotations

import keyword
import re
from typing import Literal, TypeAlias, get_args

from gpulayout.arrays.array_types import ShapeLike
from gpulayout.layout.checks import as_integer, check_word, counted, type_text, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.text import as_shape
from gpulayout.moves.index_program import index_bits
from gpulayout.plans.plan import Plan

Language: TypeAlias = Literal["cuda", "c", "python"]

MOST_PARAMETERS = 127  # that every C compiler accepts
LONGEST_NAME = 40  # C compilers may ignore what follows 63 characters, and functions add up to 21

_MEMBERS = re.compile(r"index_t|offset|index|load|rank|size\d+|element_count|buffer_size")
_PLAN_MEMBERS = re.compile(r"source|target|convert")
_RESERVED = frozenset(
    "alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case "
    "catch char char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast "
    "continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public register reinterpret_cast requires restrict return short signed "
    "sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid "
    "typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq threadIdx blockIdx "
    "blockDim gridDim warpSize dim3 main std linux unix".split()
)


def code(
    shape: ShapeLike | Plan, language: Language = "cuda", *, name: str = "layout", bits: Literal[32, 64] | None = None
) -> str:
    """Write functions for a kernel or program of your own: where elements lie in a layout, and how a plan changes them.

    Parameters
    ----------
    shape : Shape, str or Plan
        A shape or its text; or a plan, for the functions of its source and target, and `convert`.  Dynamic dimensions
        count with their bounds.
    language : {"cuda", "c", "python"}, optional
        CUDA C++ for nvcc, NVRTC and CuPy; C99, which is also C++; or Python for ints and for NumPy arrays of integers
        that are wide enough for the results.
    name : str, optional
        In CUDA, the struct that holds everything: ``layout::offset``.  In C and Python, a prefix: ``layout_offset``.
        With a name for each, several layouts fit in one kernel.  Those of a plan are ``layout::source::offset`` and
        ``layout::target::offset``; in C and Python, ``layout_source_offset`` and ``layout_target_offset``.
    bits : {32, 64}, optional
        Width of the unsigned numbers in CUDA and C.  By default 32 if the buffer has fewer than 2^31 places,
        else 64.

    Returns
    -------
    str
        Source text without includes.  It defines, in elements:

        ``offset(i0, i1, ...)``
            The linear index of an element.  Nothing is checked.
        ``index(linear, &i0, &i1, ...)``
            Writes the logical index; in Python, ``index(linear)`` returns (is_element, i0, i1, ...).  It is true for
            a place that holds an element.  For padding and past the end of the buffer it is false, and the coordinates
            mean nothing.
        ``load(buffer, linear)``
            For packed elements: the bits of one, in the low bits of a byte.
        ``rank``, ``size0``, ``size1``, ..., ``element_count``, ``buffer_size``
            Constants; in Python ``dimensions`` instead of the sizes.  C and CUDA also have the type ``index_t``.

        For a plan with arithmetic also:

        ``convert(x, scale, ...)``
            The element of the target that becomes of an element of the source, by the law of the plan: each operation
            and each cast rounded once, half to even.  A parameter that is one number is a constant in the text.  For an
            array, pass the number that applies to this element, in the order of the keywords.  A comment says where
            in the array it stands.

            An element is a number of the language's own type: ``float`` for f32, ``unsigned char`` for u8.  Of a type
            that the language lacks, such as bf16, f8e4m3fn and s4, and f16 in C and CUDA, it is a code: the bits of one
            element, as ``unsigned char`` or ``unsigned short``.  ``load`` gives codes of packed elements.

    Raises
    ------
    LayoutError
        A dimension is unbounded; there are more than 127 dimensions; the numbers do not fit in `bits`; a parameter that
        is one number is not finite.
    TypeError
        The plan converts complex numbers.  Convert their parts.
    ValueError
        `language`, `name` or `bits` is none of the above.

    See Also
    --------
    linearize, delinearize : The same functions for arrays of indices, with checks.
    plan : Prepares a relayout, with `dtype` and other keywords for arithmetic on the way.
    stride_table : The digits that the code is made from.

    Notes
    -----
    The text holds the sizes as constants, so compilers replace divisions by shifts and multiplications.  It depends
    only on the arguments.  In CUDA, `convert` brings the header of the library's kernels; in Python it needs NumPy.

    Examples
    --------
    >>> print(code("f32[2,3]{0,1:PD(3,5)}", "c", name="padded"))
    // f32[2,3]{0,1:PD(3,5)}: 6 elements in a buffer of 15.  All numbers count elements.
    // padded_offset(1, 2) is 7, and padded_index(7, &i0, &i1) returns 1 and sets i0, i1 to 1, 2.
    typedef unsigned int padded_index_t;
    #define padded_rank 2
    #define padded_size0 2
    #define padded_size1 3
    #define padded_element_count 6
    #define padded_buffer_size 15
    <BLANKLINE>
    // The linear index of an element.  Nothing is checked.
    static inline padded_index_t padded_offset(padded_index_t i0, padded_index_t i1) {
      return i0 + i1 * 3;
    }
    <BLANKLINE>
    // Writes the logical index of a place.  For padding and past the end of the buffer it returns 0, and what it
    // writes means nothing.
    static inline int padded_index(padded_index_t linear, padded_index_t* out0, padded_index_t* out1) {
      const padded_index_t linear_by_3 = linear / 3;
      const padded_index_t i0 = linear - linear_by_3 * 3;
      const padded_index_t i1 = linear_by_3;
      *out0 = i0;
      *out1 = i1;
      return linear < 15 && i0 < 2 && i1 < 3;
    }
    <BLANKLINE>
    >>> functions = {}
    >>> exec(code("f32[2,3]{0,1:PD(3,5)}", "python"), functions)
    >>> functions["layout_offset"](1, 2), functions["layout_index"](7)
    (7, (True, 1, 2))

    Pixels as bytes become planes of f32, with a scale for each channel:

    >>> from gpulayout import plan
    >>> planes = plan("u8[4,6,3]", "{1,0,2}", dtype="f32", scale=[0.25, 0.5, 0.75], shift=-1)
    >>> exec(code(planes, "python", name="rgb"), functions)
    >>> functions["rgb_source_offset"](0, 0, 2), functions["rgb_target_offset"](0, 0, 2)
    (2, 48)
    >>> float(functions["rgb_convert"](10, 0.75))
    6.5
    """
    subject = shape if isinstance(shape, Plan) else as_shape(shape)
    check_word("language", language, get_args(Language))
    shapes = (subject.source, subject.target) if isinstance(subject, Plan) else (subject,)
    _check_name(name, _PLAN_MEMBERS if isinstance(subject, Plan) else _MEMBERS)
    for described in shapes:
        stride_table(described)  # raises LayoutError for a dimension without a bound
        if described.rank > MOST_PARAMETERS:
            raise LayoutError(
                f"{described} has {counted(described.rank, 'dimension')}: {MOST_PARAMETERS} is the limit for generated "
                "code, as C compilers need not accept more parameters"
            )
    if language == "python" and bits is not None:
        raise ValueError(f"bits {value_text(bits)} is for CUDA and C: Python's numbers have no fixed width")
    return _text(subject, language, name, max(_checked_bits(described, bits) for described in shapes))


def _check_name(name: object, members: re.Pattern[str]) -> None:
    """ValueError unless the name can be that of a struct and the beginning of other names, in all languages."""
    problem = f"name {value_text(name)} cannot name generated code: "
    if not isinstance(name, str):
        raise TypeError(f"{problem}it is {type_text(name)}, not a str")
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?", name) or len(name) > LONGEST_NAME or "__" in name:
        raise ValueError(
            f"{problem}write a letter, then letters, digits and single underscores, {LONGEST_NAME} at most"
        )
    if name in _RESERVED or keyword.iskeyword(name):
        raise ValueError(f"{problem}it is a reserved word")
    if members.fullmatch(name):
        raise ValueError(f"{problem}one of its members has that name")


def _checked_bits(shape: Shape, bits: object) -> int:
    """The width of indices: the one that is asked for, or the one that the reach needs."""
    reach = max(shape.buffer_size, *shape.dimensions, 0)
    if bits is None:
        return index_bits(reach)
    width = as_integer(bits)
    if width not in (32, 64):
        raise ValueError(f"bits {value_text(bits)} is not 32 or 64")
    if reach >= 2**32 and width == 32:
        raise LayoutError(f"bits 32 cannot hold the numbers of {shape}, which reach {reach}")
    return width


def _text(subject: Shape | Plan, language: Language, name: str, bits: int) -> str:
    """The text of a shape; of a plan the functions of both of its shapes, and `convert` if elements change."""
    # Imported here, so that `import gpulayout` does not load what prints.
    from gpulayout.codegen.code_c import c_convert, c_text, cuda_convert, cuda_text, struct
    from gpulayout.codegen.code_parts import conversion_of, wrapped
    from gpulayout.codegen.code_python import python_convert, python_text
    from gpulayout.gpu.kernel_source import kernel_text

    if isinstance(subject, Shape):
        if language == "python":
            return python_text(subject, name)
        return (cuda_text if language == "cuda" else c_text)(subject, name, bits)
    change, sides = subject.change, (("source", subject.source), ("target", subject.target))
    conversion = None if change is None else conversion_of(change, subject.source)
    form = "" if change is None else f" with {change.arithmetic.form}"
    comment = "#" if language == "python" else "//"
    head = "".join(f"{comment} {line}\n" for line in wrapped(f"{subject.source} to {subject.target}{form}.", ""))
    if language == "cuda":
        source, target = (cuda_text(shape, side, bits, f"{name}::").splitlines() for side, shape in sides)
        # What `convert` calls; it may stand in a file several times.
        header, convert = (kernel_text("convert.cuh"), cuda_convert(conversion)) if conversion else ("", ())
        return header + head + struct(name, [*source, "", *target, *convert])
    if language == "c":
        texts = "\n".join(c_text(shape, f"{name}_{side}", bits) for side, shape in sides)
        convert = c_convert(conversion, f"{name}_") if conversion else ()
    else:
        head += "import numpy as np\n\n" if conversion else ""
        texts = "\n\n".join(python_text(shape, f"{name}_{side}") for side, shape in sides)
        convert = python_convert(conversion, f"{name}_convert") if conversion else ()
    return head + texts + "".join(f"{line}\n" for line in convert)
