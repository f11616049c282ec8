package simkubelet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/controlplane"
	"mortise.dev/mortise/go-shim/test/simkubelet"
)

type fixture struct {
	t       *testing.T
	ctx     context.Context
	client  kubernetes.Interface
	kubelet *simkubelet.Kubelet
}

func newFixture(t *testing.T) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Stop()) })
	config, err := cp.RESTConfig(controlplane.Admin)
	require.NoError(t, err)
	client := kubernetes.NewForConfigOrDie(config)
	kubelet, err := simkubelet.Start(ctx, client, simkubelet.Options{})
	require.NoError(t, err)
	t.Cleanup(kubelet.Stop)
	return &fixture{t: t, ctx: ctx, client: client, kubelet: kubelet}
}

func (f *fixture) pod(name string, requests map[corev1.ResourceName]string, annotations map[string]string) *corev1.Pod {
	f.t.Helper()
	list := corev1.ResourceList{}
	for resourceName, quantity := range requests {
		list[resourceName] = resource.MustParse(quantity)
	}
	pod, err := f.client.CoreV1().Pods("default").Create(f.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(f.t, err)
	return pod
}

// bind does what a scheduler does; devices are the indices of the chosen cards, none means no choice.
func (f *fixture) bind(pod *corev1.Pod, node string, devices ...int) {
	f.t.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if len(devices) > 0 {
		choice := api.DeviceChoice{PodUID: string(pod.UID), Node: node}
		for _, index := range devices {
			choice.Devices = append(choice.Devices, simkubelet.DeviceUUID(node, index))
		}
		value, err := json.Marshal(choice)
		require.NoError(f.t, err)
		binding.Annotations = map[string]string{api.AnnotationGPUDevices: string(value)}
	}
	require.NoError(f.t, f.client.CoreV1().Pods(pod.Namespace).Bind(f.ctx, binding, metav1.CreateOptions{}))
}

func (f *fixture) eventuallyPhase(name string, phase corev1.PodPhase) {
	f.t.Helper()
	require.EventuallyWithT(f.t, func(c *assert.CollectT) {
		pod, err := f.client.CoreV1().Pods("default").Get(f.ctx, name, metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, phase, pod.Status.Phase)
	}, 20*time.Second, 20*time.Millisecond)
}

func (f *fixture) eventuallyGone(name string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		_, err := f.client.CoreV1().Pods("default").Get(f.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, 20*time.Second, 20*time.Millisecond)
}

func (f *fixture) eventuallyOffers(node string, cards, percent int64) {
	f.t.Helper()
	require.EventuallyWithT(f.t, func(c *assert.CollectT) {
		object, err := f.client.CoreV1().Nodes().Get(f.ctx, node, metav1.GetOptions{})
		require.NoError(c, err)
		allocatable := object.Status.Allocatable
		require.Equal(c, cards, allocatable.Name(api.ResourceGPU, "").Value())
		require.Equal(c, percent, allocatable.Name(api.ResourceGPUPercent, "").Value())
	}, 20*time.Second, 20*time.Millisecond)
}

func TestEnforcedNode(t *testing.T) {
	f := newFixture(t)
	spec := simkubelet.NodeSpec{Name: "n", CPUMilli: 64000, MemoryMiB: 1 << 18, GPUs: 4, GPUModel: "T4", GPUMemoryMiB: 15360}
	require.NoError(t, f.kubelet.AddNode(f.ctx, spec))
	f.eventuallyOffers("n", 4, 400)

	share := f.pod("share", map[corev1.ResourceName]string{api.ResourceGPUPercent: "47", "cpu": "2"}, nil)
	f.bind(share, "n", 2)
	f.eventuallyPhase("share", corev1.PodRunning)
	f.eventuallyOffers("n", 3, 400)

	pair := f.pod("pair", map[corev1.ResourceName]string{api.ResourceGPU: "2"}, nil)
	f.bind(pair, "n", 0, 3)
	f.eventuallyPhase("pair", corev1.PodRunning)
	f.eventuallyOffers("n", 3, 200)
	require.Empty(t, f.kubelet.Violations())

	node, err := f.client.CoreV1().Nodes().Get(f.ctx, "n", metav1.GetOptions{})
	require.NoError(t, err)
	var inventory []api.InventoryDevice
	require.NoError(t, json.Unmarshal([]byte(node.Annotations[api.AnnotationGPUInventory]), &inventory))
	require.Len(t, inventory, 4)
	require.Equal(t, api.InventoryDevice{
		UUID: simkubelet.DeviceUUID("n", 1), Index: 1, Model: "T4", MemoryMiB: 15360, Healthy: true,
	}, inventory[1])
	var held []api.PodAllocation
	require.NoError(t, json.Unmarshal([]byte(node.Annotations[api.AnnotationGPUAllocation]), &held))
	require.ElementsMatch(t, []api.PodAllocation{
		{PodUID: string(share.UID), Devices: []string{simkubelet.DeviceUUID("n", 2)}, Percent: 47},
		{PodUID: string(pair.UID), Devices: []string{simkubelet.DeviceUUID("n", 0), simkubelet.DeviceUUID("n", 3)}},
	}, held)

	states, err := f.kubelet.Snapshot()
	require.NoError(t, err)
	require.Equal(t, []simkubelet.NodeState{{
		Name: "n", GPUModel: "T4", CPUFreeMilli: 62000, MemoryFreeMiB: 1 << 18, GPUFreeMilli: []int64{0, 1000, 530, 0},
	}}, states)

	// A card that is held already is a double booking; the node falls back on a free card.
	f.bind(f.pod("clash", map[corev1.ResourceName]string{api.ResourceGPU: "1"}, nil), "n", 2)
	f.eventuallyPhase("clash", corev1.PodRunning)
	violations := f.kubelet.Violations()
	require.Len(t, violations, 1)
	require.Equal(t, simkubelet.DoubleBooked, violations[0].Reason)

	// Where nothing is free the pod fails, as a kubelet's admission would have it.
	f.bind(f.pod("refused", map[corev1.ResourceName]string{api.ResourceGPU: "1"}, nil), "n")
	f.eventuallyPhase("refused", corev1.PodFailed)
	violations = f.kubelet.Violations()
	require.Len(t, violations, 2)
	require.Equal(t, simkubelet.InsufficientDevices, violations[1].Reason)

	// A choice made for another pod is ignored, not obeyed.
	stolen := f.pod("stolen", map[corev1.ResourceName]string{api.ResourceGPUPercent: "10"}, map[string]string{
		api.AnnotationGPUDevices: fmt.Sprintf(`{"podUID":"x","node":"n","devices":["%s"]}`, simkubelet.DeviceUUID("n", 0)),
	})
	f.bind(stolen, "n")
	f.eventuallyPhase("stolen", corev1.PodRunning)
	require.Equal(t, []string{simkubelet.DeviceUUID("n", 2)}, f.kubelet.Allocations()[stolen.UID].Devices)
	require.Len(t, f.kubelet.Violations(), 2)

	require.NoError(t, f.kubelet.SetDeviceHealth("n", 1, false))
	f.eventuallyOffers("n", 2, 100)
	require.NoError(t, f.kubelet.RemoveNode(f.ctx, "n"))
	f.eventuallyGone("share")
	require.Empty(t, f.kubelet.Allocations())
}

func TestCountsNodeChoosesItself(t *testing.T) {
	f := newFixture(t)
	spec := simkubelet.NodeSpec{Name: "n", CPUMilli: 8000, MemoryMiB: 8192, GPUs: 2, GPUModel: "A10", Mode: simkubelet.Counts}
	require.NoError(t, f.kubelet.AddNode(f.ctx, spec))
	f.eventuallyOffers("n", 2, 0)
	pod := f.pod("p", map[corev1.ResourceName]string{api.ResourceGPU: "1"}, nil)
	f.bind(pod, "n", 1)
	f.eventuallyPhase("p", corev1.PodRunning)
	require.Equal(t, []string{simkubelet.DeviceUUID("n", 0)}, f.kubelet.Allocations()[pod.UID].Devices)
	f.eventuallyOffers("n", 2, 0)
}

func TestLifeAndDeath(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.kubelet.AddNode(f.ctx, simkubelet.NodeSpec{
		Name: "n", CPUMilli: 8000, MemoryMiB: 8192, GPUs: 3, GPUModel: "A10"}))
	gpu := map[corev1.ResourceName]string{api.ResourceGPU: "1"}

	// A pod that completes gives its card back, its object stays.
	f.bind(f.pod("completes", gpu, map[string]string{api.AnnotationSimRunsFor: "0.2"}), "n", 0)
	f.eventuallyPhase("completes", corev1.PodSucceeded)
	require.Eventually(t, func() bool { return len(f.kubelet.Allocations()) == 0 }, 20*time.Second, 20*time.Millisecond)

	// A pod that ignores SIGTERM keeps its card for the whole grace period; one that exits frees it before.
	stubborn := f.pod("stubborn", gpu, nil)
	f.bind(stubborn, "n", 0)
	quick := f.pod("quick", gpu, map[string]string{api.AnnotationSimExitsAfter: "0.1"})
	f.bind(quick, "n", 1)
	f.eventuallyPhase("stubborn", corev1.PodRunning)
	f.eventuallyPhase("quick", corev1.PodRunning)
	const grace = 4
	terminated := time.Now()
	for _, name := range []string{"stubborn", "quick"} {
		require.NoError(t, f.client.CoreV1().Pods("default").Delete(f.ctx, name, *metav1.NewDeleteOptions(grace)))
	}
	f.eventuallyGone("quick")
	held := f.kubelet.Allocations()
	require.Contains(t, held, stubborn.UID, "the card is held until the process ends")
	require.NotContains(t, held, quick.UID)
	f.eventuallyGone("stubborn")
	// deletionTimestamp has whole seconds, so the grace period may end up to one second early.
	require.GreaterOrEqual(t, time.Since(terminated), (grace-1)*time.Second)
	require.Eventually(t, func() bool { return len(f.kubelet.Allocations()) == 0 }, 20*time.Second, 20*time.Millisecond)

	// A pod that declares nonsense still runs, and says so.
	f.bind(f.pod("nonsense", gpu, map[string]string{api.AnnotationSimRunsFor: "NaN"}), "n", 0)
	f.eventuallyPhase("nonsense", corev1.PodRunning)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		events, err := f.client.CoreV1().Events("default").List(f.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=nonsense"})
		require.NoError(c, err)
		require.NotEmpty(c, events.Items)
		require.Contains(c, events.Items[0].Message, api.AnnotationSimRunsFor)
	}, 20*time.Second, 20*time.Millisecond)
	require.Empty(t, f.kubelet.Violations())
}
