// Package workload describes simulated clusters and the pods that arrive in them: a generator with the mix of a
// production GPU cluster, and a reader for the published openb trace.
package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/test/simkubelet"
)

// MilliPerCard is what a whole card counts in the trace's unit.
const MilliPerCard = 1000

// milliPerUnit is the size of one share unit in thousandths of a card.
const milliPerUnit = MilliPerCard / api.GPUPercentPerCard

// Pod is one arrival.
type Pod struct {
	Name      string
	CPUMilli  int64
	MemoryMiB int64
	GPUs      int64    // cards; 0 for a CPU-only pod
	GPUMilli  int64    // thousandths of each card; below MilliPerCard only if GPUs is 1
	Models    []string // card models allowed, sorted; none means any
}

// GPUTotalMilli is the pod's whole GPU demand.
func (p Pod) GPUTotalMilli() int64 { return p.GPUs * p.GPUMilli }

// Workload is a cluster and the pods that arrive in it, in this order.
type Workload struct {
	Name  string
	Nodes []simkubelet.NodeSpec
	Pods  []Pod
	// Mix holds the pods from which typical kinds are counted: the trace as published, before it is resampled.
	Mix []Pod
}

// GPUCapacityMilli is the GPU capacity of all nodes.
func (w *Workload) GPUCapacityMilli() (total int64) {
	for i := range w.Nodes {
		total += int64(w.Nodes[i].GPUs) * MilliPerCard
	}
	return total
}

// GPUDemandMilli is what all arrivals together request.
func (w *Workload) GPUDemandMilli() (total int64) {
	for i := range w.Pods {
		total += w.Pods[i].GPUTotalMilli()
	}
	return total
}

// Object returns the pod as a user would write it, for the profile of the given scheduler name.
func (p Pod) Object(namespace, schedulerName string) *corev1.Pod {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(p.CPUMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.MemoryMiB<<20, resource.BinarySI),
	}
	switch {
	case p.GPUs > 0 && p.GPUMilli == MilliPerCard:
		resources[api.ResourceGPU] = *resource.NewQuantity(p.GPUs, resource.DecimalSI)
	case p.GPUs > 0:
		resources[api.ResourceGPUPercent] = *resource.NewQuantity(p.GPUMilli/milliPerUnit, resource.DecimalSI)
	}
	noGrace := int64(0)
	noToken := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace},
		Spec: corev1.PodSpec{
			SchedulerName:                 schedulerName,
			TerminationGracePeriodSeconds: &noGrace,
			AutomountServiceAccountToken:  &noToken,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/workload:1",
				Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources},
			}},
		},
	}
	if len(p.Models) > 0 {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: api.LabelGPUProduct, Operator: corev1.NodeSelectorOpIn, Values: p.Models,
					}},
				}},
			},
		}}
	}
	return pod
}

// validate names what no pod of this package may ask.
func (p Pod) validate() error {
	switch {
	case p.CPUMilli < 0 || p.MemoryMiB < 0 || p.GPUs < 0:
		return fmt.Errorf("pod %q: negative request", p.Name)
	case p.GPUs == 0 && p.GPUMilli != 0:
		return fmt.Errorf("pod %q: gpu_milli is %d without a GPU", p.Name, p.GPUMilli)
	case p.GPUs > 1 && p.GPUMilli != MilliPerCard:
		return fmt.Errorf("pod %q: %d GPUs of %d milli each; only a single GPU can be shared", p.Name, p.GPUs, p.GPUMilli)
	case p.GPUs == 1 && (p.GPUMilli < milliPerUnit || p.GPUMilli > MilliPerCard || p.GPUMilli%milliPerUnit != 0):
		return fmt.Errorf("pod %q: gpu_milli is %d, expected a multiple of %d from %d to %d",
			p.Name, p.GPUMilli, milliPerUnit, milliPerUnit, MilliPerCard)
	}
	return nil
}

// Kind is what pods have in common for the fragmentation measures; memory is not part of it.
type Kind struct {
	CPUMilli int64
	GPUs     int64
	GPUMilli int64
	Models   string // allowed models joined by "|", "" for any
}

// Kind returns the pod's kind.
func (p Pod) Kind() Kind {
	return Kind{CPUMilli: p.CPUMilli, GPUs: p.GPUs, GPUMilli: p.GPUMilli, Models: strings.Join(p.Models, "|")}
}

// WeightedKind is a kind and its share of all pods.
type WeightedKind struct {
	Kind
	Frequency float64
}

// Kinds counts the kinds of pods, the commonest first; of equally common ones the larger first.
func Kinds(pods []Pod) []WeightedKind {
	counts := map[Kind]int{}
	for i := range pods {
		counts[pods[i].Kind()]++
	}
	kinds := make([]WeightedKind, 0, len(counts))
	for kind, count := range counts {
		kinds = append(kinds, WeightedKind{kind, float64(count) / float64(len(pods))})
	}
	slices.SortFunc(kinds, func(a, b WeightedKind) int {
		return cmp.Or(
			cmp.Compare(b.Frequency, a.Frequency),
			cmp.Compare(b.GPUs*b.GPUMilli, a.GPUs*a.GPUMilli),
			cmp.Compare(b.CPUMilli, a.CPUMilli),
			strings.Compare(a.Models, b.Models),
		)
	})
	return kinds
}

// TypicalKinds keeps the commonest kinds that together cover at least the given share of all pods and rescales their
// frequencies to sum to 1.
func TypicalKinds(kinds []WeightedKind, coverage float64) []WeightedKind {
	var covered float64
	n := 0
	for n < len(kinds) && covered < coverage {
		covered += kinds[n].Frequency
		n++
	}
	typical := slices.Clone(kinds[:n])
	for i := range typical {
		typical[i].Frequency /= covered
	}
	return typical
}
