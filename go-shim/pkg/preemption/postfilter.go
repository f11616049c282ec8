package preemption

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/sharedmirror"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// Plans tried, each without the nodes of those before, until upstream's own rule is taken.
const planAttempts = 3

type planKey struct{}

// withPlan lets SelectVictimsOnNode see the plan.
func withPlan(ctx context.Context, plan *snapshot.Plan) context.Context {
	return context.WithValue(ctx, planKey{}, plan)
}

func planOf(ctx context.Context) *snapshot.Plan {
	plan, _ := ctx.Value(planKey{}).(*snapshot.Plan)
	return plan
}

// PostFilter plans evictions for the pod and has upstream carry them out.
func (p *GPUPreemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	start := time.Now()
	defer func() { metrics.ObserveExtensionPoint("PostFilter", time.Since(start)) }()
	result, status := p.postFilter(ctx, state, pod, statuses)
	if status.IsSuccess() {
		p.waiting.drop(pod.UID)
	} else {
		p.keepsWaiting(ctx, pod)
	}
	return result, status
}

func (p *GPUPreemption) postFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: not for a pod with preemptionPolicy Never")
	}
	if p.stuck(pod) {
		p.history.forgive(pod.UID)
	}
	if next, allowed := p.history.allows(pod.UID, p.now()); !allowed && !p.waits(pod) {
		message := rateText("this pod", next)
		p.refused(pod, pod.UID, refusedRate, message)
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: "+message)
	}
	request, err := snapshot.ParseRequest(pod)
	shared := sharedmirror.Of(p.handle)
	if err != nil || !request.WantsGPU() || shared == nil {
		return p.upstream(ctx, state, pod, statuses)
	}
	return p.planned(ctx, state, pod, statuses, shared.Mirror(), request)
}

func (p *GPUPreemption) planned(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader,
	mirror *snapshot.Mirror, request *snapshot.Request) (*fwk.PostFilterResult, *fwk.Status) {
	logger := klog.FromContext(ctx)
	nodes, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	describe, err := p.describer()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	tried, rejected := sets.New[string](), false
	if p.stuck(pod) {
		tried.Insert(pod.Status.NominatedNodeName)
	}
	for range planAttempts {
		plan, refusal, warnings, err := mirror.Plan([]*snapshot.Request{request}, without(nodes, tried), snapshot.PlanOptions{
			NowSeconds: p.now().Unix(), Policy: p.policy(), Describe: describe,
		})
		if err != nil {
			logger.Error(err, "No plan can be made; upstream's rule decides", "pod", klog.KObj(pod))
			break
		}
		p.warn(warnings)
		if refusal != nil {
			if rejected {
				break
			}
			p.refusal(pod, pod.UID, refusal)
			return nil, fwk.NewStatus(fwk.Unschedulable, refusal.Text)
		}
		if len(plan.Victims) == 0 && plan.Holds > 0 {
			return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: the cards of pods that are gone are not given back yet on node "+plan.Node())
		}
		if len(plan.Victims) == 0 {
			break // cards are not what the pod lacks
		}
		only := oneNode{NodeToStatusReader: statuses, lister: p.handle.SnapshotSharedLister(), node: plan.Node()}
		p.inFlight.put(pod.UID, plan)
		result, status := p.DefaultPreemption.PostFilter(withPlan(ctx, plan), state, pod, only)
		if status.IsSuccess() {
			p.carriedOut(ctx, pod, plan)
			mirror.Nominate(request, plan.Node(), plan.Placements[0].Devices)
			return result, status
		}
		p.inFlight.drop(pod.UID)
		if status.Code() == fwk.Error || p.waits(pod) {
			return result, status
		}
		logger.V(2).Info("A plan does not hold before the Filter plugins", "pod", klog.KObj(pod), "node", plan.Node(), "reason", status.Message())
		metrics.PlanRejected()
		tried.Insert(plan.Node())
		rejected = true
	}
	return p.upstream(ctx, state, pod, statuses)
}

// upstream lets upstream's rule decide; mayGo keeps inference and pods of other schedulers out of it.
func (p *GPUPreemption) upstream(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.inFlight.drop(pod.UID)
	result, status := p.DefaultPreemption.PostFilter(ctx, state, pod, statuses)
	if status.IsSuccess() {
		p.history.add(pod.UID, p.now())
		p.event(pod, v1.EventTypeNormal, "Preempting", "Evicting by kube-scheduler's own rule: "+status.Message())
	}
	return result, status
}

// carriedOut notes a plan that upstream carries out, and tells.
func (p *GPUPreemption) carriedOut(ctx context.Context, pod *v1.Pod, plan *snapshot.Plan) {
	if evictions(plan) == 0 {
		return // it only waits for pods that are going already
	}
	p.history.add(pod.UID, p.now())
	p.inFlight.began(plan, p.now())
	metrics.PlanCarriedOut(evictions(plan), float64(plan.Cost.LostMilliGPUSeconds)/1000)
	p.event(pod, v1.EventTypeNormal, "Preempting", describePlan(plan))
	p.lookAgain(ctx, pod)
}

// lookAgain tries the pod again when its victims should have been gone for some time: on a node that died, nothing else
// would.
func (p *GPUPreemption) lookAgain(ctx context.Context, pod *v1.Pod) {
	grace := max(*p.args.TrainingGraceSeconds, *p.args.BatchGraceSeconds) + *p.args.StuckTerminatingSeconds
	logger := klog.FromContext(ctx)
	time.AfterFunc(time.Duration(grace+1)*time.Second, func() {
		live, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
		if err == nil && live.UID == pod.UID && live.Spec.NodeName == "" {
			p.handle.Activate(logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: live})
		}
	})
}

// rateText says when pods may be evicted again.
func rateText(preemptor string, next time.Time) string {
	return fmt.Sprintf("pods were evicted for %s already; the next time not before %s", preemptor, next.UTC().Format(time.RFC3339))
}

// waits reports whether the pod is nominated to a node where victims are still going.
func (p *GPUPreemption) waits(pod *v1.Pod) bool {
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	if err != nil {
		return false
	}
	for _, other := range info.GetPods() {
		if p.isGoing(other.GetPod()) && priorityOf(other.GetPod()) < priorityOf(pod) {
			return true
		}
	}
	return false
}

func (p *GPUPreemption) policy() native.PlanPolicy {
	milli := ^uint64(0)
	if p.args.GuaranteeGPUsPerTenant != nil {
		milli = uint64(*p.args.GuaranteeGPUsPerTenant) * native.MilliPerGPU
	}
	return native.PlanPolicy{
		HardBudgets:    p.args.HardDisruptionBudgets,
		GuaranteeAfter: uint32(*p.args.GuaranteeAfterEvictions),
		GuaranteeMilli: milli,
		RatioPermille:  uint32(*p.args.MaxEvictedPercent) * 10,
		RestartSeconds: uint32(*p.args.RestartSeconds),
		GraceSeconds:   uint32(*p.args.BatchGraceSeconds),
	}
}

func without(nodes []fwk.NodeInfo, names sets.Set[string]) []fwk.NodeInfo {
	if names.Len() == 0 {
		return nodes
	}
	var out []fwk.NodeInfo
	for _, info := range nodes {
		if !names.Has(info.Node().Name) {
			out = append(out, info)
		}
	}
	return out
}

// oneNode shows upstream's evaluator one node alone as a candidate.
type oneNode struct {
	fwk.NodeToStatusReader
	lister fwk.SharedLister
	node   string
}

// NodesForStatusCode implements fwk.NodeToStatusReader.
func (o oneNode) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	if code != fwk.Unschedulable {
		return o.NodeToStatusReader.NodesForStatusCode(lister, code)
	}
	info, err := lister.Get(o.node)
	if err != nil {
		return nil, err
	}
	return []fwk.NodeInfo{info}, nil
}

// budgetsByNamespace lists the disruption budgets.
func (p *GPUPreemption) budgetsByNamespace() (map[string][]budget, error) {
	list, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	out := make(map[string][]budget)
	for _, pdb := range list {
		b, err := newBudget(pdb)
		if err != nil {
			return nil, err
		}
		if b != nil {
			out[pdb.Namespace] = append(out[pdb.Namespace], *b)
		}
	}
	return out, nil
}
