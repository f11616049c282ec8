package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestPreemptionArgs(t *testing.T) {
	args, err := DecodeGPUPreemptionArgs(nil)
	require.NoError(t, err)
	require.EqualValues(t, 30, *args.BatchGraceSeconds)
	require.EqualValues(t, 200, *args.MaxEvictedPercent)
	require.Equal(t, DefaultTierRules(), *args.Tiers)

	for raw, want := range map[string]string{
		`{"tiers":{"inferenceMinPriority":5,"trainingMinPriority":5}}`:    "tiers.inferenceMinPriority",
		`{"batchGraceSeconds":0}`:                                         "batchGraceSeconds",
		`{"trainingGraceSeconds":-1}`:                                     "trainingGraceSeconds",
		`{"maxEvictedPercent":-1}`:                                        "maxEvictedPercent",
		`{"guaranteeGPUsPerTenant":-1}`:                                   "guaranteeGPUsPerTenant",
		`{"graceSeconds":30}`:                                             "graceSeconds",
		`{"apiVersion":"mortise.dev/v1alpha1","kind":"GPUStrandingArgs"}`: "use apiVersion",
	} {
		_, err := DecodeGPUPreemptionArgs(&runtime.Unknown{Raw: []byte(raw)})
		require.ErrorContains(t, err, want, raw)
	}
	copied := args.DeepCopyObject().(*GPUPreemptionArgs)
	require.Equal(t, args, copied)
	*copied.BatchGraceSeconds = 5
	require.EqualValues(t, 30, *args.BatchGraceSeconds)
}

func TestTiersFollowPriorities(t *testing.T) {
	rules := DefaultTierRules()
	last := rules.Of(-1 << 31)
	rank := map[string]int{TierBatch: 0, TierTraining: 1, TierInference: 2}
	for priority := int32(-1000); priority < 2_000_000; priority += 777 {
		tier := rules.Of(priority)
		require.GreaterOrEqual(t, rank[tier], rank[last], "a higher priority is never a lower tier")
		require.NoError(t, rules.CheckLabel(tier, priority))
		last = tier
	}
	require.Equal(t, TierInference, last)
	require.ErrorContains(t, rules.CheckLabel(TierInference, 0), `label mortise.dev/tier is "inference", but priority 0 makes the pod batch`)
	require.ErrorContains(t, rules.CheckLabel("gold", 0), "must be inference, training or batch")
}
