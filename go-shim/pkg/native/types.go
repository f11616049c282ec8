package native

// #include "mortise.h"
import "C"

import (
	"math"
	"unsafe"
)

// Values of the header.
const (
	MaxGPUsPerNode    = C.MORTISE_MAX_GPUS_PER_NODE
	MaxNodes          = C.MORTISE_MAX_NODES
	MaxPodsPerNode    = C.MORTISE_MAX_PODS_PER_NODE
	MaxModels         = C.MORTISE_MAX_MODELS
	MaxModelNameBytes = C.MORTISE_MAX_MODEL_NAME_BYTES
	MilliPerGPU       = C.MORTISE_MILLI_PER_GPU
	MaxMIGKinds       = C.MORTISE_MAX_MIG_KINDS
	MaxMIGPerPod      = C.MORTISE_MAX_MIG_PER_POD

	ModelNone      uint32 = math.MaxUint32
	ModelsAny      uint64 = math.MaxUint64
	CheckpointNone int64  = math.MinInt64
	CandidateNone  uint32 = math.MaxUint32

	// ScoreInfeasible is the score of a node that does not take the pod.
	ScoreInfeasible int64 = math.MinInt64

	TierInference uint8 = C.MORTISE_TIER_INFERENCE
	TierTraining  uint8 = C.MORTISE_TIER_TRAINING
	TierBatch     uint8 = C.MORTISE_TIER_BATCH

	// NodeOffersShares marks nodes that take shares of a card, not only whole cards.
	NodeOffersShares uint16 = C.MORTISE_NODE_OFFERS_SHARES

	PodTerminating uint8 = C.MORTISE_POD_TERMINATING
	PodForeign     uint8 = C.MORTISE_POD_FOREIGN
	PodNoLearn     uint8 = C.MORTISE_POD_NO_LEARN
	PodReservation uint8 = C.MORTISE_POD_RESERVATION

	RequestNoLearn uint32 = C.MORTISE_REQUEST_NO_LEARN
)

// NodeRef is a node of one Cluster; 0 is none.
type NodeRef uint64

// NodeDelta is mortise_node_delta: a node that is new or has changed. FirstPod and PodCount are set by Batch.
type NodeDelta struct {
	Ref                    NodeRef
	Key                    uint64
	Generation             int64
	CPUFreeMilli           int64
	MemoryFreeBytes        int64
	CPUAllocatableMilli    int64
	MemoryAllocatableBytes int64
	ModelID                uint32
	FirstPod               uint32
	PodCount               uint32
	GPUCount               uint16
	Flags                  uint16
	GPUCapacityMilli       [MaxGPUsPerNode]uint16
	MIGModel               [MaxGPUsPerNode]uint8  // of cards in MIG mode; else 0
	MIGPlaces              [MaxGPUsPerNode]uint32 // bit i: the card offers place i of its model
}

// PodRecord is mortise_pod_record: a pod on a node.
type PodRecord struct {
	UIDHigh           uint64
	UIDLow            uint64
	CPUMilli          int64
	MemoryBytes       int64
	StartSeconds      int64
	CheckpointSeconds int64
	AllowedModels     uint64
	Priority          int32
	GPUCount          uint16
	GPUMilli          uint16
	DeviceMask        uint16
	UnknownCards      uint16
	Tier              uint8
	Flags             uint8
	MIGCount          uint16
	MIGUnknown        [MaxMIGKinds]MIGKind
	MIG               [MaxMIGPerPod]MIGInstance
}

// PodRequest is mortise_pod_request: what a pod asks for. StructSize is set by the calls.
type PodRequest struct {
	StructSize    uint32
	Flags         uint32
	UIDHigh       uint64
	UIDLow        uint64
	CPUMilli      int64
	MemoryBytes   int64
	AllowedModels uint64
	Priority      int32
	GPUCount      uint16
	GPUMilli      uint16
	Tier          uint8
	Reserved      [7]uint8
	MIG           [MaxMIGKinds]MIGKind
}

// NodeScore is mortise_node_score: what a candidate is worth. Score is absolute, higher is better.
type NodeScore struct {
	Ref      NodeRef
	Score    int64
	Devices  uint16
	Reason   Reason
	Reserved uint32
}

// Decision is mortise_decision: the best candidate.
type Decision struct {
	StructSize    uint32
	FeasibleCount uint32
	Ref           NodeRef
	Score         int64
	Index         uint32 // of the best among the candidates
	Devices       uint16
	MIGCount      uint16
	MIG           [MaxMIGPerPod]MIGInstance
}

// Explanation is mortise_explanation: what candidates have for a pod.
type Explanation struct {
	NodeCount     uint32 // candidates
	FeasibleCount uint32 // of them that take the pod
	GPUNodeCount  uint32 // that have cards for it, free or not
	FreeNodeCount uint32 // that have free ones
	FreeCards     uint32 // wholly free
	FreeMilli     uint64 // those included
	LargestNode   NodeRef
	LargestHole   uint32 // free cards of one node, or for a share free milli of one card
	Text          string // "8 GPUs free on 5 nodes, largest hole 3"
}

// SyncResult is mortise_sync_result.
type SyncResult struct {
	StructSize         uint32
	NodeCount          uint32
	PodCount           uint64
	AddedCount         uint32
	ChangedCount       uint32
	RemovedCount       uint32
	ArrivalCounted     uint32
	OvercommittedMilli uint64
}

// Fragmentation is mortise_fragmentation_report, in milli-GPU of the whole cluster.
type Fragmentation struct {
	StructSize    uint32
	Reserved      uint32
	CapacityMilli int64
	IdleMilli     int64
	FragmentMilli int64
	StrandedMilli int64

	// Memory slices of cards in MIG mode, those in use, and what is expected to strand.
	MIGSlices, MIGUsedSlices, MIGStrandedMilli int64
}

// Stats is mortise_stats_report.
type Stats struct {
	StructSize   uint32
	NodeCount    uint32
	Decisions    uint64
	MemoHits     uint64
	MemoMisses   uint64
	MemoBytes    uint64
	ColumnHits   uint64
	ColumnMisses uint64
	ColumnBytes  uint64
	Arrivals     uint64
	Relearns     uint64
	PriceEpochs  uint64
	MixKindCount uint32
	Reserved     uint32
}

// A map literal with two equal constant keys does not compile, so each line below is an assertion that the condition
// holds.
var (
	_ = map[bool]int{false: 0, unsafe.Sizeof(NodeDelta{}) == C.sizeof_mortise_node_delta: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.Generation) == unsafe.Offsetof(C.mortise_node_delta{}.generation): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.MemoryAllocatableBytes) == unsafe.Offsetof(C.mortise_node_delta{}.memory_allocatable_bytes): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.ModelID) == unsafe.Offsetof(C.mortise_node_delta{}.model_id): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.PodCount) == unsafe.Offsetof(C.mortise_node_delta{}.pod_count): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.GPUCapacityMilli) == unsafe.Offsetof(C.mortise_node_delta{}.gpu_capacity_milli): 1}

	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.MIGModel) == unsafe.Offsetof(C.mortise_node_delta{}.mig_model): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeDelta{}.MIGPlaces) == unsafe.Offsetof(C.mortise_node_delta{}.mig_places): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(PodRecord{}) == C.sizeof_mortise_pod_record: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.CheckpointSeconds) == unsafe.Offsetof(C.mortise_pod_record{}.checkpoint_seconds): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.AllowedModels) == unsafe.Offsetof(C.mortise_pod_record{}.allowed_models): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.Priority) == unsafe.Offsetof(C.mortise_pod_record{}.priority): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.DeviceMask) == unsafe.Offsetof(C.mortise_pod_record{}.device_mask): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.Flags) == unsafe.Offsetof(C.mortise_pod_record{}.flags): 1}

	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.MIGUnknown) == unsafe.Offsetof(C.mortise_pod_record{}.mig_unknown): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRecord{}.MIG) == unsafe.Offsetof(C.mortise_pod_record{}.mig): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(PodRequest{}) == C.sizeof_mortise_pod_request: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRequest{}.AllowedModels) == unsafe.Offsetof(C.mortise_pod_request{}.allowed_models): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRequest{}.GPUMilli) == unsafe.Offsetof(C.mortise_pod_request{}.gpu_milli): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRequest{}.Tier) == unsafe.Offsetof(C.mortise_pod_request{}.tier): 1}

	_ = map[bool]int{false: 0, unsafe.Offsetof(PodRequest{}.MIG) == unsafe.Offsetof(C.mortise_pod_request{}.mig): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(NodeScore{}) == C.sizeof_mortise_node_score: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeScore{}.Devices) == unsafe.Offsetof(C.mortise_node_score{}.devices): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(NodeScore{}.Reason) == unsafe.Offsetof(C.mortise_node_score{}.reason): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(Decision{}) == C.sizeof_mortise_decision: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Decision{}.Index) == unsafe.Offsetof(C.mortise_decision{}.candidate_index): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Decision{}.Devices) == unsafe.Offsetof(C.mortise_decision{}.devices): 1}

	_ = map[bool]int{false: 0, unsafe.Offsetof(Decision{}.MIG) == unsafe.Offsetof(C.mortise_decision{}.mig): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(SyncResult{}) == C.sizeof_mortise_sync_result: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(SyncResult{}.ArrivalCounted) == unsafe.Offsetof(C.mortise_sync_result{}.arrival_counted): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(Fragmentation{}) == C.sizeof_mortise_fragmentation_report: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Fragmentation{}.StrandedMilli) == unsafe.Offsetof(C.mortise_fragmentation_report{}.stranded_milli): 1}

	_ = map[bool]int{false: 0, unsafe.Offsetof(Fragmentation{}.MIGStrandedMilli) == unsafe.Offsetof(C.mortise_fragmentation_report{}.mig_stranded_milli): 1}

	_ = map[bool]int{false: 0, unsafe.Sizeof(Stats{}) == C.sizeof_mortise_stats_report: 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Stats{}.MemoBytes) == unsafe.Offsetof(C.mortise_stats_report{}.memo_bytes): 1}
	_ = map[bool]int{false: 0, unsafe.Offsetof(Stats{}.MixKindCount) == unsafe.Offsetof(C.mortise_stats_report{}.mix_kind_count): 1}
)
