package snapshot

import (
	"sync"
	"time"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// savePause is the least pause between copies of the learned state, in multiples of what one takes: most of a percent of
// one core, and as little of the kernel's time.
const savePause = 100

// learnedCopy is a copy of the mix and prices that a kernel learned, for the kernel that takes its place should it die. It is
// made while no pod is being scheduled for its sake, so it may lack the last arrivals.
type learnedCopy struct {
	mu    sync.Mutex
	bytes []byte // nil: none

	busy    sync.Mutex // held while a copy is made
	copies  sync.WaitGroup
	started time.Time // of the last
	took    time.Duration
}

// save copies what the kernel has learned, in the background, unless that was done lately. The kernel should have ranked nodes by
// it just now: a state that makes kernels fail is not worth keeping.
func (l *learnedCopy) save(kernel *native.Cluster) {
	if !l.busy.TryLock() {
		return
	}
	if time.Since(l.started) < savePause*l.took {
		l.busy.Unlock()
		return
	}
	l.copies.Go(func() {
		defer l.busy.Unlock()
		l.started = time.Now()
		bytes, err := kernel.ExportLearned()
		l.took = time.Since(l.started)
		if err != nil {
			return // it is busy or dead; the last copy is as good as there is
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.bytes = bytes
	})
}

// take returns the copy, which is then gone: a second kernel is not given what the first died of.
func (l *learnedCopy) take() []byte {
	l.copies.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes := l.bytes
	l.bytes = nil
	return bytes
}

// inherit gives a new kernel what the one before had learned. Where that is nothing, it counts the pods it finds, after the first Sync.
func (m *Mirror) inherit(kernel *native.Cluster) {
	bytes := m.learned.take()
	if bytes == nil {
		return
	}
	if err := kernel.ImportLearned(bytes); err != nil {
		m.failed(err, "what the kernel before had learned is lost; the mix is learned from the pods that run")
		return
	}
	m.unlearned = false
}
