"""PyTorch: models, optimizers, schedulers and random generators as one checkpoint."""

from __future__ import annotations

import io
from typing import Any

import torch

from .policy import Kind


class TorchState:
    """The state of everything that has `state_dict` and `load_state_dict`, and of torch's random generators.

        state = TorchState(model=model, optimizer=optimizer, scheduler=scheduler)
        Checkpointer("/checkpoints", save=state.save, load=state.load, incremental=False)

    It knows no increments: each checkpoint is whole. Of a job with several ranks, rank 0 saves what is replicated; sharded states
    belong to torch.distributed.checkpoint, called from `save` and `load` of your own.
    """

    def __init__(self, **objects: Any) -> None:
        for name, value in objects.items():
            if not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
                raise TypeError(f"{name} is a {type(value).__name__}; expected something with state_dict and load_state_dict")
        self._objects = objects

    def save(self, kind: Kind) -> bytes:
        """The state as bytes."""
        state: dict[str, Any] = {name: value.state_dict() for name, value in self._objects.items()}
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state_all()
        buffer = io.BytesIO()
        torch.save({"objects": state, "random": random}, buffer)
        return buffer.getvalue()

    def load(self, parts: list[tuple[Kind, bytes]]) -> None:
        """Puts the objects into the saved state. KeyError names an object that was not saved."""
        saved = torch.load(io.BytesIO(parts[-1][1]), map_location="cpu", weights_only=True)
        for name, value in self._objects.items():
            if name not in saved["objects"]:
                raise KeyError(f"the checkpoint has no {name!r}, only {sorted(saved['objects'])}")
            value.load_state_dict(saved["objects"][name])
        torch.set_rng_state(saved["random"]["cpu"])
        if "cuda" in saved["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(saved["random"]["cuda"])
