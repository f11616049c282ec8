package snapshot

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// PodFacts are what a plan must know of a running pod beyond what the pod's record says.
type PodFacts struct {
	Facts   native.PodFacts // all but uid and budgets
	Budgets []uint32        // by their index in the query
}

// PlanOptions say how and from what to plan.
type PlanOptions struct {
	NowSeconds int64
	Policy     native.PlanPolicy
	// Describe tells of each running pod what its record does not, and may add gangs, budgets and tenants to the query;
	// false if there is nothing to tell.
	Describe func(query *native.PlanQuery, pod *v1.Pod) (PodFacts, bool)
}

// Plan is who must go so that a pod, or several together, fit.
type Plan struct {
	Placements []PlannedPlacement // of the pods, in their order
	Victims    []PlannedVictim
	// RunnersUp are the next best nodes.
	RunnersUp []PlannedNode
	Cost      native.PlanCost
	// Holds counts cards' holders without a pod that must go first: the node has not given up yet what a deleted pod held.
	Holds   int
	Evicted uint64 // milli-GPU, without what is terminating
	Optimal bool
}

// Node is where the pod comes, of a plan for one.
func (p *Plan) Node() string { return p.Placements[0].Node }

// Nodes are the nodes of the placements, each once.
func (p *Plan) Nodes() []string {
	var out []string
	for _, placement := range p.Placements {
		if !slices.Contains(out, placement.Node) {
			out = append(out, placement.Node)
		}
	}
	return out
}

// PlannedPlacement is where a pod comes.
type PlannedPlacement struct {
	Node    string
	Devices uint16 // of Node
}

// PlannedVictim is a pod that must go.
type PlannedVictim struct {
	Pod              *v1.Pod
	Node             string
	GPUMilli         uint32
	LostGPUSeconds   float64
	Kind             uint8 // native.Victim*
	CountsAsTraining bool
}

// PlannedNode is a node that was not chosen.
type PlannedNode struct {
	Node   string
	Cost   native.PlanCost
	LostBy uint32
}

// Refusal is why there is no plan.
type Refusal struct {
	Text string
	// OverRatio: evicting more than the ratio allows would have helped.
	OverRatio bool
	// OverBudget: disruption budgets would have to be exceeded, and they are hard.
	OverBudget bool
	// Placed counts the pods, of several, that found room.
	Placed int
}

// PlanWarning is a checkpoint time that was ignored.
type PlanWarning struct {
	Pod   *v1.Pod
	Fault uint32 // native.Checkpoint*
}

// ErrNoKernel says that the kernel cannot be asked now.
var ErrNoKernel = errors.New("the kernel is not available")

// Plan asks the kernel for the cheapest evictions that make room on the nodes for the pod, or for several together. Either
// a plan or a refusal is returned, or an error if the kernel cannot say. Nodes that the kernel does not know are left out.
func (m *Mirror) Plan(requests []*Request, nodes []fwk.NodeInfo, options PlanOptions) (*Plan, *Refusal, []PlanWarning, error) {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	kernel := m.kernel.Load()
	if kernel == nil || m.closed {
		return nil, nil, nil, ErrNoKernel
	}
	q := &m.query
	q.Reset()
	q.NowSeconds, q.Policy = options.NowSeconds, options.Policy
	for _, request := range requests {
		q.AddPod(m.resolve(request))
	}
	table := m.nodes.Load()
	for _, info := range nodes {
		if e := table.find(info.Node().Name); e != nil && e.ref != 0 {
			q.AddCandidate(e.ref)
		}
	}
	describeAll(q, table, options.Describe)
	plan, err := kernel.Preempt(q)
	if err != nil {
		m.handleFailure(kernel, err)
		return nil, nil, nil, err
	}
	find := finder{byRef: make(map[native.NodeRef]*nodeEntry)}
	for _, e := range table.entries {
		find.byRef[e.ref] = e
	}
	var warnings []PlanWarning
	for _, w := range q.Warnings() {
		if pod := find.anywhere(table, w.UIDHigh, w.UIDLow); pod != nil {
			warnings = append(warnings, PlanWarning{Pod: pod, Fault: w.Fault})
		}
	}
	if !plan.Found() {
		return nil, &Refusal{
			Text: q.Text(), OverRatio: plan.OverRatioRequestedMilli > 0, OverBudget: plan.OverBudgetViolations > 0,
			Placed: int(plan.PlacedCount),
		}, warnings, nil
	}
	out := &Plan{Cost: plan.Cost, Evicted: plan.EvictedMilli, Optimal: plan.Flags&native.PlanOptimal != 0}
	for _, placement := range q.Placements() {
		out.Placements = append(out.Placements, PlannedPlacement{Node: find.byRef[placement.Ref].name, Devices: placement.Devices})
	}
	for _, victim := range q.Victims() {
		e := find.byRef[victim.Ref]
		pod := find.on(e, victim.UIDHigh, victim.UIDLow)
		if pod == nil {
			out.Holds++
			continue
		}
		out.Victims = append(out.Victims, PlannedVictim{
			Pod: pod, Node: e.name, GPUMilli: victim.GPUMilli, LostGPUSeconds: float64(victim.LostMilliGPUSeconds) / 1000,
			Kind: victim.Kind, CountsAsTraining: victim.CountsAsTraining != 0,
		})
	}
	for _, node := range q.RunnerUps() {
		out.RunnersUp = append(out.RunnersUp, PlannedNode{Node: find.byRef[node.Ref].name, Cost: node.Cost, LostBy: node.LostBy})
	}
	return out, nil, warnings, nil
}

func describeAll(q *native.PlanQuery, table *nodeTable, describe func(*native.PlanQuery, *v1.Pod) (PodFacts, bool)) {
	for _, e := range table.entries {
		if e.ref == 0 {
			continue
		}
		for i := range e.pods {
			p := &e.pods[i]
			if described, found := describe(q, p.pod); found {
				described.Facts.UIDHigh, described.Facts.UIDLow = p.record.UIDHigh, p.record.UIDLow
				q.AddFacts(described.Facts, described.Budgets)
			}
		}
	}
}

// finder turns the kernel's names back into pods.
type finder struct{ byRef map[native.NodeRef]*nodeEntry }

func (f finder) on(e *nodeEntry, high, low uint64) *v1.Pod {
	if e == nil {
		return nil
	}
	for i := range e.pods {
		if p := &e.pods[i]; p.record.UIDHigh == high && p.record.UIDLow == low {
			return p.pod
		}
	}
	return nil
}

func (f finder) anywhere(table *nodeTable, high, low uint64) *v1.Pod {
	for _, e := range table.entries {
		if pod := f.on(e, high, low); pod != nil {
			return pod
		}
	}
	return nil
}
