package preemption

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/sharedmirror"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// pendingGroup is a pod group that fits nowhere.
type pendingGroup struct {
	object   *schedulingv1beta1.PodGroup
	pods     []*v1.Pod // that have no node yet
	requests []*snapshot.Request
	needs    int // of pods, so that the group runs
}

// PodGroupPostFilter plans evictions for a whole pod group: for all its pods, or else for as many as it needs to run. It
// takes upstream's place, whose rule for groups asks no plugin who may go and would take inference. The plan is verified
// by scheduling the group on a snapshot without the victims.
func (p *GPUPreemption) PodGroupPostFilter(ctx context.Context, _ fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	start := time.Now()
	defer func() { metrics.ObserveExtensionPoint("PodGroupPostFilter", time.Since(start)) }()
	result, status := p.groupPostFilter(ctx, info, schedule)
	for _, pod := range info.GetUnscheduledPods() {
		if status.IsSuccess() {
			p.waiting.drop(pod.UID)
		} else {
			p.waiting.add(pod)
		}
	}
	if pods := info.GetUnscheduledPods(); !status.IsSuccess() && len(pods) > 0 {
		p.keepsWaiting(ctx, pods[0]) // the queue tries a group by any of its pods
	}
	return result, status
}

func (p *GPUPreemption) groupPostFilter(ctx context.Context, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	group, status := p.pendingGroup(info)
	if !status.IsSuccess() {
		return nil, status
	}
	uid := group.object.UID
	if infos := p.evicting.of(uid); infos != nil {
		return &fwk.PodGroupPostFilterResult{NominatingInfos: infos}, fwk.NewStatus(fwk.Success, "preemption: evictions for the group are under way")
	}
	if group.any(p.waits) {
		return &fwk.PodGroupPostFilterResult{NominatingInfos: group.nominations()}, fwk.NewStatus(fwk.Success, "preemption: the victims of the group have not left yet")
	}
	avoid := sets.New[string]()
	for _, pod := range group.pods {
		if p.stuck(pod) {
			avoid.Insert(pod.Status.NominatedNodeName)
		}
	}
	if avoid.Len() > 0 {
		p.history.forgive(uid)
	}
	if next, allowed := p.history.allows(uid, p.now()); !allowed {
		message := rateText("this pod group", next)
		p.refused(group.object, uid, refusedRate, message)
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: "+message)
	}
	shared := sharedmirror.Of(p.handle)
	if shared == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not for pod groups without the plugin GPUStranding")
	}
	for _, pod := range group.pods {
		shared.Mirror().ClearNomination(pod.UID)
	}
	return p.planGroup(ctx, group, shared.Mirror(), avoid, schedule)
}

func (p *GPUPreemption) pendingGroup(info fwk.PodGroupInfo) (*pendingGroup, *fwk.Status) {
	g := &pendingGroup{object: info.GetPodGroup(), pods: info.GetUnscheduledPods(), needs: 1}
	if g.object == nil || len(g.pods) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not for composite pod groups")
	}
	for _, pod := range g.pods {
		if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
			return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not for a pod group with preemptionPolicy Never")
		}
		request, err := snapshot.ParseRequest(pod)
		if err != nil {
			return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("preemption: pod %s: %v", pod.Name, err))
		}
		g.requests = append(g.requests, request)
	}
	if policy := g.object.Spec.PreemptionPolicy; policy != nil && *policy == schedulingv1beta1.PreemptNever {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not for a pod group with preemptionPolicy Never")
	}
	if gang := g.object.Spec.SchedulingPolicy.Gang; gang != nil {
		state, err := p.handle.SnapshotSharedLister().PodGroupStates().Get(g.object.Namespace, g.object.Name)
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		g.needs = max(int(gang.MinCount)-state.ScheduledPodsCount(), 1)
	}
	if g.needs > len(g.pods) {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("preemption: the pod group needs %d more pods, of which %d exist", g.needs, len(g.pods)))
	}
	return g, nil
}

// planGroup looks for a plan that holds: for all pods, for as many as found room, and for as many as are needed.
func (p *GPUPreemption) planGroup(ctx context.Context, g *pendingGroup, mirror *snapshot.Mirror, avoid sets.Set[string], schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	logger := klog.FromContext(ctx)
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	nodes := g.nodes(all)
	if len(nodes) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: no node is accepted by all pods of the group")
	}
	describe, err := p.describer()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	var why *snapshot.Refusal
	for count, left := len(g.pods), 2*planAttempts; left > 0; left-- {
		mirror.Sync(all, nil) // the members were taken in and out since the last one
		plan, refusal, warnings, err := mirror.Plan(g.requests[:count], without(nodes, avoid), snapshot.PlanOptions{
			NowSeconds: p.now().Unix(), Policy: p.policy(), Describe: describe,
		})
		if err != nil {
			return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: no plan can be made for the pod group: "+err.Error())
		}
		p.warn(warnings)
		if refusal != nil {
			if why == nil || count == g.needs {
				why = refusal
			}
			if count == g.needs {
				break
			}
			count = max(g.needs, min(refusal.Placed, count-1))
			continue
		}
		if len(plan.Victims) == 0 {
			return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: cards are not what the pod group lacks")
		}
		infos, status := p.rehearse(ctx, plan, count, mirror, schedule)
		if status.IsSuccess() {
			return p.carryOutGroup(ctx, g, plan, infos, mirror)
		}
		if status.Code() == fwk.Error {
			return nil, status
		}
		logger.V(2).Info("A plan for a pod group does not hold before the Filter plugins", "podGroup", klog.KObj(g.object), "reason", status.Message())
		metrics.PlanRejected()
		why = &snapshot.Refusal{Text: status.Message()}
		before := avoid.Len()
		avoid.Insert(unused(plan, infos)...)
		if avoid.Len() == before { // the nodes are not at fault
			if count == g.needs {
				break
			}
			count = g.needs
		}
	}
	p.refusal(g.object, g.object.UID, why)
	return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: "+why.Text)
}

// nodes are those that no pod of the group refuses whatever runs there.
func (g *pendingGroup) nodes(all []fwk.NodeInfo) []fwk.NodeInfo {
	out := all
	for i, pod := range g.pods {
		if i > 0 && alikeOnNodes(pod, g.pods[i-1]) {
			continue
		}
		required := nodeaffinity.GetRequiredNodeAffinity(pod)
		var kept []fwk.NodeInfo
		for _, info := range out {
			node := info.Node()
			matches, err := required.Match(node)
			if err == nil && matches && tolerates(pod, node) {
				kept = append(kept, info)
			}
		}
		out = kept
	}
	return out
}

func alikeOnNodes(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector) && equality.Semantic.DeepEqual(a.Spec.Affinity, b.Spec.Affinity) &&
		equality.Semantic.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations)
}

func tolerates(pod *v1.Pod, node *v1.Node) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(taints[:len(taints):len(taints)], v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	_, refused := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations,
		func(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }, false)
	return !refused
}

func (g *pendingGroup) any(holds func(*v1.Pod) bool) bool {
	for _, pod := range g.pods {
		if holds(pod) {
			return true
		}
	}
	return false
}

// nominations are those that the pods have.
func (g *pendingGroup) nominations() nominatingInfos {
	out := make(nominatingInfos)
	for _, pod := range g.pods {
		if node := pod.Status.NominatedNodeName; node != "" {
			out.add(pod, node)
		}
	}
	return out
}

// nominatingInfos says which pods are nominated to which nodes.
type nominatingInfos map[types.NamespacedName]*fwk.NominatingInfo

func (n nominatingInfos) add(pod *v1.Pod, node string) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	n[key] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}
