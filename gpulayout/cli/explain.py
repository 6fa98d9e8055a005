"""`gpulayout explain`: what a relayout would do."""

from __future__ import annotations

from typing import Any, Unpack

import click

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.choices.explain import arithmetic_text, explain_blocks, picture_facts
from gpulayout.choices.explain import explain as explained
from gpulayout.cli.arguments import (
    ARITHMETIC,
    names_for,
    names_option,
    read_memory,
    read_shape,
    read_shape_or_letters,
    with_all,
)
from gpulayout.cli.failures import failures_in_one_line
from gpulayout.cli.output import html_option, json_option, overwrite_option, print_json, write_page
from gpulayout.cpu import choose_plan, native
from gpulayout.files.memory import block_limit
from gpulayout.files.route import in_words_of
from gpulayout.files.standard_streams import File
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.devices import DEVICES, REFERENCE, Device
from gpulayout.gpu.estimate import estimate
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import requests
from gpulayout.layout.shape import Shape
from gpulayout.pictures.page import plan_page
from gpulayout.pictures.plan_picture import plan_figure
from gpulayout.plans.plan import Plan, plan
from gpulayout.plans.plan_blocks import Blocks


@click.command(short_help="Say what a relayout would do, without doing it.")
@click.argument("source", metavar="SOURCE", type=read_shape)
@click.argument("target", metavar="TARGET", type=read_shape_or_letters)
@click.option(
    "--device",
    metavar="GPU",
    type=click.Choice(list(DEVICES)),
    default=REFERENCE,
    show_default=True,
    help=f"The GPU that the expected speed is for: {', '.join(DEVICES)}.",
)
@click.option(
    "--memory", metavar="SIZE", type=read_memory, help="Also say how files are moved in so much memory, such as 512M."
)
@names_option
@with_all(*ARITHMETIC)
@click.option("--in-place", is_flag=True, help="Also say which steps move it within one buffer, and in what workspace.")
@html_option
@overwrite_option
@json_option
def explain(
    source: Shape,
    target: Shape | str,
    names: str | None,
    device: str,
    memory: str | None,
    in_place: bool,
    html: File | None,
    overwrite: bool,
    as_json: bool,
    **options: Unpack[ArithmeticOptions],
) -> None:
    """Explain how a buffer of SOURCE would become a buffer of TARGET.

    SOURCE is a SHAPE.  TARGET is a SHAPE, or a LAYOUT for the same array: {0,1}, a name such as F or
    torch:channels_last, or a pattern such as 'n h w c -> n c h w', the memory of the array after it.  The answer names
    the merged dimensions, what is copied and what is filled, the kernel that a GPU would run and why not a faster one,
    and the bytes read and written.  Nothing is moved, and no GPU is needed: the expected speed comes from a model.

    --html FILE writes a picture of it: where the elements go.

    \b
    Examples:
      gpulayout explain 'f32[4096,4096]{1,0}' 'f32[4096,4096]{0,1}'
      gpulayout explain 'u8[600,800,3]' 'u8[600,800,3]{2,1,0:PD(600,800,4)}'
      gpulayout explain 'f32[4096,4096]' '{0,1}' --html transpose.html
      gpulayout explain 'u8[8,224,224,3]' 'n h w c -> n c h w'
      gpulayout explain 'f32[39000,39001]' '{0,1}' --memory 64M
      gpulayout explain 'u8[224,224,3]' 'h w c -> c h w' --dtype f32 --scale 0.5 --shift 1,2,3
    """
    with failures_in_one_line(TypeError):
        relayout = plan(source, target, names=names_for(source, names), **options)
    if html and as_json:
        raise click.UsageError("give one of --html and --json")
    if html and (memory is not None or in_place):
        raise click.UsageError(f"give one of --html and {'--in-place' if in_place else '--memory'}")
    if overwrite and html is None:
        raise click.UsageError("--overwrite needs --html FILE")
    gpu = DEVICES[device]
    if html:
        facts = picture_facts(relayout.pieces, relayout.request.stages)
        figure = plan_figure(relayout.source, relayout.target, facts, relayout.names)
        text = plan_page(figure, plan_as_json(relayout, gpu))
        return write_page(text, f"{relayout.source} -> {relayout.target}", html, overwrite=overwrite)
    limit = None if memory is None else block_limit(memory)
    within = relayout.in_place() if in_place else None
    if as_json:
        values: dict[str, Any] = {}
        if limit is not None:
            with in_words_of(memory):
                values["passes"] = [pass_as_json(once.blocks(limit)) for once in relayout.passes(limit)]
        if within is not None:
            values["in_place"] = within.as_json()
        return print_json(plan_as_json(relayout, gpu) | values)
    with in_words_of(memory):
        blocks = [] if limit is None else explain_blocks(relayout.source, relayout.target, limit)
    click.echo("\n".join([_text(relayout, gpu), *([] if within is None else [within.explain()]), *blocks]))


def _text(relayout: Plan, device: Device | None) -> str:
    """What the plan explains about itself, for a device."""
    stages = relayout.request.stages
    return explained(relayout.pieces, relayout.source, relayout.target, device, names=relayout.names, stages=stages)


def pass_as_json(blocks: Blocks) -> dict[str, int]:
    """How a pass over files is cut, as plain values."""
    names = ("block_bytes", "source_run_bytes", "target_run_bytes", "bytes_read", "bytes_written")
    return {"blocks": len(blocks)} | {name: getattr(blocks, name) for name in names}


def plan_as_json(relayout: Plan, device: Device | None = None) -> dict[str, Any]:
    """A plan as plain values.

    Axes, kernel and NumPy's work are those of the largest piece.  Axes and tile sizes come in the target's order, minor
    first (of channels: pixels first).  Strides are in bytes, or in slots where packed elements do not move as whole
    bytes.
    """
    move, stages = relayout.move, relayout.request.stages
    kernel = None if stages is not None and stages.arithmetic.swapped else kernel_plan(move)  # the CPU swaps bytes
    names = ("family", "file", "kernel", "element_bytes", "vector_bytes", "index_bits", "grid", "tile", "reasons")
    return {
        "source": str(relayout.source),
        "target": str(relayout.target),
        "bytes_read": relayout.bytes_read,
        "bytes_written": relayout.bytes_written,
        "element_count": relayout.source.element_count,
        "place_count": relayout.target.buffer_size,
        "itemsize": relayout.source.itemsize,
        "pieces": len(relayout.pieces),
        "axes": [{"dimensions": dims, **axis._asdict()} for axis, dims in zip(move.axes, move.dimensions)],
        "arithmetic": None if stages is None else arithmetic_text(stages),
        "engine": native.engine() if move.place_count else None,
        "cpu": choose_plan.as_json(move),
        "gpu": None if kernel is None else {name: getattr(kernel, name) for name in names} | _traffic(kernel, device),
        "text": _text(relayout, device),
    }


def _traffic(kernel: KernelPlan, device: Device | None) -> dict[str, Any]:
    """Sectors per request on both sides, and the expected speed.

    Nothing is measured.  Kernels for single bits and look-ups have no estimate.
    """
    if not kernel.kind.is_estimated:
        return {}
    expected = estimate(kernel, device=device)
    accesses = zip(("read", "written"), requests(kernel))
    sectors = {name: access and {"touched": access.sectors, "ideal": access.ideal} for name, access in accesses}
    return {
        "sectors_per_request": sectors,
        "expected_fraction_of_copy": expected.middle if expected else None,
        "model": expected.as_json() if expected else None,
    }
