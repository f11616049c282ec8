package snapshot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mortise.dev/mortise/go-shim/pkg/native"
)

// Top agrees with sorting everything: the scores of the nodes are those of the n best eligible ones.
func TestTopAgreesWithSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		count, n := 1+rng.IntN(60), rng.IntN(25)
		r := &Ranking{table: &nodeTable{}, best: -1}
		at := map[string]int{}
		for i := range count {
			score := int64(rng.IntN(8) - 4)
			if rng.IntN(5) == 0 {
				score = native.ScoreInfeasible
			}
			name := fmt.Sprintf("n%d", i)
			at[name] = i
			r.table.entries = append(r.table.entries, &nodeEntry{name: name})
			r.scores = append(r.scores, score)
			if score != native.ScoreInfeasible && (r.best < 0 || score > r.scores[r.best]) {
				r.best = int32(i)
			}
		}
		barred := rng.IntN(count)
		eligible := func(i int) bool { return i != barred }
		var want []int64
		for i, score := range r.scores {
			if score != native.ScoreInfeasible && eligible(i) {
				want = append(want, score)
			}
		}
		slices.Sort(want)
		want = want[max(0, len(want)-n):]
		names := r.Top(n, eligible)
		var got []int64
		for _, name := range names {
			require.NotEqual(t, barred, at[name])
			got = append(got, r.scores[at[name]])
		}
		slices.Sort(got)
		require.True(t, slices.Equal(want, got), "round %d: want scores %v, got %v", round, want, got)
		if n > 0 && r.best >= 0 && eligible(int(r.best)) {
			require.Equal(t, r.Best(), names[0])
		}
	}
}
