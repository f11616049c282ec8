package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// EventsToRegister says what may make a pod schedulable that this plugin refused: cards that another pod gives up, a
// node with other cards or another account of them, or a change of the pod itself.
func (p *GPUStranding) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: afterPodDeleted,
		},
		{
			Event: fwk.ClusterEvent{
				Resource:   fwk.Node,
				ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation | fwk.UpdateNodeLabel,
			},
			QueueingHintFn: afterNodeChanged,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update},
			QueueingHintFn: afterOwnUpdate,
		},
	}, nil
}

func afterPodDeleted(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	deleted, _, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if snapshot.HoldsCards(deleted) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func afterNodeChanged(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after == nil || (before != nil && !cardsChanged(before, after)) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// cardsChanged reports changes of what Filter reads from a node.
func cardsChanged(before, after *v1.Node) bool {
	for _, name := range []v1.ResourceName{api.ResourceGPU, api.ResourceGPUPercent} {
		if !equality.Semantic.DeepEqual(before.Status.Allocatable[name], after.Status.Allocatable[name]) ||
			!equality.Semantic.DeepEqual(before.Status.Capacity[name], after.Status.Capacity[name]) {
			return true
		}
	}
	for _, key := range []string{api.AnnotationGPUInventory, api.AnnotationGPUAllocation} {
		if before.Annotations[key] != after.Annotations[key] {
			return true
		}
	}
	return before.Labels[api.LabelGPUProduct] != after.Labels[api.LabelGPUProduct]
}

// afterOwnUpdate queues a pod again when what its request is read from has changed: annotations and resources.
func afterOwnUpdate(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before != nil && after != nil && equality.Semantic.DeepEqual(before.Annotations, after.Annotations) &&
		equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
