package translate

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pairs makes a map of keys and values that alternate.
func pairs(kv ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func container(name string, kv ...string) v1.Container {
	list := v1.ResourceList{}
	for key, value := range pairs(kv...) {
		list[v1.ResourceName(key)] = resource.MustParse(value)
	}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: list, Requests: list}}
}

func pod(annotations map[string]string, containers ...v1.Container) *v1.Pod {
	if len(containers) == 0 {
		containers = []v1.Container{container("main")}
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: v1.PodSpec{Containers: containers}}
}

// One row per form in which users of other stacks ask. The model's memory is 16,384 MiB (T4) and 81,559 MiB (H100).
func TestRequests(t *testing.T) {
	const t4, h100 = 16384, 81559
	for name, c := range map[string]struct {
		pod       *v1.Pod
		count     int64
		onT4      int64 // milli-GPU; 0: does not fit
		onH100    int64
		container string
	}{
		"KAI gpu-fraction":                {pod(pairs("gpu-fraction", "0.5")), 1, 500, 500, "main"},
		"KAI gpu-fraction, rounded up":    {pod(pairs("gpu-fraction", "0.333")), 1, 340, 340, "main"},
		"KAI gpu-fraction, binary 0.07":   {pod(pairs("gpu-fraction", "0.07")), 1, 70, 70, "main"},
		"KAI gpu-fraction, binary 0.29":   {pod(pairs("gpu-fraction", "0.29")), 1, 290, 290, "main"},
		"KAI gpu-fraction, tiny":          {pod(pairs("gpu-fraction", "1e-9")), 1, 10, 10, "main"},
		"KAI gpu-fraction, a whole card":  {pod(pairs("gpu-fraction", "1")), 1, 1000, 1000, "main"},
		"KAI gpu-memory":                  {pod(pairs("gpu-memory", "8192")), 1, 500, 110, "main"},
		"KAI gpu-memory, one MiB over":    {pod(pairs("gpu-memory", "8193")), 1, 510, 110, "main"},
		"KAI gpu-memory, all of a T4":     {pod(pairs("gpu-memory", "16384")), 1, 1000, 210, "main"},
		"KAI gpu-memory, too much":        {pod(pairs("gpu-memory", "16385")), 1, 0, 210, "main"},
		"KAI gpu-fraction-num-devices":    {pod(pairs("gpu-fraction", "0.5", "gpu-fraction-num-devices", "2")), 2, 500, 500, "main"},
		"KAI memory of several devices":   {pod(pairs("gpu-memory", "4096", "gpu-fraction-num-devices", "4")), 4, 250, 60, "main"},
		"KAI gpu-fraction-container-name": {pod(pairs("gpu-fraction", "0.2", "gpu-fraction-container-name", "b"), container("a"), container("b")), 1, 200, 200, "b"},
		"HAMi gpumem":                     {pod(nil, container("a", "nvidia.com/gpu", "1", "nvidia.com/gpumem", "3000")), 1, 190, 40, "a"},
		"HAMi gpumem as 3k":               {pod(nil, container("a", "nvidia.com/gpu", "1", "nvidia.com/gpumem", "3k")), 1, 190, 40, "a"},
		"HAMi gpumem without gpu":         {pod(nil, container("a", "nvidia.com/gpumem", "3000")), 1, 190, 40, "a"},
		"HAMi gpumem-percentage":          {pod(nil, container("a", "nvidia.com/gpu", "1", "nvidia.com/gpumem-percentage", "25")), 1, 250, 250, "a"},
		"HAMi gpucores and gpumem":        {pod(nil, container("a", "nvidia.com/gpu", "1", "nvidia.com/gpucores", "30", "nvidia.com/gpumem", "1024")), 1, 300, 300, "a"},
		"HAMi gpucores, less than memory": {pod(nil, container("a", "nvidia.com/gpu", "1", "nvidia.com/gpucores", "5", "nvidia.com/gpumem-percentage", "50")), 1, 500, 500, "a"},
		"HAMi gpucores: all the memory":   {pod(nil, container("a", "nvidia.com/gpu", "1", "nvidia.com/gpucores", "30")), 1, 1000, 1000, "a"},
		"HAMi several cards":              {pod(nil, container("a", "nvidia.com/gpu", "2", "nvidia.com/gpumem", "3000")), 2, 190, 40, "a"},
		"HAMi in the second container":    {pod(nil, container("a"), container("b", "nvidia.com/gpumem-percentage", "10")), 1, 100, 100, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Pod(c.pod)
			require.NoError(t, err)
			require.NotNil(t, r)
			require.Equal(t, c.count, r.Count)
			require.Equal(t, c.container, r.Container)
			for memory, want := range map[int64]int64{t4: c.onT4, h100: c.onH100} {
				milli, err := r.Milli(memory)
				if want == 0 {
					require.ErrorContains(t, err, "more than a card of 16384 MiB has")
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want, milli, "%d MiB", memory)
			}
			require.Contains(t, r.Advice(), r.From)
		})
	}
}

func TestNoRequest(t *testing.T) {
	for name, p := range map[string]*v1.Pod{
		"nothing":                       pod(nil),
		"whole cards":                   pod(nil, container("a", "nvidia.com/gpu", "2")),
		"left-overs of HAMi":            pod(nil, container("a", "nvidia.com/gpu", "2", "nvidia.com/gpumem", "0", "nvidia.com/gpucores", "0")),
		"HAMi's constraints on a whole": pod(pairs(HAMiUseType, "A100"), container("a", "nvidia.com/gpu", "2")),
	} {
		r, err := Pod(p)
		require.NoError(t, err, name)
		require.Nil(t, r, name)
	}
}

// What cannot be meant is refused with the key and the value.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		says []string
	}{
		"NaN":                    {pod(pairs("gpu-fraction", "NaN")), []string{"gpu-fraction", `"NaN"`, "above 0"}},
		"infinite":               {pod(pairs("gpu-fraction", "+Inf")), []string{`"+Inf"`}},
		"zero":                   {pod(pairs("gpu-fraction", "0")), []string{`"0"`, "above 0"}},
		"minus zero":             {pod(pairs("gpu-fraction", "-0.0")), []string{`"-0.0"`}},
		"negative":               {pod(pairs("gpu-fraction", "-0.5")), []string{`"-0.5"`}},
		"above one":              {pod(pairs("gpu-fraction", "1.01")), []string{`"1.01"`, "at most 1"}},
		"a word":                 {pod(pairs("gpu-fraction", "half")), []string{`"half"`}},
		"empty":                  {pod(pairs("gpu-fraction", "")), []string{`""`}},
		"memory zero":            {pod(pairs("gpu-memory", "0")), []string{"gpu-memory", "MiB"}},
		"memory negative":        {pod(pairs("gpu-memory", "-1")), []string{`"-1"`}},
		"memory with a unit":     {pod(pairs("gpu-memory", "2Gi")), []string{`"2Gi"`, "MiB"}},
		"memory overflows":       {pod(pairs("gpu-memory", "9223372036854775807")), []string{"9223372036854775807"}},
		"no devices":             {pod(pairs("gpu-fraction", "0.5", "gpu-fraction-num-devices", "0")), []string{"gpu-fraction-num-devices", `"0"`}},
		"devices of nothing":     {pod(pairs("gpu-fraction-num-devices", "2")), []string{"gpu-fraction-num-devices", "neither"}},
		"fraction and memory":    {pod(pairs("gpu-fraction", "0.5", "gpu-memory", "2000")), []string{"both", "0.5", "2000"}},
		"unknown container":      {pod(pairs("gpu-fraction", "0.5", "gpu-fraction-container-name", "x")), []string{`"x"`, "no container"}},
		"HAMi negative":          {pod(nil, container("a", "nvidia.com/gpumem", "-1")), []string{`"a"`, "nvidia.com/gpumem", "-1"}},
		"HAMi half a percent":    {pod(nil, container("a", "nvidia.com/gpucores", "500m")), []string{"500m", "whole number"}},
		"HAMi above 100 percent": {pod(nil, container("a", "nvidia.com/gpumem-percentage", "101")), []string{"101", "0 to 100"}},
		"HAMi 101 cores":         {pod(nil, container("a", "nvidia.com/gpucores", "101")), []string{"nvidia.com/gpucores", "101"}},
		"HAMi memory twice":      {pod(nil, container("a", "nvidia.com/gpumem", "100", "nvidia.com/gpumem-percentage", "10")), []string{"both", "keep one"}},
		"HAMi in two containers": {pod(nil, container("a", "nvidia.com/gpumem", "1"), container("b", "nvidia.com/gpumem", "1")), []string{`"a"`, `"b"`}},
		"KAI and HAMi":           {pod(pairs("gpu-fraction", "0.5"), container("a", "nvidia.com/gpumem", "1")), []string{"twice", "gpu-fraction", "nvidia.com/gpumem"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Pod(c.pod)
			require.Error(t, err)
			for _, want := range c.says {
				require.Contains(t, err.Error(), want)
			}
		})
	}
}

func TestCards(t *testing.T) {
	const a100, t4 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4"
	for name, c := range map[string]struct {
		annotations map[string]string
		model       string
		uuid        string
		want        bool
	}{
		"all":                     {nil, a100, "GPU-1", true},
		"use-gputype":             {pairs(HAMiUseType, "A100"), a100, "GPU-1", true},
		"use-gputype, lower case": {pairs(HAMiUseType, "v100,a100"), a100, "GPU-1", true},
		"use-gputype, other":      {pairs(HAMiUseType, "A100"), t4, "GPU-1", false},
		"nouse-gputype":           {pairs(HAMiNoUseType, "t4, p4"), t4, "GPU-1", false},
		"nouse-gputype, other":    {pairs(HAMiNoUseType, "t4,p4"), a100, "GPU-1", true},
		"both types":              {pairs(HAMiUseType, "A100", HAMiNoUseType, "80GB"), a100, "GPU-1", false},
		"use-gpuuuid":             {pairs(HAMiUseUUID, "GPU-0, GPU-1"), a100, "GPU-1", true},
		"use-gpuuuid, other":      {pairs(HAMiUseUUID, "GPU-0"), a100, "GPU-1", false},
		"use-gpuuuid is exact":    {pairs(HAMiUseUUID, "GPU-11"), a100, "GPU-1", false},
		"nouse-gpuuuid":           {pairs(HAMiNoUseUUID, "GPU-1"), a100, "GPU-1", false},
		"nouse-gpuuuid, other":    {pairs(HAMiNoUseUUID, "GPU-0"), a100, "GPU-1", true},
	} {
		constraint, err := Cards(pod(c.annotations))
		require.NoError(t, err, name)
		require.Equal(t, c.want, constraint.AcceptsModel(c.model) && constraint.AcceptsCard(c.uuid), name)
		require.Equal(t, len(c.annotations) == 0, constraint.Any(), name)
	}
	for _, key := range []string{HAMiUseType, HAMiNoUseType, HAMiUseUUID, HAMiNoUseUUID} {
		_, err := Cards(pod(pairs(key, " , ")))
		require.ErrorContains(t, err, key)
	}
	_, err := Cards(pod(pairs(HAMiUseUUID, "GPU-0", HAMiNoUseUUID, "GPU-0")))
	require.ErrorContains(t, err, "exclude every card")
}

func TestResource(t *testing.T) {
	for name, c := range map[string]struct {
		kind    Kind
		profile string
	}{
		"nvidia.com/gpu":                   {KindCard, ""},
		"nvidia.com/gpu.shared":            {KindReplica, ""},
		"nvidia.com/mig-1g.10gb":           {KindMIG, "1g.10gb"},
		"nvidia.com/mig-1g.5gb.me":         {KindMIG, "1g.5gb+me"},
		"nvidia.com/mig-7g.141gb":          {KindMIG, "7g.141gb"},
		"nvidia.com/mig-3g.40gb.shared":    {KindReplica, "3g.40gb"},
		"nvidia.com/mig-1g.10gb.me.shared": {KindReplica, "1g.10gb+me"},
		"nvidia.com/gpumem":                {KindNone, ""},
		"cpu":                              {KindNone, ""},
		"mortise.dev/gpu-percent":          {KindNone, ""},
	} {
		kind, profile, err := Resource(name)
		require.NoError(t, err, name)
		require.Equal(t, c.kind, kind, name)
		require.Equal(t, c.profile, profile, name)
	}
	for _, name := range []string{"nvidia.com/mig-", "nvidia.com/mig-1g", "nvidia.com/mig-0g.5gb", "nvidia.com/mig-1g.0gb", "nvidia.com/mig-1c.3g.40gb", "nvidia.com/mig-1g.10gb.x"} {
		_, _, err := Resource(name)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "is not a MIG profile")
	}
}

func TestLabels(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   NodeLabels
	}{
		"none": {nil, NodeLabels{Replicas: 1}},
		"product, memory and clique": {
			pairs("nvidia.com/gpu.product", "NVIDIA-GB200", "nvidia.com/gpu.memory", "189471", "nvidia.com/gpu.clique", "6b0a.1"),
			NodeLabels{Product: "NVIDIA-GB200", MemoryMiB: 189471, Clique: "6b0a.1", Replicas: 1},
		},
		"strategy mixed": {
			pairs("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig.strategy", "mixed"),
			NodeLabels{Product: "NVIDIA-A100-SXM4-40GB", MIGStrategy: "mixed", Replicas: 1},
		},
		"strategy single overrides product and memory": {
			pairs("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory", "4864", "nvidia.com/mig.strategy", "single"),
			NodeLabels{Product: "NVIDIA-A100-SXM4-40GB", MemoryMiB: 4864, MIGStrategy: "single", SliceProfile: "1g.5gb", Replicas: 1},
		},
		"replicas": {
			pairs("nvidia.com/gpu.product", "Tesla-T4-SHARED", "nvidia.com/gpu.replicas", "4", "nvidia.com/gpu.sharing-strategy", "time-slicing"),
			NodeLabels{Product: "Tesla-T4", Replicas: 4},
		},
		"replicas without sharing": {
			pairs("nvidia.com/gpu.product", "Tesla-T4", "nvidia.com/gpu.replicas", "1", "nvidia.com/gpu.sharing-strategy", "none"),
			NodeLabels{Product: "Tesla-T4", Replicas: 1},
		},
	} {
		got, err := Labels(c.labels)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	for key, value := range map[string]string{
		"nvidia.com/gpu.memory": "15Gi", "nvidia.com/mig.strategy": "some",
	} {
		got, err := Labels(pairs("nvidia.com/gpu.product", "Tesla-T4", key, value))
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, value)
		require.Equal(t, "Tesla-T4", got.Product, "the rest is read")
	}
}
