package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// podEntry is a pod on a node as the kernel will see it, before reservations are laid over it.
type podEntry struct {
	pod    *v1.Pod // objects are immutable, so the same pointer means the same content
	record native.PodRecord
	count  uint16   // cards the pod asked for,
	milli  uint16   // and how much of each
	choice []string // cards by the pod's annotation; nil without a valid one
	// warning is about the annotation; "" if all is well.
	warning string

	// What follows depends on the node's facts too.

	facts *nodeFacts // by which the cards were looked up
	// settled: the pod's cards are known from the node side or from its annotation.
	settled bool
	// reserved: the cards came from a reservation when the node was last encoded.
	reserved bool
	// missing counts cards that the pod holds by name and the inventory does not list.
	missing int
}

func (m *Mirror) newPodEntry(info fwk.PodInfo, node string) podEntry {
	pod := info.GetPod()
	requested := info.CalculateResource().Resource
	high, low := uidBits(string(pod.UID))
	e := podEntry{pod: pod}
	e.record = native.PodRecord{
		UIDHigh:           high,
		UIDLow:            low,
		CPUMilli:          clampCPU(requested.GetMilliCPU()),
		MemoryBytes:       clampMemory(requested.GetMemory()),
		StartSeconds:      startSeconds(pod),
		CheckpointSeconds: checkpointSeconds(pod),
		AllowedModels:     native.ModelsAny,
		Priority:          priorityOf(pod),
		Tier:              tierOf(pod, m.TierRules()),
	}
	if constraint := modelConstraintOf(pod); !constraint.Any() {
		e.record.AllowedModels = constraint.resolve(m.models)
	}
	if pod.DeletionTimestamp != nil {
		e.record.Flags |= native.PodTerminating
	}
	if !m.isOurs(pod.Spec.SchedulerName) {
		e.record.Flags |= native.PodForeign
	}
	if isNoSample(pod) {
		e.record.Flags |= native.PodNoLearn
	}
	scalars := requested.GetScalarResources()
	e.count, e.milli = heldCards(scalars[api.ResourceGPU], scalars[api.ResourceGPUPercent])
	if value, found := pod.Annotations[api.AnnotationGPUDevices]; found && e.count > 0 {
		choice, err := api.ParseDeviceChoice(value, string(pod.UID), node)
		if err == nil && len(choice.Devices) != int(e.count) {
			err = fmt.Errorf("it lists %d cards, but the pod holds %d", len(choice.Devices), e.count)
		}
		if err != nil {
			e.warning = fmt.Sprintf("annotation %s is ignored: %v", api.AnnotationGPUDevices, err)
		} else {
			e.choice = choice.Devices
		}
	}
	return e
}

// heldCards is what a bound pod holds. Pods that no parser of ours has seen may ask for anything: what is not a share
// of one card is rounded up to whole cards.
func heldCards(cards, percent int64) (count, milli uint16) {
	switch {
	case cards <= 0 && percent <= 0:
		return 0, 0
	case cards <= 0 && percent < api.GPUPercentPerCard:
		return 1, uint16(percent * milliPerPercent)
	}
	whole := max(cards, 0) + (max(percent, 0)+api.GPUPercentPerCard-1)/api.GPUPercentPerCard
	return uint16(min(whole, native.MaxGPUsPerNode)), native.MilliPerGPU
}

// findCards looks up the pod's cards: what the node side gave it, else what its own annotation says.
func (e *podEntry) findCards(facts *nodeFacts) {
	if e.facts == facts {
		return
	}
	e.facts = facts
	e.settled, e.reserved, e.missing = false, false, 0
	e.record.GPUCount, e.record.GPUMilli, e.record.DeviceMask, e.record.UnknownCards = e.count, e.milli, 0, e.count
	if facts.mode != ModeEnforced || e.count == 0 {
		return
	}
	if a, found := facts.allocations[string(e.pod.UID)]; found {
		e.record.GPUCount, e.record.GPUMilli = uint16(len(a.Devices)), native.MilliPerGPU
		if a.Percent > 0 {
			e.record.GPUMilli = uint16(a.Percent) * milliPerPercent
		}
		e.settle(a.Devices)
	} else if e.choice != nil {
		e.settle(e.choice)
	}
}

func (e *podEntry) settle(uuids []string) {
	e.record.DeviceMask, e.missing = e.facts.mask(uuids)
	e.record.UnknownCards = uint16(e.missing)
	e.settled = true
}

// overlay turns entries into records in uid order, with the node's reservations laid over pods whose cards are not
// settled. Holds without a pod follow as records of their own. removed are pods that the caller left out of the entries
// on purpose, and away those of a rehearsal: what they hold counts as free.
//
// A reservation whose pod is not in the scheduler's cache counts if it is in quarantine, or if the caller says all of
// them do: within a cycle, pods are reserved that the entries do not show yet.
func overlay(entries, removed []podEntry, away map[string]bool, facts *nodeFacts, held []reservation, all bool, into []native.PodRecord) []native.PodRecord {
	out := into[:0]
	for i := range entries {
		e := &entries[i]
		record := e.record
		e.reserved = false
		if !e.settled && record.GPUCount > 0 && facts.mode == ModeEnforced {
			if r := findReservation(held, e.pod); r != nil {
				mask, missing := facts.mask(r.uuids)
				if len(r.uuids) == int(record.GPUCount) {
					record.DeviceMask, record.UnknownCards = mask, uint16(missing)
					e.reserved = true
				}
			}
		}
		out = append(out, record)
	}
	if facts.mode == ModeEnforced {
		out = appendAbsent(out, entries, removed, away, facts, held, all)
	}
	sortByUID(out)
	return out
}

func findReservation(held []reservation, pod *v1.Pod) *reservation {
	for i := range held {
		if held[i].pod == pod.UID {
			return &held[i]
		}
	}
	return nil
}

// appendAbsent adds holds without a pod: cards of reservations, and cards that the node side still reports in use by a
// pod that was deleted (by force, as a rule).
func appendAbsent(out []native.PodRecord, entries, removed []podEntry, away map[string]bool, facts *nodeFacts, held []reservation, all bool) []native.PodRecord {
	if len(held) == 0 && len(facts.allocations) == 0 {
		return out
	}
	present := make(map[string]bool, len(entries)+len(removed)+len(away))
	maps.Copy(present, away)
	for i := range entries {
		present[string(entries[i].pod.UID)] = true
	}
	for i := range removed {
		present[string(removed[i].pod.UID)] = true
	}
	add := func(uid string, uuids []string, milli uint16) {
		mask, missing := facts.mask(uuids)
		high, low := uidBits(uid)
		out = append(out, native.PodRecord{
			UIDHigh: high, UIDLow: low, CheckpointSeconds: native.CheckpointNone, AllowedModels: native.ModelsAny,
			GPUCount: uint16(len(uuids)), GPUMilli: milli, DeviceMask: mask, UnknownCards: uint16(missing),
			Tier: native.TierInference, Flags: native.PodTerminating | native.PodNoLearn,
		})
		present[uid] = true
	}
	for i := range held {
		if uid := string(held[i].pod); !present[uid] && (all || held[i].quarantined) {
			add(uid, held[i].uuids, held[i].milli)
		}
	}
	for uid, a := range facts.allocations {
		if present[uid] {
			continue
		}
		milli := uint16(native.MilliPerGPU)
		if a.Percent > 0 {
			milli = uint16(a.Percent) * milliPerPercent
		}
		add(uid, a.Devices, milli)
	}
	return out
}

func sortByUID(records []native.PodRecord) {
	order := func(a, b native.PodRecord) int {
		return cmp.Or(cmp.Compare(a.UIDHigh, b.UIDHigh), cmp.Compare(a.UIDLow, b.UIDLow))
	}
	if !slices.IsSortedFunc(records, order) {
		slices.SortFunc(records, order)
	}
}

// limitPods keeps at most the number of pods the kernel takes for a node; those that hold cards stay.
func limitPods(records []native.PodRecord) []native.PodRecord {
	if len(records) <= native.MaxPodsPerNode {
		return records
	}
	slices.SortStableFunc(records, func(a, b native.PodRecord) int {
		return cmp.Compare(min(b.GPUCount, 1), min(a.GPUCount, 1))
	})
	records = records[:native.MaxPodsPerNode]
	sortByUID(records)
	return records
}
