package preemption

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// warn tells of checkpoint times that cannot be true and were ignored, once per pod and value.
func (p *GPUPreemption) warn(warnings []snapshot.PlanWarning) {
	for _, w := range warnings {
		what, fault := "before the pod started", "before_start"
		if w.Fault == native.CheckpointInFuture {
			what, fault = "in the future", "in_future"
		}
		text := fmt.Sprintf("The last checkpoint (%s: %q) is %s and is ignored", api.AnnotationLastCheckpoint,
			checkpointOf(w.Pod).Format(time.RFC3339), what)
		if p.history.tell(w.Pod.UID, text) {
			metrics.AnnotationIgnored(fault)
			p.event(w.Pod, v1.EventTypeWarning, "CheckpointIgnored", text)
		}
	}
}

// warnUnreadable tells of annotations that cannot be read when they appear on a pod; before is nil for one that is new
// here. Only the profile that may evict the pod tells.
func (p *GPUPreemption) warnUnreadable(before, after *v1.Pod) {
	if !p.consents(after) {
		return
	}
	var known []api.AnnotationFault
	if before != nil {
		known = api.WorkFaults(before.Annotations)
	}
	for _, fault := range api.WorkFaults(after.Annotations) {
		if told(known, fault) {
			continue
		}
		reason := "AnnotationIgnored"
		if fault.Checkpoint {
			reason = "CheckpointIgnored"
		}
		metrics.AnnotationIgnored("unreadable")
		p.event(after, v1.EventTypeWarning, reason, fault.Err.Error())
	}
}

func told(known []api.AnnotationFault, fault api.AnnotationFault) bool {
	for _, other := range known {
		if other.Err.Error() == fault.Err.Error() {
			return true
		}
	}
	return false
}
