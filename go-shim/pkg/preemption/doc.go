// Package preemption is the scheduler-framework plugin GPUPreemption: who gives way when nothing fits.
//
// It wraps upstream's DefaultPreemption. The kernel plans over all nodes in one call (PostFilter); upstream's evaluator
// then looks at the planned node alone, where the plan is verified by the profile's own Filter plugins
// (SelectVictimsOnNode), and nominates, evicts and waits as it always does. What is replaced of that is the deletion
// itself: the grace of the victim's tier, a UID precondition, and events that say why.
//
// Pods without GPUs, and pods whose plans do not hold before the Filter plugins, get upstream's own rule. Inference pods
// and pods of other schedulers are no victims there either.
package preemption
