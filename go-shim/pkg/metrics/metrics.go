// Package metrics holds the metrics of the scheduler plugins. They are in the scheduler's own registry, so its /metrics
// shows them.
package metrics

import (
	"sync"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// buckets go from 1 us to 1 s, about four per decade and finer where decisions are, so that quantiles can be read.
var buckets = []float64{
	1e-6, 2e-6, 3e-6, 5e-6, 7e-6, 10e-6, 15e-6, 20e-6, 30e-6, 40e-6, 50e-6, 60e-6, 70e-6, 80e-6, 90e-6,
	100e-6, 120e-6, 140e-6, 160e-6, 180e-6, 200e-6, 250e-6, 300e-6, 350e-6, 400e-6, 450e-6, 500e-6, 600e-6, 700e-6, 800e-6, 900e-6,
	1e-3, 1.2e-3, 1.4e-3, 1.6e-3, 1.8e-3, 2e-3, 2.5e-3, 3e-3, 4e-3, 5e-3, 7e-3, 10e-3, 15e-3, 20e-3, 30e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1,
}

func histogram(name, help string, buckets []float64, labels ...string) *k8smetrics.HistogramVec {
	return k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Name: name, Help: help, Buckets: buckets, StabilityLevel: k8smetrics.ALPHA,
	}, labels)
}

func counter(name, help string, labels ...string) *k8smetrics.CounterVec {
	return k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA}, labels)
}

var (
	pluginDuration = histogram("mortise_plugin_duration_seconds",
		"Time in the plugin per scheduling cycle and extension point. Filter and Score run once per node: their value is the "+
			"sum over the nodes, taken in every fourth cycle.", buckets, "extension_point")
	cycleDuration = k8smetrics.NewHistogram(&k8smetrics.HistogramOpts{
		Name: "mortise_plugin_cycle_duration_seconds",
		Help: "Time in the plugin for a scheduled pod, from PreFilter to Reserve, kernel included and Filter and Score summed " +
			"over the nodes. Taken in every fourth cycle.",
		Buckets: buckets, StabilityLevel: k8smetrics.ALPHA,
	})
	kernelDuration = histogram("mortise_kernel_duration_seconds",
		"Time of a call of the kernel, border included.", buckets, "call")
	cgoCalls    = counter("mortise_cgo_calls_total", "Calls of the kernel.", "call")
	callsPerPod = k8smetrics.NewHistogram(&k8smetrics.HistogramOpts{
		Name:    "mortise_cgo_calls_per_scheduled_pod",
		Help:    "Calls of the kernel in the scheduling cycle of a pod that got a node.",
		Buckets: []float64{0, 1, 2, 3, 4, 8, 16, 64, 1024}, StabilityLevel: k8smetrics.ALPHA,
	})
	kernelFailures = counter("mortise_kernel_failures_total",
		"Calls of the kernel that failed. Pods whose nodes could not be ranked were scheduled without the kernel's opinion.",
		"call", "status")
	scheduledPods = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Name: "mortise_scheduled_pods_total", Help: "Pods bound.", StabilityLevel: k8smetrics.ALPHA,
	})
	bindErrors = counter("mortise_bind_errors_total",
		"Bindings that returned an error, by what the API server said afterwards: committed (the pod is bound to the chosen "+
			"node), failed (it is not), in_doubt (nobody knows yet; the cards stay held).", "outcome")
	ignoredChoices = k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Name: "mortise_ignored_device_annotations_total", Help: "Device annotations of pods that do not hold for the pod or its node.",
		StabilityLevel: k8smetrics.ALPHA,
	})
)

var register sync.Once

// Register adds the metrics to the scheduler's registry. It may be called more than once.
func Register() {
	register.Do(func() {
		legacyregistry.MustRegister(pluginDuration, cycleDuration, kernelDuration, cgoCalls, callsPerPod, kernelFailures,
			scheduledPods, bindErrors, ignoredChoices)
		legacyregistry.MustRegister(preemptionPlans, preemptionEvictions, preemptionPlannedLoss, preemptionRejected, preemptionRefused,
			victimOutcomes, victimLoss, ignoredAnnotations)
	})
}

// ObserveCall records a call of the kernel; it is a native.Observer.
func ObserveCall(call native.Call, duration time.Duration, err error) {
	cgoCalls.WithLabelValues(call.String()).Inc()
	kernelDuration.WithLabelValues(call.String()).Observe(duration.Seconds())
	if err != nil && !expected(call, err) {
		kernelFailures.WithLabelValues(call.String(), native.StatusOf(err).String()).Inc()
	}
}

// expected errors are part of a protocol: a report or copy that comes while the kernel is busy, a buffer whose size is asked.
func expected(call native.Call, err error) bool {
	status := native.StatusOf(err)
	report := call == native.CallStats || call == native.CallFragmentation || call == native.CallLearnedExport
	return status == native.StatusBufferTooSmall || (report && status == native.StatusBusy)
}

// ObserveExtensionPoint records the plugin's time at an extension point.
func ObserveExtensionPoint(point string, duration time.Duration) {
	pluginDuration.WithLabelValues(point).Observe(duration.Seconds())
}

// ObserveCycle records the plugin's time for a pod that got a node.
func ObserveCycle(duration time.Duration) { cycleDuration.Observe(duration.Seconds()) }

// ObserveCallsPerPod records the calls of the kernel in the cycle of a pod that got a node.
func ObserveCallsPerPod(calls int) { callsPerPod.Observe(float64(calls)) }

// PodBound counts a bound pod.
func PodBound() { scheduledPods.Inc() }

// DeviceAnnotationIgnored counts a device annotation that was ignored.
func DeviceAnnotationIgnored() { ignoredChoices.Inc() }

// BindOutcome says what became of a binding that returned an error.
type BindOutcome string

// Outcomes of bindings that returned an error.
const (
	BindCommitted BindOutcome = "committed"
	BindFailed    BindOutcome = "failed"
	BindInDoubt   BindOutcome = "in_doubt"
)

// BindError counts a binding that returned an error.
func BindError(outcome BindOutcome) { bindErrors.WithLabelValues(string(outcome)).Inc() }
