package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// Bounds that the kernel sets; what Kubernetes allows beyond them is not a machine.
const (
	maxCPUMilli    = 1<<31 - 1
	maxMemoryBytes = 1 << 56
)

func clampCPU(milli int64) int64    { return min(max(milli, 0), maxCPUMilli) }
func clampMemory(bytes int64) int64 { return min(max(bytes, 0), maxMemoryBytes) }

// uidBits are the 128 bits of a UID: of the UUID it is, or of a digest for a UID in another form.
func uidBits(uid string) (high, low uint64) {
	var raw [16]byte
	digits := uid
	if len(uid) == 36 {
		digits = strings.ReplaceAll(uid, "-", "")
	}
	if len(digits) == 32 {
		if _, err := hex.Decode(raw[:], []byte(digits)); err == nil {
			return binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
		}
	}
	sum := sha256.Sum256([]byte(uid))
	return binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])
}

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// tierOf is the highest tier that priority, label or PriorityClass give a pod. A label that contradicts the priority is
// refused before a pod is scheduled; where one runs all the same, no claim to be spared is overlooked.
func tierOf(pod *v1.Pod, rules api.TierRules) uint8 {
	tier := tierNumber(rules.Of(priorityOf(pod)))
	if label, found := pod.Labels[api.LabelTier]; found {
		tier = min(tier, tierNumber(label))
	}
	switch pod.Spec.PriorityClassName {
	case api.PriorityClassInference:
		tier = native.TierInference
	case api.PriorityClassTraining:
		tier = min(tier, native.TierTraining)
	}
	return tier
}

func tierNumber(name string) uint8 {
	switch name {
	case api.TierInference:
		return native.TierInference
	case api.TierTraining:
		return native.TierTraining
	}
	return native.TierBatch
}

// isNoSample reports pods that say nothing about what users will ask for next: one per node by a DaemonSet or from a
// static manifest, and placeholders of negative priority.
func isNoSample(pod *v1.Pod) bool {
	for i := range pod.OwnerReferences {
		if kind := pod.OwnerReferences[i].Kind; kind == "DaemonSet" || kind == "Node" {
			return true
		}
	}
	return priorityOf(pod) < 0
}

func startSeconds(pod *v1.Pod) int64 {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Unix()
	}
	return pod.CreationTimestamp.Unix()
}

// checkpointSeconds is the time of the pod's last checkpoint; none if it cannot be read. One that cannot be true is the
// kernel's to judge, which is told what time it is and warns of it.
func checkpointSeconds(pod *v1.Pod) int64 {
	at, err := api.Checkpoint(pod.Annotations)
	if err != nil || at.IsZero() {
		return native.CheckpointNone
	}
	return at.Unix()
}
