package preemption

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/metrics"
)

// outcome is what became of a victim in its window.
type outcome string

const (
	savedInTime outcome = "saved in time"
	exitedEarly outcome = "exited early"
	cutOff      outcome = "cut off"
)

// ended tells what became of a pod, if it was a victim of this profile.
func (p *GPUPreemption) ended(pod *v1.Pod, at time.Time) {
	condition := byPreemption(pod)
	if condition == nil || !strings.HasPrefix(condition.Message, p.handle.ProfileName()+":") {
		return
	}
	how := outcomeOf(pod, condition.LastTransitionTime.Time, at)
	lost := lostSeconds(pod, at) * gpusOf(pod)
	p.unsaved.note(pod, saved(pod, at))
	metrics.VictimEnded(strings.ReplaceAll(string(how), " ", "_"), p.tierOf(pod), lost)
	text := fmt.Sprintf("Evicted pod %s after %.0f s; %s of work lost", how, at.Sub(condition.LastTransitionTime.Time).Seconds(), gpuTime(lost))
	if n := p.unsaved.of(pod); n >= uint32(*p.args.GuaranteeAfterEvictions) && *p.args.GuaranteeAfterEvictions > 0 {
		text += fmt.Sprintf("; evictions without having saved: %d; protected like training until it saves", n)
	}
	p.event(pod, v1.EventTypeNormal, "PreemptionOutcome", text)
}

// outcomeOf reads the outcome off the pod's last state. Times in the API have whole seconds.
func outcomeOf(pod *v1.Pod, evicted, ended time.Time) outcome {
	grace := time.Duration(v1.DefaultTerminationGracePeriodSeconds) * time.Second
	if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > 0 {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	} else if pod.DeletionTimestamp != nil {
		grace = pod.DeletionTimestamp.Sub(evicted)
	}
	checkpoint := checkpointOf(pod)
	switch {
	case !checkpoint.Before(evicted.Truncate(time.Second)) && !checkpoint.After(ended):
		return savedInTime
	case ended.Sub(evicted) < grace && !killed(pod):
		return exitedEarly
	}
	return cutOff
}

// killed reports a container that SIGKILL ended.
func killed(pod *v1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil && t.ExitCode == 137 {
			return true
		}
	}
	return false
}

// saved reports whether the pod saved at all while it ran: what it did before is not lost.
func saved(pod *v1.Pod, at time.Time) bool {
	checkpoint := checkpointOf(pod)
	return !checkpoint.IsZero() && !checkpoint.Before(startOf(pod)) && !checkpoint.After(at)
}

func startOf(pod *v1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// lostSeconds is the time since the pod was last safe.
func lostSeconds(pod *v1.Pod, at time.Time) float64 {
	safe := startOf(pod)
	if saved(pod, at) {
		safe = checkpointOf(pod)
	}
	return max(at.Sub(safe).Seconds(), 0)
}
