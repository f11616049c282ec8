package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// watch follows victims to their end, what running pods say of themselves, and what makes a refused preemption possible.
func (p *GPUPreemption) watch(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName(Name)
	_, err := p.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*v1.Pod); ok {
				p.warnUnreadable(nil, pod)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*v1.Pod)
			after, ok2 := newObj.(*v1.Pod)
			if ok1 && ok2 && before.ResourceVersion != after.ResourceVersion {
				p.podChanged(logger, before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				p.waiting.drop(pod.UID)
				p.ended(pod, p.now())
			}
		},
	})
	if err == nil && p.args.HardDisruptionBudgets {
		err = p.watchBudgets(logger)
	}
	if err == nil && utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		err = p.watchGroups(logger)
	}
	return err
}

// watchBudgets wakes who waits when a budget allows more.
func (p *GPUPreemption) watchBudgets(logger klog.Logger) error {
	_, err := p.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*policyv1.PodDisruptionBudget)
			after, ok2 := newObj.(*policyv1.PodDisruptionBudget)
			if ok1 && ok2 && (before.Generation != after.Generation || before.Status.DisruptionsAllowed < after.Status.DisruptionsAllowed) {
				p.wakeAll(logger)
			}
		},
		DeleteFunc: func(any) { p.wakeAll(logger) },
	})
	return err
}

// watchGroups wakes who waits when a group can do with fewer pods.
func (p *GPUPreemption) watchGroups(logger klog.Logger) error {
	_, err := p.handle.SharedInformerFactory().Scheduling().V1beta1().PodGroups().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*schedulingv1beta1.PodGroup)
			after, ok2 := newObj.(*schedulingv1beta1.PodGroup)
			if ok1 && ok2 && minCount(after) < minCount(before) {
				p.wakeAll(logger)
			}
		},
	})
	return err
}

func minCount(group *schedulingv1beta1.PodGroup) int32 {
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		return gang.MinCount
	}
	return 0
}

func (p *GPUPreemption) podChanged(logger klog.Logger, before, after *v1.Pod) {
	p.warnUnreadable(before, after)
	if checkpointOf(after).After(checkpointOf(before)) && saved(after, p.now()) {
		p.unsaved.note(after, true)
	}
	if before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		p.waiting.drop(after.UID)
	}
	p.wakeAfter(logger, before, after)
}
