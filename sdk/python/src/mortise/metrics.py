"""Progress of a training job as Prometheus metrics, without a client library."""

from __future__ import annotations

import http.server
import threading
import time
from typing import Callable, Optional

from .policy import Kind


class Progress:
    """Counts steps and checkpoints and shows them in Prometheus' text format. All methods may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._step = 0
        self._total_steps: Optional[int] = None
        self._last_checkpoint: Optional[float] = None
        self._save_seconds = dict.fromkeys(Kind, 0.0)
        self._checkpoints = dict.fromkeys(Kind, 0)
        self._failures = 0

    def step(self, step: int, total_steps: Optional[int] = None) -> None:
        """Takes note that `step` steps of `total_steps` are done."""
        with self._lock:
            self._step = step
            self._total_steps = total_steps if total_steps is not None else self._total_steps

    def saved(self, kind: Kind, seconds: float, at: float) -> None:
        """Takes note of a durable checkpoint at time `at` (seconds since 1970) that took `seconds`."""
        with self._lock:
            self._checkpoints[kind] += 1
            self._save_seconds[kind] += seconds
            self._last_checkpoint = at

    def failed(self) -> None:
        """Takes note of a save that failed."""
        with self._lock:
            self._failures += 1

    def restored(self, at: float) -> None:
        """Takes note that work resumed from a checkpoint of time `at`."""
        with self._lock:
            self._last_checkpoint = at

    def text(self) -> str:
        """The metrics in the text exposition format 0.0.4."""
        with self._lock:
            rows = [("mortise_training_step", "gauge", "Steps that are done.", "", self._step)]
            if self._total_steps is not None:
                rows.append(("mortise_training_steps_planned", "gauge", "Steps of the whole job.", "", self._total_steps))
            if self._last_checkpoint is not None:
                age = max(0.0, self._clock() - self._last_checkpoint)
                rows.append(("mortise_training_checkpoint_age_seconds", "gauge", "Time since the last durable checkpoint.", "", age))
            for kind in Kind:
                label = f'{{kind="{kind.value}"}}'
                rows.append(("mortise_training_checkpoints_total", "counter", "Durable checkpoints.", label, self._checkpoints[kind]))
            for kind in Kind:
                label = f'{{kind="{kind.value}"}}'
                rows.append(("mortise_training_checkpoint_save_seconds_total", "counter", "Time spent saving.", label, self._save_seconds[kind]))
            rows.append(("mortise_training_checkpoint_failures_total", "counter", "Saves that failed.", "", self._failures))
        lines, described = [], set()
        for name, kind, help_text, label, value in rows:
            if name not in described:
                described.add(name)
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            lines.append(f"{name}{label} {value:g}" if isinstance(value, float) else f"{name}{label} {value}")
        return "\n".join(lines) + "\n"

    def serve(self, port: int = 9464, address: str = "") -> http.server.ThreadingHTTPServer:
        """Serves /metrics in a daemon thread; port 0 picks a free one (`server_address[1]`). `shutdown()` of the result ends it."""
        progress = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
                if self.path.split("?")[0] != "/metrics":
                    self.send_error(404, "only /metrics is here")
                    return
                body = progress.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer((address, port), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="mortise-metrics", daemon=True).start()
        return server
