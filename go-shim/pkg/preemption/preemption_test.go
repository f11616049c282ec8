package preemption

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestHistoryAllowsOnePlanPerIntervalAndBacksOff(t *testing.T) {
	h := newHistory(10 * time.Minute)
	now := epoch
	for _, wait := range []time.Duration{10, 20, 40, 80, 80} {
		_, allowed := h.allows("a", now)
		require.True(t, allowed)
		h.add("a", now)
		next, allowed := h.allows("a", now.Add(wait*time.Minute-time.Second))
		require.False(t, allowed)
		require.Equal(t, now.Add(wait*time.Minute), next)
		now = next
	}
	_, allowed := h.allows("b", now)
	require.True(t, allowed, "each pod has its own")
	h.forgive("a")
	_, allowed = h.allows("a", now)
	require.True(t, allowed)
}

func TestHistoryTellsOnce(t *testing.T) {
	h := newHistory(time.Minute)
	h.add("a", epoch)
	require.True(t, h.tell("a", "no"))
	require.False(t, h.tell("a", "no"))
	require.True(t, h.tell("a", "another reason"))
	_, allowed := h.allows("a", epoch)
	require.False(t, allowed, "telling forgets nothing")
}

func victim(annotations map[string]string) *v1.Pod {
	start, grace := metav1.NewTime(epoch.Add(-time.Hour)), int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "v", Namespace: "n", UID: types.UID("u"), Annotations: annotations, DeletionGracePeriodSeconds: &grace},
		Status:     v1.PodStatus{StartTime: &start},
	}
}

func TestOutcomes(t *testing.T) {
	at := func(d time.Duration) map[string]string {
		return map[string]string{api.AnnotationLastCheckpoint: epoch.Add(d).Format(time.RFC3339)}
	}
	killed := victim(nil)
	killed.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137}}}}
	for _, c := range []struct {
		pod   *v1.Pod
		after time.Duration
		want  outcome
		lost  float64
	}{
		{victim(at(5 * time.Second)), 8 * time.Second, savedInTime, 3},
		{victim(at(-time.Minute)), 8 * time.Second, exitedEarly, 68},
		{victim(at(-2 * time.Hour)), 30 * time.Second, cutOff, 3630},
		{victim(at(time.Hour)), 30 * time.Second, cutOff, 3630},
		{victim(nil), 2 * time.Second, exitedEarly, 3602},
		{killed, 20 * time.Second, cutOff, 3620},
	} {
		ended := epoch.Add(c.after)
		require.Equal(t, c.want, outcomeOf(c.pod, epoch, ended), "%v after %v", c.pod.Annotations, c.after)
		require.InDelta(t, c.lost, lostSeconds(c.pod, ended), 0.01)
	}
}

func TestAJobThatSavedInThisRunLostNoneOfIt(t *testing.T) {
	for at, want := range map[time.Duration]bool{-2 * time.Hour: false, -time.Minute: true, time.Minute: false} {
		pod := victim(map[string]string{api.AnnotationLastCheckpoint: epoch.Add(at).Format(time.RFC3339)})
		require.Equal(t, want, saved(pod, epoch), at)
	}
	require.False(t, saved(victim(nil), epoch))
}

func TestUnsavedEvictionsOutliveThePod(t *testing.T) {
	u := newUnsavedEvictions()
	owned := func(name string) *v1.Pod {
		pod := victim(nil)
		controller := true
		pod.Name, pod.UID = name, types.UID(name)
		pod.OwnerReferences = []metav1.OwnerReference{{UID: "job", Controller: &controller}}
		return pod
	}
	u.note(owned("first"), false)
	u.note(owned("second"), false)
	require.EqualValues(t, 2, u.of(owned("third")))
	require.Zero(t, u.of(victim(nil)))
	u.note(owned("third"), true)
	require.Zero(t, u.of(owned("fourth")))
}

func TestGangsGoWholeUnlessTheySayHowManyTheyNeed(t *testing.T) {
	pod := victim(nil)
	require.Empty(t, gangOf(pod))
	pod.Labels = map[string]string{api.LabelPodGroup: "g"}
	require.Equal(t, "n/g", gangOf(pod))
	require.Equal(t, native.Gang{Flags: native.GangWhole}, declaredGang(pod))
	pod.Annotations = map[string]string{api.AnnotationGangMinMembers: "0"}
	require.Equal(t, native.Gang{Flags: native.GangWhole}, declaredGang(pod))
	pod.Annotations[api.AnnotationGangMinMembers] = "3"
	require.Equal(t, native.Gang{MinMembers: 3}, declaredGang(pod))
}

func TestWhatMakesAPodEvictable(t *testing.T) {
	p := &GPUPreemption{handle: profileOnly{}, args: &api.GPUPreemptionArgs{Tiers: &api.TierRules{InferenceMinPriority: 100, TrainingMinPriority: 10}}}
	pod := func(change func(*v1.Pod)) *v1.Pod {
		out := victim(map[string]string{})
		out.Spec.SchedulerName, out.Spec.NodeName, out.Labels = "theirs", "n1", map[string]string{}
		change(out)
		return out
	}
	same := func(*v1.Pod) {}
	consents := func(p *v1.Pod) { p.Annotations[api.AnnotationPreemptible] = "true" }
	inference := func(p *v1.Pod) { p.Labels[api.LabelTier] = api.TierInference }
	elastic := func(p *v1.Pod) { p.Annotations[api.AnnotationGangMinMembers] = "2" }
	for name, c := range map[string]struct {
		before, after func(*v1.Pod)
		want          bool
	}{
		"nothing":         {same, same, false},
		"consent":         {same, consents, true},
		"consent again":   {consents, consents, false},
		"consent taken":   {consents, same, false},
		"no inference":    {inference, same, true},
		"inference":       {same, inference, false},
		"elastic":         {same, elastic, true},
		"not bound":       {same, func(p *v1.Pod) { consents(p); p.Spec.NodeName = "" }, false},
		"going":           {same, func(p *v1.Pod) { consents(p); p.DeletionTimestamp = &metav1.Time{Time: epoch} }, false},
		"of little value": {same, func(p *v1.Pod) { p.Annotations[api.AnnotationPreemptible] = "yes" }, false},
	} {
		require.Equal(t, c.want, p.eases(pod(c.before), pod(c.after)), name)
	}
}

// profileOnly is a handle that knows its profile's name.
type profileOnly struct{ fwk.Handle }

func (profileOnly) ProfileName() string { return "mortise" }

func TestWhoWaitsIsWokenByPriority(t *testing.T) {
	w := newWaiting()
	for i, priority := range []int32{5, 10, 15} {
		pod := victim(nil)
		pod.UID, pod.Spec.Priority = types.UID(rune('a'+i)), &priority
		w.add(pod)
	}
	require.Len(t, w.above(10), 1)
	require.Len(t, w.above(-1<<31), 3)
	w.drop("c")
	require.Empty(t, w.above(10))
}

type groups map[string]*schedulingv1beta1.PodGroup

func (g groups) Get(_, name string) (*schedulingv1beta1.PodGroup, error) {
	if group := g[name]; group != nil {
		return group, nil
	}
	return nil, errors.New("not found")
}

func TestPodGroupsAsVictims(t *testing.T) {
	gang := schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 4}}
	basic := schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	single := &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	all := &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	parent := "parent"
	known := groups{
		"gang":       {Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang}},
		"gang-all":   {Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang, DisruptionMode: all}},
		"basic":      {Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: basic, DisruptionMode: single}},
		"basic-all":  {Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: basic, DisruptionMode: all}},
		"has-parent": {Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: basic, ParentCompositePodGroupName: &parent}},
	}
	whole := native.Gang{Flags: native.GangWhole}
	for name, c := range map[string]struct {
		want  native.Gang
		gangs bool
	}{
		"gang": {native.Gang{MinMembers: 4}, true}, "gang-all": {whole, true}, "basic": {native.Gang{}, false}, "basic-all": {whole, true},
		"has-parent": {whole, true}, "gone": {whole, true},
	} {
		pod := victim(map[string]string{api.AnnotationGangMinMembers: "2"})
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		key, got, gangs := victimGang(pod, known)
		require.Equal(t, c.gangs, gangs, name)
		if gangs {
			require.Equal(t, "n/"+name, key)
			require.Equal(t, c.want, got, name)
		}
		_, got, gangs = victimGang(pod, nil)
		require.True(t, gangs)
		require.Equal(t, whole, got, "what cannot be read goes whole")
	}
	labelled := victim(map[string]string{api.AnnotationGangMinMembers: "2"})
	labelled.Labels = map[string]string{api.LabelPodGroup: "theirs"}
	_, got, gangs := victimGang(labelled, known)
	require.True(t, gangs)
	require.Equal(t, native.Gang{MinMembers: 2}, got)
	_, _, gangs = victimGang(victim(nil), known)
	require.False(t, gangs)
}
