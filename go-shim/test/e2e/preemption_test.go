package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/workload"
)

// gpuPod describes a pod of whole cards.
type gpuPod struct {
	name, class string
	cards       int64
	node        string            // "" for any
	ran         time.Duration     // how long it seems to have run
	saved       time.Duration     // how long ago it saved; 0 for never
	exitsAfter  string            // seconds from SIGTERM; "" rides out the grace
	grace       int64             // terminationGracePeriodSeconds
	labels      map[string]string // more labels
	annotations map[string]string // more annotations
	scheduler   string            // "" for mortise
	group       string            // PodGroup; "" for none
}

// tiers creates the PriorityClasses as deploy/priority-classes.yaml has them.
func (f *fixture) tiers() {
	f.Helper()
	for name, value := range map[string]int32{
		api.PriorityClassInference: api.DefaultInferenceMinPriority, api.PriorityClassTraining: api.DefaultTrainingMinPriority,
		api.PriorityClassBatch: 1000, "batch-zero": 0, "batch-ten": 10,
	} {
		_, err := f.Client.SchedulingV1().PriorityClasses().Create(f.ctx,
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		require.NoError(f, err)
	}
}

func (f *fixture) create(p gpuPod) {
	f.Helper()
	scheduler := p.scheduler
	if scheduler == "" {
		scheduler = mortise
	}
	pod := workload.Pod{Name: p.name, CPUMilli: 100, MemoryMiB: 64, GPUs: p.cards, GPUMilli: workload.MilliPerCard}.Object(namespace, scheduler)
	pod.Spec.PriorityClassName = p.class
	pod.Spec.TerminationGracePeriodSeconds = &p.grace
	pod.Labels, pod.Annotations = p.labels, map[string]string{}
	for key, value := range p.annotations {
		pod.Annotations[key] = value
	}
	if p.exitsAfter != "" {
		pod.Annotations[api.AnnotationSimExitsAfter] = p.exitsAfter
	}
	if p.group != "" {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &p.group}
	}
	if p.node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.node}
	}
	_, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, pod, metav1.CreateOptions{})
	require.NoError(f, err)
}

// running creates pods, waits until they run, and makes them as old as they say.
func (f *fixture) running(pods ...gpuPod) {
	f.Helper()
	for _, p := range pods {
		f.create(p)
	}
	for _, p := range pods {
		f.eventually(p.name, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
		pod := f.get(p.name)
		start := metav1.NewTime(time.Now().Add(-p.ran))
		patch := fmt.Sprintf(`{"status":{"startTime":%q}}`, start.UTC().Format(time.RFC3339))
		_, err := f.Client.CoreV1().Pods(namespace).Patch(f.ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		require.NoError(f, err)
		if p.saved != 0 {
			f.annotate(p.name, api.AnnotationLastCheckpoint, time.Now().Add(-p.saved).UTC().Format(time.RFC3339))
		}
	}
}

func (f *fixture) annotate(name, key, value string) {
	f.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := f.Client.CoreV1().Pods(namespace).Patch(f.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(f, err)
}

func (f *fixture) get(name string) *corev1.Pod {
	f.Helper()
	pod, err := f.Client.CoreV1().Pods(namespace).Get(f.ctx, name, metav1.GetOptions{})
	require.NoError(f, err)
	return pod
}

func (f *fixture) eventually(name string, holds func(*corev1.Pod) bool) {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		pod, err := f.Client.CoreV1().Pods(namespace).Get(f.ctx, name, metav1.GetOptions{})
		if !assert.NoError(c, err) {
			return
		}
		assert.True(c, holds(pod), "pod %s: %s on %q, nominated %q, %v", name, pod.Status.Phase, pod.Spec.NodeName,
			pod.Status.NominatedNodeName, scheduledCondition(pod))
	}, 45*time.Second, 50*time.Millisecond)
}

func runs(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// evicted lists the pods that preemption marked or removed, by their Preempted events.
func (f *fixture) evicted() map[string]bool {
	f.Helper()
	out := map[string]bool{}
	for _, e := range f.events("Preempted") {
		out[e.InvolvedObject.Name] = true
	}
	return out
}

func (f *fixture) events(reason string) []corev1.Event {
	f.Helper()
	list, err := f.Client.CoreV1().Events(namespace).List(f.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	require.NoError(f, err)
	return list.Items
}

func (f *fixture) eventuallyEvent(reason, object, part string) {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		var seen []string
		for _, e := range f.events(reason) {
			if e.InvolvedObject.Name == object && strings.Contains(e.Message, part) {
				return
			}
			seen = append(seen, e.InvolvedObject.Name+": "+e.Message)
		}
		assert.Fail(c, "no such event", "%s of %s with %q; there are %q", reason, object, part, seen)
	}, 30*time.Second, 50*time.Millisecond)
}

// staysPending asserts that the pod was refused by preemption for the reason, and that nobody was evicted.
func (f *fixture) staysPending(name, reason string) {
	f.Helper()
	f.eventually(name, func(pod *corev1.Pod) bool {
		return strings.Contains(scheduledCondition(pod).Message, reason)
	})
	require.Empty(f, f.evicted())
	f.Log(name, scheduledCondition(f.get(name)).Message)
}

func TestNeedsOneEvictsOne(t *testing.T) {
	f := newFixture(t, node("n1", 11))
	f.tiers()
	f.startScheduler(nil)
	var gang []gpuPod
	for i := range 11 {
		gang = append(gang, gpuPod{
			name: fmt.Sprintf("gang-%02d", i), class: api.PriorityClassBatch, cards: 1, ran: time.Hour, grace: 30, exitsAfter: "0.2",
			labels:      map[string]string{api.LabelPodGroup: "elastic"},
			annotations: map[string]string{api.AnnotationGangMinMembers: "1"},
		})
	}
	f.running(gang...)
	f.create(gpuPod{name: "asks-one", class: api.PriorityClassInference, cards: 1})
	f.eventually("asks-one", runs)
	require.Len(t, f.evicted(), 1)
	require.Len(t, f.pods(corev1.PodRunning), 11)
	f.eventuallyEvent("Preempting", "asks-one", "its gang goes on")
	f.check()
}

func TestEightScatteredGPUsAreNotPreempted(t *testing.T) {
	f := newFixture(t, nodes(4, 8)...)
	f.tiers()
	f.startScheduler(nil)
	var pods []gpuPod
	for n := range 4 {
		for i := range 8 {
			class := api.PriorityClassInference
			if i < 2 {
				class = api.PriorityClassBatch
			}
			pods = append(pods, gpuPod{name: fmt.Sprintf("p-%d-%d", n, i), class: class, cards: 1, node: fmt.Sprintf("node-%02d", n), exitsAfter: "0.1", grace: 30})
		}
	}
	f.running(pods...)
	f.create(gpuPod{name: "needs-eight", class: api.PriorityClassInference, cards: 8})
	f.staysPending("needs-eight", "no node can be emptied: 6 non-preemptible GPUs on each")
	f.create(gpuPod{name: "needs-one", class: api.PriorityClassInference, cards: 1})
	f.eventually("needs-one", runs)
	require.Len(t, f.evicted(), 1)
	f.check()
}

func TestTheOneThatNeverSavedIsSpared(t *testing.T) {
	f := newFixture(t, node("n1", 10))
	f.tiers()
	f.startScheduler(nil)
	job := func(name, class string, saved time.Duration) gpuPod {
		return gpuPod{name: name, class: class, cards: 2, ran: 3 * time.Hour, saved: saved, exitsAfter: "0.1", grace: 30}
	}
	f.running(job("saved-1", api.PriorityClassBatch, time.Minute), job("saved-9", api.PriorityClassBatch, 9*time.Minute),
		job("saved-40", api.PriorityClassBatch, 40*time.Minute), job("never", api.PriorityClassBatch, 0),
		job("resident", api.PriorityClassTraining, time.Second))
	f.create(gpuPod{name: "asks-four", class: api.PriorityClassInference, cards: 4})
	f.eventually("asks-four", runs)
	require.Equal(t, map[string]bool{"saved-1": true, "saved-9": true}, f.evicted(), "training is never taken before batch")
	f.eventuallyEvent("PreemptionOutcome", "saved-1", "exited early")
	f.check()
}

func TestACheckpointInTheFutureIsIgnored(t *testing.T) {
	f := newFixture(t, node("n1", 2))
	f.tiers()
	f.startScheduler(nil)
	f.running(gpuPod{name: "liar", class: api.PriorityClassBatch, cards: 1, ran: 3 * time.Hour, saved: -time.Hour, exitsAfter: "0.1", grace: 30},
		gpuPod{name: "young", class: api.PriorityClassBatch, cards: 1, ran: 2 * time.Minute, exitsAfter: "0.1", grace: 30})
	f.create(gpuPod{name: "asks", class: api.PriorityClassTraining, cards: 1})
	f.eventually("asks", runs)
	require.Equal(t, map[string]bool{"young": true}, f.evicted())
	f.eventuallyEvent("CheckpointIgnored", "liar", "in the future")
}

func TestACheckpointThatCannotBeReadCountsAsNeverSaved(t *testing.T) {
	f := newFixture(t, node("n1", 2))
	f.tiers()
	f.startScheduler(nil)
	f.running(gpuPod{name: "unreadable", class: api.PriorityClassBatch, cards: 1, ran: 3 * time.Hour, exitsAfter: "0.1", grace: 30},
		gpuPod{name: "young", class: api.PriorityClassBatch, cards: 1, ran: 20 * time.Minute, exitsAfter: "0.1", grace: 30})
	f.annotate("unreadable", api.AnnotationLastCheckpoint, "five minutes ago")
	f.annotate("unreadable", api.AnnotationCheckpointSaveSeconds, "20s")
	f.eventuallyEvent("CheckpointIgnored", "unreadable", `mortise.dev/last-checkpoint is "five minutes ago"`)
	f.eventuallyEvent("AnnotationIgnored", "unreadable", `mortise.dev/checkpoint-save-seconds is "20s"`)
	f.create(gpuPod{name: "asks", class: api.PriorityClassTraining, cards: 1})
	f.eventually("asks", runs)
	require.Equal(t, map[string]bool{"young": true}, f.evicted(), "twenty minutes are less than three hours")
	f.annotate("unreadable", "example.com/step", "7")
	f.annotate("unreadable", api.AnnotationLastCheckpoint, "six minutes ago")
	f.eventuallyEvent("CheckpointIgnored", "unreadable", "six minutes ago")
	told := f.events("CheckpointIgnored")
	require.Len(t, told, 2, "once per value")
	for _, event := range told {
		require.Zero(t, event.Count, "%s", event.Message)
		require.Nil(t, event.Series, "%s", event.Message)
	}
}

func TestADisruptionBudgetIsNotBrokenNeedlessly(t *testing.T) {
	f := newFixture(t, node("na", 1), node("nb", 1))
	f.tiers()
	none := intstr.FromInt32(0)
	_, err := f.Client.PolicyV1().PodDisruptionBudgets(namespace).Create(f.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	f.startScheduler(nil)
	f.running(
		gpuPod{name: "guarded", class: "batch-zero", cards: 1, node: "na", labels: map[string]string{"app": "guarded"}, exitsAfter: "0.1", grace: 30},
		gpuPod{name: "free", class: "batch-ten", cards: 1, node: "nb", ran: time.Hour, exitsAfter: "0.1", grace: 30})
	f.create(gpuPod{name: "asks", class: api.PriorityClassTraining, cards: 1})
	f.eventually("asks", runs)
	require.Equal(t, map[string]bool{"free": true}, f.evicted())
	require.Equal(t, "nb", f.get("asks").Spec.NodeName)
}

func TestTheVictimHasItsWindow(t *testing.T) {
	f := newFixture(t, node("n1", 1))
	f.tiers()
	f.startScheduler(nil)
	f.running(gpuPod{name: "victim", class: api.PriorityClassBatch, cards: 1, ran: time.Hour, grace: 600, exitsAfter: "3",
		annotations: map[string]string{api.AnnotationCheckpointSaveSeconds: "2"}})
	f.create(gpuPod{name: "asks", class: api.PriorityClassInference, cards: 1})
	f.eventually("victim", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	victim := f.get("victim")
	require.EqualValues(t, 30, *victim.DeletionGracePeriodSeconds, "the tier's grace, not the pod's own")
	condition := conditionOf(victim, corev1.DisruptionTarget)
	require.NotNil(t, condition)
	require.Equal(t, corev1.PodReasonPreemptionByScheduler, condition.Reason)
	f.annotate("victim", api.AnnotationLastCheckpoint, time.Now().UTC().Format(time.RFC3339))
	began := time.Now()
	f.eventually("asks", runs)
	require.Less(t, time.Since(began), 20*time.Second, "the card is used as soon as the victim is gone")
	f.eventuallyEvent("PreemptionOutcome", "victim", "saved in time")
	f.check()
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func TestAVictimThatIgnoresItIsCutOff(t *testing.T) {
	f := newFixture(t, node("n1", 1))
	f.tiers()
	f.startScheduler(nil)
	f.running(gpuPod{name: "victim", class: api.PriorityClassBatch, cards: 1, ran: time.Hour, grace: 2})
	f.create(gpuPod{name: "asks", class: api.PriorityClassInference, cards: 1})
	f.eventually("victim", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	require.EqualValues(t, 2, *f.get("victim").DeletionGracePeriodSeconds, "never longer than the pod's own")
	f.eventually("asks", runs)
	f.eventuallyEvent("PreemptionOutcome", "victim", "cut off")
}

func TestARestartInTheWindowEvictsNobodyElse(t *testing.T) {
	f := newFixture(t, node("n1", 2))
	f.tiers()
	first := f.startScheduler(nil)
	f.running(gpuPod{name: "cheap", class: api.PriorityClassBatch, cards: 1, ran: time.Minute, grace: 30, exitsAfter: "6"},
		gpuPod{name: "dear", class: api.PriorityClassBatch, cards: 1, ran: time.Hour, grace: 30, exitsAfter: "6"})
	f.create(gpuPod{name: "asks", class: api.PriorityClassInference, cards: 1})
	f.eventually("cheap", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	f.eventually("asks", func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName == "n1" })
	first.Stop()
	f.startScheduler(nil)
	f.eventually("asks", runs)
	require.Nil(t, f.get("dear").DeletionTimestamp)
	require.Equal(t, map[string]bool{"cheap": true}, f.evicted())
	f.eventuallyEvent("PreemptionOutcome", "cheap", "exited early")
}

func TestANominationIsLostToAHigherPriority(t *testing.T) {
	f := newFixture(t, node("n1", 4))
	f.tiers()
	f.startScheduler(nil)
	f.running(gpuPod{name: "p0", class: api.PriorityClassBatch, cards: 2, ran: time.Hour, grace: 30, exitsAfter: "5"})
	f.create(gpuPod{name: "p1", class: api.PriorityClassTraining, cards: 3})
	f.eventually("p1", func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName == "n1" })
	f.create(gpuPod{name: "p2", class: api.PriorityClassInference, cards: 2})
	f.eventually("p2", runs)
	f.eventuallyEvent("PreemptionOutcome", "p0", "exited early")
	require.NotEqual(t, corev1.PodRunning, f.get("p1").Status.Phase, "two cards are left for three")
	require.Equal(t, map[string]bool{"p0": true}, f.evicted())
	f.remove("p2")
	f.eventually("p1", runs)
	f.check()
}

func TestAVictimStuckOnADeadNodeIsNotWaitedForForever(t *testing.T) {
	f := newFixture(t, node("dead", 1), node("other", 1))
	f.tiers()
	f.startScheduler(nil, "stuckTerminatingSeconds: 1")
	f.running(gpuPod{name: "first", class: api.PriorityClassBatch, cards: 1, node: "dead", ran: time.Minute, grace: 2, exitsAfter: "1"},
		gpuPod{name: "second", class: api.PriorityClassBatch, cards: 1, node: "other", ran: time.Hour, grace: 2, exitsAfter: "0.1"})
	// A finalizer keeps the pod as a node does that says nothing any more.
	_, err := f.Client.CoreV1().Pods(namespace).Patch(f.ctx, "first", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["mortise.dev/stuck"]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	f.Cleanup(func() {
		_, _ = f.Client.CoreV1().Pods(namespace).Patch(f.ctx, "first", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	f.create(gpuPod{name: "asks", class: api.PriorityClassInference, cards: 1})
	f.eventually("asks", runs)
}

func TestPodsThatStay(t *testing.T) {
	f := newFixture(t, node("n1", 1))
	f.tiers()
	f.startScheduler(nil)
	f.running(gpuPod{name: "foreign", class: api.PriorityClassBatch, cards: 1, scheduler: stock, grace: 30, exitsAfter: "0.1"})
	f.create(gpuPod{name: "contradicts", class: api.PriorityClassBatch, cards: 1, labels: map[string]string{api.LabelTier: api.TierInference}})
	f.staysPending("contradicts", `label mortise.dev/tier is "inference", but priority 1000 makes the pod batch`)
	f.remove("contradicts")
	f.create(gpuPod{name: "equal", class: api.PriorityClassBatch, cards: 1})
	f.staysPending("equal", "no node can be emptied: 1 non-preemptible GPUs")
}

func TestALimitThatIsReachedIsSaid(t *testing.T) {
	f := newFixture(t, node("n1", 8))
	f.tiers()
	f.startScheduler(nil)
	var gang []gpuPod
	for i := range 8 {
		gang = append(gang, gpuPod{name: fmt.Sprintf("whole-%d", i), class: api.PriorityClassBatch, cards: 1, exitsAfter: "0.1", grace: 30,
			labels: map[string]string{api.LabelPodGroup: "whole"}})
	}
	f.running(gang...)
	f.create(gpuPod{name: "asks-one", class: api.PriorityClassInference, cards: 1})
	f.staysPending("asks-one", "it would evict 8 GPUs for 1 asked, above the ratio limit")
	f.eventuallyEvent("PreemptionRefused", "asks-one", "above the ratio limit")
	f.create(gpuPod{name: "asks-eight", class: api.PriorityClassInference, cards: 8})
	f.eventually("asks-eight", runs)
	require.Len(t, f.evicted(), 8, "the gang goes whole")
}

func TestPodsOfOtherSchedulersGoByConsentAlone(t *testing.T) {
	f := newFixture(t, node("n1", 1))
	f.tiers()
	f.startScheduler(nil)
	// The other scheduler's pod is bound by hand, as that scheduler would do it.
	f.create(gpuPod{name: "theirs", class: api.PriorityClassBatch, cards: 1, scheduler: "their-scheduler", exitsAfter: "0.1", grace: 30})
	f.eventually("theirs", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
	require.NoError(t, f.Client.CoreV1().Pods(namespace).Bind(f.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: namespace, Annotations: map[string]string{}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{}))
	f.eventually("theirs", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "n1" })
	f.create(gpuPod{name: "asks", class: api.PriorityClassInference, cards: 1})
	f.staysPending("asks", "preemption")
	began := time.Now()
	f.annotate("theirs", api.AnnotationPreemptible, "true")
	f.eventually("asks", func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName == "n1" || pod.Spec.NodeName == "n1" })
	require.Less(t, time.Since(began), time.Minute, "the pod that waits is woken; by itself the queue tries after five minutes")
	f.eventuallyEvent("Preempted", "theirs", "tier batch")
	require.Equal(t, map[string]bool{"theirs": true}, f.evicted())
	f.eventually("asks", runs)
}
