package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatCannotBeReadIsNeverZero(t *testing.T) {
	for value, want := range map[string]int64{
		"20": 20, "0": 0, "-1": -1, "20s": -1, "1.5": -1, "": -1, " 3": -1, "99999999999": -1, "2592001": -1, "2592000": 2_592_000,
	} {
		for key, read := range map[string]func(map[string]string) (uint32, bool, error){
			AnnotationCheckpointSaveSeconds: CheckpointSaveSeconds, AnnotationRestartSeconds: RestartSeconds,
		} {
			seconds, ok, err := read(map[string]string{key: value})
			require.Equal(t, want >= 0, ok, "%q", value)
			require.Equal(t, want < 0, err != nil, "%q", value)
			if ok {
				require.EqualValues(t, want, seconds)
			} else {
				require.ErrorContains(t, err, key)
				require.ErrorContains(t, err, `"`+value+`"`)
			}
		}
	}
	_, ok, err := GangMinMembers(map[string]string{AnnotationGangMinMembers: "0"})
	require.False(t, ok)
	require.ErrorContains(t, err, "the gang goes whole")
	for _, read := range []func(map[string]string) (uint32, bool, error){CheckpointSaveSeconds, RestartSeconds, GangMinMembers} {
		_, ok, err := read(nil)
		require.False(t, ok)
		require.NoError(t, err)
	}
}

func TestCheckpointTimes(t *testing.T) {
	at := time.Date(2026, 5, 1, 11, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		annotations map[string]string
		want        time.Time
		fault       string
	}{
		{nil, time.Time{}, ""},
		{map[string]string{AnnotationLastCheckpoint: "2026-05-01T11:00:00Z"}, at, ""},
		{map[string]string{AnnotationLastCheckpoint: "2026-05-01T13:00:00+02:00"}, at, ""},
		{map[string]string{AnnotationVolcanoLastCheckpoint: "2026-05-01T11:00:00Z"}, at, ""},
		{map[string]string{AnnotationLastCheckpoint: "2026-05-01T11:00:00Z", AnnotationVolcanoLastCheckpoint: "no"}, at, ""},
		{map[string]string{AnnotationLastCheckpoint: "yesterday", AnnotationVolcanoLastCheckpoint: "2026-05-01T11:00:00Z"}, time.Time{}, `mortise.dev/last-checkpoint is "yesterday"`},
		{map[string]string{AnnotationLastCheckpoint: ""}, time.Time{}, `mortise.dev/last-checkpoint is ""`},
		{map[string]string{AnnotationVolcanoLastCheckpoint: "1777633200"}, time.Time{}, `volcano.sh/last-checkpoint-time is "1777633200"`},
	} {
		got, err := Checkpoint(c.annotations)
		require.True(t, c.want.Equal(got), "%v: %v", c.annotations, got)
		if c.fault == "" {
			require.NoError(t, err)
			require.Empty(t, WorkFaults(c.annotations))
			continue
		}
		require.ErrorContains(t, err, c.fault)
		require.ErrorContains(t, err, "never saved")
		require.Equal(t, []AnnotationFault{{Checkpoint: true, Err: err}}, WorkFaults(c.annotations))
	}
}
