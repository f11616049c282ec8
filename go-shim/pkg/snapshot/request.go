package snapshot

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
	"mortise.dev/mortise/go-shim/pkg/translate"
)

// milliPerPercent is the number of milli-GPU in one unit of api.ResourceGPUPercent.
const milliPerPercent = native.MilliPerGPU / api.GPUPercentPerCard

// Request is what a pod asks for. It is immutable.
type Request struct {
	GPUCount uint16 // cards, whole or one to share; 0 for none
	GPUMilli uint16 // of each card; 1000 when whole
	Models   ModelConstraint
	// Cards says which cards the pod accepts, beyond Models.
	Cards translate.CardConstraint
	// MemoryMiB that each card must have for the pod, for shares that were asked for by memory; 0: not stated.
	MemoryMiB int64

	// Unranked is set for pods whose devices the kernel does not model yet: MIG slices, time-sliced replicas, DRA
	// claims. Kubernetes itself counts those, and every node is worth the same to them.
	Unranked bool

	uid    types.UID
	pod    *v1.Pod
	native native.PodRequest // all but the allowed models and the tier, which depend on the Mirror

	// askedNode is the node on which Reserve asked the kernel for cards, and asked its answer. A gang's pod is reserved
	// again with the same request when the whole gang has been found to fit.
	askedNode string
	asked     uint16
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
	if r.Cards, err = translate.Cards(pod); err != nil {
		return nil, err
	}
	if r.MemoryMiB, err = checkForeign(pod, cards, percent); err != nil {
		return nil, err
	}
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

// checkForeign compares what the pod asks for in another stack's words with its resource requests, which alone are
// counted. It returns the memory that each card must have; 0 if the words do not say.
func checkForeign(pod *v1.Pod, cards, percent int64) (memoryMiB int64, err error) {
	foreign, err := translate.Pod(pod)
	if err != nil || foreign == nil {
		return 0, err
	}
	milli, unknown := foreign.Milli(0)
	whole := unknown == nil && milli == native.MilliPerGPU
	switch {
	case foreign.ByResource:
		return 0, errors.New(foreign.Advice())
	case cards > 0 && cards == foreign.Count && (whole || foreign.DependsOnModel()):
		return foreign.MemoryMiB, nil // that much memory may be all of a card
	case foreign.Count > 1 && !whole:
		return 0, fmt.Errorf("%s, of each of %d cards: a pod gets a share of one card, or whole cards; ask for %s: %d, or use more pods",
			foreign.From, foreign.Count, api.ResourceGPU, foreign.Count)
	case cards == 0 && percent == 0:
		return 0, errors.New(foreign.Advice())
	case whole:
		return 0, fmt.Errorf("%s is %s: %d, but the pod requests %d; make them equal, or remove one", foreign.From,
			api.ResourceGPU, foreign.Count, cards)
	case cards > 0:
		return 0, fmt.Errorf("the pod asks for a share by %s and for %s: %d; keep one", foreign.From, api.ResourceGPU, cards)
	case percent*milliPerPercent < milli:
		return 0, fmt.Errorf("%s is %s: %d, but the pod requests only %d; make them equal, or remove one", foreign.From,
			api.ResourceGPUPercent, milli/milliPerPercent, percent)
	}
	return foreign.MemoryMiB, nil
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
