"""The package's moves as modules of PyTorch, without parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn
from typing import Unpack as Options

import torch

import gpulayout.torch.gradients  # noqa: F401  # torch.ops.gpulayout, with gradients
from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.calls.packing import pack, unpack
from gpulayout.calls.relayout import relayout
from gpulayout.calls.transpose import check_axis_names, transpose
from gpulayout.layout import checks
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.plans.plan import Plan, plan
from gpulayout.requests.arithmetic import OPTIONS, Asked
from gpulayout.requests.reading import check_strict
from gpulayout.requests.shape_arguments import array_shape, check_layout_text


class MoveModule(torch.nn.Module):  # type: ignore[misc]  # torch may be missing
    """What the modules have in common.

    A `torch.nn.Parameter` as ``scale=`` and the like is one of the module, which a model trains, saves and moves.
    Other tensors are constants.
    """

    options: dict[str, Any]
    learned: tuple[str, ...]

    def keep(self, options: Mapping[str, Any]) -> None:
        """Keep the keywords of calls."""
        self.learned = tuple([name for name, value in options.items() if isinstance(value, torch.nn.Parameter)])
        self.options = {name: value for name, value in options.items() if name not in self.learned}
        for name in self.learned:
            self.register_parameter(name, options[name])

    def keywords(self) -> dict[str, Any]:
        """The keywords of a call now."""
        return {**self.options, **{name: getattr(self, name) for name in self.learned}}

    def __prepare_scriptable__(self) -> NoReturn:
        """torch.jit.script asks for this."""
        raise TypeError(
            f"{type(self).__name__} cannot be scripted, because TorchScript does not know the package: pass the model "
            "to torch.export.export or torch.compile, or to torch.jit.trace"
        )


class Relayout(MoveModule):
    """`relayout` as a module: a buffer in one layout becomes a buffer in another.

    Parameters
    ----------
    source : Shape or str
        The shape of the buffers that it gets.
    target : Shape, Layout or str
        The shape of the results, or only their layout, as `gpulayout.relayout` takes it.
    strict : bool, optional
        False takes longer buffers too, such as pools: their first elements.
    **options
        ``dtype=``, ``scale=``, ``shift=`` and more change the elements on the way: see `gpulayout.ArithmeticOptions`.

    Raises
    ------
    LayoutError, TypeError
        As `gpulayout.plan` raises them.

    See Also
    --------
    Pack, Unpack, Transpose : For N-d tensors.

    Notes
    -----
    Gradients follow, it has no parameters, and its `state_dict` is empty.  It can be compiled with ``fullgraph=True``,
    exported, copied and pickled.

    Examples
    --------
    >>> import torch
    >>> to_columns = Relayout("f32[2,3]", "{0,1}")
    >>> to_columns
    Relayout(f32[2,3]{1,0} -> f32[2,3]{0,1})
    >>> to_columns(torch.arange(6.0))
    tensor([0., 3., 1., 4., 2., 5.])
    """

    plan: Plan

    def __init__(
        self,
        source: Shape | str,
        target: Shape | Layout | str,
        *,
        strict: bool = True,
        **options: Options[ArithmeticOptions],
    ):
        super().__init__()
        check_strict(strict)
        self.keep(options)
        with torch.no_grad():
            self.plan, self.strict = plan(source, target, **options), strict

    def forward(self, buffer: Any) -> Any:
        """The buffer in the target layout.

        Parameters
        ----------
        buffer : torch.Tensor
            1-D and contiguous, of `source.buffer_length` elements.
        """
        if self.learned:  # a plan would keep the numbers of now
            return relayout(buffer, self.plan.source, self.plan.target, strict=self.strict, **self.keywords())
        return self.plan(buffer, strict=self.strict)

    def extra_repr(self) -> str:
        """What `repr` says in parentheses."""
        form = "" if self.plan.change is None else f", {self.plan.change.arithmetic.form}"
        return f"{self.plan.source} -> {self.plan.target}{form}{'' if self.strict else ', strict=False'}"


class Pack(MoveModule):
    """`pack` as a module: an N-d tensor becomes a buffer in a layout.

    Parameters
    ----------
    shape : Shape, Layout or str
        The shape of the buffer; or only its layout, for tensors of any sizes that have it.
    **options
        As of `Relayout`.

    Raises
    ------
    LayoutError
        For text that is no layout.

    See Also
    --------
    Unpack : The inverse.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Sequential(torch.nn.Linear(4, 8), Pack("{1,0:T(2,4)}"))
    >>> layer(torch.zeros(6, 4)).shape
    torch.Size([48])
    """

    def __init__(self, shape: Shape | Layout | str, **options: Options[ArithmeticOptions]):
        super().__init__()
        if isinstance(shape, str) and is_only_layout(shape):
            check_layout_text(shape, "shape")
        elif not isinstance(shape, Layout):
            shape = as_shape(shape)
            _ = shape.buffer_length  # LayoutError for one without a size
        Asked(options)  # finds mistakes
        self.shape = shape
        self.keep(options)

    def forward(self, array: Any) -> Any:
        """The buffer.

        Parameters
        ----------
        array : torch.Tensor
            Of the shape's dimensions, with any strides.
        """
        return pack(array, self.shape, **self.keywords())

    def extra_repr(self) -> str:
        """What `repr` says in parentheses."""
        return _listed(str(self.shape), self.keywords())


class Unpack(MoveModule):
    """`unpack` as a module: a buffer in a layout becomes an N-d tensor.

    Parameters
    ----------
    shape : Shape or str
        The shape of the buffer.
    strict : bool, optional
        False takes longer buffers too, such as pools: their first elements.
    **options
        As of `Relayout`.

    Raises
    ------
    LayoutError, TypeError
        For what is no shape of a buffer.

    See Also
    --------
    Pack : The inverse.

    Examples
    --------
    >>> import torch
    >>> Unpack("f32[2,3]{0,1}")(torch.arange(6.0))
    tensor([[0., 2., 4.],
            [1., 3., 5.]])
    """

    def __init__(self, shape: Shape | str, *, strict: bool = True, **options: Options[ArithmeticOptions]):
        super().__init__()
        Asked(options)  # finds mistakes
        check_strict(strict)
        self.shape, self.strict = array_shape(shape), strict
        self.keep(options)

    def forward(self, buffer: Any) -> Any:
        """The N-d tensor.

        Parameters
        ----------
        buffer : torch.Tensor
            1-D and contiguous, of `shape.buffer_length` elements.
        """
        return unpack(buffer, self.shape, strict=self.strict, **self.keywords())

    def extra_repr(self) -> str:
        """What `repr` says in parentheses."""
        options = self.keywords()
        return _listed(str(self.shape), options if self.strict else {**options, "strict": False})


class Transpose(MoveModule):
    """`transpose` as a module: it reorders, splits and joins axes, and the result is contiguous.

    Parameters
    ----------
    axes : str or sequence of int
        A pattern such as ``"b h w c -> b c h w"``, or the old number of every new axis.
    **sizes
        Sizes of the axes that a pattern splits, and the keywords of arithmetic on the way, as `gpulayout.transpose`
        takes them.

    Raises
    ------
    LayoutError
        For text that is no pattern.

    Examples
    --------
    >>> import torch
    >>> heads = Transpose("b s (h d) -> b h s d", h=2)
    >>> heads
    Transpose('b s (h d) -> b h s d', h=2)
    >>> heads(torch.zeros(1, 5, 6)).shape
    torch.Size([1, 2, 5, 3])
    """

    def __init__(self, axes: str | Iterable[int], **sizes: Any):
        super().__init__()
        options = {name: value for name, value in sizes.items() if name in OPTIONS}
        Asked(options)  # finds mistakes
        named = {name: size for name, size in sizes.items() if name not in OPTIONS}
        check_axis_names(axes, named, ())
        if isinstance(axes, str):
            read_pattern(axes, None).known(named)
        else:
            axes = checks.whole_numbers("axes", axes)
            if named:
                raise TypeError(f"sizes {', '.join(named)} belong to a pattern such as 'h w c -> c h w'")
        self.axes = axes
        self.keep(sizes)

    def forward(self, array: Any) -> Any:
        """The array after the pattern.

        Parameters
        ----------
        array : torch.Tensor
            With any strides.
        """
        return transpose(array, self.axes, **self.keywords())

    def extra_repr(self) -> str:
        """What `repr` says in parentheses."""
        return _listed(repr(self.axes), self.keywords())


def _listed(first: str, options: Mapping[str, Any]) -> str:
    return ", ".join([first, *(f"{name}={_shown(value)}" for name, value in options.items())])


def _shown(value: Any) -> str:
    return f"Parameter{tuple(value.shape)}" if isinstance(value, torch.nn.Parameter) else repr(value)
