package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/legacyregistry"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

func choiceOf(t *testing.T, pod *v1.Pod) api.DeviceChoice {
	var choice api.DeviceChoice
	require.NoError(t, json.Unmarshal([]byte(pod.Annotations[api.AnnotationGPUDevices]), &choice))
	return choice
}

func (h *harness) calls() uint64 {
	return native.CallTotal(native.CallSync) + native.CallTotal(native.CallScore) + native.CallTotal(native.CallExplain)
}

func TestCardsArePublishedWithTheBindingOnEnforcedNodesOnly(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("enforced", 4, true), gpuNode("counted", 4, false)}})
	share := h.waitBound(h.create(gpuPod(api.ResourceGPUPercent, "30")))
	require.Equal(t, "enforced", share.Spec.NodeName, "the other node has no shares")
	choice := choiceOf(t, share)
	require.Equal(t, string(share.UID), choice.PodUID)
	require.Equal(t, "enforced", choice.Node)
	require.Len(t, choice.Devices, 1)

	pod := gpuPod(api.ResourceGPU, "4")
	pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "counted"}
	whole := h.waitBound(h.create(pod))
	require.NotContains(t, whole.Annotations, api.AnnotationGPUDevices)
	require.Len(t, h.bindings(), 2, "one write each")
}

func TestTwoCallsOfTheKernelForAScheduledPod(t *testing.T) {
	var nodes []*v1.Node
	for i := range 5 {
		nodes = append(nodes, gpuNode(fmt.Sprintf("n%d", i), 4, true))
	}
	h := newHarness(t, options{nodes: nodes})
	h.waitBound(h.create(gpuPod(api.ResourceGPU, "1"))) // the first also fills the kernel
	for i := range 12 {
		before := h.calls()
		request := []string{api.ResourceGPU, "1"}
		switch i % 3 {
		case 1:
			request = []string{api.ResourceGPUPercent, "40"}
		case 2:
			request = []string{"cpu", "2"}
		}
		h.waitBound(h.create(gpuPod(request...)))
		require.Equal(t, before+2, h.calls(), "%v", request)
	}

	// One feasible node: kube-scheduler skips PreScore, and Reserve asks.
	before := h.calls()
	only := gpuPod(api.ResourceGPUPercent, "50")
	only.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n3"}
	bound := h.waitBound(h.create(only))
	require.Equal(t, before+2, h.calls())
	require.Len(t, choiceOf(t, bound).Devices, 1)

	// And for a pod that fits nowhere: the state, and what is free.
	before = h.calls()
	h.waitPending(h.create(gpuPod(api.ResourceGPU, "5")))
	require.Equal(t, before+2, h.calls())

	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, family := range families {
		found[family.GetName()] = true
	}
	for _, name := range []string{
		"mortise_plugin_duration_seconds", "mortise_plugin_cycle_duration_seconds", "mortise_kernel_duration_seconds",
		"mortise_cgo_calls_total", "mortise_cgo_calls_per_scheduled_pod", "mortise_scheduled_pods_total", "mortise_kernel_up",
		"mortise_memo_hits_total", "mortise_memo_misses_total", "mortise_gpu_fragment", "mortise_gpu_stranded", "mortise_reservations",
	} {
		require.True(t, found[name], name)
	}
}

func TestTheStockProfileChoosesCardsAndDoesNotScore(t *testing.T) {
	h := newHarness(t, options{
		config: loadConfig(t, "demo-scheduler-config.yaml"),
		nodes:  []*v1.Node{gpuNode("a", 2, true), gpuNode("b", 2, true)},
	})
	used := map[string]int{}
	for range 4 {
		pod := gpuPod(api.ResourceGPUPercent, "60")
		pod.Spec.SchedulerName = "mortise-stock"
		before := h.calls()
		bound := h.waitBound(h.create(pod))
		require.LessOrEqual(t, h.calls(), before+3, "sync and cards; the first pod also fills the kernel")
		used[choiceOf(t, bound).Devices[0]]++
	}
	require.Len(t, used, 4, "60 % of a card each")
	pod := gpuPod(api.ResourceGPUPercent, "60")
	pod.Spec.SchedulerName = "mortise-stock"
	require.Contains(t, h.waitPending(h.create(pod)), reasonNoShare)
}

func TestMalformedRequestsArePendingWithAReason(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("n", 4, true)}})
	both := h.create(gpuPod(api.ResourceGPU, "1", api.ResourceGPUPercent, "50"))
	require.Contains(t, h.waitPending(both), "asks for both")

	kai := gpuPod("cpu", "1")
	kai.Annotations = map[string]string{"gpu-fraction": "0.5"}
	kai = h.create(kai)
	require.Contains(t, h.waitPending(kai), "gpu-fraction")
	// Mended, it is scheduled.
	kai = h.get(kai)
	kai.Annotations, kai.ResourceVersion = nil, "2" // versions are the API server's, which is not here
	_, err := h.client.CoreV1().Pods(kai.Namespace).Update(h.ctx, kai, metav1.UpdateOptions{})
	require.NoError(t, err)
	h.waitBound(kai)
}

func TestPendingForRoomOnOneCardUntilAPodLeaves(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("n", 2, true)}})
	first := h.waitBound(h.create(gpuPod(api.ResourceGPUPercent, "60")))
	h.waitBound(h.create(gpuPod(api.ResourceGPUPercent, "60")))
	share := h.create(gpuPod(api.ResourceGPUPercent, "70"))
	require.Contains(t, h.waitPending(share), reasonNoShare, "80 % are free, in two pieces")
	whole := h.create(gpuPod(api.ResourceGPU, "1"))
	require.Contains(t, h.waitPending(whole), reasonNoWholeCards)

	require.NoError(t, h.client.CoreV1().Pods("default").Delete(h.ctx, first.Name, metav1.DeleteOptions{}))
	h.eventually(func() bool { return h.get(share).Spec.NodeName != "" || h.get(whole).Spec.NodeName != "" },
		"nobody got the card that became free")
}

func TestCardsAreKnownAgainAfterARestart(t *testing.T) {
	node := gpuNode("n", 4, true)
	first := newHarness(t, options{nodes: []*v1.Node{node}})
	held := map[string]bool{}
	var pods []*v1.Pod
	for range 3 {
		pod := first.waitBound(first.create(gpuPod(api.ResourceGPU, "1")))
		held[choiceOf(t, pod).Devices[0]] = true
		pods = append(pods, pod)
	}
	require.Len(t, held, 3)
	second := newHarness(t, options{nodes: []*v1.Node{node}, stopped: false})
	for _, pod := range pods {
		pod.ResourceVersion = ""
		second.create(pod)
	}
	last := second.waitBound(second.create(gpuPod(api.ResourceGPU, "1")))
	require.False(t, held[choiceOf(t, last).Devices[0]])
	require.Contains(t, second.waitPending(second.create(gpuPod(api.ResourceGPUPercent, "10"))), reasonNoShare)
}

func TestABindingThatWasCommittedButReturnedAnError(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("n", 1, true)}})
	for name, err := range map[string]error{
		"timeout":  apierrors.NewTimeoutError("etcd is slow", 1),
		"conflict": apierrors.NewConflict(v1.Resource("pods"), "p", errors.New("already assigned: a retry of the same write")),
		"network":  errors.New("connection reset by peer"),
	} {
		h.onBind(func(*v1.Binding) bindResult { return bindResult{commit: true, err: err} })
		before := len(h.bindings())
		pod := h.create(gpuPod(api.ResourceGPU, "1"))
		bound := h.waitBound(pod)
		require.Len(t, choiceOf(t, bound).Devices, 1, name)
		h.eventually(func() bool { all, _ := h.plugin.mirror.Reservations(); return all <= 1 }, "reservation stays")
		require.Len(t, h.bindings(), before+1, "%s: taken for a success, not tried again", name)
		require.NoError(t, h.client.CoreV1().Pods("default").Delete(h.ctx, pod.Name, metav1.DeleteOptions{}))
	}
}

func TestABindingThatWasRefusedIsTriedAgain(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("n", 1, true)}})
	var failed atomic.Bool
	h.onBind(func(*v1.Binding) bindResult {
		if failed.CompareAndSwap(false, true) {
			return bindResult{err: apierrors.NewForbidden(v1.Resource("pods"), "p", errors.New("a webhook said no"))}
		}
		return bindResult{commit: true}
	})
	h.waitBound(h.create(gpuPod(api.ResourceGPU, "1")))
	_, quarantined := h.plugin.mirror.Reservations()
	require.Zero(t, quarantined)
	require.Len(t, h.bindings(), 2)
}

// A write that timed out and is not visible may still land: its card is not given to anybody else.
func TestABindingInDoubtKeepsItsCard(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("a", 1, true)}})
	var late atomic.Pointer[v1.Binding]
	h.onBind(func(b *v1.Binding) bindResult {
		if late.CompareAndSwap(nil, b) {
			return bindResult{err: apierrors.NewTimeoutError("no answer", 1)}
		}
		return bindResult{commit: true}
	})
	unlucky := gpuPod(api.ResourceGPU, "1")
	unlucky.Spec.Priority = new(int32)
	unlucky = h.create(unlucky)
	h.eventually(func() bool {
		_, q := h.plugin.mirror.Reservations()
		return q == 1 || h.get(unlucky).Spec.NodeName != ""
	},
		"the card is not in quarantine")
	// The same pod may have it on its next attempt, another may not.
	other := gpuPod(api.ResourceGPU, "1")
	other = h.create(other)
	bound := h.waitBound(unlucky)
	require.Equal(t, "a", bound.Spec.NodeName)
	require.Contains(t, h.waitPending(other), "Insufficient")
	require.Empty(t, h.get(other).Spec.NodeName)
}

// Nobody can be asked whether the binding happened: it did, and the informer says so.
func TestABindingThatNobodyCanReadAbout(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("a", 1, true)}})
	var blind atomic.Bool
	blind.Store(true)
	h.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if blind.Load() {
			return true, nil, apierrors.NewServiceUnavailable("down")
		}
		return false, nil, nil
	})
	var late atomic.Pointer[v1.Binding]
	h.onBind(func(b *v1.Binding) bindResult {
		if late.CompareAndSwap(nil, b) {
			return bindResult{err: errors.New("connection refused")}
		}
		return bindResult{err: apierrors.NewServiceUnavailable("down")}
	})
	pod := h.create(gpuPod(api.ResourceGPU, "1"))
	h.eventually(func() bool { _, q := h.plugin.mirror.Reservations(); return q == 1 }, "the card is not in quarantine")
	require.NoError(t, h.commit(late.Load()), "the write lands after all")
	blind.Store(false)
	bound := h.waitBound(pod)
	h.eventually(func() bool {
		probe := h.create(gpuPod("cpu", "1")) // a cycle, so that the snapshot is read
		h.onBind(nil)
		h.waitBound(probe)
		all, q := h.plugin.mirror.Reservations()
		return all == 0 && q == 0
	}, "the quarantine does not end")
	require.Equal(t, "a", bound.Spec.NodeName)
	require.Contains(t, h.waitPending(h.create(gpuPod(api.ResourceGPUPercent, "10"))), reasonNoShare)
}

// Bindings fail in every way there is; no card is ever given twice, and in the end every card is used.
func TestNoCardIsGivenTwiceWhileBindingsFail(t *testing.T) {
	const nodes, cards = 4, 8
	var list []*v1.Node
	for i := range nodes {
		list = append(list, gpuNode(fmt.Sprintf("n%d", i), cards, true))
	}
	h := newHarness(t, options{nodes: list})
	random := rand.New(rand.NewPCG(5, 6))
	h.onBind(func(*v1.Binding) bindResult {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch random.IntN(12) {
		case 0:
			return bindResult{commit: true, err: apierrors.NewTimeoutError("late", 1)}
		case 1:
			return bindResult{err: apierrors.NewForbidden(v1.Resource("pods"), "p", errors.New("no"))}
		case 2:
			return bindResult{err: errors.New("connection refused")}
		}
		return bindResult{commit: true}
	})
	for range nodes * cards * 3 / 2 {
		h.create(gpuPod(api.ResourceGPU, "1"))
	}
	boundPods := func() int {
		owners := map[string]string{}
		pods, err := h.client.CoreV1().Pods("default").List(h.ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName != "" {
				choice := choiceOf(t, pod)
				require.Len(t, choice.Devices, 1)
				require.Empty(t, owners[choice.Devices[0]], "%s and %s", pod.Name, owners[choice.Devices[0]])
				owners[choice.Devices[0]] = pod.Name
			}
		}
		return len(owners)
	}
	h.eventually(func() bool { return boundPods() == nodes*cards }, "not all cards are used")
}

// A kernel that dies does not stop the scheduler.
func TestPodsAreBoundWithoutAKernel(t *testing.T) {
	h := newHarness(t, options{nodes: []*v1.Node{gpuNode("a", 4, true), gpuNode("b", 4, true)}})
	h.waitBound(h.create(gpuPod(api.ResourceGPU, "1")))
	require.NoError(t, h.plugin.mirror.Kernel().Close())
	used := map[string]int{}
	for range 6 {
		bound := h.waitBound(h.create(gpuPod(api.ResourceGPUPercent, "50")))
		used[choiceOf(t, bound).Devices[0]]++
	}
	for card, pods := range used {
		require.LessOrEqual(t, pods, 2, card)
	}
	h.eventually(func() bool {
		h.waitBound(h.create(gpuPod("cpu", "1")))
		return h.plugin.mirror.Kernel() != nil
	}, "no new kernel")
	fresh, err := h.plugin.mirror.Kernel().Fragmentation()
	require.NoError(t, err)
	require.EqualValues(t, 8000, fresh.CapacityMilli)
	require.EqualValues(t, 4000, fresh.IdleMilli)
}

// A node that had MIG once is a node with whole cards, and one that has both serves both.
func TestWholeCardsBesideMIG(t *testing.T) {
	once, mixed := gpuNode("once", 8, false), gpuNode("mixed", 2, false)
	for _, list := range []v1.ResourceList{once.Status.Allocatable, once.Status.Capacity} {
		list["nvidia.com/mig-1g.24gb"] = resource.MustParse("0")
	}
	for _, list := range []v1.ResourceList{mixed.Status.Allocatable, mixed.Status.Capacity} {
		list["nvidia.com/mig-1g.10gb"] = resource.MustParse("7")
	}
	h := newHarness(t, options{nodes: []*v1.Node{once, mixed}})
	for range 8 + 2 {
		h.waitBound(h.create(gpuPod(api.ResourceGPU, "1")))
	}
	for range 7 {
		require.Equal(t, "mixed", h.waitBound(h.create(gpuPod("nvidia.com/mig-1g.10gb", "1"))).Spec.NodeName)
	}
	require.Contains(t, h.waitPending(h.create(gpuPod(api.ResourceGPU, "1"))), "Insufficient nvidia.com/gpu")
}

// Four half cards on two nodes of two cards: whole-card-first uses two cards of one node.
func TestWholeCardFirstKeepsANodeWhole(t *testing.T) {
	cfg := parseConfig(t, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: mortise
    plugins:
      multiPoint: {enabled: [{name: GPUStranding, weight: 1000}]}
      score: {disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]}
      bind: {disabled: [{name: DefaultBinder}]}
    pluginConfig:
      - {name: GPUStranding, args: {strategy: whole-card-first}}
`)
	h := newHarness(t, options{config: cfg, nodes: []*v1.Node{gpuNode("a", 2, true), gpuNode("b", 2, true)}})
	nodes, cards := map[string]int{}, map[string]int{}
	for range 4 {
		bound := h.waitBound(h.create(gpuPod(api.ResourceGPUPercent, "50")))
		nodes[bound.Spec.NodeName]++
		cards[choiceOf(t, bound).Devices[0]]++
	}
	require.Len(t, nodes, 1)
	require.Len(t, cards, 2)
}

func TestUnschedulablePodIsWokenByItsNode(t *testing.T) {
	node := gpuNode("n", 1, true)
	node.Annotations[api.AnnotationGPUInventory] = "{"
	h := newHarness(t, options{nodes: []*v1.Node{node}})
	pod := h.create(gpuPod(api.ResourceGPU, "1"))
	require.Contains(t, h.waitPending(pod), reasonBadNode)
	_, err := h.client.CoreV1().Nodes().Update(h.ctx, gpuNode("n", 1, true), metav1.UpdateOptions{})
	require.NoError(t, err)
	h.waitBound(pod)
}
