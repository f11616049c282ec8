package simkubelet

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// DeviceRequest is what one pod asks of a node's cards: Cards whole ones, or Percent units of a single one.
type DeviceRequest struct {
	Cards   int64
	Percent int64
}

func (r DeviceRequest) empty() bool { return r.Cards == 0 && r.Percent == 0 }

// Allocation is what a node gave to a pod. Percent is 0 for cards held whole.
type Allocation struct {
	Devices []string
	Percent int64
}

// Reason says what is wrong with a scheduler's decision.
type Reason string

const (
	// DoubleBooked: a chosen card has no room beside the pods that hold it already.
	DoubleBooked Reason = "DoubleBooked"
	// UnknownDevice: a chosen card is not in the node's inventory, or is unhealthy, or is named twice.
	UnknownDevice Reason = "UnknownDevice"
	// WrongDeviceCount: the choice does not name as many cards as the pod requests.
	WrongDeviceCount Reason = "WrongDeviceCount"
	// InsufficientDevices: no choice of cards could have satisfied the pod on this node.
	InsufficientDevices Reason = "InsufficientDevices"
)

// card is the state of one GPU. It is held whole by one pod, or by shares whose units do not exceed
// api.GPUPercentPerCard, or idle.
type card struct {
	api.InventoryDevice
	whole  types.UID
	shares map[types.UID]int64
}

func (c *card) percentUsed() (used int64) {
	for _, units := range c.shares {
		used += units
	}
	return used
}

func (c *card) idle() bool { return c.whole == "" && len(c.shares) == 0 }

// fits tells whether the card can take request (one card of it) now.
func (c *card) fits(request DeviceRequest) bool {
	switch {
	case !c.Healthy:
		return false
	case request.Cards > 0:
		return c.idle()
	default:
		return c.whole == "" && c.percentUsed()+request.Percent <= api.GPUPercentPerCard
	}
}

// deviceTable holds the cards of one node. It is not safe for concurrent use.
type deviceTable struct {
	cards       []card
	allocations map[types.UID]Allocation
}

func newDeviceTable(inventory []api.InventoryDevice) *deviceTable {
	t := &deviceTable{allocations: map[types.UID]Allocation{}}
	for _, device := range inventory {
		t.cards = append(t.cards, card{InventoryDevice: device, shares: map[types.UID]int64{}})
	}
	return t
}

func (t *deviceTable) inventory() []api.InventoryDevice {
	devices := make([]api.InventoryDevice, len(t.cards))
	for i := range t.cards {
		devices[i] = t.cards[i].InventoryDevice
	}
	return devices
}

// check says what stands against giving exactly the chosen cards to request; the empty reason means nothing does.
func (t *deviceTable) check(request DeviceRequest, chosen []string) (Reason, string) {
	want := max(request.Cards, 1)
	if int64(len(chosen)) != want {
		return WrongDeviceCount, fmt.Sprintf("%d devices chosen, %d requested", len(chosen), want)
	}
	for i, uuid := range chosen {
		at := t.index(uuid)
		if at < 0 || !t.cards[at].Healthy || slices.Contains(chosen[:i], uuid) {
			return UnknownDevice, fmt.Sprintf("device %q is not a healthy device of the node, or is chosen twice", uuid)
		}
	}
	for _, uuid := range chosen {
		if c := &t.cards[t.index(uuid)]; !c.fits(request) {
			return DoubleBooked, fmt.Sprintf("device %q (held whole by %q, %d units in use) cannot take %+v",
				uuid, c.whole, c.percentUsed(), request)
		}
	}
	return "", ""
}

// pick chooses cards as a device plugin without guidance would: the fullest card that has room for a share, the first
// idle ones otherwise. It returns false if there are not enough.
func (t *deviceTable) pick(request DeviceRequest) ([]string, bool) {
	var fitting []*card
	for i := range t.cards {
		if t.cards[i].fits(request) {
			fitting = append(fitting, &t.cards[i])
		}
	}
	want := int(max(request.Cards, 1))
	if len(fitting) < want {
		return nil, false
	}
	if request.Cards == 0 {
		slices.SortStableFunc(fitting, func(a, b *card) int { return cmp.Compare(b.percentUsed(), a.percentUsed()) })
	}
	var uuids []string
	for _, c := range fitting[:want] {
		uuids = append(uuids, c.UUID)
	}
	return uuids, true
}

// take records that pod holds the given cards, which must have room.
func (t *deviceTable) take(pod types.UID, request DeviceRequest, uuids []string) {
	for _, uuid := range uuids {
		c := &t.cards[t.index(uuid)]
		if request.Cards > 0 {
			c.whole = pod
		} else {
			c.shares[pod] = request.Percent
		}
	}
	t.allocations[pod] = Allocation{Devices: uuids, Percent: request.Percent}
}

// release frees what pod holds and tells whether it held anything.
func (t *deviceTable) release(pod types.UID) bool {
	allocation, held := t.allocations[pod]
	for _, uuid := range allocation.Devices {
		c := &t.cards[t.index(uuid)]
		if c.whole == pod {
			c.whole = ""
		}
		delete(c.shares, pod)
	}
	delete(t.allocations, pod)
	return held
}

func (t *deviceTable) index(uuid string) int {
	return slices.IndexFunc(t.cards, func(c card) bool { return c.UUID == uuid })
}

// allocatable returns how many whole cards and how many share units the node offers, those in use included: a card with
// shares is not offered whole, the units of a card held whole are not offered as shares.
func (t *deviceTable) allocatable() (cards, percent int64) {
	for i := range t.cards {
		c := &t.cards[i]
		if c.Healthy && len(c.shares) == 0 {
			cards++
		}
		if c.Healthy && c.whole == "" {
			percent += api.GPUPercentPerCard
		}
	}
	return cards, percent
}

// freeMilli returns the free thousandths of each card; an unhealthy card has none.
func (t *deviceTable) freeMilli() []int64 {
	free := make([]int64, len(t.cards))
	for i := range t.cards {
		if c := &t.cards[i]; c.Healthy && c.whole == "" {
			free[i] = 1000 - c.percentUsed()*1000/api.GPUPercentPerCard
		}
	}
	return free
}
