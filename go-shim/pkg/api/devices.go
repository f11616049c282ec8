package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// InventoryDevice is one card of AnnotationGPUInventory.
type InventoryDevice struct {
	UUID      string `json:"uuid"`
	Index     int    `json:"index"`
	Model     string `json:"model"`
	MemoryMiB int64  `json:"memory_mib"`
	Healthy   bool   `json:"healthy"`
	// MIGEnabled: the card is in MIG mode. It is handed out by instances only, not whole and not in shares, and is counted
	// neither in ResourceGPU nor in ResourceGPUPercent.
	MIGEnabled bool `json:"mig_enabled,omitempty"`
	// MIG lists the instances that exist on a card in MIG mode, used or not. A node side that makes instances when they are
	// asked for lists every place where it can make one, without UUID; places may overlap then, and one is free while none
	// of its slices is in use.
	MIG []MIGPlace `json:"mig,omitempty"`
}

// MIGPlace is a MIG instance, or a place for one, on a card.
type MIGPlace struct {
	// Profile as nvidia-smi names it: 1g.10gb, 1g.10gb+me.
	Profile string `json:"profile"`
	// Start is the first memory slice, as NVML counts them (nvmlGpuInstancePlacement_t.start).
	Start int `json:"start"`
	// UUID of the MIG device (MIG-...); "" where the instance is made when it is asked for.
	UUID string `json:"uuid,omitempty"`
}

func (p MIGPlace) String() string { return fmt.Sprintf("%s@%d", p.Profile, p.Start) }

// MIGDevice is a MIG instance that one container of a pod gets.
type MIGDevice struct {
	// Container of the pod. Where an init container and a container have the same instance, one after the other, it is the
	// latter.
	Container string `json:"container"`
	// Card is the UUID of the card.
	Card string `json:"card"`
	MIGPlace
}

// DeviceChoice is the value of AnnotationGPUDevices. It holds only for the named pod on the named node: a copy on
// another pod, or of an older pod of the same name, is ignored.
type DeviceChoice struct {
	PodUID string `json:"podUID"`
	Node   string `json:"node"`
	// Devices are UUIDs of cards, whole ones or one to share.
	Devices []string `json:"devices,omitempty"`
	// MIG are instances, in the order of the pod's containers.
	MIG []MIGDevice `json:"mig,omitempty"`
}

// Format is the value of AnnotationGPUDevices.
func (c DeviceChoice) Format() string { return format(c) }

// ParseDeviceChoice reads AnnotationGPUDevices of a pod that is bound to the node. The error says why it must be ignored.
func ParseDeviceChoice(value, podUID, node string) (DeviceChoice, error) {
	var c DeviceChoice
	decoder := json.NewDecoder(bytes.NewReader([]byte(value)))
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("it is not valid JSON: %w", err)
	}
	switch {
	case c.PodUID != podUID:
		return c, fmt.Errorf("it is of pod UID %q, not %q", c.PodUID, podUID)
	case c.Node != node:
		return c, fmt.Errorf("it is for node %q, not %q", c.Node, node)
	}
	return c, checkHeld(c.Devices, c.MIG)
}

// PodAllocation is one entry of AnnotationGPUAllocation. Percent is 0 for cards held whole, else the units of the one card.
type PodAllocation struct {
	PodUID  string      `json:"podUID"`
	Devices []string    `json:"devices,omitempty"`
	Percent int64       `json:"percent,omitempty"`
	MIG     []MIGDevice `json:"mig,omitempty"`
}

// FormatAllocations is the value of AnnotationGPUAllocation, in the order of the pods' UIDs.
func FormatAllocations(allocations []PodAllocation) string {
	sorted := slices.Clone(allocations)
	slices.SortFunc(sorted, func(a, b PodAllocation) int { return cmp.Compare(a.PodUID, b.PodUID) })
	if sorted == nil {
		sorted = []PodAllocation{}
	}
	return format(sorted)
}

// ParseAllocations reads AnnotationGPUAllocation.
func ParseAllocations(value string) ([]PodAllocation, error) {
	var allocations []PodAllocation
	if err := json.Unmarshal([]byte(value), &allocations); err != nil {
		return nil, err
	}
	for _, a := range allocations {
		switch {
		case a.PodUID == "" || len(a.Devices)+len(a.MIG) == 0, a.Percent < 0 || a.Percent >= GPUPercentPerCard,
			a.Percent > 0 && len(a.Devices) != 1:
			return nil, fmt.Errorf("entry %+v is not an allocation of whole cards, of one share, or of MIG instances", a)
		}
		if err := checkHeld(a.Devices, a.MIG); err != nil {
			return nil, fmt.Errorf("entry of pod UID %q: %w", a.PodUID, err)
		}
	}
	return allocations, nil
}

func checkHeld(cards []string, instances []MIGDevice) error {
	for i, uuid := range cards {
		if uuid == "" || slices.Contains(cards[:i], uuid) {
			return fmt.Errorf("card %q is empty or listed twice", uuid)
		}
	}
	for i, d := range instances {
		switch {
		case d.Card == "" || d.Profile == "" || d.Start < 0:
			return fmt.Errorf("MIG instance %+v has no card, no profile or no start", d)
		case slices.ContainsFunc(instances[:i], func(o MIGDevice) bool { return o.Card == d.Card && o.MIGPlace == d.MIGPlace }):
			return fmt.Errorf("MIG instance %s of card %q is listed twice", d.MIGPlace, d.Card)
		}
	}
	return nil
}

// FormatInventory is the value of AnnotationGPUInventory, in the order of the cards' indices.
func FormatInventory(devices []InventoryDevice) string {
	sorted := slices.Clone(devices)
	slices.SortFunc(sorted, func(a, b InventoryDevice) int { return cmp.Compare(a.Index, b.Index) })
	if sorted == nil {
		sorted = []InventoryDevice{}
	}
	return format(sorted)
}

// ParseInventory reads AnnotationGPUInventory. Cards come in the order of their indices.
func ParseInventory(value string) ([]InventoryDevice, error) {
	var devices []InventoryDevice
	if err := json.Unmarshal([]byte(value), &devices); err != nil {
		return nil, err
	}
	slices.SortFunc(devices, func(a, b InventoryDevice) int { return cmp.Compare(a.Index, b.Index) })
	seen := make(map[string]bool, len(devices))
	for i, d := range devices {
		switch {
		case d.UUID == "":
			return nil, fmt.Errorf("card with index %d has no uuid", d.Index)
		case seen[d.UUID]:
			return nil, fmt.Errorf("card %q is listed twice", d.UUID)
		case d.Index < 0 || (i > 0 && d.Index == devices[i-1].Index):
			return nil, fmt.Errorf("card %q has index %d, which is negative or taken by another card", d.UUID, d.Index)
		}
		seen[d.UUID] = true
		if err := d.checkMIG(); err != nil {
			return nil, fmt.Errorf("card %q: %w", d.UUID, err)
		}
	}
	return devices, nil
}

func (d *InventoryDevice) checkMIG() error {
	if !d.MIGEnabled && len(d.MIG) > 0 {
		return errors.New("lists MIG instances, but mig_enabled is not true")
	}
	for i, p := range d.MIG {
		switch {
		case p.Profile == "" || p.Start < 0:
			return fmt.Errorf("MIG instance %+v has no profile or a negative start", p)
		case slices.ContainsFunc(d.MIG[:i], func(o MIGPlace) bool {
			return (o.Profile == p.Profile && o.Start == p.Start) || (p.UUID != "" && o.UUID == p.UUID)
		}):
			return fmt.Errorf("MIG instance %s (uuid %q) is listed twice", p, p.UUID)
		}
	}
	return nil
}

func format(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings, numbers and lists of them always marshal
	}
	return string(data)
}
