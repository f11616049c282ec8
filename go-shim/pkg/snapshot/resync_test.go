package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// history drives a cluster and a mirror through random events.
type history struct {
	*cluster
	random *rand.Rand
	mirror *Mirror
	bound  map[types.UID]*v1.Pod
	nodes  int
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		cluster: newCluster(t), random: rand.New(rand.NewPCG(seed, 17)), mirror: newMirror(t, Options{}),
		bound: map[types.UID]*v1.Pod{},
	}
	for range 6 {
		h.addNode()
	}
	return h
}

var models = []string{"A100", "T4", "V100", "H100"}

func (h *history) addNode() {
	h.nodes++
	name, model, cards := fmt.Sprintf("node-%d", h.nodes), models[h.random.IntN(min(len(models), 1+h.nodes/3))], h.random.IntN(9)
	if h.random.IntN(3) == 0 {
		h.add(countsNode(name, model, cards))
	} else {
		h.add(enforcedNode(name, model, max(cards, 1)))
	}
}

func (h *history) randomNode() string { return h.order[h.random.IntN(len(h.order))] }

func (h *history) randomPod() *v1.Pod {
	if len(h.bound) == 0 {
		return nil
	}
	uids := slices.Sorted(maps.Keys(h.bound))
	return h.bound[uids[h.random.IntN(len(uids))]]
}

func (h *history) newPod() *v1.Pod {
	var pod *v1.Pod
	cpu := strconv.Itoa(h.random.IntN(16))
	switch h.random.IntN(4) {
	case 0:
		pod = h.pod("cpu", cpu, "memory", "1Gi")
	case 1:
		pod = h.pod("cpu", cpu, api.ResourceGPU, strconv.Itoa(1+h.random.IntN(4)))
	default:
		pod = h.pod("cpu", cpu, api.ResourceGPUPercent, strconv.Itoa(1+h.random.IntN(99)))
	}
	if h.random.IntN(3) == 0 {
		pod.Spec.NodeSelector = map[string]string{api.LabelGPUProduct: models[h.random.IntN(len(models))]}
	}
	priority := int32(h.random.IntN(5)) - 1
	pod.Spec.Priority = &priority
	return pod
}

// step lets one thing happen.
func (h *history) step() {
	switch h.random.IntN(16) {
	case 0:
		h.addNode()
	case 1:
		if len(h.order) > 3 {
			name := h.randomNode()
			maps.DeleteFunc(h.bound, func(_ types.UID, p *v1.Pod) bool { return p.Spec.NodeName == name })
			h.remove(name)
		}
	case 2:
		name := h.randomNode()
		h.change(name, func(n *v1.Node) {
			if n.Annotations[api.AnnotationGPUInventory] != "" {
				cards := n.Status.Capacity[api.ResourceGPU]
				setInventory(n, n.Labels[api.LabelGPUProduct], int(cards.Value()), map[int]bool{h.random.IntN(8): true})
			} else {
				n.Status.Allocatable[v1.ResourceCPU] = *n.Status.Allocatable.Cpu()
			}
		})
	case 3, 4:
		if pod := h.randomPod(); pod != nil {
			h.unbind(pod)
			delete(h.bound, pod.UID)
			h.mirror.Gone(pod.UID)
		}
	case 5:
		if pod := h.randomPod(); pod != nil {
			h.bound[pod.UID] = h.update(pod, func(p *v1.Pod) {
				p.DeletionTimestamp = &metav1.Time{}
				p.Status.Message = strconv.Itoa(h.random.IntN(1000))
			})
		}
	case 6, 7, 8:
		if pod := h.randomPod(); pod != nil {
			h.bound[pod.UID] = h.publish(h.mirror, pod)
		}
	case 9: // another scheduler's pod, of unknown cards
		pod := h.newPod()
		pod.Spec.SchedulerName = "other"
		h.bound[pod.UID] = h.bind(pod, h.randomNode())
	case 10:
		h.reportAllocations(h.randomNode())
	case 11: // a rehearsal
		pod, node := h.newPod(), h.randomNode()
		if assumed, err := h.place(h.mirror, pod, node); err == nil {
			h.mirror.Unreserve(assumed, node)
			h.unbind(assumed)
		}
	default:
		pod := h.newPod()
		if assumed, err := h.place(h.mirror, pod, h.randomNode()); err == nil {
			h.bound[pod.UID] = assumed
		}
	}
}

// reportAllocations lets the node side report the cards of its settled pods, and sometimes one of a pod that is gone.
func (h *history) reportAllocations(name string) {
	h.mirror.Sync(h.list, nil)
	e := h.mirror.nodes.Load().find(name)
	if e.facts.mode != ModeEnforced || e.facts.problem != "" {
		return
	}
	allocations := []api.PodAllocation{}
	for _, p := range e.pods {
		if p.settled && p.missing == 0 {
			a := api.PodAllocation{PodUID: string(p.pod.UID), Devices: e.facts.names(p.record.DeviceMask)}
			if p.record.GPUMilli < 1000 {
				a.Percent = int64(p.record.GPUMilli / milliPerPercent)
			}
			allocations = append(allocations, a)
		}
	}
	if h.random.IntN(3) == 0 && e.facts.count > 0 {
		ghost := api.PodAllocation{PodUID: "a-ghost", Devices: []string{cardName(name, h.random.IntN(e.facts.count))}, Percent: 10}
		allocations = append(allocations, ghost)
	}
	data, err := json.Marshal(allocations)
	if err != nil {
		panic(err)
	}
	h.change(name, func(n *v1.Node) { n.Annotations[api.AnnotationGPUAllocation] = string(data) })
}

// A fresh mirror that reads everything at once has the state of one that followed every change, bit for bit.
func TestResyncEqualsDeltaSync(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := newHistory(t, seed)
			for i := range 400 {
				h.step()
				if h.random.IntN(3) == 0 {
					require.True(t, h.mirror.Sync(h.list, nil))
				}
				if i%20 == 0 {
					h.compareWithFresh()
				}
			}
			h.compareWithFresh()
		})
	}
}

func (h *history) compareWithFresh() {
	require.True(h.t, h.mirror.Sync(h.list, nil))
	fresh := newMirror(h.t, Options{})
	fresh.table.nodes = maps.Clone(h.mirror.table.nodes)
	require.True(h.t, fresh.Sync(h.list, nil))
	want, err := fresh.Kernel().ExportState()
	require.NoError(h.t, err)
	got, err := h.mirror.Kernel().ExportState()
	require.NoError(h.t, err)
	require.Equal(h.t, want, got)
	require.Equal(h.t, digest(h.t, fresh), digest(h.t, h.mirror))
	for _, name := range h.order {
		require.Equal(h.t, fresh.FreeCards(name), h.mirror.FreeCards(name), name)
	}
}

// Filter and kernel agree on every node and request: Room in Go, sums as NodeResourcesFit counts them, and the kernel's
// own feasibility.
func TestRoomAgreesWithTheKernel(t *testing.T) {
	for seed := range uint64(8) {
		h := newHistory(t, 100+seed)
		for range 150 {
			h.step()
			pod := h.newPod()
			r := request(t, pod)
			require.True(t, h.mirror.Sync(h.list, r))
			ranking := h.mirror.Rank(r, h.list)
			require.NotNil(t, ranking)
			for _, info := range h.list {
				name := info.Node().Name
				e := h.mirror.nodes.Load().find(name)
				_, fits := ranking.Score(name)
				fit, _ := h.mirror.Room(r, info)
				if e.facts.mode == ModeEnforced {
					free := h.mirror.freeOf(info, e.facts, nil) // as of a NodeInfo that was not synced
					other, _ := roomIn(r, e.facts, &free)
					require.Equal(t, fit, other, "%s: read by itself", name)
				}
				want := fit == Fits && h.sumsFit(r, e, pod)
				require.Equal(t, want, fits, "seed %d, node %s, %s, free %v", seed, name, r, h.mirror.FreeCards(name))
			}
		}
	}
}

// sumsFit is what NodeResourcesFit and NodeAffinity say.
func (h *history) sumsFit(r *Request, e *nodeEntry, pod *v1.Pod) bool {
	info := h.infos[e.name]
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	if cpu := r.native.CPUMilli; cpu > 0 && cpu > allocatable.GetMilliCPU()-requested.GetMilliCPU() {
		return false
	}
	if memory := r.native.MemoryBytes; memory > 0 && memory > allocatable.GetMemory()-requested.GetMemory() {
		return false
	}
	if model := pod.Spec.NodeSelector[api.LabelGPUProduct]; model != "" && model != e.node.Labels[api.LabelGPUProduct] {
		return false
	}
	if !r.WantsGPU() {
		return true
	}
	if e.facts.mode == ModeEnforced {
		return true // the node side's account of withdrawn units follows the cards
	}
	if !r.Whole() {
		return false // such a node advertises no shares
	}
	free := 0
	for _, room := range e.free {
		if room == 1000 {
			free++
		}
	}
	return free >= int(r.GPUCount)
}
