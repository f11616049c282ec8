package snapshot

import (
	"math/bits"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// levels are the free milli-GPU of a node's cards.
type levels [native.MaxGPUsPerNode]uint16

// settle derives what the pods leave of the capacity by the kernel's rule: cards that are known first, then, in uid
// order, each unknown card takes the untouched card of the highest index, or the card with most left. pods are in uid
// order.
func settle(capacity *[native.MaxGPUsPerNode]uint16, count int, pods []native.PodRecord) levels {
	var held [native.MaxGPUsPerNode]uint32
	unknown := false
	for i := range pods {
		for mask := pods[i].DeviceMask; mask != 0; mask &= mask - 1 {
			held[bits.TrailingZeros16(mask)] += uint32(pods[i].GPUMilli)
		}
		unknown = unknown || pods[i].UnknownCards > 0
	}
	if unknown {
		for i := range pods {
			for range pods[i].UnknownCards {
				if card := unknownCard(capacity, &held, count); card >= 0 {
					held[card] += uint32(pods[i].GPUMilli)
				}
			}
		}
	}
	var free levels
	for i := range count {
		free[i] = left(capacity[i], held[i])
	}
	return free
}

func left(capacity uint16, held uint32) uint16 {
	if held >= uint32(capacity) {
		return 0
	}
	return capacity - uint16(held)
}

func unknownCard(capacity *[native.MaxGPUsPerNode]uint16, held *[native.MaxGPUsPerNode]uint32, count int) int {
	best, bestUntouched, bestLeft := -1, false, uint16(0)
	for i := range count {
		untouched := held[i] == 0 && capacity[i] == native.MilliPerGPU
		room := left(capacity[i], held[i])
		better := best < 0 || (untouched && !bestUntouched) || (untouched == bestUntouched && room >= bestLeft)
		if better {
			best, bestUntouched, bestLeft = i, untouched, room
		}
	}
	return best
}

// fits reports whether the cards of mask have room for what the request wants of each.
func (l *levels) fits(mask, milli uint16) bool {
	for ; mask != 0; mask &= mask - 1 {
		if l[bits.TrailingZeros16(mask)] < milli {
			return false
		}
	}
	return true
}

// candidates counts the cards with that much room.
func (l *levels) candidates(milli uint16) int {
	n := 0
	for _, room := range l {
		if room >= milli {
			n++
		}
	}
	return n
}

// choose picks cards without the kernel: for whole cards the lowest free ones, for a share the fullest card with room.
// It returns 0 if they do not fit.
func (l *levels) choose(count, milli uint16) uint16 {
	var mask uint16
	if milli < native.MilliPerGPU {
		best := -1
		for i, room := range l {
			if room >= milli && (best < 0 || room < l[best]) {
				best = i
			}
		}
		if best >= 0 {
			mask = 1 << best
		}
		return mask
	}
	for i, room := range l {
		if room >= milli && bits.OnesCount16(mask) < int(count) {
			mask |= 1 << i
		}
	}
	if bits.OnesCount16(mask) < int(count) {
		return 0
	}
	return mask
}
