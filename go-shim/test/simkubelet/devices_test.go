package simkubelet

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"mortise.dev/mortise/go-shim/pkg/api"
)

func testTable(gpus int) *deviceTable {
	return newDeviceTable(NodeSpec{Name: "n", GPUs: gpus, GPUModel: "T4", GPUMemoryMiB: 16384}.inventory())
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	table := testTable(4)
	gpu := func(i int) string { return DeviceUUID("n", i) }
	table.take("whole", DeviceRequest{Cards: 1}, []string{gpu(0)})
	table.take("share", DeviceRequest{Percent: 60}, []string{gpu(1)})
	table.cards[3].Healthy = false

	for name, c := range map[string]struct {
		request DeviceRequest
		chosen  []string
		want    Reason
	}{
		"idle card":              {DeviceRequest{Cards: 1}, []string{gpu(2)}, ""},
		"room beside a share":    {DeviceRequest{Percent: 40}, []string{gpu(1)}, ""},
		"held whole":             {DeviceRequest{Cards: 1}, []string{gpu(0)}, DoubleBooked},
		"share on a held card":   {DeviceRequest{Percent: 1}, []string{gpu(0)}, DoubleBooked},
		"whole on a shared card": {DeviceRequest{Cards: 1}, []string{gpu(1)}, DoubleBooked},
		"share too large":        {DeviceRequest{Percent: 41}, []string{gpu(1)}, DoubleBooked},
		"unhealthy":              {DeviceRequest{Cards: 1}, []string{gpu(3)}, UnknownDevice},
		"unknown":                {DeviceRequest{Cards: 1}, []string{"GPU-x"}, UnknownDevice},
		"named twice":            {DeviceRequest{Cards: 2}, []string{gpu(2), gpu(2)}, UnknownDevice},
		"too few":                {DeviceRequest{Cards: 2}, []string{gpu(2)}, WrongDeviceCount},
		"none":                   {DeviceRequest{Percent: 1}, []string{}, WrongDeviceCount},
	} {
		got, message := table.check(c.request, c.chosen)
		require.Equal(t, c.want, got, "%s: %s", name, message)
	}
}

func TestAllocatableWithdrawsBothWays(t *testing.T) {
	table := testTable(4)
	table.take("a", DeviceRequest{Percent: 10}, []string{DeviceUUID("n", 0)})
	table.take("b", DeviceRequest{Percent: 90}, []string{DeviceUUID("n", 0)})
	table.take("c", DeviceRequest{Cards: 2}, []string{DeviceUUID("n", 1), DeviceUUID("n", 2)})
	cards, percent := table.allocatable()
	require.Equal(t, int64(3), cards, "the shared card is not offered whole")
	require.Equal(t, int64(200), percent, "the units of cards held whole are not offered")
	require.Equal(t, []int64{0, 0, 0, 1000}, table.freeMilli())

	require.True(t, table.release("a"))
	cards, _ = table.allocatable()
	require.Equal(t, int64(3), cards, "another share is still on the card")
	require.True(t, table.release("b"))
	require.True(t, table.release("c"))
	require.False(t, table.release("c"), "a second release finds nothing")
	cards, percent = table.allocatable()
	require.Equal(t, []int64{4, 400}, []int64{cards, percent})
}

// Whatever comes and goes: no card is held twice, what is offered covers what is in use, and releasing everything leaves
// an empty table.
func TestRandomTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		table := testTable(1 + rng.IntN(8))
		for step := range 100 {
			if len(table.allocations) > 0 && rng.IntN(3) == 0 {
				for uid := range table.allocations {
					table.release(uid)
					break
				}
			}
			request := DeviceRequest{Cards: 1 + rng.Int64N(3)}
			if rng.IntN(2) == 0 {
				request = DeviceRequest{Percent: 1 + rng.Int64N(99)}
			}
			if uuids, ok := table.pick(request); ok {
				reason, message := table.check(request, uuids)
				require.Empty(t, reason, message)
				table.take(types.UID(fmt.Sprint("pod", step)), request, uuids)
			}
			checkTable(t, table)
		}
		for uid := range table.allocations {
			table.release(uid)
		}
		cards, percent := table.allocatable()
		require.Equal(t, int64(len(table.cards)), cards)
		require.Equal(t, cards*api.GPUPercentPerCard, percent)
	}
}

func checkTable(t *testing.T, table *deviceTable) {
	t.Helper()
	var wholeUsed, percentUsed int64
	for i := range table.cards {
		c := &table.cards[i]
		require.False(t, c.whole != "" && len(c.shares) > 0, "card %d is whole and shared", i)
		require.LessOrEqual(t, c.percentUsed(), int64(api.GPUPercentPerCard))
		percentUsed += c.percentUsed()
		if c.whole != "" {
			wholeUsed++
		}
	}
	cards, percent := table.allocatable()
	require.LessOrEqual(t, wholeUsed, cards)
	require.LessOrEqual(t, percentUsed, percent)
}
