package api

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Plugin names, as profiles of a KubeSchedulerConfiguration use them.
const (
	// PluginGPUStranding places pods on nodes and on cards.
	PluginGPUStranding = "GPUStranding"
	// PluginGPUPreemption selects victims.
	PluginGPUPreemption = "GPUPreemption"
)

// GroupVersion is the version of the plugin arguments.
var GroupVersion = schema.GroupVersion{Group: "mortise.dev", Version: "v1alpha1"}

// KindGPUStrandingArgs is the kind of the arguments of the plugin GPUStranding.
const KindGPUStrandingArgs = "GPUStrandingArgs"

// DefaultStrategy is the scoring strategy of a profile that names none.
const DefaultStrategy = "expected-stranding"

// Strategies are the scoring strategies that the kernel knows.
var Strategies = []string{
	"expected-stranding", "fgd", "best-fit", "dot-product", "gpu-packing", "gpu-clustering", "whole-card-first",
	"least-allocated", "random",
}

// ScoringMode says whether the plugin scores nodes.
type ScoringMode string

const (
	// ScoringEnabled lets the kernel rank the feasible nodes.
	ScoringEnabled ScoringMode = "Enabled"
	// ScoringDisabled leaves the ranking of nodes to the profile's other score plugins. Cards are still counted by
	// Filter, and chosen by the kernel on the node that the others prefer.
	ScoringDisabled ScoringMode = "Disabled"
)

// Bounds and default of GPUStrandingArgs.MemoMiB.
const (
	DefaultMemoMiB = 64
	MinMemoMiB     = 1
	MaxMemoMiB     = 4096
)

// MinCandidateNodes is the least GPUStrandingArgs.CandidateNodes but for 0. With fewer, one fault in common (a drain, a
// plugin that refuses them) would too often touch all of them.
const MinCandidateNodes = 16

// Bounds and default of GPUStrandingArgs.KernelThreads. Beyond four, starting them and reading the same memory eats up
// what they bring.
const (
	MaxKernelThreads        = 64
	MaxDefaultKernelThreads = 4
)

// GPUStrandingArgs are the arguments of the plugin GPUStranding. All profiles of one scheduler share one kernel, so
// strategy, seed, scoreCPUOnlyPods, memoMiB and kernelThreads must be the same in all of them; scoring may differ.
//
// How much the plugin's opinion weighs against soft preferences (PreferNoSchedule taints, preferred affinity, spreading)
// is not set here but by the plugin's weight in the profile, as for every score plugin. The plugin gives 100 to the
// kernel's choice and at most 99 to the others, so at weight 1 a soft preference of weight 2 or 3 nearly always wins,
// and at weight 1000 the kernel's choice does.
type GPUStrandingArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Strategy is one of Strategies; by default expected-stranding.
	Strategy string `json:"strategy,omitempty"`
	// Seed orders nodes whose cost is equal. Two schedulers with the same seed and state decide alike. By default 0.
	Seed *int64 `json:"seed,omitempty"`
	// Scoring is Enabled (the default) or Disabled.
	Scoring ScoringMode `json:"scoring,omitempty"`
	// ScoreCPUOnlyPods says whether pods without GPUs are ranked too, since they take CPU beside idle GPUs. By default
	// true.
	ScoreCPUOnlyPods *bool `json:"scoreCPUOnlyPods,omitempty"`
	// MemoMiB bounds the memory of the kernel's memo tables, in MiB: 1 to 4096, by default 64.
	MemoMiB *int32 `json:"memoMiB,omitempty"`
	// KernelThreads is how many threads may share the kernel's work on a pod when every node has to be looked at anew:
	// 1 to 64, by default as many as the process may use (GOMAXPROCS), but at most 4. They are started when they are
	// needed, in clusters of 2,048 nodes and more, and end with the call. Decisions do not depend on it.
	KernelThreads *int32 `json:"kernelThreads,omitempty"`
	// CandidateNodes: in clusters with more nodes, only that many of the best nodes by the kernel are filtered and scored
	// for pods that ask nothing of a node but room, card models and tolerated taints. 0, the default, is all nodes. Soft
	// preferences then choose among these only, so leave it 0 if the plugin's weight lets them decide. It needs the plugin
	// in front of those that preempt: name it under postFilter.enabled of the profile.
	CandidateNodes *int32 `json:"candidateNodes,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *GPUStrandingArgs) DeepCopyObject() runtime.Object {
	if a == nil {
		return nil
	}
	out := *a
	out.Seed, out.ScoreCPUOnlyPods, out.MemoMiB = clone(a.Seed), clone(a.ScoreCPUOnlyPods), clone(a.MemoMiB)
	out.KernelThreads, out.CandidateNodes = clone(a.KernelThreads), clone(a.CandidateNodes)
	return &out
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

var argsCodecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(GroupVersion, &GPUStrandingArgs{}, &GPUPreemptionArgs{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

// DecodeGPUStrandingArgs decodes, defaults and validates what a profile gives as args of the plugin; nil means all
// defaults. A field that does not exist, or a value out of range, is an error that names it.
func DecodeGPUStrandingArgs(obj runtime.Object) (*GPUStrandingArgs, error) {
	args, err := decodeArgs(obj, KindGPUStrandingArgs, &GPUStrandingArgs{})
	if err != nil {
		return nil, fmt.Errorf("args of plugin %s: %w", PluginGPUStranding, err)
	}
	args.setDefaults()
	if errs := args.validate(field.NewPath("args")); len(errs) > 0 {
		return nil, fmt.Errorf("args of plugin %s: %w", PluginGPUStranding, errs.ToAggregate())
	}
	return args, nil
}

// decodeArgs decodes what a profile gives as args of one kind; empty is the kind without any field.
func decodeArgs[T runtime.Object](obj runtime.Object, kind string, empty T) (T, error) {
	switch o := obj.(type) {
	case nil:
		return empty, nil
	case T:
		return o.DeepCopyObject().(T), nil
	case *runtime.Unknown:
		gvk := GroupVersion.WithKind(kind)
		out, got, err := argsCodecs.UniversalDeserializer().Decode(o.Raw, &gvk, nil)
		if decoded, ok := out.(T); ok && err == nil {
			return decoded, nil
		}
		if err == nil || runtime.IsNotRegisteredError(err) {
			return empty, fmt.Errorf("apiVersion %q and kind %q are not known here; use apiVersion %q and kind %q, or leave both out",
				got.GroupVersion(), got.Kind, GroupVersion, kind)
		}
		return empty, err
	default:
		return empty, fmt.Errorf("got %T, want %s", obj, kind)
	}
}

func (a *GPUStrandingArgs) setDefaults() {
	a.SetGroupVersionKind(GroupVersion.WithKind(KindGPUStrandingArgs))
	if a.Strategy == "" {
		a.Strategy = DefaultStrategy
	}
	if a.Seed == nil {
		a.Seed = new(int64)
	}
	if a.Scoring == "" {
		a.Scoring = ScoringEnabled
	}
	if a.ScoreCPUOnlyPods == nil {
		yes := true
		a.ScoreCPUOnlyPods = &yes
	}
	if a.MemoMiB == nil {
		mib := int32(DefaultMemoMiB)
		a.MemoMiB = &mib
	}
	if a.KernelThreads == nil {
		threads := int32(min(goruntime.GOMAXPROCS(0), MaxDefaultKernelThreads))
		a.KernelThreads = &threads
	}
	if a.CandidateNodes == nil {
		a.CandidateNodes = new(int32)
	}
}

func (a *GPUStrandingArgs) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(Strategies, a.Strategy) {
		errs = append(errs, field.NotSupported(path.Child("strategy"), a.Strategy, Strategies))
	}
	if *a.Seed < 0 {
		errs = append(errs, field.Invalid(path.Child("seed"), *a.Seed, "must not be negative"))
	}
	if a.Scoring != ScoringEnabled && a.Scoring != ScoringDisabled {
		errs = append(errs, field.NotSupported(path.Child("scoring"), a.Scoring, []ScoringMode{ScoringEnabled, ScoringDisabled}))
	}
	if *a.MemoMiB < MinMemoMiB || *a.MemoMiB > MaxMemoMiB {
		errs = append(errs, field.Invalid(path.Child("memoMiB"), *a.MemoMiB,
			fmt.Sprintf("must be from %d to %d", MinMemoMiB, MaxMemoMiB)))
	}
	if *a.KernelThreads < 1 || *a.KernelThreads > MaxKernelThreads {
		errs = append(errs, field.Invalid(path.Child("kernelThreads"), *a.KernelThreads,
			fmt.Sprintf("must be from 1 to %d", MaxKernelThreads)))
	}
	if *a.CandidateNodes != 0 && *a.CandidateNodes < MinCandidateNodes {
		errs = append(errs, field.Invalid(path.Child("candidateNodes"), *a.CandidateNodes,
			fmt.Sprintf("must be 0 (all nodes) or at least %d", MinCandidateNodes)))
	}
	return errs
}

// SharedDifferences lists the fields that all profiles must agree on and in which a and b differ, as "strategy: fgd and
// best-fit"; it is empty when they agree.
func (a *GPUStrandingArgs) SharedDifferences(b *GPUStrandingArgs) string {
	var out []string
	add := func(name string, x, y any) {
		if x != y {
			out = append(out, fmt.Sprintf("%s: %v and %v", name, x, y))
		}
	}
	add("strategy", a.Strategy, b.Strategy)
	add("seed", *a.Seed, *b.Seed)
	add("scoreCPUOnlyPods", *a.ScoreCPUOnlyPods, *b.ScoreCPUOnlyPods)
	add("memoMiB", *a.MemoMiB, *b.MemoMiB)
	add("kernelThreads", *a.KernelThreads, *b.KernelThreads)
	return strings.Join(out, ", ")
}
