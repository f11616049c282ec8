package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestSummaryHasThePublishedKeys(t *testing.T) {
	data, err := json.Marshal(Summary{Mortise: &Result{}})
	require.NoError(t, err)
	require.JSONEq(t, `{"nodes":0,"pods":0,"mortise":{"pods_bound":0,"gpu_allocated_ratio":0,"fragment_gpu":0,"stranded_gpu":0,
		"decisions_per_second":0,"plugin_p50_ms":null,"plugin_p99_ms":null,"kernel_p50_us":null,"kernel_p99_us":null,
		"cgo_calls_per_scheduled_pod":null},"stock":null}`, string(data))
}

func TestMetricsOfSeveralSeriesAreMerged(t *testing.T) {
	families, err := parseMetrics(strings.NewReader(`# TYPE mortise_kernel_duration_seconds histogram
mortise_kernel_duration_seconds_bucket{call="sync",le="0.001"} 50
mortise_kernel_duration_seconds_bucket{call="sync",le="0.002"} 50
mortise_kernel_duration_seconds_bucket{call="sync",le="+Inf"} 50
mortise_kernel_duration_seconds_count{call="sync"} 50
mortise_kernel_duration_seconds_bucket{call="score",le="0.001"} 0
mortise_kernel_duration_seconds_bucket{call="score",le="0.002"} 50
mortise_kernel_duration_seconds_bucket{call="score",le="+Inf"} 50
mortise_kernel_duration_seconds_count{call="score"} 50
mortise_kernel_duration_seconds_bucket{call="stats",le="0.001"} 900
mortise_kernel_duration_seconds_bucket{call="stats",le="0.002"} 900
mortise_kernel_duration_seconds_bucket{call="stats",le="+Inf"} 900
mortise_kernel_duration_seconds_count{call="stats"} 900
# TYPE mortise_cgo_calls_per_scheduled_pod histogram
mortise_cgo_calls_per_scheduled_pod_bucket{le="2"} 4
mortise_cgo_calls_per_scheduled_pod_bucket{le="+Inf"} 4
mortise_cgo_calls_per_scheduled_pod_sum 7
mortise_cgo_calls_per_scheduled_pod_count 4
`))
	require.NoError(t, err)
	calls := series(families[metricKernelCall], cycleCalls...)
	require.InDelta(t, 1000, *quantile(calls, 0.5, 1e6), 1e-9)
	require.InDelta(t, 1500, *quantile(calls, 0.75, 1e6), 1e-9)
	require.Nil(t, quantile(series(families[metricPluginCycle]), 0.5, 1e3), "no samples is no figure, not zero")
	require.Equal(t, 1.75, series(families[metricCallsPerPod]).Average())
}

func TestRenderSchedulerConfig(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.yaml"), filepath.Join(dir, "to.yaml")
	require.NoError(t, os.WriteFile(from, []byte("kind: KubeSchedulerConfiguration\nparallelism: 3\nprofiles:\n- schedulerName: mortise\n"), 0o600))
	require.NoError(t, renderSchedulerConfig(from, to, "/kubeconfig", "mortise"))
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	var config struct {
		Parallelism      int
		ClientConnection struct{ Kubeconfig string }
		LeaderElection   struct{ LeaderElect *bool }
	}
	require.NoError(t, yaml.Unmarshal(data, &config))
	require.Equal(t, 3, config.Parallelism)
	require.Equal(t, "/kubeconfig", config.ClientConnection.Kubeconfig)
	require.False(t, *config.LeaderElection.LeaderElect)

	require.ErrorContains(t, renderSchedulerConfig(from, to, "/kubeconfig", "mortise-stock"),
		`no profile has the schedulerName "mortise-stock"; it has ["mortise"]`)
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--runs=foo", `there is no run "foo"`},
		{"--runs=", "--runs is empty"},
		{"--outstanding=0", "expected 1 or more"},
		{"--load=-1", "expected 0 to 100"},
		{"--scheduler=/nonexistent", "make build"},
		{"positional", "unknown command"},
	} {
		opts := options{}
		cmd := opts.command()
		cmd.SetArgs([]string{c.args})
		require.ErrorContains(t, cmd.Execute(), c.want, c.args)
	}
}
