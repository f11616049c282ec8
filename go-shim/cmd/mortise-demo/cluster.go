package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"mortise.dev/mortise/go-shim/test/controlplane"
	"mortise.dev/mortise/go-shim/test/simkubelet"
	"mortise.dev/mortise/go-shim/test/workload"
)

const (
	namespace    = "mortise-demo"
	resetTimeout = 2 * time.Minute
	// nodeWriters is the number of nodes registered at a time.
	nodeWriters = 8
)

// cluster is a control plane with simulated nodes.
type cluster struct {
	controlPlane *controlplane.ControlPlane
	client       kubernetes.Interface
	kubelet      *simkubelet.Kubelet
}

// runAll makes the runs one after another on one cluster and fills in the summary.
func (o *options) runAll(ctx context.Context, load *workload.Workload, summary *Summary, progress *progress) (
	violations []simkubelet.Violation, err error) {
	started := time.Now()
	c, err := startCluster(ctx, load.Nodes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := c.stop(); err == nil {
			err = stopErr
		}
	}()
	progress.say("Control plane and %d nodes are up after %.1f s", len(load.Nodes), time.Since(started).Seconds())
	for i, run := range o.runs {
		if i > 0 {
			if err := c.reset(ctx); err != nil {
				return nil, err
			}
		}
		result, err := o.runOne(ctx, c, run, load, progress)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", run, err)
		}
		switch run {
		case runMortise:
			summary.Mortise = result
		case runStock:
			summary.Stock = result
		}
	}
	return c.kubelet.Violations(), nil
}

func startCluster(ctx context.Context, nodes []simkubelet.NodeSpec) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			_ = c.stop()
		}
	}()
	c.controlPlane, err = controlplane.Start(ctx, controlplane.Options{
		APIServerFlags: []string{"--delete-collection-workers=16"},
	})
	if err != nil {
		return nil, err
	}
	config, err := c.controlPlane.RESTConfig(controlplane.Admin)
	if err != nil {
		return nil, err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if c.kubelet, err = simkubelet.Start(ctx, c.client, simkubelet.Options{}); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWriters)
	for _, spec := range nodes {
		group.Go(func() error { return c.kubelet.AddNode(groupCtx, spec) })
	}
	return c, group.Wait()
}

// reset removes all pods, so that the next run meets the cluster as the first one did.
func (c *cluster) reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	now := metav1.NewDeleteOptions(0)
	if err := c.client.CoreV1().Pods(namespace).DeleteCollection(ctx, *now, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("removing the pods of the last run: %w", err)
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		return len(c.kubelet.Allocations()) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of the last run to go: %w", err)
	}
	return c.kubelet.WaitIdle(ctx)
}

func (c *cluster) stop() error {
	if c.kubelet != nil {
		c.kubelet.Stop()
	}
	if c.controlPlane != nil {
		return c.controlPlane.Stop()
	}
	return nil
}
