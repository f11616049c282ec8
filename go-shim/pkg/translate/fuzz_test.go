package translate

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Whatever is written on a pod: a request that is accepted is between nothing and whole cards on every model, needs no more of
// a larger card than of a smaller one, and gives at least the memory that was asked for.
func FuzzPod(f *testing.F) {
	for _, seed := range [][4]string{
		{"0.5", "", "", ""}, {"NaN", "", "", ""}, {"1e-320", "", "2", ""}, {"-1", "", "", ""}, {"0x1p-3", "", "", ""},
		{"", "2000", "", ""}, {"", "1099511627776", "65536", ""}, {"", "", "", "3k"}, {"", "", "", "1e18"}, {"", "", "", "0.5"},
		{"1", "", "1", "-7"}, {" 0.25 ", "", " 1 ", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], int64(40), int64(16384))
	}
	f.Fuzz(func(t *testing.T, fraction, memory, count, gpumem string, cores, cardMiB int64) {
		annotations := map[string]string{}
		for key, value := range map[string]string{KAIFraction: fraction, KAIMemory: memory, KAINumDevices: count} {
			if value != "" {
				annotations[key] = value
			}
		}
		c := v1.Container{Name: "main", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}
		if quantity, err := resource.ParseQuantity(gpumem); err == nil {
			c.Resources.Limits[HAMiMemory] = quantity
			c.Resources.Limits[HAMiCores] = *resource.NewQuantity(cores, resource.DecimalSI)
		}
		r, err := Pod(pod(annotations, c))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		if r == nil {
			require.Empty(t, annotations)
			return
		}
		require.GreaterOrEqual(t, r.Count, int64(1))
		require.Positive(t, r.ComputeMilli+r.MemoryMilli+r.MemoryMiB)
		require.NotEmpty(t, r.Advice())
		milli, err := r.Milli(cardMiB)
		if err != nil {
			return
		}
		require.Positive(t, milli)
		require.LessOrEqual(t, milli, int64(milliPerCard))
		require.Zero(t, milli%milliPerUnit)
		require.GreaterOrEqual(t, milli, max(r.ComputeMilli, r.MemoryMilli))
		if r.DependsOnModel() && cardMiB < maxMemoryMiB {
			require.GreaterOrEqual(t, milli*cardMiB, r.MemoryMiB*milliPerCard)
			larger, err := r.Milli(cardMiB * 2)
			require.NoError(t, err)
			require.LessOrEqual(t, larger, milli)
		}
	})
}

// Names of resources and labels come from whoever writes manifests and nodes.
func FuzzNames(f *testing.F) {
	f.Add("nvidia.com/mig-1g.10gb.me.shared", "81559", "single")
	f.Add("nvidia.com/mig-99g.9999gb.not-me", "-1", "mixed")
	f.Add("nvidia.com/mig-1c.3g.40gb", "", "")
	f.Fuzz(func(t *testing.T, name, memory, strategy string) {
		if kind, profile, err := Resource(name); err == nil && kind == KindMIG {
			require.Regexp(t, `^\d+g\.\d+gb(\+[a-z.-]+)?$`, profile)
		}
		l, err := Labels(map[string]string{"nvidia.com/gpu.memory": memory, "nvidia.com/mig.strategy": strategy})
		require.GreaterOrEqual(t, l.MemoryMiB, int64(0))
		if err == nil && l.MIGStrategy == "" {
			require.Empty(t, strategy)
		}
	})
}
