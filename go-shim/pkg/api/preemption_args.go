package api

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// KindGPUPreemptionArgs is the kind of the arguments of the plugin GPUPreemption.
const KindGPUPreemptionArgs = "GPUPreemptionArgs"

// Defaults of GPUPreemptionArgs.
const (
	DefaultGraceSeconds            = 30
	DefaultMaxEvictedPercent       = 200
	DefaultPlanIntervalSeconds     = 600
	DefaultStuckTerminatingSeconds = 60
	DefaultGuaranteeAfterEvictions = 1
	DefaultRestartSeconds          = 60
)

// GPUPreemptionArgs are the arguments of the plugin GPUPreemption.
type GPUPreemptionArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Tiers say which priorities are which tier. All profiles of one scheduler must agree. By default inference from
	// 1,000,000 and training from 100,000 on.
	Tiers *TierRules `json:"tiers,omitempty"`
	// TrainingGraceSeconds and BatchGraceSeconds are the time between SIGTERM and SIGKILL of a victim; by default 30.
	TrainingGraceSeconds *int64 `json:"trainingGraceSeconds,omitempty"`
	BatchGraceSeconds    *int64 `json:"batchGraceSeconds,omitempty"`
	// GraceMayExceedPods lets that time be longer than the pod's own terminationGracePeriodSeconds. By default false.
	GraceMayExceedPods bool `json:"graceMayExceedPods,omitempty"`
	// HardDisruptionBudgets forbids evictions beyond a PodDisruptionBudget; by default they are only avoided before all
	// else.
	HardDisruptionBudgets bool `json:"hardDisruptionBudgets,omitempty"`
	// MaxEvictedPercent bounds the GPUs evicted per GPU asked for, in percent; 0 is no bound. By default 200.
	MaxEvictedPercent *int32 `json:"maxEvictedPercent,omitempty"`
	// PlanIntervalSeconds is the time between two plans of one pod; each further one doubles it, up to eightfold. By
	// default 600.
	PlanIntervalSeconds *int64 `json:"planIntervalSeconds,omitempty"`
	// StuckTerminatingSeconds is how long after its grace a victim may still be there before the pod that waits for it
	// looks elsewhere. By default 60.
	StuckTerminatingSeconds *int64 `json:"stuckTerminatingSeconds,omitempty"`
	// GuaranteeAfterEvictions protects a job that was evicted so often without having saved as if it were training; 0
	// protects none. By default 1.
	GuaranteeAfterEvictions *int32 `json:"guaranteeAfterEvictions,omitempty"`
	// GuaranteeGPUsPerTenant bounds the GPUs that this protects in one namespace; by default there is no bound.
	GuaranteeGPUsPerTenant *int32 `json:"guaranteeGPUsPerTenant,omitempty"`
	// RestartSeconds is the restart time of pods that state none. By default 60.
	RestartSeconds *int64 `json:"restartSeconds,omitempty"`
	// ConsentingSchedulers name schedulers whose pods may be evicted without an annotation of theirs.
	ConsentingSchedulers []string `json:"consentingSchedulers,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *GPUPreemptionArgs) DeepCopyObject() runtime.Object {
	if a == nil {
		return nil
	}
	out := *a
	out.Tiers = clone(a.Tiers)
	out.TrainingGraceSeconds, out.BatchGraceSeconds = clone(a.TrainingGraceSeconds), clone(a.BatchGraceSeconds)
	out.MaxEvictedPercent, out.PlanIntervalSeconds = clone(a.MaxEvictedPercent), clone(a.PlanIntervalSeconds)
	out.StuckTerminatingSeconds, out.RestartSeconds = clone(a.StuckTerminatingSeconds), clone(a.RestartSeconds)
	out.GuaranteeAfterEvictions, out.GuaranteeGPUsPerTenant = clone(a.GuaranteeAfterEvictions), clone(a.GuaranteeGPUsPerTenant)
	out.ConsentingSchedulers = slices.Clone(a.ConsentingSchedulers)
	return &out
}

// DecodeGPUPreemptionArgs decodes, defaults and validates what a profile gives as args of the plugin; nil means all
// defaults. A field that does not exist, or a value out of range, is an error that names it.
func DecodeGPUPreemptionArgs(obj runtime.Object) (*GPUPreemptionArgs, error) {
	args, err := decodeArgs(obj, KindGPUPreemptionArgs, &GPUPreemptionArgs{})
	if err != nil {
		return nil, fmt.Errorf("args of plugin %s: %w", PluginGPUPreemption, err)
	}
	args.setDefaults()
	if errs := args.validate(field.NewPath("args")); len(errs) > 0 {
		return nil, fmt.Errorf("args of plugin %s: %w", PluginGPUPreemption, errs.ToAggregate())
	}
	return args, nil
}

func defaultTo[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func (a *GPUPreemptionArgs) setDefaults() {
	a.SetGroupVersionKind(GroupVersion.WithKind(KindGPUPreemptionArgs))
	defaultTo(&a.Tiers, DefaultTierRules())
	defaultTo(&a.TrainingGraceSeconds, DefaultGraceSeconds)
	defaultTo(&a.BatchGraceSeconds, DefaultGraceSeconds)
	defaultTo(&a.MaxEvictedPercent, DefaultMaxEvictedPercent)
	defaultTo(&a.PlanIntervalSeconds, DefaultPlanIntervalSeconds)
	defaultTo(&a.StuckTerminatingSeconds, DefaultStuckTerminatingSeconds)
	defaultTo(&a.GuaranteeAfterEvictions, DefaultGuaranteeAfterEvictions)
	defaultTo(&a.RestartSeconds, DefaultRestartSeconds)
}

func (a *GPUPreemptionArgs) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.Tiers.InferenceMinPriority <= a.Tiers.TrainingMinPriority {
		errs = append(errs, field.Invalid(path.Child("tiers", "inferenceMinPriority"), a.Tiers.InferenceMinPriority,
			fmt.Sprintf("must be above trainingMinPriority, which is %d", a.Tiers.TrainingMinPriority)))
	}
	atLeast := func(name string, value, least, most int64) {
		if value < least || value > most {
			errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf("must be from %d to %d", least, most)))
		}
	}
	// A grace of 0 would be a deletion by force, which leaves containers running while the scheduler counts them gone.
	atLeast("trainingGraceSeconds", *a.TrainingGraceSeconds, 1, MaxDeclaredSeconds)
	atLeast("batchGraceSeconds", *a.BatchGraceSeconds, 1, MaxDeclaredSeconds)
	atLeast("maxEvictedPercent", int64(*a.MaxEvictedPercent), 0, 100_000)
	atLeast("planIntervalSeconds", *a.PlanIntervalSeconds, 0, MaxDeclaredSeconds)
	atLeast("stuckTerminatingSeconds", *a.StuckTerminatingSeconds, 0, MaxDeclaredSeconds)
	atLeast("guaranteeAfterEvictions", int64(*a.GuaranteeAfterEvictions), 0, 1<<30)
	atLeast("restartSeconds", *a.RestartSeconds, 0, MaxDeclaredSeconds)
	if a.GuaranteeGPUsPerTenant != nil {
		atLeast("guaranteeGPUsPerTenant", int64(*a.GuaranteeGPUsPerTenant), 0, 1<<30)
	}
	return errs
}
