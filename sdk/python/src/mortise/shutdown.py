"""SIGTERM, and how long there is after it."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Callable, Optional, Type


class GracefulShutdown:
    """Turns SIGTERM into a flag with a deadline, so that the loop can stop between two steps.

    `window_seconds` is the pod's grace period (30 s unless its tier or pod says less). Use it as a context manager on the main thread, as
    Python allows signal handlers nowhere else. A handler that was there before is called too, and restored at the end.
    """

    def __init__(self, window_seconds: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        if not window_seconds > 0:
            raise ValueError(f"window_seconds is {window_seconds!r}; expected the seconds between SIGTERM and SIGKILL, more than 0")
        self.window_seconds = window_seconds
        self._clock = clock
        self._requested = threading.Event()
        self._deadline: Optional[float] = None
        self._previous: Any = None

    def __enter__(self) -> "GracefulShutdown":
        self._previous = signal.signal(signal.SIGTERM, self._on_signal)
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        signal.signal(signal.SIGTERM, self._previous if self._previous is not None else signal.SIG_DFL)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        self.request()
        if callable(self._previous):
            self._previous(number, frame)

    def request(self) -> None:
        """Asks for the end as SIGTERM does. The first request sets the deadline."""
        if self._deadline is None:
            self._deadline = self._clock() + self.window_seconds
        self._requested.set()

    @property
    def requested(self) -> bool:
        """Whether the end has been asked for."""
        return self._requested.is_set()

    def remaining_seconds(self) -> Optional[float]:
        """Seconds until SIGKILL, not below 0; None while nobody has asked for the end."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())

    def wait(self, seconds: float) -> bool:
        """Sleeps for `seconds` or until the end is asked for; says whether it was."""
        return self._requested.wait(seconds)
