package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// What Filter says; the scheduler counts nodes by these words.
const (
	reasonNoWholeCards = "Insufficient whole GPU cards (cards are partly or wholly in use)"
	reasonNoShare      = "No GPU card with enough room for the share"
	reasonNoCard       = "No GPU card of the model, memory or UUID that the pod's annotations ask for"
	reasonBadNode      = "Node's GPU annotations cannot be used"
)

// Filter refuses nodes where the pod's cards do not fit although the sums do, which NodeResourcesFit cannot see.
func (p *GPUStranding) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c.timer != nil {
		start := time.Now()
		defer func() { c.timer.filter.Add(int64(time.Since(start))) }()
	}
	switch fit, problem := p.mirror.Room(c.request, node); fit {
	case snapshot.Fits:
		return nil
	case snapshot.NoWholeCards:
		return fwk.NewStatus(fwk.Unschedulable, reasonNoWholeCards)
	case snapshot.NoCardForShare:
		return fwk.NewStatus(fwk.Unschedulable, reasonNoShare)
	case snapshot.NoAcceptedCard:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoCard)
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonBadNode+": "+problem)
	}
}
