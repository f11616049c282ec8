package snapshot

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// Mode says who chooses a node's cards.
type Mode uint8

const (
	// ModeCounts: the kubelet chooses; cards are counted, not known.
	ModeCounts Mode = iota
	// ModeEnforced: the scheduler chooses; the node advertises api.ResourceGPUPercent and lists its cards.
	ModeEnforced
	// ModeUntracked: the node has more cards than the kernel knows (time-sliced replicas, as a rule). Kubernetes
	// counts them, and the node is neither refused nor ranked.
	ModeUntracked
)

// nodeFacts is what a Node object says about cards. It is immutable, and made anew when the object changes.
type nodeFacts struct {
	mode    Mode
	problem string // ModeEnforced: why no GPU pod can be placed; "" if all is well
	model   string // "" without cards
	// inventoryModel is the one model of the inventory's cards; "" if they differ.
	inventoryModel string
	product        string                // label api.LabelGPUProduct
	devices        []api.InventoryDevice // in the order of uuids; not for cards that are only counted
	uuids          []string
	capacity       [native.MaxGPUsPerNode]uint16
	count          int    // cards, healthy or not
	source         string // ModeEnforced: the annotation that the cards were read from
	// allocations are the cards that the node side gave to pods, by pod UID; nil if it does not report them.
	allocations map[string]api.PodAllocation
}

// readNode reads a Node object; before is what an earlier object of the node said, or nil.
func readNode(node *v1.Node, before *nodeFacts) *nodeFacts {
	f := &nodeFacts{product: node.Labels[api.LabelGPUProduct]}
	if advertises(node, api.ResourceGPUPercent) {
		f.mode = ModeEnforced
		if err := f.readEnforced(node, before); err != nil {
			f.problem = err.Error()
			f.uuids, f.devices, f.count, f.capacity = nil, nil, 0, [native.MaxGPUsPerNode]uint16{}
		}
	} else {
		f.readCounts(node)
	}
	if f.count > 0 {
		if f.product != "" {
			f.model = f.product
		}
		if f.model == "" || len(f.model) > native.MaxModelNameBytes {
			f.model = "unknown"
		}
	}
	return f
}

// advertises looks at the capacity too: the node side withdraws units of cards in use from allocatable, down to none.
// A resource left over from a device plugin that is gone is zero in both.
func advertises(node *v1.Node, name v1.ResourceName) bool {
	capacity, allocatable := node.Status.Capacity[name], node.Status.Allocatable[name]
	return capacity.Sign() > 0 || allocatable.Sign() > 0
}

func (f *nodeFacts) readCounts(node *v1.Node) {
	cards := node.Status.Allocatable[api.ResourceGPU]
	switch n := cards.Value(); {
	case n <= 0:
	case n > native.MaxGPUsPerNode:
		f.mode = ModeUntracked
	default:
		f.count = int(n)
		for i := range f.count {
			f.capacity[i] = native.MilliPerGPU
		}
	}
}

func (f *nodeFacts) readEnforced(node *v1.Node, before *nodeFacts) error {
	if err := f.readCards(node.Annotations[api.AnnotationGPUInventory], before); err != nil {
		return fmt.Errorf("annotation %s: %w", api.AnnotationGPUInventory, err)
	}
	value, reported := node.Annotations[api.AnnotationGPUAllocation]
	if !reported {
		return nil
	}
	allocations, err := api.ParseAllocations(value)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", api.AnnotationGPUAllocation, err)
	}
	f.allocations = make(map[string]api.PodAllocation, len(allocations))
	for _, a := range allocations {
		if len(a.Devices) > native.MaxGPUsPerNode {
			return fmt.Errorf("annotation %s: entry %+v has more cards than a node can have, which is %d",
				api.AnnotationGPUAllocation, a, native.MaxGPUsPerNode)
		}
		f.allocations[a.PodUID] = a
	}
	return nil
}

func (f *nodeFacts) readCards(inventory string, before *nodeFacts) error {
	if before != nil && before.problem == "" && before.source != "" && before.source == inventory {
		f.uuids, f.devices, f.capacity, f.count = before.uuids, before.devices, before.capacity, before.count
		f.model, f.source = before.inventoryModel, inventory
		f.inventoryModel = f.model
		return nil
	}
	devices, err := parseInventory(inventory)
	if err != nil {
		return err
	}
	f.devices, f.count, f.source = devices, len(devices), inventory
	for i, device := range devices {
		f.uuids = append(f.uuids, device.UUID)
		if device.Healthy {
			f.capacity[i] = native.MilliPerGPU
		}
		if i == 0 {
			f.inventoryModel = device.Model
		} else if device.Model != f.inventoryModel {
			f.inventoryModel = ""
		}
	}
	f.model = f.inventoryModel
	return nil
}

// parseInventory returns the cards in the order of their index. Device numbers in the kernel are positions in it; what
// is stored anywhere else is the UUID.
func parseInventory(value string) ([]api.InventoryDevice, error) {
	if value == "" {
		return nil, fmt.Errorf("is missing, although the node advertises %s", api.ResourceGPUPercent)
	}
	devices, err := api.ParseInventory(value)
	if err != nil {
		return nil, err
	}
	if len(devices) > native.MaxGPUsPerNode {
		return nil, fmt.Errorf("lists %d cards, but at most %d are supported", len(devices), native.MaxGPUsPerNode)
	}
	return devices, nil
}

// mask turns UUIDs into device bits; missing counts those that the inventory does not list.
func (f *nodeFacts) mask(uuids []string) (mask uint16, missing int) {
	for _, uuid := range uuids {
		if i := slices.Index(f.uuids, uuid); i >= 0 {
			mask |= 1 << i
		} else {
			missing++
		}
	}
	return mask, missing
}

// names turns device bits into UUIDs.
func (f *nodeFacts) names(mask uint16) []string {
	var out []string
	for i, uuid := range f.uuids {
		if mask&(1<<i) != 0 {
			out = append(out, uuid)
		}
	}
	return out
}
