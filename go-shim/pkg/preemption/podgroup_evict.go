package preemption

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// rehearse schedules the group on a snapshot without the victims. It succeeds if as many pods as planned find a node;
// where they did is returned in any case.
func (p *GPUPreemption) rehearse(ctx context.Context, plan *snapshot.Plan, count int, mirror *snapshot.Mirror, schedule fwk.PodGroupSchedulingFunc) (_ nominatingInfos, status *fwk.Status) {
	lister := p.handle.MutableSnapshotSharedLister()
	if err := lister.StartMutations(); err != nil {
		return nil, fwk.AsStatus(err)
	}
	away := p.gone(plan)
	var uids []types.UID
	for _, pod := range away {
		uids = append(uids, pod.UID)
	}
	endRehearsal := mirror.Rehearse(uids)
	defer func() {
		endRehearsal()
		if err := lister.EndMutations(); err != nil {
			status = fwk.AsStatus(err)
		}
	}()
	for _, pod := range away {
		if err := lister.RemovePod(klog.FromContext(ctx), pod, pod.Spec.NodeName); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("taking pod %s out of the snapshot: %w", klog.KObj(pod), err))
		}
	}
	assignments, status := schedule(ctx)
	infos := make(nominatingInfos)
	if assignments != nil {
		for _, assignment := range assignments.ProposedAssignments {
			if node := assignment.GetNodeName(); node != "" {
				infos.add(assignment.GetPod(), node)
			}
		}
	}
	switch {
	case status.Code() == fwk.Error:
		return infos, status
	case !status.IsSuccess() || len(infos) < count:
		return infos, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("%d of %d pods of the group would fit after the planned evictions: %s",
			len(infos), count, status.Message()))
	}
	return infos, nil
}

// gone lists the pods that are not there any more once a plan is carried out: its victims, and what is leaving its nodes.
func (p *GPUPreemption) gone(plan *snapshot.Plan) []*v1.Pod {
	var out []*v1.Pod
	known := sets.New[types.UID]()
	for _, victim := range plan.Victims {
		known.Insert(victim.Pod.UID)
		out = append(out, victim.Pod)
	}
	nodes := sets.New[string]()
	for _, placement := range plan.Placements {
		info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(placement.Node)
		if err != nil || nodes.Has(placement.Node) {
			continue
		}
		nodes.Insert(placement.Node)
		for _, other := range info.GetPods() {
			pod := other.GetPod()
			leaving := pod.DeletionTimestamp != nil || p.inFlight.isLeaving(pod.UID, p.now())
			if leaving && !known.Has(pod.UID) {
				out = append(out, pod)
			}
		}
	}
	return out
}

// unused are nodes on which fewer pods found room than planned.
func unused(plan *snapshot.Plan, infos nominatingInfos) []string {
	left := make(map[string]int)
	for _, placement := range plan.Placements {
		left[placement.Node]++
	}
	for _, info := range infos {
		left[info.NominatedNodeName]--
	}
	var out []string
	for node, missing := range left {
		if missing > 0 {
			out = append(out, node)
		}
	}
	return out
}

// carryOutGroup evicts the victims beside the scheduling cycle and nominates the pods to where they fitted.
func (p *GPUPreemption) carryOutGroup(ctx context.Context, g *pendingGroup, plan *snapshot.Plan, infos nominatingInfos, mirror *snapshot.Mirror) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	g.hold(plan, infos, mirror)
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: infos}
	if evictions(plan) == 0 {
		return result, fwk.NewStatus(fwk.Success, "preemption: waits for pods that are leaving")
	}
	uid, text := g.object.UID, describePlan(plan)
	p.history.add(uid, p.now())
	p.inFlight.put(uid, plan)
	p.inFlight.began(plan, p.now())
	metrics.PlanCarriedOut(evictions(plan), float64(plan.Cost.LostMilliGPUSeconds)/1000)
	p.event(g.object, v1.EventTypeNormal, "Preempting", text)
	for _, pod := range g.pods {
		p.lookAgain(ctx, pod)
	}
	p.evicting.begin(uid, infos)
	go p.evictFor(groupPreemptor{group: g.object, pods: g.pods}, plan)
	return result, fwk.NewStatus(fwk.Success, "preemption: "+text)
}

// hold reserves the planned cards for the pods that fitted on the planned nodes. Pods of one shape may have changed
// places; for one that fitted elsewhere its nomination holds a count, as for every pod in kube-scheduler.
func (g *pendingGroup) hold(plan *snapshot.Plan, infos nominatingInfos, mirror *snapshot.Mirror) {
	taken := make([]bool, len(plan.Placements))
	for i, pod := range g.pods {
		info := infos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		if info == nil {
			continue
		}
		for j, placement := range plan.Placements {
			a, b := g.requests[i], g.requests[j]
			if !taken[j] && placement.Node == info.NominatedNodeName && a.GPUCount == b.GPUCount && a.GPUMilli == b.GPUMilli {
				taken[j] = true
				mirror.Nominate(a, placement.Node, placement.Devices)
				break
			}
		}
	}
}

// evictFor evicts the victims of a plan for a group.
func (p *GPUPreemption) evictFor(preemptor groupPreemptor, plan *snapshot.Plan) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logger := klog.FromContext(ctx).WithName(Name)
	for _, node := range plan.Nodes() {
		p.clearLowerNominations(ctx, preemptor.Priority(), node)
	}
	var victims []snapshot.PlannedVictim
	for _, victim := range plan.Victims {
		if victim.Kind != native.VictimTerminating {
			victims = append(victims, victim)
		}
	}
	var unseen atomic.Bool // a victim of whose end no event will tell
	p.handle.Parallelizer().Until(ctx, len(victims), func(i int) {
		inMemory, err := p.evict(ctx, onNode(victims[i].Node), preemptor, victims[i].Pod, Name)
		if err != nil {
			logger.Error(err, "A victim of a pod group stays", "victim", klog.KObj(victims[i].Pod), "podGroup", klog.KObj(preemptor))
		}
		if inMemory || err != nil {
			unseen.Store(true)
		}
	}, Name)
	p.evicting.end(preemptor.UID())
	if unseen.Load() {
		p.handle.Activate(logger, preemptor.Pods())
	}
}

// clearLowerNominations takes back what pods of lower priority were promised on the node, so that they look elsewhere.
func (p *GPUPreemption) clearLowerNominations(ctx context.Context, priority int32, node string) {
	for _, nominated := range p.handle.NominatedPodsForNode(node) {
		pod := nominated.GetPod()
		if priorityOf(pod) >= priority {
			continue
		}
		var err error
		if cacher := p.handle.APICacher(); cacher != nil {
			_, err = cacher.PatchPodStatus(pod, nil, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride})
		} else if pod.Status.NominatedNodeName != "" {
			status := pod.Status.DeepCopy()
			status.NominatedNodeName = ""
			err = schedutil.PatchPodStatus(ctx, p.handle.ClientSet(), pod.Name, pod.Namespace, &pod.Status, status)
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "A nomination of lower priority stays", "pod", klog.KObj(pod), "node", node)
		}
	}
}

// groupEvictions are the groups for which pods are evicted at this moment, with the nodes they are nominated to.
type groupEvictions struct {
	mu     sync.Mutex
	groups map[types.UID]nominatingInfos
}

func (e *groupEvictions) begin(group types.UID, infos nominatingInfos) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		e.groups = make(map[types.UID]nominatingInfos)
	}
	e.groups[group] = infos
}

func (e *groupEvictions) end(group types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.groups, group)
}

// of is nil unless pods are evicted for the group.
func (e *groupEvictions) of(group types.UID) nominatingInfos {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.groups[group]
}

// groupPreemptor implements preemption.ExecutorPreemptor for a pod group.
type groupPreemptor struct {
	group *schedulingv1beta1.PodGroup
	pods  []*v1.Pod
}

var _ preemption.ExecutorPreemptor = groupPreemptor{}

func (g groupPreemptor) UID() types.UID        { return g.group.UID }
func (g groupPreemptor) GetName() string       { return g.group.Name }
func (g groupPreemptor) GetNamespace() string  { return g.group.Namespace }
func (g groupPreemptor) Obj() runtime.Object   { return g.group }
func (g groupPreemptor) SchedulerName() string { return g.pods[0].Spec.SchedulerName }
func (g groupPreemptor) Priority() int32       { return priorityOf(g.pods[0]) }
func (g groupPreemptor) Type() string          { return "pod group" }

func (g groupPreemptor) Pods() map[string]*v1.Pod {
	out := make(map[string]*v1.Pod, len(g.pods))
	for _, pod := range g.pods {
		out[pod.Namespace+"/"+pod.Name] = pod
	}
	return out
}

// onNode implements preemption.Candidate by the name of a node.
type onNode string

var _ preemption.Candidate = onNode("")

func (onNode) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }
func (n onNode) Name() string               { return string(n) }
func (onNode) NumPodGroupDisruptions() int  { return 0 }
