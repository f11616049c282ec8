package snapshot

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// Fit says whether a node has room for a pod's cards.
type Fit uint8

const (
	// Fits: there is room, or Kubernetes' own counting is all that is needed.
	Fits Fit = iota
	// NoWholeCards: not enough cards are entirely free, though the node may have as much GPU in pieces.
	NoWholeCards
	// NoCardForShare: no one card has that much left.
	NoCardForShare
	// NoAcceptedCard: the node's cards are not those that the pod's annotations accept.
	NoAcceptedCard
	// BadNode: the node's own description of its cards cannot be used; no pod leaving would help.
	BadNode
)

// Room says whether a node has room for a pod's cards, as far as counting per node cannot tell: on one card for a share,
// and on cards that are entirely free for whole ones. problem explains BadNode.
//
// A NodeInfo as of the last Sync is answered from there. Any other (with nominated pods added, or victims removed) is
// read by itself.
func (m *Mirror) Room(request *Request, info fwk.NodeInfo) (fit Fit, problem string) {
	if !request.WantsGPU() {
		return Fits, ""
	}
	e := m.nodes.Load().find(info.Node().Name)
	if e != nil && e.facts != nil && e.generation == info.GetGeneration() && !e.dirty.Load() {
		if m.table.inDoubt(request.uid, e.name) { // the pod may have its own cards back
			free := m.freeFor(e, request.uid)
			return roomIn(request, e.facts, &free)
		}
		return roomIn(request, e.facts, &e.free)
	}
	facts := (*nodeFacts)(nil)
	var known []podEntry
	if e != nil {
		known = e.pods
		if e.node == info.Node() {
			facts = e.facts
		}
	}
	if facts == nil {
		facts = readNode(info.Node(), nil)
	}
	if facts.mode != ModeEnforced || facts.problem != "" {
		return roomIn(request, facts, nil)
	}
	free := m.freeOf(info, facts, known)
	return roomIn(request, facts, &free)
}

// freeOf derives the free levels of a NodeInfo that the Mirror has not encoded.
func (m *Mirror) freeOf(info fwk.NodeInfo, facts *nodeFacts, known []podEntry) levels {
	name := info.Node().Name
	entries := make([]podEntry, 0, len(info.GetPods()))
	for i, p := range info.GetPods() {
		var entry podEntry
		if k := findEntry(known, i, p); k != nil {
			entry = *k
		} else {
			entry = m.newPodEntry(p, name)
		}
		if entry.count == 0 {
			continue
		}
		entry.findCards(facts)
		entries = append(entries, entry)
	}
	records := overlay(entries, known, m.awayPods(), facts, m.table.on(name), false, nil)
	return settle(&facts.capacity, facts.count, records)
}

func roomIn(request *Request, facts *nodeFacts, free *levels) (Fit, string) {
	if facts.problem == "" && !request.accepts(facts) {
		return NoAcceptedCard, ""
	}
	switch {
	case facts.mode != ModeEnforced:
		return Fits, ""
	case facts.problem != "":
		return BadNode, facts.problem
	}
	accepted := request.restrict(facts, *free)
	switch {
	case accepted.candidates(request.GPUMilli) >= int(request.GPUCount):
		return Fits, ""
	case request.Whole():
		return NoWholeCards, ""
	default:
		return NoCardForShare, ""
	}
}

// Enforced reports whether the scheduler chooses the cards of the node.
func (m *Mirror) Enforced(node string) bool {
	e := m.nodes.Load().find(node)
	return e != nil && e.facts != nil && e.facts.mode == ModeEnforced
}

// NodeProblems counts, as of the last Sync, enforced nodes whose description cannot be used, nodes that the kernel
// refused, and cards that pods hold by name and no inventory lists.
func (m *Mirror) NodeProblems() (bad, refused, missingCards int) {
	return int(m.bad.Load()), int(m.refused.Load()), int(m.missingCards.Load())
}

// problems are a node's part in NodeProblems.
type problems struct{ bad, refused, missingCards int64 }

// tally brings the totals up to date with a node; gone if it is no longer in the cluster.
func (m *Mirror) tally(e *nodeEntry, gone bool) {
	var now problems
	if !gone {
		if e.facts.problem != "" {
			now.bad = 1
		}
		if e.refused != "" {
			now.refused = 1
		}
		now.missingCards = int64(e.missing)
	}
	if now != e.tallied {
		m.bad.Add(now.bad - e.tallied.bad)
		m.refused.Add(now.refused - e.tallied.refused)
		m.missingCards.Add(now.missingCards - e.tallied.missingCards)
		e.tallied = now
	}
}

// FreeCards are the free milli-GPU of a node's cards as of the last Sync, for tests and reports.
func (m *Mirror) FreeCards(node string) []uint16 {
	e := m.nodes.Load().find(node)
	if e == nil || e.facts == nil {
		return nil
	}
	return append([]uint16(nil), e.free[:e.facts.count]...)
}

func (r *Request) String() string {
	switch {
	case r.Whole():
		return fmt.Sprintf("%d whole cards", r.GPUCount)
	case r.WantsGPU():
		return fmt.Sprintf("a share of %d %%", r.GPUMilli/(native.MilliPerGPU/100))
	}
	return "no GPU"
}
