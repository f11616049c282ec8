"""When to save, and how much of it."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Mapping, Optional


class Kind(str, enum.Enum):
    """What a checkpoint holds: everything, or the change since the checkpoint before it."""

    FULL = "full"
    INCREMENTAL = "incremental"


def daly_interval_seconds(save_seconds: float, mean_seconds_between_failures: float) -> float:
    """The time to compute between two checkpoints that loses least to saving and to failures together.

    The first-order term, sqrt(2 * save * MTBF), is J. W. Young's (CACM 17, 1974); the rest is J. T. Daly's refinement (FGCS 22, 2006),
    which holds while saving takes less than two mean times between failures; beyond that nothing helps and the MTBF itself is returned.
    """
    if not save_seconds >= 0 or not mean_seconds_between_failures > 0:
        raise ValueError(
            f"save_seconds is {save_seconds} and mean_seconds_between_failures is {mean_seconds_between_failures};"
            " expected at least 0 and more than 0"
        )
    if save_seconds >= 2 * mean_seconds_between_failures:
        return mean_seconds_between_failures
    ratio = save_seconds / (2 * mean_seconds_between_failures)
    young = math.sqrt(2 * save_seconds * mean_seconds_between_failures)
    return max(young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_seconds, 0.0)


@dataclass
class CheckpointPolicy:
    """Saves incrementally every `incremental_every_steps`, fully every `full_every_steps`, and at the latest after Daly's interval.

    The interval applies once `failures_per_day` is given (failures and preemptions of this job, from experience) and a save has been
    measured. 0 switches a step rule off. A save that is due by steps counts for the interval too.
    """

    incremental_every_steps: int = 1000
    full_every_steps: int = 10_000
    failures_per_day: Optional[float] = None
    _save_seconds: dict[Kind, float] = field(default_factory=dict, init=False, repr=False)
    _last_save: Optional[float] = field(default=None, init=False, repr=False)
    _has_full: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("incremental_every_steps", "full_every_steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} is {value!r}; expected a number of steps, or 0 for never")
        if self.failures_per_day is not None and not self.failures_per_day > 0:
            raise ValueError(f"failures_per_day is {self.failures_per_day!r}; expected more than 0, or None if it is not known")

    def start(self, now: float, earlier: Mapping[Kind, float]) -> None:
        """Begins to count at `now` (a monotonic clock, seconds). `earlier` has the seconds of each kind of save that work resumed from."""
        self._last_save, self._has_full = now, Kind.FULL in earlier
        self._save_seconds = dict(earlier)

    def due(self, step: int, now: float) -> Optional[Kind]:
        """What to save after `step` steps are done, or None."""
        if self.full_every_steps and step % self.full_every_steps == 0:
            return Kind.FULL
        by_steps = self.incremental_every_steps and step % self.incremental_every_steps == 0
        interval = self.interval_seconds()
        by_time = interval is not None and self._last_save is not None and now - self._last_save >= interval
        if by_steps or by_time:
            return self.smallest()
        return None

    def smallest(self) -> Kind:
        """The quickest kind that can be restored: an increment needs a full checkpoint to add to."""
        return Kind.INCREMENTAL if self._has_full else Kind.FULL

    def saved(self, kind: Kind, seconds: float, now: float) -> None:
        """Takes note of a durable save of `kind` that took `seconds`."""
        before = self._save_seconds.get(kind)
        self._save_seconds[kind] = seconds if before is None else 0.7 * before + 0.3 * seconds
        self._last_save = now
        self._has_full = self._has_full or kind is Kind.FULL

    def expected_save_seconds(self, kind: Kind) -> Optional[float]:
        """The measured time of a save of `kind`, or None before the first."""
        return self._save_seconds.get(kind)

    def interval_seconds(self) -> Optional[float]:
        """Daly's interval for the save that would be made, or None while it is not known."""
        seconds = self._save_seconds.get(self.smallest(), self._save_seconds.get(Kind.FULL))
        if self.failures_per_day is None or seconds is None:
            return None
        return daly_interval_seconds(seconds, 86_400 / self.failures_per_day)
