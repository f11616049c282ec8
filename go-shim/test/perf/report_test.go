package perf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	benchmark "k8s.io/kubernetes/test/integration/scheduler_perf"

	"mortise.dev/mortise/go-shim/pkg/registry"
)

// A plugin that the measured profile names and the benchmark does not have would be noticed only after half an hour.
func TestMeasuredProfilesAreComplete(t *testing.T) {
	known := schedulerplugins.NewInTreeRegistry()
	require.NoError(t, known.Merge(registry.Plugins()))
	for _, file := range []string{"../../../deploy/scheduler-config.yaml", "stock-100.yaml", "stock-adaptive.yaml"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		obj, _, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
		require.NoError(t, err)
		for _, profile := range obj.(*config.KubeSchedulerConfiguration).Profiles {
			points := profile.Plugins
			for _, set := range []config.PluginSet{points.MultiPoint, points.PreFilter, points.Filter, points.PostFilter, points.Score} {
				for _, p := range set.Enabled {
					require.Contains(t, known, p.Name, "%s, profile %s", file, profile.SchedulerName)
				}
			}
		}
	}
}

func item(name, metric string, data map[string]float64) benchmark.DataItem {
	return benchmark.DataItem{Labels: map[string]string{"Name": name, "Metric": metric}, Data: data}
}

func TestTheTableComparesRates(t *testing.T) {
	const prefix = "BenchmarkPerfScheduling/"
	items := benchmark.DataItems{Version: "v1", DataItems: []benchmark.DataItem{
		item(prefix+"Stock100/5000Nodes/namespace-2", metricThroughput, map[string]float64{"Average": 50}),
		item(prefix+"Mortise/1000Nodes/namespace-2", metricThroughput, map[string]float64{"Average": 210}),
		item(prefix+"Mortise/1000Nodes/namespace-2", metricAttempt, map[string]float64{"Perc99": 9.25}),
		item(prefix+"Mortise/5000Nodes/namespace-2", metricThroughput, map[string]float64{"Average": 100}),
	}}
	filter := item(prefix+"Mortise/1000Nodes/namespace-2", metricPoint, map[string]float64{"Perc99": 1.5})
	filter.Labels["extension_point"] = "Filter"
	items.DataItems = append(items.DataItems, filter)
	file := filepath.Join(t.TempDir(), "BenchmarkPerfScheduling_x.json")
	data, err := json.Marshal(items)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	found, err := resultFiles(filepath.Dir(file))
	require.NoError(t, err)
	require.Equal(t, []string{file}, found)
	table, err := compare(file)
	require.NoError(t, err)
	var rows []string
	for line := range strings.Lines(table) {
		if strings.Contains(line, "nodes") && strings.HasPrefix(line, "│") && !strings.Contains(line, "profile") {
			rows = append(rows, strings.Join(strings.Fields(strings.ReplaceAll(line, "│", " ")), " "))
		}
	}
	require.Equal(t, []string{
		"1000 Mortise, all nodes 210 1.50 9.25", "5000 Mortise, all nodes 100", "5000 stock, all nodes 50 2.00",
	}, rows)

	for _, name := range []string{"BenchmarkPerfScheduling", prefix + "Mortise/Small"} {
		_, err = collect([]benchmark.DataItem{item(name, metricThroughput, nil)})
		require.ErrorContains(t, err, "expected")
	}
}
