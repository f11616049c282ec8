package workload

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/simkubelet"
)

func TestGenerateHasTheMixOfOpenB(t *testing.T) {
	w, err := Generate(200, 20_000, 42)
	require.NoError(t, err)
	again, err := Generate(200, 20_000, 42)
	require.NoError(t, err)
	require.Equal(t, w, again, "same seed, same workload")
	other, err := Generate(200, 20_000, 43)
	require.NoError(t, err)
	require.NotEqual(t, w.Pods, other.Pods)

	require.Len(t, w.Nodes, 200)
	perNode := float64(w.GPUCapacityMilli()) / MilliPerCard / 200
	require.InDelta(t, 5.12, perNode, 0.3, "the trace has 6,212 cards on 1,213 nodes")

	counts := map[string]float64{}
	for _, pod := range w.Pods {
		require.NoError(t, pod.validate())
		switch {
		case pod.GPUs == 0:
			counts["cpu"]++
		case pod.GPUMilli < MilliPerCard:
			counts["share"]++
		case pod.GPUs == 1:
			counts["one"]++
		default:
			counts["many"]++
		}
	}
	for class, published := range map[string]float64{"cpu": 1088, "share": 3078, "one": 3911, "many": 75} {
		require.InDelta(t, published/8152, counts[class]/20_000, 0.02, class)
	}
	for _, n := range []int{1, 7, 1213} {
		w, err := Generate(n, 1, 1)
		require.NoError(t, err)
		require.Len(t, w.Nodes, n)
	}
	_, err = Generate(0, 5, 1)
	require.ErrorContains(t, err, "at least one node")
}

func TestPodObject(t *testing.T) {
	share := Pod{Name: "s", CPUMilli: 1500, MemoryMiB: 2, GPUs: 1, GPUMilli: 470, Models: []string{"A10", "T4"}}.Object("ns", "mortise")
	requests := share.Spec.Containers[0].Resources.Requests
	require.Equal(t, int64(47), requests.Name(api.ResourceGPUPercent, "").Value())
	require.NotContains(t, requests, api.ResourceGPU)
	require.Equal(t, int64(2<<20), requests.Memory().Value())
	terms := share.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Equal(t, []string{"A10", "T4"}, terms[0].MatchExpressions[0].Values)

	whole := Pod{Name: "w", GPUs: 8, GPUMilli: 1000}.Object("ns", "mortise").Spec
	require.Equal(t, int64(8), whole.Containers[0].Resources.Requests.Name(api.ResourceGPU, "").Value())
	require.NotContains(t, whole.Containers[0].Resources.Requests, api.ResourceGPUPercent)
	require.Nil(t, whole.Affinity)
}

func TestArrive(t *testing.T) {
	w, err := Generate(50, 3_000, 3)
	require.NoError(t, err)
	demand := w.GPUDemandMilli()
	for _, load := range []float64{0, 0.3, 1.3, 9} {
		pods := Arrive(w.Pods, w.GPUCapacityMilli(), load, 42)
		require.Equal(t, pods, Arrive(w.Pods, w.GPUCapacityMilli(), load, 42))
		names := map[string]bool{}
		var total int64
		for i := range pods {
			require.False(t, names[pods[i].Name], "names stay unique")
			names[pods[i].Name] = true
			total += pods[i].GPUTotalMilli()
		}
		target := int64(load * float64(w.GPUCapacityMilli()))
		switch {
		case load == 0:
			require.Equal(t, demand, total)
		case target < demand:
			require.LessOrEqual(t, total, target)
			require.Greater(t, total, target-8*MilliPerCard)
		default:
			require.InDelta(t, target, total, 8*MilliPerCard)
		}
	}
}

// The fragment measures against the definition written down card by card.
func TestFragmentationAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	models := []string{"A", "B"}
	for range 300 {
		var nodes []simkubelet.NodeState
		for range 1 + rng.IntN(4) {
			node := simkubelet.NodeState{GPUModel: models[rng.IntN(2)], CPUFreeMilli: rng.Int64N(9)}
			for range rng.IntN(5) {
				node.GPUFreeMilli = append(node.GPUFreeMilli, []int64{0, 190, 500, 1000}[rng.IntN(4)])
			}
			nodes = append(nodes, node)
		}
		var mix []WeightedKind
		for range 1 + rng.IntN(4) {
			kind := Kind{CPUMilli: rng.Int64N(9), GPUs: rng.Int64N(3), Models: []string{"", "A", "A|B"}[rng.IntN(3)]}
			kind.GPUMilli = []int64{0, []int64{100, 500, 1000}[rng.IntN(3)], 1000}[kind.GPUs]
			mix = append(mix, WeightedKind{kind, rng.Float64()})
		}
		var fragment float64
		var stranded int64
		for _, node := range nodes {
			for card, free := range node.GPUFreeMilli {
				usable := false
				for _, kind := range mix {
					if cardUsable(node, card, kind.Kind) {
						usable = true
					} else {
						fragment += kind.Frequency * float64(free)
					}
				}
				if !usable {
					stranded += free
				}
			}
		}
		require.InDelta(t, fragment, FragmentMilli(nodes, mix), 1e-6)
		require.Equal(t, stranded, StrandedMilli(nodes, mix))
	}
}

func cardUsable(node simkubelet.NodeState, card int, kind Kind) bool {
	if kind.GPUs == 0 || kind.CPUMilli > node.CPUFreeMilli || kind.Models == "A" && node.GPUModel != "A" {
		return false
	}
	others := int64(0)
	for i, free := range node.GPUFreeMilli {
		if i != card && free >= kind.GPUMilli {
			others++
		}
	}
	return node.GPUFreeMilli[card] >= kind.GPUMilli && others >= kind.GPUs-1
}

func TestTypicalKinds(t *testing.T) {
	pods := []Pod{{CPUMilli: 1}, {CPUMilli: 1}, {CPUMilli: 2}, {CPUMilli: 3, GPUs: 1, GPUMilli: 500}}
	kinds := Kinds(pods)
	require.Equal(t, Kind{CPUMilli: 1}, kinds[0].Kind)
	require.Equal(t, int64(500), kinds[1].GPUMilli, "of equally common kinds the larger comes first")
	typical := TypicalKinds(kinds, 0.75)
	require.Len(t, typical, 2)
	require.InDelta(t, 1, typical[0].Frequency+typical[1].Frequency, 1e-12)
}

const (
	goodNodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\n"
	goodPods  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np0,6000,12288,1,460,T4|G2,LS\np1,8000,100,0,0,,BE\n"
)

func writeTrace(t *testing.T, nodes, pods string) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openb_node_list_gpu_node.csv"), []byte(nodes), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openb_pod_list_default.csv"), []byte(pods), 0o600))
	return dir
}

func TestOpenBReadsBothColumnSets(t *testing.T) {
	w, err := OpenB(writeTrace(t, goodNodes, goodPods), "default", 0, 1)
	require.NoError(t, err)
	require.Equal(t, simkubelet.NodeSpec{
		Name: "n1", CPUMilli: 96000, MemoryMiB: 393216, GPUs: 8, GPUModel: "G2", GPUMemoryMiB: cardMemoryMiB["G2"],
	}, w.Nodes[1])
	require.Equal(t, Pod{Name: "p0", CPUMilli: 6000, MemoryMiB: 12288, GPUs: 1, GPUMilli: 460, Models: []string{"G2", "T4"}}, w.Mix[0])
	require.Len(t, w.Pods, 2)

	w, err = OpenB(writeTrace(t, goodNodes, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,6000,12288,2,1000\n"), "default", 0, 1)
	require.NoError(t, err)
	require.Equal(t, int64(2000), w.Mix[0].GPUTotalMilli())
}

func TestOpenBNamesFileLineColumnAndExpectation(t *testing.T) {
	podHeader := "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	for name, c := range map[string]struct{ nodes, pods, want string }{
		"not a number":    {goodNodes, podHeader + "p0,1,1,1,1000\np1,x,1,1,1000\n", `openb_pod_list_default.csv:3:4: column cpu_milli: "x", expected an integer from 0`},
		"empty number":    {goodNodes, podHeader + "p0,1,,1,1000\n", `:2:6: column memory_mib: "", expected an integer`},
		"negative":        {goodNodes, podHeader + "p0,1,1,-1,1000\n", `:2:8: column num_gpu: "-1", expected an integer from 0 to 16`},
		"overflow":        {goodNodes, podHeader + "p0,99999999999999999999,1,1,1000\n", `:2:4: column cpu_milli`},
		"share of many":   {goodNodes, podHeader + "p0,1,1,2,500\n", `:2:10: column gpu_milli: pod "p0": 2 GPUs of 500 milli`},
		"zero share":      {goodNodes, podHeader + "p0,1,1,1,0\n", `:2:10: column gpu_milli: pod "p0": gpu_milli is 0, expected a multiple of 10`},
		"odd share":       {goodNodes, podHeader + "p0,1,1,1,455\n", `gpu_milli is 455, expected a multiple of 10`},
		"milli alone":     {goodNodes, podHeader + "p0,1,1,0,10\n", `gpu_milli is 10 without a GPU`},
		"no name":         {goodNodes, podHeader + ",1,1,0,0\n", `:2:1: column name: is empty, expected a name`},
		"twice":           {goodNodes, podHeader + "p0,1,1,0,0\np0,1,1,0,0\n", `:3:1: column name: pod "p0" is listed twice`},
		"too few fields":  {goodNodes, podHeader + "p0,1,1\n", `line 2: wrong number of fields`},
		"open quote":      {goodNodes, podHeader + "\"p0,1,1,0,0\n", `openb_pod_list_default.csv: `},
		"missing column":  {goodNodes, "name,cpu_milli,num_gpu,gpu_milli\np0,1,0,0\n", `:1:1: no column memory_mib in the header`},
		"empty":           {"", goodPods, `openb_node_list_gpu_node.csv:1:1: the file is empty, expected a header`},
		"header only":     {"sn,cpu_milli,memory_mib,gpu,model\n", goodPods, `:2:1: no records`},
		"too many cards":  {"sn,cpu_milli,memory_mib,gpu,model\nn,1,1,17,T4\n", goodPods, `:2:7: column gpu: "17", expected an integer from 0 to 16`},
		"node twice":      {goodNodes + "n0,1,1,1,T4\n", goodPods, `:4:1: column sn: node "n0" is listed twice`},
		"node of no CPU":  {"sn,cpu_milli,memory_mib,gpu,model\nn,0,1,1,T4\n", goodPods, `:2:3: column cpu_milli: "0", expected an integer from 1`},
		"node of no name": {"sn,cpu_milli,memory_mib,gpu,model\n ,1,1,1,T4\n", goodPods, `:2:1: column sn: is empty`},
	} {
		_, err := OpenB(writeTrace(t, c.nodes, c.pods), "default", 1.3, 1)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := OpenB(t.TempDir(), "default", 1.3, 1)
	require.ErrorContains(t, err, "openb_node_list_gpu_node.csv")
	require.ErrorContains(t, err, "expected a CSV file with the columns sn, cpu_milli")
}

func TestExportIsReadBackAsItWas(t *testing.T) {
	w, err := Generate(20, 300, 7)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, w.Export(dir))
	nodes, err := readOpenBNodes(filepath.Join(dir, ExportedNodes))
	require.NoError(t, err)
	require.Equal(t, w.Nodes, nodes)
	pods, err := readOpenBPods(filepath.Join(dir, ExportedPods))
	require.NoError(t, err)
	require.Equal(t, w.Pods, pods)
	require.Error(t, w.Export(filepath.Join(dir, ExportedPods)), "a file is no directory")
}
