"""Checkpoints that survive preemption.

A training loop needs one object, :class:`Checkpointer`: it decides when to save, writes checkpoints that are either whole or not there,
tells the cluster when the last one became durable (so that the scheduler knows what evicting this pod would cost), and saves within the
window after SIGTERM. The parts can be used on their own: :class:`CheckpointPolicy`, :class:`CheckpointStore`, :class:`GracefulShutdown`,
:class:`KubernetesPublisher`, :class:`FilePublisher`, :class:`Progress`.
"""

from .checkpointer import PREEMPTED_EXIT_CODE, Checkpointer
from .metrics import Progress
from .policy import CheckpointPolicy, Kind, daly_interval_seconds
from .publish import FilePublisher, KubernetesPublisher, NullPublisher, Publisher, Report, default_publisher
from .shutdown import GracefulShutdown
from .store import Checkpoint, CheckpointStore, CorruptCheckpoint

__all__ = [
    "PREEMPTED_EXIT_CODE",
    "Checkpoint",
    "CheckpointPolicy",
    "CheckpointStore",
    "Checkpointer",
    "CorruptCheckpoint",
    "FilePublisher",
    "GracefulShutdown",
    "Kind",
    "KubernetesPublisher",
    "NullPublisher",
    "Progress",
    "Publisher",
    "Report",
    "daly_interval_seconds",
    "default_publisher",
]
