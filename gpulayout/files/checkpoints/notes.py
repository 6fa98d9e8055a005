"""Notes about tensors in the metadata of a file: what the bytes are that the format has no words for."""

from __future__ import annotations

from collections.abc import Mapping

NOTE = "gpulayout:"  # then the name of the tensor: the key of its note


def notes_of(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The notes of a file by the names of their tensors."""
    return {key.removeprefix(NOTE): text for key, text in (metadata or {}).items() if key.startswith(NOTE)}


def metadata_with(
    metadata: Mapping[str, str] | None, more: Mapping[str, str], notes: Mapping[str, str]
) -> dict[str, str] | None:
    """The metadata of a new file: all that the old one had, what rules add, and the notes of its own tensors."""
    kept = {key: text for key, text in (metadata or {}).items() if not key.startswith(NOTE)}
    new = kept | dict(more) | {NOTE + name: text for name, text in notes.items()}
    return new if new or metadata is not None else None
