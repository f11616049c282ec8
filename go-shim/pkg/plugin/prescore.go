package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// PreScore asks the kernel about all feasible nodes at once. Where it has no opinion, the plugin does not score.
func (p *GPUStranding) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	start := time.Now()
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	defer c.timed("PreScore", start)
	if !p.ranks(c.request) {
		return fwk.NewStatus(fwk.Skip)
	}
	if r := rankingOf(state); r != nil && r.BestIsAmong(nodes) {
		return nil // PreFilter has ranked all nodes
	}
	r := p.mirror.Rank(c.request, nodes)
	if r == nil || r.Best() == "" {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(rankingKey, ranking{r})
	return nil
}

func (p *GPUStranding) ranks(request *snapshot.Request) bool {
	switch {
	case p.args.Scoring == api.ScoringDisabled, request.Unranked:
		return false
	case !request.WantsGPU():
		return *p.args.ScoreCPUOnlyPods
	}
	return true
}
