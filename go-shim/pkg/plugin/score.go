package plugin

import (
	"context"
	"math"
	"math/bits"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Scores after NormalizeScore.
const (
	scoreBest    = fwk.MaxNodeScore // the kernel's choice, and no other node
	scoreRunner  = fwk.MaxNodeScore - 1
	scoreUnknown = fwk.MaxNodeScore / 2 // the kernel has no opinion: neither good nor bad
)

// unknownRaw marks, between Score and NormalizeScore, a node of which the kernel has no opinion. It is the value that
// the kernel gives to nodes that do not fit, so no fitting node has it.
const unknownRaw = math.MinInt64

// Score is the kernel's absolute score, which may be compared between cycles.
func (p *GPUStranding) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := cycleOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if c.timer != nil {
		start := time.Now()
		defer func() { c.timer.score.Add(int64(time.Since(start))) }()
	}
	if score, known := rankingOf(state).Score(node.Node().Name); known {
		return score, nil
	}
	return unknownRaw, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *GPUStranding) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives 100 to one node, the kernel's choice, and 0 to 99 to the others by their cost.
func (p *GPUStranding) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	start := time.Now()
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	defer c.timed("NormalizeScore", start)
	normalize(scores, rankingOf(state).Best())
	return nil
}

// normalize scales raw scores in place. favourite wins among equals.
func normalize(scores fwk.NodeScoreList, favourite string) {
	low, high, best := int64(math.MaxInt64), int64(math.MinInt64), -1
	for i, s := range scores {
		if s.Score == unknownRaw {
			continue
		}
		low = min(low, s.Score)
		switch {
		case best < 0 || s.Score > high:
			high, best = s.Score, i
		case s.Score == high && preferred(s.Name, scores[best].Name, favourite):
			best = i
		}
	}
	for i := range scores {
		switch s := &scores[i]; {
		case i == best:
			s.Score = scoreBest
		case s.Score == unknownRaw:
			s.Score = scoreUnknown
		default:
			s.Score = scale(s.Score, low, high)
		}
	}
}

func preferred(name, other, favourite string) bool {
	if other == favourite {
		return false
	}
	return name == favourite || name < other
}

// scale maps low..high to 0..99. The products do not fit 64 bits.
func scale(score, low, high int64) int64 {
	span := uint64(high) - uint64(low)
	if span == 0 {
		return scoreRunner
	}
	above := uint64(score) - uint64(low)
	hi, lo := bits.Mul64(above, uint64(scoreRunner))
	quotient, _ := bits.Div64(hi, lo, span)
	return int64(quotient)
}
