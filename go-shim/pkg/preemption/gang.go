package preemption

import (
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

// gangOf names the gang of a pod; "" if it has none.
func gangOf(pod *v1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return pod.Namespace + "/" + *group.PodGroupName
	}
	if name := pod.Labels[api.LabelPodGroup]; name != "" {
		return pod.Namespace + "/" + name
	}
	return ""
}

// podGroups are the PodGroups of the snapshot; nil while the gate GenericWorkload is off.
func (p *GPUPreemption) podGroups() fwk.PodGroupLister {
	if !utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		return nil
	}
	return p.handle.SnapshotSharedLister().PodGroups()
}

// victimGang is the gang of a pod as evictions see it; false if the pod goes alone.
func victimGang(pod *v1.Pod, groups fwk.PodGroupLister) (string, native.Gang, bool) {
	name := gangOf(pod)
	if name == "" {
		return "", native.Gang{}, false
	}
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		gang, gangs := groupFacts(pod.Namespace, *group.PodGroupName, groups)
		return name, gang, gangs
	}
	return name, declaredGang(pod), true
}

// groupFacts reads a PodGroup: disruptionMode All goes whole, of mode Single the members beyond minCount go alone, and
// without a minimum all of them do. A group that cannot be read goes whole, and so does one with a parent, whose mode is
// not looked up.
func groupFacts(namespace, name string, groups fwk.PodGroupLister) (native.Gang, bool) {
	whole := native.Gang{Flags: native.GangWhole}
	if groups == nil {
		return whole, true
	}
	group, err := groups.Get(namespace, name)
	if err != nil || group.Spec.ParentCompositePodGroupName != nil {
		return whole, true
	}
	if mode := group.Spec.DisruptionMode; mode != nil && mode.All != nil {
		return whole, true
	}
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		return native.Gang{MinMembers: uint32(max(gang.MinCount, 1))}, true
	}
	return native.Gang{}, false
}

// declaredGang reads the gang from one of its pods' annotations: without a minimum it goes whole.
func declaredGang(pod *v1.Pod) native.Gang {
	minimum, ok, _ := api.GangMinMembers(pod.Annotations)
	if !ok {
		return native.Gang{Flags: native.GangWhole}
	}
	return native.Gang{MinMembers: minimum}
}
