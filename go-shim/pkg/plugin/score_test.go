package plugin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"
)

func list(scores ...int64) fwk.NodeScoreList {
	var out fwk.NodeScoreList
	for i, s := range scores {
		out = append(out, fwk.NodeScore{Name: fmt.Sprintf("n%d", i), Score: s})
	}
	return out
}

func TestNormalize(t *testing.T) {
	const none = unknownRaw
	for name, c := range map[string]struct {
		raw       []int64
		favourite string
		want      []int64
	}{
		"one node":                {[]int64{-5}, "n0", []int64{100}},
		"linear":                  {[]int64{0, 50, 100}, "n2", []int64{0, 49, 100}},
		"negative scores":         {[]int64{-300, -100, -200}, "n1", []int64{0, 100, 49}},
		"equals: the kernel's":    {[]int64{7, 7, 7}, "n1", []int64{99, 100, 99}},
		"equals: the first name":  {[]int64{7, 7, 7}, "elsewhere", []int64{100, 99, 99}},
		"an old score was better": {[]int64{9, 8}, "n1", []int64{100, 0}},
		"unknown is neutral":      {[]int64{none, 10, none, 20}, "n3", []int64{50, 0, 50, 100}},
		"all unknown":             {[]int64{none, none}, "", []int64{50, 50}},
		"the whole range":         {[]int64{math.MinInt64 + 1, 0, math.MaxInt64}, "n2", []int64{0, 49, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			scores := list(c.raw...)
			normalize(scores, c.favourite)
			for i, want := range c.want {
				require.Equal(t, want, scores[i].Score, "n%d", i)
			}
		})
	}
}

// Exactly one node has 100, all are within bounds, and the order is that of the raw scores.
func TestNormalizeKeepsTheOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		raw := make([]int64, 1+random.IntN(40))
		for i := range raw {
			switch random.IntN(4) {
			case 0:
				raw[i] = random.Int64N(5)
			case 1:
				raw[i] = int64(random.Uint64())
			default:
				raw[i] = -random.Int64N(1 << 40)
			}
			if raw[i] == unknownRaw {
				raw[i]++
			}
		}
		scores := list(raw...)
		normalize(scores, fmt.Sprintf("n%d", random.IntN(len(raw))))
		best := 0
		for i := range scores {
			require.GreaterOrEqual(t, scores[i].Score, int64(0))
			require.LessOrEqual(t, scores[i].Score, int64(100))
			if scores[i].Score == 100 {
				best++
			}
			for j := range scores {
				if raw[i] < raw[j] {
					require.LessOrEqual(t, scores[i].Score, scores[j].Score)
				}
			}
		}
		require.Equal(t, 1, best)
	}
}
