package translate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Resources of HAMi, each per card of the container's nvidia.com/gpu (one card where that is absent). No node advertises
// them: HAMi's own scheduler counts them.
const (
	// HAMiMemory is memory in MiB.
	HAMiMemory = "nvidia.com/gpumem"
	// HAMiMemoryPercent is memory in percent of a card's.
	HAMiMemoryPercent = "nvidia.com/gpumem-percentage"
	// HAMiCores is compute in percent of a card's.
	HAMiCores = "nvidia.com/gpucores"
)

// Annotations of HAMi that say which cards a pod may get: lists with commas between.
const (
	// HAMiUseType and HAMiNoUseType hold parts of names of models, in upper or lower case.
	HAMiUseType   = "nvidia.com/use-gputype"
	HAMiNoUseType = "nvidia.com/nouse-gputype"
	// HAMiUseUUID and HAMiNoUseUUID hold UUIDs of cards.
	HAMiUseUUID   = "nvidia.com/use-gpuuuid"
	HAMiNoUseUUID = "nvidia.com/nouse-gpuuuid"
)

// hamiRequest is nil for pods without HAMi's resources, also where they ask for nvidia.com/gpu: that is whole cards to
// HAMi too.
func hamiRequest(pod *v1.Pod) (*Request, error) {
	var request *Request
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r, err := hamiContainer(&containers[i])
			switch {
			case err != nil:
				return nil, err
			case r == nil:
			case request != nil:
				return nil, fmt.Errorf("containers %q and %q both ask for a part of cards, but a pod has one share, in one container",
					request.Container, r.Container)
			default:
				request = r
			}
		}
	}
	return request, nil
}

func hamiContainer(c *v1.Container) (*Request, error) {
	memory, err := quantity(c, HAMiMemory, maxMemoryMiB)
	if err != nil {
		return nil, err
	}
	percent, err := quantity(c, HAMiMemoryPercent, 100)
	if err != nil {
		return nil, err
	}
	cores, err := quantity(c, HAMiCores, 100)
	if err != nil {
		return nil, err
	}
	count, err := quantity(c, api.ResourceGPU, maxCards)
	if err != nil {
		return nil, err
	}
	if memory == 0 && percent == 0 && cores == 0 {
		return nil, nil
	}
	r := &Request{Container: c.Name, ByResource: true, Count: max(count, 1), ComputeMilli: cores * milliPerUnit}
	var from []string
	if memory > 0 {
		r.MemoryMiB = memory
		from = append(from, fmt.Sprintf("%s: %d", HAMiMemory, memory))
	}
	switch {
	case percent > 0:
		r.MemoryMilli = percent * milliPerUnit
		from = append(from, fmt.Sprintf("%s: %d", HAMiMemoryPercent, percent))
	case memory == 0:
		r.MemoryMilli = milliPerCard // HAMi: who does not limit the memory has all of it
	}
	if memory > 0 && percent > 0 {
		return nil, fmt.Errorf("container %q: %s both say how much memory; keep one", c.Name, strings.Join(from, " and "))
	}
	if cores > 0 {
		from = append(from, fmt.Sprintf("%s: %d", HAMiCores, cores))
	}
	r.From = strings.Join(from, ", ")
	return r, nil
}

// CardConstraint says which cards a pod may get. The zero value accepts all.
type CardConstraint struct {
	useTypes, noTypes []string // in upper case
	useUUIDs, noUUIDs []string
}

// Cards reads HAMi's annotations about cards.
func Cards(pod *v1.Pod) (CardConstraint, error) {
	var c CardConstraint
	for key, into := range map[string]*[]string{
		HAMiUseType: &c.useTypes, HAMiNoUseType: &c.noTypes, HAMiUseUUID: &c.useUUIDs, HAMiNoUseUUID: &c.noUUIDs,
	} {
		value, found := pod.Annotations[key]
		if !found {
			continue
		}
		for entry := range strings.SplitSeq(value, ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				*into = append(*into, entry)
			}
		}
		if len(*into) == 0 {
			return c, fmt.Errorf("annotation %s is %q, but it must list at least one entry; leave it out to mean all", key, value)
		}
	}
	for _, list := range [][]string{c.useTypes, c.noTypes} {
		for i := range list {
			list[i] = strings.ToUpper(list[i])
		}
	}
	for _, uuid := range c.useUUIDs {
		if !slices.Contains(c.noUUIDs, uuid) {
			return c, nil
		}
	}
	if len(c.useUUIDs) > 0 {
		return c, fmt.Errorf("annotations %s and %s exclude every card", HAMiUseUUID, HAMiNoUseUUID)
	}
	return c, nil
}

// Any reports whether all cards are accepted.
func (c *CardConstraint) Any() bool { return !c.NamesModels() && !c.NamesCards() }

// NamesModels reports whether it depends on the model.
func (c *CardConstraint) NamesModels() bool { return len(c.useTypes)+len(c.noTypes) > 0 }

// NamesCards reports whether it depends on the UUID.
func (c *CardConstraint) NamesCards() bool { return len(c.useUUIDs)+len(c.noUUIDs) > 0 }

// AcceptsModel reports whether cards of the model are accepted.
func (c *CardConstraint) AcceptsModel(model string) bool {
	if !c.NamesModels() {
		return true
	}
	model = strings.ToUpper(model)
	in := func(part string) bool { return strings.Contains(model, part) }
	return (len(c.useTypes) == 0 || slices.ContainsFunc(c.useTypes, in)) && !slices.ContainsFunc(c.noTypes, in)
}

// AcceptsCard reports whether the card is accepted, its model apart.
func (c *CardConstraint) AcceptsCard(uuid string) bool {
	return (len(c.useUUIDs) == 0 || slices.Contains(c.useUUIDs, uuid)) && !slices.Contains(c.noUUIDs, uuid)
}
