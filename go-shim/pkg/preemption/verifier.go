package preemption

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// verifier is what upstream's evaluator asks: about the planned victims if there is a plan, else by upstream's rule.
type verifier struct {
	*defaultpreemption.DefaultPreemption
	plugin *GPUPreemption
}

// PodEligibleToPreemptOthers implements preemption.Interface: as upstream, but victims that should be gone for long are
// not waited for.
func (v verifier) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, nominated *fwk.Status) (bool, string) {
	eligible, reason := v.DefaultPreemption.PodEligibleToPreemptOthers(ctx, pod, nominated)
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever
	if !eligible && !never && v.plugin.stuck(pod) {
		return true, ""
	}
	return eligible, reason
}

// SelectVictimsOnNode implements preemption.Interface: it removes the planned victims and lets the Filter plugins say
// whether the pod fits then.
func (v verifier) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	plan := planOf(ctx)
	if plan == nil {
		return v.DefaultPreemption.SelectVictimsOnNode(ctx, state, pod, node, possible, budgets)
	}
	name := node.Node().Name
	if name != plan.Node() {
		return nil, 0, fwk.NewStatus(fwk.Unschedulable, "not the planned node")
	}
	if status := v.removeLeaving(ctx, state, pod, node, plan); !status.IsSuccess() {
		return nil, 0, status
	}
	var victims []*v1.Pod
	for _, victim := range plan.Victims {
		on := node
		if victim.Node != name { // of a gang: it makes no room here, but plugins keep count of it
			var err error
			if on, err = v.plugin.handle.SnapshotSharedLister().NodeInfos().Get(victim.Node); err != nil {
				return nil, 0, fwk.AsStatus(err)
			}
		}
		info := podInfoOf(on, victim.Pod)
		if info == nil {
			return nil, 0, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("planned victim %s/%s is not on node %s",
				victim.Pod.Namespace, victim.Pod.Name, victim.Node))
		}
		if on == node {
			if err := node.RemovePod(klog.FromContext(ctx), info.GetPod()); err != nil {
				return nil, 0, fwk.AsStatus(err)
			}
		}
		if status := v.plugin.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, info, on); !status.IsSuccess() {
			return nil, 0, status
		}
		victims = append(victims, info.GetPod())
	}
	if status := v.plugin.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !status.IsSuccess() {
		return nil, 0, status
	}
	return victims, int(plan.Cost.BudgetViolations), nil
}

// removeLeaving takes the pods off the node that are going anyway. Those nominated to it count already, and would be
// counted beside the pods that they wait for.
func (v verifier) removeLeaving(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, plan *snapshot.Plan) *fwk.Status {
	planned := sets.New[types.UID]()
	for _, victim := range plan.Victims {
		planned.Insert(victim.Pod.UID)
	}
	for _, info := range slices.Clone(node.GetPods()) {
		other := info.GetPod()
		leaving := other.DeletionTimestamp != nil || v.plugin.inFlight.isLeaving(other.UID, v.plugin.now())
		if !leaving || planned.Has(other.UID) {
			continue
		}
		if err := node.RemovePod(klog.FromContext(ctx), other); err != nil {
			return fwk.AsStatus(err)
		}
		if status := v.plugin.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, info, node); !status.IsSuccess() {
			return status
		}
	}
	return nil
}

func podInfoOf(node fwk.NodeInfo, pod *v1.Pod) fwk.PodInfo {
	for _, info := range node.GetPods() {
		if info.GetPod().UID == pod.UID {
			return info
		}
	}
	return nil
}
