package plugin

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"mortise.dev/mortise/go-shim/pkg/api"
)

func withCandidates(t *testing.T, n string) *config.KubeSchedulerConfiguration {
	data := readConfig(t, "scheduler-config.yaml")
	require.Contains(t, data, "candidateNodes: 128")
	return parseConfig(t, strings.Replace(data, "candidateNodes: 128", "candidateNodes: "+n, 1))
}

func mixedNodes(n int) (nodes []*v1.Node) {
	for i := range n {
		nodes = append(nodes, gpuNode(fmt.Sprintf("n%02d", i), []int{8, 4, 2}[i%3], true))
	}
	return nodes
}

func TestNarrowingDoesNotChangeTheChoice(t *testing.T) {
	requests := [][]string{
		{api.ResourceGPU, "1", "cpu", "8"}, {api.ResourceGPUPercent, "40", "cpu", "4"}, {"cpu", "6"},
		{api.ResourceGPU, "4", "cpu", "20"}, {api.ResourceGPUPercent, "70", "cpu", "2"}, {api.ResourceGPU, "2"},
	}
	var placements [2][]string
	for run, candidates := range []string{"0", "16"} {
		nodes := mixedNodes(45)
		nodes[3].Spec.Unschedulable = true
		nodes[4].Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
		h := newHarness(t, options{config: withCandidates(t, candidates), nodes: nodes})
		for i := range 60 {
			pod := gpuPod(requests[i%len(requests)]...)
			pod.Name = fmt.Sprintf("pod-%d", i)
			placements[run] = append(placements[run], h.waitBound(h.create(pod)).Spec.NodeName)
		}
	}
	require.Equal(t, placements[0], placements[1])
	require.NotContains(t, placements[0], "n03", "cordoned")
	require.NotContains(t, placements[0], "n04", "tainted")
}

// refuser is a plugin of somebody else that refuses all nodes but one.
type refuser struct{ only *atomic.Pointer[string] }

func (refuser) Name() string { return "Refuser" }

func (r refuser) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if only := r.only.Load(); only != nil && node.Node().Name != *only {
		return fwk.NewStatus(fwk.Unschedulable, "refused")
	}
	return nil
}

// Where all of the best nodes are refused, the pod gets the node that is left, and nobody is evicted for it.
func TestANodeBeyondTheBestIsFoundIfTheseAreRefused(t *testing.T) {
	var only atomic.Pointer[string]
	cfg := withCandidates(t, "16")
	plugins := &cfg.Profiles[0].Plugins.MultiPoint.Enabled
	*plugins = append(*plugins, config.Plugin{Name: "Refuser"})
	h := newHarness(t, options{config: cfg, nodes: mixedNodes(45), plugins: map[string]fwk.Plugin{"Refuser": refuser{&only}}})
	used := map[string]bool{}
	for range 30 {
		used[h.waitBound(h.create(gpuPod(api.ResourceGPU, "1"))).Spec.NodeName] = true
	}
	again, tried := 0, 0
	for i := range 45 {
		name := fmt.Sprintf("n%02d", i)
		if used[name] {
			continue // may be full: there a pod would be evicted with reason
		}
		tried++
		only.Store(&name)
		pod := gpuPod(api.ResourceGPUPercent, "30")
		priority := int32(1000)
		pod.Spec.Priority = &priority
		bound := h.waitBound(h.create(pod))
		require.Equal(t, name, bound.Spec.NodeName)
		for _, c := range bound.Status.Conditions {
			if strings.Contains(c.Message, "all nodes are looked at next") {
				again++
			}
		}
	}
	require.NotZero(t, again, "all nodes were among the best sixteen: the test shows nothing")
	pods, err := h.client.CoreV1().Pods("default").List(h.ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, 30+tried, len(pods.Items), "nobody was evicted")
}

func TestForeseeable(t *testing.T) {
	require.True(t, foreseeable(gpuPod(api.ResourceGPU, "1", "cpu", "1", "memory", "1Gi")))
	for name, change := range map[string]func(*v1.Pod){
		"node selector": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} },
		"host port":     func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} },
		"claimed volume": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
		},
		"other resource": func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/nic"] = p.Spec.Containers[0].Resources.Requests["cpu"]
		},
		"spread":       func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1}} },
		"pod affinity": func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}} },
		"nominated":    func(p *v1.Pod) { p.Status.NominatedNodeName = "n" },
		"claim":        func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c"}} },
		"node by name": func(p *v1.Pod) {
			p.Spec.Affinity = affinity(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn}}})
		},
		"zone by affinity": func(p *v1.Pod) {
			p.Spec.Affinity = affinity(v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn}}})
		},
	} {
		pod := gpuPod("cpu", "1", api.ResourceGPU, "1")
		change(pod)
		require.False(t, foreseeable(pod), name)
	}
	pod := gpuPod(api.ResourceGPU, "1")
	pod.Spec.NodeSelector = map[string]string{api.LabelGPUProduct: "T4"}
	pod.Spec.Affinity = affinity(v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
		Key: api.LabelGPUProduct, Operator: v1.NodeSelectorOpIn, Values: []string{"T4"}}}})
	require.True(t, foreseeable(pod), "the kernel knows models")
}

func affinity(term v1.NodeSelectorTerm) *v1.Affinity {
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
	}}
}

func TestWhatWasRefusedIsRememberedWithinBounds(t *testing.T) {
	var s wideSet
	require.False(t, s.take("a"))
	s.add("a")
	require.True(t, s.take("a"))
	require.False(t, s.take("a"), "once")
	for i := range 3 * wideLimit {
		s.add(gpuPod().UID)
		require.LessOrEqual(t, len(s.pods), wideLimit, i)
	}
}
