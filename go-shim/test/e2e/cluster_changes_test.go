package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// A scheduler that is stopped in the middle of its work leaves nothing behind but what the API server knows: its
// successor must take every card in use for used and finish the rest.
func TestRestartInTheMiddle(t *testing.T) {
	f := newFixture(t, nodes(12, 8)...)
	rng := rand.New(rand.NewPCG(3, 3))
	scheduler := f.startScheduler(nil)
	for round, pods := 0, randomPods(rng, "pod", 160); round < 4; round++ {
		f.submit(mortise, pods[round*40:(round+1)*40]...)
		// Half of the round is decided when the scheduler goes, wherever it is in its work.
		require.Eventually(t, func() bool {
			return len(f.pods(corev1.PodRunning)) >= min(round*40+20, 60)
		}, settleTimeout, 10*time.Millisecond)
		scheduler.Stop()
		scheduler = f.startScheduler(nil)
	}
	f.eventuallyDecided()
	f.check()
	before := f.Kubelet.Allocations()

	// With everything decided a restart changes nothing, and what leaves makes room.
	scheduler.Stop()
	f.startScheduler(nil)
	f.submit(mortise, wholes("probe", 1)...)
	f.eventuallyDecided()
	f.check()
	after := f.Kubelet.Allocations()
	for uid, allocation := range before {
		require.Equal(t, allocation, after[uid])
	}
}

func TestNodesComeGoAndChange(t *testing.T) {
	f := newFixture(t, nodes(1, 2)...)
	f.startScheduler(nil)
	f.submit(mortise, wholes("pod", 4)...)
	f.eventuallyRunning(2)
	f.eventuallyDecided()

	// A new node takes what waits.
	require.NoError(t, f.Kubelet.AddNode(f.ctx, node("new", 2)))
	f.eventuallyRunning(4)
	f.check()

	// A node that is gone takes nothing, though the scheduler knew it; one of the same name starts empty.
	require.NoError(t, f.Kubelet.RemoveNode(f.ctx, "new"))
	f.submit(mortise, wholes("homeless", 1)...)
	f.eventuallyDecided()
	require.Len(t, f.pods(corev1.PodRunning), 2)
	require.NoError(t, f.Kubelet.AddNode(f.ctx, node("new", 2)))
	f.eventuallyRunning(3)
	f.check()

	// A card that becomes unhealthy is not used; when it recovers, it is.
	used := map[string]bool{}
	for _, allocation := range f.Kubelet.Allocations() {
		used[allocation.Devices[0]] = true
	}
	idle := 0
	if used[simkubelet.DeviceUUID("new", 0)] {
		idle = 1
	}
	require.NoError(t, f.Kubelet.SetDeviceHealth("new", idle, false))
	require.NoError(t, f.Kubelet.WaitIdle(f.ctx))
	f.submit(mortise, share("patient", 50))
	f.eventuallyDecided()
	require.Len(t, f.pods(corev1.PodRunning), 3)
	require.NoError(t, f.Kubelet.SetDeviceHealth("new", idle, true))
	f.eventuallyRunning(4)
	f.check()

	// A node whose model label changes serves the pods that ask for the new model.
	picky := share("picky", 10)
	picky.Models = []string{"H100"}
	f.submit(mortise, picky)
	f.eventuallyDecided()
	require.Len(t, f.pods(corev1.PodRunning), 4)
	setUps.Add(1)
	patch := []byte(`{"metadata":{"labels":{"` + api.LabelGPUProduct + `":"H100"}}}`)
	_, err := f.Client.CoreV1().Nodes().Patch(f.ctx, "new", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	f.eventuallyRunning(5)
	f.check()
}

// Pods come and go at random under both profiles. Nothing is double-booked on the way, and at the end the cluster empties.
func TestChurn(t *testing.T) {
	for _, profile := range []string{mortise, stock} {
		t.Run(profile, func(t *testing.T) {
			f := newFixture(t, append(nodes(6, 8), nodes(9, 2)[6:]...)...)
			f.startScheduler(nil)
			rng := rand.New(rand.NewPCG(9, 9))
			for round := range 4 {
				f.submit(profile, randomPods(rng, string(rune('a'+round)), 40)...)
				f.eventuallyDecided()
				f.check()
				require.NotEmpty(t, f.pods(corev1.PodRunning))
				for _, pod := range f.pods(corev1.PodRunning) {
					if rng.IntN(2) == 0 {
						f.remove(pod.Name)
					}
				}
			}
			require.NoError(t, f.RemovePods(f.ctx, namespace))
			f.submit(profile, wholes("after", 54)...)
			f.eventuallyRunning(54)
			f.check()
		})
	}
}

// A pod that keeps running through its grace period keeps its card, and the next pod gets it afterwards.
func TestTerminatingPodsHoldTheirCards(t *testing.T) {
	f := newFixture(t, nodes(1, 1)...)
	f.startScheduler(nil)
	first := wholes("first", 1)[0].Object(namespace, mortise)
	grace := int64(3)
	first.Spec.TerminationGracePeriodSeconds = &grace
	_, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, first, metav1.CreateOptions{})
	require.NoError(t, err)
	f.eventuallyRunning(1)
	require.NoError(t, f.Client.CoreV1().Pods(namespace).Delete(f.ctx, first.Name, metav1.DeleteOptions{}))
	f.submit(mortise, wholes("second", 1)...)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		pod, err := f.Client.CoreV1().Pods(namespace).Get(f.ctx, "second-000", metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, corev1.PodRunning, pod.Status.Phase)
	}, settleTimeout, 20*time.Millisecond)
	f.check()
}
