package native

// #include <stdlib.h>
// #include "mortise.h"
import "C"

import (
	"time"
	"unsafe"
)

// Values of the header.
const (
	IndexNone   uint32 = C.MORTISE_INDEX_NONE
	SavesNever  uint32 = C.MORTISE_SAVES_NEVER
	MaxDeclared uint32 = C.MORTISE_MAX_DECLARED_SECONDS

	FactsConsent uint32 = C.MORTISE_FACTS_CONSENT
	GangWhole    uint32 = C.MORTISE_GANG_WHOLE

	VictimPod         uint8 = C.MORTISE_VICTIM_POD
	VictimSurplus     uint8 = C.MORTISE_VICTIM_SURPLUS
	VictimGang        uint8 = C.MORTISE_VICTIM_GANG
	VictimTerminating uint8 = C.MORTISE_VICTIM_TERMINATING

	PlanFound   uint32 = C.MORTISE_PLAN_FOUND
	PlanOptimal uint32 = C.MORTISE_PLAN_OPTIMAL

	CheckpointInFuture uint32 = C.MORTISE_CHECKPOINT_IN_FUTURE
)

// PodFacts is mortise_pod_facts: what planning must know of a running pod beyond its record.
type PodFacts struct {
	UIDHigh          uint64
	UIDLow           uint64
	Gang             uint32
	Tenant           uint32
	FirstBudget      uint32
	BudgetCount      uint32
	UnsavedEvictions uint32
	SaveSeconds      uint32
	RestartSeconds   uint32
	GraceSeconds     uint32
	Flags            uint32
	Reserved         uint32
}

// Gang is mortise_gang.
type Gang struct {
	Flags      uint32
	MinMembers uint32
}

// Victim is mortise_victim: a pod that must be gone before the plan's pods start.
type Victim struct {
	UIDHigh             uint64
	UIDLow              uint64
	Ref                 NodeRef
	LostMilliGPUSeconds int64
	GPUMilli            uint32
	Gang                uint32
	Kind                uint8
	CountsAsTraining    uint8
	Reserved16          uint16
	Reserved            uint32
}

// PlanPlacement is mortise_plan_placement: where a pod comes.
type PlanPlacement struct {
	Ref        NodeRef
	Devices    uint16
	Reserved16 uint16
	Reserved   uint32
}

// PlanCost is mortise_plan_cost.
type PlanCost struct {
	BudgetViolations    uint32
	TrainingUnits       uint32
	LostMilliGPUSeconds int64
	Units               uint32
	Reserved            uint32
	StrandedMilli       int64
}

// RunnerUp is mortise_runner_up: a node that was not chosen.
type RunnerUp struct {
	Ref      NodeRef
	Cost     PlanCost
	LostBy   uint32
	Reserved uint32
}

// Blocked is mortise_blocked: nodes that stay closed for one reason.
type Blocked struct {
	Need            int64
	Most            int64
	FixedLeastMilli uint64
	FixedMostMilli  uint64
	NodeCount       uint32
	Reason          uint16
	Reserved16      uint16
}

// CheckpointWarning is mortise_checkpoint_warning: a checkpoint time that was ignored.
type CheckpointWarning struct {
	UIDHigh  uint64
	UIDLow   uint64
	Fault    uint32
	Reserved uint32
}

// Plan is mortise_plan.
type Plan struct {
	StructSize              uint32
	Flags                   uint32
	VictimCount             uint32
	PlacementCount          uint32
	RunnerUpCount           uint32
	BlockedCount            uint32
	WarningCount            uint32
	GuaranteedCount         uint32
	Cost                    PlanCost
	EvictedMilli            uint64
	Expansions              uint64
	OverRatioEvictedMilli   uint64
	OverRatioRequestedMilli uint64
	OverBudgetViolations    uint32
	PlacedCount             uint32
}

// Found reports whether there is a plan.
func (p *Plan) Found() bool { return p.Flags&PlanFound != 0 }

// PlanPolicy says how plans are made; see mortise_preempt_request.
type PlanPolicy struct {
	HardBudgets                  bool
	GuaranteeAfter               uint32
	GuaranteeMilli               uint64
	GuaranteeLostMilliGPUSeconds int64
	RatioPermille                uint32
	RestartSeconds               uint32
	GraceSeconds                 uint32
}

// Elements of the lists that are cut to the room there is.
const (
	roomRunnerUps = 4
	roomBlocked   = 16
	roomWarnings  = 64
	roomText      = 1024
	// roomVictims is enough for most plans; Preempt makes more room where it is not.
	roomVictims = 64
)

// PlanQuery collects what a plan is asked for and from, and holds the answer's lists. It reuses its memory; Close gives
// that back. It belongs to one goroutine at a time.
type PlanQuery struct {
	// NowSeconds is the time up to which lost work is counted.
	NowSeconds int64
	Policy     PlanPolicy

	pods       vector[PodRequest]
	candidates vector[NodeRef]
	facts      vector[PodFacts]
	gangs      vector[Gang]
	budgets    vector[uint32]
	budgetRefs vector[uint32]
	tenants    vector[uint64]

	victims    vector[Victim]
	placements vector[PlanPlacement]
	runnerUps  vector[RunnerUp]
	blocked    vector[Blocked]
	warnings   vector[CheckpointWarning]
	text       vector[byte]
}

// Reset empties the query.
func (q *PlanQuery) Reset() {
	q.pods.reset()
	q.candidates.reset()
	q.facts.reset()
	q.gangs.reset()
	q.budgets.reset()
	q.budgetRefs.reset()
	q.tenants.reset()
}

// AddPod appends a pod that needs room.
func (q *PlanQuery) AddPod(pod PodRequest) {
	pod.StructSize = C.sizeof_mortise_pod_request
	q.pods.push(pod)
}

// AddCandidate appends a node that may be used.
func (q *PlanQuery) AddCandidate(ref NodeRef) { q.candidates.push(ref) }

// AddFacts appends what is known of a running pod, with the disruption budgets that cover it.
func (q *PlanQuery) AddFacts(facts PodFacts, budgets []uint32) {
	facts.FirstBudget, facts.BudgetCount = uint32(len(q.budgetRefs.items)), uint32(len(budgets))
	for _, budget := range budgets {
		q.budgetRefs.push(budget)
	}
	q.facts.push(facts)
}

// AddGang appends a gang and returns its index.
func (q *PlanQuery) AddGang(gang Gang) uint32 {
	q.gangs.push(gang)
	return uint32(len(q.gangs.items) - 1)
}

// AddBudget appends a disruption budget with the evictions that it still allows, and returns its index.
func (q *PlanQuery) AddBudget(allowed uint32) uint32 {
	q.budgets.push(allowed)
	return uint32(len(q.budgets.items) - 1)
}

// AddTenant appends a tenant with the GPU that the guarantee may protect for it, and returns its index.
func (q *PlanQuery) AddTenant(guaranteeMilli uint64) uint32 {
	q.tenants.push(guaranteeMilli)
	return uint32(len(q.tenants.items) - 1)
}

// Victims, Placements, RunnerUps, Blocked, Warnings and Text are the answer's lists after a successful Preempt and until
// the next one.
func (q *PlanQuery) Victims() []Victim { return q.victims.items }

// Placements has one element per pod, in their order.
func (q *PlanQuery) Placements() []PlanPlacement { return q.placements.items }

// RunnerUps are the next best nodes, best first.
func (q *PlanQuery) RunnerUps() []RunnerUp { return q.runnerUps.items }

// Blocked are the nodes on which nothing helps, by reason.
func (q *PlanQuery) Blocked() []Blocked { return q.blocked.items }

// Warnings are checkpoint times that were ignored.
func (q *PlanQuery) Warnings() []CheckpointWarning { return q.warnings.items }

// Text says why there is no plan.
func (q *PlanQuery) Text() string { return string(q.text.items) }

// Close frees the memory. The query may be used again.
func (q *PlanQuery) Close() {
	q.pods.free()
	q.candidates.free()
	q.facts.free()
	q.gangs.free()
	q.budgets.free()
	q.budgetRefs.free()
	q.tenants.free()
	q.victims.free()
	q.placements.free()
	q.runnerUps.free()
	q.blocked.free()
	q.warnings.free()
	q.text.free()
}

// makeRoom gives the lists their room; victims at least so many.
func (q *PlanQuery) makeRoom(victims int) {
	q.victims.resize(max(victims, roomVictims))
	q.placements.resize(len(q.pods.items))
	q.runnerUps.resize(roomRunnerUps)
	q.blocked.resize(roomBlocked)
	q.warnings.resize(roomWarnings)
	q.text.resize(roomText)
}

// Preempt finds the cheapest evictions that make room for the query's pod, or for all of them together if there are
// several. Nothing is changed.
func (c *Cluster) Preempt(q *PlanQuery) (Plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := CallPreempt
	if len(q.pods.items) > 1 {
		call = CallPreemptGroup
	}
	if c.frame == nil {
		return Plan{}, closed(call)
	}
	f := c.frame
	for victims := 0; ; victims = int(f.err.required) {
		q.makeRoom(victims)
		f.setPreempt(q)
		start := time.Now()
		status := C.mortise_status(0)
		if plan := (*C.mortise_plan)(unsafe.Pointer(&f.plan)); call == CallPreempt {
			status = C.mortise_preempt(c.handle, &f.preempt, &f.buffers, plan, &f.err)
		} else {
			status = C.mortise_preempt_group(c.handle, &f.preempt, &f.buffers, plan, &f.err)
		}
		err := result(call, status, &f.err)
		c.observe(call, start, err)
		if err == nil {
			q.cut(&f.plan)
			return f.plan, nil
		}
		if StatusOf(err) != StatusBufferTooSmall || int(f.err.required) <= len(q.victims.items) {
			return Plan{}, err
		}
	}
}

func (f *frame) setPreempt(q *PlanQuery) {
	p := &q.Policy
	f.preempt = C.mortise_preempt_request{
		struct_size:                      C.uint32_t(unsafe.Sizeof(f.preempt)),
		now_seconds:                      C.int64_t(q.NowSeconds),
		pods:                             (*C.mortise_pod_request)(q.pods.pointer()),
		pod_count:                        C.size_t(len(q.pods.items)),
		candidates:                       (*C.mortise_node_ref)(q.candidates.pointer()),
		candidate_count:                  C.size_t(len(q.candidates.items)),
		facts:                            (*C.mortise_pod_facts)(q.facts.pointer()),
		fact_count:                       C.size_t(len(q.facts.items)),
		gangs:                            (*C.mortise_gang)(q.gangs.pointer()),
		gang_count:                       C.size_t(len(q.gangs.items)),
		budgets:                          (*C.uint32_t)(q.budgets.pointer()),
		budget_count:                     C.size_t(len(q.budgets.items)),
		budget_refs:                      (*C.uint32_t)(q.budgetRefs.pointer()),
		budget_ref_count:                 C.size_t(len(q.budgetRefs.items)),
		tenants:                          (*C.uint64_t)(q.tenants.pointer()),
		tenant_count:                     C.size_t(len(q.tenants.items)),
		pod_stride:                       C.sizeof_mortise_pod_request,
		fact_stride:                      C.sizeof_mortise_pod_facts,
		gang_stride:                      C.sizeof_mortise_gang,
		guarantee_after:                  C.uint32_t(p.GuaranteeAfter),
		guarantee_milli:                  C.uint64_t(p.GuaranteeMilli),
		guarantee_lost_milli_gpu_seconds: C.int64_t(p.GuaranteeLostMilliGPUSeconds),
		ratio_permille:                   C.uint32_t(p.RatioPermille),
		restart_seconds:                  C.uint32_t(p.RestartSeconds),
		grace_seconds:                    C.uint32_t(p.GraceSeconds),
	}
	if p.HardBudgets {
		f.preempt.flags = C.MORTISE_PREEMPT_HARD_BUDGETS
	}
	f.buffers = C.mortise_plan_buffers{
		struct_size:        C.uint32_t(unsafe.Sizeof(f.buffers)),
		victim_stride:      C.sizeof_mortise_victim,
		victims:            (*C.mortise_victim)(q.victims.pointer()),
		victim_capacity:    C.size_t(len(q.victims.items)),
		placements:         (*C.mortise_plan_placement)(q.placements.pointer()),
		placement_capacity: C.size_t(len(q.placements.items)),
		runner_ups:         (*C.mortise_runner_up)(q.runnerUps.pointer()),
		runner_up_capacity: C.size_t(len(q.runnerUps.items)),
		blocked:            (*C.mortise_blocked)(q.blocked.pointer()),
		blocked_capacity:   C.size_t(len(q.blocked.items)),
		warnings:           (*C.mortise_checkpoint_warning)(q.warnings.pointer()),
		warning_capacity:   C.size_t(len(q.warnings.items)),
		text:               (*C.char)(q.text.pointer()),
		text_capacity:      C.size_t(len(q.text.items)),
		placement_stride:   C.sizeof_mortise_plan_placement,
		runner_up_stride:   C.sizeof_mortise_runner_up,
		blocked_stride:     C.sizeof_mortise_blocked,
		warning_stride:     C.sizeof_mortise_checkpoint_warning,
	}
	f.plan = Plan{StructSize: C.sizeof_mortise_plan}
}

// cut leaves in the lists what the library wrote.
func (q *PlanQuery) cut(plan *Plan) {
	q.victims.resize(int(plan.VictimCount))
	q.placements.resize(int(plan.PlacementCount))
	q.runnerUps.resize(int(plan.RunnerUpCount))
	q.blocked.resize(int(plan.BlockedCount))
	q.warnings.resize(int(plan.WarningCount))
	length := 0
	for length < len(q.text.items) && q.text.items[length] != 0 {
		length++
	}
	q.text.resize(length)
}

// Each line is an assertion; see types.go.
var (
	_ = map[bool]int{false: 0, unsafe.Sizeof(PodFacts{}) == C.sizeof_mortise_pod_facts: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodFacts{}.UnsavedEvictions) == unsafe.Offsetof(C.mortise_pod_facts{}.unsaved_evictions): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodFacts{}.Flags) == unsafe.Offsetof(C.mortise_pod_facts{}.flags): 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(Gang{}) == C.sizeof_mortise_gang: 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(Victim{}) == C.sizeof_mortise_victim: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Victim{}.LostMilliGPUSeconds) == unsafe.Offsetof(C.mortise_victim{}.lost_milli_gpu_seconds): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Victim{}.Kind) == unsafe.Offsetof(C.mortise_victim{}.kind): 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(PlanPlacement{}) == C.sizeof_mortise_plan_placement: 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(RunnerUp{}) == C.sizeof_mortise_runner_up: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(RunnerUp{}.LostBy) == unsafe.Offsetof(C.mortise_runner_up{}.lost_by): 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(Blocked{}) == C.sizeof_mortise_blocked: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Blocked{}.Reason) == unsafe.Offsetof(C.mortise_blocked{}.reason): 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(CheckpointWarning{}) == C.sizeof_mortise_checkpoint_warning: 1}
	_ = map[bool]int{false: 0, unsafe.Sizeof(Plan{}) == C.sizeof_mortise_plan: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Plan{}.Cost) == unsafe.Offsetof(C.mortise_plan{}.cost): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Plan{}.PlacedCount) == unsafe.Offsetof(C.mortise_plan{}.placed_count): 1}
)
