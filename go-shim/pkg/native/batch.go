package native

// Batch collects what a Sync carries. It reuses its memory from call to call; Close gives that back. It belongs to one
// goroutine at a time.
type Batch struct {
	// Full makes the library drop the nodes that are not in the batch.
	Full bool

	nodes    vector[NodeDelta]
	pods     vector[PodRecord]
	removals vector[NodeRef]
	refs     vector[NodeRef]
}

// Reset empties the batch.
func (b *Batch) Reset() {
	b.Full = false
	b.nodes.reset()
	b.pods.reset()
	b.removals.reset()
	b.refs.reset()
}

// AddNode appends a node with the pods on it.
func (b *Batch) AddNode(node NodeDelta, pods []PodRecord) {
	node.FirstPod = uint32(len(b.pods.items))
	node.PodCount = uint32(len(pods))
	b.pods.grow(len(pods))
	b.pods.items = append(b.pods.items, pods...)
	b.nodes.push(node)
}

// RemoveNode appends a node that is gone.
func (b *Batch) RemoveNode(ref NodeRef) { b.removals.push(ref) }

// NodeCount is how many nodes were added.
func (b *Batch) NodeCount() int { return len(b.nodes.items) }

// PodCount is how many pods were added.
func (b *Batch) PodCount() int { return len(b.pods.items) }

// RemovalCount is how many removals were added.
func (b *Batch) RemovalCount() int { return len(b.removals.items) }

// NodeWithPods is a node of a batch.
type NodeWithPods struct {
	Node NodeDelta
	Pods []PodRecord
}

// Copy returns the added nodes with their pods.
func (b *Batch) Copy() []NodeWithPods {
	out := make([]NodeWithPods, len(b.nodes.items))
	for i, node := range b.nodes.items {
		pods := b.pods.items[node.FirstPod : node.FirstPod+node.PodCount]
		out[i] = NodeWithPods{Node: node, Pods: append([]PodRecord(nil), pods...)}
	}
	return out
}

// Refs are the references of the added nodes, in order, after a successful Sync and until the next Reset.
func (b *Batch) Refs() []NodeRef { return b.refs.items }

// Close frees the batch's memory. The batch may be used again.
func (b *Batch) Close() {
	b.nodes.free()
	b.pods.free()
	b.removals.free()
	b.refs.free()
}

// Candidates are the nodes among which Score chooses, and the answer for each. It reuses its memory; Close gives that
// back. It belongs to one goroutine at a time.
type Candidates struct {
	refs   vector[NodeRef]
	scores vector[NodeScore]
}

// Reset empties the list.
func (c *Candidates) Reset() {
	c.refs.reset()
	c.scores.reset()
}

// Add appends a node.
func (c *Candidates) Add(ref NodeRef) { c.refs.push(ref) }

// Len is the number of nodes.
func (c *Candidates) Len() int { return len(c.refs.items) }

// Scores are the answers in the order of the nodes, after a successful Score and until the next Reset.
func (c *Candidates) Scores() []NodeScore { return c.scores.items }

// Close frees the memory. The list may be used again.
func (c *Candidates) Close() {
	c.refs.free()
	c.scores.free()
}
