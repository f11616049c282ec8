package simkubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	resourcehelper "k8s.io/component-helpers/resource"
)

// AddNode registers a node. Pods bound to it from then on are run.
func (k *Kubelet) AddNode(ctx context.Context, spec NodeSpec) error {
	node := &simNode{spec: spec, devices: newDeviceTable(spec.inventory())}
	object := spec.object(node.devices)
	k.mu.Lock()
	if _, exists := k.nodes[spec.Name]; exists {
		k.mu.Unlock()
		return fmt.Errorf("node %q exists already", spec.Name)
	}
	k.nodes[spec.Name] = node
	k.mu.Unlock()
	if _, err := k.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		k.mu.Lock()
		delete(k.nodes, spec.Name)
		k.mu.Unlock()
		return fmt.Errorf("registering node %q: %w", spec.Name, err)
	}
	return nil
}

// RemoveNode takes a node out of the cluster at once. Its pods are removed after it, as the pod garbage collector does.
func (k *Kubelet) RemoveNode(ctx context.Context, name string) error {
	k.mu.Lock()
	delete(k.nodes, name)
	k.mu.Unlock()
	if err := k.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing node %q: %w", name, err)
	}
	pods, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		now := metav1.NewDeleteOptions(0)
		now.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
		err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *now)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// SetDeviceHealth reports card index of a node healthy or not. Pods that hold the card keep it.
func (k *Kubelet) SetDeviceHealth(name string, index int, healthy bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	node, ok := k.nodes[name]
	if !ok || index < 0 || index >= len(node.devices.cards) {
		return fmt.Errorf("node %q has no card %d", name, index)
	}
	node.devices.cards[index].Healthy = healthy
	k.changed(node)
	return nil
}

// NodeState is what is left on a node beside the pods that hold something on it.
type NodeState struct {
	Name          string
	GPUModel      string
	CPUFreeMilli  int64
	MemoryFreeMiB int64
	GPUFreeMilli  []int64 // one entry a card
}

// Snapshot returns the state of all nodes, by name.
func (k *Kubelet) Snapshot() ([]NodeState, error) {
	pods, err := k.lister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	states := make([]NodeState, 0, len(k.nodes))
	for _, node := range k.nodes {
		states = append(states, NodeState{
			Name: node.spec.Name, GPUModel: node.spec.GPUModel,
			CPUFreeMilli: node.spec.CPUMilli, MemoryFreeMiB: node.spec.MemoryMiB, GPUFreeMilli: node.devices.freeMilli(),
		})
	}
	slices.SortFunc(states, func(a, b NodeState) int { return cmp.Compare(a.Name, b.Name) })
	at := make(map[string]*NodeState, len(states))
	for i := range states {
		at[states[i].Name] = &states[i]
	}
	for _, pod := range pods {
		state := at[pod.Spec.NodeName]
		if state == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		state.CPUFreeMilli -= requests.Cpu().MilliValue()
		state.MemoryFreeMiB -= requests.Memory().Value() >> 20
	}
	return states, nil
}

// WaitIdle returns when every pod that the node side knows runs (or is done, or is being stopped) and the Node objects
// show the state of the cards.
func (k *Kubelet) WaitIdle(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return k.idle()
	})
}

func (k *Kubelet) idle() (bool, error) {
	if !k.synced() {
		return false, nil
	}
	pods, err := k.lister.List(labels.Everything())
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, node := range k.nodes {
		if node.spec.Mode == Enforced && node.version != node.published {
			return false, nil
		}
	}
	for _, pod := range pods {
		_, ours := k.nodes[pod.Spec.NodeName]
		if ours && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			return false, nil
		}
	}
	return true, nil
}
