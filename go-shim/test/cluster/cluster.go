// Package cluster is a whole simulated cluster in one process: a real control plane, simulated nodes and, where wanted, a
// scheduler with faults in its connection to the API server.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"mortise.dev/mortise/go-shim/test/controlplane"
	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// nodeWriters is the number of nodes registered at a time.
const nodeWriters = 8

// Cluster is a control plane with simulated nodes.
type Cluster struct {
	ControlPlane *controlplane.ControlPlane
	Client       kubernetes.Interface // with all rights and no rate limit
	Kubelet      *simkubelet.Kubelet
}

// Start brings up a cluster with the given nodes. The caller must call Stop.
func Start(ctx context.Context, nodes ...simkubelet.NodeSpec) (*Cluster, error) {
	return StartWith(ctx, nil, nodes...)
}

// StartWith is Start with more flags for kube-apiserver.
func StartWith(ctx context.Context, apiServerFlags []string, nodes ...simkubelet.NodeSpec) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	c.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		APIServerFlags: append([]string{"--delete-collection-workers=16"}, apiServerFlags...),
	})
	if err != nil {
		return nil, err
	}
	config, err := c.ControlPlane.RESTConfig(controlplane.Admin)
	if err != nil {
		return nil, err
	}
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.Kubelet, err = simkubelet.Start(ctx, c.Client, simkubelet.Options{}); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWriters)
	for _, spec := range nodes {
		group.Go(func() error { return c.Kubelet.AddNode(groupCtx, spec) })
	}
	return c, group.Wait()
}

// RemovePods removes all pods of a namespace at once, whatever they do, and returns when the nodes are free of them.
func (c *Cluster) RemovePods(ctx context.Context, namespace string) error {
	now := metav1.NewDeleteOptions(0)
	if err := c.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, *now, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("removing the pods of namespace %s: %w", namespace, err)
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(left.Items) == 0 && len(c.Kubelet.Allocations()) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of namespace %s to go: %w", namespace, err)
	}
	return c.Kubelet.WaitIdle(ctx)
}

// Stop ends everything and removes what it wrote.
func (c *Cluster) Stop() error {
	if c.Kubelet != nil {
		c.Kubelet.Stop()
	}
	if c.ControlPlane != nil {
		return c.ControlPlane.Stop()
	}
	return nil
}
