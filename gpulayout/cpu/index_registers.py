"""Where the operations of a host program keep their results: in as few arrays as possible, so that a block stays in the
cache.

An operation writes into the row of the result that it is for, else over an operand that nothing needs afterwards, else
into an array that is free, else into a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NO_VALUE = ("past", "store")
UNUSED = -1  # what a kind of operation has no use for


class Node(NamedTuple):
    """An operation on what the nodes at positions `left` and `right` give, or on `left` and a number.

    load          number-th of the given arrays
    fill          the number everywhere
    add, subtract                                           left with right
    divide, multiply, shift_right, shift_left, mask         left with the number
    past          left is not below the number: no element is there
    store         left is the number-th row of the result
    """

    kind: str
    left: int | None = None
    right: int | None = None
    number: int | None = None


class HostOp(NamedTuple):
    """A node with registers in place of positions, and the one it is written `into`."""

    kind: str
    into: int
    left: int
    right: int | None
    number: int


def with_registers(nodes: Sequence[Node], rows: int) -> tuple[tuple[HostOp, ...], int]:
    """Operations for all nodes that are needed, and the number of registers.

    rows    registers 0..rows-1 are rows of the result: what is stored there is computed there, when it is computed at
    all

    Registers of given arrays may be the caller's memory, and are written by nothing else.
    """
    needed = _needed(nodes)
    last_use = {operand: position for position in needed for operand in nodes[position][1:3] if operand is not None}
    direct = _rows_written_directly(nodes, rows, last_use)
    place: dict[int, int] = {}
    free: dict[bool, list[int]] = {True: [], False: []}  # those of given arrays, and the others
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
    """Positions of the nodes that something comes of."""
    needed: set[int] = set()
    for position in reversed(range(len(nodes))):
        if nodes[position].kind in NO_VALUE or position in needed:
            needed |= {position, *(operand for operand in nodes[position][1:3] if operand is not None)}
    return sorted(needed)


def _rows_written_directly(nodes: Sequence[Node], rows: int, last_use: dict[int, int]) -> dict[int, int]:
    """The row that a node's operation writes; given arrays, and rows that equal another, are copied.

    A row takes a running total from its first operation on: for every node in it, one operand that only that node
    needs.
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
