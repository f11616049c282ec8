package simkubelet

import (
	"fmt"
	"strconv"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mortise.dev/mortise/go-shim/pkg/api"
)

// Mode says who chooses the cards of a node's pods.
type Mode int

const (
	// Enforced nodes follow the scheduler's choice and offer shares.
	Enforced Mode = iota
	// Counts nodes choose themselves and offer whole cards only.
	Counts
)

// NodeSpec describes a simulated node.
type NodeSpec struct {
	Name         string
	CPUMilli     int64
	MemoryMiB    int64
	GPUs         int
	GPUModel     string // value of the nvidia.com/gpu.product label
	GPUMemoryMiB int64  // memory of one card
	MaxPods      int64  // 0 means 1001, which no pod mix of this repository reaches
	Mode         Mode
	Labels       map[string]string
}

const defaultMaxPods = 1001

// DeviceUUID names card index of a node. It is the same in every run.
func DeviceUUID(node string, index int) string {
	return "GPU-" + uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "mortise.dev/simkubelet/%s/%d", node, index)).String()
}

func (s NodeSpec) inventory() []api.InventoryDevice {
	devices := make([]api.InventoryDevice, s.GPUs)
	for i := range devices {
		devices[i] = api.InventoryDevice{
			UUID: DeviceUUID(s.Name, i), Index: i, Model: s.GPUModel, MemoryMiB: s.GPUMemoryMiB, Healthy: true,
		}
	}
	return devices
}

// object returns the Node as a kubelet registers it.
func (s NodeSpec) object(devices *deviceTable) *corev1.Node {
	maxPods := s.MaxPods
	if maxPods == 0 {
		maxPods = defaultMaxPods
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name,
			Labels: map[string]string{
				corev1.LabelHostname:   s.Name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
			Annotations: map[string]string{},
		},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(s.CPUMilli, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(s.MemoryMiB<<20, resource.BinarySI),
				corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
			},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				Message: "simulated kubelet is ready", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.37.2"},
		},
	}
	if s.GPUs > 0 {
		node.Labels[api.LabelGPUProduct] = s.GPUModel
		node.Labels[api.LabelGPUCount] = strconv.Itoa(s.GPUs)
		node.Labels[api.LabelGPUMemory] = strconv.FormatInt(s.GPUMemoryMiB, 10)
		node.Status.Capacity[api.ResourceGPU] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	}
	for name, value := range s.Labels {
		node.Labels[name] = value
	}
	node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	if s.Mode == Enforced && s.GPUs > 0 {
		node.Status.Capacity[api.ResourceGPUPercent] = *resource.NewQuantity(int64(s.GPUs)*api.GPUPercentPerCard, resource.DecimalSI)
		status, annotations := deviceReport(devices)
		for name, quantity := range status {
			node.Status.Allocatable[name] = quantity
		}
		for name, value := range annotations {
			node.Annotations[name] = value
		}
	}
	return node
}

// deviceReport returns the part of a Node that follows from the state of its cards.
func deviceReport(devices *deviceTable) (corev1.ResourceList, map[string]string) {
	held := make([]api.PodAllocation, 0, len(devices.allocations))
	for pod, allocation := range devices.allocations {
		held = append(held, api.PodAllocation{PodUID: string(pod), Devices: allocation.Devices, Percent: allocation.Percent})
	}
	cards, percent := devices.allocatable()
	return corev1.ResourceList{
			api.ResourceGPU:        *resource.NewQuantity(cards, resource.DecimalSI),
			api.ResourceGPUPercent: *resource.NewQuantity(percent, resource.DecimalSI),
		}, map[string]string{
			api.AnnotationGPUInventory:  api.FormatInventory(devices.inventory()),
			api.AnnotationGPUAllocation: api.FormatAllocations(held),
		}
}
