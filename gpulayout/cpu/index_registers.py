"""Register allocation: a host program uses few arrays, so that a block stays in the cache.

An operation writes into the row of the result that it computes.  If it computes none, it writes over an operand that is
not needed later, into a free array, or into a new one, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NO_VALUE = ("past", "outside", "store")
UNUSED = -1  # in a field that the kind of operation does not use


class Node(NamedTuple):
    """An operation on the results of the nodes at positions `left` and `right`, or on `left` and a number.

    load                                               the given array with this number
    fill                                               the number everywhere
    add, subtract                                      left and right
    divide, multiply, shift_right, shift_left, mask    left and the number
    past                                               there is no element where left is at or above the number
    outside                                            nor where the given array with this number, which left holds,
                                                       leaves its bound
    store                                              copies left to the row of the result with this number
    """

    kind: str
    left: int | None = None
    right: int | None = None
    number: int | None = None


class HostOp(NamedTuple):
    """A node with registers instead of positions; its result is written to register `into`."""

    kind: str
    into: int
    left: int
    right: int | None
    number: int


def with_registers(nodes: Sequence[Node], rows: int) -> tuple[tuple[HostOp, ...], int]:
    """Operations for all nodes that are needed, and the number of registers.

    rows    registers 0..rows-1 are the rows of the result; rows that need arithmetic are computed in place

    The register of a given array can be the caller's memory, so no other operation writes it.
    """
    needed = _needed(nodes)
    last_use = {operand: position for position in needed for operand in nodes[position][1:3] if operand is not None}
    direct = _rows_written_directly(nodes, rows, last_use)
    place: dict[int, int] = {}
    free: dict[bool, list[int]] = {True: [], False: []}  # of given arrays, and others
    ops, count = [], rows
    for position in needed:
        kind, left, right, number = nodes[position]
        if kind == "store" and left is not None and direct.get(left) == number:
            continue
        dying = [
            operand for operand in dict.fromkeys((left, right)) if operand is not None and last_use[operand] == position
        ]
        for operand in dying:
            if place[operand] >= rows:
                free[nodes[operand].kind == "load"].append(place[operand])
        operands = (UNUSED if left is None else place[left], None if right is None else place[right])
        if kind not in NO_VALUE:
            pool = free[kind == "load"]
            if position in direct:
                place[position] = direct[position]
            elif pool:
                place[position] = pool.pop()
            else:
                place[position], count = count, count + 1
        ops.append(HostOp(kind, place.get(position, UNUSED), *operands, UNUSED if number is None else number))
    return tuple(ops), count


def _needed(nodes: Sequence[Node]) -> list[int]:
    """Positions of the nodes that a result or a check depends on."""
    needed: set[int] = set()
    for position in reversed(range(len(nodes))):
        if nodes[position].kind in NO_VALUE or position in needed:
            needed |= {position, *(operand for operand in nodes[position][1:3] if operand is not None)}
    return sorted(needed)


def _rows_written_directly(nodes: Sequence[Node], rows: int, last_use: dict[int, int]) -> dict[int, int]:
    """The row that each node computes in place.  Given arrays, and rows equal to another row, are copied instead.

    The row holds the running total from the first operation on: each node continues from an operand that no other node
    needs later.
    """
    found: dict[int, int] = {}
    for kind, left, _, number in nodes:
        if kind == "store" and rows and left is not None and number is not None and nodes[left].kind != "load":
            found.setdefault(left, number)
    for stored, row in list(found.items()):
        total: int | None = stored
        while total is not None:
            found[total] = row
            total = next(
                (
                    operand
                    for operand in nodes[total][1:3]
                    if operand is not None
                    and nodes[operand].kind != "load"
                    and operand not in found
                    and last_use[operand] == total
                ),
                None,
            )
    return found
