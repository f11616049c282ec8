package snapshot

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"mortise.dev/mortise/go-shim/pkg/native"
)

func TestSettle(t *testing.T) {
	four := [native.MaxGPUsPerNode]uint16{1000, 1000, 1000, 1000}
	known := func(mask, milli uint16) native.PodRecord {
		return native.PodRecord{GPUCount: uint16(bits.OnesCount16(mask)), GPUMilli: milli, DeviceMask: mask}
	}
	unknown := func(count, milli uint16) native.PodRecord {
		return native.PodRecord{GPUCount: count, GPUMilli: milli, UnknownCards: count}
	}
	for name, c := range map[string]struct {
		pods []native.PodRecord
		want [4]uint16
	}{
		"empty":                            {nil, [4]uint16{1000, 1000, 1000, 1000}},
		"known":                            {[]native.PodRecord{known(0b0101, 1000)}, [4]uint16{0, 1000, 0, 1000}},
		"shares add up":                    {[]native.PodRecord{known(1, 300), known(1, 200)}, [4]uint16{500, 1000, 1000, 1000}},
		"unknown from the top":             {[]native.PodRecord{unknown(2, 1000)}, [4]uint16{1000, 1000, 0, 0}},
		"known first, whatever the order":  {[]native.PodRecord{unknown(1, 1000), known(0b1000, 1000)}, [4]uint16{1000, 1000, 0, 0}},
		"unknown share takes a fresh card": {[]native.PodRecord{known(0b1000, 100), unknown(1, 500)}, [4]uint16{1000, 1000, 500, 900}},
		"no fresh card: where most is left": {
			[]native.PodRecord{known(1, 900), known(2, 300), known(4, 500), known(8, 300), unknown(1, 400)}, [4]uint16{100, 700, 500, 300}},
		"overbooked cards end at zero": {[]native.PodRecord{known(1, 800), known(1, 800)}, [4]uint16{0, 1000, 1000, 1000}},
		"more unknown than cards":      {[]native.PodRecord{unknown(6, 1000)}, [4]uint16{0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			free := settle(&four, 4, c.pods)
			require.Equal(t, c.want[:], free[:4])
			require.Equal(t, levels{}, func() levels { l := free; clear(l[:4]); return l }())
		})
	}
}

// What choose picks always fits, and it finds a choice whenever there is one.
func TestChoose(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var free levels
		for i := range 1 + random.IntN(native.MaxGPUsPerNode) {
			if free[i] = 1000; random.IntN(2) == 0 {
				free[i] = uint16(random.IntN(101)) * 10
			}
		}
		count, milli := uint16(1), uint16(1+random.IntN(999))
		if random.IntN(2) == 0 {
			count, milli = uint16(1+random.IntN(8)), 1000
		}
		mask := free.choose(count, milli)
		if free.candidates(milli) < int(count) {
			require.Zero(t, mask)
			continue
		}
		require.EqualValues(t, count, bits.OnesCount16(mask))
		require.True(t, free.fits(mask, milli))
		if milli < 1000 {
			chosen := free[bits.TrailingZeros16(mask)]
			for _, room := range free {
				require.False(t, room >= milli && room < chosen, "a fuller card had room")
			}
		}
	}
}
