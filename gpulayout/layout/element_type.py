"""Element types: XLA's names and the NumPy dtypes that hold them.

A type is a label on the host: kernels see only its number of bytes (1, 2, 4, 8 or 16).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol

import ml_dtypes
import numpy as np

from gpulayout.layout import checks
from gpulayout.layout.float_formats import FORMATS, FloatFormat
from gpulayout.layout.frozen import cached_property


class TorchDType(Protocol):
    """A dtype of PyTorch, known by what no dtype of NumPy has."""

    @property
    def is_floating_point(self) -> bool: ...
    def to_complex(self) -> Any: ...


class ListedEnum(enum.EnumMeta):
    """A class of enumerations whose completion offers its functions too, such as `ElementType.of`."""

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in vars(cls) if not name.startswith("_"))})


class ElementType(enum.StrEnum, metaclass=ListedEnum):
    """One of XLA's array element types.  It is a `str` and compares equal to its name.

    Names count bits: `s8`, `u16`, `f32`, `bf16`, `c64`, `pred` for booleans.  An element takes whole bytes, at least
    one; a layout with `element_size_in_bits` packs the types below a byte.

    See Also
    --------
    ElementType.of : the element type of a NumPy dtype.

    Notes
    -----
    XLA: `PrimitiveType`.

    Examples
    --------
    >>> import numpy as np
    >>> ElementType.of("bf16").itemsize, ElementType.of(np.float32) == "f32"
    (2, True)
    """

    _value_: str
    _number: int

    def __new__(cls, name: str, number: int = 0) -> ElementType:  # type checkers read calls too, which look up a name
        """A type from XLA's name for it and its number in XLA's proto enumeration."""
        member = str.__new__(cls, name)
        member._value_, member._number = name, number
        return member

    PRED = "pred", 1
    S8 = "s8", 2
    S16 = "s16", 3
    S32 = "s32", 4
    S64 = "s64", 5
    U8 = "u8", 6
    U16 = "u16", 7
    U32 = "u32", 8
    U64 = "u64", 9
    F16 = "f16", 10
    BF16 = "bf16", 16
    F32 = "f32", 11
    F64 = "f64", 12
    C64 = "c64", 15
    C128 = "c128", 18
    F8E5M2 = "f8e5m2", 19
    F8E4M3 = "f8e4m3", 28
    F8E4M3FN = "f8e4m3fn", 20
    F8E3M4 = "f8e3m4", 29
    F8E5M2FNUZ = "f8e5m2fnuz", 24
    F8E4M3FNUZ = "f8e4m3fnuz", 25
    F8E4M3B11FNUZ = "f8e4m3b11fnuz", 23
    F8E8M0FNU = "f8e8m0fnu", 33
    F6E3M2FN = "f6e3m2fn", 35
    F6E2M3FN = "f6e2m3fn", 36
    S1 = "s1", 30
    S2 = "s2", 26
    S4 = "s4", 21
    U1 = "u1", 31
    U2 = "u2", 27
    U4 = "u4", 22
    F4E2M1FN = "f4e2m1fn", 32

    def __str__(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"ElementType({self.value!r})"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        why = "is not a valid ElementType"
        try:
            cls.of(value)
            why += f": write gl.ElementType.of({_short(value)})"
        except TypeError:
            why = why_no_type(value, why) if isinstance(value, str) else why
        raise ValueError(f"{_short(value)} {why}")

    @staticmethod
    def of(value: object) -> ElementType:
        """The element type that a text names, or that a dtype or type of NumPy, PyTorch or JAX has.

        Parameters
        ----------
        value : str, DTypeLike or torch.dtype
            Text is one of XLA's names, which count bits ("u8"), or what `numpy.dtype(...).name` prints ("uint8",
            "bfloat16"), or NumPy's code with a byte order, which counts bytes (``"<u8"``, ``"|u1"``).  Objects are
            `numpy.dtype`, a type such as `numpy.float32` or `float`, `torch.dtype`, or an object with a `dtype`.

        Raises
        ------
        TypeError
            XLA has no counterpart: objects, text, dates, structures, big-endian numbers, torch.complex32.  Or the text
            is a short code or a word that libraries read differently: "i8" has 8 bits in MLIR and 8 bytes in NumPy,
            "float" has 32 bits in C and 64 in NumPy.

        Examples
        --------
        >>> import numpy as np
        >>> ElementType.of("u8"), ElementType.of(np.uint64), ElementType.of("bfloat16"), ElementType.of("<f4")
        (ElementType('u8'), ElementType('u64'), ElementType('bf16'), ElementType('f32'))
        >>> ElementType.of("i8")
        Traceback (most recent call last):
        TypeError: element type 'i8' has two meanings: s8 has 8 bits, as MLIR writes it, and s64 has 8 bytes, as NumPy \
writes it: write 's8' or 's64'
        """
        if isinstance(value, ElementType):
            return value
        if isinstance(value, str):
            if value in _BY_NAME:
                return _BY_NAME[value]
            if value in _BY_DTYPE_NAME:
                return _BY_DTYPE_NAME[value]
        return _of_dtype(value)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one element."""
        return _DTYPES[self]

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element that is not packed: 1, 2, 4, 8 or 16."""
        return self.dtype.itemsize

    @cached_property
    def bits(self) -> int:
        """Bits of one element that carry its value: 1 for pred, 4 for s4, 32 for f32.  XLA: `BitWidth`.

        The types of six bits count as eight, as in XLA.
        """
        return 1 if self is ElementType.PRED else _SUB_BYTE.get(self.value, 8 * self.itemsize)

    @cached_property
    def format(self) -> FloatFormat | None:  # type: ignore[override]
        """What the codes of a float mean; None for other types and for f8e8m0fnu, which holds only powers of two."""
        return FORMATS.get(self.value)

    @cached_property
    def is_sub_byte(self) -> bool:
        """True for the types that can be packed, several to a byte; False for pred."""
        return self.value in _SUB_BYTE

    @cached_property
    def proto_number(self) -> int:
        """The number of the type in XLA's `PrimitiveType` proto enumeration.

        >>> ElementType.F32.proto_number
        11
        """
        return self._number

    @cached_property
    def kind(self) -> str:
        """One of "bool", "signed", "unsigned", "float", "complex"."""
        return {"p": "bool", "s": "signed", "u": "unsigned", "c": "complex"}.get(self.value[0], "float")

    @cached_property
    def is_integral(self) -> bool:
        """True for signed and unsigned integers, False for pred.  XLA: `ElementIsIntegral`."""
        return self.kind in ("signed", "unsigned")

    @cached_property
    def is_floating(self) -> bool:
        """True for real floating-point types.  XLA: `ElementIsFloating`."""
        return self.kind == "float"

    @cached_property
    def is_complex(self) -> bool:
        """True for c64 and c128.  XLA: `ElementIsComplex`."""
        return self.kind == "complex"

    @cached_property
    def is_signed(self) -> bool:
        """True for signed integers, floating-point and complex types.  XLA: `ElementIsSigned`.

        f8e8m0fnu, which holds only powers of two, counts as signed, as in XLA.
        """
        return self.kind in ("signed", "float", "complex")

    @cached_property
    def component(self) -> ElementType:
        """The type of a complex number's parts; any other type itself.  XLA: `ComplexComponentType`.

        >>> ElementType.C64.component
        ElementType('f32')
        """
        return {"c64": ElementType.F32, "c128": ElementType.F64}.get(self.value, self)

    def holds(self, special: float) -> bool:
        """True when a floating-point type has the given infinity, nan or negative zero.

        >>> import numpy as np
        >>> ElementType.F16.holds(np.inf), ElementType.F8E4M3FN.holds(np.inf), ElementType.F8E5M2FNUZ.holds(-0.0)
        (True, False, False)
        """
        with np.errstate(all="ignore"):
            return repr(float(self.dtype.type(special))) == repr(special)

    @cached_property
    def is_extended(self) -> bool:
        """True for the types that ml_dtypes adds to NumPy.

        Arrays of such a type may also be passed as unsigned integers of the same width.
        """
        return _DTYPES[self].type.__module__ != "numpy"

    @cached_property
    def carrier(self) -> np.dtype[Any]:
        """The unsigned integer dtype of the same width; for complex types their own dtype."""
        return np.dtype(f"u{self.itemsize}") if self.kind != "complex" else self.dtype


_SUB_BYTE = {"s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4}
_BY_NAME = {member.value: member for member in ElementType}
_DTYPE_WORDS = {"s": "int", "u": "uint", "f": "float", "bf": "bfloat", "c": "complex"}


def _dtype(name: str) -> np.dtype[Any]:
    """The dtype that holds a type of XLA: f32 is float32 of NumPy, f8e5m2 is float8_e5m2 of ml_dtypes."""
    if name == "pred":
        return np.dtype(bool)
    kind, size = re.findall("^[a-z]+|[0-9].*", name)
    name = _DTYPE_WORDS[kind] + size.replace("e", "_e", 1)
    return np.dtype(getattr(ml_dtypes, name, name))


_DTYPES = {member: _dtype(member.value) for member in ElementType}
_BY_DTYPE = {dtype: member for member, dtype in _DTYPES.items()}
_BY_DTYPE_NAME = {dtype.name: member for member, dtype in _DTYPES.items()}

# All are computed here: torch.compile ends when a member gets an attribute while a function is traced that uses it.
for _name, _property in vars(ElementType).items():
    if isinstance(_property, cached_property):
        for _member in ElementType:
            getattr(_member, _name)


# What NumPy gets for torch.float4_e2m1fn_x2, two elements in a byte: the type of a buffer, and of no logical array.
FLOAT4_X2 = np.dtype([("float4_e2m1fn_x2", np.uint8)])


def check_has_elements(dtype: np.dtype[Any], role: str) -> None:
    """TypeError for an array of `FLOAT4_X2`, where elements count."""
    if dtype == FLOAT4_X2:
        raise TypeError(f"{role}: {_PAIRS}")


_PAIRS = (
    "element type torch.float4_e2m1fn_x2 is two elements of f4e2m1fn in a byte, so its tensors are buffers and no "
    "arrays of elements: gl.unpack(tensor.reshape(-1), 'f4e2m1fn[64,96]{1,0:E(4)}') takes one of (64, 48), and "
    "tensor.view(torch.uint8) is its bytes"
)


def _of_dtype(value: Any) -> ElementType:
    if value is None:
        raise TypeError("element type None is neither an XLA name nor a NumPy dtype")
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("torch", "dtype"):
        return _of_torch(str(value))
    if isinstance(value, str) and not _WITH_BYTE_ORDER.fullmatch(value):
        raise _no_type(value)
    try:
        dtype = np.dtype(value)
    except Exception:  # NumPy raises many kinds, and what the value's own methods raise
        raise _no_type(value) from None
    if not dtype.isnative:
        native = _BY_DTYPE.get(dtype.newbyteorder("="))
        raise TypeError(
            f"element type {dtype.str!r} is big-endian: convert the array with .astype(array.dtype.newbyteorder('='))"
            + (f", which makes it {native}" if native else "")
        )
    member = _BY_DTYPE.get(dtype)
    if dtype == FLOAT4_X2:
        raise TypeError(_PAIRS)
    if member is None:
        raise TypeError(
            f"element type {_short(dtype)} has no XLA counterpart: only "
            "booleans, integers, floats and complex numbers have one"
        )
    if isinstance(value, (bytes, tuple, list, dict)):  # which NumPy reads like text
        raise TypeError(f"element type {_short(value)} is {checks.type_text(value)}, not text or a dtype")
    return member


def _no_type(value: object) -> TypeError:
    why = "is neither an XLA name nor a NumPy dtype"
    if isinstance(value, str):
        why = why_no_type(value, "is neither an XLA name nor the name of a NumPy dtype")
    return TypeError(f"element type {_short(value)} {why}")


def _of_torch(name: str) -> ElementType:
    """The element type of one of torch's dtypes, by its name, such as torch.bfloat16."""
    if name == "torch.complex32":
        raise TypeError(
            "element type torch.complex32 has no XLA counterpart: XLA has no complex numbers of two 16-bit floats; "
            "torch.view_as_real gives them as f16, with a last dimension of 2"
        )
    if name == "torch.float4_e2m1fn_x2":
        raise TypeError(_PAIRS)
    member = _BY_DTYPE_NAME.get(name.removeprefix("torch."))
    if member is None:
        raise TypeError(f"element type {name} has no XLA counterpart that holds one element in whole bytes")
    return member


def _short(value: object) -> str:
    return checks.clipped(checks.value_text(value), 60)


# ---- texts that name no type, or more than one ---------------------------------------------------------

ACROSS_BYTES = "unpack them first (docs/video-frames.md has 10 and 12 bits)"
_ACROSS_BYTES = re.compile("(?:u?int|[uis])(3|5|6|7|9|10|11|12|13|14|15|20)")  # of cameras and codecs
_WITH_BYTE_ORDER = re.compile(r"[<>=|][a-zA-Z][0-9]+")
_PREFIXES = {"fp": "f", "float": "f", "i": "s", "si": "s", "int": "s", "ui": "u", "uint": "u", "bfloat": "bf"}
_FORMATS = {  # floats whose words elsewhere do not name them: by their bits, or without the end of XLA's names
    "f8": ("f8e4m3fn", "f8e5m2"),
    "f4": ("f4e2m1fn",),
    "f6": ("f6e2m3fn", "f6e3m2fn"),
    "f8e4m3": ("f8e4m3fn", "f8e4m3"),
    "e4m3": ("f8e4m3fn", "f8e4m3"),
    "e4m3fn": ("f8e4m3fn",),
    "e5m2": ("f8e5m2",),
    "f8e8m0": ("f8e8m0fnu",),
    "e8m0": ("f8e8m0fnu",),
    "f4e2m1": ("f4e2m1fn",),
    "e2m1": ("f4e2m1fn",),
    "mxfp4": ("f4e2m1fn",),
    "nvfp4": ("f4e2m1fn",),
    "boolean": ("pred",),
}
_WORDS = {  # whose size differs between libraries or machines: one type and where, the other and where
    "float": ("f32", "C", "f64", "NumPy"),
    "int": ("s32", "C", "s64", "NumPy"),
    "uint": ("u32", "C", "u64", "NumPy"),
    "complex": ("c64", "JAX", "c128", "NumPy"),
    "long": ("s32", "C on Windows", "s64", "C on Linux"),
    "ulong": ("u32", "C on Windows", "u64", "C on Linux"),
    "intp": ("s32", "programs of 32 bits", "s64", "programs of 64 bits"),
    "uintp": ("u32", "programs of 32 bits", "u64", "programs of 64 bits"),
}
_LETTERS = {"l": "long", "L": "ulong", "n": "intp", "N": "uintp", "p": "intp", "P": "uintp"}  # of such words, in NumPy


def why_no_type(text: str, otherwise: str) -> str:
    """Why an error refuses a text that names no element type, and what to write.

    otherwise   what it says of a text without two meanings

    >>> why_no_type("fp32", "is unknown"), why_no_type("nonsense", "is unknown")
    ("is unknown (did you mean 'f32'?)", 'is unknown')
    >>> why_no_type("float", "is unknown")
    "has two meanings: f32, as in C, and f64, as in NumPy: write 'f32' or 'f64'"
    """
    word = text[:40].lstrip("<>=|")
    lower = word.lower()
    if lower in _BY_NAME:
        return f"{otherwise} (did you mean {lower!r}?)"
    if across := _ACROSS_BYTES.fullmatch(lower):
        return f"{otherwise}: elements of {across[1]} bits lie across bytes, which no layout describes: {ACROSS_BYTES}"
    if meanings := _WORDS.get(_LETTERS.get(word, lower).rstrip("_")):
        one, here, other, there = meanings
        return f"has two meanings: {one}, as in {here}, and {other}, as in {there}: write {one!r} or {other!r}"
    in_bits, in_bytes = _in_bits(lower), _in_bytes(word) or _in_bytes(lower)
    if in_bits and in_bytes and in_bytes not in in_bits:
        bits, size = in_bits[0].bits, in_bytes.itemsize
        return (
            f"has two meanings: {' or '.join(in_bits)} has {checks.counted(bits, 'bit')}, as MLIR writes it, and "
            f"{in_bytes} has {checks.counted(size, 'byte')}, as NumPy writes it: write {_or([*in_bits, in_bytes])}"
        )
    likely = in_bits or ([in_bytes] if in_bytes else []) or _nearly(lower)
    return f"{otherwise} (did you mean {_or(likely)}?)" if likely else otherwise


def _in_bits(word: str) -> list[ElementType]:
    """What a word such as "i8", "fp16" or "torch.int8" means where numbers count bits."""
    word = word.rpartition(".")[2]
    match = re.fullmatch(r"([a-z]{1,6})([0-9]{1,3}[a-z0-9_]{0,16})", word)
    name = _PREFIXES.get(match[1], match[1]) + match[2].replace("_", "") if match else word
    return [_BY_NAME[known] for known in _FORMATS.get(name, (name,)) if known in _BY_NAME]


def _nearly(word: str) -> list[ElementType]:
    """What a word means that has other bits than any type, as "int9" or "f23", or other letters, as "flaot32"."""
    kind = re.fullmatch("([a-z]{1,7})[0-9]{1,3}", word)
    letters = _PREFIXES.get(kind[1], kind[1]).replace("complex", "c") if kind else " "
    if own := [each for each in ElementType if re.fullmatch(f"{letters}[0-9]+", each)]:
        return sorted(own, key=lambda each: each.bits)
    import difflib  # late: few programs misspell a type

    spelled = {
        "bool": ElementType.PRED,
        "boolean": ElementType.PRED,
        "half": ElementType.F16,
        "double": ElementType.F64,
    }
    if re.search("[0-9]", word):
        spelled = {prefix + bits: each for each in ElementType for prefix, bits in _spellings(each)}
    close = difflib.get_close_matches(word, spelled, 1, cutoff=0.7)
    return [spelled[close[0]]] if close else []


def _spellings(of: ElementType) -> Iterator[tuple[str, str]]:
    """The words for a type, in letters and bits: ("f", "32"), ("float", "32"), ..."""
    letters, bits = re.fullmatch("([a-z]+)(.*)", of).groups()  # type: ignore[union-attr]  # they begin with letters
    for prefix in (letters, *(word for word, means in _PREFIXES.items() if means == letters)):
        yield prefix, bits


def _in_bytes(word: str) -> ElementType | None:
    """What a word such as "i8", "d" or "double" means in NumPy, where numbers count bytes."""
    word = word.rpartition(".")[2]  # torch.float is not NumPy's
    try:
        known = word and word not in _WORDS and word[0] not in "aA"  # text of bytes, of which NumPy warns
        return _BY_DTYPE.get(np.dtype(word)) if known else None
    except (TypeError, ValueError, SyntaxError, OverflowError):
        return None


def _or(types: list[ElementType]) -> str:
    return checks.either([repr(element_type.value) for element_type in types])
