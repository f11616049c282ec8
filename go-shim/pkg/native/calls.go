package native

import (
	"sync/atomic"
	"time"
)

// Call names a function of the library.
type Call uint8

// The library's functions, in the header's order.
const (
	CallHandshake Call = iota
	CallClusterNew
	CallClusterFree
	CallModelIntern
	CallSync
	CallLearnFromPods
	CallScore
	CallExplain
	CallPreempt
	CallPreemptGroup
	CallFragmentation
	CallStats
	CallStateDigest
	CallStateExport
	CallLearnedExport
	CallLearnedImport
	CallDebugPanic
	CallDebugHold
	callCount
)

var callNames = [callCount]string{
	"handshake", "cluster_new", "cluster_free", "model_intern", "sync", "learn_from_pods", "score", "explain", "preempt", "preempt_group", "fragmentation",
	"stats", "state_digest", "state_export", "learned_export", "learned_import", "debug_panic", "debug_hold",
}

// String is the function's name without the prefix mortise_.
func (c Call) String() string { return callNames[c] }

// Observer hears of each call after it returned, on the goroutine that made it.
type Observer func(call Call, duration time.Duration, err error)

// callTotals counts the calls of the whole process, before any observer hears of them.
var callTotals [callCount]atomic.Uint64

// CallTotal is how often the function was called in this process.
func CallTotal(call Call) uint64 { return callTotals[call].Load() }

func (c *Cluster) observe(call Call, start time.Time, err error) {
	callTotals[call].Add(1)
	if c.observer != nil {
		c.observer(call, time.Since(start), err)
	}
}
