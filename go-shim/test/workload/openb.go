package workload

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// Names of the openb files (Alibaba cluster trace, GPU 2023).
const (
	openbNodeFile   = "openb_node_list_gpu_node.csv"
	openbPodPattern = "openb_pod_list_%s.csv"
)

// OpenB reads the nodes and one pod list of the openb trace from dir and returns its arrivals at the given load (see
// Arrive). trace names the pod list: default, multigpu20 and so on.
func OpenB(dir, trace string, load float64, seed uint64) (*Workload, error) {
	nodes, err := readOpenBNodes(filepath.Join(dir, openbNodeFile))
	if err != nil {
		return nil, err
	}
	pods, err := readOpenBPods(filepath.Join(dir, fmt.Sprintf(openbPodPattern, trace)))
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: fmt.Sprintf("openb %s, load %g, seed %d", trace, load, seed), Nodes: nodes, Mix: pods}
	w.Pods = Arrive(pods, w.GPUCapacityMilli(), load, seed)
	return w, nil
}

func readOpenBNodes(path string) ([]simkubelet.NodeSpec, error) {
	var nodes []simkubelet.NodeSpec
	seen := map[string]bool{}
	err := readCSV(path, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, nil, func(r *row) error {
		name := r.text("sn")
		cpu, memory := r.integer("cpu_milli", 1, 1<<40), r.integer("memory_mib", 1, 1<<40)
		gpus, model := r.integer("gpu", 0, 16), r.text("model")
		if r.err == nil && seen[name] {
			r.fail("sn", fmt.Sprintf("node %q is listed twice, expected unique names", name))
		}
		seen[name] = true
		nodes = append(nodes, nodeSpec(name, cpu, memory, int(gpus), model))
		return r.err
	})
	return nodes, err
}

func readOpenBPods(path string) ([]Pod, error) {
	required := []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
	var pods []Pod
	seen := map[string]bool{}
	err := readCSV(path, required, []string{"gpu_spec"}, func(r *row) error {
		pod := Pod{
			Name: r.text("name"), CPUMilli: r.integer("cpu_milli", 0, 1<<40), MemoryMiB: r.integer("memory_mib", 0, 1<<40),
			GPUs: r.integer("num_gpu", 0, 16), GPUMilli: r.integer("gpu_milli", 0, 1<<20),
		}
		pod.GPUMilli = min(pod.GPUMilli, MilliPerCard)
		if spec := r.optional("gpu_spec"); spec != "" && pod.GPUs > 0 {
			pod.Models = strings.Split(spec, "|")
			slices.Sort(pod.Models)
			pod.Models = slices.Compact(pod.Models)
		}
		if r.err == nil && seen[pod.Name] {
			r.fail("name", fmt.Sprintf("pod %q is listed twice, expected unique names", pod.Name))
		}
		seen[pod.Name] = true
		if err := pod.validate(); r.err == nil && err != nil {
			r.fail("gpu_milli", err.Error())
		}
		pods = append(pods, pod)
		return r.err
	})
	return pods, err
}

// row is one record of a CSV file. Its first error sticks and names file, line and column.
type row struct {
	path    string
	reader  *csv.Reader
	columns map[string]int
	fields  []string
	err     error
}

func (r *row) fail(column, problem string) {
	if r.err == nil {
		line, position := r.reader.FieldPos(r.columns[column])
		r.err = fmt.Errorf("%s:%d:%d: column %s: %s", r.path, line, position, column, problem)
	}
}

func (r *row) optional(column string) string {
	at, ok := r.columns[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.fields[at])
}

func (r *row) text(column string) string {
	value := r.optional(column)
	if value == "" {
		r.fail(column, "is empty, expected a name")
	}
	return value
}

func (r *row) integer(column string, low, high int64) int64 {
	value := r.optional(column)
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		r.fail(column, fmt.Sprintf("%q, expected an integer from %d to %d", value, low, high))
		return low
	}
	return n
}

// readCSV calls each for every record of the file at path after it has found the required columns in its header.
func readCSV(path string, required, optional []string, each func(*row) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w; expected a CSV file with the columns %s", err, strings.Join(required, ", "))
	}
	defer file.Close()
	reader := csv.NewReader(file)
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s:1:1: the file is empty, expected a header with the columns %s", path, strings.Join(required, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	columns := map[string]int{}
	for i, name := range header {
		name = strings.TrimPrefix(strings.TrimSpace(name), "\ufeff")
		if slices.Contains(required, name) || slices.Contains(optional, name) {
			columns[name] = i
		}
	}
	for _, name := range required {
		if _, ok := columns[name]; !ok {
			return fmt.Errorf("%s:1:1: no column %s in the header %q, expected %s",
				path, name, strings.Join(header, ","), strings.Join(required, ", "))
		}
	}
	records := 0
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err) // csv.ParseError names line and column
		}
		if err := each(&row{path: path, reader: reader, columns: columns, fields: fields}); err != nil {
			return err
		}
		records++
	}
	if records == 0 {
		return fmt.Errorf("%s:2:1: no records, expected at least one", path)
	}
	return nil
}
