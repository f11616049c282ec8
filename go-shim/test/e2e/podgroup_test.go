package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// newGroupFixture is newFixture with the gate GenericWorkload on, in the API server and in the scheduler.
func newGroupFixture(t *testing.T, nodes ...simkubelet.NodeSpec) *fixture {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
	return newFixtureWith(t, []string{"--runtime-config=scheduling.k8s.io/v1beta1=true"}, nodes...)
}

// podGroup creates a PodGroup; minCount 0 is the policy Basic.
func (f *fixture) podGroup(name, class string, minCount int32, all bool) {
	f.Helper()
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.PriorityClassName = class
	if minCount > 0 {
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	} else {
		group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	if all {
		group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	_, err := f.Client.SchedulingV1beta1().PodGroups(namespace).Create(f.ctx, group, metav1.CreateOptions{})
	require.NoError(f, err)
}

// groupStaysPending asserts that preemption was refused for the group for the reason, and that nobody was evicted.
func (f *fixture) groupStaysPending(name, reason string) {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		group, err := f.Client.SchedulingV1beta1().PodGroups(namespace).Get(f.ctx, name, metav1.GetOptions{})
		if !assert.NoError(c, err) {
			return
		}
		condition := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		if assert.NotNil(c, condition) {
			assert.Contains(c, condition.Message, reason)
		}
	}, 45*time.Second, 50*time.Millisecond)
	require.Empty(f, f.evicted())
}

// members describes n pods of a group.
func members(group, class string, n int, cards int64) (out []gpuPod) {
	for i := range n {
		out = append(out, gpuPod{name: fmt.Sprintf("%s-%d", group, i), group: group, class: class, cards: cards, exitsAfter: "0.1", grace: 30})
	}
	return out
}

func batchOn(node, name string, ran, saved time.Duration) gpuPod {
	return gpuPod{name: name, class: api.PriorityClassBatch, cards: 1, node: node, ran: ran, saved: saved, exitsAfter: "0.2", grace: 30}
}

func TestAPodGroupTakesTheCheapestRoomForAllItsPods(t *testing.T) {
	f := newGroupFixture(t, nodes(3, 4)...)
	f.tiers()
	f.startScheduler(nil)
	var pods []gpuPod
	for n := range 2 {
		name := fmt.Sprintf("node-%02d", n)
		for i := range 2 {
			pods = append(pods, batchOn(name, fmt.Sprintf("saved-%d-%d", n, i), 3*time.Hour, time.Minute),
				batchOn(name, fmt.Sprintf("never-%d-%d", n, i), 3*time.Hour, 0))
		}
	}
	pods = append(pods, gpuPod{name: "serving", class: api.PriorityClassInference, cards: 4, node: "node-02", ran: time.Second, grace: 30, exitsAfter: "0.1"})
	f.running(pods...)
	f.podGroup("gang", api.PriorityClassTraining, 2, false)
	for _, p := range members("gang", api.PriorityClassTraining, 2, 2) {
		f.create(p)
	}
	f.eventually("gang-0", runs)
	f.eventually("gang-1", runs)
	require.Equal(t, map[string]bool{"saved-0-0": true, "saved-0-1": true, "saved-1-0": true, "saved-1-1": true}, f.evicted())
	f.eventuallyEvent("Preempting", "gang", "Evicting 4 pods so that 2 pods fit on 2 nodes (node-00, node-01)")
	f.eventuallyEvent("Preempted", "saved-0-0", "Preempted by pod group")
	f.eventuallyEvent("PreemptionOutcome", "saved-0-0", "exited early")
	f.check()
}

func TestAPodGroupGetsWhatItNeedsToRunIfNotAllItAsksFor(t *testing.T) {
	f := newGroupFixture(t, nodes(3, 4)...)
	f.tiers()
	f.startScheduler(nil)
	f.running(
		gpuPod{name: "batch-0", class: api.PriorityClassBatch, cards: 4, node: "node-00", exitsAfter: "0.1", grace: 30},
		gpuPod{name: "batch-1", class: api.PriorityClassBatch, cards: 4, node: "node-01", exitsAfter: "0.1", grace: 30},
		gpuPod{name: "serving", class: api.PriorityClassInference, cards: 4, node: "node-02", exitsAfter: "0.1", grace: 30})
	f.podGroup("four", api.PriorityClassTraining, 3, false)
	for _, p := range members("four", api.PriorityClassTraining, 4, 4) {
		f.create(p)
	}
	f.groupStaysPending("four", "no node can be emptied")
	for i := range 4 {
		f.remove(fmt.Sprintf("four-%d", i))
	}
	f.podGroup("three", api.PriorityClassTraining, 2, false)
	for _, p := range members("three", api.PriorityClassTraining, 3, 4) {
		f.create(p)
	}
	require.Eventually(t, func() bool {
		n := 0
		for i := range 3 {
			if runs(f.get(fmt.Sprintf("three-%d", i))) {
				n++
			}
		}
		return n == 2
	}, 45*time.Second, 50*time.Millisecond)
	require.Equal(t, map[string]bool{"batch-0": true, "batch-1": true}, f.evicted())
	f.check()
}

func TestPodGroupsGiveWayAsTheirModeSays(t *testing.T) {
	f := newGroupFixture(t, nodes(2, 3)...)
	f.tiers()
	f.startScheduler(nil, "guaranteeAfterEvictions: 0")
	f.podGroup("whole", api.PriorityClassBatch, 2, true)
	f.podGroup("elastic", api.PriorityClassBatch, 1, false)
	f.podGroup("loose", api.PriorityClassBatch, 0, false)
	place := func(pods []gpuPod, ran time.Duration) []gpuPod {
		for i := range pods {
			pods[i].node, pods[i].ran = fmt.Sprintf("node-%02d", i), ran
		}
		return pods
	}
	f.running(place(members("whole", api.PriorityClassBatch, 2, 1), 3*time.Hour)...)
	f.running(place(members("elastic", api.PriorityClassBatch, 2, 1), 2*time.Hour)...)
	f.running(place(members("loose", api.PriorityClassBatch, 2, 1), 5*time.Hour)...)

	f.create(gpuPod{name: "first", class: api.PriorityClassInference, cards: 1})
	f.eventually("first", runs)
	f.eventuallyEvent("Preempting", "first", "its gang goes on")
	require.Len(t, f.evicted(), 1)
	require.True(t, f.evicted()["elastic-0"] || f.evicted()["elastic-1"], "%v", f.evicted())

	// What is left of elastic is its minimum, so it would go whole, at two hours; then loose at five; whole at twice three.
	f.create(gpuPod{name: "second", class: api.PriorityClassInference, cards: 1})
	f.eventually("second", runs)
	f.create(gpuPod{name: "third", class: api.PriorityClassInference, cards: 1})
	f.eventually("third", runs)
	require.Len(t, f.evicted(), 3)
	require.True(t, f.evicted()["loose-0"] != f.evicted()["loose-1"], "one pod of a group without minimum goes alone: %v", f.evicted())

	f.create(gpuPod{name: "fourth", class: api.PriorityClassInference, cards: 1})
	f.eventually("fourth", runs)
	f.create(gpuPod{name: "fifth", class: api.PriorityClassInference, cards: 1})
	f.eventually("fifth", runs)
	require.True(t, f.evicted()["whole-0"] && f.evicted()["whole-1"], "a group of mode All goes whole: %v", f.evicted())
	f.check()
}

func TestARestartWhileAPodGroupWaitsEvictsNobodyElse(t *testing.T) {
	f := newGroupFixture(t, nodes(2, 2)...)
	f.tiers()
	first := f.startScheduler(nil)
	for n := range 2 {
		node := fmt.Sprintf("node-%02d", n)
		for name, ran := range map[string]time.Duration{"cheap": time.Minute, "dear": time.Hour} {
			p := batchOn(node, fmt.Sprintf("%s-%d", name, n), ran, 0)
			p.exitsAfter = "6"
			f.running(p)
		}
	}
	f.podGroup("gang", api.PriorityClassTraining, 2, false)
	for _, p := range members("gang", api.PriorityClassTraining, 2, 1) {
		f.create(p)
	}
	for i := range 2 {
		f.eventually(fmt.Sprintf("cheap-%d", i), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		f.eventually(fmt.Sprintf("gang-%d", i), func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName != "" })
	}
	first.Stop()
	f.startScheduler(nil)
	f.eventually("gang-0", runs)
	f.eventually("gang-1", runs)
	require.Equal(t, map[string]bool{"cheap-0": true, "cheap-1": true}, f.evicted())
	f.check()
}
