package plugin

import (
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// Keys of what the plugin keeps in a CycleState.
const (
	cycleKey   fwk.StateKey = Name + "/cycle"
	rankingKey fwk.StateKey = Name + "/ranking"
)

// cycle is what is known of the pod in a scheduling cycle.
type cycle struct {
	request *snapshot.Request
	timer   *timer // nil in cycles that are not timed in full
	// narrowed: only the best nodes are looked at. Written by PreFilter alone.
	narrowed bool
	// reserved: a gang's pod is reserved again in the same cycle, which costs no call. Written by Reserve alone.
	reserved bool
}

// Clone implements fwk.StateData. The request does not change, and times of all clones add up.
func (c *cycle) Clone() fwk.StateData { return c }

// ranking is the kernel's opinion, written by PreScore.
type ranking struct{ *snapshot.Ranking }

// Clone implements fwk.StateData. A ranking does not change.
func (r ranking) Clone() fwk.StateData { return r }

func cycleOf(state fwk.CycleState) (*cycle, error) {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil, err
	}
	return data.(*cycle), nil
}

// rankingOf is nil if PreScore did not run or had no opinion.
func rankingOf(state fwk.CycleState) *snapshot.Ranking {
	data, err := state.Read(rankingKey)
	if err != nil {
		return nil
	}
	return data.(ranking).Ranking
}

// timeEvery is the share of cycles whose calls per node are timed: taking the time costs as much as what is timed.
const timeEvery = 4

var cycles atomic.Uint64

// timer adds up the plugin's time in one cycle.
type timer struct {
	total, filter, score atomic.Int64 // nanoseconds
}

func newTimer() *timer {
	if cycles.Add(1)%timeEvery != 0 {
		return nil
	}
	return &timer{}
}

// timed observes the time since start at an extension point that runs once per cycle.
func (c *cycle) timed(point string, start time.Time) {
	d := time.Since(start)
	metrics.ObserveExtensionPoint(point, d)
	if c.timer != nil {
		c.timer.total.Add(int64(d))
	}
}

// finish observes the times of a cycle that found a node.
func (t *timer) finish() {
	if t == nil {
		return
	}
	metrics.ObserveExtensionPoint("Filter", time.Duration(t.filter.Load()))
	metrics.ObserveExtensionPoint("Score", time.Duration(t.score.Load()))
	metrics.ObserveCycle(time.Duration(t.total.Load() + t.filter.Load() + t.score.Load()))
}
