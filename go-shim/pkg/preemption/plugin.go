package preemption

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/metrics"
	"mortise.dev/mortise/go-shim/pkg/sharedmirror"
)

// Name is the plugin's name in profiles.
const Name = api.PluginGPUPreemption

// GPUPreemption evicts the pods that lose the least work. It embeds upstream's plugin, whose PreEnqueue and
// EventsToRegister asynchronous preemption needs.
type GPUPreemption struct {
	*defaultpreemption.DefaultPreemption

	handle   fwk.Handle
	args     *api.GPUPreemptionArgs
	budgets  policylisters.PodDisruptionBudgetLister
	history  *history
	unsaved  *unsavedEvictions
	waiting  *waiting
	inFlight plans
	evicting groupEvictions
	now      func() time.Time
}

var (
	_ fwk.PreFilterPlugin          = (*GPUPreemption)(nil)
	_ fwk.PostFilterPlugin         = (*GPUPreemption)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*GPUPreemption)(nil)
	_ fwk.PreEnqueuePlugin         = (*GPUPreemption)(nil)
	_ fwk.EnqueueExtensions        = (*GPUPreemption)(nil)
	_ fwk.SignPlugin               = (*GPUPreemption)(nil)
	_ interface{ Close() error }   = (*GPUPreemption)(nil)
)

// New makes the plugin of one profile.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	decoded, err := api.DecodeGPUPreemptionArgs(args)
	if err != nil {
		return nil, err
	}
	metrics.Register()
	// Upstream's bounds on the number of nodes to look at: those of its own defaults, for its own rule.
	upstream := &schedulerconfig.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
	wrapped, err := defaultpreemption.New(ctx, upstream, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, fmt.Errorf("plugin %s of profile %s: %w", Name, handle.ProfileName(), err)
	}
	if err := sharedmirror.UseTierRules(handle, *decoded.Tiers); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	p := &GPUPreemption{
		DefaultPreemption: wrapped,
		handle:            handle,
		args:              decoded,
		budgets:           handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		history:           newHistory(time.Duration(*decoded.PlanIntervalSeconds) * time.Second),
		unsaved:           newUnsavedEvictions(),
		waiting:           newWaiting(),
		now:               time.Now,
	}
	wrapped.Evaluator.Interface = verifier{DefaultPreemption: wrapped, plugin: p}
	wrapped.Evaluator.PluginName = Name
	wrapped.IsEligiblePod = p.mayGo
	wrapped.Executor.PreemptPod = p.evict
	if err := p.watch(ctx); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	klog.FromContext(ctx).WithName(Name).Info("Plugin is ready", "profile", handle.ProfileName(), "tiers", *decoded.Tiers)
	return p, nil
}

// Name implements fwk.Plugin.
func (p *GPUPreemption) Name() string { return Name }

// Close implements io.Closer.
func (p *GPUPreemption) Close() error {
	sharedmirror.DropTierRules(p.handle)
	return nil
}

// SignPod implements fwk.SignPlugin: PreFilter looks at the tier label and the priority alone.
func (p *GPUPreemption) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: api.LabelTier, Value: fmt.Sprintf("%s %d", pod.Labels[api.LabelTier], priorityOf(pod))}}, nil
}

// PreFilter refuses a tier label that the pod's priority contradicts. Nominations and the waiting for victims compare
// priorities, so a tier that did not follow them would be preempted by pods it stands above.
func (p *GPUPreemption) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	label, labelled := pod.Labels[api.LabelTier]
	if labelled && label == "" {
		label = `""`
	}
	if err := p.args.Tiers.CheckLabel(label, priorityOf(pod)); err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *GPUPreemption) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
