package snapshot

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

func TestSyncSendsOnlyWhatChanged(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	for i := range 20 {
		c.add(countsNode(fmt.Sprintf("n%02d", i), "T4", 4))
	}
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, 20, m.batch.NodeCount())

	require.True(t, m.Sync(c.list, nil))
	require.Zero(t, m.batch.NodeCount(), "nothing changed")

	pod := c.bind(c.pod(api.ResourceGPU, "1"), "n07")
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, 1, m.batch.NodeCount())

	pod = c.update(pod, func(p *v1.Pod) { p.Status.Message = "no decision depends on this" })
	require.True(t, m.Sync(c.list, nil))
	require.Zero(t, m.batch.NodeCount(), "the generation changed, the content did not")
	require.Equal(t, c.infos["n07"].GetGeneration(), m.nodes.Load().find("n07").generation)

	c.update(pod, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, 1, m.batch.NodeCount(), "terminating pods count as such")
	require.Equal(t, []uint16{1000, 1000, 1000, 0}, m.FreeCards("n07"), "and hold their cards")

	c.remove("n03")
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, 1, m.batch.RemovalCount())
	require.Zero(t, m.batch.NodeCount())

	// A node of the same name is another node.
	c.remove("n07")
	require.True(t, m.Sync(c.list, nil))
	c.add(countsNode("n07", "T4", 4))
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, 1, m.batch.NodeCount())
	require.Equal(t, []uint16{1000, 1000, 1000, 1000}, m.FreeCards("n07"))
}

// Gang rehearsals put old generations back: only Reserve and Unreserve say that something changed.
func TestSyncFollowsDirtyNodesAndOldGenerations(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", 2))
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	empty := digest(t, m)

	info := c.infos["n"]
	generation := info.Generation
	pod := c.pod(api.ResourceGPU, "1")
	require.NoError(t, m.Reserve(pod, r, "n", nil))
	assumed := c.bind(pod, "n")
	info.Generation = generation // as Snapshot.AssumePod does
	require.True(t, m.Sync(c.list, r))
	require.NotEqual(t, empty, digest(t, m))

	m.Unreserve(assumed, "n")
	c.unbind(assumed)
	info.Generation = generation // as Snapshot.ForgetPod does
	require.True(t, m.Sync(c.list, r))
	require.Equal(t, empty, digest(t, m))

	// A generation may also go back to an older one with other content.
	c.bind(c.pod(api.ResourceGPU, "1"), "n")
	require.True(t, m.Sync(c.list, r))
	require.NotEqual(t, empty, digest(t, m))
	info.Generation = generation - 1
	info.Pods, info.Requested = nil, &framework.Resource{}
	require.True(t, m.Sync(c.list, r))
	require.Equal(t, empty, digest(t, m))
}

func TestCardsComeFromTheRightSource(t *testing.T) {
	var warnings []string
	m := newMirror(t, Options{Warn: func(pod *v1.Pod, message string) { warnings = append(warnings, message) }})
	c := newCluster(t)
	c.add(enforcedNode("n", "T4", 4))
	c.add(enforcedNode("other", "T4", 4))
	free := func() []uint16 {
		require.True(t, m.Sync(c.list, nil))
		return m.FreeCards("n")
	}
	choose := func(cards ...int) string {
		var uuids []string
		for _, i := range cards {
			uuids = append(uuids, cardName("n", i))
		}
		return choiceOf(c.pod(), "n", uuids) // of some other pod
	}

	// Nobody knows: the cards count as used, from the highest free index.
	pod := c.bind(c.pod(api.ResourceGPU, "2"), "n")
	require.Equal(t, []uint16{1000, 1000, 0, 0}, free())

	// The annotation of the pod.
	pod = c.update(pod, func(p *v1.Pod) {
		annotated(p, api.AnnotationGPUDevices, choiceOf(p, "n", []string{cardName("n", 0), cardName("n", 2)}))
	})
	require.Equal(t, []uint16{0, 1000, 0, 1000}, free())
	require.Empty(t, warnings)

	// What the node side did overrides it.
	c.change("n", func(n *v1.Node) {
		n.Annotations[api.AnnotationGPUAllocation] = fmt.Sprintf(`[{"podUID":%q,"devices":[%q,%q]}]`, pod.UID, cardName("n", 1), cardName("n", 2))
	})
	require.Equal(t, []uint16{1000, 0, 0, 1000}, free())
	c.change("n", func(n *v1.Node) { delete(n.Annotations, api.AnnotationGPUAllocation) })
	require.Equal(t, []uint16{0, 1000, 0, 1000}, free())

	// Annotations that do not hold are ignored with a warning; the cards count as unknown.
	for i, value := range []string{
		choose(0, 1), choiceOf(pod, "other", []string{cardName("n", 0), cardName("n", 1)}),
		choiceOf(pod, "n", []string{cardName("n", 0)}), choiceOf(pod, "n", []string{cardName("n", 0), cardName("n", 0)}), "{", "",
	} {
		pod = c.update(pod, func(p *v1.Pod) { annotated(p, api.AnnotationGPUDevices, value) })
		require.Equal(t, []uint16{1000, 1000, 0, 0}, free(), value)
		require.Len(t, warnings, i+1, value)
		require.Contains(t, warnings[i], api.AnnotationGPUDevices)
	}

	// A card that vanished from the inventory counts as used.
	pod = c.update(pod, func(p *v1.Pod) {
		annotated(p, api.AnnotationGPUDevices, choiceOf(p, "n", []string{cardName("n", 0), "GPU-gone"}))
	})
	require.Equal(t, []uint16{0, 1000, 1000, 0}, free())
	_, _, missing := m.NodeProblems()
	require.Equal(t, 1, missing)
	c.unbind(pod)
	require.Equal(t, []uint16{1000, 1000, 1000, 1000}, free())
	_, _, missing = m.NodeProblems()
	require.Zero(t, missing)
}

// A pod deleted by force is gone from the API while its processes may still use the cards.
func TestForceDeletedPodHoldsItsCards(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", 8))
	pod, err := c.place(m, c.pod(api.ResourceGPU, "8"), "n")
	require.NoError(t, err)
	pod = c.publish(m, pod)
	c.change("n", func(n *v1.Node) {
		n.Annotations[api.AnnotationGPUAllocation] = string(allocation(t, c, m, pod))
	})
	c.unbind(pod)
	r := request(t, c.pod(api.ResourceGPU, "8"))
	require.True(t, m.Sync(c.list, r))
	fit, _ := m.Room(r, c.infos["n"])
	require.Equal(t, NoWholeCards, fit)
	_, known := m.Rank(r, c.list).Score("n")
	require.False(t, known, "the kernel sees them as held too")

	c.change("n", func(n *v1.Node) { n.Annotations[api.AnnotationGPUAllocation] = "[]" })
	require.True(t, m.Sync(c.list, r))
	fit, _ = m.Room(r, c.infos["n"])
	require.Equal(t, Fits, fit, "the node side saw them idle")
}

func allocation(t *testing.T, c *cluster, m *Mirror, pod *v1.Pod) []byte {
	require.True(t, m.Sync(c.list, nil))
	e := m.nodes.Load().find(pod.Spec.NodeName)
	for _, p := range e.pods {
		if p.pod.UID == pod.UID {
			return []byte(fmt.Sprintf(`[{"podUID":%q,"devices":["%s"]}]`, pod.UID, join(e.facts.names(p.record.DeviceMask))))
		}
	}
	t.Fatal("pod is not on its node")
	return nil
}

func join(names []string) string {
	out := ""
	for i, n := range names {
		if i > 0 {
			out += `","`
		}
		out += n
	}
	return out
}

func TestBadNodeIsRefusedWithItsReason(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", 2))
	c.change("n", func(n *v1.Node) { n.Annotations[api.AnnotationGPUInventory] = "{" })
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	fit, problem := m.Room(r, c.infos["n"])
	require.Equal(t, BadNode, fit)
	require.Contains(t, problem, api.AnnotationGPUInventory)
	bad, _, _ := m.NodeProblems()
	require.Equal(t, 1, bad)
	require.ErrorContains(t, m.Reserve(c.pod(api.ResourceGPU, "1"), r, "n", nil), api.AnnotationGPUInventory)
	c.remove("n")
	require.True(t, m.Sync(c.list, r))
	bad, _, _ = m.NodeProblems()
	require.Zero(t, bad)
}

// Nodes that the kernel cannot hold are neither refused nor ranked.
func TestUntrackedNode(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(countsNode("replicas", "T4", 80))
	c.add(countsNode("n", "T4", 2))
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	require.Equal(t, 1, m.batch.NodeCount())
	fit, _ := m.Room(r, c.infos["replicas"])
	require.Equal(t, Fits, fit)
	ranking := m.Rank(r, c.list)
	_, known := ranking.Score("replicas")
	require.False(t, known)
	require.Equal(t, "n", ranking.Best())

	// The kernel forgets a node that grows out of its reach, and takes it back.
	c.change("n", func(n *v1.Node) { n.Status.Allocatable = countsNode("n", "T4", 17).Status.Allocatable })
	require.True(t, m.Sync(c.list, r))
	require.Empty(t, m.Rank(r, c.list).Best())
	c.change("n", func(n *v1.Node) { n.Status.Allocatable = countsNode("n", "T4", 2).Status.Allocatable })
	require.True(t, m.Sync(c.list, r))
	require.Equal(t, "n", m.Rank(r, c.list).Best())
}

// One node whose content the kernel refuses does not keep the others out.
func TestRefusedNode(t *testing.T) {
	var failures []string
	m := newMirror(t, Options{Failed: func(err error, consequence string) { failures = append(failures, consequence) }})
	c := newCluster(t)
	c.add(countsNode("good", "T4", 2))
	c.add(countsNode("bad", "L4", 2))
	c.add(countsNode("fine", "T4", 2))
	r := request(t, c.pod(api.ResourceGPU, "1"))
	m.models["L4"] = 40 // a number that the kernel never gave out
	require.True(t, m.Sync(c.list, r))
	require.NotEmpty(t, failures)
	_, refused, _ := m.NodeProblems()
	require.Equal(t, 1, refused)
	ranking := m.Rank(r, c.list)
	for node, want := range map[string]bool{"good": true, "bad": false, "fine": true} {
		_, known := ranking.Score(node)
		require.Equal(t, want, known, node)
	}
	before := calls(native.CallSync)
	require.True(t, m.Sync(c.list, r))
	require.Equal(t, before+1, calls(native.CallSync), "it is not tried again until it changes")
}

func TestKernelDiesAndIsBuiltAnew(t *testing.T) {
	now := time.Unix(0, 0)
	failures := 0
	m := newMirror(t, Options{
		Kernel: native.Config{AllowDebugPanic: true},
		Failed: func(error, string) { failures++ },
		Now:    func() time.Time { return now },
	})
	c := newCluster(t)
	c.add(enforcedNode("n", "T4", 2))
	c.add(countsNode("m", "A100", 2))
	c.bind(c.pod(api.ResourceGPU, "1"), "n")
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	before := digest(t, m)
	require.NotNil(t, m.Rank(r, c.list))

	require.Equal(t, native.StatusPanic, native.StatusOf(m.Kernel().DebugPanic()))
	require.Nil(t, m.Rank(r, c.list), "no opinion")
	require.Equal(t, 1, failures)
	require.Nil(t, m.Kernel())
	require.False(t, m.Sync(c.list, r), "not yet: failures in a row must not keep the scheduler busy")
	fit, _ := m.Room(r, c.infos["n"])
	require.Equal(t, Fits, fit, "cards are known all the same")
	pod := c.pod(api.ResourceGPU, "1")
	require.NoError(t, m.Reserve(pod, r, "n", nil))
	require.Equal(t, []string{cardName("n", 0)}, m.Cards(pod, "n"), "cards are chosen without a kernel")
	m.Unreserve(pod, "n")

	now = now.Add(time.Minute)
	require.True(t, m.Sync(c.list, r))
	require.Equal(t, before, digest(t, m))
	require.NotNil(t, m.Rank(r, c.list))

	// The same when Sync is the call that fails.
	require.Error(t, m.Kernel().DebugPanic())
	c.bind(c.pod(api.ResourceGPU, "1"), "m")
	require.False(t, m.Sync(c.list, r))
	now = now.Add(time.Minute)
	require.True(t, m.Sync(c.list, r))
	require.NotEqual(t, before, digest(t, m))
}

// What was learned outlives the kernel, once: a kernel that dies again before it has ranked anything may have died of it.
func TestANewKernelInheritsWhatWasLearned(t *testing.T) {
	now := time.Unix(0, 0)
	var failures []string
	m := newMirror(t, Options{
		Kernel: native.Config{AllowDebugPanic: true},
		Failed: func(_ error, consequence string) { failures = append(failures, consequence) },
		Now:    func() time.Time { return now },
	})
	c := newCluster(t)
	c.add(enforcedNode("n", "T4", 8))
	c.add(enforcedNode("m", "A100", 8))
	c.bind(c.pod(api.ResourceGPU, "2"), "n")
	learned := func() []byte {
		bytes, err := m.Kernel().ExportLearned()
		require.NoError(t, err)
		return bytes
	}
	copied := func() []byte {
		m.learned.mu.Lock()
		defer m.learned.mu.Unlock()
		return m.learned.bytes
	}
	for i := range 300 { // which come, are ranked and go, so that no pod shows them any more
		resource := []string{api.ResourceGPU, api.ResourceGPUPercent}[i%2]
		r := request(t, c.pod(resource, fmt.Sprint(1+i%5)))
		require.True(t, m.Sync(c.list, r))
		require.NotNil(t, m.Rank(r, c.list))
	}
	r := request(t, c.pod(api.ResourceGPU, "1"))
	before := learned()
	require.Eventually(t, func() bool { // as does every later pod, until the pause is over
		require.NotNil(t, m.Rank(r, c.list))
		m.learned.copies.Wait()
		return len(copied()) == len(before)
	}, 10*time.Second, time.Millisecond)
	before = copied()

	die := func() {
		require.Error(t, m.Kernel().DebugPanic())
		require.Nil(t, m.Rank(r, c.list))
		now = now.Add(time.Minute)
		require.True(t, m.Sync(c.list, nil))
	}
	die()
	require.Equal(t, before, learned())
	stats, err := m.Kernel().Stats()
	require.NoError(t, err)
	require.EqualValues(t, 301, stats.Arrivals, "300 and the one that ran at the start")

	die()
	stats, err = m.Kernel().Stats()
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Arrivals, "learned from the pod that runs")

	// A copy that cannot be used is no harm either.
	failures = nil
	m.learned.bytes = []byte("of another version")
	die()
	require.Len(t, failures, 2)
	require.Contains(t, failures[1], "learned from the pods")
	stats, err = m.Kernel().Stats()
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Arrivals)
}

// A busy kernel costs an opinion, not the kernel.
func TestKernelBusy(t *testing.T) {
	m := newMirror(t, Options{Kernel: native.Config{AllowDebugHold: true, LockWait: time.Millisecond}})
	c := newCluster(t)
	c.add(countsNode("n", "T4", 2))
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	kernel := m.Kernel()
	held := make(chan error)
	go func() { held <- kernel.DebugHold(300 * time.Millisecond) }()
	require.Eventually(t, func() bool { return m.Rank(r, c.list) == nil }, 200*time.Millisecond, time.Millisecond)
	c.bind(c.pod(api.ResourceGPU, "1"), "n")
	c.add(countsNode("new", "A100", 2))
	require.False(t, m.Sync(c.list, r))
	require.NoError(t, <-held)
	require.Same(t, kernel, m.Kernel())
	require.True(t, m.Sync(c.list, r))
	fresh := newMirror(t, Options{})
	require.True(t, fresh.Sync(c.list, nil))
	require.Equal(t, digest(t, fresh), digest(t, m), "what could not be sent was sent later")
}

func TestMoreModelsThanTheKernelHasNumbersFor(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	for i := range native.MaxModels + 6 {
		c.add(countsNode(fmt.Sprintf("n%02d", i), fmt.Sprintf("model-%02d", i), 1))
	}
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	ranking := m.Rank(r, c.list)
	for _, name := range c.order {
		_, known := ranking.Score(name)
		require.True(t, known, name)
	}
}

func TestManyPodsOnANode(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", 2))
	for range native.MaxPodsPerNode + 50 {
		c.bind(c.pod("cpu", "1m"), "n")
	}
	c.bind(c.pod(api.ResourceGPUPercent, "30"), "n")
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	_, refused, _ := m.NodeProblems()
	require.Zero(t, refused)
	require.Equal(t, []uint16{1000, 700}, m.FreeCards("n"))
	require.Equal(t, "n", m.Rank(r, c.list).Best())
}
