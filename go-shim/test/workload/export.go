package workload

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of the files that Export writes.
const (
	ExportedNodes = "nodes.csv"
	ExportedPods  = "pods.csv"
)

// Export writes the cluster and its arrivals, in their order, to ExportedNodes and ExportedPods in dir, with the columns of
// the openb trace. dir is made if it is not there.
func (w *Workload) Export(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	nodes := [][]string{{"sn", "cpu_milli", "memory_mib", "gpu", "model"}}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		nodes = append(nodes, []string{n.Name, decimal(n.CPUMilli), decimal(n.MemoryMiB), strconv.Itoa(n.GPUs), n.GPUModel})
	}
	pods := [][]string{{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"}}
	for i := range w.Pods {
		p := &w.Pods[i]
		pods = append(pods, []string{
			p.Name, decimal(p.CPUMilli), decimal(p.MemoryMiB), decimal(p.GPUs), decimal(p.GPUMilli), strings.Join(p.Models, "|"),
		})
	}
	if err := writeCSV(filepath.Join(dir, ExportedNodes), nodes); err != nil {
		return err
	}
	return writeCSV(filepath.Join(dir, ExportedPods), pods)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func writeCSV(path string, records [][]string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := csv.NewWriter(file)
	if err := writer.WriteAll(records); err != nil { // flushes
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Close()
}
