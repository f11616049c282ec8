package snapshot

import (
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
	m.candidates.Reset()
	m.positions = m.positions[:0]
	for _, info := range nodes {
		i, found := table.byName[info.Node().Name]
		if found && table.entries[i].ref != 0 {
			m.candidates.Add(table.entries[i].ref)
			m.positions = append(m.positions, i)
		}
	}
	if len(m.positions) == 0 {
		return r
	}
	pod := m.resolve(request)
	decision, err := kernel.Score(&pod, &m.candidates, 0)
	if err != nil {
		m.handleFailure(kernel, err)
		return nil
	}
	for k, score := range m.candidates.Scores() {
		r.scores[m.positions[k]], r.devices[m.positions[k]] = score.Score, score.Devices
	}
	if decision.Index != native.CandidateNone {
		r.best = m.positions[decision.Index]
	}
	return r
}
