package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// PostFilter has a narrowed cycle done again on all nodes, and of any other adds to the pod's condition and event what the
// counts of nodes do not tell: how much is free for it, and the largest hole. It evicts nothing, and the plugins that do come next.
func (p *GPUStranding) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c, err := cycleOf(state)
	switch {
	case err != nil || c.request == nil:
		return nil, fwk.NewStatus(fwk.Unschedulable)
	case c.narrowed:
		return nil, p.lookWider(ctx, pod)
	}
	if text := p.room(c, statuses); text != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, text)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// room counts on the nodes that lack nothing but room: a GPU behind a taint, or of another model, is not free for the pod.
func (p *GPUStranding) room(c *cycle, statuses fwk.NodeToStatusReader) string {
	if !c.request.WantsGPU() {
		return ""
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return ""
	}
	var short []fwk.NodeInfo
	for _, info := range nodes {
		switch statuses.Get(info.Node().Name).Plugin() {
		case Name, names.NodeResourcesFit:
			short = append(short, info)
		}
	}
	return p.mirror.Explain(c.request, short)
}
