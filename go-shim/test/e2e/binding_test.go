package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/test/cluster"
	"mortise.dev/mortise/go-shim/test/workload"
)

// 400 pods want 200 cards at once while one binding in twenty fails, in every way in which it can.
func TestRandomBindFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []cluster.Likelihood
	}{
		{"refused", []cluster.Likelihood{{Fault: cluster.Refuse, Probability: 0.05}}},
		{"refused or committed", []cluster.Likelihood{{Fault: cluster.Refuse, Probability: 0.025},
			{Fault: cluster.CommitAndFail, Probability: 0.025}}},
		{"lost or late", []cluster.Likelihood{{Fault: cluster.Lose, Probability: 0.025}, {Fault: cluster.Delay, Probability: 0.025}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nodes(25, 8)...)
			f.submit(mortise, wholes("pod", 400)...)
			faults := cluster.RandomBindFaults(11, c.faults...)
			f.startScheduler(faults)
			f.eventuallyRunning(200)
			f.eventuallyDecided()
			faults.Wait()
			f.check()
			require.Len(t, f.pods(corev1.PodRunning), 200)
			require.Len(t, f.pods(corev1.PodPending), 200)
			require.Len(t, f.Kubelet.Allocations(), 200)
			count := map[cluster.Fault]int64{
				cluster.Refuse: faults.Refused.Load(), cluster.CommitAndFail: faults.Committed.Load(),
				cluster.Lose: faults.Lost.Load(), cluster.Delay: faults.Delayed.Load(),
			}
			for _, likely := range c.faults {
				require.Positive(t, count[likely.Fault], "fault %d", likely.Fault)
			}
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

// first makes faults of the first n binding requests.
func first(n int, fault cluster.Fault) *cluster.BindFaults {
	return cluster.NewBindFaults(func() cluster.Fault {
		if n--; n >= 0 {
			return fault
		}
		return cluster.Pass
	})
}

// A binding request that got lost looks like one whose answer got lost, and like one that is still under way. Its card is
// kept for the pod, from others too, until one of them is certain.
func TestLostBindingsKeepTheirCards(t *testing.T) {
	for name, fault := range map[string]cluster.Fault{"lost": cluster.Lose, "late": cluster.Delay} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodes(1, 1)...)
			faults := first(1, fault)
			f.startScheduler(faults)
			f.submit(mortise, wholes("early", 1)...)
			require.Eventually(t, func() bool { return faults.Lost.Load()+faults.Delayed.Load() == 1 }, settleTimeout, time.Millisecond)
			f.submit(mortise, wholes("other", 1)...)
			f.eventuallyRunning(1)
			f.eventuallyDecided()
			faults.Wait()
			f.check()
			require.Equal(t, "early-000", f.pods(corev1.PodRunning)[0].Name)
			f.remove("early-000")
			f.eventuallyRunning(1)
			f.check()
			require.Equal(t, "other-000", f.pods(corev1.PodRunning)[0].Name)
		})
	}
}

// A pod that is deleted while its binding is in doubt leaves nothing behind.
func TestALostBindingOfADeletedPodFreesItsCard(t *testing.T) {
	f := newFixture(t, nodes(1, 1)...)
	var fault atomic.Int64
	fault.Store(int64(cluster.Lose))
	faults := cluster.NewBindFaults(func() cluster.Fault { return cluster.Fault(fault.Load()) })
	f.startScheduler(faults)
	f.submit(mortise, wholes("early", 1)...)
	require.Eventually(t, func() bool { return faults.Lost.Load() > 0 }, settleTimeout, time.Millisecond)
	f.submit(mortise, wholes("other", 1)...)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		other, err := f.Client.CoreV1().Pods(namespace).Get(f.ctx, "other-000", metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, corev1.PodReasonUnschedulable, scheduledCondition(other).Reason)
	}, settleTimeout, 50*time.Millisecond)
	require.Empty(t, f.pods(corev1.PodRunning))
	fault.Store(int64(cluster.Pass))
	f.remove("early-000")
	f.eventuallyRunning(1)
	f.check()
}

// A binding that is refused gives its cards back at once: the pod takes them in its next attempt, or another pod does.
func TestRefusedBindingsReleaseTheirCards(t *testing.T) {
	f := newFixture(t, nodes(1, 2)...)
	faults := first(3, cluster.Refuse)
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
