"""Publishes what a job writes with FilePublisher, so that the job itself needs no permission.

    mortise-sidecar --file /reports/checkpoint.json
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Callable, Optional

from .publish import KubernetesPublisher, Publisher, Report, read_report
from .shutdown import GracefulShutdown

_log = logging.getLogger("mortise")


def watch(path: Path, publisher: Publisher, wait: Callable[[], bool]) -> None:
    """Publishes each report that appears in `path` until `wait` says that the end is asked for. The last one is flushed."""
    last: Optional[Report] = None
    complained: Optional[str] = None
    ends = False
    while True:
        try:
            report = read_report(path)
            complained = None
            if report != last:
                publisher.publish(report)
                last = report
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            if str(error) != complained:
                _log.warning("%s", error)
                complained = str(error)
        if ends:
            break
        ends = wait()
    publisher.flush(5)


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="mortise-sidecar", description="Publishes a job's checkpoint reports as annotations of its pod.")
    parser.add_argument("--file", type=Path, required=True, help="the file that the job names in MORTISE_REPORT_FILE")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="how often to look at it (default: 1)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        publisher = KubernetesPublisher(min_interval_seconds=options.interval)
    except (OSError, ValueError) as error:
        print(f"mortise-sidecar: {error}", file=sys.stderr)
        return 2
    with GracefulShutdown() as shutdown:
        watch(options.file, publisher, lambda: shutdown.wait(options.interval))
    publisher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
