"""Hugging Face Trainer: a callback that saves when the policy or SIGTERM says so. The Trainer writes the checkpoints itself."""

from __future__ import annotations

import time
from typing import Any, Optional

from transformers import TrainerCallback

from .metrics import Progress
from .policy import CheckpointPolicy, Kind
from .publish import Publisher, Report, default_publisher
from .shutdown import GracefulShutdown


class MortiseCallback(TrainerCallback):
    """Saves and stops between two steps after SIGTERM, saves when `policy` says so, and publishes each save.

        trainer = Trainer(..., callbacks=[MortiseCallback()])
        trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))

    The Trainer's checkpoints are whole ones; `policy` decides when. Its own save_strategy goes on beside it and is published too.
    """

    def __init__(
        self,
        policy: Optional[CheckpointPolicy] = None,
        publisher: Optional[Publisher] = None,
        progress: Optional[Progress] = None,
        shutdown: Optional[GracefulShutdown] = None,
    ) -> None:
        self.policy = policy if policy is not None else CheckpointPolicy()
        self.progress = progress if progress is not None else Progress()
        self.shutdown = shutdown if shutdown is not None else GracefulShutdown()
        self._publisher = publisher if publisher is not None else default_publisher()
        self._step_ended: Optional[float] = None
        self._last_checkpoint: Optional[float] = None

    @property
    def preempted(self) -> bool:
        """Whether SIGTERM ended the training."""
        return self.shutdown.requested

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.shutdown.__enter__()
        self.policy.start(time.monotonic(), {})
        self._report(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        self._step_ended = time.monotonic()
        self.progress.step(state.global_step, state.max_steps)
        if self.shutdown.requested:
            control.should_save = control.should_training_stop = True
        elif self.policy.due(state.global_step, self._step_ended) is not None:
            control.should_save = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.monotonic()
        seconds = now - (self._step_ended if self._step_ended is not None else now)
        self._last_checkpoint = time.time()
        self.policy.saved(Kind.FULL, seconds, now)
        self.progress.saved(Kind.FULL, seconds, self._last_checkpoint)
        self._report(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._publisher.flush(2)
        self._publisher.close()
        self.shutdown.__exit__(None, None, None)

    def _report(self, state: Any) -> None:
        seconds = self.policy.expected_save_seconds(Kind.FULL)
        self._publisher.publish(Report(self._last_checkpoint, seconds, state.global_step, state.max_steps))
