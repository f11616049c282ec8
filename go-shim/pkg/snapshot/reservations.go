package snapshot

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// reservation is a choice of cards that no NodeInfo shows yet.
type reservation struct {
	pod   types.UID
	node  string
	uuids []string
	milli uint16 // of each card
	// quarantined: the binding's outcome is not known. The cards stay held whatever happens to the pod in the
	// scheduler, until the API server's word arrives or no write can be under way any more.
	quarantined bool
	expires     time.Time // of a quarantine; zero if only the API server's word ends it
}

// reservations is the table of choices that were made and are not yet visible in the snapshot: pods whose annotation
// has not come back from the API server, and bindings in doubt.
type reservations struct {
	mu          sync.Mutex
	nodes       map[string][]reservation
	quarantined atomic.Int64 // of all; changes under mu
}

// on returns a copy of a node's reservations.
func (t *reservations) on(node string) []reservation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.nodes[node])
}

// put adds a reservation, in place of an earlier one of the same pod on the same node.
func (t *reservations) put(r reservation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		t.nodes = make(map[string][]reservation)
	}
	t.removeLocked(r.node, func(other *reservation) bool { return other.pod == r.pod })
	t.nodes[r.node] = append(t.nodes[r.node], r)
	if r.quarantined {
		t.quarantined.Add(1)
	}
}

// get finds a pod's reservation on a node.
func (t *reservations) get(pod types.UID, node string) (reservation, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.nodes[node] {
		if r.pod == pod {
			return r, true
		}
	}
	return reservation{}, false
}

// quarantine keeps a reservation beyond release. It reports whether there was one.
func (t *reservations) quarantine(pod types.UID, node string, expires time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.nodes[node] {
		if r := &t.nodes[node][i]; r.pod == pod {
			if !r.quarantined {
				t.quarantined.Add(1)
			}
			r.quarantined, r.expires = true, expires
			return true
		}
	}
	return false
}

// release drops a pod's reservation on a node unless it is quarantined. It reports whether one was dropped.
func (t *reservations) release(pod types.UID, node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removeLocked(node, func(r *reservation) bool { return r.pod == pod && !r.quarantined })
}

// confirm drops a pod's reservation on a node, also a quarantined one: the snapshot shows the pod's cards now.
func (t *reservations) confirm(pod types.UID, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(node, func(r *reservation) bool { return r.pod == pod })
}

// settle drops a pod's quarantined reservations on all nodes but the one where it is, and returns the nodes.
func (t *reservations) settle(pod types.UID, at string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quarantined.Load() == 0 {
		return nil
	}
	return t.dropLocked(at, func(r *reservation) bool { return r.pod == pod && r.quarantined })
}

// forget drops all of a pod's reservations, and returns the nodes.
func (t *reservations) forget(pod types.UID) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropLocked("", func(r *reservation) bool { return r.pod == pod })
}

// inDoubt reports whether the pod has cards in quarantine on the node.
func (t *reservations) inDoubt(pod types.UID, node string) bool {
	if t.quarantined.Load() == 0 {
		return false
	}
	r, found := t.get(pod, node)
	return found && r.quarantined
}

// expire drops the quarantines that are over, and returns their nodes.
func (t *reservations) expire(now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quarantined.Load() == 0 {
		return nil
	}
	return t.dropLocked("", func(r *reservation) bool {
		return r.quarantined && !r.expires.IsZero() && now.After(r.expires)
	})
}

// counts returns how many reservations there are and how many of them are quarantined.
func (t *reservations) counts() (all, quarantined int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.nodes {
		all += len(list)
	}
	return all, int(t.quarantined.Load())
}

// dropLocked drops reservations on all nodes but one, and returns the nodes that had any.
func (t *reservations) dropLocked(except string, drop func(*reservation) bool) []string {
	var nodes []string
	for node := range t.nodes {
		if node != except && t.removeLocked(node, drop) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (t *reservations) removeLocked(node string, drop func(*reservation) bool) bool {
	list := t.nodes[node]
	kept := slices.DeleteFunc(list, func(r reservation) bool {
		if !drop(&r) {
			return false
		}
		if r.quarantined {
			t.quarantined.Add(-1)
		}
		return true
	})
	if len(kept) == len(list) {
		return false
	}
	if len(kept) == 0 {
		delete(t.nodes, node)
	} else {
		t.nodes[node] = kept
	}
	return true
}
