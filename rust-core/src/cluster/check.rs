//! What must always hold of the cluster state, checked from scratch. For tests and debugging.

use super::levels::derive;
use super::{Cluster, ClusterTotals, Content};

impl Cluster {
    /// Recomputes everything that is derived and compares; one sentence per violation, none when all is well.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut totals = ClusterTotals::default();
        let mut reserved = Vec::new();
        for slot in 0..self.slots() {
            self.check_slot(slot, &mut found);
            totals.pods += self.pods[slot].len() as u64;
            totals.capacity_milli += self.content[slot].capacity_milli();
            totals.idle_milli += u64::from(self.idle_milli[slot]);
            totals.overcommitted_milli += u64::from(self.overcommitted_milli[slot]);
            if self.pods[slot].iter().any(|pod| pod.reservation) {
                reserved.push(slot as u32);
            }
        }
        if totals != self.totals {
            found.push(format!("totals are {:?}, the nodes sum to {totals:?}", self.totals));
        }
        if reserved != self.reserved {
            found.push(format!("reserved slots are {:?}, expected {reserved:?}", self.reserved));
        }
        if !self.check_census() {
            found.push("the counts of MIG layouts do not match the nodes".to_owned());
        }
        let live = self.live.iter().filter(|&&live| live).count();
        if live != self.slot_of.len() {
            found.push(format!("{live} live slots, {} keys", self.slot_of.len()));
        }
        let mut vacant = self.vacant.clone();
        vacant.sort_unstable();
        vacant.dedup();
        if vacant.len() != self.vacant.len() || vacant.len() + live != self.slots() {
            let slots = self.slots();
            found.push(format!("{live} live and {} vacant of {slots} slots", self.vacant.len()));
        }
        found
    }

    fn check_slot(&self, slot: usize, found: &mut Vec<String>) {
        let mut expect = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("slot {slot}: {what}"));
            }
        };
        let content = &self.content[slot];
        let pods = &self.pods[slot];
        let derived = derive(&content.capacity, content.gpu_count, pods.iter());
        expect(derived.free == self.free[slot], "free levels are not what the pods leave");
        expect(derived.classes == self.classes[slot], "pod classes do not match the pods");
        expect(derived.idle_milli == self.idle_milli[slot], "idle GPU does not match");
        expect(
            derived.overcommitted_milli == self.overcommitted_milli[slot],
            "overcommitted GPU does not match",
        );
        expect(
            self.cpu_free[slot].0 == content.cpu_reported.0 - derived.reserved_cpu,
            "free CPU is not reported minus reserved",
        );
        expect(
            self.memory_free[slot].0 == content.memory_reported.0 - derived.reserved_memory,
            "free memory is not reported minus reserved",
        );
        expect(self.check_mig(slot), "MIG cards are not what the pods leave");
        expect(pods.is_sorted_by(|a, b| a.uid < b.uid), "pods are not in uid order");
        expect(self.version[slot] <= self.changes.last(), "version is from the future");
        if self.live[slot] {
            let known = self.slot_of.get(&self.key[slot]);
            expect(known == Some(&(slot as u32)), "its key leads elsewhere");
            expect(self.slot_generation[slot] > 0, "a live slot has generation 0");
        } else {
            expect(*content == Content::VACANT && pods.is_empty(), "a vacant slot has content");
            expect(self.vacant.contains(&(slot as u32)), "a vacant slot is not listed as such");
        }
    }
}
