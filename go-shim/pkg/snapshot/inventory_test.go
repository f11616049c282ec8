package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
)

func nodeWith(resources map[string]string, annotations map[string]string) *v1.Node {
	list := v1.ResourceList{}
	for name, quantity := range resources {
		list[v1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations, Labels: map[string]string{api.LabelGPUProduct: "T4"}},
		Status:     v1.NodeStatus{Allocatable: list, Capacity: list},
	}
}

const twoCards = `[{"uuid":"GPU-b","index":1,"model":"T4","healthy":false},{"uuid":"GPU-a","index":0,"model":"T4","healthy":true}]`

func TestReadNodeModes(t *testing.T) {
	f := readNode(nodeWith(map[string]string{"cpu": "4"}, nil), nil)
	require.Equal(t, ModeCounts, f.mode)
	require.Zero(t, f.count)
	require.Empty(t, f.model)

	f = readNode(nodeWith(map[string]string{api.ResourceGPU: "8", api.ResourceGPUPercent: "0"}, nil), nil)
	require.Equal(t, ModeCounts, f.mode, "a left-over of a device plugin that is gone")
	require.Equal(t, 8, f.count)
	require.Equal(t, "T4", f.model)

	f = readNode(nodeWith(map[string]string{api.ResourceGPU: "80"}, nil), nil)
	require.Equal(t, ModeUntracked, f.mode, "replicas")

	enforced := nodeWith(map[string]string{api.ResourceGPU: "1", api.ResourceGPUPercent: "200"},
		map[string]string{api.AnnotationGPUInventory: twoCards})
	f = readNode(enforced, nil)
	require.Equal(t, ModeEnforced, f.mode)
	require.Empty(t, f.problem)
	require.Equal(t, []string{"GPU-a", "GPU-b"}, f.uuids)
	require.Equal(t, []uint16{1000, 0, 0}, f.capacity[:3], "an unhealthy card holds nothing")

	enforced.Status.Allocatable = v1.ResourceList{api.ResourceGPUPercent: resource.MustParse("0")}
	require.Equal(t, ModeEnforced, readNode(enforced, nil).mode, "all units withdrawn while the cards are used whole")
}

// A node whose description is broken is refused for GPU pods with the reason; it is never a node without cards.
func TestReadNodeProblems(t *testing.T) {
	percent := map[string]string{api.ResourceGPUPercent: "100"}
	for name, c := range map[string]struct{ inventory, allocation, says string }{
		"missing":            {"", "", "is missing"},
		"not JSON":           {"{", "", api.AnnotationGPUInventory},
		"no uuid":            {`[{"index":0}]`, "", "has no uuid"},
		"same uuid":          {`[{"uuid":"a","index":0},{"uuid":"a","index":1}]`, "", "twice"},
		"same index":         {`[{"uuid":"a","index":0},{"uuid":"b","index":0}]`, "", "taken"},
		"negative index":     {`[{"uuid":"a","index":-1}]`, "", "negative"},
		"bad allocation":     {twoCards, `[`, api.AnnotationGPUAllocation},
		"allocation without": {twoCards, `[{"podUID":"","devices":["GPU-a"]}]`, "not an allocation"},
		"no devices":         {twoCards, `[{"podUID":"x","devices":[]}]`, "not an allocation"},
		"share of two":       {twoCards, `[{"podUID":"x","devices":["GPU-a","GPU-b"],"percent":5}]`, "not an allocation"},
		"share of 100":       {twoCards, `[{"podUID":"x","devices":["GPU-a"],"percent":100}]`, "not an allocation"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if c.inventory != "" {
				annotations[api.AnnotationGPUInventory] = c.inventory
			}
			if c.allocation != "" {
				annotations[api.AnnotationGPUAllocation] = c.allocation
			}
			f := readNode(nodeWith(percent, annotations), nil)
			require.Equal(t, ModeEnforced, f.mode)
			require.Contains(t, f.problem, c.says)
			require.Zero(t, f.count)
		})
	}
}

// Reading a node again with the earlier facts at hand gives what reading it alone gives.
func TestReadNodeReusesTheInventory(t *testing.T) {
	resources := map[string]string{api.ResourceGPUPercent: "200"}
	before := readNode(nodeWith(resources, map[string]string{api.AnnotationGPUInventory: twoCards}), nil)
	next := nodeWith(resources, map[string]string{api.AnnotationGPUInventory: twoCards,
		api.AnnotationGPUAllocation: `[{"podUID":"x","devices":["GPU-a"],"percent":5}]`})
	require.Equal(t, readNode(next, nil), readNode(next, before))
	next.Annotations[api.AnnotationGPUInventory] = `[{"uuid":"GPU-c","index":0,"model":"T4","healthy":true}]`
	require.Equal(t, readNode(next, nil), readNode(next, before))
	next.Labels = nil
	require.Equal(t, readNode(next, nil), readNode(next, before))
}
