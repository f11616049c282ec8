package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// Options configure a Mirror.
type Options struct {
	Kernel native.Config
	// Warn is told of pods whose annotations are ignored; nil for nobody. It must not block.
	Warn func(pod *v1.Pod, message string)
	// Failed is told of each failure of the kernel, with what was done about it; nil for nobody.
	Failed func(err error, consequence string)
	// Freed is told when reserved cards became free otherwise than by Unreserve, which no event of the cluster shows at
	// that time; nil for nobody. It must not block.
	Freed func()
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Mirror keeps a kernel equal to the scheduler's snapshot and answers for it. See the package's documentation for which
// method may run where.
type Mirror struct {
	options Options
	seed    maphash.Seed

	schedulersMu sync.RWMutex
	schedulers   map[string]bool // names of the profiles of this scheduler

	tiers atomic.Pointer[api.TierRules] // nil: the default

	nodes     atomic.Pointer[nodeTable]
	table     reservations
	nominated nominations
	learned   learnedCopy
	away      atomic.Pointer[map[string]bool] // of a rehearsal; nil outside

	bad, refused, missingCards atomic.Int64 // totals of problems

	// What follows belongs to the scheduling goroutine, except that kernel may be loaded from any. The mutex keeps Close,
	// which a scheduler that stops calls from another goroutine, from freeing buffers under a cycle that still runs.
	cycle      sync.Mutex
	closed     bool
	kernel     atomic.Pointer[native.Cluster]
	retryAfter time.Time // no new kernel before
	backoff    time.Duration
	models     map[string]uint32
	list       []fwk.NodeInfo // of the last Sync; holding it keeps its address from being used again
	removals   []native.NodeRef
	batch      native.Batch
	candidates native.Candidates
	query      native.PlanQuery
	sent       []sentNode
	positions  []int32 // of the candidates in the table
	changed    []int32 // positions of nodes to encode
	unlearned  bool    // the kernel has not counted the pods it was started with
	records    []native.PodRecord
	calls      atomic.Int64 // of the kernel since the last Sync began
}

// nodeTable is the list of nodes by position and by name. It is replaced when nodes come or go, never changed.
type nodeTable struct {
	entries []*nodeEntry
	byName  map[string]int32
}

func (t *nodeTable) find(name string) *nodeEntry {
	if i, found := t.byName[name]; found {
		return t.entries[i]
	}
	return nil
}

// nodeEntry is a node as it was last encoded.
type nodeEntry struct {
	name  string
	key   uint64
	dirty atomic.Bool // to be encoded again, whatever the generation says

	// Written by Sync alone.
	generation int64 // of the NodeInfo that was encoded
	node       *v1.Node
	facts      *nodeFacts
	pods       []podEntry
	free       levels
	missing    int // cards that pods hold by name and the inventory does not list
	tallied    problems

	// What the kernel has.
	ref     native.NodeRef
	hash    uint64
	refused string // why the kernel refused the content; "" if it did not
}

type sentNode struct {
	entry *nodeEntry
	hash  uint64
}

// noGeneration is a generation that no NodeInfo has.
const noGeneration = -1

// NewMirror makes a Mirror of an empty cluster with a fresh kernel. Close must be called on it.
func NewMirror(options Options) (*Mirror, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	m := &Mirror{options: options, seed: maphash.MakeSeed(), schedulers: make(map[string]bool)}
	observer := options.Kernel.Observer
	m.options.Kernel.Observer = func(call native.Call, d time.Duration, err error) {
		switch call {
		case native.CallFragmentation, native.CallStats, native.CallLearnedExport: // not of a cycle
		default:
			m.calls.Add(1)
		}
		if observer != nil {
			observer(call, d, err)
		}
	}
	m.nodes.Store(&nodeTable{})
	if err := m.openKernel(); err != nil {
		return nil, err
	}
	return m, nil
}

// Close gives back the kernel and the buffers. Afterwards Sync and Rank answer as without a kernel.
func (m *Mirror) Close() error {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	m.closed = true
	m.batch.Close()
	m.candidates.Close()
	m.query.Close()
	m.learned.copies.Wait()
	if kernel := m.kernel.Swap(nil); kernel != nil {
		return kernel.Close()
	}
	return nil
}

// AddScheduler says that pods of this scheduler name are this scheduler's own.
func (m *Mirror) AddScheduler(name string) {
	m.schedulersMu.Lock()
	defer m.schedulersMu.Unlock()
	m.schedulers[name] = true
}

func (m *Mirror) isOurs(scheduler string) bool {
	m.schedulersMu.RLock()
	defer m.schedulersMu.RUnlock()
	return m.schedulers[scheduler]
}

// SetTierRules says which priorities are which tier. Pods that were read before are read again.
func (m *Mirror) SetTierRules(rules api.TierRules) {
	if m.TierRules() == rules {
		return
	}
	m.tiers.Store(&rules)
	m.cycle.Lock()
	defer m.cycle.Unlock()
	for _, e := range m.nodes.Load().entries {
		e.generation, e.pods = noGeneration, nil
	}
}

// TierRules are the rules in use.
func (m *Mirror) TierRules() api.TierRules {
	if rules := m.tiers.Load(); rules != nil {
		return *rules
	}
	return api.DefaultTierRules()
}

// Kernel is the kernel, for reports; nil while there is none. It may be closed at any time, after which its calls
// return errors.
func (m *Mirror) Kernel() *native.Cluster { return m.kernel.Load() }

// CallsInCycle is the number of kernel calls since the last Sync began.
func (m *Mirror) CallsInCycle() int { return int(m.calls.Load()) }

// Reservations counts the choices of cards that the snapshot does not show yet, and those among them whose binding is in
// doubt.
func (m *Mirror) Reservations() (all, quarantined int) { return m.table.counts() }

// markDirty makes the next Sync encode the node again.
func (m *Mirror) markDirty(node string) {
	if e := m.nodes.Load().find(node); e != nil {
		e.dirty.Store(true)
	}
}

// nodeKey is the identity of a node in the kernel, which also breaks ties. It depends on the name alone, so that a
// restart changes no decision.
func nodeKey(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}
