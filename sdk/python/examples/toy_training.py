"""A small training job that survives preemption: a two-layer network, in plain Python, learns to add.

    python3 toy_training.py --directory /tmp/toy --steps 3000

Stop it with SIGTERM as often as you like and start it again: the result is the same as without.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import sys
import time
from pathlib import Path

from mortise import Checkpointer, CheckpointPolicy, GracefulShutdown, Kind, KubernetesPublisher, default_publisher

HIDDEN = 4


class Training:
    """Weights, random generator and history of losses: everything that the result depends on."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.hidden = [[self.rng.uniform(-1, 1) for _ in range(3)] for _ in range(HIDDEN)]
        self.out = [self.rng.uniform(-1, 1) for _ in range(HIDDEN + 1)]
        self.losses: list[float] = []
        self.saved_losses = 0

    def step(self, rate: float = 0.05) -> None:
        a, b = self.rng.uniform(-1, 1), self.rng.uniform(-1, 1)
        activations = [math.tanh(w[0] * a + w[1] * b + w[2]) for w in self.hidden]
        error = sum(w * h for w, h in zip(self.out, activations)) + self.out[HIDDEN] - (a + b)
        for i, h in enumerate(activations):
            slope = error * self.out[i] * (1 - h * h)
            self.out[i] -= rate * error * h
            for j, x in enumerate((a, b, 1.0)):
                self.hidden[i][j] -= rate * slope * x
        self.out[HIDDEN] -= rate * error
        self.losses.append(error * error)

    def save(self, kind: Kind) -> bytes:
        losses = self.losses if kind is Kind.FULL else self.losses[self.saved_losses :]
        self.saved_losses = len(self.losses)
        return json.dumps({"hidden": self.hidden, "out": self.out, "rng": self.rng.getstate(), "losses": losses}).encode()

    def load(self, parts: list[tuple[Kind, bytes]]) -> None:
        self.losses = []
        for _, data in parts:
            state = json.loads(data)
            self.losses += state["losses"]
        self.hidden, self.out = state["hidden"], state["out"]
        version, internal, gauss = state["rng"]
        self.rng.setstate((version, tuple(internal), gauss))
        self.saved_losses = len(self.losses)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="where checkpoints and the result go; must outlive the process")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="time that a step takes at least")
    parser.add_argument("--window-seconds", type=float, default=30.0, help="terminationGracePeriodSeconds of the pod")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--credentials", type=Path, help="token and ca.crt of the service account, if not where the kubelet puts them")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")

    training = Training(options.seed)
    publisher = KubernetesPublisher(credentials=options.credentials, min_interval_seconds=0.2) if options.credentials else default_publisher()
    with Checkpointer(
        options.directory,
        save=training.save,
        load=training.load,
        policy=CheckpointPolicy(incremental_every_steps=50, full_every_steps=500),
        publisher=publisher,
        shutdown=GracefulShutdown(options.window_seconds),
    ) as checkpointer:
        for _ in checkpointer.steps(options.steps):
            training.step()
            time.sleep(options.step_seconds)
    if not checkpointer.preempted:
        result = {"losses": training.losses, "weights": [training.hidden, training.out]}
        (options.directory / "result.json").write_text(json.dumps(result))
        print(f"done: mean loss of the last 100 steps {sum(training.losses[-100:]) / 100:.6f}")
    return checkpointer.exit_code


if __name__ == "__main__":
    sys.exit(main())
