package snapshot

import (
	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// choiceOf is the annotation that publishes these cards.
func choiceOf(pod *v1.Pod, node string, uuids []string) string {
	return api.DeviceChoice{PodUID: string(pod.UID), Node: node, Devices: uuids}.Format()
}
