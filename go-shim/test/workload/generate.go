package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// nodeShape is a kind of machine and its share of the generated cluster, in thousandths.
type nodeShape struct {
	model     string
	gpus      int
	cpuMilli  int64
	memoryMiB int64
	weight    int
}

// nodeShapes resembles the fleet of the openb trace: half of the machines have eight cards, a third two.
var nodeShapes = []nodeShape{
	{"G2", 8, 96_000, 393_216, 450},
	{"T4", 2, 104_000, 524_288, 310},
	{"P100", 2, 16_000, 122_880, 90},
	{"G3", 8, 128_000, 786_432, 35},
	{"V100M16", 4, 32_000, 131_072, 25},
	{"P100", 2, 64_000, 262_144, 20},
	{"V100M32", 8, 96_000, 786_432, 20},
	{"V100M16", 1, 8_000, 32_768, 15},
	{"T4", 4, 96_000, 393_216, 15},
	{"V100M32", 4, 48_000, 376_832, 10},
	{"A10", 1, 128_000, 1_048_576, 10},
}

// cardMemoryMiB is the memory of one card by model. The trace does not disclose what G2 and G3 are.
var cardMemoryMiB = map[string]int64{
	"A10": 24_576, "G2": 24_576, "G3": 40_960, "P100": 16_384, "T4": 15_360, "V100M16": 16_384, "V100M32": 32_768,
}

// podClass is a group of arrivals; weights are in thousandths of all pods.
type podClass struct {
	weight int
	gpus   int64
	milli  []weighted // thousandths of the one card; none means whole cards
	cpu    []weighted // milli
}

type weighted struct {
	value  int64
	weight int
}

// podClasses resembles the arrivals of the openb trace: half of the pods want one card, over a third a share of one, one
// in eight none; pods of several cards are rare, and large.
var podClasses = []podClass{
	{weight: 479, gpus: 1, cpu: []weighted{{3_000, 13}, {4_000, 6}, {8_000, 8}, {10_000, 8}, {11_000, 42}, {12_000, 8}, {16_000, 10}, {18_000, 8}, {24_000, 3}}},
	{weight: 376, gpus: 1,
		milli: []weighted{{50, 1}, {110, 1}, {160, 3}, {220, 2}, {230, 5}, {320, 11}, {370, 2}, {460, 4}, {470, 24}, {550, 3}, {590, 3}, {650, 8}, {810, 35}},
		cpu:   []weighted{{1_000, 1}, {3_000, 40}, {4_000, 18}, {6_000, 5}, {8_000, 16}, {12_000, 20}}},
	{weight: 134, cpu: []weighted{{8_000, 19}, {12_000, 34}, {16_000, 20}, {32_000, 27}}},
	{weight: 2, gpus: 2, cpu: []weighted{{6_000, 3}, {16_000, 5}, {30_000, 2}}},
	{weight: 3, gpus: 4, cpu: []weighted{{32_000, 8}, {60_000, 2}}},
	{weight: 6, gpus: 8, cpu: []weighted{{64_000, 5}, {88_000, 4}}},
}

// memoryPerCPU is the MiB that a pod asks for each CPU.
var memoryPerCPU = []weighted{{1_750, 30}, {3_800, 30}, {4_100, 25}, {5_200, 12}, {7_600, 3}}

// modelSets are the constraints of the constrainedThousandths of GPU pods that accept only some models.
var (
	constrainedThousandths = 100
	modelSets              = []struct {
		models []string
		weight int
	}{
		{[]string{"T4"}, 55}, {[]string{"G2"}, 14}, {[]string{"P100"}, 12}, {[]string{"V100M16", "V100M32"}, 7},
		{[]string{"P100", "V100M16", "V100M32"}, 5}, {[]string{"G3"}, 4}, {[]string{"G2", "P100", "T4", "V100M16", "V100M32"}, 3},
	}
)

// Generate returns a cluster of nodes machines and pods arrivals with the mix of the openb trace. The same arguments give
// the same workload.
func Generate(nodes, pods int, seed uint64) (*Workload, error) {
	if nodes < 1 || pods < 1 {
		return nil, fmt.Errorf("a workload needs at least one node and one pod, not %d and %d", nodes, pods)
	}
	w := &Workload{Name: fmt.Sprintf("generated, seed %d", seed), Nodes: generateNodes(nodes)}
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range pods {
		w.Pods = append(w.Pods, generatePod(rng, fmt.Sprintf("pod-%05d", i)))
	}
	w.Mix = w.Pods
	return w, nil
}

// generateNodes shares out n among the shapes by largest remainder: no chance is involved.
func generateNodes(n int) []simkubelet.NodeSpec {
	type quota struct{ shape, count, remainder int }
	quotas := make([]quota, len(nodeShapes))
	left := n
	for i, shape := range nodeShapes {
		quotas[i] = quota{i, n * shape.weight / 1000, n * shape.weight % 1000}
		left -= quotas[i].count
	}
	slices.SortStableFunc(quotas, func(a, b quota) int { return cmp.Compare(b.remainder, a.remainder) })
	for i := range left {
		quotas[i].count++
	}
	slices.SortFunc(quotas, func(a, b quota) int { return cmp.Compare(a.shape, b.shape) })

	var specs []simkubelet.NodeSpec
	for _, q := range quotas {
		shape := nodeShapes[q.shape]
		for range q.count {
			specs = append(specs, nodeSpec(fmt.Sprintf("node-%04d", len(specs)), shape.cpuMilli, shape.memoryMiB, shape.gpus, shape.model))
		}
	}
	return specs
}

func nodeSpec(name string, cpuMilli, memoryMiB int64, gpus int, model string) simkubelet.NodeSpec {
	return simkubelet.NodeSpec{
		Name: name, CPUMilli: cpuMilli, MemoryMiB: memoryMiB,
		GPUs: gpus, GPUModel: model, GPUMemoryMiB: cardMemoryMiB[model],
	}
}

func generatePod(rng *rand.Rand, name string) Pod {
	weights := make([]int, len(podClasses))
	for i := range podClasses {
		weights[i] = podClasses[i].weight
	}
	class := podClasses[draw(rng, weights)]
	pod := Pod{Name: name, GPUs: class.gpus, CPUMilli: drawValue(rng, class.cpu)}
	pod.MemoryMiB = pod.CPUMilli * drawValue(rng, memoryPerCPU) / 1000
	if class.gpus == 0 {
		return pod
	}
	pod.GPUMilli = MilliPerCard
	if len(class.milli) > 0 {
		pod.GPUMilli = drawValue(rng, class.milli)
	}
	if pod.GPUs == 1 && rng.IntN(1000) < constrainedThousandths {
		weights = weights[:0]
		for i := range modelSets {
			weights = append(weights, modelSets[i].weight)
		}
		pod.Models = modelSets[draw(rng, weights)].models
	}
	return pod
}

func drawValue(rng *rand.Rand, choices []weighted) int64 {
	weights := make([]int, len(choices))
	for i := range choices {
		weights[i] = choices[i].weight
	}
	return choices[draw(rng, weights)].value
}

// draw returns an index with a probability in proportion to its weight.
func draw(rng *rand.Rand, weights []int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	at := rng.IntN(total)
	for i, w := range weights {
		if at < w {
			return i
		}
		at -= w
	}
	return len(weights) - 1
}
