package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/test/cluster"
	"mortise.dev/mortise/go-shim/test/simkubelet"
	"mortise.dev/mortise/go-shim/test/workload"
)

const (
	namespace = "mortise-demo"
	// typicalCoverage is the share of pods that the kinds of the fragment amount cover, as published.
	typicalCoverage = 0.95
	settleTimeout   = time.Minute
	resetTimeout    = 2 * time.Minute
)

// runAll makes the runs one after another on one cluster and fills in the summary.
func (o *options) runAll(ctx context.Context, load *workload.Workload, summary *Summary, progress *progress) (
	violations []simkubelet.Violation, err error) {
	started := time.Now()
	c, err := cluster.Start(ctx, load.Nodes...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	progress.say("Control plane and %d nodes are up after %.1f s", len(load.Nodes), time.Since(started).Seconds())
	for i, run := range o.runs {
		if i > 0 {
			if err := reset(ctx, c); err != nil {
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
	return c.Kubelet.Violations(), nil
}

// runOne submits the workload under one profile of a fresh scheduler process and measures the outcome.
func (o *options) runOne(ctx context.Context, c *cluster.Cluster, run string, load *workload.Workload, progress *progress) (_ *Result, err error) {
	scheduler, err := o.startScheduler(ctx, c.ControlPlane, run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scheduler.stop()) }()

	submission := newSubmission(c.Client, o.outstanding)
	started := time.Now()
	done := progress.follow(run, len(load.Pods), submission.counts)
	err = submission.run(ctx, load.Pods, schedulerNames[run], scheduler.alive)
	elapsed := time.Since(started)
	done()
	if err != nil {
		return nil, err
	}
	idle, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := c.Kubelet.WaitIdle(idle); err != nil {
		return nil, fmt.Errorf("waiting for the bound pods to run: %w", err)
	}
	nodes, err := c.Kubelet.Snapshot()
	if err != nil {
		return nil, err
	}
	result := placementResult(nodes, load)
	counts := submission.counts()
	result.PodsBound = counts.bound
	result.DecisionsPerSecond = float64(counts.decided()) / elapsed.Seconds()
	if err := scheduler.measure(ctx, result); err != nil {
		return nil, err
	}
	return result, nil
}

// placementResult measures where the pods ended up.
func placementResult(nodes []simkubelet.NodeState, load *workload.Workload) *Result {
	var idle int64
	for i := range nodes {
		for _, free := range nodes[i].GPUFreeMilli {
			idle += free
		}
	}
	capacity := load.GPUCapacityMilli()
	kinds := workload.Kinds(load.Mix)
	return &Result{
		GPUAllocatedRatio: float64(capacity-idle) / float64(capacity),
		FragmentGPU:       workload.FragmentMilli(nodes, workload.TypicalKinds(kinds, typicalCoverage)) / workload.MilliPerCard,
		StrandedGPU:       float64(workload.StrandedMilli(nodes, kinds)) / workload.MilliPerCard,
	}
}

// reset removes the pods of a run, so that the next one meets the cluster as the first did.
func reset(ctx context.Context, c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	return c.RemovePods(ctx, namespace)
}
