// Package e2e runs the plugin in a real scheduler against a real API server and simulated nodes, and checks what the node
// side saw: whatever fails on the way, no card is given to two pods.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/registry"
	"mortise.dev/mortise/go-shim/test/cluster"
	"mortise.dev/mortise/go-shim/test/simkubelet"
	"mortise.dev/mortise/go-shim/test/workload"
)

const (
	configFile    = "../../../deploy/demo-scheduler-config.yaml"
	namespace     = "default"
	mortise       = "mortise"
	stock         = "mortise-stock"
	testTimeout   = 4 * time.Minute
	settleTimeout = 90 * time.Second
)

type fixture struct {
	*testing.T
	*cluster.Cluster
	ctx context.Context
}

func newFixture(t *testing.T, nodes ...simkubelet.NodeSpec) *fixture {
	return newFixtureWith(t, nil, nodes...)
}

func newFixtureWith(t *testing.T, apiServerFlags []string, nodes ...simkubelet.NodeSpec) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	c, err := cluster.StartWith(ctx, apiServerFlags, nodes...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	return &fixture{T: t, Cluster: c, ctx: ctx}
}

// nodes returns n alike nodes in enforced mode.
func nodes(n, gpus int) (specs []simkubelet.NodeSpec) {
	for i := range n {
		specs = append(specs, node(fmt.Sprintf("node-%02d", i), gpus))
	}
	return specs
}

func node(name string, gpus int) simkubelet.NodeSpec {
	return simkubelet.NodeSpec{
		Name: name, CPUMilli: 96_000, MemoryMiB: 393_216, GPUs: gpus, GPUModel: "G2", GPUMemoryMiB: 24_576,
	}
}

// startScheduler starts a scheduler; preemptionArgs are lines in place of those of the plugin GPUPreemption.
func (f *fixture) startScheduler(faults *cluster.BindFaults, preemptionArgs ...string) *cluster.Scheduler {
	f.Helper()
	opts := cluster.SchedulerOptions{
		ConfigFile: f.config(preemptionArgs),
		Registry:   registry.Plugins(),
	}
	if faults != nil {
		opts.Wrap = faults.Wrap
	}
	setUps.Add(1)
	scheduler, err := f.StartScheduler(f.ctx, opts)
	require.NoError(f, err)
	f.Cleanup(scheduler.Stop)
	return scheduler
}

func (f *fixture) config(preemptionArgs []string) string {
	f.Helper()
	if len(preemptionArgs) == 0 {
		return configFile
	}
	data, err := os.ReadFile(configFile)
	require.NoError(f, err)
	const kind = "          kind: GPUPreemptionArgs\n"
	require.Contains(f, string(data), kind)
	path := filepath.Join(f.TempDir(), "config.yaml")
	lines := kind + "          " + strings.Join(preemptionArgs, "\n          ") + "\n"
	require.NoError(f, os.WriteFile(path, []byte(strings.Replace(string(data), kind, lines, 1)), 0o600))
	return path
}

func (f *fixture) submit(profile string, pods ...workload.Pod) {
	f.Helper()
	for _, pod := range pods {
		_, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, pod.Object(namespace, profile), metav1.CreateOptions{})
		require.NoError(f, err)
	}
}

// wholes returns n pods of one card each.
func wholes(prefix string, n int) (pods []workload.Pod) {
	for i := range n {
		pods = append(pods, workload.Pod{
			Name: fmt.Sprintf("%s-%03d", prefix, i), CPUMilli: 1000, MemoryMiB: 1024, GPUs: 1, GPUMilli: workload.MilliPerCard,
		})
	}
	return pods
}

func share(name string, percent int64) workload.Pod {
	return workload.Pod{Name: name, CPUMilli: 1000, MemoryMiB: 1024, GPUs: 1, GPUMilli: percent * 10}
}

// randomPods returns a mix of shares, whole cards and CPU-only pods.
func randomPods(rng *rand.Rand, prefix string, n int) (pods []workload.Pod) {
	for i := range n {
		pod := workload.Pod{Name: fmt.Sprintf("%s-%03d", prefix, i), CPUMilli: 500 + rng.Int64N(4000), MemoryMiB: 1024}
		switch rng.IntN(8) {
		case 0:
		case 1, 2, 3, 4:
			pod.GPUs, pod.GPUMilli = 1, 10*(1+rng.Int64N(99))
		default:
			pod.GPUs, pod.GPUMilli = 1<<rng.IntN(3), workload.MilliPerCard
		}
		pods = append(pods, pod)
	}
	return pods
}

func (f *fixture) pods(phase corev1.PodPhase) []corev1.Pod {
	list, err := f.Client.CoreV1().Pods(namespace).List(f.ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(phase)})
	require.NoError(f, err)
	return list.Items
}

func (f *fixture) eventuallyRunning(want int) {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		require.Len(c, f.pods(corev1.PodRunning), want)
	}, settleTimeout, 50*time.Millisecond)
}

// eventuallyDecided waits until every pod runs or has been reported unschedulable.
func (f *fixture) eventuallyDecided() {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		for _, pod := range f.pods(corev1.PodPending) {
			require.Equal(c, corev1.PodReasonUnschedulable, scheduledCondition(&pod).Reason, pod.Name)
		}
	}, settleTimeout, 50*time.Millisecond)
	require.NoError(f, f.Kubelet.WaitIdle(f.ctx))
}

func scheduledCondition(pod *corev1.Pod) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func (f *fixture) remove(name string) {
	f.Helper()
	require.NoError(f, f.Client.CoreV1().Pods(namespace).Delete(f.ctx, name, *metav1.NewDeleteOptions(0)))
}

// check asserts what must hold at any time: the nodes could carry out every decision, each pod holds the cards that the
// scheduler published for it, no card is overbooked, and no scheduling cycle made more than two calls of the kernel, set-up
// apart.
func (f *fixture) check() {
	f.Helper()
	require.Empty(f, f.Kubelet.Violations())
	held := f.Kubelet.Allocations()
	wholeBy, percentOf := map[string]string{}, map[string]int64{}
	for _, pod := range f.pods(corev1.PodRunning) {
		allocation, holds := held[pod.UID]
		value, chosen := pod.Annotations[api.AnnotationGPUDevices]
		require.Equal(f, holds, chosen, "pod %s: cards held, cards chosen", pod.Name)
		if !holds {
			continue
		}
		var choice api.DeviceChoice
		require.NoError(f, json.Unmarshal([]byte(value), &choice), pod.Name)
		require.Equal(f, string(pod.UID), choice.PodUID)
		require.Equal(f, pod.Spec.NodeName, choice.Node)
		require.ElementsMatch(f, allocation.Devices, choice.Devices, "pod %s", pod.Name)
		for _, device := range allocation.Devices {
			if allocation.Percent > 0 {
				percentOf[device] += allocation.Percent
				continue
			}
			require.Empty(f, wholeBy[device], "device %s is held by two pods", device)
			wholeBy[device] = pod.Name
		}
	}
	for device, percent := range percentOf {
		require.LessOrEqual(f, percent, int64(api.GPUPercentPerCard), "device %s", device)
		require.Empty(f, wholeBy[device], "device %s is whole and shared", device)
	}
	requireTwoCallsAtMost(f)
}

// setUps counts the events of all tests after which one scheduling cycle may make more than two calls: a scheduler that
// starts builds its kernel, and a card model that is new to it gets a number.
var setUps atomic.Uint64

func requireTwoCallsAtMost(t require.TestingT) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "mortise_cgo_calls_per_scheduled_pod" {
			continue
		}
		histogram := family.GetMetric()[0].GetHistogram()
		for _, bucket := range histogram.GetBucket() {
			if bucket.GetUpperBound() == 2 {
				require.LessOrEqual(t, histogram.GetSampleCount()-bucket.GetCumulativeCount(), setUps.Load(), "cycles of more than two kernel calls")
				require.Positive(t, histogram.GetSampleCount())
				return
			}
		}
	}
	require.Fail(t, "mortise_cgo_calls_per_scheduled_pod has no bucket of 2")
}
