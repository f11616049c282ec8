"""Telling the cluster when the last checkpoint became durable."""

from __future__ import annotations

import abc
import datetime
import json
import logging
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Mapping, Optional, Union

_log = logging.getLogger("mortise")

LAST_CHECKPOINT = "mortise.dev/last-checkpoint"
CHECKPOINT_SAVE_SECONDS = "mortise.dev/checkpoint-save-seconds"
PROGRESS = "mortise.dev/progress"

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Report:
    """What a job says of itself. Times are seconds since 1970 (UTC)."""

    last_checkpoint: Optional[float] = None
    save_seconds: Optional[float] = None
    step: Optional[int] = None
    total_steps: Optional[int] = None

    def annotations(self) -> dict[str, str]:
        """The report as annotations of the pod. The scheduler reads whole seconds: a time is rounded down, a duration up."""
        out: dict[str, str] = {}
        if self.last_checkpoint is not None:
            at = datetime.datetime.fromtimestamp(int(self.last_checkpoint), datetime.timezone.utc)
            out[LAST_CHECKPOINT] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.save_seconds is not None:
            out[CHECKPOINT_SAVE_SECONDS] = str(-int(-self.save_seconds // 1))
        if self.step is not None:
            out[PROGRESS] = str(self.step) if self.total_steps is None else f"{self.step}/{self.total_steps}"
        return out


class Publisher(abc.ABC):
    """Where reports go. Neither method raises for a cluster that cannot be reached: training goes on."""

    @abc.abstractmethod
    def publish(self, report: Report) -> None:
        """Hands over a report. Returns at once; the newest report wins over one that has not been sent yet."""

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until the newest report has been sent; False if it could not be in that time."""
        return True

    def close(self) -> None:
        """Ends background work. Reports that were not flushed may be lost."""


class NullPublisher(Publisher):
    """Publishes nothing."""

    def publish(self, report: Report) -> None:
        pass


class FilePublisher(Publisher):
    """Writes each report to a JSON file on a volume shared with the sidecar `mortise-sidecar`, which has the permission to publish it."""

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(path)

    def publish(self, report: Report) -> None:
        temporary = self.path.with_name(self.path.name + ".tmp")
        try:
            temporary.write_text(json.dumps(asdict(report)))
            os.replace(temporary, self.path)
        except OSError as error:
            _log.warning("report of the checkpoint could not be written to %s: %s", self.path, error)


def read_report(path: Union[str, Path]) -> Report:
    """Reads what FilePublisher wrote. ValueError says what is wrong with a file that it did not write."""
    content = json.loads(Path(path).read_text())
    names = Report.__dataclass_fields__
    if not isinstance(content, dict) or not set(content) <= set(names):
        raise ValueError(f"{path} holds {content!r}; expected a JSON object of {', '.join(names)}")
    for name, value in content.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12):
            raise ValueError(f"{path}: {name} is {value!r}; expected a number of at least 0, or null")
    return Report(**content)


class KubernetesPublisher(Publisher):
    """Writes reports as annotations of the pod itself, with its own service account.

    The account needs the verb `patch` on its pod (deploy/checkpoint-rbac.yaml). A thread sends the newest report, at most one in
    `min_interval_seconds` except after `flush`, and tries again after an error, each time after twice the wait. The token is read for each
    request, because the kubelet renews it.
    """

    def __init__(
        self,
        pod: Optional[str] = None,
        namespace: Optional[str] = None,
        *,
        api_server: Optional[str] = None,
        credentials: Union[str, Path] = _SERVICE_ACCOUNT,
        min_interval_seconds: float = 5.0,
        max_backoff_seconds: float = 60.0,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._credentials = Path(credentials)
        pod = pod or environment.get("POD_NAME") or environment.get("HOSTNAME")
        if not pod:
            raise ValueError("the pod's name is not known; set POD_NAME from metadata.name (downward API)")
        namespace = namespace or environment.get("POD_NAMESPACE") or (self._credentials / "namespace").read_text().strip()
        if api_server is None:
            host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
            if not host:
                raise ValueError("KUBERNETES_SERVICE_HOST is not set; this process does not run in a pod (use FilePublisher or NullPublisher)")
            api_server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._url = f"{api_server}/api/v1/namespaces/{namespace}/pods/{pod}?fieldManager=mortise-checkpoint"
        ca = self._credentials / "ca.crt"
        self._tls = ssl.create_default_context(cafile=str(ca)) if api_server.startswith("https:") else None
        self._min_interval, self._max_backoff = min_interval_seconds, max_backoff_seconds
        self._changed = threading.Condition()
        self._pending: Optional[Report] = None
        self._sending = False
        self._urgent = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mortise-publisher", daemon=True)
        self._thread.start()

    def publish(self, report: Report) -> None:
        with self._changed:
            self._pending = report
            self._changed.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._pending is None and not self._sending, timeout_seconds)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout=1)

    def _run(self) -> None:
        earliest, backoff = 0.0, 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._pending is not None)
                self._changed.wait_for(lambda: self._closed or self._urgent, max(0.0, earliest - time.monotonic()))
                if self._closed:
                    return
                report, self._pending = self._pending, None
                self._sending, self._urgent = True, False
            assert report is not None
            sent = self._send(report)
            backoff = 0.0 if sent else min(max(1.0, 2 * backoff), self._max_backoff)
            earliest = time.monotonic() + max(self._min_interval if sent else 0.0, backoff)
            with self._changed:
                if not sent and self._pending is None:
                    self._pending = report
                self._sending = False
                self._changed.notify_all()

    def _send(self, report: Report) -> bool:
        try:
            token = (self._credentials / "token").read_text().strip()
            request = urllib.request.Request(
                self._url,
                data=json.dumps({"metadata": {"annotations": report.annotations()}}).encode(),
                method="PATCH",
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json", "Accept": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=10, context=self._tls) as response:
                response.read()
            return True
        except urllib.error.HTTPError as error:
            hint = "; does the service account have the verb patch on its pod? (deploy/checkpoint-rbac.yaml)" if error.code == 403 else ""
            _log.warning("publishing the checkpoint failed: %s %s%s", error.code, error.reason, hint)
        except (OSError, ValueError) as error:
            _log.warning("publishing the checkpoint failed: %s", error)
        return False


def default_publisher(environment: Mapping[str, str] = os.environ, warn: Callable[..., None] = _log.warning) -> Publisher:
    """Where this process can publish: the file in MORTISE_REPORT_FILE, else its own pod, else nowhere (with a warning in a pod)."""
    if path := environment.get("MORTISE_REPORT_FILE"):
        return FilePublisher(path)
    if not environment.get("KUBERNETES_SERVICE_HOST"):
        return NullPublisher()
    try:
        return KubernetesPublisher(environment=environment)
    except (OSError, ValueError) as error:
        warn("checkpoints are not published: %s. The scheduler will take this job for one that never saves.", error)
        return NullPublisher()
