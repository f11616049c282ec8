package api

// Names of extended resources.
const (
	// ResourceGPU counts whole cards, as every GPU device plugin advertises them.
	ResourceGPU = "nvidia.com/gpu"
	// ResourceGPUPercent counts shares: a card has GPUPercentPerCard units. A node that advertises it is in enforced
	// mode, which means that its kubelet side follows the scheduler's choice of devices.
	ResourceGPUPercent = "mortise.dev/gpu-percent"
	// GPUPercentPerCard is the number of ResourceGPUPercent units of one card.
	GPUPercentPerCard = 100
)

// Labels of nodes.
const (
	// LabelGPUProduct names the card model of a node (GPU Feature Discovery).
	LabelGPUProduct = "nvidia.com/gpu.product"
	// LabelGPUCount is the number of cards of a node (GPU Feature Discovery).
	LabelGPUCount = "nvidia.com/gpu.count"
	// LabelGPUMemory is the memory of one card in MiB (GPU Feature Discovery).
	LabelGPUMemory = "nvidia.com/gpu.memory"
)

// Annotations.
const (
	// AnnotationGPUInventory, on a Node in enforced mode, lists its cards: a JSON array of InventoryDevice.
	AnnotationGPUInventory = "mortise.dev/gpu-inventory"
	// AnnotationGPUDevices, on a Pod, is the scheduler's choice of cards: a JSON DeviceChoice, written together with the
	// binding.
	AnnotationGPUDevices = "mortise.dev/gpu-devices"
	// AnnotationGPUAllocation, on a Node in enforced mode, records which cards the node side gave to which pod: a JSON
	// array of PodAllocation. It overrides AnnotationGPUDevices where they differ.
	AnnotationGPUAllocation = "mortise.dev/gpu-allocation"
)

// Annotations that pods of a simulated cluster carry to tell the simulated kubelet how their process behaves. Values are
// decimal seconds, fractions allowed.
const (
	// AnnotationSimRunsFor is the time from Running until the pod completes by itself (phase Succeeded).
	AnnotationSimRunsFor = "sim.mortise.dev/runs-for-seconds"
	// AnnotationSimExitsAfter is the time from SIGTERM until the process ends by itself. Without it, or when it is longer
	// than the grace period, the process is killed at the end of the grace period.
	AnnotationSimExitsAfter = "sim.mortise.dev/exits-after-seconds"
)

// InventoryDevice is one card of AnnotationGPUInventory.
type InventoryDevice struct {
	UUID      string `json:"uuid"`
	Index     int    `json:"index"`
	Model     string `json:"model"`
	MemoryMiB int64  `json:"memory_mib"`
	Healthy   bool   `json:"healthy"`
}

// DeviceChoice is the value of AnnotationGPUDevices. It holds only for the named pod on the named node: a copy on
// another pod, or of an older pod of the same name, is ignored.
type DeviceChoice struct {
	PodUID  string   `json:"podUID"`
	Node    string   `json:"node"`
	Devices []string `json:"devices"`
}

// PodAllocation is one entry of AnnotationGPUAllocation. Percent is 0 for cards held whole, else the units of the one card.
type PodAllocation struct {
	PodUID  string   `json:"podUID"`
	Devices []string `json:"devices"`
	Percent int64    `json:"percent,omitempty"`
}
