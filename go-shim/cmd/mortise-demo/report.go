package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Summary is what target/demo/summary.json holds. A run that was not made is null.
type Summary struct {
	Nodes   int     `json:"nodes"`
	Pods    int     `json:"pods"`
	Mortise *Result `json:"mortise"`
	Stock   *Result `json:"stock"`
}

// Result is the outcome of one run. Values that the scheduler did not measure are null.
type Result struct {
	PodsBound               int      `json:"pods_bound"`
	GPUAllocatedRatio       float64  `json:"gpu_allocated_ratio"`
	FragmentGPU             float64  `json:"fragment_gpu"`
	StrandedGPU             float64  `json:"stranded_gpu"`
	DecisionsPerSecond      float64  `json:"decisions_per_second"`
	PluginP50Ms             *float64 `json:"plugin_p50_ms"`
	PluginP99Ms             *float64 `json:"plugin_p99_ms"`
	KernelP50Us             *float64 `json:"kernel_p50_us"`
	KernelP99Us             *float64 `json:"kernel_p99_us"`
	CgoCallsPerScheduledPod *float64 `json:"cgo_calls_per_scheduled_pod"`
}

func (s *Summary) write(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// printTable shows the runs beside each other.
func (s *Summary) printTable(out io.Writer) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleRounded)
	t.Style().Format.Header = text.FormatDefault
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, Align: text.AlignRight, AlignHeader: text.AlignRight},
		{Number: 3, Align: text.AlignRight, AlignHeader: text.AlignRight},
	})
	t.AppendHeader(table.Row{fmt.Sprintf("%d nodes, %d pods", s.Nodes, s.Pods), "Mortise", "stock scoring"})
	row := func(name, format string, value func(*Result) *float64) {
		t.AppendRow(table.Row{name, cell(s.Mortise, format, value), cell(s.Stock, format, value)})
	}
	row("pods bound", "%.0f", func(r *Result) *float64 { v := float64(r.PodsBound); return &v })
	row("GPU allocated", "%.2f %%", func(r *Result) *float64 { v := 100 * r.GPUAllocatedRatio; return &v })
	row("fragment amount", "%.1f GPUs", func(r *Result) *float64 { return &r.FragmentGPU })
	row("stranded", "%.1f GPUs", func(r *Result) *float64 { return &r.StrandedGPU })
	t.AppendSeparator()
	row("decisions", "%.0f/s", func(r *Result) *float64 { return &r.DecisionsPerSecond })
	row("plugin, a pod: p50", "%.3f ms", func(r *Result) *float64 { return r.PluginP50Ms })
	row("plugin, a pod: p99", "%.3f ms", func(r *Result) *float64 { return r.PluginP99Ms })
	row("kernel, a call: p50", "%.1f µs", func(r *Result) *float64 { return r.KernelP50Us })
	row("kernel, a call: p99", "%.1f µs", func(r *Result) *float64 { return r.KernelP99Us })
	row("cgo calls, a scheduled pod", "%.2f", func(r *Result) *float64 { return r.CgoCallsPerScheduledPod })
	t.Render()
}

func cell(result *Result, format string, value func(*Result) *float64) string {
	if result == nil {
		return "-"
	}
	if v := value(result); v != nil {
		return fmt.Sprintf(format, *v)
	}
	return "-"
}
