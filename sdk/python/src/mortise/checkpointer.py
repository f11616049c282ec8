"""The training loop's side of preemption."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from types import TracebackType
from typing import Callable, Iterator, Optional, Type, Union

from .metrics import Progress
from .policy import CheckpointPolicy, Kind
from .publish import Publisher, Report, default_publisher
from .shutdown import GracefulShutdown
from .store import CheckpointStore

_log = logging.getLogger("mortise")

PREEMPTED_EXIT_CODE = 143  # 128 + SIGTERM, what a process that dies of the signal reports
_PUBLISH_SECONDS = 2.0  # of the window, kept for telling the cluster


class Checkpointer:
    """Saves in time and resumes.

    `save(kind)` returns the state as bytes: all of it for Kind.FULL, what changed since the last save for Kind.INCREMENTAL (a job that
    knows no increments sets `incremental=False` and is asked for full states only). `load(parts)` gets a full state and the increments
    after it, in order, and puts the job into that state.

        with Checkpointer("/checkpoints", save=save, load=load) as checkpointer:
            for step in checkpointer.steps(100_000):
                train(step)
        sys.exit(checkpointer.exit_code)

    After SIGTERM the loop ends behind the current step, with everything saved if the window allows. Use it on the main thread.
    """

    def __init__(
        self,
        store: Union[str, Path, CheckpointStore],
        save: Callable[[Kind], bytes],
        load: Callable[[list[tuple[Kind, bytes]]], None],
        *,
        policy: Optional[CheckpointPolicy] = None,
        publisher: Optional[Publisher] = None,
        progress: Optional[Progress] = None,
        shutdown: Optional[GracefulShutdown] = None,
        incremental: bool = True,
    ) -> None:
        self.store = store if isinstance(store, CheckpointStore) else CheckpointStore(store)
        self.policy = policy if policy is not None else CheckpointPolicy()
        self.progress = progress if progress is not None else Progress()
        self.shutdown = shutdown if shutdown is not None else GracefulShutdown()
        self.preempted = False
        self._save, self._load = save, load
        self._incremental = incremental
        self._publisher = publisher if publisher is not None else default_publisher()
        self._last_saved_step: Optional[int] = None
        self._last_checkpoint: Optional[float] = None
        self._total_steps: Optional[int] = None

    def __enter__(self) -> "Checkpointer":
        self.shutdown.__enter__()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._publisher.flush(_PUBLISH_SECONDS)
        self._publisher.close()
        self.shutdown.__exit__(kind, error, trace)

    @property
    def exit_code(self) -> int:
        """143 after a preemption (so that a Job starts the pod again), else 0."""
        return PREEMPTED_EXIT_CODE if self.preempted else 0

    def restore(self) -> int:
        """Puts the job into its newest saved state and returns how many steps were done then; 0 if there is none."""
        chain = self.store.latest()
        self.policy.start(time.monotonic(), {checkpoint.kind: checkpoint.save_seconds for checkpoint, _ in chain or []})
        if chain is None:
            return 0
        self._load([(checkpoint.kind, data) for checkpoint, data in chain])
        last = chain[-1][0]
        self._last_saved_step = last.step
        self.progress.restored(last.path.stat().st_mtime)
        _log.info("resumed after step %d from %s", last.step, last.path)
        return last.step

    def steps(self, total: int) -> Iterator[int]:
        """Restores, then yields the steps that are left (from 0 to `total` - 1), saving between them as the policy says.

        Ends early, with `preempted` set, when SIGTERM came. The end of the job is saved fully.
        """
        self._total_steps = total
        done = self.restore()
        self.progress.step(done, total)
        self._publish(done)
        while done < total and not self.shutdown.requested:
            yield done
            done += 1
            self.progress.step(done, total)
            kind = self.policy.due(done, time.monotonic())
            if kind is not None and not self.shutdown.requested:
                self.checkpoint(done, kind)
        self.preempted = done < total
        if done != self._last_saved_step:
            self._save_at_end(done)

    def checkpoint(self, step: int, kind: Kind = Kind.FULL) -> bool:
        """Saves the state after `step` steps and publishes it. A save that fails is logged and counted; False then."""
        if not self._incremental:
            kind = Kind.FULL
        began = time.monotonic()
        try:
            data = self._save(kind)
            self.store.save(step, kind, data, prepare_seconds=time.monotonic() - began)
        except (OSError, ValueError) as error:
            self.progress.failed()
            _log.error("checkpoint at step %d could not be saved: %s", step, error)
            return False
        ended, at = time.monotonic(), time.time()
        self.policy.saved(kind, ended - began, ended)
        self.progress.saved(kind, ended - began, at)
        self._last_saved_step, self._last_checkpoint = step, at
        self._publish(step)
        return True

    def _save_at_end(self, step: int) -> None:
        remaining = self.shutdown.remaining_seconds()
        kind = self._kind_within(self.shutdown.window_seconds if remaining is None else remaining)
        if kind is not Kind.FULL:
            _log.warning("a full checkpoint does not fit into the %.1f s that are left; saving the increment", remaining or 0.0)
        self.checkpoint(step, kind)

    def _kind_within(self, seconds: float) -> Kind:
        """What can be saved in `seconds`, as far as it is known: everything, or else what is quickest."""
        expected = self.policy.expected_save_seconds(Kind.FULL)
        if expected is None or expected <= seconds - _PUBLISH_SECONDS or not self._incremental:
            return Kind.FULL
        return self.policy.smallest()

    def _publish(self, step: int) -> None:
        # Only saves of this pod are published: an earlier time than its start tells the scheduler nothing.
        seconds = self.policy.expected_save_seconds(self._kind_within(self.shutdown.window_seconds))
        self._publisher.publish(Report(self._last_checkpoint, seconds, step, self._total_steps))
