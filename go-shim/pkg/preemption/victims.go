package preemption

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// mayGo keeps pods out of upstream's own rule that no rule may take.
func (p *GPUPreemption) mayGo(_ fwk.NodeInfo, victim preemption.Victim, _ *v1.Pod) bool {
	for _, info := range victim.Pods() {
		pod := info.GetPod()
		if p.tierOf(pod) == api.TierInference || !p.consents(pod) {
			return false
		}
	}
	return true
}

// tierOf is the tier by priority, or inference where the pod claims that in another way.
func (p *GPUPreemption) tierOf(pod *v1.Pod) string {
	if pod.Labels[api.LabelTier] == api.TierInference || pod.Spec.PriorityClassName == api.PriorityClassInference {
		return api.TierInference
	}
	return p.args.Tiers.Of(priorityOf(pod))
}

// consents reports whether the pod is this scheduler's own, or may be evicted all the same.
func (p *GPUPreemption) consents(pod *v1.Pod) bool {
	return pod.Spec.SchedulerName == p.handle.ProfileName() ||
		pod.Annotations[api.AnnotationPreemptible] == "true" ||
		slices.Contains(p.args.ConsentingSchedulers, pod.Spec.SchedulerName)
}

// grace is the time between SIGTERM and SIGKILL of a victim, in seconds.
func (p *GPUPreemption) grace(pod *v1.Pod) int64 {
	grace := *p.args.BatchGraceSeconds
	if p.tierOf(pod) == api.TierTraining {
		grace = *p.args.TrainingGraceSeconds
	}
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && !p.args.GraceMayExceedPods {
		grace = min(grace, *own)
	}
	return grace
}

// budget is a disruption budget during one plan.
type budget struct {
	selector labels.Selector
	pdb      *policyv1.PodDisruptionBudget
	index    uint32
	added    bool
}

// newBudget is nil for a budget that covers no pod.
func newBudget(pdb *policyv1.PodDisruptionBudget) (*budget, error) {
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("PodDisruptionBudget %s/%s: %w", pdb.Namespace, pdb.Name, err)
	}
	if selector.Empty() {
		return nil, nil
	}
	return &budget{selector: selector, pdb: pdb}, nil
}

// covers reports whether evicting the pod counts against the budget, as kube-scheduler counts it: an eviction that the
// disruption controller has accounted for already does not count again.
func (b *budget) covers(pod *v1.Pod) bool {
	if _, accounted := b.pdb.Status.DisruptedPods[pod.Name]; accounted {
		return false
	}
	return b.selector.Matches(labels.Set(pod.Labels))
}

// describer says of running pods what a plan must know: budgets, gang, tenant, times, past evictions, consent.
func (p *GPUPreemption) describer() (func(*native.PlanQuery, *v1.Pod) (snapshot.PodFacts, bool), error) {
	budgets, err := p.budgetsByNamespace()
	if err != nil {
		return nil, err
	}
	groups := p.podGroups()
	gangIndex := make(map[string]uint32)
	tenants := make(map[string]uint32)
	return func(q *native.PlanQuery, pod *v1.Pod) (snapshot.PodFacts, bool) {
		out := snapshot.PodFacts{Facts: native.PodFacts{
			Gang: native.IndexNone, Tenant: native.IndexNone, SaveSeconds: native.SavesNever,
			RestartSeconds: uint32(*p.args.RestartSeconds), GraceSeconds: uint32(min(p.grace(pod), int64(native.MaxDeclared))),
		}}
		f := &out.Facts
		for i := range budgets[pod.Namespace] {
			b := &budgets[pod.Namespace][i]
			if !b.covers(pod) {
				continue
			}
			if !b.added {
				b.index, b.added = q.AddBudget(uint32(max(b.pdb.Status.DisruptionsAllowed, 0))), true
			}
			out.Budgets = append(out.Budgets, b.index)
		}
		if name, gang, gangs := victimGang(pod, groups); gangs {
			index, found := gangIndex[name]
			if !found {
				index = q.AddGang(gang)
				gangIndex[name] = index
			}
			f.Gang = index
		}
		if seconds, ok, _ := api.CheckpointSaveSeconds(pod.Annotations); ok {
			f.SaveSeconds = seconds
		}
		if seconds, ok, _ := api.RestartSeconds(pod.Annotations); ok {
			f.RestartSeconds = seconds
		}
		if f.UnsavedEvictions = p.unsaved.of(pod); f.UnsavedEvictions > 0 && p.args.GuaranteeGPUsPerTenant != nil {
			index, found := tenants[pod.Namespace]
			if !found {
				index = q.AddTenant(uint64(*p.args.GuaranteeGPUsPerTenant) * native.MilliPerGPU)
				tenants[pod.Namespace] = index
			}
			f.Tenant = index
		}
		if p.consents(pod) {
			f.Flags |= native.FactsConsent
		}
		return out, true
	}, nil
}

// checkpointOf is the time of the last checkpoint that the pod published; zero if there is none that can be read.
func checkpointOf(pod *v1.Pod) time.Time {
	at, _ := api.Checkpoint(pod.Annotations)
	return at
}

// gpusOf is the GPU that the pod asks for, in cards.
func gpusOf(pod *v1.Pod) float64 {
	request, err := snapshot.ParseRequest(pod)
	if err != nil {
		return 0
	}
	return float64(request.GPUCount) * float64(request.GPUMilli) / native.MilliPerGPU
}

// describePlan tells people who goes and why these.
func describePlan(plan *snapshot.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Evicting %d pods %s, which loses %s of work: ", evictions(plan), where(plan), gpuTime(float64(plan.Cost.LostMilliGPUSeconds)/1000))
	for i, victim := range plan.Victims {
		if i == maxNamed {
			fmt.Fprintf(&b, ", and %d more", len(plan.Victims)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s/%s (%.4g GPU, %s)", victim.Pod.Namespace, victim.Pod.Name, float64(victim.GPUMilli)/native.MilliPerGPU, kindText(victim))
	}
	if len(plan.RunnersUp) > 0 {
		next := plan.RunnersUp[0]
		fmt.Fprintf(&b, ". Next best was node %s: %s", next.Node, lostBy(next, plan))
	}
	return b.String()
}

const maxNamed = 6

// where names the nodes that a plan makes room on.
func where(plan *snapshot.Plan) string {
	if len(plan.Placements) == 1 {
		return "on node " + plan.Node()
	}
	names := plan.Nodes()
	text := fmt.Sprintf("so that %d pods fit on %d nodes (%s", len(plan.Placements), len(names), strings.Join(names[:min(len(names), maxNamed)], ", "))
	if len(names) > maxNamed {
		text += ", ..."
	}
	return text + ")"
}

func kindText(victim snapshot.PlannedVictim) string {
	switch victim.Kind {
	case native.VictimTerminating:
		return "terminating already"
	case native.VictimSurplus:
		return "loses " + gpuTime(victim.LostGPUSeconds) + ", its gang goes on"
	case native.VictimGang:
		return "loses " + gpuTime(victim.LostGPUSeconds) + ", with its gang"
	}
	return "loses " + gpuTime(victim.LostGPUSeconds)
}

func lostBy(node snapshot.PlannedNode, plan *snapshot.Plan) string {
	switch node.LostBy {
	case 1:
		return fmt.Sprintf("%d evictions beyond disruption budgets", node.Cost.BudgetViolations)
	case 2:
		return fmt.Sprintf("%d units of training or under the progress guarantee", node.Cost.TrainingUnits)
	case 3:
		return gpuTime(float64(node.Cost.LostMilliGPUSeconds)/1000) + " lost"
	case 4:
		return fmt.Sprintf("%d units evicted instead of %d", node.Cost.Units, plan.Cost.Units)
	case 5:
		return "more GPU stranded"
	}
	return "as good, later in order"
}

// gpuTime is readable GPU time.
func gpuTime(seconds float64) string {
	if seconds < 3600 {
		return fmt.Sprintf("%.0f GPU-seconds", seconds)
	}
	return fmt.Sprintf("%.1f GPU-hours", seconds/3600)
}

func evictions(plan *snapshot.Plan) int {
	n := 0
	for _, victim := range plan.Victims {
		if victim.Kind != native.VictimTerminating {
			n++
		}
	}
	return n
}
