package snapshot

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// milliPerPercent is the number of milli-GPU in one unit of api.ResourceGPUPercent.
const milliPerPercent = native.MilliPerGPU / api.GPUPercentPerCard

// Request is what a pod asks for. It is immutable.
type Request struct {
	GPUCount uint16 // cards, whole or one to share; 0 for none
	GPUMilli uint16 // of each card; 1000 when whole
	Models   ModelConstraint

	// Unranked is set for pods whose devices the kernel does not model yet: MIG slices, time-sliced replicas, DRA
	// claims. Kubernetes itself counts those, and every node is worth the same to them.
	Unranked bool

	uid    types.UID
	pod    *v1.Pod
	native native.PodRequest // all but the allowed models and the tier, which depend on the Mirror
}

// WantsGPU reports whether the pod asks for cards or a share of one.
func (r *Request) WantsGPU() bool { return r.GPUCount > 0 }

// Whole reports whether the pod asks for whole cards.
func (r *Request) Whole() bool { return r.GPUCount > 0 && r.GPUMilli == native.MilliPerGPU }

// ParseRequest reads a pod's request. The error says in one sentence what is wrong with the pod and how to mend it.
func ParseRequest(pod *v1.Pod) (*Request, error) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	cards, err := wholeNumber(api.ResourceGPU, requests, limits)
	if err != nil {
		return nil, err
	}
	percent, err := parseShare(pod)
	if err != nil {
		return nil, err
	}
	r := &Request{Models: modelConstraintOf(pod), uid: pod.UID, pod: pod}
	switch {
	case cards > 0 && percent > 0:
		return nil, fmt.Errorf("the pod asks for both %s: %d and %s: %d; ask for whole cards or for one share",
			api.ResourceGPU, cards, api.ResourceGPUPercent, percent)
	case cards > native.MaxGPUsPerNode:
		return nil, fmt.Errorf("%s is %d, but a node has at most %d cards", api.ResourceGPU, cards, native.MaxGPUsPerNode)
	case cards > 0:
		r.GPUCount, r.GPUMilli = uint16(cards), native.MilliPerGPU
	case percent > 0:
		r.GPUCount, r.GPUMilli = 1, uint16(percent*milliPerPercent)
	default:
		if err := refuseForeignShare(pod, requests); err != nil {
			return nil, err
		}
		r.Unranked = hasUnmodelledDevices(pod, requests)
	}
	high, low := uidBits(string(pod.UID))
	r.native = native.PodRequest{
		UIDHigh:     high,
		UIDLow:      low,
		CPUMilli:    clampCPU(requests.Cpu().MilliValue()),
		MemoryBytes: clampMemory(requests.Memory().Value()),
		Priority:    priorityOf(pod),
		GPUCount:    r.GPUCount,
		GPUMilli:    r.GPUMilli,
	}
	if isNoSample(pod) || r.Unranked {
		r.native.Flags |= native.RequestNoLearn
	}
	return r, nil
}

// parseShare is the number of percent units that the pod's one sharing container asks for, or 0.
func parseShare(pod *v1.Pod) (int64, error) {
	var percent int64
	var owner string
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			units, err := wholeNumber(api.ResourceGPUPercent, c.Resources.Requests, c.Resources.Limits)
			switch {
			case err != nil:
				return 0, fmt.Errorf("container %q: %w", c.Name, err)
			case units == 0:
				continue
			case units >= api.GPUPercentPerCard:
				return 0, fmt.Errorf("container %q: %s is %d, but a share is 1 to %d; for whole cards ask for %s",
					c.Name, api.ResourceGPUPercent, units, api.GPUPercentPerCard-1, api.ResourceGPU)
			case owner != "":
				return 0, fmt.Errorf("containers %q and %q both ask for %s, but a pod has one share, in one container",
					owner, c.Name, api.ResourceGPUPercent)
			}
			percent, owner = units, c.Name
		}
	}
	return percent, nil
}

// wholeNumber is the larger of request and limit, which the API server keeps equal for extended resources.
func wholeNumber(name v1.ResourceName, lists ...v1.ResourceList) (int64, error) {
	var most int64
	for _, list := range lists {
		quantity, found := list[name]
		if !found {
			continue
		}
		value := quantity.Value()
		if value < 0 || quantity.Cmp(*resource.NewQuantity(value, resource.DecimalSI)) != 0 {
			return 0, fmt.Errorf("%s is %s, but it must be a whole number that is not negative", name, quantity.String())
		}
		most = max(most, value)
	}
	return most, nil
}

// refuseForeignShare finds requests in the form of another GPU stack on a pod that has none of ours.
func refuseForeignShare(pod *v1.Pod, requests v1.ResourceList) error {
	const advice = "which Mortise does not read: ask for %s: 1..%d, or let an admission policy translate it"
	for _, key := range api.ForeignShareAnnotations {
		if value, found := pod.Annotations[key]; found {
			return fmt.Errorf("the pod has the annotation %s: %q, "+advice, key, value, api.ResourceGPUPercent, api.GPUPercentPerCard-1)
		}
	}
	for _, name := range api.ForeignShareResources {
		if quantity := requests[v1.ResourceName(name)]; quantity.Sign() > 0 {
			return fmt.Errorf("the pod requests %s: %s, "+advice, name, quantity.String(), api.ResourceGPUPercent, api.GPUPercentPerCard-1)
		}
	}
	return nil
}

func hasUnmodelledDevices(pod *v1.Pod, requests v1.ResourceList) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for name, quantity := range requests {
		device := strings.HasPrefix(string(name), api.ResourceMIGPrefix) || name == api.ResourceGPUShared
		if device && quantity.Sign() > 0 {
			return true
		}
	}
	return false
}

// HoldsCards reports whether the pod asks for cards or a share of one.
func HoldsCards(pod *v1.Pod) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, name := range []v1.ResourceName{api.ResourceGPU, api.ResourceGPUPercent} {
				if quantity := containers[i].Resources.Requests[name]; quantity.Sign() > 0 {
					return true
				}
			}
		}
	}
	return false
}
