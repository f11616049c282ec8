package api

import (
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func unknown(json string) runtime.Object {
	return &runtime.Unknown{Raw: []byte(json), ContentType: runtime.ContentTypeJSON}
}

func TestDecodeDefaults(t *testing.T) {
	for name, obj := range map[string]runtime.Object{
		"nil":          nil,
		"empty":        unknown(`{}`),
		"with version": unknown(`{"apiVersion":"mortise.dev/v1alpha1","kind":"GPUStrandingArgs"}`),
		"typed":        &GPUStrandingArgs{},
	} {
		t.Run(name, func(t *testing.T) {
			args, err := DecodeGPUStrandingArgs(obj)
			require.NoError(t, err)
			require.Equal(t, "expected-stranding", args.Strategy)
			require.Zero(t, *args.Seed)
			require.Equal(t, ScoringEnabled, args.Scoring)
			require.True(t, *args.ScoreCPUOnlyPods)
			require.EqualValues(t, 64, *args.MemoMiB)
			require.EqualValues(t, min(goruntime.GOMAXPROCS(0), 4), *args.KernelThreads)
			require.Equal(t, "mortise.dev/v1alpha1", args.APIVersion)
		})
	}
}

func TestDecodeKeepsWhatIsSet(t *testing.T) {
	args, err := DecodeGPUStrandingArgs(unknown(
		`{"strategy":"fgd","seed":7,"scoring":"Disabled","scoreCPUOnlyPods":false,"memoMiB":16,"kernelThreads":3}`))
	require.NoError(t, err)
	require.Equal(t, "fgd", args.Strategy)
	require.EqualValues(t, 7, *args.Seed)
	require.Equal(t, ScoringDisabled, args.Scoring)
	require.False(t, *args.ScoreCPUOnlyPods)
	require.EqualValues(t, 16, *args.MemoMiB)
	require.EqualValues(t, 3, *args.KernelThreads)
}

// Every refusal names the field, and where it can, what would be right.
func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		json string
		says []string
	}{
		"unknown field":    {`{"strategie":"fgd"}`, []string{"GPUStranding", `unknown field "strategie"`}},
		"wrong case":       {`{"Strategy":"fgd"}`, []string{`unknown field "Strategy"`}},
		"duplicate field":  {`{"seed":1,"seed":2}`, []string{"seed"}},
		"unknown strategy": {`{"strategy":"bestfit"}`, []string{"args.strategy", "bestfit", "best-fit"}},
		"negative seed":    {`{"seed":-1}`, []string{"args.seed", "-1"}},
		"fractional seed":  {`{"seed":1.5}`, []string{"seed"}},
		"unknown scoring":  {`{"scoring":"off"}`, []string{"args.scoring", "off", "Disabled"}},
		"memo too small":   {`{"memoMiB":0}`, []string{"args.memoMiB", "from 1 to 4096"}},
		"no thread":        {`{"kernelThreads":0}`, []string{"args.kernelThreads", "from 1 to 64"}},
		"memo too large":   {`{"memoMiB":5000}`, []string{"args.memoMiB", "5000"}},
		"wrong type":       {`{"scoreCPUOnlyPods":"yes"}`, []string{"scoreCPUOnlyPods"}},
		"wrong version":    {`{"apiVersion":"mortise.dev/v9","kind":"GPUStrandingArgs"}`, []string{"mortise.dev/v9", "mortise.dev/v1alpha1"}},
		"wrong kind":       {`{"apiVersion":"mortise.dev/v1alpha1","kind":"Args"}`, []string{"Args", "GPUStrandingArgs"}},
		"not an object":    {`[]`, []string{"GPUStranding"}},
		"two at once":      {`{"seed":-1,"strategy":"x"}`, []string{"args.seed", "args.strategy"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeGPUStrandingArgs(unknown(c.json))
			require.Error(t, err)
			for _, want := range c.says {
				require.Contains(t, err.Error(), want)
			}
			require.False(t, strings.Contains(err.Error(), "\n"), "one line: %v", err)
		})
	}
}

func TestDecodeRefusesAnotherType(t *testing.T) {
	_, err := DecodeGPUStrandingArgs(&runtime.Unknown{Raw: []byte("seed: [")})
	require.Error(t, err)
}

func TestDecodeDoesNotShareTheInput(t *testing.T) {
	in := &GPUStrandingArgs{Seed: new(int64)}
	out, err := DecodeGPUStrandingArgs(in)
	require.NoError(t, err)
	*out.Seed = 9
	require.Zero(t, *in.Seed)
	require.Empty(t, in.Strategy)
}

func TestSharedDifferences(t *testing.T) {
	a, err := DecodeGPUStrandingArgs(nil)
	require.NoError(t, err)
	b, err := DecodeGPUStrandingArgs(unknown(`{"scoring":"Disabled"}`))
	require.NoError(t, err)
	require.Empty(t, a.SharedDifferences(b), "scoring may differ between profiles")
	b, err = DecodeGPUStrandingArgs(unknown(`{"strategy":"fgd","seed":3}`))
	require.NoError(t, err)
	require.Equal(t, "strategy: expected-stranding and fgd, seed: 0 and 3", a.SharedDifferences(b))
}
