//! Values of the header and short ways to call it, for the tests of this directory.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test program uses a part")]

use std::ffi::{CStr, c_char};
use std::ptr;

use mortise::abi;

pub const OK: i32 = 0;

pub fn error() -> abi::mortise_error {
    abi::mortise_error {
        struct_size: size_of::<abi::mortise_error>() as u32,
        status: -1,
        required: u64::MAX,
        message: [0x5a; 256],
    }
}

pub fn message(err: &abi::mortise_error) -> String {
    // SAFETY: the library ends every message with a NUL inside the array.
    unsafe { CStr::from_ptr(err.message.as_ptr()) }.to_string_lossy().into_owned()
}

pub fn config() -> abi::mortise_config {
    abi::mortise_config {
        struct_size: size_of::<abi::mortise_config>() as u32,
        flags: 0,
        seed: 7,
        strategy: ptr::null(),
        strategy_length: 0,
        memo_bytes: 0,
        lock_wait_milliseconds: 10,
        mix_mode: 0,
        mix_kinds: ptr::null(),
        mix_kind_count: 0,
        mix_kind_stride: 0,
        threads: 0,
        mig_strategy: std::ptr::null(),
        mig_strategy_length: 0,
    }
}

pub fn node(key: u64, gpus: u16) -> abi::mortise_node_delta {
    let mut capacity = [0; 16];
    capacity[..usize::from(gpus)].fill(1_000);
    abi::mortise_node_delta {
        node_ref: 0,
        node_key: key,
        generation: 1,
        cpu_free_milli: 96_000,
        memory_free_bytes: 1 << 39,
        cpu_allocatable_milli: 96_000,
        memory_allocatable_bytes: 1 << 39,
        model_id: abi::MORTISE_MODEL_NONE,
        first_pod: 0,
        pod_count: 0,
        gpu_count: gpus,
        flags: abi::MORTISE_NODE_OFFERS_SHARES as u16,
        gpu_capacity_milli: capacity,
        mig_model: [0; 16],
        mig_places: [0; 16],
    }
}

pub fn pod(uid: u64, count: u16, milli: u16) -> abi::mortise_pod_request {
    abi::mortise_pod_request {
        struct_size: size_of::<abi::mortise_pod_request>() as u32,
        flags: 0,
        uid_hi: 0,
        uid_lo: uid,
        cpu_milli: 4_000,
        memory_bytes: 1 << 30,
        allowed_models: u64::MAX,
        priority: 0,
        gpu_count: count,
        gpu_milli: milli,
        tier: 1,
        reserved: [0; 7],
        mig: [abi::mortise_mig_kind { profile: 0, count: 0 }; 4],
    }
}

pub fn sync_request(
    nodes: &[abi::mortise_node_delta],
    pods: &[abi::mortise_pod_record],
) -> abi::mortise_sync_request {
    abi::mortise_sync_request {
        struct_size: size_of::<abi::mortise_sync_request>() as u32,
        flags: 0,
        upserts: nodes.as_ptr(),
        upsert_count: nodes.len(),
        pods: pods.as_ptr(),
        pod_count: pods.len(),
        upsert_stride: size_of::<abi::mortise_node_delta>() as u32,
        pod_stride: size_of::<abi::mortise_pod_record>() as u32,
        removals: ptr::null(),
        removal_count: 0,
        arrival: ptr::null(),
    }
}

pub fn score_request(
    pod: &abi::mortise_pod_request,
    candidates: &[u64],
) -> abi::mortise_score_request {
    abi::mortise_score_request {
        struct_size: size_of::<abi::mortise_score_request>() as u32,
        flags: 0,
        pod,
        candidates: candidates.as_ptr(),
        candidate_count: candidates.len(),
        score_stride: size_of::<abi::mortise_node_score>() as u32,
        reserved: 0,
        tie_salt: 0,
    }
}

pub fn sync_result() -> abi::mortise_sync_result {
    abi::mortise_sync_result {
        struct_size: size_of::<abi::mortise_sync_result>() as u32,
        node_count: 0,
        pod_count: 0,
        added_count: 0,
        changed_count: 0,
        removed_count: 0,
        arrival_counted: 0,
        overcommitted_milli: 0,
    }
}

pub fn decision() -> abi::mortise_decision {
    abi::mortise_decision {
        struct_size: size_of::<abi::mortise_decision>() as u32,
        feasible_count: 0,
        node_ref: 0,
        score: 0,
        candidate_index: 0,
        devices: 0,
        mig_count: 0,
        mig: [abi::mortise_mig_instance { device: 0, place: 0 }; 16],
    }
}

pub const NO_SCORE: abi::mortise_node_score =
    abi::mortise_node_score { node_ref: 0, score: 0, devices: 0, reason: 0, reserved: 0 };

/// A cluster that is freed with its owner.
pub struct Cluster(pub u64);

impl Cluster {
    pub fn new(flags: u32) -> Self {
        Self::of(&abi::mortise_config { flags, ..config() })
    }

    pub fn of(config: &abi::mortise_config) -> Self {
        let mut handle = 0;
        // SAFETY: both point at live values.
        let status = unsafe { mortise::mortise_cluster_new(config, &mut handle, ptr::null_mut()) };
        assert_eq!(status, OK);
        Self(handle)
    }

    /// With nodes of 8 GPUs, keys 1, 2 ...
    pub fn with_nodes(count: u64) -> (Self, Vec<u64>) {
        let cluster = Self::new(0);
        let nodes: Vec<_> = (1..=count).map(|key| node(key, 8)).collect();
        let mut refs = vec![0; nodes.len()];
        let (status, err) = cluster.sync(&sync_request(&nodes, &[]), &mut refs);
        assert_eq!(status, OK, "{}", message(&err));
        (cluster, refs)
    }

    pub fn sync(
        &self,
        request: &abi::mortise_sync_request,
        refs: &mut [u64],
    ) -> (i32, abi::mortise_error) {
        let (mut result, mut err) = (sync_result(), error());
        let refs = if refs.is_empty() { ptr::null_mut() } else { refs.as_mut_ptr() };
        // SAFETY: all point at live values; `refs` has one element per upsert where it is given.
        let status = unsafe { mortise::mortise_sync(self.0, request, refs, &mut result, &mut err) };
        (status, err)
    }

    pub fn score(
        &self,
        request: &abi::mortise_score_request,
        scores: &mut [abi::mortise_node_score],
    ) -> (i32, abi::mortise_decision) {
        let mut decision = decision();
        // SAFETY: all point at live values; `scores` says its own length.
        let status = unsafe {
            mortise::mortise_score(
                self.0,
                request,
                scores.as_mut_ptr(),
                scores.len(),
                &mut decision,
                ptr::null_mut(),
            )
        };
        (status, decision)
    }

    pub fn digest(&self) -> u128 {
        let (mut high, mut low) = (0, 0);
        // SAFETY: both point at live values.
        let status =
            unsafe { mortise::mortise_state_digest(self.0, &mut high, &mut low, ptr::null_mut()) };
        assert_eq!(status, OK);
        u128::from(high) << 64 | u128::from(low)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: no pointer but NULL.
        unsafe { mortise::mortise_cluster_free(self.0, ptr::null_mut()) };
    }
}

pub fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the library's names are static and end in a NUL.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

pub fn running(uid: u64, cards: u16, devices: u16, start_seconds: i64) -> abi::mortise_pod_record {
    abi::mortise_pod_record {
        uid_hi: 0,
        uid_lo: uid,
        cpu_milli: 1_000,
        memory_bytes: 1 << 30,
        start_seconds,
        checkpoint_seconds: abi::MORTISE_CHECKPOINT_NONE,
        allowed_models: u64::MAX,
        priority: 10,
        gpu_count: cards,
        gpu_milli: 1_000,
        device_mask: devices,
        unknown_cards: 0,
        tier: abi::MORTISE_TIER_BATCH as u8,
        flags: 0,
        mig_count: 0,
        mig_unknown: [abi::mortise_mig_kind { profile: 0, count: 0 }; 4],
        mig: [abi::mortise_mig_instance { device: 0, place: 0 }; 16],
    }
}

pub fn facts(uid: u64) -> abi::mortise_pod_facts {
    abi::mortise_pod_facts {
        uid_hi: 0,
        uid_lo: uid,
        gang: abi::MORTISE_INDEX_NONE,
        tenant: abi::MORTISE_INDEX_NONE,
        first_budget: 0,
        budget_count: 0,
        unsaved_evictions: 0,
        save_seconds: abi::MORTISE_SAVES_NEVER,
        restart_seconds: 60,
        grace_seconds: 30,
        flags: 0,
        reserved: 0,
    }
}

pub fn preempt_request(
    pods: &[abi::mortise_pod_request],
    candidates: &[u64],
    now_seconds: i64,
) -> abi::mortise_preempt_request {
    abi::mortise_preempt_request {
        struct_size: size_of::<abi::mortise_preempt_request>() as u32,
        flags: 0,
        now_seconds,
        pods: pods.as_ptr(),
        pod_count: pods.len(),
        candidates: candidates.as_ptr(),
        candidate_count: candidates.len(),
        domains: ptr::null(),
        facts: ptr::null(),
        fact_count: 0,
        gangs: ptr::null(),
        gang_count: 0,
        budgets: ptr::null(),
        budget_count: 0,
        budget_refs: ptr::null(),
        budget_ref_count: 0,
        tenants: ptr::null(),
        tenant_count: 0,
        pod_stride: size_of::<abi::mortise_pod_request>() as u32,
        fact_stride: size_of::<abi::mortise_pod_facts>() as u32,
        gang_stride: size_of::<abi::mortise_gang>() as u32,
        guarantee_after: 1,
        guarantee_milli: u64::MAX,
        guarantee_lost_milli_gpu_seconds: 0,
        expansions: 0,
        ratio_permille: 2_000,
        restart_seconds: 0,
        grace_seconds: 30,
        reserved: 0,
    }
}

/// Room for the lists of a plan.
#[derive(Debug)]
pub struct PlanRoom {
    pub victims: Vec<abi::mortise_victim>,
    pub placements: Vec<abi::mortise_plan_placement>,
    pub runner_ups: Vec<abi::mortise_runner_up>,
    pub blocked: Vec<abi::mortise_blocked>,
    pub warnings: Vec<abi::mortise_checkpoint_warning>,
    pub text: Vec<c_char>,
    pub plan: abi::mortise_plan,
}

/// Every byte is the mark of "not written".
fn marked<T: Copy>() -> T {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: as many bytes as T has.
    unsafe { ptr::write_bytes(value.as_mut_ptr().cast::<u8>(), 0x5a, size_of::<T>()) };
    // SAFETY: used with structs of integers only, for which all bytes are valid.
    unsafe { value.assume_init() }
}

impl PlanRoom {
    pub fn new(capacity: usize) -> Self {
        let mut plan: abi::mortise_plan = marked();
        plan.struct_size = size_of::<abi::mortise_plan>() as u32;
        Self {
            victims: vec![marked(); capacity],
            placements: vec![marked(); capacity],
            runner_ups: vec![marked(); capacity],
            blocked: vec![marked(); capacity],
            warnings: vec![marked(); capacity],
            text: vec![0x5a; 256],
            plan,
        }
    }

    pub fn buffers(&mut self) -> abi::mortise_plan_buffers {
        abi::mortise_plan_buffers {
            struct_size: size_of::<abi::mortise_plan_buffers>() as u32,
            victim_stride: size_of::<abi::mortise_victim>() as u32,
            victims: self.victims.as_mut_ptr(),
            victim_capacity: self.victims.len(),
            placements: self.placements.as_mut_ptr(),
            placement_capacity: self.placements.len(),
            runner_ups: self.runner_ups.as_mut_ptr(),
            runner_up_capacity: self.runner_ups.len(),
            blocked: self.blocked.as_mut_ptr(),
            blocked_capacity: self.blocked.len(),
            warnings: self.warnings.as_mut_ptr(),
            warning_capacity: self.warnings.len(),
            text: self.text.as_mut_ptr(),
            text_capacity: self.text.len(),
            placement_stride: size_of::<abi::mortise_plan_placement>() as u32,
            runner_up_stride: size_of::<abi::mortise_runner_up>() as u32,
            blocked_stride: size_of::<abi::mortise_blocked>() as u32,
            warning_stride: size_of::<abi::mortise_checkpoint_warning>() as u32,
        }
    }

    pub fn untouched(&self) -> bool {
        self.plan.victim_count == 0x5a5a_5a5a
            && self.victims.iter().all(|victim| victim.gpu_milli == 0x5a5a_5a5a)
            && self.placements.iter().all(|placement| placement.devices == 0x5a5a)
            && self.text.iter().all(|&byte| byte == 0x5a)
    }
}

impl Cluster {
    pub fn preempt(
        &self,
        request: &abi::mortise_preempt_request,
        room: &mut PlanRoom,
        group: bool,
    ) -> (i32, abi::mortise_error) {
        let (buffers, mut err) = (room.buffers(), error());
        let call = if group { mortise::mortise_preempt_group } else { mortise::mortise_preempt };
        // SAFETY: all point at live values; the arrays say their own length.
        let status = unsafe { call(self.0, request, &buffers, &mut room.plan, &mut err) };
        (status, err)
    }

    /// Nodes of 8 GPUs full of one-GPU batch pods: uid 1..=8 on the first, and so on; each longer running.
    pub fn crowded(count: u64, now_seconds: i64) -> (Self, Vec<u64>) {
        let cluster = Self::new(0);
        let mut nodes = Vec::new();
        let mut pods = Vec::new();
        for key in 1..=count {
            let mut crowded = node(key, 8);
            crowded.first_pod = pods.len() as u32;
            crowded.pod_count = 8;
            nodes.push(crowded);
            for card in 0..8u64 {
                let uid = (key - 1) * 8 + card + 1;
                pods.push(running(uid, 1, 1 << card, now_seconds - 60 * uid as i64));
            }
        }
        let mut refs = vec![0; nodes.len()];
        let (status, err) = cluster.sync(&sync_request(&nodes, &pods), &mut refs);
        assert_eq!(status, OK, "{}", message(&err));
        (cluster, refs)
    }
}
