import os
import random
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from mortise import CheckpointStore, Kind, store as _  # noqa: F401 - the module is patched below


class Killed(BaseException):
    """The process dies here."""


class Store(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.store = CheckpointStore(self.directory)

    def restored(self):
        chain = self.store.latest()
        return None if chain is None else [(c.step, c.kind.value, data) for c, data in chain]

    def test_a_full_state_and_its_increments(self):
        self.assertIsNone(self.restored())
        self.store.save(10, Kind.FULL, b"ten")
        self.store.save(20, Kind.INCREMENTAL, b"+10")
        self.store.save(30, Kind.INCREMENTAL, b"+20")
        self.assertEqual(self.restored(), [(10, "full", b"ten"), (20, "incremental", b"+10"), (30, "incremental", b"+20")])
        self.store.save(40, Kind.FULL, b"forty")
        self.assertEqual(self.restored(), [(40, "full", b"forty")])

    def test_an_increment_needs_something_to_add_to(self):
        with self.assertRaisesRegex(ValueError, "step 5 has nothing to add to"):
            self.store.save(5, Kind.INCREMENTAL, b"x")

    def test_damage_is_found_and_the_state_before_is_used(self):
        for damage in (lambda p: p.write_bytes(b""), lambda p: p.write_bytes(p.read_bytes()[:-1] + b"?"), Path.unlink):
            self.store.save(10, Kind.FULL, b"ten")
            self.store.save(20, Kind.INCREMENTAL, b"twenty")
            last = self.store.save(30, Kind.INCREMENTAL, b"thirty")
            damage(last.path)
            with self.assertLogs("mortise", "WARNING") as logs:
                self.assertEqual(self.restored()[-1], (20, "incremental", b"twenty"))
            self.assertIn(str(last.path), logs.output[0])

    def test_a_manifest_that_is_no_manifest_is_ignored_with_a_warning(self):
        self.store.save(10, Kind.FULL, b"ten")
        for content in (b"", b"[]", b'{"step": "x"}', b"\xff"):
            (self.directory / "step-000000000020.full.json").write_bytes(content)
            with self.assertLogs("mortise", "WARNING"):
                self.assertEqual(self.restored(), [(10, "full", b"ten")])

    def test_a_manifest_cannot_name_a_file_elsewhere(self):
        saved = self.store.save(10, Kind.FULL, b"ten")
        manifest = self.directory / "step-000000000010.full.json"
        manifest.write_text(manifest.read_text().replace(saved.path.name, "/etc/../" + saved.path.name))
        self.assertEqual(self.restored(), [(10, "full", b"ten")])

    def test_old_states_go_with_their_increments_and_their_files(self):
        for step in range(10, 100, 10):
            self.store.save(step, Kind.FULL if step % 30 == 10 else Kind.INCREMENTAL, b"%d" % step)
        self.assertEqual([c.step for c in self.store.checkpoints()], [40, 50, 60, 70, 80, 90])
        self.assertEqual(len(list(self.directory.iterdir())), 12)

    def test_killed_at_any_moment_the_last_committed_state_is_there(self):
        """Stops a random history of saves at each system call that changes the disk, and restores."""
        for seed in range(20):
            rng = random.Random(seed)
            calls = {"left": rng.randrange(1, 40)}

            def dying(real):
                def call(*args, **kwargs):
                    calls["left"] -= 1
                    if calls["left"] == 0:
                        raise Killed
                    return real(*args, **kwargs)

                return call

            with tempfile.TemporaryDirectory() as directory:
                store = CheckpointStore(directory, keep_full=1)
                committed = state = 0
                with mock.patch.multiple(os, fsync=dying(os.fsync), replace=dying(os.replace)), mock.patch.object(Path, "unlink", dying(Path.unlink)):
                    try:
                        for step in range(1, 12):
                            state = step
                            kind = Kind.FULL if step == 1 or rng.random() < 0.3 else Kind.INCREMENTAL
                            store.save(step, kind, b"%d" % step)
                            committed = step
                    except Killed:
                        pass
                chain = CheckpointStore(directory).latest()
                restored = 0 if chain is None else chain[-1][0].step
                self.assertIn(restored, (committed, state), f"seed {seed}")
                for checkpoint, data in chain or []:
                    self.assertEqual(data, b"%d" % checkpoint.step)
                if chain:
                    self.assertEqual([c.step for c, _ in chain], list(range(chain[0][0].step, restored + 1)))
