"""Generated code of a shape, or of a plan: the functions of both of its shapes, and `convert` if elements change."""

from __future__ import annotations

from gpulayout.codegen.code_c import c_convert, c_text, cuda_convert, cuda_text, struct
from gpulayout.codegen.code_convert import conversion_of
from gpulayout.codegen.code_parts import wrapped
from gpulayout.codegen.code_python import python_convert, python_text
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.layout.shape import Shape
from gpulayout.plans.plan import Plan


def text_of(given: Shape | Plan, language: str, name: str, bits: int) -> str:
    """The text in "cuda", "c" or "python"; `bits` is the width of indices in the first two."""
    if language == "python":
        return _python_text(given, name) if isinstance(given, Plan) else python_text(given, name)
    if language == "c":
        return _c_text(given, name, bits) if isinstance(given, Plan) else c_text(given, name, bits)
    return _cuda_text(given, name, bits) if isinstance(given, Plan) else cuda_text(given, name, bits)


def _cuda_text(plan: Plan, name: str, bits: int) -> str:
    """A struct of the structs `source` and `target`, and of the function `convert`."""
    lines = [
        *cuda_text(plan.source, "source", bits, f"{name}::").splitlines(),
        "",
        *cuda_text(plan.target, "target", bits, f"{name}::").splitlines(),
    ]
    header = ""
    if plan.change is not None:
        header = kernel_text("convert.cuh")  # what `convert` calls; it may stand in a file several times
        lines += cuda_convert(conversion_of(plan.change, plan.source))
    return header + _heading(plan, "//") + struct(name, lines)


def _c_text(plan: Plan, name: str, bits: int) -> str:
    """Functions and macros whose names begin with `name`_source and `name`_target, and the function `name`_convert."""
    sides = (c_text(plan.source, f"{name}_source", bits), c_text(plan.target, f"{name}_target", bits))
    lines = [] if plan.change is None else c_convert(conversion_of(plan.change, plan.source), f"{name}_")
    return _heading(plan, "//") + "\n".join(sides) + "".join(f"{line}\n" for line in lines)


def _python_text(plan: Plan, name: str) -> str:
    """The same in Python."""
    sides = (python_text(plan.source, f"{name}_source"), python_text(plan.target, f"{name}_target"))
    first, lines = "", []
    if plan.change is not None:
        first = "import numpy as np\n\n"
        lines = [*python_convert(conversion_of(plan.change, plan.source), f"{name}_convert")]
    return _heading(plan, "#") + first + "\n\n".join(sides) + "".join(f"{line}\n" for line in lines)


def _heading(plan: Plan, comment: str) -> str:
    form = "" if plan.change is None else f" with {plan.change.arithmetic.form}"
    return "".join(f"{comment} {line}\n" for line in wrapped(f"{plan.source} to {plan.target}{form}.", ""))
