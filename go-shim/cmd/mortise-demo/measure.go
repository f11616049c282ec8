package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics/testutil"
)

// Metrics of the scheduler that the demo reads.
const (
	metricPluginCycle = "mortise_plugin_cycle_duration_seconds" // all extension points of one scheduling cycle together
	metricKernelCall  = "mortise_kernel_duration_seconds"
	metricCgoCalls    = "mortise_cgo_calls_total"
	metricScheduled   = "mortise_scheduled_pods_total"
)

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
	result.PluginP50Ms = quantile(families, metricPluginCycle, 0.50, 1e3)
	result.PluginP99Ms = quantile(families, metricPluginCycle, 0.99, 1e3)
	result.KernelP50Us = quantile(families, metricKernelCall, 0.50, 1e6)
	result.KernelP99Us = quantile(families, metricKernelCall, 0.99, 1e6)
	calls, haveCalls := total(families, metricCgoCalls)
	scheduled, haveScheduled := total(families, metricScheduled)
	if haveCalls && haveScheduled && scheduled > 0 {
		ratio := calls / scheduled
		result.CgoCallsPerScheduledPod = &ratio
	}
	return nil
}

type metricFamilies map[string]*dto.MetricFamily

func parseMetrics(text io.Reader) (metricFamilies, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(text)
}

// quantile estimates a quantile over all series of a histogram and multiplies it by scale; nil if there are no samples.
func quantile(families metricFamilies, name string, q, scale float64) *float64 {
	var series testutil.HistogramVec
	for _, metric := range families[name].GetMetric() {
		if histogram := metric.GetHistogram(); histogram != nil {
			series = append(series, &testutil.Histogram{Histogram: histogram})
		}
	}
	value := series.Quantile(q) * scale
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}

// total sums all series of a counter.
func total(families metricFamilies, name string) (sum float64, ok bool) {
	for _, metric := range families[name].GetMetric() {
		if counter := metric.GetCounter(); counter != nil {
			sum += counter.GetValue()
			ok = true
		}
	}
	return sum, ok
}
