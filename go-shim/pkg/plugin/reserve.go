package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/metrics"
)

// Reserve holds the pod's cards on the chosen node. The assumed pod is shared with the cache and is not touched.
func (p *GPUStranding) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	start := time.Now()
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if err := p.mirror.Reserve(pod, c.request, node, rankingOf(state)); err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	c.timed("Reserve", start)
	c.timer.finish()
	if !c.reserved {
		c.reserved = true
		metrics.ObserveCallsPerPod(p.mirror.CallsInCycle())
	}
	return nil
}

// Unreserve gives the pod's cards up, unless its binding is in doubt. It may run on any goroutine and without a Reserve.
func (p *GPUStranding) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.mirror.Unreserve(pod, node)
}
