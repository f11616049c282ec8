//! A scoring call allocates nothing once its buffers have grown.

mod common;

use common::{Cluster, NO_SCORE, OK, pod, score_request};

#[test]
fn a_warm_scoring_call_does_not_allocate() {
    let (cluster, refs) = Cluster::with_nodes(500);
    let mut scores = vec![NO_SCORE; refs.len()];
    let kinds = [pod(1, 1, 1_000), pod(2, 1, 300), pod(3, 8, 1_000), pod(4, 0, 0)];
    for kind in &kinds {
        assert_eq!(cluster.score(&score_request(kind, &refs), &mut scores).0, OK);
    }
    let counted = allocation_counter::measure(|| {
        for kind in &kinds {
            let (status, decision) = cluster.score(&score_request(kind, &refs), &mut scores);
            assert_eq!((status, decision.feasible_count), (OK, 500));
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
