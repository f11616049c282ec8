package translate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Annotations of KAI (and Run:ai). They go with no resource request at all.
const (
	// KAIFraction is a part of a card, above 0 and at most 1.
	KAIFraction = "gpu-fraction"
	// KAIMemory is memory of a card in MiB.
	KAIMemory = "gpu-memory"
	// KAINumDevices is the number of cards of which KAIFraction or KAIMemory is asked for each.
	KAINumDevices = "gpu-fraction-num-devices"
	// KAIContainer names the container that gets the cards: the first one without it.
	KAIContainer = "gpu-fraction-container-name"
)

// maxMemoryMiB is an exbibyte: more than that is a mistake, and sums of it still fit.
const maxMemoryMiB = 1 << 40

func kaiRequest(pod *v1.Pod) (*Request, error) {
	fraction, hasFraction := pod.Annotations[KAIFraction]
	memory, hasMemory := pod.Annotations[KAIMemory]
	count, hasCount := pod.Annotations[KAINumDevices]
	switch {
	case hasFraction && hasMemory:
		return nil, fmt.Errorf("the pod has both annotations %s: %q and %s: %q; keep one", KAIFraction, fraction, KAIMemory, memory)
	case hasCount && !hasFraction && !hasMemory:
		return nil, fmt.Errorf("annotation %s is %q, but neither %s nor %s says how much of each card", KAINumDevices, count, KAIFraction, KAIMemory)
	case !hasFraction && !hasMemory:
		return nil, nil
	}
	r := &Request{Count: 1}
	var err error
	if r.Container, err = kaiContainer(pod); err != nil {
		return nil, err
	}
	if hasFraction {
		r.From = fmt.Sprintf("%s: %q", KAIFraction, fraction)
		if r.MemoryMilli, err = parseFraction(fraction); err != nil {
			return nil, err
		}
		r.ComputeMilli = r.MemoryMilli
	} else {
		r.From = fmt.Sprintf("%s: %q", KAIMemory, memory)
		if r.MemoryMiB, err = parseWhole(KAIMemory, memory, maxMemoryMiB, "MiB"); err != nil {
			return nil, err
		}
	}
	if hasCount {
		if r.Count, err = parseWhole(KAINumDevices, count, maxCards, "cards"); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func kaiContainer(pod *v1.Pod) (string, error) {
	name, named := pod.Annotations[KAIContainer]
	if !named {
		if len(pod.Spec.Containers) == 0 {
			return "", nil
		}
		return pod.Spec.Containers[0].Name, nil
	}
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("annotation %s is %q, but the pod has no container of that name", KAIContainer, name)
}

// parseFraction reads a part of a card in thousandths. It rounds up to whole units of api.ResourceGPUPercent: a pod never gets
// less than it asked for.
func parseFraction(value string) (int64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1 {
		return 0, fmt.Errorf("annotation %s is %q, but it must be a number above 0 and at most 1", KAIFraction, value)
	}
	// 0.07 * 100 is a little above 7: what is within a millionth of a unit is that unit.
	units := math.Ceil(f*api.GPUPercentPerCard - 1e-6)
	return int64(max(units, 1)) * milliPerUnit, nil
}

func parseWhole(key, value string, most int64, unit string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("annotation %s is %q, but it must be a whole number of %s from 1 to %d", key, value, unit, most)
	}
	return n, nil
}
