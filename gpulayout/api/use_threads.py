"""The number of threads that calls on the CPU may use, chosen in code."""

from __future__ import annotations

from gpulayout.cpu.threads import MOST_THREADS, choices
from gpulayout.layout.checks import value_text, whole_number
from gpulayout.layout.choice import Choice


class use_threads(Choice[int | None]):  # noqa: N801 - used as a function and as a context manager
    """Choose how many threads a call on the CPU may use, its own thread included.

    As a statement it applies to all threads until the next one; as a context manager, to the current thread until the
    end of the block.  That is the scope of `use_backend`.

    Parameters
    ----------
    count : int or None
        From 1 to 1024.  None returns to the default: the environment variable GPULAYOUT_NUM_THREADS, else the cores
        that this process may use.

    Raises
    ------
    ValueError
        For a number below 1 or above 1024.
    LayoutTypeError
        For what is no whole number, such as 1.5 or True.  It is a TypeError.

    See Also
    --------
    show_config : The number of threads, and where it comes from.

    Notes
    -----
    A statement holds in processes forked afterwards, but not in processes that start anew ("spawn"): call it there too.
    A `with` block does not hold in threads that start inside it.

    Any number gives the same bytes, but for the sign and the payload of a nan that a cast writes.  Moves below a
    megabyte take one thread.  While other processes keep the cores busy, calls use fewer.

    Examples
    --------
    >>> import gpulayout as gl
    >>> with gl.use_threads(1):
    ...     gl.show_config("dicts")["threads"]
    1
    """

    choices = choices

    def __init__(self, count: int | None):
        if count is not None:
            count = whole_number("threads", count)
            if not 1 <= count <= MOST_THREADS:
                raise ValueError(f"threads {value_text(count)} is not from 1 to {MOST_THREADS}; None is the default")
        super().__init__(count)
