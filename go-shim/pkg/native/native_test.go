package native

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newCluster(t testing.TB, config Config) *Cluster {
	c, err := New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func newBatch(t testing.TB) *Batch {
	b := &Batch{}
	t.Cleanup(b.Close)
	return b
}

func newCandidates(t testing.TB, refs []NodeRef) *Candidates {
	c := &Candidates{}
	t.Cleanup(c.Close)
	for _, ref := range refs {
		c.Add(ref)
	}
	return c
}

func node(key uint64, model uint32, cards int) NodeDelta {
	d := NodeDelta{
		Key: key, Generation: 1, CPUFreeMilli: 96_000, CPUAllocatableMilli: 96_000,
		MemoryFreeBytes: 1 << 40, MemoryAllocatableBytes: 1 << 40, ModelID: model, GPUCount: uint16(cards), Flags: NodeOffersShares,
	}
	for i := range cards {
		d.GPUCapacityMilli[i] = MilliPerGPU
	}
	return d
}

func TestSyncAndScore(t *testing.T) {
	c := newCluster(t, Config{Strategy: "best-fit"})
	model, err := c.InternModel("A100")
	require.NoError(t, err)
	b := newBatch(t)
	holder := PodRecord{UIDLow: 7, GPUCount: 1, GPUMilli: 500, DeviceMask: 2, AllowedModels: ModelsAny, CheckpointSeconds: CheckpointNone}
	b.AddNode(node(11, model, 2), nil)
	b.AddNode(node(12, model, 2), []PodRecord{holder})
	b.AddNode(node(13, ModelNone, 0), nil)
	result, err := c.Sync(b, &PodRequest{UIDLow: 1, AllowedModels: ModelsAny, GPUCount: 1, GPUMilli: 500})
	require.NoError(t, err)
	require.EqualValues(t, 3, result.NodeCount)
	require.EqualValues(t, 1, result.PodCount)
	require.EqualValues(t, 1, result.ArrivalCounted)

	candidates := newCandidates(t, b.Refs())
	decision, err := c.Score(&PodRequest{UIDLow: 2, AllowedModels: ModelsAny, GPUCount: 1, GPUMilli: 500}, candidates, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, decision.FeasibleCount)
	require.EqualValues(t, 1, decision.Index, "the card that is open already")
	require.EqualValues(t, 2, decision.Devices)
	scores := candidates.Scores()
	require.Equal(t, decision.Score, scores[1].Score)
	require.Less(t, scores[0].Score, scores[1].Score)
	require.Equal(t, ScoreInfeasible, scores[2].Score)
	require.Equal(t, "NoGpu", scores[2].Reason.String())

	stats, err := c.Stats()
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Decisions)
	fragmentation, err := c.Fragmentation()
	require.NoError(t, err)
	require.EqualValues(t, 4000, fragmentation.CapacityMilli)
	require.EqualValues(t, 3500, fragmentation.IdleMilli)
}

func TestErrorsNameTheCallTheStatusAndTheValue(t *testing.T) {
	_, err := New(Config{Strategy: "tetris"})
	require.ErrorContains(t, err, "cluster_new")
	require.ErrorContains(t, err, "tetris")
	require.Equal(t, Status(11), StatusOf(err))

	c := newCluster(t, Config{})
	b := newBatch(t)
	b.AddNode(node(5, 0, 2), nil) // a model that nobody named
	_, err = c.Sync(b, nil)
	require.ErrorContains(t, err, "sync")
	require.ErrorContains(t, err, "model")
	require.False(t, IsDead(err))

	candidates := newCandidates(t, []NodeRef{12345})
	_, err = c.Score(&PodRequest{AllowedModels: ModelsAny}, candidates, 0)
	require.Error(t, err)
	require.Zero(t, StatusOf(nil))
}

func TestPoisonAndClose(t *testing.T) {
	c, err := New(Config{AllowDebugPanic: true})
	require.NoError(t, err)
	other := newCluster(t, Config{})
	require.True(t, IsDead(c.DebugPanic()))
	_, err = c.Sync(newBatch(t), nil)
	require.Equal(t, StatusPoisoned, StatusOf(err))
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "closing twice is closing")
	_, err = c.Sync(newBatch(t), nil)
	require.True(t, IsDead(err))
	_, err = c.Stats()
	require.True(t, IsDead(err))
	_, err = other.Stats()
	require.NoError(t, err)
	require.Error(t, other.DebugPanic(), "off by default")
}

func TestBusy(t *testing.T) {
	c := newCluster(t, Config{AllowDebugHold: true, LockWait: time.Millisecond})
	done := make(chan error)
	go func() { done <- c.DebugHold(200 * time.Millisecond) }()
	require.Eventually(t, func() bool { _, err := c.Stats(); return IsBusy(err) }, 150*time.Millisecond, time.Millisecond)
	_, err := c.Sync(newBatch(t), nil)
	require.True(t, IsBusy(err))
	require.NoError(t, <-done)
	_, err = c.Sync(newBatch(t), nil)
	require.NoError(t, err)
}

func TestExportAndImport(t *testing.T) {
	from, to := newCluster(t, Config{}), newCluster(t, Config{})
	for i := range uint64(50) {
		_, err := from.Sync(newBatch(t), &PodRequest{UIDLow: i + 1, AllowedModels: ModelsAny, GPUCount: uint16(1 + i%8), GPUMilli: 1000})
		require.NoError(t, err)
	}
	learned, err := from.ExportLearned()
	require.NoError(t, err)
	require.NotEmpty(t, learned)
	require.NoError(t, to.ImportLearned(learned))
	again, err := to.ExportLearned()
	require.NoError(t, err)
	require.Equal(t, learned, again)
	require.Error(t, to.ImportLearned([]byte("nonsense")))
	state, err := from.ExportState()
	require.NoError(t, err)
	require.NotEmpty(t, state)
	a, err := from.Digest()
	require.NoError(t, err)
	b, err := to.Digest()
	require.NoError(t, err)
	require.Equal(t, a, b)
}

func TestEveryCallIsCountedAndObserved(t *testing.T) {
	seen := map[Call]int{}
	before := CallTotal(CallSync)
	c, err := New(Config{Observer: func(call Call, d time.Duration, err error) {
		require.GreaterOrEqual(t, d, time.Duration(0))
		seen[call]++
	}})
	require.NoError(t, err)
	for range 3 {
		_, err := c.Sync(newBatch(t), nil)
		require.NoError(t, err)
	}
	_, err = c.Digest()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, map[Call]int{CallClusterNew: 1, CallSync: 3, CallStateDigest: 1, CallClusterFree: 1}, seen)
	require.Equal(t, before+3, CallTotal(CallSync))
	for call := range callCount {
		require.NotEmpty(t, call.String())
	}
}

// The hot calls allocate nothing once their buffers have grown.
func TestHotCallsDoNotAllocate(t *testing.T) {
	c := newCluster(t, Config{})
	b := newBatch(t)
	for i := range uint64(200) {
		b.AddNode(node(i+1, ModelNone, 8), nil)
	}
	_, err := c.Sync(b, nil)
	require.NoError(t, err)
	candidates := newCandidates(t, b.Refs())
	changed := []NodeRef{b.Refs()[3], b.Refs()[9]}
	pod := PodRequest{AllowedModels: ModelsAny, GPUCount: 2, GPUMilli: 1000}
	records := []PodRecord{{UIDLow: 3, AllowedModels: ModelsAny, CheckpointSeconds: CheckpointNone, GPUCount: 1, GPUMilli: 1000, UnknownCards: 1}}
	round := func() {
		b.Reset()
		for i, ref := range changed {
			d := node(0, ModelNone, 8)
			d.Ref, d.Key = ref, uint64([]int{4, 10}[i])
			b.AddNode(d, records)
		}
		if _, err = c.Sync(b, &pod); err != nil {
			return
		}
		_, err = c.Score(&pod, candidates, 0)
	}
	for range 10 {
		round()
	}
	require.Zero(t, testing.AllocsPerRun(100, round))
	require.NoError(t, err)
}

func TestVersionAndStrategies(t *testing.T) {
	require.NotEmpty(t, Version())
	names := Strategies()
	require.Contains(t, names, "expected-stranding")
	for _, name := range names {
		newCluster(t, Config{Strategy: name})
	}
}

// BenchmarkCall is the price of the border: a call that does nearly nothing.
func BenchmarkCall(b *testing.B) {
	c := newCluster(b, Config{})
	batch := newBatch(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Sync(batch, nil); err != nil {
			b.Fatal(err)
		}
	}
}
