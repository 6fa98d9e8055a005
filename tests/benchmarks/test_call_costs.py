"""The table of small calls times calls that all move the same array, each as its own kind."""

import numpy as np

from benchmarks import call_costs


def test_every_call_gives_the_same_bytes_in_its_own_kind_of_array():
    wanted = np.arange(256, dtype=np.float32).reshape(16, 16).T
    found = call_costs.calls()
    assert set(found) >= {"np.copyto", "plan", "relayout, out=", "pack", "unpack, out=", "transpose", "view"}
    for name, kinds in found.items():
        for kind, call in kinds.items():
            result = call()
            assert name == "np.copyto" or np.array_equal(np.ravel(result), wanted.ravel()), (name, kind)
            module = {"NumPy": "numpy", "PyTorch": "torch", "JAX": "jax"}[kind]
            assert name == "np.copyto" or type(result).__module__.startswith((module, f"{module}lib"))


def test_the_table_has_a_row_for_each_call_and_a_column_for_each_kind(capsys):
    assert call_costs.main(["--samples", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "best to median of 2 samples" in lines[0] and lines[2].startswith("| call on f32[16,16], µs | NumPy |")
    rows = [line.split("`")[1] for line in lines[4:]]
    assert rows[:5] == ["np.copyto", "plan", "plan, out=", "relayout", "relayout, out="] and len(rows) == 12
