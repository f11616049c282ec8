package snapshot

import (
	"fmt"
	"hash/maphash"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// Sync brings Mirror and kernel to the state of the snapshot's list of nodes, in one call of the kernel, and counts the
// pod about to be scheduled as an arrival. Only nodes whose generation changed or that are dirty are looked at, and only
// those whose content changed are sent. If the kernel fails, Room still knows the state, Rank has no opinion until a
// later Sync succeeds, and false is returned.
func (m *Mirror) Sync(nodes []fwk.NodeInfo, arrival *Request) bool {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	if m.closed {
		return false
	}
	m.calls.Store(0)
	m.expireQuarantines()
	kernel, fresh := m.reviveKernel()
	m.updateTable(nodes)
	if !m.encodeChanged(nodes, kernel) || kernel == nil {
		return false
	}
	m.batch.Full = fresh
	var pod *native.PodRequest
	if arrival != nil {
		request := m.resolve(arrival)
		pod = &request
	}
	for _, ref := range m.removals {
		m.batch.RemoveNode(ref)
	}
	if _, err := kernel.Sync(&m.batch, pod); err != nil {
		m.unsend()
		if !native.IsBusy(err) && !native.IsDead(err) {
			return m.syncOneByOne(kernel, err)
		}
		m.handleFailure(kernel, err)
		return false
	}
	m.commit()
	m.learn(kernel)
	return true
}

// commit notes what the kernel has now.
func (m *Mirror) commit() {
	for i, ref := range m.batch.Refs() {
		m.sent[i].entry.ref, m.sent[i].entry.hash = ref, m.sent[i].hash
	}
	m.removals = m.removals[:0]
	m.backoff = 0
}

// learn lets a new kernel count the pods it finds as past arrivals.
func (m *Mirror) learn(kernel *native.Cluster) {
	if m.unlearned {
		m.unlearned = false
		if err := kernel.LearnFromPods(); err != nil {
			m.failed(err, "the mix of pods is learned from new arrivals only")
		}
	}
}

// unsend makes the next Sync send again what this one could not.
func (m *Mirror) unsend() {
	for _, s := range m.sent {
		s.entry.hash = 0
		s.entry.dirty.Store(true)
	}
}

// syncOneByOne finds the nodes whose content the kernel refuses, so that they do not keep the others out. Refused nodes
// are left out of the kernel until they change.
func (m *Mirror) syncOneByOne(kernel *native.Cluster, cause error) bool {
	m.failed(cause, "nodes are sent one by one to find the one that is refused")
	sent := append([]sentNode(nil), m.sent...)
	records := m.batch.Copy()
	m.batch.Reset()
	for _, ref := range m.removals {
		m.batch.RemoveNode(ref)
	}
	m.sent = m.sent[:0]
	if _, err := kernel.Sync(&m.batch, nil); err != nil {
		m.handleFailure(kernel, err)
		return false
	}
	m.commit()
	for i, s := range sent {
		m.batch.Reset()
		m.batch.AddNode(records[i].Node, records[i].Pods)
		m.sent = append(m.sent[:0], s)
		_, err := kernel.Sync(&m.batch, nil)
		switch {
		case err == nil:
			m.commit()
			s.entry.dirty.Store(false)
		case native.IsBusy(err) || native.IsDead(err):
			m.handleFailure(kernel, err)
			return false
		default:
			s.entry.refused = err.Error()
			m.tally(s.entry, false)
			s.entry.dirty.Store(false)
			if s.entry.ref != 0 {
				m.removals = append(m.removals, s.entry.ref)
				s.entry.ref, s.entry.hash = 0, 0
			}
			m.failed(err, fmt.Sprintf("node %s is not ranked until it changes", s.entry.name))
		}
	}
	m.learn(kernel)
	return true
}

// updateTable follows nodes that came or went. The snapshot makes a new list exactly then.
func (m *Mirror) updateTable(nodes []fwk.NodeInfo) {
	if m.isList(nodes) {
		return
	}
	m.list = nodes
	old := m.nodes.Load()
	table := &nodeTable{entries: make([]*nodeEntry, 0, len(nodes)), byName: make(map[string]int32, len(nodes))}
	for _, info := range nodes {
		name := info.Node().Name
		entry := old.find(name)
		if entry == nil {
			entry = &nodeEntry{name: name, key: nodeKey(name), generation: noGeneration}
		}
		table.byName[name] = int32(len(table.entries))
		table.entries = append(table.entries, entry)
	}
	for _, entry := range old.entries {
		if table.find(entry.name) != nil {
			continue
		}
		m.tally(entry, true)
		if entry.ref != 0 {
			m.removals = append(m.removals, entry.ref)
			entry.ref = 0
		}
	}
	m.nodes.Store(table)
}

// isList reports whether nodes is the list of the last Sync itself.
func (m *Mirror) isList(nodes []fwk.NodeInfo) bool {
	return len(nodes) == len(m.list) && unsafe.SliceData(nodes) == unsafe.SliceData(m.list)
}

// encodeChanged encodes nodes that changed, and fills the batch with those whose content did. It returns false if the
// kernel failed; the nodes are then encoded again by the next Sync.
func (m *Mirror) encodeChanged(nodes []fwk.NodeInfo, kernel *native.Cluster) bool {
	m.batch.Reset()
	m.sent = m.sent[:0]
	table := m.nodes.Load()
	m.findChanged(nodes, table)
	for _, i := range m.changed {
		table.entries[i].readNode(nodes[i].Node())
	}
	// Models first: a pod may accept models of nodes that come later in the list.
	var failure error
	if added := 0; kernel != nil {
		added, failure = m.internModels(table, kernel)
		m.reencodeAll(nodes, table, added > 0)
	}
	for _, i := range m.changed {
		e := table.entries[i]
		e.dirty.Store(false)
		m.encode(e, nodes[i])
		switch {
		case failure != nil:
			e.dirty.Store(true)
		case kernel != nil:
			m.send(e, nodes[i])
		}
	}
	if failure != nil {
		m.handleFailure(kernel, failure)
	}
	return failure == nil
}

// reencodeAll, if there are new models, has every node encoded: pods may accept them.
func (m *Mirror) reencodeAll(nodes []fwk.NodeInfo, table *nodeTable, newModels bool) {
	if !newModels {
		return
	}
	for i, e := range table.entries {
		e.generation, e.pods = noGeneration, nil
		e.readNode(nodes[i].Node())
	}
	m.findChanged(nodes, table)
}

func (m *Mirror) findChanged(nodes []fwk.NodeInfo, table *nodeTable) {
	m.changed = m.changed[:0]
	for i, info := range nodes {
		if e := table.entries[i]; info.GetGeneration() != e.generation || e.dirty.Load() {
			m.changed = append(m.changed, int32(i))
		}
	}
}

// internModels gives numbers to card models that are new, and counts them.
func (m *Mirror) internModels(table *nodeTable, kernel *native.Cluster) (added int, err error) {
	for _, i := range m.changed {
		model := table.entries[i].facts.model
		if _, known := m.models[model]; known || model == "" {
			continue
		}
		id, err := kernel.InternModel(model)
		if native.IsDead(err) || native.IsBusy(err) {
			return added, err
		}
		if err != nil {
			// The kernel has no number left: the node is known without its model.
			m.failed(err, fmt.Sprintf("model %q cannot be told from others without a number", model))
			id = native.ModelNone
		}
		m.models[model] = id
		added++
	}
	return added, nil
}

// encode reads a node's state from its NodeInfo.
func (m *Mirror) encode(e *nodeEntry, info fwk.NodeInfo) {
	e.readNode(info.Node())
	e.pods = m.readPods(e, info)
	e.missing = 0
	for i := range e.pods {
		p := &e.pods[i]
		e.missing += p.missing
		if p.settled {
			m.table.confirm(p.pod.UID, e.name)
		}
	}
	m.records = overlay(e.pods, nil, m.awayPods(), e.facts, m.table.on(e.name), false, m.records)
	e.free = settle(&e.facts.capacity, e.facts.count, m.records)
	e.generation = info.GetGeneration()
	e.refused = ""
	m.tally(e, false)
}

// readNode reads the Node object if it is another one than before.
func (e *nodeEntry) readNode(node *v1.Node) {
	if e.node != node || e.facts == nil {
		e.node, e.facts = node, readNode(node, e.facts)
	}
}

// readPods makes the entries of a node's pods. Those whose object is known are taken as they are.
func (m *Mirror) readPods(e *nodeEntry, info fwk.NodeInfo) []podEntry {
	infos := info.GetPods()
	out := make([]podEntry, 0, len(infos))
	for i, p := range infos {
		if known := findEntry(e.pods, i, p); known != nil {
			out = append(out, *known)
		} else {
			out = append(out, m.newPodEntry(p, e.name))
			entry := &out[len(out)-1]
			if entry.warning != "" && e.facts.mode == ModeEnforced && m.options.Warn != nil {
				m.options.Warn(entry.pod, entry.warning)
			}
		}
		out[len(out)-1].findCards(e.facts)
	}
	return out
}

// findEntry looks for a pod's entry, at its old position first.
func findEntry(known []podEntry, position int, info fwk.PodInfo) *podEntry {
	pod := info.GetPod()
	if position < len(known) && known[position].pod == pod {
		return &known[position]
	}
	for i := range known {
		if known[i].pod == pod {
			return &known[i]
		}
	}
	return nil
}

// send puts a node into the batch if the kernel does not have its content yet.
func (m *Mirror) send(e *nodeEntry, info fwk.NodeInfo) {
	if e.facts.mode == ModeUntracked {
		if e.ref != 0 {
			m.removals = append(m.removals, e.ref)
			e.ref, e.hash = 0, 0
		}
		return
	}
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	delta := native.NodeDelta{
		Key:                    e.key,
		CPUAllocatableMilli:    clampCPU(allocatable.GetMilliCPU()),
		CPUFreeMilli:           clampFree(allocatable.GetMilliCPU()-requested.GetMilliCPU(), maxCPUMilli),
		MemoryAllocatableBytes: clampMemory(allocatable.GetMemory()),
		MemoryFreeBytes:        clampFree(allocatable.GetMemory()-requested.GetMemory(), maxMemoryBytes),
		ModelID:                native.ModelNone,
		GPUCount:               uint16(e.facts.count),
		GPUCapacityMilli:       e.facts.capacity,
	}
	if e.facts.mode == ModeEnforced {
		delta.Flags |= native.NodeOffersShares
	}
	if e.facts.model != "" {
		delta.ModelID = m.models[e.facts.model]
	}
	pods := limitPods(m.withNominated(e.name))
	hash := m.contentHash(&delta, pods)
	if e.ref != 0 && hash == e.hash {
		return
	}
	delta.Ref, delta.Generation = e.ref, e.generation
	m.batch.AddNode(delta, pods)
	m.sent = append(m.sent, sentNode{entry: e, hash: hash})
}

func clampFree(value, bound int64) int64 { return min(max(value, -bound), bound) }

// contentHash digests what decisions depend on: all but the node's reference and generation, which are still zero.
func (m *Mirror) contentHash(delta *native.NodeDelta, pods []native.PodRecord) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	_, _ = h.Write(unsafe.Slice((*byte)(unsafe.Pointer(delta)), unsafe.Sizeof(*delta)))
	if len(pods) > 0 {
		_, _ = h.Write(unsafe.Slice((*byte)(unsafe.Pointer(&pods[0])), uintptr(len(pods))*unsafe.Sizeof(pods[0])))
	}
	return h.Sum64()
}

// resolve is the request in the kernel's terms.
func (m *Mirror) resolve(r *Request) native.PodRequest {
	request := r.native
	request.AllowedModels = r.Models.resolve(m.models) & r.acceptedModels(m.models)
	request.Tier = tierOf(r.pod, m.TierRules())
	return request
}

func (m *Mirror) expireQuarantines() {
	m.freed(m.table.expire(m.options.Now()))
}
