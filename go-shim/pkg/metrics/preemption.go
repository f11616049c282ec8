package metrics

import k8smetrics "k8s.io/component-base/metrics"

var (
	preemptionPlans = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Name: "mortise_preemption_plans_total", Help: "Plans carried out.", StabilityLevel: k8smetrics.ALPHA,
	})
	preemptionEvictions = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Name: "mortise_preemption_evictions_total", Help: "Pods that plans evicted.", StabilityLevel: k8smetrics.ALPHA,
	})
	preemptionPlannedLoss = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Name: "mortise_preemption_planned_lost_gpu_seconds_total", Help: "Work that plans expected to lose, in GPU-seconds.",
		StabilityLevel: k8smetrics.ALPHA,
	})
	preemptionRejected = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Name: "mortise_preemption_plans_rejected_total", Help: "Plans that did not hold before the Filter plugins.",
		StabilityLevel: k8smetrics.ALPHA,
	})
	preemptionRefused = counter("mortise_preemption_refused_total",
		"Preemptions refused by a limit: rate, ratio or disruption_budgets.", "limit")
	victimOutcomes = counter("mortise_preemption_victims_total",
		"Victims that are gone, by outcome (saved_in_time, exited_early, cut_off) and tier.", "outcome", "tier")
	victimLoss = counter("mortise_preemption_lost_gpu_seconds_total",
		"Work that victims lost, in GPU-seconds since they were last safe, by outcome and tier.", "outcome", "tier")
	ignoredAnnotations = counter("mortise_preemption_ignored_annotations_total",
		"Annotations of running pods about their work that were ignored: unreadable, in_future or before_start.", "fault")
)

// PlanCarriedOut counts a plan with its evictions and the GPU-seconds it expects to lose.
func PlanCarriedOut(evictions int, lostGPUSeconds float64) {
	preemptionPlans.Inc()
	preemptionEvictions.Add(float64(evictions))
	preemptionPlannedLoss.Add(lostGPUSeconds)
}

// PlanRejected counts a plan that did not hold before the Filter plugins.
func PlanRejected() { preemptionRejected.Inc() }

// PreemptionRefused counts a preemption that a limit refused.
func PreemptionRefused(limit string) { preemptionRefused.WithLabelValues(limit).Inc() }

// VictimEnded counts a victim that is gone.
func VictimEnded(outcome, tier string, lostGPUSeconds float64) {
	victimOutcomes.WithLabelValues(outcome, tier).Inc()
	victimLoss.WithLabelValues(outcome, tier).Add(lostGPUSeconds)
}

// AnnotationIgnored counts an annotation about a pod's work that was ignored.
func AnnotationIgnored(fault string) { ignoredAnnotations.WithLabelValues(fault).Inc() }
