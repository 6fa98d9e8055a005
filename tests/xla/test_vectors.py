"""XLA's own answers: every row of data/xla_vectors.json runs here.

A row states an operation, its arguments and the answer; most answers were asserted by XLA's unit tests or observed on
real XLA, and each row says which.
"""

import json
import pathlib

import pytest

from gpulayout import LayoutError
from tests.support.xla_operations import OPERATIONS

ROWS = json.loads((pathlib.Path(__file__).resolve().parents[1] / "data" / "xla_vectors.json").read_text())["vectors"]

# Where this library differs on purpose, and its answer.
DIFFERENCES = {
    # Negative dimension numbers count from the end, as in Python; XLA ends the process.
    "layout_delete_dimension.005": {"minor_to_major": [0]},
    # T(8,128) on 128 columns is row-major memory (reshape_is_bitcast_tiled.001), and the transpose keeps it.
    "transpose_is_bitcast_tiled.001": True,
}
UNKNOWN_MAY_BE_ANYTHING = "any (NaN allowed)"


def test_every_row_is_accounted_for():
    assert len(ROWS) == 365
    assert {row["op"] for row in ROWS} <= set(OPERATIONS)


def test_every_operation_has_a_row():
    assert set(OPERATIONS) <= {row["op"] for row in ROWS}


@pytest.mark.parametrize("row", [row for row in ROWS if row["op"] in OPERATIONS], ids=lambda row: row["id"])
def test_row(row):
    run = OPERATIONS[row["op"]]
    if row["id"] in DIFFERENCES:
        assert run(row["in"]) == DIFFERENCES[row["id"]]
    elif "error" in row:
        with pytest.raises(IndexError if row["op"] == "multi_to_linear" else LayoutError):
            run(row["in"])
    elif row["op"] == "padding_value_fill":
        found = run(row["in"])
        assert {
            name: value for name, value in row["out"].items() if value != UNKNOWN_MAY_BE_ANYTHING
        }.items() <= found.items()
    else:
        assert run(row["in"]) == row["out"]
