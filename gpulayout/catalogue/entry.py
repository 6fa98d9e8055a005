"""An entry of the catalogue: what is known about the layout that a kernel wants, and the layout itself.

An entry is written as a function from sizes to a `Layout`, below the facts that `@entry(...)` takes:

    @entry(summary="...", sizes=(Size("rows", "..."), Size("columns", "...")), types=("u8",), ...)
    def block_scales() -> Layout:
        return Layout((1, 0), tiles=((128, 4), (32, 4), (4, 1, 1, 4)))

In `cublas.py` that is the entry `cublas:block_scales`.  The function takes those of the sizes, of the choices and of
`dtype` that it names.  It raises LayoutError for what its owner refuses, unless the sizes say it: a `Size` has a number
that must divide it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, SupportsIndex, get_args

from numpy.typing import DTypeLike

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType, TorchDType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Frozen
from gpulayout.layout.layout import Layout
from gpulayout.layout.public_names import offer
from gpulayout.layout.shape import Shape

Judge = Literal["package", "vectors", "formula"]
Build = Callable[..., Layout]


class Size(NamedTuple):
    """A size that an entry takes: its name, its meaning, and what must divide it."""

    name: str
    meaning: str
    multiple: int = 1


class Option(NamedTuple):
    """A choice that an entry offers by name; the first of its values is what holds without it."""

    name: str
    meaning: str
    values: tuple[int | str, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Entry(Frozen):
    """A layout of the catalogue: called with sizes, it gives a `Shape`.

    Attributes
    ----------
    name : str
        The owner's file in the catalogue, a colon and the entry, such as ``cublas:block_scales``.
    summary, about : str
        What it is, in one line and in a paragraph.
    owner, version, source : str
        Whose layout it is, the version in which this was found, and where: an address.
    judge : str
        What confirms the entry: ``"package"``, a function of the owner's package, which the tests call; ``"vectors"``,
        bytes that the owner's code wrote once; or ``"formula"``, the owner's documents alone.
    judged_by : str
        The function, or the document.
    sizes : tuple of Size
        The sizes of the logical array, in order: a name, its meaning, and what must divide the size.
    types : tuple of str
        The element types that the owner takes.  The first holds where none is given.
    choices : tuple of Option
        What else can be chosen, by name.
    stored : str
        What lies in memory, and what padding means.
    refuses : str
        The owner's rule for sizes, in words; empty if there is none.
    usual : tuple of int
        Sizes that occur in models.
    kernels : tuple of str
        Functions that take it, by the names under which people call them.
    tensor : str
        The tensor in which its owner keeps the array: an element type, and dimensions as products of sizes, such as
        ``s32[rows/16,columns*bits/2]``.  ``dtype`` and ``bits`` are the array's.  Empty where the owner has none that
        gives the sizes.
    order : str
        The last word of the name of a tensor beside it in a checkpoint, which has the group of every row: ``g_idx``.
        Rows whose groups do not rise lie in another order.  Empty where there is no such tensor.

    See Also
    --------
    find : the entry with a name.

    Examples
    --------
    >>> import gpulayout as gl
    >>> scales = gl.catalogue.cublas.block_scales
    >>> str(scales(200, 10)), scales(200, 10).buffer_size, scales.confirmed
    ('f8e8m0fnu[200,10]{1,0:T(128,4)(32,4)(4,1,1,4)}', 3072, True)

    Sizes in front are numbers of such arrays, one after the other:

    >>> scales(8, 200, 10, dtype="f8e4m3fn").dimensions
    (8, 200, 10)
    """

    name: str
    summary: str
    about: str
    owner: str
    version: str
    source: str
    judge: Judge
    judged_by: str
    sizes: tuple[Size, ...]
    types: tuple[str, ...]
    choices: tuple[Option, ...]
    stored: str
    refuses: str
    usual: tuple[int, ...]
    kernels: tuple[str, ...]
    tensor: str
    order: str
    build: Build
    _takes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.judge not in get_args(Judge):
            raise ValueError(f"judge {self.judge!r} of {self.name} is none of {', '.join(get_args(Judge))}")
        self._set("__module__", self.build.__module__)
        self._set("__doc__", f"{self.summary}.\n\n{self.about}")
        self._set("_takes", frozenset(inspect.signature(self.build).parameters))
        self._set("__signature__", self._signature())

    @property
    def confirmed(self) -> bool:
        """True where the owner's own code judged the entry, False where only its documents did."""
        return self.judge != "formula"

    @property
    def call(self) -> str:
        """The entry as text, with the names of its sizes: ``cublas:block_scales[rows,columns]``."""
        return f"{self.name}[{','.join(size.name for size in self.sizes)}]"

    def __call__(
        self,
        /,  # text may choose any name, also "self"
        *sizes: SupportsIndex,
        dtype: str | DTypeLike | TorchDType | None = None,
        **choices: int | str,
    ) -> Shape:
        """The shape of an array of these sizes in this layout.

        Parameters
        ----------
        *sizes : int
            The sizes of the logical array, as `sizes` names them.  More in front stack so many arrays.
        dtype : str, DTypeLike or torch.dtype, optional
            One of `types`; without it the first.  Types below a byte are packed.
        **choices
            As `choices` names them.

        Raises
        ------
        LayoutError
            The owner refuses the sizes or the type, or their number is wrong.  The message has the owner's rule.
        """
        dimensions = checks.sizes(f"sizes of {self.name}", sizes)
        if len(dimensions) < len(self.sizes):
            *first, last = (size.name for size in self.sizes)
            names = f"{', '.join(first)} and {last}" if first else last
            raise LayoutError(
                f"{self.name} takes {checks.counted(len(self.sizes), 'size')}, {names}, but got {len(dimensions)}: "
                f"{checks.shown(dimensions)}; more in front stack so many arrays"
            )
        stacked = len(dimensions) - len(self.sizes)
        own = dimensions[stacked:]
        element_type = self.type_of(dtype)
        values = self.chosen(choices) | {"dtype": element_type}
        values |= {size.name: value for size, value in zip(self.sizes, own)}
        try:
            for size, value in zip(self.sizes, own):
                check_multiple(size.name, value, size.multiple)
            layout = self.build(**{name: value for name, value in values.items() if name in self._takes})
        except LayoutError as error:
            rule = f"; {self.owner}: {self.refuses}" if self.refuses else ""
            raise LayoutError(f"{self.name}[{','.join(map(str, own))}] cannot be: {error}{rule}") from None
        if element_type.is_sub_byte:
            layout = layout.replace(element_size_in_bits=element_type.bits)
        return Shape(element_type, dimensions, _stacked(layout, dimensions[:stacked]))

    def type_of(self, dtype: Any) -> ElementType:
        """The element type of a `dtype`; LayoutTypeError, which has the owner's types, for any other."""
        try:
            element_type = ElementType.of(self.types[0] if dtype is None else dtype)
        except TypeError as error:
            raise LayoutTypeError(f"{error}; {self.name} takes {', '.join(self.types)}") from None
        if element_type not in self.types:
            raise LayoutTypeError(f"{self.name} has no dtype {element_type}: it takes {', '.join(self.types)}")
        return element_type

    def chosen(self, choices: Mapping[str, int | str]) -> dict[str, Any]:
        """The value of each choice but `dtype`; LayoutError for a name or a value that there is not."""
        offered = {choice.name: choice.values for choice in self.choices}
        chosen = {name: values[0] for name, values in offered.items()}
        for name, value in choices.items():
            if name == "dtype":
                continue
            if name not in offered:
                names = ", ".join(["dtype", *offered])
                raise LayoutTypeError(f"{self.name} has no choice {checks.value_text(name)}: choices are {names}")
            plain = value if isinstance(value, str) else checks.as_integer(value)  # False is no 0, 128.0 no 128
            if plain is None:
                raise LayoutTypeError(f"{name} {checks.value_text(value)} of {self.name} is neither an int nor text")
            if plain not in offered[name]:
                values = ", ".join(map(str, offered[name]))
                raise LayoutError(f"{name} {checks.value_text(value)} of {self.name} is none of {values}")
            chosen[name] = plain
        return chosen

    def __repr__(self) -> str:
        return f"<catalogue entry {self.call}: {self.summary}>"

    def __reduce_ex__(self, protocol: object) -> str:
        """Pickled as its name in the owner's module."""
        return self.build.__name__

    def _signature(self) -> inspect.Signature:
        """What `help` and notebooks show: the names of the sizes and of the choices."""
        positional, keyword = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                *(inspect.Parameter(size.name, positional, annotation="int") for size in self.sizes),
                inspect.Parameter("dtype", keyword, default=self.types[0]),
                *(inspect.Parameter(choice.name, keyword, default=choice.values[0]) for choice in self.choices),
            ],
            return_annotation="Shape",
        )


def _stacked(layout: Layout, counts: tuple[int, ...]) -> Layout:
    """The layout of so many arrays, one after the other: dimensions in front, the first of them the most major."""
    order = (*(dim + len(counts) for dim in layout.minor_to_major), *reversed(range(len(counts))))
    widths = layout.padded_dimensions
    return layout.replace(minor_to_major=order, padded_dimensions=None if widths is None else (*counts, *widths))


def check_multiple(name: str, size: int, multiple: int, text: str = "") -> None:
    """LayoutError for a size that is not a multiple; `text` is the multiple in the error, with what it depends on."""
    if size % multiple:
        raise LayoutError(f"{name} {size} is not a multiple of {text or multiple}")


def entry(*, sizes: tuple[Size, ...], **facts: Any) -> Callable[[Build], Entry]:
    """A decorator: the function below it, from sizes to a `Layout`, becomes the `Entry` of these facts.

    The function's module and name are the name of the entry.  `sizes` and `facts` are the other attributes of an
    `Entry`.  Where nothing else is said, vectors are the judge, 4096 is usual for each size, there are no choices, no
    kernels and no tensor, and the owner refuses what is not a multiple of the number of a `Size`.  An owner's file
    gives once the facts that its entries share, by `functools.partial`.  The modules of the catalogue offer their
    entries and nothing else.
    """
    multiples = ", ".join(f"{size.name} of {size.multiple}" for size in sizes if size.multiple > 1)
    usual_facts = {
        "judge": "vectors",
        "refuses": multiples.replace(" of ", " must be a multiple of ", 1),
        "usual": (4096,) * len(sizes),
        "choices": (),
        "kernels": (),
        "tensor": "",
        "order": "",
    }

    def made(build: Build) -> Entry:
        if build.__module__.startswith(f"{__package__}."):
            offer(vars(sys.modules[build.__module__]), build.__name__)
        name = f"{build.__module__.rpartition('.')[2]}:{build.__name__}"
        return Entry(build=build, name=name, sizes=sizes, **(usual_facts | facts))

    return made
