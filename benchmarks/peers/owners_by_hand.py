"""What engines do by hand with weights after loading, in torch: unpack words, permute, index rows, pack words again.

Each function takes the checkpoint's tensor and gives the bytes of the owner's, as a new tensor.  They compute what the
functions do that the entries of the catalogue name, in the fastest of the usual torch lines, and run on any device.  A
stack of experts is done one by one, as engines do, where the owner's function takes one matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

INTERLEAVED = (0, 2, 4, 6, 1, 3, 5, 7)  # the place of each of 8 nibbles in a word, in AWQ and in Marlin


def each(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of one matrix, for a stack of them."""

    def stacked(tensor: torch.Tensor, *rest: Any) -> torch.Tensor:
        if tensor.ndim == 2:
            return function(tensor, *rest)
        return torch.stack([stacked(one, *rest) for one in tensor])

    return stacked


def codes_of_gptq(words: torch.Tensor) -> torch.Tensor:
    """(K / 8, N) words to (K, N) codes, one in a byte: byte by byte, low half first."""
    halves = words.view(torch.uint8).reshape(*words.shape, 4).transpose(1, 2)
    codes = torch.empty(len(words), 8, words.shape[1], dtype=torch.uint8, device=words.device)
    codes[:, 0::2] = halves & 15
    codes[:, 1::2] = halves >> 4
    return codes.reshape(-1, words.shape[1])


def codes_of_awq(words: torch.Tensor) -> torch.Tensor:
    """(K, N / 8) words to (K, N) codes: even columns lie in the low half of a word."""
    codes = torch.empty(words.shape[0], 8 * words.shape[1], dtype=torch.uint8, device=words.device)
    for place, column in enumerate(INTERLEAVED):
        codes[:, column::8] = (words >> 4 * place) & 15
    return codes


@cache
def marlin_order(device: str) -> torch.Tensor:
    """Which of 4 neighbouring tiles of 16 x 16 codes each lane of a warp takes, in its order."""
    lane, tile, half, low = torch.meshgrid(*map(torch.arange, (32, 4, 2, 4)), indexing="ij")
    row = 2 * (lane % 4) + low % 2 + 8 * (low // 2)
    order = (16 * row + lane // 4 + 8 * half + 256 * tile).reshape(-1, 8)
    return order[:, list(INTERLEAVED)].reshape(-1).to(device)


def marlin_of_codes(codes: torch.Tensor) -> torch.Tensor:
    """(K, N) codes to Marlin's words, (K / 16, 2 N)."""
    rows, columns = codes.shape
    tiles = codes.reshape(rows // 16, 16, columns // 16, 16).permute(0, 2, 1, 3).reshape(-1, 1024)
    ordered = tiles.index_select(1, marlin_order(str(codes.device))).reshape(rows // 16, 16 * columns)
    return (ordered[:, 0::2] | ordered[:, 1::2] << 4).view(torch.int32)


@each
def gptq_to_marlin(words: torch.Tensor) -> torch.Tensor:
    """What gptq_marlin_repack computes."""
    return marlin_of_codes(codes_of_gptq(words))


@each
def awq_to_marlin(words: torch.Tensor) -> torch.Tensor:
    """What awq_marlin_repack computes."""
    return marlin_of_codes(codes_of_awq(words))


@each
def marlin_scales(scales: torch.Tensor) -> torch.Tensor:
    """64 columns transposed as 8 x 8."""
    return scales.reshape(-1, 8, 8).transpose(1, 2).reshape(scales.shape)


def shuffled_rows(count: int, device: torch.device) -> torch.Tensor:
    """The row that each place takes: in groups of 32, row r goes to r % 4 * 8 + r // 4."""
    within = torch.arange(32, device=device).reshape(8, 4).T.reshape(-1)
    return (torch.arange(0, count, 32, device=device)[:, None] + within).reshape(-1)


@each
def shuffle_matrix_a(weights: torch.Tensor) -> torch.Tensor:
    """FlashInfer's shuffled rows, for an epilogue tile of 128."""
    return weights.index_select(0, shuffled_rows(len(weights), weights.device))


@each
def gate_up(weights: torch.Tensor, block: int) -> torch.Tensor:
    """Rows of gate and up in turns, shuffled; then blocks of `block` columns one after the other."""
    in_turns = torch.arange(len(weights), device=weights.device).reshape(2, -1).T.reshape(-1)
    shuffled = weights.index_select(0, in_turns[shuffled_rows(len(weights), weights.device)])
    return shuffled.reshape(len(weights), -1, block).permute(1, 0, 2).contiguous()


@each
def block_scales(scales: torch.Tensor) -> torch.Tensor:
    """cuBLAS' blocks of 128 rows and 4 columns, padded with zeros."""
    rows, columns = (-(-size // multiple) for size, multiple in zip(scales.shape, (128, 4)))
    padded = scales.new_zeros(128 * rows, 4 * columns)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    blocks = padded.view(rows, 128, columns, 4).permute(0, 2, 1, 3)
    return blocks.reshape(-1, 4, 32, 4).transpose(1, 2).reshape(-1)


@each
def deepgemm_scales(scales: torch.Tensor) -> torch.Tensor:
    """Columns, each padded to 16 bytes."""
    rows, columns = scales.shape
    padded = scales.new_zeros(columns, -(-rows // 4) * 4)
    padded[:, :rows] = scales.T
    return padded


def key_pages(keys: torch.Tensor) -> torch.Tensor:
    """vLLM's pages of keys: pieces of 16 bytes, with the tokens between them."""
    piece = 16 // keys.element_size()
    return keys.unflatten(-1, (-1, piece)).permute(0, 2, 3, 1, 4).contiguous()


def value_pages(values: torch.Tensor) -> torch.Tensor:
    """vLLM's pages of values: tokens are the most minor."""
    return values.permute(0, 2, 3, 1).contiguous()
