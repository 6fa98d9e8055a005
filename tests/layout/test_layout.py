"""Layouts: every order up to rank 4; edits are checked against lists and NumPy's axes."""

import inspect
import itertools

import numpy as np
import pytest

from gpulayout import Layout, LayoutError

RANKS = range(5)
ORDERS = [order for rank in RANKS for order in itertools.permutations(range(rank))]


def widths_of(rank):
    return tuple(10 + dim for dim in range(rank))  # the width identifies the dimension


# ---- named orders and questions ------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_orders_and_their_names(order):
    layout, rank = Layout(order), len(order)
    assert layout.rank == rank and layout.minor_to_major == order
    assert layout.major_to_minor == tuple(reversed(order))
    assert Layout.from_major_to_minor(reversed(order)) == layout
    assert layout.is_descending == (sorted(order, reverse=True) == list(order))
    assert layout.is_ascending == (sorted(order) == list(order))
    assert (layout == Layout.descending(rank)) == layout.is_descending
    assert (layout == Layout.ascending(rank)) == layout.is_ascending


@pytest.mark.parametrize("order", ORDERS)
def test_physical_positions_count_from_either_end(order):
    layout, rank = Layout(order), len(order)
    for position in range(rank):
        assert layout.minor(position) == layout.minor(position - rank) == order[position]
        assert layout.major(position) == layout.major(position - rank) == order[rank - 1 - position]
    for dim, position in enumerate(layout.logical_to_physical()):
        assert layout.major(position) == dim


@pytest.mark.parametrize("order", ORDERS)
def test_consecutive_dimensions_are_adjacent_in_any_order(order):
    layout, rank = Layout(order), len(order)
    runs = {frozenset(order[start:stop]) for start in range(rank + 1) for stop in range(start, rank + 1)}
    for count in range(rank + 1):
        for dims in itertools.permutations(range(rank), count):
            assert layout.are_dimensions_consecutive(dims) == (frozenset(dims) in runs)
            assert layout.are_dimensions_consecutive([dim - rank for dim in dims]) == (frozenset(dims) in runs)
            assert layout.are_dimensions_consecutive(set(dims)) == (frozenset(dims) in runs)


def test_entries_may_be_numpy_integers_and_any_iterable():
    expected = Layout((1, 0, 2), padded_dimensions=(4, 5, 6))
    assert Layout(np.array([1, 0, 2]), padded_dimensions=np.array([4, 5, 6], np.uint8)) == expected
    assert Layout(iter([1, 0, 2]), padded_dimensions=iter([4, 5, 6])) == expected
    assert all(type(dim) is int for dim in Layout(np.array([1, 0, 2])).minor_to_major)


# ---- edits ---------------------------------------------------------------------------------------


def test_permute_renumbers_like_numpy_transpose():
    """The strides move as the axes of `numpy.transpose` do; 3-cycles tell a permutation from its inverse."""
    for order in ORDERS[1:]:
        rank = len(order)
        array = np.zeros([2] * rank).transpose(np.argsort(order[::-1]))  # dimension order[0] has the least stride
        for permutation in itertools.permutations(range(rank)):
            moved = Layout(order, padded_dimensions=widths_of(rank)).permute(permutation)
            turned = array.transpose(permutation)
            assert moved.minor_to_major == tuple(int(dim) for dim in np.argsort(turned.strides))
            assert moved.padded_dimensions == tuple(widths_of(rank)[dim] for dim in permutation)
            assert Layout(order).permute([dim - rank for dim in permutation]) == Layout(order).permute(permutation)


@pytest.mark.parametrize("order", ORDERS)
def test_insert_puts_the_dimension_just_above_its_neighbour(order):
    rank = len(order)
    for at in range(rank + 1):
        # The obvious model: names in memory order, minor first; the new name goes just above its neighbour.
        names = list(order)
        names.insert(names.index(at) + 1 if at < rank else 0, "new")
        logical = [*range(at), "new", *range(at, rank)]
        found = Layout(order, padded_dimensions=widths_of(rank)).insert_dimension(at, 99)
        assert found.minor_to_major == tuple(logical.index(name) for name in names)
        assert found.padded_dimensions == tuple(99 if name == "new" else 10 + name for name in logical)
        assert Layout(order).insert_dimension(at, 99).padded_dimensions is None
        assert found.delete_dimensions([at]) == Layout(order, padded_dimensions=widths_of(rank))


@pytest.mark.parametrize("order", ORDERS)
def test_delete_keeps_the_order_of_the_rest(order):
    rank = len(order)
    for count in range(rank + 1):
        for gone in itertools.combinations(range(rank), count):
            kept = [dim for dim in range(rank) if dim not in gone]
            for names in (gone, gone[::-1], set(gone), [dim - rank for dim in gone]):
                found = Layout(order, padded_dimensions=widths_of(rank)).delete_dimensions(names)
                assert found.minor_to_major == tuple(kept.index(dim) for dim in order if dim in kept)
                assert found.padded_dimensions == tuple(10 + dim for dim in kept)


@pytest.mark.parametrize("order", ORDERS)
def test_move_takes_one_dimension_to_an_end(order):
    rank = len(order)
    for dim in range(rank):
        rest = [other for other in order if other != dim]
        layout = Layout(order, padded_dimensions=widths_of(rank), padding_value=7)
        for number in (dim, dim - rank):
            assert layout.move_dimension_to_major(number) == layout.replace(minor_to_major=(*rest, dim))
            assert layout.move_dimension_to_minor(number) == layout.replace(minor_to_major=(dim, *rest))


def test_fields_other_than_the_order_are_keyword_only():
    kinds = {name: parameter.kind for name, parameter in inspect.signature(Layout).parameters.items()}
    assert kinds.pop("minor_to_major") is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert len(kinds) == 11 and set(kinds.values()) == {inspect.Parameter.KEYWORD_ONLY}


def test_edits_keep_the_padding_value():
    layout = Layout((1, 0), padded_dimensions=(4, 5), padding_value=2.5)
    for edited in (
        layout.permute((1, 0)),
        layout.insert_dimension(1, 3),
        layout.delete_dimensions([0]),
        layout.move_dimension_to_major(1),
        layout.move_dimension_to_minor(0),
    ):
        assert edited.padding_value == 2.5


@pytest.mark.parametrize("number", [-3, 2, 5])
def test_dimension_numbers_outside_the_rank_are_refused_by_every_function(number):
    layout = Layout((1, 0))
    for call in (
        layout.minor,
        layout.major,
        layout.move_dimension_to_major,
        layout.move_dimension_to_minor,
        lambda dim: layout.delete_dimensions([dim]),
        lambda dim: layout.are_dimensions_consecutive([dim]),
        lambda dim: layout.permute([0, dim]),
        lambda dim: layout.insert_dimension(dim + (dim > 0), 1),
    ):
        with pytest.raises(LayoutError):
            call(number)
