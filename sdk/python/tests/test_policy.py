import math
import random
import unittest

from mortise import CheckpointPolicy, Kind, daly_interval_seconds


def expected_overhead(interval: float, save: float, mtbf: float) -> float:
    """Wall time for one second of work with exponential failures, after Daly: the curve whose minimum the interval approximates."""
    return mtbf * (math.exp((interval + save) / mtbf) - 1) / interval


class DalyInterval(unittest.TestCase):
    def test_is_within_half_a_percent_of_the_best_interval(self):
        rng = random.Random(7)
        for _ in range(200):
            mtbf = 10 ** rng.uniform(3, 6)
            save = mtbf * 10 ** rng.uniform(-4, -0.5)
            ours = expected_overhead(daly_interval_seconds(save, mtbf), save, mtbf)
            best = min(expected_overhead(mtbf * 10 ** (e / 200), save, mtbf) for e in range(-800, 100))
            self.assertLess(ours, best * 1.005, (save, mtbf))

    def test_borders(self):
        self.assertEqual(daly_interval_seconds(0, 100), 0)
        self.assertEqual(daly_interval_seconds(200, 100), 100)
        for save, mtbf in ((-1, 10), (1, 0), (math.nan, 10), (1, math.nan)):
            with self.assertRaisesRegex(ValueError, "expected at least 0 and more than 0"):
                daly_interval_seconds(save, mtbf)


class Policy(unittest.TestCase):
    def test_full_and_incremental_steps(self):
        policy = CheckpointPolicy()
        policy.start(0, {Kind.FULL: 1.0})
        due = {step: policy.due(step, 0) for step in range(1, 20_001)}
        self.assertEqual([s for s, k in due.items() if k is Kind.FULL], [10_000, 20_000])
        self.assertEqual([s for s, k in due.items() if k is Kind.INCREMENTAL], [s for s in range(1000, 20_000, 1000) if s != 10_000])

    def test_first_save_is_full(self):
        policy = CheckpointPolicy(incremental_every_steps=10, full_every_steps=0)
        policy.start(0, {})
        self.assertEqual(policy.due(10, 0), Kind.FULL)
        policy.saved(Kind.FULL, 1, 0)
        self.assertEqual(policy.due(20, 0), Kind.INCREMENTAL)

    def test_interval_counts_from_the_last_save(self):
        policy = CheckpointPolicy(incremental_every_steps=0, full_every_steps=0, failures_per_day=24)
        policy.start(0, {})
        self.assertIsNone(policy.due(1, 1e6), "nothing is known of the time of a save yet")
        policy.saved(Kind.FULL, 2.0, 100)
        interval = policy.interval_seconds()
        self.assertAlmostEqual(interval, daly_interval_seconds(2.0, 3600))
        self.assertIsNone(policy.due(2, 100 + interval - 1))
        self.assertEqual(policy.due(3, 100 + interval), Kind.INCREMENTAL)

    def test_bad_values_are_named(self):
        for field, value in (("incremental_every_steps", -1), ("full_every_steps", 1.5), ("failures_per_day", 0)):
            with self.assertRaisesRegex(ValueError, field):
                CheckpointPolicy(**{field: value})
