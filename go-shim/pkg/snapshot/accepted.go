package snapshot

import (
	"math/bits"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// ByCard reports whether the pod accepts some cards of a model and not others. The kernel, which knows models only, may then
// think of a node that it has room.
func (r *Request) ByCard() bool { return r.Cards.NamesCards() || r.MemoryMiB > 0 }

// accepts reports whether the node has enough cards, free or not, that the pod accepts. Cards that are only counted are
// accepted by the node's label, and never by UUID, which the kubelet does not follow.
func (r *Request) accepts(f *nodeFacts) bool {
	switch {
	case r.Cards.Any() && r.MemoryMiB == 0:
		return true
	case f.mode != ModeEnforced:
		return !r.Cards.NamesCards() && r.Cards.AcceptsModel(f.product)
	}
	return bits.OnesCount16(r.acceptedCards(f)) >= int(r.GPUCount)
}

// acceptedCards are the cards of an enforced node that the pod accepts.
func (r *Request) acceptedCards(f *nodeFacts) (mask uint16) {
	for i := range f.devices {
		d := &f.devices[i]
		model := d.Model
		if f.product != "" {
			model = f.product
		}
		// A share of the card is that share of its memory.
		memory := d.MemoryMiB * int64(r.GPUMilli) / native.MilliPerGPU
		if r.Cards.AcceptsModel(model) && r.Cards.AcceptsCard(d.UUID) && memory >= r.MemoryMiB {
			mask |= 1 << i
		}
	}
	return mask
}

// restrict leaves free only the cards that the pod accepts.
func (r *Request) restrict(f *nodeFacts, free levels) levels {
	if r.Cards.Any() && r.MemoryMiB == 0 {
		return free
	}
	accepted := r.acceptedCards(f)
	for i := range free {
		if accepted&(1<<i) == 0 {
			free[i] = 0
		}
	}
	return free
}

// acceptedModels is what Cards says of models, as a bit set of model ids.
func (r *Request) acceptedModels(ids map[string]uint32) uint64 {
	if !r.Cards.NamesModels() {
		return native.ModelsAny
	}
	var bits uint64
	for name, id := range ids {
		if id < native.MaxModels && r.Cards.AcceptsModel(name) {
			bits |= 1 << id
		}
	}
	return bits
}
