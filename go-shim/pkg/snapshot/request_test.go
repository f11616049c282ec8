package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// container makes one whose requests are pairs of resource and quantity.
func container(name string, pairs ...string) v1.Container {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list}}
}

func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "11111111-2222-3333-4444-555555555555"},
		Spec:       v1.PodSpec{Containers: containers},
	}
}

func TestParseRequest(t *testing.T) {
	for name, c := range map[string]struct {
		pod   *v1.Pod
		count uint16
		milli uint16
	}{
		"no GPU":                       {podOf(container("a", "cpu", "2")), 0, 0},
		"whole cards":                  {podOf(container("a", api.ResourceGPU, "4")), 4, 1000},
		"sum over containers":          {podOf(container("a", api.ResourceGPU, "2"), container("b", api.ResourceGPU, "1")), 3, 1000},
		"all cards of the largest":     {podOf(container("a", api.ResourceGPU, "16")), 16, 1000},
		"a share":                      {podOf(container("a", api.ResourceGPUPercent, "35")), 1, 350},
		"the smallest share":           {podOf(container("a", api.ResourceGPUPercent, "1"), container("b")), 1, 10},
		"the largest share":            {podOf(container("a", api.ResourceGPUPercent, "99")), 1, 990},
		"zero left-overs are none":     {podOf(container("a", api.ResourceGPU, "1", "nvidia.com/mig-1g.10gb", "0", api.ResourceGPUPercent, "0")), 1, 1000},
		"a zero request is none":       {podOf(container("a", api.ResourceGPU, "0")), 0, 0},
		"a translated KAI pod":         {annotated(podOf(container("a", api.ResourceGPUPercent, "50")), "gpu-fraction", "0.5"), 1, 500},
		"a translated KAI memory":      {annotated(podOf(container("a", api.ResourceGPUPercent, "50")), "gpu-memory", "8192"), 1, 500},
		"a translated KAI whole":       {annotated(podOf(container("a", api.ResourceGPU, "1")), "gpu-fraction", "1.0"), 1, 1000},
		"HAMi's constraints":           {annotated(podOf(container("a", api.ResourceGPU, "2")), "nvidia.com/nouse-gputype", "T4"), 2, 1000},
		"limits without requests":      {limitsOnly(podOf(container("a", api.ResourceGPU, "2"))), 2, 1000},
		"init containers: the largest": {withInit(podOf(container("a", api.ResourceGPU, "1")), container("i", api.ResourceGPU, "3")), 3, 1000},
		"init containers: no more":     {withInit(podOf(container("a", api.ResourceGPU, "4")), container("i", api.ResourceGPU, "3")), 4, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRequest(c.pod)
			require.NoError(t, err)
			require.Equal(t, c.count, r.GPUCount)
			require.Equal(t, c.milli, r.GPUMilli)
			require.Equal(t, c.count, r.native.GPUCount)
			require.Equal(t, c.milli, r.native.GPUMilli)
			require.Equal(t, c.count > 0, r.WantsGPU())
			require.False(t, r.Unranked)
		})
	}
}

func annotated(pod *v1.Pod, key, value string) *v1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	return pod
}

func withInit(pod *v1.Pod, containers ...v1.Container) *v1.Pod {
	pod.Spec.InitContainers = containers
	return pod
}

func limitsOnly(pod *v1.Pod) *v1.Pod {
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		r.Limits, r.Requests = r.Requests, nil
	}
	return pod
}

// A request that cannot be served as written is refused with a sentence that names the thing, the value and the way out.
func TestParseRequestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		says []string
	}{
		"whole and share":           {podOf(container("a", api.ResourceGPU, "1", api.ResourceGPUPercent, "50")), []string{"both", "50"}},
		"whole and share, apart":    {podOf(container("a", api.ResourceGPU, "1"), container("b", api.ResourceGPUPercent, "50")), []string{"both"}},
		"a share of 100":            {podOf(container("a", api.ResourceGPUPercent, "100")), []string{`"a"`, "100", api.ResourceGPU}},
		"a share of 250":            {podOf(container("a", api.ResourceGPUPercent, "250")), []string{"250", "1 to 99"}},
		"two shares":                {podOf(container("a", api.ResourceGPUPercent, "20"), container("b", api.ResourceGPUPercent, "20")), []string{`"a"`, `"b"`}},
		"share twice with init":     {withInit(podOf(container("a", api.ResourceGPUPercent, "20")), container("i", api.ResourceGPUPercent, "20")), []string{`"i"`, `"a"`}},
		"negative share":            {podOf(container("a", api.ResourceGPUPercent, "-5")), []string{"-5"}},
		"negative cards":            {podOf(container("a", api.ResourceGPU, "-1")), []string{"-1"}},
		"half a card":               {podOf(container("a", api.ResourceGPU, "500m")), []string{"500m", "whole number"}},
		"half a unit":               {podOf(container("a", api.ResourceGPUPercent, "10500m")), []string{"10500m"}},
		"more than a node has":      {podOf(container("a", api.ResourceGPU, "17")), []string{"17", "16"}},
		"far too many":              {podOf(container("a", api.ResourceGPU, "65537")), []string{"65537"}},
		"KAI fraction":              {annotated(podOf(container("a")), "gpu-fraction", "0.5"), []string{"gpu-fraction", "0.5", api.ResourceGPUPercent}},
		"KAI NaN":                   {annotated(podOf(container("a")), "gpu-fraction", "NaN"), []string{"NaN"}},
		"KAI memory":                {annotated(podOf(container("a")), "gpu-memory", "2000"), []string{"gpu-memory"}},
		"HAMi memory":               {podOf(container("a", "nvidia.com/gpumem", "3000")), []string{"nvidia.com/gpumem", "3000", api.ResourceGPUPercent, "in its place"}},
		"HAMi beside a card":        {podOf(container("a", api.ResourceGPU, "1", "nvidia.com/gpucores", "30")), []string{"nvidia.com/gpucores: 30", "nvidia.com/gpu: 1"}},
		"KAI whole":                 {annotated(podOf(container("a")), "gpu-fraction", "1"), []string{"nvidia.com/gpu: 1"}},
		"KAI several shares":        {annotated(annotated(podOf(container("a")), "gpu-fraction", "0.5"), "gpu-fraction-num-devices", "2"), []string{"2 cards", "nvidia.com/gpu: 2"}},
		"KAI beside a card":         {annotated(podOf(container("a", api.ResourceGPU, "1")), "gpu-fraction", "0.5"), []string{"0.5", "keep one"}},
		"KAI more than the request": {annotated(podOf(container("a", api.ResourceGPUPercent, "30")), "gpu-fraction", "0.5"), []string{"50", "30"}},
		"KAI whole, more cards":     {annotated(podOf(container("a", api.ResourceGPU, "2")), "gpu-fraction", "1"), []string{"nvidia.com/gpu: 1", "2"}},
		"HAMi no type":              {annotated(podOf(container("a", api.ResourceGPU, "1")), "nvidia.com/use-gputype", ""), []string{"nvidia.com/use-gputype"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(c.pod)
			require.Error(t, err)
			for _, want := range c.says {
				require.Contains(t, err.Error(), want)
			}
		})
	}
}

func TestParseRequestUnranked(t *testing.T) {
	claims := podOf(container("a"))
	claims.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	for name, pod := range map[string]*v1.Pod{
		"MIG":    podOf(container("a", "nvidia.com/mig-3g.40gb", "1")),
		"shared": podOf(container("a", api.ResourceGPUShared, "1")),
		"DRA":    claims,
	} {
		r, err := ParseRequest(pod)
		require.NoError(t, err, name)
		require.True(t, r.Unranked, name)
		require.NotZero(t, r.native.Flags&native.RequestNoLearn, name)
	}
	both, err := ParseRequest(podOf(container("a", api.ResourceGPU, "1", "nvidia.com/mig-3g.40gb", "1")))
	require.NoError(t, err)
	require.False(t, both.Unranked)
	require.EqualValues(t, 1, both.GPUCount)
}

func TestParseRequestCountsCPUAndMemoryAsKubernetesDoes(t *testing.T) {
	pod := withInit(podOf(container("a", "cpu", "1500m", "memory", "1Gi"), container("b", "cpu", "1", "memory", "1")),
		container("i", "cpu", "4", "memory", "1"))
	pod.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("100m")}
	r, err := ParseRequest(pod)
	require.NoError(t, err)
	require.EqualValues(t, 4100, r.native.CPUMilli)
	require.EqualValues(t, 1<<30+1, r.native.MemoryBytes)
	require.EqualValues(t, 0x1111111122223333, r.native.UIDHigh)
	require.EqualValues(t, 0x4444555555555555, r.native.UIDLow)
}

func TestTierAndSample(t *testing.T) {
	pod := podOf(container("a"))
	rules := api.DefaultTierRules()
	require.Equal(t, native.TierBatch, tierOf(pod, rules))
	priority := int32(api.DefaultTrainingMinPriority)
	pod.Spec.Priority = &priority
	require.Equal(t, native.TierTraining, tierOf(pod, rules))
	pod.Labels = map[string]string{api.LabelTier: api.TierBatch}
	require.Equal(t, native.TierTraining, tierOf(pod, rules), "a label takes nothing away")
	pod.Labels[api.LabelTier] = api.TierInference
	require.Equal(t, native.TierInference, tierOf(pod, rules), "inference is never a victim, whatever its priority says")
	pod.Labels = nil
	pod.Spec.PriorityClassName = api.PriorityClassInference
	require.Equal(t, native.TierInference, tierOf(pod, rules))

	require.False(t, isNoSample(pod))
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}}
	require.False(t, isNoSample(pod))
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}}
	require.True(t, isNoSample(pod))
	placeholder, negative := podOf(container("a")), int32(-5)
	placeholder.Spec.Priority = &negative
	require.True(t, isNoSample(placeholder))
}

func TestCheckpoint(t *testing.T) {
	pod := podOf(container("a"))
	start := metav1.Unix(1_000_000, 0)
	pod.Status.StartTime = &start
	require.Equal(t, native.CheckpointNone, checkpointSeconds(pod))
	annotated(pod, api.AnnotationVolcanoLastCheckpoint, "1970-01-12T13:46:50Z")
	require.EqualValues(t, 1_000_010, checkpointSeconds(pod))
	annotated(pod, api.AnnotationLastCheckpoint, "1970-01-12T13:47:00Z")
	require.EqualValues(t, 1_000_020, checkpointSeconds(pod), "our own key wins")
	annotated(pod, api.AnnotationLastCheckpoint, "1970-01-12T13:46:39Z")
	require.EqualValues(t, 999_999, checkpointSeconds(pod), "from before the pod started: the kernel warns of it")
	annotated(pod, api.AnnotationLastCheckpoint, "yesterday")
	require.Equal(t, native.CheckpointNone, checkpointSeconds(pod))
}

func TestUIDBits(t *testing.T) {
	high, low := uidBits("0123456789abcdef0123456789abcdef") // a static pod's
	require.EqualValues(t, 0x0123456789abcdef, high)
	require.Equal(t, high, low)
	seen := map[[2]uint64]string{}
	for _, uid := range []string{"", "a", "b", "not-a-uuid", "zzzzzzzz-2222-3333-4444-555555555555"} {
		h, l := uidBits(uid)
		require.Empty(t, seen[[2]uint64{h, l}], uid)
		seen[[2]uint64{h, l}] = uid + "!"
	}
}
