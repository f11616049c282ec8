package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Arrive returns the arrival sequence of the published openb experiment: the pods of the trace shuffled, then brought to
// load times the cluster's GPU capacity. Below it, pods drawn from the trace with replacement are appended; above it, pods
// are dropped at random. load 0 keeps the trace as it is, shuffled.
func Arrive(trace []Pod, capacityMilli int64, load float64, seed uint64) []Pod {
	rng := rand.New(rand.NewPCG(seed, 0))
	pods := slices.Clone(trace)
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	original := slices.Clone(pods)
	rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })

	var total int64
	for i := range pods {
		total += pods[i].GPUTotalMilli()
	}
	target := int64(load * float64(capacityMilli))
	if load == 0 || total == 0 {
		return pods
	}
	for total > target && len(pods) > 0 {
		drop := rng.IntN(len(pods))
		total -= pods[drop].GPUTotalMilli()
		pods = slices.Delete(pods, drop, drop+1)
	}
	if total == target || len(pods) < len(original) {
		return pods
	}
	for copies := 0; ; copies++ {
		pod := original[rng.IntN(len(original))]
		// The published experiment compares with the demand of one card, not of the pod: at most seven cards too many.
		if total+pod.GPUMilli > target {
			return pods
		}
		pod.Name = fmt.Sprintf("%s-copy-%05d", pod.Name, copies)
		total += pod.GPUTotalMilli()
		pods = append(pods, pod)
	}
}
