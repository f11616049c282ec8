package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeviceChoiceOfMIGInstances(t *testing.T) {
	choice := DeviceChoice{PodUID: "u", Node: "n", MIG: []MIGDevice{
		{Container: "a", Card: "GPU-0", MIGPlace: MIGPlace{Profile: "1g.10gb", Start: 6, UUID: "MIG-1"}},
		{Container: "b", Card: "GPU-1", MIGPlace: MIGPlace{Profile: "3g.40gb", Start: 4}},
	}}
	text := choice.Format()
	require.Equal(t, `{"podUID":"u","node":"n","mig":[`+
		`{"container":"a","card":"GPU-0","profile":"1g.10gb","start":6,"uuid":"MIG-1"},`+
		`{"container":"b","card":"GPU-1","profile":"3g.40gb","start":4}]}`, text)
	parsed, err := ParseDeviceChoice(text, "u", "n")
	require.NoError(t, err)
	require.Equal(t, choice, parsed)

	_, err = ParseDeviceChoice(text, "other", "n")
	require.ErrorContains(t, err, `it is of pod UID "u"`)
	_, err = ParseDeviceChoice(text, "u", "other")
	require.ErrorContains(t, err, `it is for node "n"`)
	choice.MIG[1] = choice.MIG[0]
	_, err = ParseDeviceChoice(choice.Format(), "u", "n")
	require.ErrorContains(t, err, "listed twice")
	choice.MIG[1].Card = ""
	_, err = ParseDeviceChoice(choice.Format(), "u", "n")
	require.ErrorContains(t, err, "no card")
}

func TestInventoryWithMIG(t *testing.T) {
	devices := []InventoryDevice{
		{UUID: "GPU-1", Index: 1, Model: "H100", MemoryMiB: 81559, Healthy: true, MIGEnabled: true, MIG: []MIGPlace{
			{Profile: "3g.40gb", Start: 0, UUID: "MIG-a"}, {Profile: "1g.10gb", Start: 4, UUID: "MIG-b"},
		}},
		{UUID: "GPU-0", Index: 0, Model: "H100", MemoryMiB: 81559, Healthy: true},
	}
	parsed, err := ParseInventory(FormatInventory(devices))
	require.NoError(t, err)
	require.Equal(t, []InventoryDevice{devices[1], devices[0]}, parsed)

	for says, change := range map[string]func(d *InventoryDevice){
		"mig_enabled":  func(d *InventoryDevice) { d.MIGEnabled = false },
		"listed twice": func(d *InventoryDevice) { d.MIG[1].UUID = "MIG-a" },
		"no profile":   func(d *InventoryDevice) { d.MIG[1].Profile = "" },
		"negative":     func(d *InventoryDevice) { d.MIG[1].Start = -1 },
	} {
		bad, err := ParseInventory(FormatInventory(devices))
		require.NoError(t, err)
		change(&bad[1])
		_, err = ParseInventory(FormatInventory(bad))
		require.ErrorContains(t, err, says)
	}
	empty, err := ParseInventory(FormatInventory(nil))
	require.NoError(t, err)
	require.Empty(t, empty)
}

func TestAllocations(t *testing.T) {
	allocations := []PodAllocation{
		{PodUID: "b", MIG: []MIGDevice{{Container: "c", Card: "GPU-0", MIGPlace: MIGPlace{Profile: "1g.10gb", UUID: "MIG-1"}}}},
		{PodUID: "a", Devices: []string{"GPU-1"}, Percent: 30},
	}
	parsed, err := ParseAllocations(FormatAllocations(allocations))
	require.NoError(t, err)
	require.Equal(t, []PodAllocation{allocations[1], allocations[0]}, parsed)
	require.Equal(t, "[]", FormatAllocations(nil))
	for _, bad := range []string{
		`[{"podUID":"a"}]`, `[{"devices":["x"]}]`, `[{"podUID":"a","devices":["x","y"],"percent":5}]`,
		`[{"podUID":"a","devices":["x"],"percent":100}]`, `[{"podUID":"a","devices":["x","x"]}]`, `[{"podUID":"a","mig":[{}]}]`, `{`,
	} {
		_, err := ParseAllocations(bad)
		require.Error(t, err, bad)
	}
}
