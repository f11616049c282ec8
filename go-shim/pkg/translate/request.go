package translate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// milliPerCard is a whole card; milliPerUnit is one unit of api.ResourceGPUPercent.
const (
	milliPerCard = 1000
	milliPerUnit = milliPerCard / api.GPUPercentPerCard
)

// maxCards bounds a count; no node has as many.
const maxCards = 1 << 16

// Request is what one container of a pod asks of GPUs. Memory is stated in MiB or as a part of a card's, never both.
type Request struct {
	// From is the key that asks, with its value, for messages: `gpu-fraction: "0.5"`.
	From string
	// Container that gets the cards.
	Container string
	// ByResource: asked for by resources that no node advertises, so that they have to go.
	ByResource bool
	// Count of cards.
	Count int64
	// ComputeMilli is the part of each card's compute, 1 to 1000; 0 if not stated.
	ComputeMilli int64
	// MemoryMilli is the part of each card's memory, 1 to 1000; 0 if not stated.
	MemoryMilli int64
	// MemoryMiB of each card; 0 if not stated.
	MemoryMiB int64
}

// Milli is the part of a card with so much memory that satisfies the request: the larger of what compute and memory need,
// in whole units of api.ResourceGPUPercent. cardMiB 0 is for requests that state no memory in MiB. The error says that such
// a card is too small.
func (r *Request) Milli(cardMiB int64) (int64, error) {
	milli := max(r.ComputeMilli, r.MemoryMilli)
	if r.MemoryMiB > 0 {
		switch {
		case cardMiB <= 0:
			return 0, fmt.Errorf("%s is memory, and how much a card has is not known", r.From)
		case r.MemoryMiB > cardMiB:
			return 0, fmt.Errorf("%s is more than a card of %d MiB has", r.From, cardMiB)
		}
		// In units first: in thousandths, the product could leave 64 bits only for cards of petabytes.
		milli = max(milli, ceilDiv(r.MemoryMiB*api.GPUPercentPerCard, cardMiB)*milliPerUnit)
	}
	return ceilDiv(milli, milliPerUnit) * milliPerUnit, nil
}

// DependsOnModel reports whether the same request is a different part of cards of different memory.
func (r *Request) DependsOnModel() bool { return r.MemoryMiB > 0 }

// Advice says how to ask for the same in terms that are counted. It is about a request without memory in MiB as well as
// about one with it.
func (r *Request) Advice() string {
	what := fmt.Sprintf("%s: 1..%d, by the memory of the card", api.ResourceGPUPercent, api.GPUPercentPerCard-1)
	if !r.DependsOnModel() {
		if milli, _ := r.Milli(0); milli == milliPerCard {
			what = fmt.Sprintf("%s: %d", api.ResourceGPU, r.Count)
		} else {
			what = fmt.Sprintf("%s: %d", api.ResourceGPUPercent, milli/milliPerUnit)
		}
	}
	verb := "adds"
	if r.ByResource {
		verb = "puts in its place"
	}
	return fmt.Sprintf("%s means %s, and only that request is counted on nodes: install deploy/share-admission-policy.yaml, which %s it, "+
		"or write it yourself, in container %q", r.From, what, verb, r.Container)
}

// Pod reads a pod's request in another stack's words; nil if there is none. Resources of NVIDIA's device plugin are not
// another stack's: whoever counts nodes counts them (see Resource).
func Pod(pod *v1.Pod) (*Request, error) {
	share, err := kaiRequest(pod)
	if err != nil {
		return nil, err
	}
	virtual, err := hamiRequest(pod)
	if err != nil {
		return nil, err
	}
	switch {
	case share != nil && virtual != nil:
		return nil, fmt.Errorf("the pod asks for GPUs twice, by %s and by %s; keep one", share.From, virtual.From)
	case share != nil:
		return share, nil
	default:
		return virtual, nil
	}
}

// quantity reads a resource of a container, the limit before the request as device plugins do; 0 if it is absent.
func quantity(c *v1.Container, name v1.ResourceName, most int64) (int64, error) {
	q, found := c.Resources.Limits[name]
	if !found {
		q, found = c.Resources.Requests[name]
	}
	if !found {
		return 0, nil
	}
	value := q.Value()
	if value < 0 || value > most || q.Cmp(*resource.NewQuantity(value, resource.DecimalSI)) != 0 {
		return 0, fmt.Errorf("container %q: %s is %s, but it must be a whole number from 0 to %d", c.Name, name, q.String(), most)
	}
	return value, nil
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
