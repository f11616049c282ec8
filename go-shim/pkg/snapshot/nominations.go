package snapshot

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// nominations are the cards that plans made room on, held in the kernel for the pods that wait for them. Go's own levels
// do not show them: kube-scheduler runs Filter with nominated pods added, and a pod of higher priority may take the place.
type nominations struct {
	mu   sync.Mutex
	pods map[types.UID]nomination
}

type nomination struct {
	node   string
	record native.PodRecord
}

// Nominate holds the planned cards of a pod that waits for victims to leave a node, against pods of no higher priority,
// until the pod is reserved, bound or gone, or ClearNomination.
func (m *Mirror) Nominate(request *Request, node string, devices uint16) {
	m.ClearNomination(request.uid)
	resolved := request.native
	record := native.PodRecord{
		UIDHigh: resolved.UIDHigh, UIDLow: resolved.UIDLow,
		CheckpointSeconds: native.CheckpointNone, AllowedModels: native.ModelsAny, Priority: resolved.Priority,
		GPUCount: resolved.GPUCount, GPUMilli: resolved.GPUMilli, DeviceMask: devices, Tier: tierOf(request.pod, m.TierRules()),
		Flags: native.PodReservation | native.PodNoLearn,
	}
	if !m.Enforced(node) {
		record.DeviceMask, record.UnknownCards = 0, resolved.GPUCount
	}
	m.nominated.mu.Lock()
	if m.nominated.pods == nil {
		m.nominated.pods = make(map[types.UID]nomination)
	}
	m.nominated.pods[request.uid] = nomination{node: node, record: record}
	m.nominated.mu.Unlock()
	m.markDirty(node)
}

// ClearNomination gives up what Nominate holds for the pod.
func (m *Mirror) ClearNomination(pod types.UID) {
	m.nominated.mu.Lock()
	held, found := m.nominated.pods[pod]
	delete(m.nominated.pods, pod)
	m.nominated.mu.Unlock()
	if found {
		m.markDirty(held.node)
	}
}

// Nominated is the node on which cards are held for the pod; "" if none are.
func (m *Mirror) Nominated(pod types.UID) string {
	m.nominated.mu.Lock()
	defer m.nominated.mu.Unlock()
	return m.nominated.pods[pod].node
}

// withNominated is m.records with the node's nominations. It is m.records itself if there are none.
func (m *Mirror) withNominated(node string) []native.PodRecord {
	m.nominated.mu.Lock()
	defer m.nominated.mu.Unlock()
	records := m.records
	for _, held := range m.nominated.pods {
		if held.node == node {
			records = append(records[:len(records):len(records)], held.record)
		}
	}
	if len(records) > len(m.records) {
		sortByUID(records)
	}
	return records
}
