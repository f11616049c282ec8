package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics/testutil"
)

// Metrics of the scheduler that the demo reads.
const (
	metricPluginCycle = "mortise_plugin_cycle_duration_seconds" // a pod's time in all extension points together
	metricKernelCall  = "mortise_kernel_duration_seconds"       // a call's time, by call
	metricCallsPerPod = "mortise_cgo_calls_per_scheduled_pod"
)

// cycleCalls are the kernel calls of scheduling cycles; others serve the metrics.
var cycleCalls = []string{"sync", "score"}

// measure fills in what the scheduler itself measured.
func (s *schedulerProcess) measure(ctx context.Context, result *Result) error {
	response, err := s.get(ctx, "/metrics")
	if err != nil {
		return fmt.Errorf("reading the scheduler's metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading the scheduler's metrics: %s", response.Status)
	}
	families, err := parseMetrics(response.Body)
	if err != nil {
		return fmt.Errorf("reading the scheduler's metrics: %w", err)
	}
	cycles := series(families[metricPluginCycle])
	result.PluginP50Ms, result.PluginP99Ms = quantile(cycles, 0.50, 1e3), quantile(cycles, 0.99, 1e3)
	calls := series(families[metricKernelCall], cycleCalls...)
	result.KernelP50Us, result.KernelP99Us = quantile(calls, 0.50, 1e6), quantile(calls, 0.99, 1e6)
	if perPod := series(families[metricCallsPerPod]).Average(); !math.IsNaN(perPod) {
		result.CgoCallsPerScheduledPod = &perPod
	}
	return nil
}

type metricFamilies map[string]*dto.MetricFamily

func parseMetrics(text io.Reader) (metricFamilies, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(text)
}

// series returns the histograms of a family whose label "call" is one of calls; all of them if none is given.
func series(family *dto.MetricFamily, calls ...string) (found testutil.HistogramVec) {
	for _, metric := range family.GetMetric() {
		isCall := func(label *dto.LabelPair) bool {
			return label.GetName() == "call" && slices.Contains(calls, label.GetValue())
		}
		if metric.GetHistogram() != nil && (len(calls) == 0 || slices.ContainsFunc(metric.GetLabel(), isCall)) {
			found = append(found, &testutil.Histogram{Histogram: metric.GetHistogram()})
		}
	}
	return found
}

// quantile estimates a quantile over all series and multiplies it by scale; nil if there are no samples.
func quantile(series testutil.HistogramVec, q, scale float64) *float64 {
	value := series.Quantile(q) * scale
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}
