package snapshot

import (
	"time"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// Pauses between attempts to build a new kernel after failures in a row.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// openKernel builds an empty kernel; the next Sync fills it.
func (m *Mirror) openKernel() error {
	kernel, err := native.New(m.options.Kernel)
	if err != nil {
		return err
	}
	m.models = make(map[string]uint32)
	m.removals = m.removals[:0]
	m.unlearned = true
	m.inherit(kernel)
	for _, e := range m.nodes.Load().entries {
		e.ref, e.hash, e.refused = 0, 0, ""
		e.generation, e.pods = noGeneration, nil
	}
	m.kernel.Store(kernel)
	return nil
}

// reviveKernel builds a new kernel in place of one that died, not too often. It reports whether there is a kernel.
func (m *Mirror) reviveKernel() (*native.Cluster, bool) {
	if kernel := m.kernel.Load(); kernel != nil {
		return kernel, false
	}
	if m.options.Now().Before(m.retryAfter) {
		return nil, false
	}
	if err := m.openKernel(); err != nil {
		m.postpone()
		m.failed(err, "no kernel; nodes are not ranked until one can be built")
		return nil, false
	}
	return m.kernel.Load(), true
}

func (m *Mirror) postpone() {
	m.backoff = min(max(2*m.backoff, firstBackoff), lastBackoff)
	m.retryAfter = m.options.Now().Add(m.backoff)
}

// handleFailure drops a kernel that is dead. Whatever the failure, this cycle goes on without ranking.
func (m *Mirror) handleFailure(kernel *native.Cluster, err error) {
	switch {
	case native.IsBusy(err):
		m.failed(err, "this pod's nodes are not ranked")
	case native.IsDead(err):
		m.kernel.CompareAndSwap(kernel, nil)
		_ = kernel.Close() // of a dead kernel: there is nothing more to lose
		m.postpone()
		m.failed(err, "this pod's nodes are not ranked; a new kernel is built for one of the next pods")
	default:
		m.failed(err, "this pod's nodes are not ranked")
	}
}

func (m *Mirror) failed(err error, consequence string) {
	if m.options.Failed != nil {
		m.options.Failed(err, consequence)
	}
}
