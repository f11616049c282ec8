package translate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Kind of a resource that NVIDIA's device plugin advertises.
type Kind uint8

const (
	// KindNone: not a resource of GPUs.
	KindNone Kind = iota
	// KindCard: whole cards.
	KindCard
	// KindReplica: equal shares of cards without limits (time-slicing, or MPS of NVIDIA's plugin).
	KindReplica
	// KindMIG: instances of a profile.
	KindMIG
)

// replicaSuffix is what NVIDIA's device plugin appends to a resource with renameByDefault.
const replicaSuffix = ".shared"

// profilePattern is a MIG profile: compute slices, memory in GB, attributes.
var profilePattern = regexp.MustCompile(`^[1-9][0-9]?g\.[1-9][0-9]{0,3}gb(\.me|\.me\.all|\.gfx|\.not-me)?$`)

// Resource says what a resource name of NVIDIA's device plugin counts, and for KindMIG the profile as nvidia-smi writes it
// (1g.10gb+me for the resource nvidia.com/mig-1g.10gb.me). The error names a profile that no card has.
func Resource(name string) (kind Kind, profile string, err error) {
	switch {
	case name == api.ResourceGPU:
		return KindCard, "", nil
	case name == api.ResourceGPUShared:
		return KindReplica, "", nil
	case !strings.HasPrefix(name, api.ResourceMIGPrefix):
		return KindNone, "", nil
	}
	profile = strings.TrimPrefix(name, api.ResourceMIGPrefix)
	kind = KindMIG
	if base, shared := strings.CutSuffix(profile, replicaSuffix); shared {
		kind, profile = KindReplica, base
	}
	if !profilePattern.MatchString(profile) {
		return KindNone, "", fmt.Errorf("resource %s: %q is not a MIG profile; one looks like 1g.10gb or 1g.10gb.me", name, profile)
	}
	if at := strings.Index(profile, "gb."); at >= 0 {
		profile = profile[:at+2] + "+" + profile[at+3:]
	}
	return kind, profile, nil
}

// Labels of GPU Feature Discovery.
const (
	labelClique          = "nvidia.com/gpu.clique"
	labelMIGStrategy     = "nvidia.com/mig.strategy"
	labelReplicas        = "nvidia.com/gpu.replicas"
	labelSharingStrategy = "nvidia.com/gpu.sharing-strategy"
	sharedProduct        = "-SHARED"
	migProduct           = "-MIG-"
)

// NodeLabels is what GPU Feature Discovery says about a node.
type NodeLabels struct {
	// Product is the model of the card, without what sharing and MIG append to the label; "" if there is none.
	Product string
	// MemoryMiB of a card, or of an instance where SliceProfile is set; 0 if not stated.
	MemoryMiB int64
	// Clique is the NVLink fabric that the node's cards are in; "" if none.
	Clique string
	// MIGStrategy is none, single or mixed; "" if not stated.
	MIGStrategy string
	// SliceProfile: with strategy single, nvidia.com/gpu counts instances of this profile, not cards.
	SliceProfile string
	// Replicas of each card that nvidia.com/gpu or nvidia.com/gpu.shared counts; 1 without sharing.
	Replicas int64
}

// Labels reads GPU Feature Discovery's labels. What cannot be read is named in the error; the rest is valid all the same.
func Labels(labels map[string]string) (NodeLabels, error) {
	l := NodeLabels{Product: labels[api.LabelGPUProduct], Clique: labels[labelClique], Replicas: 1}
	l.Product = strings.TrimSuffix(l.Product, sharedProduct)
	if base, profile, found := strings.Cut(l.Product, migProduct); found {
		l.Product = base
		if labels[labelMIGStrategy] == "single" {
			l.SliceProfile = profile
		}
	}
	var err error
	switch strategy := labels[labelMIGStrategy]; strategy {
	case "", "none", "single", "mixed":
		l.MIGStrategy = strategy
	default:
		err = fmt.Errorf("label %s is %q, but it must be none, single or mixed", labelMIGStrategy, strategy)
	}
	number := func(key string, least int64, into *int64) {
		value, found := labels[key]
		if !found {
			return
		}
		n, parseErr := strconv.ParseInt(value, 10, 64)
		if parseErr != nil || n < least || n > maxMemoryMiB {
			err = fmt.Errorf("label %s is %q, but it must be a whole number from %d to %d", key, value, least, int64(maxMemoryMiB))
			return
		}
		*into = n
	}
	number(api.LabelGPUMemory, 1, &l.MemoryMiB)
	if sharing := labels[labelSharingStrategy]; sharing != "" && sharing != "none" {
		number(labelReplicas, 1, &l.Replicas)
	}
	return l, err
}
