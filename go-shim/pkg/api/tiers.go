package api

import "fmt"

// Priorities from which pods belong to the upper tiers, by default; those of the PriorityClasses in deploy/.
const (
	DefaultInferenceMinPriority = 1_000_000
	DefaultTrainingMinPriority  = 100_000
)

// TierRules map a pod's priority to its tier. Tiers so follow priorities, as kube-scheduler's nominations do.
type TierRules struct {
	// InferenceMinPriority is the lowest priority of the tier inference.
	InferenceMinPriority int32 `json:"inferenceMinPriority"`
	// TrainingMinPriority is the lowest priority of the tier training; what is below is batch.
	TrainingMinPriority int32 `json:"trainingMinPriority"`
}

// DefaultTierRules are the rules of a profile that gives none.
func DefaultTierRules() TierRules {
	return TierRules{InferenceMinPriority: DefaultInferenceMinPriority, TrainingMinPriority: DefaultTrainingMinPriority}
}

// Of is the tier of a priority.
func (r TierRules) Of(priority int32) string {
	switch {
	case priority >= r.InferenceMinPriority:
		return TierInference
	case priority >= r.TrainingMinPriority:
		return TierTraining
	}
	return TierBatch
}

// CheckLabel says in one sentence what is wrong with a pod's LabelTier and how to mend it; label is "" if there is none.
func (r TierRules) CheckLabel(label string, priority int32) error {
	tier := r.Of(priority)
	switch label {
	case "", tier:
		return nil
	case TierInference, TierTraining, TierBatch:
		return fmt.Errorf("label %s is %q, but priority %d makes the pod %s; use the PriorityClass mortise-%s or drop the label",
			LabelTier, label, priority, tier, label)
	}
	return fmt.Errorf("label %s is %q; it must be %s, %s or %s", LabelTier, label, TierInference, TierTraining, TierBatch)
}
