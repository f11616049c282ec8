import json
import os
import signal
import tempfile
import unittest
from pathlib import Path

from mortise import (
    PREEMPTED_EXIT_CODE, Checkpointer, CheckpointPolicy, GracefulShutdown, Kind, Progress, Publisher,
)


class Recorder(Publisher):
    def __init__(self):
        self.reports, self.flushed, self.closed = [], 0, False

    def publish(self, report):
        self.reports.append(report)

    def flush(self, timeout_seconds):
        self.flushed += 1
        return True

    def close(self):
        self.closed = True


class Job:
    """A chain of numbers in which each depends on all before it: a wrong resume shows."""

    def __init__(self, directory, **options):
        self.value, self.log, self.fresh = 1, [], []
        self.publisher = Recorder()
        self.checkpointer = Checkpointer(directory, self.save, self.load, publisher=self.publisher, **options)

    def save(self, kind):
        values = self.log if kind is Kind.FULL else self.fresh
        self.fresh = []
        return json.dumps([self.value, values]).encode()

    def load(self, parts):
        self.log = []
        for _, data in parts:
            self.value, values = json.loads(data)
            self.log += values

    def run(self, total, stop_before=None):
        with self.checkpointer as checkpointer:
            for step in checkpointer.steps(total):
                if step == stop_before:
                    os.kill(os.getpid(), signal.SIGTERM)
                self.value = (self.value * 6364136223846793005 + step) % 2**64
                self.log.append(self.value)
                self.fresh.append(self.value)
        return checkpointer


class CheckpointerTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def policy(self):
        return CheckpointPolicy(incremental_every_steps=7, full_every_steps=50)

    def test_any_number_of_preemptions_changes_nothing(self):
        undisturbed = Job(self.directory / "undisturbed", policy=self.policy())
        undisturbed.run(200)
        for stops in ([0], [1, 2, 3], [13, 14, 50, 150], [49, 51, 198]):
            directory = self.directory / str(stops)
            for stop in stops:
                checkpointer = Job(directory, policy=self.policy()).run(200, stop_before=stop)
                self.assertTrue(checkpointer.preempted)
                self.assertEqual(checkpointer.exit_code, PREEMPTED_EXIT_CODE)
                self.assertEqual(checkpointer.store.latest()[-1][0].step, stop + 1, "the step that was under way is finished and saved")
            last = Job(directory, policy=self.policy())
            self.assertEqual(last.run(200).exit_code, 0)
            self.assertEqual((last.value, last.log), (undisturbed.value, undisturbed.log))

    def test_a_job_that_died_without_warning_resumes_from_its_last_save(self):
        with self.assertRaises(ZeroDivisionError):
            job = Job(self.directory, policy=self.policy())
            with job.checkpointer as checkpointer:
                for step in checkpointer.steps(200):
                    1 // (100 - step)
        self.assertEqual(Job(self.directory).checkpointer.restore(), 100)

    def test_handlers_are_restored(self):
        before = signal.getsignal(signal.SIGTERM)
        Job(self.directory).run(3)
        self.assertIs(signal.getsignal(signal.SIGTERM), before)

    def test_the_window_decides_what_is_saved(self):
        for full_seconds, want in ((1.0, Kind.FULL), (40.0, Kind.INCREMENTAL)):
            job = Job(self.directory / str(full_seconds), policy=self.policy(), shutdown=GracefulShutdown(30))
            with job.checkpointer as checkpointer, self.assertLogs("mortise") if want is not Kind.FULL else tempfile.TemporaryDirectory():
                for step in checkpointer.steps(100):
                    if step == 60:
                        checkpointer.policy._save_seconds[Kind.FULL] = full_seconds
                        checkpointer.shutdown.request()
            self.assertEqual(checkpointer.store.checkpoints()[-1].kind, want)

    def test_reports(self):
        job = Job(self.directory, policy=self.policy())
        job.run(100)
        reports = job.publisher.reports
        self.assertIsNone(reports[0].last_checkpoint, "nothing is saved yet")
        self.assertEqual([r.step for r in reports[1:]], [s for s in range(1, 101) if s % 7 == 0 or s % 50 == 0])
        self.assertTrue(all(r.save_seconds is not None and r.last_checkpoint is not None for r in reports[1:]))
        self.assertTrue(job.publisher.closed and job.publisher.flushed)
        again = Job(self.directory, policy=self.policy())
        again.run(100)
        self.assertIsNone(again.publisher.reports[0].last_checkpoint, "a save of an earlier pod is not this pod's")
        self.assertIsNotNone(again.publisher.reports[0].save_seconds)

    def test_a_save_that_fails_is_counted_and_training_goes_on(self):
        progress = Progress()
        job = Job(self.directory, policy=self.policy(), progress=progress)
        job.checkpointer._save = lambda kind: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        with self.assertLogs("mortise", "ERROR"):
            job.run(20)
        self.assertIn("mortise_training_checkpoint_failures_total 3\n", progress.text())
        self.assertEqual(len(job.log), 20)


class ShutdownTest(unittest.TestCase):
    def test_the_first_request_sets_the_deadline(self):
        now = [100.0]
        shutdown = GracefulShutdown(30, clock=lambda: now[0])
        self.assertIsNone(shutdown.remaining_seconds())
        shutdown.request()
        now[0] = 110
        shutdown.request()
        self.assertEqual(shutdown.remaining_seconds(), 20)
        now[0] = 200
        self.assertEqual(shutdown.remaining_seconds(), 0)

    def test_a_handler_that_was_there_before_is_called(self):
        seen = []
        before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        with GracefulShutdown() as shutdown:
            os.kill(os.getpid(), signal.SIGTERM)
            self.assertTrue(shutdown.wait(5))
        self.assertEqual(seen, [signal.SIGTERM])

    def test_a_bad_window_is_named(self):
        with self.assertRaisesRegex(ValueError, "window_seconds is 0"):
            GracefulShutdown(0)
