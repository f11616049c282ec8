package snapshot

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// HAMi's annotations and memory decide about nodes, and about the cards of a node; the kernel alone would take others.
func TestAcceptedCards(t *testing.T) {
	c := newCluster(t)
	c.add(enforcedNode("small", "Tesla-T4", 2))
	c.add(enforcedNode("large", "NVIDIA-A100-SXM4-80GB", 2))
	c.add(countsNode("counted", "NVIDIA-A100-SXM4-80GB", 2))
	c.change("large", func(n *v1.Node) {
		var devices []api.InventoryDevice
		require.NoError(t, json.Unmarshal([]byte(n.Annotations[api.AnnotationGPUInventory]), &devices))
		for i := range devices {
			devices[i].MemoryMiB = 81920
		}
		data, err := json.Marshal(devices)
		require.NoError(t, err)
		n.Annotations[api.AnnotationGPUInventory] = string(data)
	})
	whole, share := []string{api.ResourceGPU, "1"}, []string{api.ResourceGPUPercent, "30"}
	for name, test := range map[string]struct {
		asks       []string
		key, value string
		fits       []string
		cards      map[string][]string // node: the cards that Reserve may choose; nil: any
	}{
		"any":                  {whole, "x", "y", []string{"small", "large", "counted"}, nil},
		"use-gputype":          {whole, "nvidia.com/use-gputype", "a100", []string{"large", "counted"}, nil},
		"nouse-gputype":        {whole, "nvidia.com/nouse-gputype", "A100", []string{"small"}, nil},
		"no such type":         {whole, "nvidia.com/use-gputype", "H100", nil, nil},
		"use-gpuuuid":          {whole, "nvidia.com/use-gpuuuid", cardName("large", 1), []string{"large"}, map[string][]string{"large": {cardName("large", 1)}}},
		"nouse-gpuuuid":        {share, "nvidia.com/nouse-gpuuuid", cardName("small", 0), []string{"small", "large"}, map[string][]string{"small": {cardName("small", 1)}}},
		"memory of a share":    {share, "gpu-memory", "4915", []string{"small", "large", "counted"}, nil},
		"memory of large only": {share, "gpu-memory", "4916", []string{"large", "counted"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, Options{})
			pod := annotated(c.pod(test.asks...), test.key, test.value)
			r := request(t, pod)
			require.True(t, m.Sync(c.list, r))
			var fits []string
			for _, node := range []string{"small", "large", "counted"} {
				fit, _ := m.Room(r, c.infos[node])
				if fit != Fits {
					require.Equal(t, NoAcceptedCard, fit, node)
					continue
				}
				fits = append(fits, node) // a share on a counted node is NodeResourcesFit's to refuse
				require.NoError(t, m.Reserve(pod, r, node, m.Rank(r, c.list)))
				if want := test.cards[node]; want != nil {
					require.Equal(t, want, m.Cards(pod, node))
				}
				m.Unreserve(pod, node)
			}
			require.Equal(t, test.fits, fits)
			models := m.resolve(r).AllowedModels
			require.Equal(t, r.Cards.NamesModels(), models != native.ModelsAny)
		})
	}
}

// The card that a pod names is refused while it is in use, however much else is free.
func TestAcceptedCardInUse(t *testing.T) {
	c := newCluster(t)
	c.add(enforcedNode("n", "Tesla-T4", 4))
	m := newMirror(t, Options{})
	named := func() *v1.Pod {
		return annotated(c.pod(api.ResourceGPU, "1"), "nvidia.com/use-gpuuuid", cardName("n", 2))
	}
	first, err := c.place(m, named(), "n")
	require.NoError(t, err)
	require.Equal(t, []string{cardName("n", 2)}, m.Cards(first, "n"))
	r := request(t, named())
	require.True(t, m.Sync(c.list, r))
	fit, _ := m.Room(r, c.infos["n"])
	require.Equal(t, NoWholeCards, fit)
}
