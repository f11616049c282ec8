package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod declines opportunistic batching: it would reuse scores from before the last pod was placed, while each
// placement changes what the next is worth.
func (p *GPUStranding) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable, "each placement changes the scores of the next pod")
}
