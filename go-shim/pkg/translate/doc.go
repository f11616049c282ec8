// Package translate reads what pods and nodes say about GPUs in the words of other stacks: NVIDIA's device plugin, KAI,
// HAMi, and GPU Feature Discovery. Nobody has to rewrite a manifest; what cannot be served is refused with a sentence that
// names the key, the value and the way out.
//
// Everything comes down to a Request: so many cards, and of each so much compute and so much memory. What is a share of
// one card becomes units of api.ResourceGPUPercent, because a share that is not a resource request would be counted by no
// scheduler, autoscaler or quota. Package translate itself changes no pod: the admission policy in deploy/ does, and the
// scheduler says so on pods that it did not see.
package translate
