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
	// ResourceMIGPlaces is the number of entries under "mig" in a node's AnnotationGPUInventory. Nobody asks for it: a node
	// that advertises it is in enforced mode for MIG, also where all its cards are in MIG mode and it has no
	// ResourceGPUPercent.
	ResourceMIGPlaces = "mortise.dev/mig-places"
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

// Tiers and scheduling classes of pods.
const (
	// LabelTier, on a Pod, names its tier: one of the Tier constants. The pod's priority decides the tier; a label that
	// says otherwise is an error of the pod.
	LabelTier = "mortise.dev/tier"

	TierInference = "inference"
	TierTraining  = "training"
	TierBatch     = "batch"

	PriorityClassInference = "mortise-inference"
	PriorityClassTraining  = "mortise-training"
	PriorityClassBatch     = "mortise-batch"
)

// Annotations of training pods.
const (
	// AnnotationLastCheckpoint is the time (RFC 3339) of the pod's last durable checkpoint.
	AnnotationLastCheckpoint = "mortise.dev/last-checkpoint"
	// AnnotationVolcanoLastCheckpoint is read as well where AnnotationLastCheckpoint is absent.
	AnnotationVolcanoLastCheckpoint = "volcano.sh/last-checkpoint-time"
	// AnnotationCheckpointSaveSeconds is how long the pod needs to save after SIGTERM, in whole seconds. A pod without
	// it is taken for one that does not save when told to stop.
	AnnotationCheckpointSaveSeconds = "mortise.dev/checkpoint-save-seconds"
	// AnnotationRestartSeconds is the time from the pod's next start until it makes progress again, in whole seconds.
	AnnotationRestartSeconds = "mortise.dev/restart-seconds"
	// AnnotationProgress is how far a training pod is, "STEP" or "STEP/STEPS"; people and kubectl-mortise read it.
	AnnotationProgress = "mortise.dev/progress"
	// AnnotationPreemptible, with the value "true" on a pod of another scheduler, allows Mortise to evict it.
	AnnotationPreemptible = "mortise.dev/preemptible"
	// LabelPodGroup names the gang of a pod (sigs.k8s.io/scheduler-plugins); pods of one namespace and value are one.
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
	// AnnotationGangMinMembers is the number of pods without which the gang cannot run. Pods beyond it may be evicted
	// alone; without the annotation the gang goes whole.
	AnnotationGangMinMembers = "mortise.dev/gang-min-members"
)

// ResourceMIGPrefix begins the name of a resource of MIG slices, such as nvidia.com/mig-1g.10gb.
const ResourceMIGPrefix = "nvidia.com/mig-"

// ResourceGPUShared counts time-sliced replicas of cards, where the device plugin renames them.
const ResourceGPUShared = "nvidia.com/gpu.shared"

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
