package snapshot

import (
	"container/heap"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// Ranking is the kernel's opinion of nodes for one pod. It is immutable.
type Ranking struct {
	table   *nodeTable
	scores  []int64  // by position in the table; native.ScoreInfeasible where there is none
	devices []uint16 // by position
	best    int32    // position; -1 if no candidate fits
}

// Score is the kernel's absolute score of a node; false if it has no opinion.
func (r *Ranking) Score(node string) (int64, bool) {
	i, found := r.table.byName[node]
	if !found || r.scores[i] == native.ScoreInfeasible {
		return 0, false
	}
	return r.scores[i], true
}

// Best is the name of the node that the kernel would choose; "" if none fits.
func (r *Ranking) Best() string {
	if r.best < 0 {
		return ""
	}
	return r.table.entries[r.best].name
}

func (r *Ranking) devicesOn(node string) uint16 {
	if r == nil {
		return 0
	}
	if i, found := r.table.byName[node]; found {
		return r.devices[i]
	}
	return 0
}

// BestIsAmong reports whether the node that the kernel would choose is one of these.
func (r *Ranking) BestIsAmong(nodes []fwk.NodeInfo) bool {
	best := r.Best()
	return best != "" && slices.ContainsFunc(nodes, func(info fwk.NodeInfo) bool { return info.Node().Name == best })
}

// Top are the names of the n best nodes that fit and are eligible, Best first if it is among them and the others in no
// order; fewer if there are not so many. Positions are those of the list of the last Sync.
func (r *Ranking) Top(n int, eligible func(position int) bool) []string {
	if n <= 0 {
		return nil
	}
	names := make([]string, 0, n)
	if r.best >= 0 && eligible(int(r.best)) {
		names = append(names, r.Best())
		n--
	}
	top := topHeap{scores: r.scores}
	for i, score := range r.scores {
		position := int32(i)
		if score == native.ScoreInfeasible || position == r.best {
			continue
		}
		switch {
		case len(top.positions) < n:
			if eligible(i) {
				heap.Push(&top, position)
			}
		case n > 0 && score > r.scores[top.positions[0]] && eligible(i):
			top.positions[0] = position
			heap.Fix(&top, 0)
		}
	}
	for _, position := range top.positions {
		names = append(names, r.table.entries[position].name)
	}
	return names
}

// topHeap has the position of the lowest score at its root.
type topHeap struct {
	scores    []int64
	positions []int32
}

func (h *topHeap) Len() int           { return len(h.positions) }
func (h *topHeap) Less(i, j int) bool { return h.scores[h.positions[i]] < h.scores[h.positions[j]] }
func (h *topHeap) Swap(i, j int)      { h.positions[i], h.positions[j] = h.positions[j], h.positions[i] }
func (h *topHeap) Push(x any)         { h.positions = append(h.positions, x.(int32)) }

func (h *topHeap) Pop() any {
	last := h.positions[len(h.positions)-1]
	h.positions = h.positions[:len(h.positions)-1]
	return last
}

// Rank asks the kernel about all the nodes at once. It returns nil if the kernel cannot say.
func (m *Mirror) Rank(request *Request, nodes []fwk.NodeInfo) *Ranking {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	kernel := m.kernel.Load()
	if kernel == nil {
		return nil
	}
	table := m.nodes.Load()
	r := &Ranking{
		table:   table,
		scores:  make([]int64, len(table.entries)),
		devices: make([]uint16, len(table.entries)),
		best:    -1,
	}
	for i := range r.scores {
		r.scores[i] = native.ScoreInfeasible
	}
	m.nameCandidates(table, nodes)
	if len(m.positions) == 0 {
		return r
	}
	pod := m.resolve(request)
	decision, err := kernel.Score(&pod, &m.candidates, 0)
	if err != nil {
		m.handleFailure(kernel, err)
		return nil
	}
	m.learned.save(kernel)
	for k, score := range m.candidates.Scores() {
		r.scores[m.positions[k]], r.devices[m.positions[k]] = score.Score, score.Devices
	}
	if decision.Index != native.CandidateNone {
		r.best = m.positions[decision.Index]
	}
	return r
}

// nameCandidates makes the nodes that the kernel has its candidates.
func (m *Mirror) nameCandidates(table *nodeTable, nodes []fwk.NodeInfo) {
	m.candidates.Reset()
	m.positions = m.positions[:0]
	all := m.isList(nodes) // then positions are known without a look-up by name
	for k, info := range nodes {
		i, found := int32(k), true
		if !all {
			i, found = table.byName[info.Node().Name]
		}
		if found && table.entries[i].ref != 0 {
			m.candidates.Add(table.entries[i].ref)
			m.positions = append(m.positions, i)
		}
	}
}

// Explain says how much is free for the pod on the nodes, which refuse it: "8 GPUs free on 5 nodes, largest hole 3". It is
// "" if none of the nodes is known to the kernel, or the kernel cannot say.
func (m *Mirror) Explain(request *Request, nodes []fwk.NodeInfo) string {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	kernel := m.kernel.Load()
	if kernel == nil || m.closed {
		return ""
	}
	m.nameCandidates(m.nodes.Load(), nodes)
	if len(m.positions) == 0 {
		return ""
	}
	pod := m.resolve(request)
	found, err := kernel.Explain(&pod, &m.candidates)
	if err != nil {
		m.handleFailure(kernel, err)
		return ""
	}
	return found.Text
}
