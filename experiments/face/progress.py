"""Who hears of finished cases: a function of the caller's, or a bar in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from experiments.output import progress_bar

Progress = Callable[[str], None]


def hearing(progress: Progress | None, total: int) -> AbstractContextManager[Progress]:
    """``progress``, called once for each finished case; None is the command line's bar."""
    return progress_bar(total) if progress is None else nullcontext(progress)
