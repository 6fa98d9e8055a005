"""`gpulayout explain`: what a relayout will do, before it does it."""

from __future__ import annotations

import click

from gpulayout.api.relayout import Plan, plan
from gpulayout.cli.arguments import SHAPE, SHAPE_OR_LAYOUT
from gpulayout.cli.output import json_option, print_json
from gpulayout.cpu import choose_plan
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import expected_fraction, requests
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


@click.command(short_help="What a relayout will do, before it does it.")
@click.argument("source", metavar="SOURCE", type=SHAPE)
@click.argument("target", metavar="TARGET", type=SHAPE_OR_LAYOUT)
@json_option
def explain(source: Shape, target: Shape | Layout, as_json: bool) -> None:
    """Explain how a buffer of shape SOURCE becomes one of shape TARGET, or of the same shape in the layout TARGET.

    Says what was merged, what is copied and filled, which kernel a GPU would run and why not a faster one, and the
    bytes read and written.  Nothing is moved and no GPU is needed.

    \b
    Examples:
      gpulayout explain 'f32[4096,4096]{1,0}' 'f32[4096,4096]{0,1}'
      gpulayout explain 'u8[3000,4000,3]' 'u8[3000,4000,3]{2,1,0:PD(3000,4000,4)}'
    """
    found = plan(source, target)
    if as_json:
        print_json(plan_as_json(found))
    else:
        click.echo(found.explain())


def plan_as_json(found: Plan) -> dict:
    """A plan as plain values; strides in bytes, or in slots where elements are packed and do not move as whole bytes;
    axes and sizes of tiles minor first in the target (of channels: pixels first).

    Axes, kernel and what NumPy does are those of the largest piece.
    """
    move, kernel = found.move, kernel_plan(found.move)
    names = ("family", "file", "kernel", "element_bytes", "vector_bytes", "index_bits", "grid", "tile", "reasons")
    return {
        "source": str(found.source),
        "target": str(found.target),
        "bytes_read": found.bytes_read,
        "bytes_written": found.bytes_written,
        "element_count": found.source.element_count,
        "place_count": found.target.buffer_size,
        "itemsize": found.source.itemsize,
        "pieces": len(found.pieces),
        "axes": [{"dimensions": dims, **axis._asdict()} for axis, dims in zip(move.axes, move.dimensions)],
        "numpy": choose_plan.as_json(move),
        "gpu": None if kernel is None else {name: getattr(kernel, name) for name in names} | _traffic(kernel),
        "text": str(found.explain()),
    }


def _traffic(kernel: KernelPlan) -> dict:
    """Sectors per request of both sides, and what they let one expect; nothing is measured, nor estimated for single
    bits and look-ups.
    """
    if not kernel.kind.is_estimated:
        return {}
    sides = zip(("read", "written"), requests(kernel))
    return {
        "sectors_per_request": {name: side and {"touched": side.sectors, "ideal": side.ideal} for name, side in sides},
        "expected_fraction_of_copy": expected_fraction(kernel),
    }
