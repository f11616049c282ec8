package snapshot

import (
	"fmt"
	"math/bits"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// quarantineTime is longer than the API server lets any write run (60 s by default): after it, a binding that was not
// seen to happen did not happen.
const quarantineTime = 90 * time.Second

// Reserve chooses the pod's cards on an enforced node and holds them until Unreserve, or until the snapshot shows them.
// The cards are the ranking's; without one, the kernel is asked about this node; and if what it says does not fit what is
// free now, they are chosen here. On other nodes the kubelet chooses, and nothing is held. Doing it again changes nothing.
func (m *Mirror) Reserve(pod *v1.Pod, request *Request, node string, ranking *Ranking) error {
	m.markDirty(node)
	m.ClearNomination(pod.UID)
	e := m.nodes.Load().find(node)
	if e == nil || e.facts == nil || e.facts.mode != ModeEnforced || !request.WantsGPU() {
		return nil
	}
	if e.facts.problem != "" {
		return fmt.Errorf("node %s: %s", node, e.facts.problem)
	}
	free := request.restrict(e.facts, m.freeFor(e, pod.UID))
	if r, found := m.table.get(pod.UID, node); found {
		if mask, missing := e.facts.mask(r.uuids); missing == 0 && len(r.uuids) == int(request.GPUCount) && free.fits(mask, request.GPUMilli) {
			r.quarantined, r.expires = false, time.Time{}
			m.table.put(r)
			return nil
		}
	}
	mask := ranking.devicesOn(node)
	if ranking == nil {
		mask = m.askForCards(e, request)
	}
	if bits.OnesCount16(mask) != int(request.GPUCount) || !free.fits(mask, request.GPUMilli) {
		mask = free.choose(request.GPUCount, request.GPUMilli)
	}
	if mask == 0 {
		return fmt.Errorf("node %s has no room for %s any more", node, request)
	}
	m.table.put(reservation{pod: pod.UID, node: node, uuids: e.facts.names(mask), milli: request.GPUMilli})
	return nil
}

// askForCards lets the kernel choose cards on one node; 0 if it cannot say.
func (m *Mirror) askForCards(e *nodeEntry, request *Request) uint16 {
	if request.askedNode == e.name {
		return request.asked
	}
	m.cycle.Lock()
	defer m.cycle.Unlock()
	kernel := m.kernel.Load()
	if kernel == nil || e.ref == 0 {
		return 0
	}
	m.candidates.Reset()
	m.candidates.Add(e.ref)
	pod := m.resolve(request)
	decision, err := kernel.Score(&pod, &m.candidates, 0)
	if err != nil {
		m.handleFailure(kernel, err)
		return 0
	}
	request.askedNode, request.asked = e.name, decision.Devices
	return decision.Devices
}

// freeFor derives the free levels of a node with the reservations of this moment, leaving out those of one pod. In gang
// cycles they differ from those at the last Sync: pods are reserved and released without a Sync between.
func (m *Mirror) freeFor(e *nodeEntry, pod types.UID) levels {
	held := m.table.on(e.name)
	var entries []podEntry
	for _, p := range e.pods {
		gone := p.reserved && findReservation(held, p.pod) == nil
		if p.count > 0 && p.pod.UID != pod && !gone {
			entries = append(entries, p)
		}
	}
	others := held[:0]
	for _, r := range held {
		if r.pod != pod {
			others = append(others, r)
		}
	}
	records := overlay(entries, nil, m.awayPods(), e.facts, others, true, nil)
	records = withoutPod(records, pod)
	return settle(&e.facts.capacity, e.facts.count, records)
}

func withoutPod(records []native.PodRecord, pod types.UID) []native.PodRecord {
	high, low := uidBits(string(pod))
	kept := records[:0]
	for _, r := range records {
		if r.UIDHigh != high || r.UIDLow != low {
			kept = append(kept, r)
		}
	}
	return kept
}

// Unreserve gives up the pod's cards on the node, unless they are in quarantine.
func (m *Mirror) Unreserve(pod *v1.Pod, node string) {
	m.table.release(pod.UID, node)
	m.markDirty(node)
}

// Cards are the UUIDs reserved for a pod on a node; nil if the kubelet chooses.
func (m *Mirror) Cards(pod *v1.Pod, node string) []string {
	r, _ := m.table.get(pod.UID, node)
	return r.uuids
}

// Bound says that the pod is bound to the node for certain: an earlier write to another node can not take effect any
// more, so quarantines elsewhere end.
func (m *Mirror) Bound(pod types.UID, node string) {
	m.ClearNomination(pod)
	m.freed(m.table.settle(pod, node))
}

// InDoubt says that a binding of the pod to the node may or may not have happened, or may still happen. Its cards stay
// held until Bound or Gone decides; if unbound, the API server was seen not to have it, also until no write can be under
// way any more.
func (m *Mirror) InDoubt(pod types.UID, node string, unbound bool) {
	var expires time.Time
	if unbound {
		expires = m.options.Now().Add(quarantineTime)
	}
	if m.table.quarantine(pod, node, expires) && unbound {
		// Nothing else would tell pods that wait for these cards.
		time.AfterFunc(quarantineTime+time.Second, func() { m.freed(m.table.expire(m.options.Now())) })
	}
	m.markDirty(node)
}

// Gone says that the pod was deleted.
func (m *Mirror) Gone(pod types.UID) {
	m.ClearNomination(pod)
	m.freed(m.table.forget(pod))
}

// freed marks nodes where reserved cards became free otherwise than by Unreserve, and says so: the events of the
// cluster may have come and gone while the cards were still held.
func (m *Mirror) freed(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	for _, node := range nodes {
		m.markDirty(node)
	}
	if m.options.Freed != nil {
		m.options.Freed()
	}
}
