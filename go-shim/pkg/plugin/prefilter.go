package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// PreFilter refuses requests that no node could serve as they are written, brings the kernel to the state of the
// snapshot, and lets it count the pod's arrival. In large clusters it then leaves only the best nodes (see narrow). Pods without GPUs need no Filter.
func (p *GPUStranding) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	start := time.Now()
	request, err := snapshot.ParseRequest(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	c := &cycle{request: request, timer: newTimer()}
	state.Write(cycleKey, c)
	var best *fwk.PreFilterResult
	if p.mirror.Sync(nodes, request) {
		best = p.narrow(state, c, pod, nodes)
	}
	c.timed("PreFilter", start)
	if best == nil && !request.WantsGPU() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return best, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin. Filter reads the NodeInfo it is given, so nothing has to follow
// pods that preemption adds or removes.
func (p *GPUStranding) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
