package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/test/cluster"
	"mortise.dev/mortise/go-shim/test/workload"
)

// 400 pods want 200 cards at once while one binding in twenty fails, before or after it took effect.
func TestRandomBindFailures(t *testing.T) {
	for _, c := range []struct {
		name                  string
		refuse, commitAndFail float64
	}{
		{"refused", 0.05, 0},
		{"refused or committed", 0.025, 0.025},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nodes(25, 8)...)
			f.submit(mortise, wholes("pod", 400)...)
			faults := cluster.RandomBindFaults(11, c.refuse, c.commitAndFail)
			f.startScheduler(faults)
			f.eventuallyRunning(200)
			f.eventuallyDecided()
			f.check()
			require.Len(t, f.pods(corev1.PodRunning), 200)
			require.Len(t, f.pods(corev1.PodPending), 200)
			require.Len(t, f.Kubelet.Allocations(), 200)
			require.Positive(t, faults.Refused.Load())
			require.Equal(t, c.commitAndFail > 0, faults.Committed.Load() > 0)
		})
	}
}

// Every binding takes effect and returns an error. The scheduler must find out; it must neither give the cards of such a
// pod to another one nor keep cards for pods that have left.
func TestBindingsCommittedButFailed(t *testing.T) {
	f := newFixture(t, nodes(1, 4)...)
	faults := cluster.NewBindFaults(func() cluster.Fault { return cluster.CommitAndFail })
	f.startScheduler(faults)
	f.submit(mortise, share("share-0", 60), share("share-1", 60))
	f.submit(mortise, wholes("whole", 2)...)
	f.eventuallyRunning(4)
	f.check()
	f.submit(mortise, wholes("late", 1)...)
	f.eventuallyDecided()
	require.Len(t, f.pods(corev1.PodRunning), 4, "all cards are in use")
	f.remove("whole-000")
	f.eventuallyRunning(4)
	f.check()
	require.EqualValues(t, 5, faults.Committed.Load(), "no pod was bound twice")
}

// A binding that is refused gives its cards back at once: the pod takes them in its next attempt, or another pod does.
func TestRefusedBindingsReleaseTheirCards(t *testing.T) {
	f := newFixture(t, nodes(1, 2)...)
	left := 3
	faults := cluster.NewBindFaults(func() cluster.Fault {
		if left > 0 {
			left--
			return cluster.Refuse
		}
		return cluster.Pass
	})
	f.startScheduler(faults)
	pair := workload.Pod{Name: "pair", CPUMilli: 1000, MemoryMiB: 1024, GPUs: 2, GPUMilli: workload.MilliPerCard}
	f.submit(mortise, pair)
	f.eventuallyRunning(1)
	f.check()
	require.EqualValues(t, 3, faults.Refused.Load())
}

// With one feasible node kube-scheduler skips PreScore and Score, so Reserve has to choose the cards.
func TestOneFeasibleNode(t *testing.T) {
	special := node("special", 2)
	special.GPUModel = "A10"
	f := newFixture(t, append(nodes(3, 2), special)...)
	f.startScheduler(nil)
	var pods []workload.Pod
	for i, percent := range []int64{70, 70, 30, 30} {
		pod := share(fmt.Sprint("share-", i), percent)
		pod.Models = []string{"A10"}
		pods = append(pods, pod)
	}
	f.submit(mortise, pods...)
	f.eventuallyRunning(4)
	f.check()
	for _, pod := range f.pods(corev1.PodRunning) {
		require.Equal(t, "special", pod.Spec.NodeName)
	}
}
