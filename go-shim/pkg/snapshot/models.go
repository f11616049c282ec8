package snapshot

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// ModelConstraint says which card models a pod accepts, as far as its node selector and required node affinity speak of
// api.LabelGPUProduct. The zero value accepts all. It only tells the kernel what the pod could use: kube-scheduler's
// NodeAffinity remains the judge, so an expression that cannot be carried over is left out.
type ModelConstraint struct {
	selector *string
	terms    []modelTerm // alternatives; nil: no constraint
}

// modelTerm accepts the models of in (nil: all) that are not in notIn.
type modelTerm struct {
	in    []string
	notIn []string
}

// Any reports whether all models are accepted.
func (c ModelConstraint) Any() bool { return c.selector == nil && c.terms == nil }

// resolve is the constraint as a bit set of model ids. Names without an id, which no node has, are left out.
func (c ModelConstraint) resolve(ids map[string]uint32) uint64 {
	allowed := native.ModelsAny
	if c.selector != nil {
		allowed = modelBits(ids, []string{*c.selector})
	}
	if c.terms == nil {
		return allowed
	}
	var union uint64
	for _, term := range c.terms {
		bits := native.ModelsAny
		if term.in != nil {
			bits = modelBits(ids, term.in)
		}
		union |= bits &^ modelBits(ids, term.notIn)
	}
	return allowed & union
}

func modelBits(ids map[string]uint32, names []string) uint64 {
	var bits uint64
	for _, name := range names {
		if id, known := ids[name]; known && id < native.MaxModels {
			bits |= 1 << id
		}
	}
	return bits
}

func modelConstraintOf(pod *v1.Pod) ModelConstraint {
	var c ModelConstraint
	if product, found := pod.Spec.NodeSelector[api.LabelGPUProduct]; found {
		c.selector = &product
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return c
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // matches no node
		}
		parsed := modelTermOf(term.MatchExpressions)
		if parsed.in == nil && len(parsed.notIn) == 0 {
			c.terms = nil // one alternative without a constraint: there is none
			return c
		}
		c.terms = append(c.terms, parsed)
	}
	return c
}

func modelTermOf(expressions []v1.NodeSelectorRequirement) modelTerm {
	var term modelTerm
	for _, e := range expressions {
		if e.Key != api.LabelGPUProduct {
			continue
		}
		switch e.Operator {
		case v1.NodeSelectorOpIn:
			if term.in == nil {
				term.in = slices.Clone(e.Values)
			} else {
				term.in = slices.DeleteFunc(term.in, func(name string) bool { return !slices.Contains(e.Values, name) })
			}
		case v1.NodeSelectorOpNotIn:
			term.notIn = append(term.notIn, e.Values...)
		}
	}
	return term
}
