package native

// #include <stdlib.h>
// #include "mortise.h"
import "C"

import (
	"sync"
	"time"
	"unsafe"
)

// Config configures a Cluster.
type Config struct {
	Strategy    string // "": the library's default
	MIGStrategy string // "": the library's default
	Seed        uint64
	MemoBytes   uint64        // 0: the library's default
	SkipCPUOnly bool          // do not rank nodes for pods without GPUs
	LockWait    time.Duration // 0: the library's default
	Threads     int           // that may share one call; 0 or 1: the caller's alone
	Observer    Observer      // may be nil

	AllowDebugPanic bool // fault tests
	AllowDebugHold  bool // fault tests
}

// Cluster is a cluster inside the library.
type Cluster struct {
	handle   C.mortise_handle
	observer Observer

	mu    sync.Mutex // guards frame
	frame *frame
}

// frame holds, in C memory, the structs of Sync, Score and Preempt that contain pointers.
type frame struct {
	sync      C.mortise_sync_request
	score     C.mortise_score_request
	pod       PodRequest
	preempt   C.mortise_preempt_request
	buffers   C.mortise_plan_buffers
	plan      Plan
	synced    SyncResult
	decision  Decision
	explained C.mortise_explanation
	err       C.mortise_error
}

// New makes an empty cluster. Close must be called on it.
func New(config Config) (*Cluster, error) {
	if handshakeError != nil {
		return nil, handshakeError
	}
	c := &Cluster{observer: config.Observer}
	start := time.Now()
	err := c.open(config)
	c.observe(CallClusterNew, start, err)
	if err != nil {
		return nil, err
	}
	c.frame = (*frame)(C.calloc(1, C.size_t(unsafe.Sizeof(frame{}))))
	c.frame.err.struct_size = C.uint32_t(unsafe.Sizeof(c.frame.err))
	return c, nil
}

func (c *Cluster) open(config Config) error {
	strategy := C.CString(config.Strategy)
	defer C.free(unsafe.Pointer(strategy))
	migStrategy := C.CString(config.MIGStrategy)
	defer C.free(unsafe.Pointer(migStrategy))
	var in C.mortise_config
	in.struct_size = C.uint32_t(unsafe.Sizeof(in))
	in.seed = C.uint64_t(config.Seed)
	in.memo_bytes = C.uint64_t(config.MemoBytes)
	in.lock_wait_milliseconds = C.uint32_t(config.LockWait.Milliseconds())
	in.threads = C.uint32_t(config.Threads)
	if config.Strategy != "" {
		in.strategy, in.strategy_length = strategy, C.size_t(len(config.Strategy))
	}
	if config.MIGStrategy != "" {
		in.mig_strategy, in.mig_strategy_length = migStrategy, C.size_t(len(config.MIGStrategy))
	}
	if config.SkipCPUOnly {
		in.flags |= C.MORTISE_CONFIG_SKIP_CPU_ONLY
	}
	if config.AllowDebugPanic {
		in.flags |= C.MORTISE_CONFIG_ALLOW_DEBUG_PANIC
	}
	if config.AllowDebugHold {
		in.flags |= C.MORTISE_CONFIG_ALLOW_DEBUG_HOLD
	}
	e := newError()
	return result(CallClusterNew, C.mortise_cluster_new(&in, &c.handle, &e), &e)
}

// Close gives the cluster back. Later calls return an Error.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frame == nil {
		return nil
	}
	C.free(unsafe.Pointer(c.frame))
	c.frame = nil
	start, e := time.Now(), newError()
	err := result(CallClusterFree, C.mortise_cluster_free(c.handle, &e), &e)
	c.observe(CallClusterFree, start, err)
	return err
}

// InternModel is the number of a GPU model of the nodes.
func (c *Cluster) InternModel(name string) (uint32, error) {
	start, e := time.Now(), newError()
	var id C.uint32_t
	data := (*C.char)(unsafe.Pointer(unsafe.StringData(name)))
	err := result(CallModelIntern, C.mortise_model_intern(c.handle, data, C.size_t(len(name)), &id, &e), &e)
	c.observe(CallModelIntern, start, err)
	return uint32(id), err
}

// Sync brings the cluster to the state of the batch: all of it or, with an error, nothing. arrival, if not nil, is the
// pod about to be scheduled, a sample for the mix.
func (c *Cluster) Sync(batch *Batch, arrival *PodRequest) (SyncResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frame == nil {
		return SyncResult{}, closed(CallSync)
	}
	f := c.frame
	batch.refs.resize(len(batch.nodes.items))
	f.sync = C.mortise_sync_request{
		struct_size:   C.uint32_t(unsafe.Sizeof(f.sync)),
		upserts:       (*C.mortise_node_delta)(batch.nodes.pointer()),
		upsert_count:  C.size_t(len(batch.nodes.items)),
		pods:          (*C.mortise_pod_record)(batch.pods.pointer()),
		pod_count:     C.size_t(len(batch.pods.items)),
		upsert_stride: C.sizeof_mortise_node_delta,
		pod_stride:    C.sizeof_mortise_pod_record,
		removals:      (*C.mortise_node_ref)(batch.removals.pointer()),
		removal_count: C.size_t(len(batch.removals.items)),
	}
	if batch.Full {
		f.sync.flags = C.MORTISE_SYNC_FULL
	}
	if arrival != nil {
		f.setPod(arrival)
		f.sync.arrival = (*C.mortise_pod_request)(unsafe.Pointer(&f.pod))
	}
	f.synced = SyncResult{StructSize: C.sizeof_mortise_sync_result}
	start := time.Now()
	err := result(CallSync, C.mortise_sync(c.handle, &f.sync, (*C.mortise_node_ref)(batch.refs.pointer()),
		(*C.mortise_sync_result)(unsafe.Pointer(&f.synced)), &f.err), &f.err)
	c.observe(CallSync, start, err)
	if err != nil {
		return SyncResult{}, err
	}
	return f.synced, nil
}

// Score chooses the best of the candidates for the pod and its cards there, and scores each of them. A tieSalt of 0
// keeps nodes of equal cost in one seeded order.
func (c *Cluster) Score(pod *PodRequest, candidates *Candidates, tieSalt uint64) (Decision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frame == nil {
		return Decision{}, closed(CallScore)
	}
	f := c.frame
	count := candidates.Len()
	candidates.scores.resize(count)
	f.setPod(pod)
	f.score = C.mortise_score_request{
		struct_size:     C.uint32_t(unsafe.Sizeof(f.score)),
		pod:             (*C.mortise_pod_request)(unsafe.Pointer(&f.pod)),
		candidates:      (*C.mortise_node_ref)(candidates.refs.pointer()),
		candidate_count: C.size_t(count),
		score_stride:    C.sizeof_mortise_node_score,
		tie_salt:        C.uint64_t(tieSalt),
	}
	f.decision = Decision{StructSize: C.sizeof_mortise_decision}
	start := time.Now()
	err := result(CallScore, C.mortise_score(c.handle, &f.score, (*C.mortise_node_score)(candidates.scores.pointer()),
		C.size_t(count), (*C.mortise_decision)(unsafe.Pointer(&f.decision)), &f.err), &f.err)
	c.observe(CallScore, start, err)
	if err != nil {
		return Decision{}, err
	}
	return f.decision, nil
}

// Explain counts what the candidates have for the pod; a pod that fits none of them learns why.
func (c *Cluster) Explain(pod *PodRequest, candidates *Candidates) (Explanation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frame == nil {
		return Explanation{}, closed(CallExplain)
	}
	f := c.frame
	count := candidates.Len()
	if count == 0 {
		return Explanation{}, nil // to the library, no candidates are all nodes
	}
	f.setPod(pod)
	f.explained.struct_size = C.sizeof_mortise_explanation
	start := time.Now()
	err := result(CallExplain, C.mortise_explain(c.handle, (*C.mortise_pod_request)(unsafe.Pointer(&f.pod)),
		(*C.mortise_node_ref)(candidates.refs.pointer()), C.size_t(count), &f.explained, &f.err), &f.err)
	c.observe(CallExplain, start, err)
	if err != nil {
		return Explanation{}, err
	}
	e := &f.explained
	return Explanation{
		NodeCount: uint32(e.node_count), FeasibleCount: uint32(e.feasible_count), GPUNodeCount: uint32(e.gpu_node_count),
		FreeNodeCount: uint32(e.free_node_count), FreeCards: uint32(e.free_cards), FreeMilli: uint64(e.free_milli),
		LargestNode: NodeRef(e.largest_node), LargestHole: uint32(e.largest_hole), Text: C.GoString(&e.text[0]),
	}, nil
}

func (f *frame) setPod(pod *PodRequest) {
	f.pod = *pod
	f.pod.StructSize = C.sizeof_mortise_pod_request
}

// LearnFromPods counts the pods on the nodes as past arrivals of the mix, after a restart.
func (c *Cluster) LearnFromPods() error {
	start, e := time.Now(), newError()
	err := result(CallLearnFromPods, C.mortise_learn_from_pods(c.handle, &e), &e)
	c.observe(CallLearnFromPods, start, err)
	return err
}

func newError() C.mortise_error {
	return C.mortise_error{struct_size: C.uint32_t(unsafe.Sizeof(C.mortise_error{}))}
}

func closed(call Call) error {
	return &Error{Call: call, Status: StatusBadHandle, Message: "the cluster was closed"}
}
