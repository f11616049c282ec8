package snapshot

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/api"
)

func TestARehearsalFreesWhatTheNodeStillReports(t *testing.T) {
	c := newCluster(t)
	c.add(enforcedNode("n1", "A", 2))
	m := newMirror(t, Options{})
	victim := c.bind(c.pod(api.ResourceGPU, "1"), "n1")
	other := c.bind(c.pod(api.ResourceGPU, "1"), "n1")
	report, err := json.Marshal([]api.PodAllocation{
		{PodUID: string(victim.UID), Devices: []string{cardName("n1", 0)}}, {PodUID: string(other.UID), Devices: []string{cardName("n1", 1)}},
	})
	require.NoError(t, err)
	c.change("n1", func(node *v1.Node) { node.Annotations[api.AnnotationGPUAllocation] = string(report) })
	asks := request(t, c.pod(api.ResourceGPU, "1"))
	require.True(t, m.Sync(c.list, nil))
	before := digest(t, m)
	require.Equal(t, []uint16{0, 0}, m.FreeCards("n1"))

	end := m.Rehearse([]types.UID{victim.UID})
	c.unbind(victim)
	fit, _ := m.Room(asks, c.infos["n1"])
	require.Equal(t, Fits, fit, "read by itself")
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, []uint16{1000, 0}, m.FreeCards("n1"))
	require.NotNil(t, m.Rank(asks, c.list))
	end()
	c.bind(victim, "n1")
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, []uint16{0, 0}, m.FreeCards("n1"))
	require.Equal(t, before, digest(t, m), "nothing is left of it")

	c.unbind(victim)
	require.True(t, m.Sync(c.list, nil))
	require.Equal(t, []uint16{0, 0}, m.FreeCards("n1"), "outside a rehearsal the card is held until the node gives it up")
}
