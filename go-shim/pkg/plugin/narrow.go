package plugin

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Narrowing: in a large cluster, running every filter on every node costs more than all the rest of a cycle. The kernel
// knows the best nodes before that. So for pods whose fate the kernel and the checks of hasPlaceFor foresee, PreFilter
// offers only the best candidateNodes nodes to the other plugins; the choice is the same, because no node beyond them
// could win. Should all of them be refused for a reason that nobody foresaw, PostFilter keeps preemption out of the
// way and has the pod looked at again at once, on all nodes.

// narrow ranks all nodes and returns the best; nil if all nodes are to be looked at.
func (p *GPUStranding) narrow(state fwk.CycleState, c *cycle, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	limit := int(*p.args.CandidateNodes)
	if limit == 0 || len(nodes) <= limit || !p.ranks(c.request) || c.request.ByCard() || !foreseeable(pod) || p.wide.take(pod.UID) {
		return nil
	}
	// Pods that keep others off by anti-affinity may do so on any node.
	if keepers, err := p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList(); err != nil || len(keepers) > 0 {
		return nil
	}
	r := p.mirror.Rank(c.request, nodes)
	if r == nil {
		return nil
	}
	state.Write(rankingKey, ranking{r})
	best := r.Top(limit, func(position int) bool { return hasPlaceFor(pod, nodes[position]) })
	if len(best) < limit {
		return nil // there are few: let every node say why it is not among them
	}
	c.narrowed = true
	return &fwk.PreFilterResult{NodeNames: sets.New(best...)}
}

// foreseeable reports pods that ask nothing of a node but room, models and tolerated taints, and prefer none.
func foreseeable(pod *v1.Pod) bool {
	spec := &pod.Spec
	if len(spec.TopologySpreadConstraints) > 0 || len(spec.ResourceClaims) > 0 || spec.SchedulingGroup != nil ||
		pod.Status.NominatedNodeName != "" || !onlyModels(spec) {
		return false
	}
	for i := range spec.Volumes {
		switch source := &spec.Volumes[i].VolumeSource; {
		case source.EmptyDir != nil, source.ConfigMap != nil, source.Secret != nil, source.Projected != nil,
			source.DownwardAPI != nil, source.HostPath != nil:
		default:
			return false
		}
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if !onlyRoom(&containers[i]) {
				return false
			}
		}
	}
	return true
}

// onlyRoom reports containers that want no host port and no resource that the kernel does not know.
func onlyRoom(c *v1.Container) bool {
	for i := range c.Ports {
		if c.Ports[i].HostPort != 0 {
			return false
		}
	}
	for name := range c.Resources.Requests {
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, api.ResourceGPU, api.ResourceGPUPercent:
		default:
			return false
		}
	}
	return true
}

// onlyModels reports pods whose demands on nodes are about card models alone, which the kernel knows.
func onlyModels(spec *v1.PodSpec) bool {
	for key := range spec.NodeSelector {
		if key != api.LabelGPUProduct {
			return false
		}
	}
	switch {
	case spec.Affinity == nil:
		return true
	case spec.Affinity.PodAffinity != nil, spec.Affinity.PodAntiAffinity != nil:
		return false
	case spec.Affinity.NodeAffinity == nil:
		return true
	case len(spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0:
		return false
	case spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil:
		return true
	}
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchFields) > 0 {
			return false
		}
		for i := range term.MatchExpressions {
			e := &term.MatchExpressions[i]
			if e.Key != api.LabelGPUProduct || (e.Operator != v1.NodeSelectorOpIn && e.Operator != v1.NodeSelectorOpNotIn) {
				return false
			}
		}
	}
	return true
}

// hasPlaceFor looks at what Kubernetes asks of a node beyond what the kernel knows.
func hasPlaceFor(pod *v1.Pod, info fwk.NodeInfo) bool {
	node := info.Node()
	if len(info.GetPods()) >= info.GetAllocatable().GetAllowedPodNumber() || node.Spec.Unschedulable {
		return false
	}
	if len(node.Spec.Taints) == 0 {
		return true
	}
	_, refused := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }, false)
	return !refused
}

// lookWider has a pod looked at again whose best nodes were all refused, before anything is evicted for it.
func (p *GPUStranding) lookWider(ctx context.Context, pod *v1.Pod) *fwk.Status {
	p.wide.add(pod.UID)
	p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{klog.KObj(pod).String(): pod})
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the best nodes were refused; all nodes are looked at next")
}

// wideLimit bounds what is remembered of pods that are deleted before they are looked at again.
const wideLimit = 1024

// wideSet are pods to be looked at on all nodes.
type wideSet struct {
	mu   sync.Mutex
	pods map[types.UID]struct{}
}

func (s *wideSet) add(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil || len(s.pods) >= wideLimit {
		s.pods = make(map[types.UID]struct{})
	}
	s.pods[pod] = struct{}{}
}

// take removes a pod and reports whether it was there.
func (s *wideSet) take(pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.pods[pod]
	delete(s.pods, pod)
	return found
}
