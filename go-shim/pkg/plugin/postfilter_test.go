package plugin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// pinned asks for whole cards of one node.
func pinned(node string, cards int) *v1.Pod {
	pod := gpuPod(api.ResourceGPU, fmt.Sprint(cards))
	pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	return pod
}

// waitEvent waits for an event of the pod, and returns its text.
func (h *harness) waitEvent(pod *v1.Pod, reason string) string {
	h.t.Helper()
	note := ""
	h.eventually(func() bool {
		list, err := h.client.EventsV1().Events(pod.Namespace).List(h.ctx, metav1.ListOptions{})
		require.NoError(h.t, err)
		for _, event := range list.Items {
			if event.Regarding.UID == pod.UID && event.Reason == reason {
				note = event.Note
				return true
			}
		}
		return false
	}, "pod %s has no event %s", pod.Name, reason)
	return note
}

func TestAPendingPodIsToldWhatIsFree(t *testing.T) {
	cases := []struct {
		name  string
		cards int
		held  [][]int // cards of the pods, by node
		ask   []string
		want  string
	}{
		{"fragmented", 8, [][]int{{4, 2, 1}, {4, 2}, {4, 2, 1}}, []string{api.ResourceGPU, "4"}, "4 GPUs free on 3 nodes, largest hole 2"},
		{"other figures", 4, [][]int{{1}, {2}, {3}, {3}, {3}}, []string{api.ResourceGPU, "4"}, "8 GPUs free on 5 nodes, largest hole 3"},
		{"all in use", 2, [][]int{{2}, {1, 1}}, []string{api.ResourceGPU, "1"}, "0 whole GPUs free on 2 nodes"},
		{"more than a node has", 4, [][]int{{1}, {}}, []string{api.ResourceGPU, "8"}, "7 GPUs free on 2 nodes, largest hole 4"},
	}
	for _, enforced := range []bool{false, true} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s, enforced %v", c.name, enforced), func(t *testing.T) {
				var nodes []*v1.Node
				for i := range c.held {
					nodes = append(nodes, gpuNode(fmt.Sprintf("n%d", i), c.cards, enforced))
				}
				h := newHarness(t, options{nodes: nodes})
				for i, held := range c.held {
					for _, cards := range held {
						h.waitBound(h.create(pinned(fmt.Sprintf("n%d", i), cards)))
					}
				}
				pod := h.create(gpuPod(c.ask...))
				message := h.waitPending(pod)
				require.Contains(t, message, c.want)
				require.Equal(t, message, h.waitEvent(pod, "FailedScheduling"))
				t.Log(message)
			})
		}
	}
}

func TestSharesAreToldOfTheLargestPiece(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("a", 2, true), gpuNode("b", 1, true), gpuNode("counted", 4, false)}})
	for _, percent := range []string{"80", "70", "60"} {
		h.waitBound(h.create(gpuPod(api.ResourceGPUPercent, percent)))
	}
	require.Contains(t, h.waitPending(h.create(gpuPod(api.ResourceGPUPercent, "50"))),
		"0.9 GPUs free on 2 nodes, largest hole 40 % of a card", "the third node offers no shares")
	pod := gpuPod(api.ResourceGPU, "5")
	require.Contains(t, h.waitPending(h.create(pod)), "4 GPUs free on 1 node, largest hole 4, 0.9 more in parts of cards")
}

// What stands behind a taint, a cordon or another model is not free for the pod.
func TestOnlyNodesThatLackRoomAreCounted(t *testing.T) {
	tainted, cordoned, other := gpuNode("tainted", 8, true), gpuNode("cordoned", 8, true), gpuNode("other", 8, true)
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	cordoned.Spec.Unschedulable = true
	other.Labels[api.LabelGPUProduct] = "A100"
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("n", 2, true), tainted, cordoned, other}})
	pod := gpuPod(api.ResourceGPU, "4")
	pod.Spec.NodeSelector = map[string]string{api.LabelGPUProduct: "T4"}
	require.Contains(t, h.waitPending(h.create(pod)), "2 GPUs free on 1 node, largest hole 2")
	pod = gpuPod(api.ResourceGPU, "4")
	pod.Spec.NodeSelector = map[string]string{api.LabelGPUProduct: "none"}
	require.NotContains(t, h.waitPending(h.create(pod)), "free", "no node lacks room alone")
	before := native.CallTotal(native.CallExplain)
	require.NotContains(t, h.waitPending(h.create(gpuPod("cpu", "1000"))), "GPU")
	require.Equal(t, before, native.CallTotal(native.CallExplain), "a pod without GPUs costs no call")
}

// The same arrivals from empty leave room for a pod that asks for four cards, wherever the pods come.
func TestArrivalsLeaveAHoleOfFour(t *testing.T) {
	for seed := range int64(3) {
		var nodes []*v1.Node
		for i := range 3 {
			nodes = append(nodes, gpuNode(fmt.Sprintf("n%d", i), 8, true))
		}
		config := loadConfig(t, "scheduler-config.yaml")
		for i := range config.Profiles[0].PluginConfig {
			if args, ok := config.Profiles[0].PluginConfig[i].Args.(*api.GPUStrandingArgs); ok {
				args.Seed = &seed
			}
		}
		h := newHarness(t, options{nodes: nodes, config: config})
		for _, cards := range []int{4, 2, 1, 4, 2, 4, 2, 1} {
			h.waitBound(h.create(gpuPod(api.ResourceGPU, fmt.Sprint(cards))))
		}
		h.waitBound(h.create(gpuPod(api.ResourceGPU, "4")))
	}
}
