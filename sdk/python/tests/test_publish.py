import http.server
import json
import logging
import tempfile
import threading
import unittest
from pathlib import Path

from mortise import FilePublisher, KubernetesPublisher, NullPublisher, Progress, Report, default_publisher, Kind
from mortise.publish import read_report
from mortise.sidecar import main as sidecar_main, watch


class ApiServer:
    """An HTTP server that answers PATCH with the given status codes, then 200. The real API server is in the end-to-end tests."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PATCH(self):  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], body))
                self.send_response(outer.answers.pop(0) if outer.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Reports(unittest.TestCase):
    def test_annotations(self):
        self.assertEqual(
            Report(1_700_000_000.9, 2.1, 7, 100).annotations(),
            {
                "mortise.dev/last-checkpoint": "2023-11-14T22:13:20Z",
                "mortise.dev/checkpoint-save-seconds": "3",
                "mortise.dev/progress": "7/100",
            },
        )
        self.assertEqual(Report(step=3).annotations(), {"mortise.dev/progress": "3"})
        self.assertEqual(Report(save_seconds=0.0).annotations(), {"mortise.dev/checkpoint-save-seconds": "0"})


class Kubernetes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.credentials = Path(directory.name)
        (self.credentials / "token").write_text("first\n")
        (self.credentials / "namespace").write_text("team-a\n")

    def publisher(self, api, **options):
        publisher = KubernetesPublisher(
            "trainer-0", api_server=api.url, credentials=self.credentials, environment={}, max_backoff_seconds=0.01, **options
        )
        self.addCleanup(publisher.close)
        self.addCleanup(api.close)
        return publisher

    def test_a_merge_patch_of_its_own_pod(self):
        api = ApiServer()
        publisher = self.publisher(api)
        publisher.publish(Report(step=1))
        self.assertTrue(publisher.flush(10))
        path, authorization, content_type, body = api.requests[-1]
        self.assertEqual(path, "/api/v1/namespaces/team-a/pods/trainer-0?fieldManager=mortise-checkpoint")
        self.assertEqual((authorization, content_type), ("Bearer first", "application/merge-patch+json"))
        self.assertEqual(body, {"metadata": {"annotations": {"mortise.dev/progress": "1"}}})
        (self.credentials / "token").write_text("renewed")
        publisher.publish(Report(step=2))
        self.assertTrue(publisher.flush(10))
        self.assertEqual(api.requests[-1][1], "Bearer renewed")

    def test_errors_are_tried_again_until_the_newest_report_is_there(self):
        api = ApiServer(500, 403, 409)
        publisher = self.publisher(api, min_interval_seconds=0)
        with self.assertLogs("mortise", "WARNING") as logs:
            publisher.publish(Report(step=1))
            publisher.publish(Report(step=2))
            while not publisher.flush(0.2):
                pass
        self.assertEqual(api.requests[-1][3]["metadata"]["annotations"], {"mortise.dev/progress": "2"})
        self.assertTrue(any("does the service account have the verb patch" in line for line in logs.output))

    def test_an_unreachable_server_stops_nothing(self):
        api = ApiServer()
        publisher = self.publisher(api)
        api.close()
        with self.assertLogs("mortise", "WARNING"):
            publisher.publish(Report(step=1))
            self.assertFalse(publisher.flush(0.5))

    def test_missing_settings_are_named(self):
        for environment, message in (({}, "POD_NAME"), ({"POD_NAME": "x", "POD_NAMESPACE": "y"}, "KUBERNETES_SERVICE_HOST")):
            with self.assertRaisesRegex(ValueError, message):
                KubernetesPublisher(environment=environment, credentials=self.credentials)


class DefaultPublisher(unittest.TestCase):
    def test_choice(self):
        self.assertIsInstance(default_publisher({}), NullPublisher)
        self.assertIsInstance(default_publisher({"MORTISE_REPORT_FILE": "/x"}), FilePublisher)
        warnings = []
        broken = default_publisher({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "x", "POD_NAMESPACE": "y"}, lambda *a: warnings.append(a))
        self.assertIsInstance(broken, NullPublisher)
        self.assertEqual(len(warnings), 1, "no certificate of the cluster here")


class Sidecar(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "report.json"

    def test_each_new_report_once_and_the_last_for_sure(self):
        job, seen = FilePublisher(self.path), []

        class Sink(NullPublisher):
            def publish(self, report):
                seen.append(report)

        reports = [None, Report(1.0, 2.0, 3, 4), Report(1.0, 2.0, 3, 4), "torn", Report(step=9)]

        def wait():
            following = reports.pop(0) if reports else None
            if following == "torn":
                self.path.write_text('{"step": ')
            elif following is not None:
                job.publish(following)
            return not reports

        with self.assertLogs("mortise", "WARNING"):
            watch(self.path, Sink(), wait)
        self.assertEqual(seen, [Report(1.0, 2.0, 3, 4), Report(step=9)])

    def test_what_no_job_wrote_is_refused(self):
        for content, message in (("[]", "JSON object"), ('{"steps": 1}', "JSON object"), ('{"step": "x"}', "step is 'x'"),
                                 ('{"step": true}', "step is True"), ('{"step": NaN}', "step is nan"), ('{"save_seconds": -1}', "save_seconds is -1")):
            self.path.write_text(content)
            with self.assertRaisesRegex(ValueError, message):
                read_report(self.path)

    def test_outside_a_pod_it_says_so(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.assertEqual(sidecar_main(["--file", str(self.path)]), 2)

    def test_a_file_that_cannot_be_written_stops_nothing(self):
        with self.assertLogs("mortise", "WARNING"):
            FilePublisher(self.path / "below" / "nothing").publish(Report(step=1))


class Metrics(unittest.TestCase):
    def test_text_and_server(self):
        import urllib.error
        import urllib.request

        progress = Progress(clock=lambda: 160.0)
        progress.step(5, 10)
        progress.saved(Kind.FULL, 1.5, at=100.0)
        server = progress.serve(port=0, address="127.0.0.1")
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        address = f"http://127.0.0.1:{server.server_address[1]}"
        text = urllib.request.urlopen(f"{address}/metrics").read().decode()
        for line in (
            "mortise_training_step 5",
            "mortise_training_steps_planned 10",
            "mortise_training_checkpoint_age_seconds 60",
            'mortise_training_checkpoints_total{kind="full"} 1',
            'mortise_training_checkpoint_save_seconds_total{kind="full"} 1.5',
            "# TYPE mortise_training_checkpoints_total counter",
        ):
            self.assertIn(line + "\n", text)
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{address}/other")
