"""The numbers of siblings: tensors that are parameters of others, as their own rules read them.

A sibling may be packed, as GPTQ's zero points are, or need arithmetic of its own, whose parameters may be tensors too.
Its values are read when the tensor moves that needs them.  Until then zeros of the same shape stand in their place, so
everything else about them is checked before a byte is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.files.checkpoints.block_values import block_values, keywords
from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.members import Read
from gpulayout.files.checkpoints.model import Found, Model, read_tensor, same_in_all
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.views import array_like, view_of
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.plans.plan import Plan, plan
from gpulayout.requests.arithmetic import PARAMETERS

MOST_KEPT = 8  # values: a tensor that is split needs those of its siblings once for each piece


@dataclass(frozen=True)
class SiblingPlan:
    """How the values of a sibling are read.

    found       the tensor
    move        to an array in C order; with parameters that stand for others, if it has siblings itself
    dimensions  of that array
    again       makes the move once more, with the numbers of its own siblings; None where it has none
    """

    found: Found
    move: Plan
    dimensions: tuple[int, ...]
    again: Callable[[], Plan] | None


class Siblings:
    """The siblings of a model.

    read   the names of those that tensors need
    """

    def __init__(self, model: Model, rules: Mapping[str, Rule | None]) -> None:
        """`rules` are those of all tensors, but of the parts of joins: their rule is that of the first part."""
        self.model, self._rules = model, rules
        self._firsts = {part: name for name, rule in rules.items() if rule is not None for part in rule.parts(name)}
        self.read: set[str] = set()
        self._plans: dict[tuple[str, int | None], SiblingPlan] = {}
        self._values: OrderedDict[tuple[str, int | None], np.ndarray] = OrderedDict()
        self._asked: list[str] = []

    def like(self, name: str, number: int | None) -> np.ndarray:
        """Zeros in place of the values, in an array of their shape and type that takes no memory.

        Every range of a zero point has a 0, and that of a single signed bit no 1.
        """
        self.read.add(name)
        planned = self._plan(name, number)
        return np.broadcast_to(np.zeros((), planned.move.target.dtype), planned.dimensions)

    def values(self, name: str, number: int | None) -> np.ndarray:
        """The values, read from the file."""
        key = name, number
        if key not in self._values:
            self._values[key] = self._read(self._plan(name, number))
            if len(self._values) > MOST_KEPT:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]

    def known(self, name: str, number: int | None) -> np.ndarray:
        """The values, where they are known before anything is measured; otherwise zeros."""
        return self.like(name, number) if self._is_measured(name) else self.values(name, number)

    def _is_measured(self, name: str) -> bool:
        """True for what is measured, and for what needs such numbers itself."""
        first = self._firsts.get(name, name)
        rule = self._rules.get(first)
        if name in self.model.measured or rule is None:
            return name in self.model.measured
        match = rule.match.fullmatch(first)
        return any(self._is_measured(each.name_for(name, self.model.tensors, match)) for each in rule.siblings.values())

    def _plan(self, name: str, number: int | None) -> SiblingPlan:
        key = name, number
        if key not in self._plans:
            if name in self._asked:
                raise LayoutError(f"{tensor_text(name)} and {tensor_text(self._asked[-1])} need each other's numbers")
            self._asked.append(name)
            self._plans[key] = self._planned(name, number)
            self._asked.pop()
        return self._plans[key]

    def _planned(self, name: str, number: int | None) -> SiblingPlan:
        own = [each for each in self.model.tensors[name] if self.model.input_of[id(each[0])] == number]
        found = own[0] if own else same_in_all(self.model, name)
        first = self._firsts.get(name, name)
        rule = None if name in self.model.measured else self._rules.get(first)  # which says how scales are stored
        if number is None and rule is not None and rule.regroup.along is not None and len(self.model.tensors[name]) > 1:
            raise LayoutError(
                f"{tensor_text(name)} is in pieces, by {rule.origin}, but the tensor that needs its numbers is whole"
            )
        match = None if rule is None else rule.match.fullmatch(first)
        view = view_of(found[1], self.model.notes.get(name), None if rule is None else rule.from_)
        pattern = None
        if rule is not None and rule.regroup.stack is None:
            pattern = rule.pattern_of(f"{tensor_text(name)} is {view.shape}", view.shape.rank)
        if rule is not None and rule.flip:
            raise LayoutError(
                f"{tensor_text(name)} has numbers that others need, and {rule.origin} reverses axes: flip in one "
                "relayout, and use the numbers in another"
            )

        def options(read: Read) -> dict[str, Any]:
            """The arithmetic that the rule of the sibling asks for."""
            return {} if rule is None else self._options(rule, match, name, view.shape.dimensions, number, read)

        like = options(self.like)
        try:
            move = _move(view.shape, pattern, like)
        except (LayoutError, TypeError) as error:
            raise type(error)(f"{tensor_text(name)}, {found[1]}: {error}") from None
        dimensions = view.shape.dimensions
        if pattern is not None:
            dimensions = read_pattern(pattern, len(dimensions), "pattern").result(dimensions)
        if rule is None or not rule.siblings:
            return SiblingPlan(found, move, dimensions, None)
        return SiblingPlan(found, move, dimensions, lambda: _move(view.shape, pattern, options(self.values)))

    def _options(
        self, rule: Rule, match: Any, name: str, dimensions: tuple[int, ...], number: int | None, read: Read
    ) -> dict[str, Any]:
        """The arithmetic of a rule, with the numbers of siblings as `read` gives them."""
        if not rule.siblings:
            return dict(rule.options)
        block = rule.options.get("block")
        options = {key: value for key, value in rule.options.items() if key not in (*PARAMETERS, "block")}
        given = {}
        for key in PARAMETERS:
            value: Any = rule.options.get(key)
            if key in rule.siblings:
                other = rule.siblings[key].name_for(name, self.model.tensors, match)
                value = read(other, number)
            if value is not None:
                given[key] = block_values(key, value, dimensions, block)
        return options | keywords(given)

    def _read(self, planned: SiblingPlan) -> np.ndarray:
        buffer = read_tensor(planned.found)
        move = planned.move if planned.again is None else planned.again()
        out = move(buffer.view(move.source.buffer_dtype))
        if move.target.is_packed:
            result = array_like(move.target, planned.dimensions)
            out = plan(result, Layout.descending(result.rank))(out)
        return np.asarray(out).reshape(planned.dimensions)


def _move(source: Shape, pattern: str | None, options: dict[str, Any]) -> Plan:
    return plan(source, Layout.descending(source.rank) if pattern is None else pattern, **options)
