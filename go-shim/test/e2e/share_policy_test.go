package e2e

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
	"mortise.dev/mortise/go-shim/pkg/translate"
)

// installSharePolicy applies deploy/share-admission-policy.yaml for cards of so much memory.
func (f *fixture) installSharePolicy(cardMiB string) {
	f.Helper()
	data, err := os.ReadFile("../../../deploy/share-admission-policy.yaml")
	require.NoError(f, err)
	documents := bytes.Split(data, []byte("\n---\n"))
	require.Len(f, documents, 3)
	var params corev1.ConfigMap
	var policy admissionregistrationv1.MutatingAdmissionPolicy
	var binding admissionregistrationv1.MutatingAdmissionPolicyBinding
	require.NoError(f, yaml.UnmarshalStrict(documents[0], &params))
	require.NoError(f, yaml.UnmarshalStrict(documents[1], &policy))
	require.NoError(f, yaml.UnmarshalStrict(documents[2], &binding))
	params.Data["cardMemoryMiB"] = cardMiB
	_, err = f.Client.CoreV1().ConfigMaps(params.Namespace).Create(f.ctx, &params, metav1.CreateOptions{})
	require.NoError(f, err)
	_, err = f.Client.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(f.ctx, &policy, metav1.CreateOptions{})
	require.NoError(f, err)
	_, err = f.Client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(f.ctx, &binding, metav1.CreateOptions{})
	require.NoError(f, err)
	// The API server takes up a policy some time after it was created.
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		pod, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, foreignPod("probe", map[string]string{"gpu-fraction": "0.5"}, nil),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(c, err)
		require.Contains(c, pod.Spec.Containers[0].Resources.Limits, corev1.ResourceName(api.ResourceGPUPercent))
	}, settleTimeout, 100*time.Millisecond)
}

// foreignPod has annotations and resources of its first container in the words of another stack.
func foreignPod(name string, annotations, resources map[string]string) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	for key, value := range resources {
		list[corev1.ResourceName(key)] = resource.MustParse(value)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: annotations},
		Spec: corev1.PodSpec{
			SchedulerName: mortise,
			Containers: []corev1.Container{
				{Name: "first", Image: "app", Resources: corev1.ResourceRequirements{Limits: list}},
				{Name: "second", Image: "app"},
			},
		},
	}
}

// The policy as a real API server carries it out, beside what package translate makes of the same pods.
func TestSharePolicy(t *testing.T) {
	const cardMiB = 16384
	f := newFixture(t)
	f.installSharePolicy("16384")
	type words = map[string]string
	for name, c := range map[string]struct {
		annotations words
		resources   words
		container   int
		percent     int64 // 0 and cards 0: left alone
		cards       int64
	}{
		"fraction":                    {words{"gpu-fraction": "0.5"}, nil, 0, 50, 0},
		"fraction, binary":            {words{"gpu-fraction": "0.07"}, nil, 0, 7, 0},
		"fraction, rounded up":        {words{"gpu-fraction": ".333"}, nil, 0, 34, 0},
		"fraction, exponent":          {words{"gpu-fraction": "25e-2"}, nil, 0, 25, 0},
		"fraction, tiny":              {words{"gpu-fraction": "0.0000000001"}, nil, 0, 1, 0},
		"fraction of one":             {words{"gpu-fraction": "1.0"}, nil, 0, 0, 1},
		"fraction of one, three":      {words{"gpu-fraction": "1", "gpu-fraction-num-devices": "3"}, nil, 0, 0, 3},
		"fraction in another one":     {words{"gpu-fraction": "0.5", "gpu-fraction-container-name": "second"}, nil, 1, 50, 0},
		"memory":                      {words{"gpu-memory": "8193"}, nil, 0, 51, 0},
		"memory of all":               {words{"gpu-memory": "16384"}, nil, 0, 0, 1},
		"gpumem":                      {nil, words{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, 0, 19, 0},
		"gpumem without gpu":          {nil, words{"nvidia.com/gpumem": "3k"}, 0, 19, 0},
		"gpumem-percentage":           {nil, words{"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "25", "nvidia.com/gpucores": "30"}, 0, 30, 0},
		"gpucores alone":              {nil, words{"nvidia.com/gpu": "2", "nvidia.com/gpucores": "30"}, 0, 0, 2},
		"percentage of all":           {nil, words{"nvidia.com/gpumem-percentage": "100"}, 0, 0, 1},
		"left alone: no words":        {nil, nil, 0, 0, 0},
		"left alone: NaN":             {words{"gpu-fraction": "NaN"}, nil, 0, 0, 0},
		"left alone: zero":            {words{"gpu-fraction": "0"}, nil, 0, 0, 0},
		"left alone: negative":        {words{"gpu-fraction": "-0.5"}, nil, 0, 0, 0},
		"left alone: above one":       {words{"gpu-fraction": "1.5"}, nil, 0, 0, 0},
		"left alone: two shares":      {words{"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, nil, 0, 0, 0},
		"left alone: both":            {words{"gpu-fraction": "0.5", "gpu-memory": "100"}, nil, 0, 0, 0},
		"left alone: too much memory": {words{"gpu-memory": "16550"}, nil, 0, 0, 0},
		"left alone: no container":    {words{"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"}, nil, 0, 0, 0},
		"left alone: a card as well":  {words{"gpu-fraction": "0.5"}, words{"nvidia.com/gpu": "1"}, 0, 0, 0},
		"left alone: KAI and HAMi":    {words{"gpu-fraction": "0.5"}, words{"nvidia.com/gpumem": "100"}, 0, 0, 0},
		"left alone: shares of two":   {nil, words{"nvidia.com/gpu": "2", "nvidia.com/gpumem": "100"}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := foreignPod("p", c.annotations, c.resources)
			after, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, before.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			if c.percent == 0 && c.cards == 0 {
				require.Equal(t, before.Spec.Containers[0].Resources.Limits, after.Spec.Containers[0].Resources.Limits)
				require.Empty(t, after.Spec.Containers[1].Resources.Limits)
				if len(c.annotations)+len(c.resources) > 0 {
					_, err := snapshot.ParseRequest(after)
					require.Error(t, err, "the scheduler says why the pod waits")
				}
				return
			}
			asked, err := translate.Pod(before)
			require.NoError(t, err)
			milli, err := asked.Milli(cardMiB)
			require.NoError(t, err)
			got := after.Spec.Containers[c.container].Resources
			want := corev1.ResourceList{}
			if c.container == 0 {
				want[corev1.ResourceCPU] = resource.MustParse("100m")
			}
			if c.percent > 0 {
				want[api.ResourceGPUPercent] = *resource.NewQuantity(c.percent, resource.DecimalSI)
				require.Equal(t, c.percent*10, milli)
			} else {
				want[api.ResourceGPU] = *resource.NewQuantity(c.cards, resource.DecimalSI)
				require.EqualValues(t, 1000, milli)
				require.Equal(t, c.cards, asked.Count)
			}
			require.True(t, sameResources(want, got.Limits), "%v", got.Limits)
			require.True(t, sameResources(want, got.Requests), "%v", got.Requests)
			request, err := snapshot.ParseRequest(after)
			require.NoError(t, err)
			require.EqualValues(t, milli, request.GPUMilli)
		})
	}
}

func sameResources(a, b corev1.ResourceList) bool {
	for name, quantity := range a {
		other, found := b[name]
		if !found || quantity.Cmp(other) != 0 {
			return false
		}
	}
	return len(a) == len(b)
}

// Pods of other stacks, as they are, run on the cards that the scheduler chose; what cannot be meant waits with a reason.
func TestForeignPodsRun(t *testing.T) {
	f := newFixture(t, nodes(2, 2)...)
	f.installSharePolicy("24576")
	f.startScheduler(nil)
	for _, pod := range []*corev1.Pod{
		foreignPod("kai-fraction", map[string]string{"gpu-fraction": "0.5"}, nil),
		foreignPod("kai-memory", map[string]string{"gpu-memory": "6000"}, nil),
		foreignPod("hami", nil, map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "20"}),
		foreignPod("hami-type", map[string]string{"nvidia.com/use-gputype": "g2"}, map[string]string{"nvidia.com/gpu": "1"}),
		foreignPod("wrong-nan", map[string]string{"gpu-fraction": "NaN"}, nil),
		foreignPod("wrong-type", map[string]string{"nvidia.com/use-gputype": "H100"}, map[string]string{"nvidia.com/gpu": "1"}),
	} {
		_, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	f.eventuallyRunning(4)
	f.eventuallyDecided()
	f.check()
	held := map[string]int64{}
	for _, pod := range f.pods(corev1.PodRunning) {
		held[pod.Name] = f.Kubelet.Allocations()[pod.UID].Percent
	}
	require.Equal(t, map[string]int64{"kai-fraction": 50, "kai-memory": 25, "hami": 20, "hami-type": 0}, held)
	for _, pod := range f.pods(corev1.PodPending) {
		require.Contains(t, scheduledCondition(&pod).Message, map[string]string{
			"wrong-nan":  `annotation gpu-fraction is "NaN"`,
			"wrong-type": "No GPU card of the model",
		}[pod.Name], pod.Name)
	}
}
