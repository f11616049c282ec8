// Package perf runs Kubernetes' own scheduler benchmark, scheduler_perf, on Mortise's profile and on the stock profile of
// the same binary, and compares them. `make perf` is its way in.
package perf

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	benchmark "k8s.io/kubernetes/test/integration/scheduler_perf"
)

// Test cases of workloads.yaml, which are also the rows of the table.
const (
	caseMortise       = "Mortise"
	caseStock100      = "Stock100"
	caseStockAdaptive = "StockAdaptive"
)

var titles = []struct{ name, title string }{
	{caseMortise, "Mortise, all nodes"},
	{caseStock100, "stock, all nodes"},
	{caseStockAdaptive, "stock, adaptive"},
}

// Metrics by scheduler_perf's names, and the percentile that is shown. Its histograms are in milliseconds.
const (
	metricThroughput = "SchedulingThroughput"
	metricAttempt    = "scheduler_scheduling_attempt_duration_seconds"
	metricPoint      = "scheduler_framework_extension_point_duration_seconds"
)

// figures are what is shown of one workload under one profile.
type figures struct {
	podsPerSecond float64
	pointP99      map[string]float64 // milliseconds in all plugins and on all nodes, by extension point
	attemptP99    float64            // milliseconds from the queue to the end of binding
}

// resultFiles are the files with results in a directory, the oldest first.
func resultFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "BenchmarkPerfScheduling_*.json"))
	slices.Sort(files) // names end with the time
	return files, err
}

// compare draws the table of a file of results.
func compare(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var items benchmark.DataItems
	if err := json.Unmarshal(data, &items); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	results, err := collect(items.DataItems)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return draw(results), nil
}

// collect sorts results by number of nodes and test case.
func collect(items []benchmark.DataItem) (map[int]map[string]*figures, error) {
	results := map[int]map[string]*figures{}
	for _, item := range items {
		parts := strings.Split(item.Labels["Name"], "/") // benchmark, test case, workload, ...
		if len(parts) < 3 {
			return nil, fmt.Errorf("result %q, expected a test case and a workload in the name", item.Labels["Name"])
		}
		nodes, err := strconv.Atoi(strings.TrimSuffix(parts[2], "Nodes"))
		if err != nil {
			return nil, fmt.Errorf("workload %q, expected a name such as 1000Nodes", parts[2])
		}
		if results[nodes] == nil {
			results[nodes] = map[string]*figures{}
		}
		f := results[nodes][parts[1]]
		if f == nil {
			f = &figures{pointP99: map[string]float64{}}
			results[nodes][parts[1]] = f
		}
		switch item.Labels["Metric"] {
		case metricThroughput:
			f.podsPerSecond = item.Data["Average"]
		case metricAttempt:
			f.attemptP99 = item.Data["Perc99"]
		case metricPoint:
			f.pointP99[item.Labels["extension_point"]] = item.Data["Perc99"]
		}
	}
	return results, nil
}

func draw(results map[int]map[string]*figures) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"nodes", "profile", "pods/s", "p99 ms: PreFilter", "Filter", "Score", "attempt", "Mortise's rate / this"})
	var right []table.ColumnConfig
	for column := 3; column <= 8; column++ {
		right = append(right, table.ColumnConfig{Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	var counts []int
	for nodes := range results {
		counts = append(counts, nodes)
	}
	slices.Sort(counts)
	for _, nodes := range counts {
		ours := results[nodes][caseMortise]
		for _, c := range titles {
			f := results[nodes][c.name]
			if f == nil {
				continue
			}
			ratio := ""
			if ours != nil && f != ours && f.podsPerSecond > 0 {
				ratio = fmt.Sprintf("%.2f", ours.podsPerSecond/f.podsPerSecond)
			}
			t.AppendRow(table.Row{nodes, c.title, fmt.Sprintf("%.0f", f.podsPerSecond), milliseconds(f.pointP99["PreFilter"]),
				milliseconds(f.pointP99["Filter"]), milliseconds(f.pointP99["Score"]), milliseconds(f.attemptP99), ratio})
		}
		t.AppendSeparator()
	}
	return t.Render() + "\n"
}

// milliseconds shows a time; nothing where there is none.
func milliseconds(value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", value)
}
