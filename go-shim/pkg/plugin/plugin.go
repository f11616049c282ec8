package plugin

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/sharedmirror"
	"mortise.dev/mortise/go-shim/pkg/snapshot"
)

// Name is the plugin's name in profiles.
const Name = api.PluginGPUStranding

// GPUStranding places pods by what the placement leaves for others.
type GPUStranding struct {
	handle fwk.Handle
	args   *api.GPUStrandingArgs
	shared *sharedmirror.Shared
	mirror *snapshot.Mirror
	wide   wideSet
}

var (
	_ fwk.PreFilterPlugin        = (*GPUStranding)(nil)
	_ fwk.FilterPlugin           = (*GPUStranding)(nil)
	_ fwk.PostFilterPlugin       = (*GPUStranding)(nil)
	_ fwk.PreScorePlugin         = (*GPUStranding)(nil)
	_ fwk.ScorePlugin            = (*GPUStranding)(nil)
	_ fwk.ReservePlugin          = (*GPUStranding)(nil)
	_ fwk.BindPlugin             = (*GPUStranding)(nil)
	_ fwk.EnqueueExtensions      = (*GPUStranding)(nil)
	_ fwk.SignPlugin             = (*GPUStranding)(nil)
	_ interface{ Close() error } = (*GPUStranding)(nil)
)

// New makes the plugin of one profile. All profiles of a scheduler share one mirror and kernel.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	decoded, err := api.DecodeGPUStrandingArgs(args)
	if err != nil {
		return nil, err
	}
	metrics.Register()
	logger := klog.FromContext(ctx).WithName(Name)
	shared, err := sharedmirror.Acquire(logger, decoded, handle)
	if err != nil {
		return nil, fmt.Errorf("plugin %s of profile %s: %w", Name, handle.ProfileName(), err)
	}
	shared.Mirror().AddScheduler(handle.ProfileName())
	logger.Info("Plugin is ready", "profile", handle.ProfileName(), "strategy", decoded.Strategy, "seed", *decoded.Seed,
		"scoring", decoded.Scoring, "kernelVersion", native.Version(), "librarySHA256", native.LibraryHash())
	return &GPUStranding{handle: handle, args: decoded, shared: shared, mirror: shared.Mirror()}, nil
}

// Name implements fwk.Plugin.
func (p *GPUStranding) Name() string { return Name }

// Close gives up the plugin's part in the shared kernel.
func (p *GPUStranding) Close() error { return p.shared.Release() }
