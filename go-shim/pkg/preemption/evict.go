package preemption

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	apipod "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// evict takes one victim's place away: a pod that is not bound yet is sent back, another one is marked as a target of
// disruption and deleted with the grace of its tier. It reports whether no deletion was needed.
func (p *GPUPreemption) evict(ctx context.Context, candidate preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, pluginName string) (bool, error) {
	logger := klog.FromContext(ctx)
	if p.unbound(victim, pluginName) {
		p.eventOn(preemptor, victim, fmt.Sprintf("Preempted by %s %s on node %s (in kube-scheduler memory)", preemptor.Type(), preemptor.UID(), candidate.Name()))
		return true, nil
	}
	grace := p.grace(victim)
	err := p.markDisrupted(ctx, preemptor, victim, grace)
	if err == nil {
		err = p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &grace,
			Preconditions:      &metav1.Preconditions{UID: &victim.UID},
		})
	}
	switch {
	// A conflict is of the precondition: the victim is gone and another pod has its name.
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		logger.V(2).Info("Victim is gone already", "victim", klog.KObj(victim), "node", candidate.Name())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("evicting pod %s/%s: %w", victim.Namespace, victim.Name, err)
	}
	p.eventOn(preemptor, victim, p.reason(candidate, preemptor, victim, grace))
	return false, nil
}

// unbound takes the victim back if it waits in Permit or PreBind.
func (p *GPUPreemption) unbound(victim *v1.Pod, pluginName string) bool {
	if waiting := p.handle.GetWaitingPod(victim.UID); waiting != nil {
		return waiting.Preempt(pluginName, "preempted")
	}
	if binding := p.handle.GetPodInPreBind(victim.UID); binding != nil {
		return binding.CancelPod("preempted by " + pluginName)
	}
	return false
}

// markDisrupted sets the condition that controllers watch, and that makes the preemptor wait instead of evicting again.
func (p *GPUPreemption) markDisrupted(ctx context.Context, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, grace int64) error {
	status := victim.Status.DeepCopy()
	changed := apipod.UpdatePodCondition(status, &v1.PodCondition{
		Type:               v1.DisruptionTarget,
		ObservedGeneration: apipod.CalculatePodConditionObservedGeneration(&victim.Status, victim.Generation, v1.DisruptionTarget),
		Status:             v1.ConditionTrue,
		Reason:             v1.PodReasonPreemptionByScheduler,
		Message: fmt.Sprintf("%s: preempting to accommodate a higher priority %s; save and exit within %d s",
			preemptor.SchedulerName(), preemptor.Type(), grace),
	})
	if !changed {
		return nil
	}
	return schedutil.PatchPodStatus(ctx, p.handle.ClientSet(), victim.Name, victim.Namespace, &victim.Status, status)
}

// reason says who evicts the victim, on what terms, and at what loss.
func (p *GPUPreemption) reason(candidate preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, grace int64) string {
	text := fmt.Sprintf("Preempted by %s %s (priority %d) on node %s; tier %s, %d s to save and exit",
		preemptor.Type(), preemptor.UID(), preemptor.Priority(), candidate.Name(), p.tierOf(victim), grace)
	if plan := p.inFlight.get(preemptor.UID()); plan != nil {
		for _, planned := range plan.Victims {
			if planned.Pod.UID == victim.UID {
				return text + "; " + kindText(planned)
			}
		}
	}
	return text
}

func (p *GPUPreemption) eventOn(preemptor preemption.ExecutorPreemptor, victim *v1.Pod, text string) {
	if recorder := p.handle.EventRecorder(); recorder != nil {
		recorder.Eventf(victim, preemptor.Obj(), v1.EventTypeNormal, "Preempted", "Preempting", "%s", text)
	}
}

func (p *GPUPreemption) event(object runtime.Object, kind, reason, text string) {
	if recorder := p.handle.EventRecorder(); recorder != nil {
		recorder.Eventf(object, nil, kind, reason, "Preempting", "%s", text)
	}
}

// isGoing reports a victim of a preemption that is on its way out and may still be waited for.
func (p *GPUPreemption) isGoing(pod *v1.Pod) bool {
	return byPreemption(pod) != nil && pod.DeletionTimestamp != nil && !p.overdue(pod)
}

// overdue reports a pod that should be gone for long: its node is dead, as a rule.
func (p *GPUPreemption) overdue(pod *v1.Pod) bool {
	wait := time.Duration(*p.args.StuckTerminatingSeconds) * time.Second
	return pod.DeletionTimestamp != nil && p.now().After(pod.DeletionTimestamp.Add(wait))
}

// stuck reports whether all the victims that the pod waits for are overdue.
func (p *GPUPreemption) stuck(pod *v1.Pod) bool {
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	if err != nil || p.waits(pod) {
		return false
	}
	for _, other := range info.GetPods() {
		if byPreemption(other.GetPod()) != nil && p.overdue(other.GetPod()) {
			return true
		}
	}
	return false
}

// byPreemption is the condition of a pod that a scheduler evicts; nil if none does.
func byPreemption(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler {
			return c
		}
	}
	return nil
}

// plans are those that upstream carries out now, by preemptor: the eviction runs beside the scheduling cycle.
type plans struct {
	mu sync.Mutex
	of map[types.UID]*snapshot.Plan
	// leaving are the victims with the time when their eviction began: until it shows on the pod, that takes moments.
	leaving map[types.UID]time.Time
}

// evictionTime is longer than an eviction takes to show. One that failed counts no longer than this.
const evictionTime = 5 * time.Second

// isLeaving reports whether the pod is being evicted, though its object may not show it yet.
func (p *plans) isLeaving(pod types.UID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	began, found := p.leaving[pod]
	return found && now.Sub(began) < evictionTime
}

// began notes the victims of a plan that is carried out now.
func (p *plans) began(plan *snapshot.Plan, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving == nil {
		p.leaving = make(map[types.UID]time.Time)
	}
	for pod, began := range p.leaving {
		if now.Sub(began) >= evictionTime {
			delete(p.leaving, pod)
		}
	}
	for _, victim := range plan.Victims {
		p.leaving[victim.Pod.UID] = now
	}
}

// Plans kept: each is needed until its last victim is told, which takes seconds.
const maxPlans = 1024

func (p *plans) put(pod types.UID, plan *snapshot.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= maxPlans {
		p.of = make(map[types.UID]*snapshot.Plan)
	}
	p.of[pod] = plan
}

func (p *plans) get(pod types.UID) *snapshot.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[pod]
}

func (p *plans) drop(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, pod)
}
