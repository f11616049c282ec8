package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

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

// tierOf is the pod's tier by its label, else by its PriorityClass; a pod that claims none is batch.
func tierOf(pod *v1.Pod) uint8 {
	switch pod.Labels[api.LabelTier] {
	case api.TierInference:
		return native.TierInference
	case api.TierTraining:
		return native.TierTraining
	case api.TierBatch:
		return native.TierBatch
	}
	switch pod.Spec.PriorityClassName {
	case api.PriorityClassInference:
		return native.TierInference
	case api.PriorityClassTraining:
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

// checkpointSeconds is the time of the pod's last checkpoint. One that cannot be read, or from before the pod started,
// is of another pod or of nobody: none. A time in the future is the kernel's to judge, which is told what time it is.
func checkpointSeconds(pod *v1.Pod) int64 {
	value, found := pod.Annotations[api.AnnotationLastCheckpoint]
	if !found {
		value, found = pod.Annotations[api.AnnotationVolcanoLastCheckpoint]
	}
	if !found {
		return native.CheckpointNone
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil || at.Unix() < startSeconds(pod) {
		return native.CheckpointNone
	}
	return at.Unix()
}
