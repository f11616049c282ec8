package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/test/cluster"
	"mortise.dev/mortise/go-shim/test/simkubelet"
	"mortise.dev/mortise/go-shim/test/workload"
)

// The stock scheduler on nodes in counts mode: every card is taken once, refused bindings are tried again.
func TestStockSchedulerFillsTheCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var nodes []simkubelet.NodeSpec
	for i := range 5 {
		nodes = append(nodes, simkubelet.NodeSpec{Name: fmt.Sprint("n", i), CPUMilli: 64_000, MemoryMiB: 65_536, GPUs: 4,
			GPUModel: "T4", Mode: simkubelet.Counts})
	}
	c, err := cluster.Start(ctx, nodes...)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Stop()) }()
	faults := cluster.RandomBindFaults(1, cluster.Likelihood{Fault: cluster.Refuse, Probability: 0.2})
	scheduler, err := c.StartScheduler(ctx, cluster.SchedulerOptions{Wrap: faults.Wrap})
	require.NoError(t, err)

	const namespace, pods = "default", 30
	for i := range pods {
		pod := workload.Pod{Name: fmt.Sprint("p", i), CPUMilli: 100, GPUs: 1, GPUMilli: workload.MilliPerCard}
		_, err := c.Client.CoreV1().Pods(namespace).Create(ctx, pod.Object(namespace, corev1.DefaultSchedulerName), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	running := func() int {
		list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		require.NoError(t, err)
		return len(list.Items)
	}
	require.Eventually(t, func() bool { return running() == 20 }, time.Minute, 100*time.Millisecond)
	require.Empty(t, c.Kubelet.Violations())
	require.Positive(t, faults.Refused.Load())

	// What a stopped scheduler leaves, its successor finishes.
	scheduler.Stop()
	require.NoError(t, c.RemovePods(ctx, namespace))
	_, err = c.Client.CoreV1().Pods(namespace).Create(ctx,
		workload.Pod{Name: "late", CPUMilli: 100}.Object(namespace, corev1.DefaultSchedulerName), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Zero(t, running(), "there is no scheduler")
	scheduler, err = c.StartScheduler(ctx, cluster.SchedulerOptions{})
	require.NoError(t, err)
	defer scheduler.Stop()
	require.Eventually(t, func() bool { return running() == 1 }, time.Minute, 100*time.Millisecond)
}
