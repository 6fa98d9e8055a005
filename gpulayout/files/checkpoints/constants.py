r"""Tensors that a recipe adds: their elements are all one number.

[[constant]]
match = '(.*\.self_attn)\.o_proj\.weight'      # for each old tensor with such a name
names = ['\1.attn._k_scale', '\1.attn._v_scale']
dtype = 'F32'
shape = []                                      # of a single number
value = 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpulayout.files.checkpoints.changes import RuleChange, TensorPlan
from gpulayout.files.checkpoints.header import DTYPES
from gpulayout.files.checkpoints.made_elements import made
from gpulayout.files.checkpoints.model import Model
from gpulayout.files.checkpoints.name_regex import NameRegex, Template, template_of
from gpulayout.files.checkpoints.new_types import dtype_named
from gpulayout.files.checkpoints.stored import Stored
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

KEYS = ("match", "names", "dtype", "shape", "value")


class Constant(NamedTuple):
    """Tensors of one number.

    match    fits the whole names of the old tensors, for each of which there are new ones
    names    of the new tensors
    dtype    as the format calls it
    element  the bytes of the number
    origin   what messages call it
    """

    match: NameRegex
    names: tuple[Template, ...]
    dtype: str
    shape: tuple[int, ...]
    element: bytes
    origin: str

    def plans(self, model: Model, rename: Callable[[str], str]) -> Iterator[TensorPlan]:
        """The new tensors of a model, each in the file of the old one; `LayoutError` where no name fits.

        rename   gives the names after all renamings
        """
        fitting = [(name, match) for name in model.tensors if (match := self.match.fullmatch(name))]
        if not fitting:
            first = next(iter(model.tensors), None)
            hint = "there are no tensors" if first is None else f"the first one is {value_text(clipped(first, 80))}"
            raise LayoutError(f"{self.origin} fits no tensor: {hint}")
        lies = Stored(self.dtype, self.shape, None)
        for name, match in fitting:
            path = model.tensors[name][0][0].path
            for new in (template.expand(match) for template in self.names):
                array = made(path, new, self.dtype, self.shape, 8 * len(self.element), self.element)
                yield TensorPlan((new,), rename(new), array, RuleChange(lies, None), lies)


def constant_of(said: Mapping[str, Any], origin: str) -> Constant:
    """The constant of a table; `LayoutError` for another one."""
    if {*said} != {*KEYS}:
        raise LayoutError(f"{origin} has {', '.join(map(str, said))}: the keys are {', '.join(KEYS)}")
    match = NameRegex(said["match"], origin)
    dtype = dtype_named(said["dtype"], f"{origin}: dtype")
    names, shape, value, own = said["names"], said["shape"], said["value"], DTYPES[dtype]
    problem = ""
    if not isinstance(names, list) or not names:
        problem = f"names {value_text(names)} is not a list of names"
    elif not isinstance(shape, list) or not all(type(each) is int and each > 0 for each in shape):
        problem = f"shape {value_text(shape)} is not a list of sizes; that of a single number is []"
    elif own is None or own.is_sub_byte or not own.is_floating or type(value) not in (int, float):
        problem = f"dtype {dtype} and value {value_text(value)} are not a floating-point type and a number"
    if problem or own is None:
        raise LayoutError(f"{origin}: {problem}")
    with np.errstate(all="ignore"):
        element = np.array(float(value) if abs(value) < 1 << 1000 else math.inf).astype(own.dtype)
    if float(element) != value:
        raise LayoutError(f"{origin}: value {value_text(value)} is no number of {dtype}, which has {float(element):g}")
    return Constant(
        match, tuple(template_of(match, each, f"{origin}: names", ("name",)) for each in names), dtype, tuple(shape),
        element.tobytes(), origin,
    )  # fmt: skip
