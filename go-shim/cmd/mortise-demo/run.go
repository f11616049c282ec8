package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mortise.dev/mortise/go-shim/test/simkubelet"
	"mortise.dev/mortise/go-shim/test/workload"
)

const (
	// typicalCoverage is the share of pods that the kinds of the fragment amount cover, as published.
	typicalCoverage = 0.95
	settleTimeout   = time.Minute
)

// runOne submits the workload under one profile of a fresh scheduler process and measures the outcome.
func (o *options) runOne(ctx context.Context, c *cluster, run string, load *workload.Workload, progress *progress) (_ *Result, err error) {
	scheduler, err := o.startScheduler(ctx, c.controlPlane, run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scheduler.stop()) }()

	submission := newSubmission(c.client, o.outstanding)
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
	if err := c.kubelet.WaitIdle(idle); err != nil {
		return nil, fmt.Errorf("waiting for the bound pods to run: %w", err)
	}
	nodes, err := c.kubelet.Snapshot()
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
