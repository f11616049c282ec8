package metrics

import (
	"sync"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// Source is what the state metrics are read from, when somebody looks.
type Source interface {
	// Kernel is the kernel, nil while there is none.
	Kernel() *native.Cluster
	// Reservations counts choices of cards that are not visible yet, and those in doubt.
	Reservations() (all, quarantined int)
	// NodeProblems counts nodes whose cards cannot be used, nodes that the kernel refused, and cards that pods hold by
	// name and no inventory lists.
	NodeProblems() (bad, refused, missingCards int)
}

// stateCollector reads the state of one Source at a time: the one that was set last.
type stateCollector struct {
	k8smetrics.BaseStableCollector

	mu     sync.Mutex
	source Source
	last   readings
}

// readings are kept for scrapes that come while the kernel is busy.
type readings struct {
	stats         native.Stats
	fragmentation native.Fragmentation
	measured      time.Time     // when fragmentation was
	took          time.Duration // what that took
}

// fragmentationPause is the least pause between measurements of the fragmentation, in multiples of what one takes. In a
// large cluster that is tens of milliseconds in which no pod is scheduled.
const fragmentationPause = 100

// measure brings the readings up to date; what cannot be had now stays as it was.
func (r *readings) measure(kernel *native.Cluster) {
	if stats, err := kernel.Stats(); err == nil {
		r.stats = stats
	}
	start := time.Now()
	if start.Sub(r.measured) < fragmentationPause*r.took {
		return
	}
	if fragmentation, err := kernel.Fragmentation(); err == nil {
		r.fragmentation, r.measured, r.took = fragmentation, start, time.Since(start)
	}
}

func desc(name, help string, labels ...string) *k8smetrics.Desc {
	return k8smetrics.NewDesc(name, help, labels, nil, k8smetrics.ALPHA, "")
}

var (
	kernelUp       = desc("mortise_kernel_up", "1 while there is a working kernel; 0 while nodes are not ranked.")
	reservationsOf = desc("mortise_reservations", "Choices of cards that the snapshot does not show yet: pending, or quarantined because a binding is in doubt.", "state")
	badNodes       = desc("mortise_bad_nodes", "Nodes in enforced mode whose inventory or allocation annotation cannot be used.")
	refusedNodes   = desc("mortise_refused_nodes", "Nodes that the kernel refused; they are not ranked.")
	missingCards   = desc("mortise_missing_cards", "Cards that pods hold by UUID and that their node's inventory does not list. They count as used.")

	gpuCapacity   = desc("mortise_gpu_capacity", "GPUs of healthy cards that the kernel knows.")
	gpuIdle       = desc("mortise_gpu_idle", "GPUs not held by pods.")
	gpuFragment   = desc("mortise_gpu_fragment", "Fragment amount in GPUs: idle GPU that a typical pod cannot use, as the mean over the mix.")
	gpuStranded   = desc("mortise_gpu_stranded", "GPUs expected to be idle when nothing more fits.")
	decisions     = desc("mortise_decisions_total", "Decisions of the kernel since it was built.")
	memoHits      = desc("mortise_memo_hits_total", "Memo table hits of the kernel since it was built.")
	memoMisses    = desc("mortise_memo_misses_total", "Memo table misses of the kernel since it was built.")
	memoBytes     = desc("mortise_memo_bytes", "Memory of the kernel's memo tables.")
	columnHits    = desc("mortise_column_hits_total", "Decisions that reused the costs of an earlier one with the same request.")
	columnMisses  = desc("mortise_column_misses_total", "Decisions that computed all costs.")
	arrivals      = desc("mortise_mix_arrivals_total", "Distinct pods counted for the mix since the kernel was built.")
	mixKinds      = desc("mortise_mix_kinds", "Kinds of pods in the learned mix.")
	allStateDescs = []*k8smetrics.Desc{
		kernelUp, reservationsOf, badNodes, refusedNodes, missingCards, gpuCapacity, gpuIdle, gpuFragment, gpuStranded,
		decisions, memoHits, memoMisses, memoBytes, columnHits, columnMisses, arrivals, mixKinds,
	}
)

var state = &stateCollector{}
var registerState sync.Once

// DropSource makes the state metrics stop speaking of source.
func DropSource(source Source) {
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.source == source {
		state.source = nil
	}
}

// SetSource makes the state metrics speak of source.
func SetSource(source Source) {
	registerState.Do(func() { legacyregistry.CustomMustRegister(state) })
	state.mu.Lock()
	defer state.mu.Unlock()
	state.source, state.last = source, readings{}
}

// DescribeWithStability implements k8smetrics.StableCollector.
func (c *stateCollector) DescribeWithStability(ch chan<- *k8smetrics.Desc) {
	for _, d := range allStateDescs {
		ch <- d
	}
}

// CollectWithStability implements k8smetrics.StableCollector.
func (c *stateCollector) CollectWithStability(ch chan<- k8smetrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		return
	}
	gauge := func(d *k8smetrics.Desc, value float64, labels ...string) {
		ch <- k8smetrics.NewLazyConstMetric(d, k8smetrics.GaugeValue, value, labels...)
	}
	count := func(d *k8smetrics.Desc, value uint64) {
		ch <- k8smetrics.NewLazyConstMetric(d, k8smetrics.CounterValue, float64(value))
	}
	all, quarantined := c.source.Reservations()
	gauge(reservationsOf, float64(all-quarantined), "pending")
	gauge(reservationsOf, float64(quarantined), "quarantined")
	bad, refused, missing := c.source.NodeProblems()
	gauge(badNodes, float64(bad))
	gauge(refusedNodes, float64(refused))
	gauge(missingCards, float64(missing))
	kernel := c.source.Kernel()
	if kernel == nil {
		gauge(kernelUp, 0)
		return
	}
	gauge(kernelUp, 1)
	c.last.measure(kernel)
	s, f := &c.last.stats, &c.last.fragmentation
	gauge(gpuCapacity, gpus(f.CapacityMilli))
	gauge(gpuIdle, gpus(f.IdleMilli))
	gauge(gpuFragment, gpus(f.FragmentMilli))
	gauge(gpuStranded, gpus(f.StrandedMilli))
	count(decisions, s.Decisions)
	count(memoHits, s.MemoHits)
	count(memoMisses, s.MemoMisses)
	gauge(memoBytes, float64(s.MemoBytes))
	count(columnHits, s.ColumnHits)
	count(columnMisses, s.ColumnMisses)
	count(arrivals, s.Arrivals)
	gauge(mixKinds, float64(s.MixKindCount))
}

func gpus(milli int64) float64 { return float64(milli) / native.MilliPerGPU }
