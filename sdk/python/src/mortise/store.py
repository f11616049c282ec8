"""Checkpoint files that are whole or not there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Iterator, Optional, Union

from .policy import Kind

_log = logging.getLogger("mortise")
_NAME = re.compile(r"step-(\d{12})\.(full|incremental)\.json")


class CorruptCheckpoint(Exception):
    """A checkpoint whose bytes are not the ones that were saved."""


@dataclass(frozen=True)
class Checkpoint:
    """One saved state: after `step` steps, in `path`; an increment adds to the checkpoint after `base` steps.

    `save_seconds` is how long it took to make and write.
    """

    step: int
    kind: Kind
    path: Path
    size_bytes: int
    sha256: str
    base: Optional[int] = None
    save_seconds: float = 0.0

    def read(self) -> bytes:
        """The bytes that were saved, or CorruptCheckpoint."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise CorruptCheckpoint(f"checkpoint {self.path} cannot be read: {error}") from error
        if len(data) != self.size_bytes or hashlib.sha256(data).hexdigest() != self.sha256:
            raise CorruptCheckpoint(
                f"checkpoint {self.path} is damaged: {len(data)} bytes with another checksum than the {self.size_bytes} that were saved"
            )
        return data


class CheckpointStore:
    """Checkpoints in a directory that outlives the pod.

    A save writes the data, waits until it is on disk, then writes a small manifest with its size and SHA-256 and renames that into
    place: the rename is the commit. A process killed at any moment leaves the checkpoints before it untouched. One process writes, any
    may read. `keep_full` full checkpoints stay, with the increments that add to them.
    """

    def __init__(self, directory: Union[str, Path], keep_full: int = 2) -> None:
        if keep_full < 1:
            raise ValueError(f"keep_full is {keep_full}; expected at least 1")
        self.directory = Path(directory)
        self.keep_full = keep_full
        self.directory.mkdir(parents=True, exist_ok=True)

    def save(self, step: int, kind: Kind, data: bytes, prepare_seconds: float = 0.0) -> Checkpoint:
        """Saves the state after `step` steps, which took `prepare_seconds` to put together. It is durable when this returns."""
        began = time.monotonic()
        base = None
        if kind is Kind.INCREMENTAL:
            earlier = [c for c in self.checkpoints() if c.step < step]
            if not earlier:
                raise ValueError(f"an incremental checkpoint at step {step} has nothing to add to; save a full one first")
            base = earlier[-1].step
        stem = f"step-{step:012d}.{kind.value}"
        digest = hashlib.sha256(data).hexdigest()
        # The checksum in the name keeps a repeated save of one step from touching the bytes that the old manifest speaks of.
        path = self.directory / f"{stem}.{digest[:12]}.data"
        _write_durably(path, data)
        seconds = prepare_seconds + time.monotonic() - began
        saved = Checkpoint(step, kind, path, len(data), digest, base, seconds)
        _write_durably(self.directory / f"{stem}.json", json.dumps({**asdict(saved), "kind": kind.value, "path": path.name}).encode())
        self._prune()
        return saved

    def checkpoints(self) -> list[Checkpoint]:
        """All committed checkpoints, oldest first; of one step, the full one last."""
        found = [c for c in map(self._load, self.directory.iterdir()) if c is not None]
        return sorted(found, key=lambda c: (c.step, c.kind is Kind.FULL))

    def latest(self) -> Optional[list[tuple[Checkpoint, bytes]]]:
        """The newest state that can be restored: a full checkpoint and the increments after it, in order, each with its bytes.

        Damaged checkpoints are skipped with a warning. None if there is nothing to restore.
        """
        for chain in self._chains():
            try:
                return [(c, c.read()) for c in chain]
            except CorruptCheckpoint as error:
                _log.warning("%s; trying the one before it", error)
        return None

    def _chains(self) -> Iterator[list[Checkpoint]]:
        by_step: dict[int, Checkpoint] = {c.step: c for c in self.checkpoints()}
        for last in sorted(by_step.values(), key=lambda c: -c.step):
            chain = [last]
            while chain[-1].kind is Kind.INCREMENTAL:
                before = by_step.get(-1 if chain[-1].base is None else chain[-1].base)
                if before is None or before.step >= chain[-1].step:
                    break
                chain.append(before)
            if chain[-1].kind is Kind.FULL:
                yield chain[::-1]

    def _load(self, path: Path) -> Optional[Checkpoint]:
        if not _NAME.fullmatch(path.name):
            return None
        try:
            m = json.loads(path.read_bytes())
            data = self.directory / Path(str(m["path"])).name
            base = None if m["base"] is None else int(m["base"])
            seconds = float(m["save_seconds"])
            return Checkpoint(int(m["step"]), Kind(m["kind"]), data, int(m["size_bytes"]), str(m["sha256"]), base, seconds)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("checkpoint manifest %s cannot be read (%s); ignoring it", path, error)
            return None

    def _prune(self) -> None:
        all_checkpoints = self.checkpoints()
        full = [c.step for c in all_checkpoints if c.kind is Kind.FULL]
        if len(full) > self.keep_full:
            oldest = full[-self.keep_full]
            for c in all_checkpoints:
                if c.step < oldest:
                    (self.directory / f"step-{c.step:012d}.{c.kind.value}.json").unlink(missing_ok=True)
        kept = {c.path.name for c in self.checkpoints()}
        for path in self.directory.iterdir():
            if path.name.endswith((".data", ".tmp")) and path.name not in kept:
                path.unlink(missing_ok=True)


def _write_durably(path: Path, data: bytes) -> None:
    """Writes a file that is either whole or absent after a crash."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
