package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

func expression(operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: api.LabelGPUProduct, Operator: operator, Values: values}
}

func requiring(selector string, terms ...[]v1.NodeSelectorRequirement) *v1.Pod {
	pod := podOf(container("a", api.ResourceGPU, "1"))
	if selector != "" {
		pod.Spec.NodeSelector = map[string]string{api.LabelGPUProduct: selector}
	}
	if terms != nil {
		required := &v1.NodeSelector{}
		for _, t := range terms {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: t})
		}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	return pod
}

func TestModelConstraint(t *testing.T) {
	ids := map[string]uint32{"A100": 0, "T4": 1, "V100": 2}
	all := native.ModelsAny
	zone := v1.NodeSelectorRequirement{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}
	type terms = [][]v1.NodeSelectorRequirement
	in, notIn := v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want uint64
	}{
		"none":                      {requiring(""), all},
		"selector":                  {requiring("T4"), 0b010},
		"a model that no node has":  {requiring("H100"), 0},
		"affinity":                  {requiring("", terms{{expression(in, "A100", "V100", "H100")}}...), 0b101},
		"affinity and selector":     {requiring("T4", terms{{expression(in, "A100", "T4")}}...), 0b010},
		"contradiction":             {requiring("T4", terms{{expression(in, "A100")}}...), 0},
		"NotIn":                     {requiring("", terms{{expression(notIn, "T4")}}...), all &^ 0b010},
		"In and NotIn":              {requiring("", terms{{expression(in, "A100", "T4"), expression(notIn, "T4")}}...), 0b001},
		"two Ins intersect":         {requiring("", terms{{expression(in, "A100", "T4"), expression(in, "T4", "V100")}}...), 0b010},
		"alternatives unite":        {requiring("", terms{{expression(in, "A100")}, {expression(in, "T4"), zone}}...), 0b011},
		"an unconstrained one":      {requiring("", terms{{expression(in, "A100")}, {zone}}...), all},
		"an empty term matches nil": {requiring("", terms{{expression(in, "A100")}, {}}...), 0b001},
		"Exists says nothing":       {requiring("", terms{{expression(v1.NodeSelectorOpExists)}}...), all},
		"another key":               {requiring("", terms{{zone}}...), all},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, modelConstraintOf(c.pod).resolve(ids))
		})
	}
}
