package plugin

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
)

func TestHints(t *testing.T) {
	node := gpuNode("n", 2, true)
	changed := func(mutate func(*v1.Node)) *v1.Node {
		out := node.DeepCopy()
		mutate(out)
		return out
	}
	waiting := gpuPod(api.ResourceGPU, "1")
	mended := waiting.DeepCopy()
	mended.Annotations = map[string]string{"x": "y"}
	touched := waiting.DeepCopy()
	touched.Status.Message = "x"
	for name, c := range map[string]struct {
		hint     fwk.QueueingHintFn
		old, new any
		want     fwk.QueueingHint
	}{
		"a GPU pod left":   {afterPodDeleted, gpuPod(api.ResourceGPU, "1"), nil, fwk.Queue},
		"a share left":     {afterPodDeleted, gpuPod(api.ResourceGPUPercent, "1"), nil, fwk.Queue},
		"a CPU pod left":   {afterPodDeleted, gpuPod("cpu", "1"), nil, fwk.QueueSkip},
		"a new node":       {afterNodeChanged, nil, node, fwk.Queue},
		"nothing of ours":  {afterNodeChanged, node, changed(func(n *v1.Node) { n.Labels["a"] = "b" }), fwk.QueueSkip},
		"inventory":        {afterNodeChanged, node, changed(func(n *v1.Node) { n.Annotations[api.AnnotationGPUInventory] = "[]" }), fwk.Queue},
		"allocation":       {afterNodeChanged, node, changed(func(n *v1.Node) { n.Annotations[api.AnnotationGPUAllocation] = "[]" }), fwk.Queue},
		"model":            {afterNodeChanged, node, changed(func(n *v1.Node) { n.Labels[api.LabelGPUProduct] = "A100" }), fwk.Queue},
		"cards":            {afterNodeChanged, node, changed(func(n *v1.Node) { n.Status.Allocatable[api.ResourceGPU] = resource.MustParse("1") }), fwk.Queue},
		"own annotations":  {afterOwnUpdate, waiting, mended, fwk.Queue},
		"own status alone": {afterOwnUpdate, waiting, touched, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.hint(klog.Background(), waiting, c.old, c.new)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := afterNodeChanged(klog.Background(), waiting, "not", "nodes")
	require.Error(t, err)
}
