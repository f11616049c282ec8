package native

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const planNow = 1_700_000_000

// crowded is a cluster of nodes full of batch pods of one card; pod n has run n minutes.
func crowded(t testing.TB, nodes int) (*Cluster, []NodeRef) {
	c := newCluster(t, Config{})
	b := newBatch(t)
	uid := uint64(0)
	for key := 1; key <= nodes; key++ {
		var pods []PodRecord
		for card := range 8 {
			uid++
			pods = append(pods, PodRecord{
				UIDLow: uid, CPUMilli: 1000, StartSeconds: planNow - 60*int64(uid), CheckpointSeconds: CheckpointNone,
				AllowedModels: ModelsAny, Priority: 10, GPUCount: 1, GPUMilli: MilliPerGPU, DeviceMask: 1 << card, Tier: TierBatch,
			})
		}
		b.AddNode(node(uint64(key), ModelNone, 8), pods)
	}
	_, err := c.Sync(b, nil)
	require.NoError(t, err)
	return c, b.Refs()
}

func newQuery(t testing.TB, refs []NodeRef, cards ...uint16) *PlanQuery {
	q := &PlanQuery{NowSeconds: planNow, Policy: PlanPolicy{GuaranteeMilli: 1 << 40, RatioPermille: 2000, GraceSeconds: 30}}
	t.Cleanup(q.Close)
	for i, count := range cards {
		q.AddPod(PodRequest{UIDLow: uint64(900 + i), AllowedModels: ModelsAny, Priority: 1000, GPUCount: count, GPUMilli: MilliPerGPU})
	}
	for _, ref := range refs {
		q.AddCandidate(ref)
	}
	return q
}

func TestPreempt(t *testing.T) {
	c, refs := crowded(t, 3)
	q := newQuery(t, refs, 2)
	plan, err := c.Preempt(q)
	require.NoError(t, err)
	require.True(t, plan.Found())
	require.NotZero(t, plan.Flags&PlanOptimal)
	require.EqualValues(t, 2000, plan.EvictedMilli)
	require.Len(t, q.Victims(), 2)
	require.EqualValues(t, 1, q.Victims()[0].UIDLow)
	require.EqualValues(t, 2, q.Victims()[1].UIDLow)
	require.Equal(t, VictimPod, q.Victims()[0].Kind)
	require.Equal(t, []PlanPlacement{{Ref: refs[0], Devices: 3}}, q.Placements())
	require.Len(t, q.RunnerUps(), 2)
	require.Empty(t, q.Text())

	covered := q.AddBudget(0)
	q.AddFacts(PodFacts{UIDLow: 1, Gang: IndexNone, Tenant: IndexNone, SaveSeconds: SavesNever}, []uint32{covered})
	_, err = c.Preempt(q)
	require.NoError(t, err)
	require.EqualValues(t, 2, q.Victims()[0].UIDLow, "the one under the budget stays")
}

func TestPreemptMakesRoomForManyVictims(t *testing.T) {
	c, refs := crowded(t, 12)
	cards := make([]uint16, 12)
	for i := range cards {
		cards[i] = 8
	}
	q := newQuery(t, refs, cards...)
	plan, err := c.Preempt(q)
	require.NoError(t, err)
	require.EqualValues(t, 96, plan.VictimCount)
	require.Len(t, q.Victims(), 96)
	require.Len(t, q.Placements(), 12)
}

func TestPreemptSaysWhyNot(t *testing.T) {
	c, refs := crowded(t, 2)
	q := newQuery(t, refs)
	q.AddPod(PodRequest{UIDLow: 9, AllowedModels: ModelsAny, Priority: 1000, GPUCount: 1, GPUMilli: MilliPerGPU, Tier: TierBatch})
	plan, err := c.Preempt(q)
	require.NoError(t, err)
	require.False(t, plan.Found())
	require.Contains(t, q.Text(), "no node can be emptied: 8 non-preemptible GPUs on each (2 nodes)")
	require.Len(t, q.Blocked(), 1)

	q.AddFacts(PodFacts{Gang: 7, Tenant: IndexNone}, nil)
	_, err = c.Preempt(q)
	require.ErrorContains(t, err, "gang")
}

func TestPreemptAllocatesNothing(t *testing.T) {
	c, refs := crowded(t, 3)
	q := newQuery(t, refs, 2)
	_, err := c.Preempt(q)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = c.Preempt(q) }))
}
