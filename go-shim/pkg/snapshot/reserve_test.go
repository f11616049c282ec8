package snapshot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// reserved is a cluster of one enforced node with a mirror that has synced it.
func reserved(t *testing.T, cards int) (*cluster, *Mirror) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", cards))
	require.True(t, m.Sync(c.list, nil))
	return c, m
}

func TestReserveIsRepeatable(t *testing.T) {
	c, m := reserved(t, 4)
	pod := c.pod(api.ResourceGPU, "2")
	r := request(t, pod)
	m.Unreserve(pod, "n") // without a Reserve before
	require.Nil(t, m.Cards(pod, "n"))
	require.NoError(t, m.Reserve(pod, r, "n", nil))
	first := m.Cards(pod, "n")
	require.Len(t, first, 2)
	before := calls(native.CallScore)
	for range 3 {
		require.NoError(t, m.Reserve(pod, r, "n", nil))
		require.Equal(t, first, m.Cards(pod, "n"))
	}
	require.Equal(t, before, calls(native.CallScore), "the kernel is not asked again")
	all, _ := m.Reservations()
	require.Equal(t, 1, all)
	for range 3 {
		m.Unreserve(pod, "n")
		require.Nil(t, m.Cards(pod, "n"))
	}
	all, _ = m.Reservations()
	require.Zero(t, all)
}

func TestReserveNeverMutatesThePod(t *testing.T) {
	c, m := reserved(t, 4)
	pod := c.pod(api.ResourceGPU, "2")
	before := pod.DeepCopy()
	require.NoError(t, m.Reserve(pod, request(t, pod), "n", nil))
	require.Equal(t, before, pod)
}

// A gang is rehearsed pod by pod on one snapshot, taken back, and then reserved for real without any Sync between.
func TestGangRehearsal(t *testing.T) {
	c, m := reserved(t, 4)
	gang := []*v1.Pod{
		c.pod(api.ResourceGPU, "1"), c.pod(api.ResourceGPUPercent, "60"), c.pod(api.ResourceGPU, "1"), c.pod(api.ResourceGPUPercent, "60"),
	}
	info := c.infos["n"]
	rankings := map[*v1.Pod]*Ranking{}
	var assumed []*v1.Pod
	for _, pod := range gang {
		r := request(t, pod)
		require.True(t, m.Sync(c.list, r))
		generation := info.Generation
		rankings[pod] = m.Rank(r, c.list)
		require.NoError(t, m.Reserve(pod, r, "n", rankings[pod]))
		assumed = append(assumed, c.bind(pod, "n"))
		info.Generation = generation
	}
	for i := len(gang) - 1; i >= 0; i-- {
		generation := info.Generation
		m.Unreserve(gang[i], "n")
		c.unbind(assumed[i])
		info.Generation = generation
	}
	used := map[string]int{}
	for _, pod := range gang {
		r := request(t, pod)
		require.NoError(t, m.Reserve(pod, r, "n", rankings[pod]))
		for _, card := range m.Cards(pod, "n") {
			used[card] += int(r.GPUMilli)
		}
	}
	require.Len(t, used, 4)
	for card, milli := range used {
		require.LessOrEqual(t, milli, 1000, card)
	}
	over := c.pod(api.ResourceGPU, "1")
	require.ErrorContains(t, m.Reserve(over, request(t, over), "n", nil), "no room")
}

// Two rankings of the same moment want the same card: the second pod gets another one.
func TestReserveRepairsAStaleChoice(t *testing.T) {
	c, m := reserved(t, 2)
	first, second, third := c.pod(api.ResourceGPU, "1"), c.pod(api.ResourceGPU, "1"), c.pod(api.ResourceGPU, "1")
	r := request(t, first)
	ranking := m.Rank(r, c.list)
	require.NoError(t, m.Reserve(first, r, "n", ranking))
	require.NoError(t, m.Reserve(second, r, "n", ranking))
	require.NotEqual(t, m.Cards(first, "n"), m.Cards(second, "n"))
	require.Error(t, m.Reserve(third, r, "n", ranking))
}

func TestReserveOnACountedNodeHoldsNothing(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(countsNode("n", "T4", 2))
	pod := c.pod(api.ResourceGPU, "1")
	r := request(t, pod)
	require.True(t, m.Sync(c.list, r))
	before := calls(native.CallScore)
	require.NoError(t, m.Reserve(pod, r, "n", nil))
	require.Nil(t, m.Cards(pod, "n"))
	require.Equal(t, before, calls(native.CallScore))
}

// Deleting the pods of two cards and creating one for two gives exactly those cards, in whatever order it happens.
func TestFreedCardsAreTheOnesThatAreGivenAgain(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", 8))
	var pods []*v1.Pod
	for range 4 {
		pod, err := c.place(m, c.pod(api.ResourceGPU, "2"), "n")
		require.NoError(t, err)
		pods = append(pods, c.publish(m, pod))
	}
	for round := range 200 {
		i := (round * 7) % len(pods)
		held := pods[i].Annotations[api.AnnotationGPUDevices]
		freed, err := api.ParseDeviceChoice(held, string(pods[i].UID), "n")
		require.NoError(t, err)
		c.unbind(pods[i])
		m.Gone(pods[i].UID)
		pod, err := c.place(m, c.pod(api.ResourceGPU, "2"), "n")
		require.NoError(t, err)
		require.ElementsMatch(t, freed.Devices, m.Cards(pod, "n"))
		pods[i] = c.publish(m, pod)
	}
}

func TestReservationEndsWhenTheSnapshotShowsTheCards(t *testing.T) {
	c, m := reserved(t, 2)
	pod, err := c.place(m, c.pod(api.ResourceGPU, "1"), "n")
	require.NoError(t, err)
	require.True(t, m.Sync(c.list, nil))
	free := m.FreeCards("n")
	all, _ := m.Reservations()
	require.Equal(t, 1, all)
	c.publish(m, pod)
	require.True(t, m.Sync(c.list, nil))
	all, _ = m.Reservations()
	require.Zero(t, all)
	require.Equal(t, free, m.FreeCards("n"))
}

func TestQuarantine(t *testing.T) {
	now := time.Unix(1000, 0)
	start := func(unbound bool) (*cluster, *Mirror, *v1.Pod) {
		c, m := newCluster(t), newMirror(t, Options{Now: func() time.Time { return now }})
		c.add(enforcedNode("n", "T4", 1))
		c.add(enforcedNode("other", "T4", 1))
		require.True(t, m.Sync(c.list, nil))
		pod, err := c.place(m, c.pod(api.ResourceGPU, "1"), "n")
		require.NoError(t, err)
		m.InDoubt(pod.UID, "n", unbound)
		m.Unreserve(pod, "n")
		c.unbind(pod)
		require.True(t, m.Sync(c.list, nil))
		require.Equal(t, []uint16{0}, m.FreeCards("n"), "the cards stay held without the pod")
		fit, _ := m.Room(request(t, c.pod(api.ResourceGPU, "1")), c.infos["n"])
		require.Equal(t, NoWholeCards, fit)
		return c, m, pod
	}
	free := func(c *cluster, m *Mirror) uint16 {
		require.True(t, m.Sync(c.list, nil))
		return m.FreeCards("n")[0]
	}

	t.Run("the pod was deleted", func(t *testing.T) {
		c, m, pod := start(false)
		m.Gone(pod.UID)
		require.EqualValues(t, 1000, free(c, m))
	})
	t.Run("the pod is bound elsewhere", func(t *testing.T) {
		c, m, pod := start(false)
		m.Bound(pod.UID, "other")
		require.EqualValues(t, 1000, free(c, m))
	})
	t.Run("the pod was bound after all", func(t *testing.T) {
		c, m, pod := start(false)
		m.Bound(pod.UID, "n")
		require.Zero(t, free(c, m), "held until the snapshot shows it")
		bound := c.bind(annotated(pod.DeepCopy(), api.AnnotationGPUDevices, choiceOf(pod, "n", []string{cardName("n", 0)})), "n")
		require.Zero(t, free(c, m))
		_, quarantined := m.Reservations()
		require.Zero(t, quarantined)
		c.unbind(bound)
		require.EqualValues(t, 1000, free(c, m))
	})
	t.Run("nobody could read it: only the API server's word counts", func(t *testing.T) {
		c, m, _ := start(false)
		now = now.Add(24 * time.Hour)
		require.Zero(t, free(c, m))
	})
	t.Run("it was seen unbound: until no write can be under way", func(t *testing.T) {
		c, m, _ := start(true)
		now = now.Add(quarantineTime - time.Second)
		require.Zero(t, free(c, m))
		now = now.Add(2 * time.Second)
		require.EqualValues(t, 1000, free(c, m))
	})
	t.Run("the next attempt goes elsewhere, the first write may still land", func(t *testing.T) {
		c, m, pod := start(true)
		again, err := c.place(m, pod, "other")
		require.NoError(t, err)
		require.Zero(t, free(c, m))
		m.Bound(again.UID, "other")
		require.EqualValues(t, 1000, free(c, m))
		require.Equal(t, []uint16{0}, m.FreeCards("other"))
	})
	t.Run("the next attempt is for the same node", func(t *testing.T) {
		c, m, pod := start(true)
		require.NoError(t, m.Reserve(pod, request(t, pod), "n", nil))
		require.Equal(t, []string{cardName("n", 0)}, m.Cards(pod, "n"))
		_, quarantined := m.Reservations()
		require.Zero(t, quarantined)
		c.bind(pod, "n")
		require.Zero(t, free(c, m))
	})
}

// Preemption removes victims from a copy of the NodeInfo and asks again.
func TestRoomOfAChangedNodeInfo(t *testing.T) {
	c, m := newCluster(t), newMirror(t, Options{})
	c.add(enforcedNode("n", "T4", 2))
	share, err := c.place(m, c.pod(api.ResourceGPUPercent, "50"), "n")
	require.NoError(t, err)
	share = c.publish(m, share)
	assumed, err := c.place(m, c.pod(api.ResourceGPU, "1"), "n")
	require.NoError(t, err)
	c.change("n", func(n *v1.Node) { n.Annotations[api.AnnotationGPUAllocation] = string(allocation(t, c, m, share)) })
	r := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, r))
	room := func(changed *cluster) Fit {
		fit, _ := m.Room(r, changed.infos["n"])
		return fit
	}
	clone := func() *cluster {
		copied := newCluster(t)
		copied.infos["n"] = c.infos["n"].SnapshotConcrete()
		return copied
	}
	require.Equal(t, NoWholeCards, room(c))

	without := clone()
	without.unbind(share)
	require.Equal(t, Fits, room(without), "a victim's cards are free, whatever the node side reported of it")

	without = clone()
	without.unbind(assumed)
	require.Equal(t, Fits, room(without), "an assumed victim's too")

	with := clone()
	with.unbind(share)
	with.bind(c.pod(api.ResourceGPU, "1"), "n") // a nominated pod
	require.Equal(t, NoWholeCards, room(with))
}
