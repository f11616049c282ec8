//! Nodes and their cards, and the placement rule every policy shares: best fit, whole nodes for the pods of large gangs.

use super::setup::CARDS_PER_NODE;

/// Cards of one node as bits.
pub(super) type Cards = u8;

/// A pod of a job on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JobPod {
    pub(super) job: u32,
    /// Number of the pod in its job.
    pub(super) part: u32,
    pub(super) cards: Cards,
}

/// An inference pod on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InferencePod {
    pub(super) id: u32,
    pub(super) cards: Cards,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) jobs: Vec<JobPod>,
    pub(super) inference: Vec<InferencePod>,
    /// Held by no pod that stays; of these some are still in the grace window of the last.
    pub(super) open: Cards,
    /// When each open card is free.
    free_at: [i64; CARDS_PER_NODE as usize],
}

impl Node {
    /// Open cards that are free now.
    pub(super) fn free(&self, now: i64) -> Cards {
        cards_of(self.open).filter(|&card| self.free_at[card] <= now).fold(0, |set, c| set | 1 << c)
    }

    /// When the last of these cards is free.
    pub(super) fn free_from(&self, cards: Cards) -> i64 {
        cards_of(cards).map(|card| self.free_at[card]).max().unwrap_or(i64::MIN)
    }
}

/// The cluster.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// GPUs of pods that run or wait for their cards.
    pub(super) used: u32,
}

impl Cluster {
    pub(super) fn new(nodes: u32) -> Self {
        let node = Node { open: Cards::MAX, free_at: [i64::MIN; 8], ..Node::default() };
        Self { nodes: vec![node; nodes as usize], used: 0 }
    }

    /// Places a job on cards that are free now: all of its pods or none. Pods of 8 GPUs, the last may be smaller.
    pub(super) fn place_job(&mut self, job: u32, gpus: u32, now: i64) -> bool {
        let full = gpus / CARDS_PER_NODE;
        let rest = gpus % CARDS_PER_NODE;
        let free: Vec<Cards> = self.nodes.iter().map(|node| node.free(now)).collect();
        let mut whole: Vec<usize> = Vec::new();
        if full > 0 {
            whole.extend((0..free.len()).filter(|&n| free[n] == Cards::MAX).take(full as usize));
            if whole.len() < full as usize {
                return false;
            }
        }
        let last = if rest > 0 {
            let fits = |n: &usize| free[*n].count_ones() >= rest && !whole.contains(n);
            match (0..free.len()).filter(fits).min_by_key(|&n| (free[n].count_ones(), n)) {
                Some(node) => Some(node),
                None => return false,
            }
        } else {
            None
        };
        for (part, &node) in whole.iter().enumerate() {
            self.hold_job(node, JobPod { job, part: part as u32, cards: Cards::MAX });
        }
        if let Some(node) = last {
            self.hold_job(node, JobPod { job, part: full, cards: lowest(free[node], rest) });
        }
        true
    }

    fn hold_job(&mut self, node: usize, pod: JobPod) {
        self.used += pod.cards.count_ones();
        self.nodes[node].open &= !pod.cards;
        self.nodes[node].jobs.push(pod);
    }

    /// Where an inference pod would go: best fit among free cards, else among those that become free first.
    pub(super) fn room_for(&self, gpus: u32, now: i64) -> Option<(usize, Cards)> {
        let best = |open: &dyn Fn(&Node) -> Cards| {
            (0..self.nodes.len())
                .map(|n| (open(&self.nodes[n]).count_ones(), n))
                .filter(|&(count, _)| count >= gpus)
                .min()
                .map(|(_, n)| n)
        };
        if let Some(node) = best(&|node| node.free(now)) {
            return Some((node, lowest(self.nodes[node].free(now), gpus)));
        }
        best(&|node| node.open).map(|node| (node, self.soonest(node, gpus)))
    }

    /// Open cards of a node, those first that are free first.
    pub(super) fn soonest(&self, node: usize, gpus: u32) -> Cards {
        let node = &self.nodes[node];
        let mut cards: Vec<usize> = cards_of(node.open).collect();
        cards.sort_by_key(|&card| (node.free_at[card], card));
        cards[..gpus as usize].iter().fold(0, |set, card| set | 1 << card)
    }

    /// Gives open cards to an inference pod; returns when it can start.
    pub(super) fn hold_inference(&mut self, node: usize, pod: InferencePod, now: i64) -> i64 {
        let node = &mut self.nodes[node];
        debug_assert_eq!(pod.cards & !node.open, 0);
        node.open &= !pod.cards;
        let start = node.free_from(pod.cards).max(now);
        node.inference.push(pod);
        self.used += pod.cards.count_ones();
        start
    }

    /// Takes a job off all its nodes; its cards are free from `at` on.
    pub(super) fn remove_job(&mut self, job: u32, at: i64) {
        for node in &mut self.nodes {
            let mut held = 0;
            node.jobs.retain(|pod| {
                if pod.job == job {
                    held |= pod.cards;
                }
                pod.job != job
            });
            self.used -= held.count_ones();
            node.open |= held;
            cards_of(held).for_each(|card| node.free_at[card] = at);
        }
    }

    /// Takes an inference pod off its node. Cards it still waited for stay closed until then.
    pub(super) fn remove_inference(&mut self, id: u32, now: i64) {
        for node in &mut self.nodes {
            let Some(at) = node.inference.iter().position(|pod| pod.id == id) else { continue };
            let cards = node.inference.remove(at).cards;
            self.used -= cards.count_ones();
            node.open |= cards;
            for card in cards_of(cards) {
                node.free_at[card] = node.free_at[card].max(now);
            }
        }
    }
}

/// The cards of a set, rising.
pub(super) fn cards_of(set: Cards) -> impl Iterator<Item = usize> {
    (0..CARDS_PER_NODE as usize).filter(move |card| set >> card & 1 == 1)
}

/// The lowest `count` cards of a set.
pub(super) fn lowest(set: Cards, count: u32) -> Cards {
    cards_of(set).take(count as usize).fold(0, |chosen, card| chosen | 1 << card)
}
