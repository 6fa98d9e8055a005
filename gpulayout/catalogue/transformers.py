"""Hugging Face transformers: gate and up of mixtures of experts, side by side in pairs or one half after the other."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="Hugging Face transformers",
    version="transformers 5.24.0",
    source="https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/core_model_loading.py",
    types=("bf16", "f16", "f32", "f8e4m3fn", "u8"),
    stored="One element in each place, no padding.",
    tensor="dtype[rows,columns]",
)
_columns = partial(
    _entry,
    sizes=(
        Size("rows", "rows of the weight: the inputs; of biases, the experts"),
        Size("columns", "columns of the weight: gate and up", 2),
    ),
    refuses="columns must be even",
    usual=(2880, 5760),
)


@_columns(
    summary="Columns: halves of gate and up become pairs, as gpt-oss has them",
    about=(
        "The logical array has all columns of gate, then all columns of up. In memory they take turns: gate 0, up 0, "
        "gate 1, up 1. That is gate_up_proj of GptOssExperts, whose code takes [..., ::2] and [..., 1::2]. "
        "flashinfer:gated_rows does the same to rows."
    ),
    judged_by="Interleave with inverse=True; _interleave_gate_up_concat_to_pairs of vLLM",
    kernels=("GptOssExperts", "swigluoai_and_mul"),
)
def column_halves_to_pairs(columns: int) -> Layout:
    """The half that a column is in becomes the low digit of its place."""
    return Layout((1, 0), tiles=((max(columns // 2, 1),), (2, 1)))


@_columns(
    summary="Columns: pairs of gate and up become halves, as Llama 4 has them",
    about=(
        "The logical array has gate and up in turns, as gate_up_proj of GptOssExperts: gate 0, up 0, gate 1, up 1. In "
        "memory each row has all of gate, then all of up. Code that takes chunk(2, dim=-1) wants it so."
    ),
    judged_by="Interleave",
    kernels=("Llama4TextExperts", "silu_and_mul"),
)
def column_pairs_to_halves(columns: int) -> Layout:
    """Whether a column is even or odd becomes the high digit of its place."""
    return Layout((1, 0), tiles=((2,), (max(columns // 2, 1), 1)))


@_entry(
    summary="Rows: pairs of gate and up become halves, gate above up",
    about=(
        "The logical array has rows of gate and up in turns, as the files of gpt-oss have them. In memory all rows of "
        "gate lie above all rows of up, as in w13 of Llama. vLLM and SGLang do this as they load a model, for kernels "
        "that take halves. From halves to pairs of rows it is flashinfer:gated_rows."
    ),
    judged_by="Interleave",
    sizes=(
        Size("rows", "rows of the weight: gate and up", 2),
        Size("columns", "elements of a row: the inputs; half as many of FP4 in bytes"),
    ),
    refuses="rows must be even",
    stored="One element in each place, no padding. FP4 weights come as u8, two elements in a byte.",
    usual=(5760, 2880),
    kernels=("fused_experts",),
)
def row_pairs_to_halves(rows: int, columns: int) -> Layout:
    """Whether a row is even or odd becomes the high digit of its place."""
    whole = max(columns, 1)
    return Layout((1, 0), tiles=((2, whole), (max(rows // 2, 1), 1, 1, whole)))
