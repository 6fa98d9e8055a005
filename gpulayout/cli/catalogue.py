"""`gpulayout catalogue`: the layouts that have a name, and what is known about one of them."""

from __future__ import annotations

from typing import Any

import click

from gpulayout.catalogue.entry import Entry
from gpulayout.catalogue.names import Named, entries, find, read_name
from gpulayout.catalogue.tensors import OwnerTensor, tensor_of
from gpulayout.cli.failures import printable
from gpulayout.cli.output import json_option, print_columns, print_json
from gpulayout.cli.show import shape_as_json
from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape

WIDTH = 76  # columns of text beside the names of the facts
COLUMNS = ("layout", "confirmed by", "what it is")
JSON_NAMES = (
    "name summary about owner version source judge judged_by confirmed sizes types choices stored refuses usual "
    "kernels tensor"
).split()


@click.command(short_help="List the layouts of known kernels, or show one of them.")
@click.argument("name", metavar="[NAME|WORDS]", required=False)
@json_option
def catalogue(name: str | None, as_json: bool) -> None:
    """List the layouts that kernels want and that have a name; or show all that is known about one of them.

    NAME is a name of the list.  NAME[SIZES] is a SHAPE for every other command.  With sizes this one says what they
    take.  WORDS list the layouts whose facts have them: the name of a kernel, of a library, of a format.

    \b
    Examples:
      gpulayout catalogue
      gpulayout catalogue marlin
      gpulayout catalogue 'scaled_mm scales'
      gpulayout catalogue cublas:block_scales
      gpulayout catalogue 'cublas:block_scales[200,10]'
      gpulayout show 'cublas:block_scales[200,10]'
      gpulayout pack scales.npy packed.npy --to cublas:block_scales
    """
    if name is None:
        _list(entries(), as_json)
        return
    if matches := () if set(":[(") & set(name) else _with_words(name.lower().split()):
        _list(matches, as_json)
        return
    try:
        named, shape = _named(name)
        tensor = None if shape is None else tensor_of(named.entry, shape, named.choices)
    except LayoutError as error:
        raise click.BadParameter(printable(str(error)), param_hint="'[NAME|WORDS]'") from None
    if as_json:
        facts = {} if shape is None else shape_as_json(shape) | {"owner_tensor": tensor and tensor._asdict()}
        taken = ("shape", "buffer_size", "nbytes", "padding_nbytes", "owner_tensor")
        print_json(entry_as_json(named.entry) | {name: facts[name] for name in taken if facts})
    else:
        _show(named.entry, shape, tensor)


def _named(text: str) -> tuple[Named, Shape | None]:
    """The entry that a text names, with its choices, and the shape if it has sizes."""
    if ":" not in text or not set("[(") & set(text):
        return Named(find(text.strip()), {}, None), None
    named = read_name(text)
    return named, None if named.sizes is None else named.entry(*named.sizes, **named.choices)  # type: ignore[arg-type]


def _with_words(words: list[str]) -> tuple[Entry, ...]:
    """The entries whose facts have all of the words, in small letters."""
    facts = {entry: _facts(entry) for entry in entries()}
    return tuple(entry for entry, text in facts.items() if words and all(word in text for word in {*words}))


def _facts(entry: Entry) -> str:
    """What a search looks at, in small letters."""
    facts = (entry.call, entry.summary, entry.about, entry.owner, entry.source, entry.judged_by, entry.stored)
    text = " ".join((*facts, *entry.types, *entry.kernels)).lower()
    return text.replace("tensorrt-llm", "tensorrt-llm trtllm trt-llm")


def _list(listed: tuple[Entry, ...], as_json: bool) -> None:
    if as_json:
        print_json([entry_as_json(entry) for entry in listed])
        return
    rows = [(entry.call, entry.judge if entry.confirmed else "unconfirmed", entry.summary) for entry in listed]
    print_columns(COLUMNS, rows, left=COLUMNS, below=COLUMNS[-1:])


def _show(entry: Entry, shape: Shape | None, tensor: OwnerTensor | None) -> None:
    click.echo(f"{entry.call}: {entry.summary}\n")
    click.echo(click.wrap_text(entry.about, 98))
    click.echo()
    what = {"package": "a run of", "vectors": "bytes that its code wrote:", "formula": "unconfirmed, written from"}
    facts = [
        ("owner", f"{entry.owner}, {entry.version}"),
        ("source", entry.source),
        ("confirmed" if entry.confirmed else "judge", f"{what[entry.judge]} {entry.judged_by}"),
        *(
            (size.name, size.meaning + (f"; a multiple of {size.multiple}" if size.multiple > 1 else ""))
            for size in entry.sizes
        ),
        *((choice.name, f"{choice.meaning}: {', '.join(map(str, choice.values))}") for choice in entry.choices),
        ("dtype", ", ".join(entry.types)),
        ("stored", entry.stored),
        *([("tensor", f"{entry.tensor}; here {tensor}" if tensor else entry.tensor)] if entry.tensor else []),
        *([("refuses", entry.refuses)] if entry.refuses else []),
        *([("kernels", ", ".join(entry.kernels))] if entry.kernels else []),
    ]
    if shape is not None:
        padding = shape.nbytes - shape.unpadded_nbytes
        facts += [
            ("shape", str(shape)),
            ("buffer", f"{counted(shape.buffer_size, 'place')}, {counted(shape.nbytes, 'byte')}"),
            ("padding", f"{counted(padding, 'byte')}, {padding / max(shape.nbytes, 1):.1%}" if padding else "none"),
        ]
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        lines = click.wrap_text(value, WIDTH).splitlines() if " " in value else [value]
        click.echo("\n".join(f"{label:{width}}{line}" for label, line in zip([name] + [""] * len(lines), lines)))
    usual = f"{entry.name}[{','.join(map(str, entry.usual))}]"
    click.echo(f"\ngpulayout show '{usual}' draws it; --code cuda prints its index arithmetic.")


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """An entry as plain values."""
    values = {"dtypes" if name == "types" else name: getattr(entry, name) for name in JSON_NAMES}
    return values | {name: [row._asdict() for row in values[name]] for name in ("sizes", "choices")}
