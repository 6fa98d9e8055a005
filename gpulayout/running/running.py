"""How every call runs: again without its checks, if calls like it have passed them; else read, opened, checked and run.

What a small call says is read once.  Three quarters of its time would go into reading and checks.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.choices.backends import host_backend
from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.moves.backend import Again, AnyArray, Backend, Prepared
from gpulayout.moves.move import check_storable
from gpulayout.moves.windows import window_of
from gpulayout.requests.arithmetic import Asked
from gpulayout.requests.index_keys import box_of
from gpulayout.requests.reading import WRITES_ARRAY, Call, check_source, check_strict
from gpulayout.running.kept import KEY_TYPES, Kept, with_values
from gpulayout.running.request import Opened, Request, request_of
from gpulayout.running.same_kind import ArrayCall, again_of, on_memory
from gpulayout.traced.traced import traced

NOTHING: Mapping[str, Any] = {}
# The parts of a key that are the types of the arrays, and the backend of NumPy's; nothing in the keys of plans.
KINDS = slice(3, 6)
Key = tuple[object, ...]
Latest = dict[Key, Again | None]


class _Known:
    """A call that was read: its request, how often it has run, and what runs it again without checks, by kinds."""

    __slots__ = ("request", "runs", "again")

    def __init__(self, request: Request):
        self.request, self.runs = request, 0
        self.again: dict[Key, Again] = {}


# By what a call says, and by what its arrays say of themselves.
kept_calls: Kept[_Known] = Kept()

# By what a call says, and the kinds of its arrays: what ran the latest such call without checks.
latest: Latest = {}
MOST_LATEST = 256
# Verbs that write a box; verbs that also do without one.
WRITES_BOX, PLAIN_VERBS = {"pack", "write_box", "write_words"}, {"pack", "unpack", "write_words"}
_ENDS = {int, type(None)}  # of slices; True equals 1


def run(
    verb: str,
    array: Any,
    source: Any,
    target: Any,
    out: Any,
    options: Mapping[str, Any] = NOTHING,
    sizes: Mapping[str, Any] = NOTHING,
    max_bytes: Any = None,
    strict: bool = True,
    at: Any = None,
) -> Any:
    """The result of a call: see `Call` for its parts."""
    if strict is not True:
        check_strict(strict)
    if is_compiling():
        anew = functools.partial(run, verb, array, source, target, out, options, sizes, max_bytes, strict, at)
        return traced(Call(verb, source, target, sizes, options, max_bytes, strict, at), array, out, anew)
    if at is not None and strict and max_bytes is None:
        done = _in_window(verb, array, source, target, out, options, at)
        if done is not None:
            return done
    key: Key | None = None
    if (
        max_bytes is at is None
        and strict
        and not (sizes or options)
        and type(target) in KEY_TYPES
        and type(source) in KEY_TYPES
    ):
        key = verb, source, target, type(array), type(out), host_backend()  # as `call_key` makes it, a call sooner
    elif max_bytes is None:
        key = call_key(verb, array, source, target, out, options, sizes, strict, at)
    again = latest.get(key)  # type: ignore[arg-type]  # None is no key of it
    if again is not None and (done := again(array, out)) is not None:
        return done
    if key is not None and type(array) is np.ndarray:
        other = _again_of_kept(key, array, out)
        if other is not None and other is not again and (done := other(array, out)) is not None:
            _set_latest(latest, key, other)
            return done
    return _Run(Call(verb, source, target, sizes, options, max_bytes, strict, at), key, latest).result(array, out)


def _in_window(verb: str, array: Any, source: Any, target: Any, out: Any, options: Mapping[str, Any], at: Any) -> Any:
    """The result of a call on a box, by one on its window: see `Window`.

    None if it has no window, and for arrays and boxes with errors: the call on the whole says them.
    """
    writes, entries = verb in WRITES_BOX, _box_key(at)
    whole, memory, other = (target, out, array) if writes else (source, array, out)
    if entries is None or type(whole) is not Shape or whole.is_dynamic:
        return None
    try:
        window = _window(whole, entries)
        if window is None:
            return None
        shape, box, places = window
        if box is None and verb not in PLAIN_VERBS:
            verb = "relayout"
        part = arrays.part_of(memory, other, whole.buffer_length, places)
        if part is None:
            return None
        if not writes:
            return run(verb, part, shape, target, out, options, at=box)
        run(verb, array, source, shape, part, options, at=box)
    except (TypeError, ValueError, IndexError, BufferError):
        return None
    return out


@functools.lru_cache(maxsize=4096)  # to find a window takes longer than a small box
def _window(whole: Shape, entries: Key) -> tuple[Shape, Any, slice] | None:
    """The shape of a window, the box in it and its places in the buffer; no box if it is all, without padding."""
    box = box_of(tuple([slice(*entry) if isinstance(entry, tuple) else entry for entry in entries]), whole)
    check_storable(whole)  # raises: a part of what cannot be moved may be movable
    window = window_of(whole, box)
    if window is None:
        return None
    shape, box = window.shape, window.box
    is_all = [(0, size) for size in shape.dimensions] == [*box]
    is_all = is_all and shape.element_count * shape.bits_per_element == 8 * shape.nbytes  # a box writes no padding
    at = None if is_all else tuple([slice(first, last) for first, last in box])
    return shape, at, slice(window.first, window.last)


def write_box(
    part: Any,
    part_shape: Any,
    buffer: Any,
    shape: Any,
    box: Any,
    options: Mapping[str, Any] = NOTHING,
    max_bytes: Any = None,
    strict: bool = True,
) -> Any:
    """Write a box of a buffer of `shape`, and nothing else of it; returns the buffer.

    part_shape   of a buffer `part`, whose dimensions are the sizes of the box; None if `part` is the logical array
    box          slices, as `Plan.part` takes them
    options      the keywords of arithmetic, for the part
    max_bytes    of the workspace, which only boxes need that one pass cannot move; None for the default
    """
    if part_shape is None:
        return run("pack", part, None, shape, buffer, options, NOTHING, max_bytes, strict, box)
    return run("write_box", part, part_shape, shape, buffer, options, NOTHING, max_bytes, strict, box)


def write_words(
    words: Any, words_shape: Any, buffer: Any, shape: Any, box: Any = None, options: Mapping[str, Any] = NOTHING
) -> Any:
    """Write the buffer that an array of words holds, or a box of it; returns the buffer that is written.

    words         an array with any strides, on the host below 0 too; its elements in C order are the bytes of a buffer
                  of `words_shape`.  An element of that buffer is no larger than a word
    box           as `write_box` takes it; None for all of the buffer
    """
    return run("write_words", words, words_shape, shape, buffer, options, NOTHING, None, True, box)


def read_box(
    buffer: Any,
    shape: Any,
    box: Any,
    part_shape: Any = None,
    out: Any = None,
    options: Mapping[str, Any] = NOTHING,
    max_bytes: Any = None,
    strict: bool = True,
) -> Any:
    """A box of a buffer of `shape` as a new array, or in `out`; as `write_box`, the other way.

    part_shape   of the buffer that it becomes: a shape or a layout; None for the logical array
    """
    if part_shape is None:
        return run("unpack", buffer, shape, None, out, options, NOTHING, max_bytes, strict, box)
    return run("read_box", buffer, shape, part_shape, out, options, NOTHING, max_bytes, strict, box)


def call_key(
    verb: str,
    array: Any,
    source: Any,
    target: Any,
    out: Any,
    options: Mapping[str, Any],
    sizes: Mapping[str, Any] = NOTHING,
    strict: bool = True,
    at: Any = None,
) -> Key | None:
    """What a call says, and at KINDS the kinds of its arrays, as a key; None if values of it cannot be part of one."""
    if type(source) not in KEY_TYPES:
        return None
    if type(target) not in KEY_TYPES and not (type(target) is tuple and {*map(type, target)} <= {int}):  # True equals 1
        return None
    if sizes and not {*map(type, sizes.values())} <= {int}:
        return None
    key = (verb, source, target, type(array), type(out), host_backend(), *sizes.items())
    if not strict:
        key = (*key, "not strict")
    if at is not None:
        box = _box_key(at)
        if box is None:
            return None
        key = (*key, "at", box)
    return with_values(key, options) if options else key


def _box_key(at: Any) -> Key | None:
    """A box as part of a key: slices are not hashable before Python 3.12; None for what is no box, or hardly."""
    parts: list[object] = []
    for entry in at if type(at) is tuple else (at,):
        if type(entry) is slice and {type(entry.start), type(entry.stop), type(entry.step)} <= _ENDS:
            parts.append((entry.start, entry.stop, entry.step))
        elif entry is ...:
            parts.append(entry)
        else:
            return None
    return tuple(parts)


def _again_of_kept(key: Key, array: AnyArray, out: Any) -> Again | None:
    """What runs a call on a NumPy array again that is not the latest with this key, as when two sizes take turns."""
    written = out if key[0] in WRITES_ARRAY and type(out) is np.ndarray else None
    known = kept_calls.get(_with_facts(key, array.dtype, array, written))
    return None if known is None else known.again.get(key[KINDS])


def _with_facts(key: Key, label: np.dtype[Any], array: AnyArray, out: AnyArray | None) -> Key:
    """The key of what is kept of a call: what it says, and what its arrays say, whatever their types are."""
    kept_key = (*key[: KINDS.start], *key[KINDS.stop :], label, array.shape, array.strides)
    return kept_key if out is None else (*kept_key, *_facts(out))


def known_request(
    call: Call, key: Key | None, label: np.dtype[Any], array: AnyArray, out: Any
) -> tuple[_Known, Opened | None]:
    """The request of a call, a kept one if a call that said the same had such arrays; and `out`, opened.

    key   see `call_key`; None if there is none
    """
    target = None
    if out is not None and call.verb in WRITES_ARRAY:  # its strides are part of the request
        target = arrays.open_array(out, "out", writing=True)
    written = None if target is None else target[1]
    known = None
    if key is not None:
        key = _with_facts(key, label, array, written)
        known = kept_calls.get(key)
    if known is None:
        known = _Known(request_of(call, label, array, written))
        if key is not None:
            kept_calls.keep(key, known, len(known.request.pieces))
    if out is not None and target is None:
        target = arrays.open_array(out, "out", writing=True)
    return known, target


def run_request(request: Request, array: Any, out: Any, max_bytes: Any = None) -> Any:
    """The result of a call of a plan, which was read when it was made."""
    key = type(array), type(out), host_backend()
    again = request.latest.get(key) if max_bytes is None else None
    if again is not None and (done := again(array, out)) is not None:
        return done
    options = NOTHING if request.change is None else request.change.options
    source, target, strict = request.read.shape, request.write.shape, request.strict
    if (known := arrays.known_array(array, "buffer")) is not array:  # what describes its memory to NumPy, asked once
        return run_request(request, known, out, max_bytes)
    if isinstance(array, np.ndarray) and not array.dtype.isnative:  # its bytes are swapped on the way
        return run("relayout", array, source, target, out, options, NOTHING, max_bytes, strict)
    fresh = _Known(request)
    fresh.runs = int(key in request.latest)  # None there: a call of this kind ran once
    call = Call("relayout", source, target, NOTHING, options, max_bytes, strict)
    return _Run(call, key, request.latest, fresh).result(array, out)


def _set_latest(latest: Latest, key: Key, again: Again | None) -> None:
    if len(latest) >= MOST_LATEST and key not in latest:
        latest.clear()
    latest[key] = again


def _again_in_python(request: Request, prepared: Prepared, array: Any, done: Any) -> Again | None:
    """What runs a call on NumPy arrays again that the engine does not: of several pieces, and without the engine."""
    if type(array) is not np.ndarray or type(done) is not np.ndarray:
        return None
    if (request.read.is_buffer and array.ndim != 1) or (request.write.is_buffer and done.ndim != 1):
        return None  # they were flattened
    facts, made = _facts(array), _facts(done)

    def again(array: AnyArray, out: AnyArray | None) -> AnyArray | None:
        if _facts(array) != facts:
            return None
        if out is None:
            out = host_backend().empty(made[1], made[0], array)
            prepared.execute(array, out, is_new=True)
            return out
        if _facts(out) != made or not out.flags.writeable or arrays.may_overlap(host_backend(), array, out):
            return None
        prepared.execute(array, out)
        return out

    return again


_facts = operator.attrgetter("dtype", "shape", "strides")


class _Run:
    """A call with every check.  The second one of its kind is remembered, on a GPU the first."""

    __slots__ = ("call", "key", "latest", "known", "moved")

    def __init__(self, call: Call, key: Key | None, latest: Latest, known: _Known | None = None):
        self.call, self.key, self.latest, self.known = call, key, latest, known
        self.moved: tuple[Prepared, AnyArray] | None = None

    def result(self, array: Any, out: Any) -> Any:
        """What the call returns."""
        call = self.call
        if call.verb == "pack" and isinstance(array, arrays.PLAIN):
            return self._of_values(array, out)
        if self.known is None:
            check_source(call)
        if call.in_place and out is None:
            raise TypeError("max_bytes is only for a relayout in place: pass out=buffer too")
        done = on_memory(array, call.role, out, self, None if call.in_place else call)
        if self.key is not None and self.moved is not None:
            self._remember(array, out, done)
        return done

    def __call__(self, backend: Backend, array: AnyArray, out: Any, array_call: ArrayCall) -> Any:
        """The same for an array that `open_array` returned: the work that `on_memory` is given."""
        if self.known is None:
            self.known, target = known_request(self.call, self.key, array_call.label(array), array, out)
        else:
            target = None if out is None else arrays.open_array(out, "out", writing=True)
        request = self.known.request
        if self.call.in_place:
            assert target is not None
            return request.run_in_place(backend, array, out, target, self.call.max_bytes)
        done, prepared = request.run(backend, array, out, target, array_call)
        if prepared is not None:
            self.moved = prepared, array
        return done

    def _remember(self, array: Any, out: Any, done: Any) -> None:
        """Keep what runs the call again: on the host if it has run before, because many calls run once."""
        assert self.key is not None and self.known is not None and self.moved is not None
        known, (prepared, opened) = self.known, self.moved
        known.runs += 1
        if known.runs == 1 and type(opened) is np.ndarray:  # to recognise one costs as much as a small call
            if self.latest is not latest:  # of a plan
                _set_latest(self.latest, self.key, None)
            return
        kinds = self.key[KINDS]
        again = known.again.get(kinds)
        if again is None:
            again = again_of(prepared, array, opened, done, is_new=out is None)
            again = again or _again_in_python(known.request, prepared, array, done)
        if again is not None:
            known.again[kinds] = again
            _set_latest(self.latest, self.key, again)

    def _of_values(self, values: Any, out: Any) -> Any:
        """`pack` of numbers and lists: they become an array of the default backend."""
        dtype = None
        if not (self.call.options and Asked(self.call.options)):
            shape = _whole_shape(self.call.target, values)
            self.call, dtype = self.call._replace(target=shape), shape.dtype
        backend, array = arrays.open_array_like(values, "array", dtype)
        target, options, strict, at = self.call.target, self.call.options, self.call.strict, self.call.at
        self.key = call_key("pack", array, None, target, out, options, strict=strict, at=at)
        return self(backend, array, out, ArrayCall(array, None, backend))


def _whole_shape(shape: Any, values: Any) -> Shape:
    """The shape for plain values; TypeError for a layout without a shape, because plain values have no element type."""
    if isinstance(shape, Layout) or is_only_layout(shape):
        raise TypeError(
            f"array is {type_text(values)}, which has no element type, and shape {value_text(str(shape))} is "
            "only a layout: write the whole shape"
        )
    return as_shape(shape)
