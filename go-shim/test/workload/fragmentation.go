package workload

import (
	"slices"
	"strings"

	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// FragmentMilli is the fragment amount of the cluster: for each node the idle GPU that a pod drawn from the mix cannot
// use there on average (Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 4).
func FragmentMilli(nodes []simkubelet.NodeState, mix []WeightedKind) (total float64) {
	for i := range nodes {
		idle := sum(nodes[i].GPUFreeMilli)
		for _, kind := range mix {
			total += kind.Frequency * float64(idle-usableMilli(&nodes[i], kind.Kind))
		}
	}
	return total
}

// usableMilli is the idle GPU of a node on cards that have room for one card of kind, if kind can run there at all.
func usableMilli(node *simkubelet.NodeState, kind Kind) int64 {
	if kind.GPUs == 0 || node.CPUFreeMilli < kind.CPUMilli || !allows(kind, node.GPUModel) {
		return 0
	}
	var cards, usable int64
	for _, free := range node.GPUFreeMilli {
		if free >= kind.GPUMilli {
			cards++
			usable += free
		}
	}
	if cards < kind.GPUs {
		return 0
	}
	return usable
}

// StrandedMilli is the idle GPU on cards which no kind of the mix can use any more: no GPU kind of it fits on the node
// with that card taking part. Unlike the fragment amount it is not an average: what a single rare kind could use is not
// stranded.
func StrandedMilli(nodes []simkubelet.NodeState, mix []WeightedKind) (total int64) {
	for i := range nodes {
		node := &nodes[i]
		smallest := int64(MilliPerCard) + 1 // the smallest room on a card that some kind could use on this node
		for _, kind := range mix {
			if usableMilli(node, kind.Kind) > 0 {
				smallest = min(smallest, kind.GPUMilli)
			}
		}
		for _, free := range node.GPUFreeMilli {
			if free < smallest {
				total += free
			}
		}
	}
	return total
}

func allows(kind Kind, model string) bool {
	return kind.Models == "" || slices.Contains(strings.Split(kind.Models, "|"), model)
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}
