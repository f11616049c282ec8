package snapshot

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"mortise.dev/mortise/go-shim/pkg/api"
	"mortise.dev/mortise/go-shim/pkg/native"
)

const profile = "mortise"

// cluster stands for the scheduler's cache: NodeInfos that change in place, and a list that is made anew when nodes come
// or go.
type cluster struct {
	t     *testing.T
	infos map[string]*framework.NodeInfo
	order []string
	list  []fwk.NodeInfo
	pods  int
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, infos: map[string]*framework.NodeInfo{}}
}

func (c *cluster) add(node *v1.Node) {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	c.infos[node.Name] = info
	c.order = append(c.order, node.Name)
	c.relist()
}

func (c *cluster) remove(name string) {
	delete(c.infos, name)
	for i, other := range c.order {
		if other == name {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			break
		}
	}
	c.relist()
}

func (c *cluster) relist() {
	c.list = make([]fwk.NodeInfo, 0, len(c.order))
	for _, name := range c.order {
		c.list = append(c.list, c.infos[name])
	}
}

// change replaces a Node object by a changed copy.
func (c *cluster) change(name string, mutate func(*v1.Node)) {
	node := c.infos[name].Node().DeepCopy()
	mutate(node)
	c.infos[name].SetNode(node)
}

func (c *cluster) bind(pod *v1.Pod, node string) *v1.Pod {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	info, err := framework.NewPodInfo(bound)
	require.NoError(c.t, err)
	c.infos[node].AddPodInfo(info)
	return bound
}

func (c *cluster) unbind(pod *v1.Pod) {
	require.NoError(c.t, c.infos[pod.Spec.NodeName].RemovePod(klog.Background(), pod))
}

// update is what the informer does: remove and add.
func (c *cluster) update(pod *v1.Pod, mutate func(*v1.Pod)) *v1.Pod {
	c.unbind(pod)
	changed := pod.DeepCopy()
	mutate(changed)
	return c.bind(changed, pod.Spec.NodeName)
}

// pod makes a pod that asks for pairs of resource and quantity.
func (c *cluster) pod(pairs ...string) *v1.Pod {
	c.pods++
	pod := podOf(container("a", pairs...))
	pod.Name = fmt.Sprintf("p%d", c.pods)
	// Spread over the range, so that the order of UIDs is not that of creation.
	pod.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(c.pods)*2654435761, c.pods))
	pod.Spec.SchedulerName = profile
	return pod
}

func countsNode(name, model string, cards int) *v1.Node {
	resources := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("96"), v1.ResourceMemory: resource.MustParse("512Gi"), v1.ResourcePods: resource.MustParse("200"),
	}
	labels := map[string]string{v1.LabelHostname: name}
	if cards > 0 {
		resources[api.ResourceGPU] = *resource.NewQuantity(int64(cards), resource.DecimalSI)
		labels[api.LabelGPUProduct] = model
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{}},
		Status:     v1.NodeStatus{Allocatable: resources, Capacity: resources.DeepCopy()},
	}
}

func enforcedNode(name, model string, cards int) *v1.Node {
	node := countsNode(name, model, cards)
	for _, list := range []v1.ResourceList{node.Status.Allocatable, node.Status.Capacity} {
		list[api.ResourceGPUPercent] = *resource.NewQuantity(int64(cards)*100, resource.DecimalSI)
	}
	setInventory(node, model, cards, nil)
	return node
}

func cardName(node string, index int) string { return "GPU-" + node + "-" + strconv.Itoa(index) }

func setInventory(node *v1.Node, model string, cards int, unhealthy map[int]bool) {
	devices := []api.InventoryDevice{}
	for i := range cards {
		devices = append(devices, api.InventoryDevice{
			UUID: cardName(node.Name, i), Index: i, Model: model, MemoryMiB: 16384, Healthy: !unhealthy[i],
		})
	}
	data, err := json.Marshal(devices)
	if err != nil {
		panic(err)
	}
	node.Annotations[api.AnnotationGPUInventory] = string(data)
}

func newMirror(t testing.TB, options Options) *Mirror {
	m, err := NewMirror(options)
	require.NoError(t, err)
	m.AddScheduler(profile)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func request(t testing.TB, pod *v1.Pod) *Request {
	r, err := ParseRequest(pod)
	require.NoError(t, err)
	return r
}

func digest(t *testing.T, m *Mirror) [2]uint64 {
	d, err := m.Kernel().Digest()
	require.NoError(t, err)
	return d
}

// place does for a pod what a scheduling cycle does, up to the assumed pod in the cache.
func (c *cluster) place(m *Mirror, pod *v1.Pod, node string) (*v1.Pod, error) {
	r := request(c.t, pod)
	require.True(c.t, m.Sync(c.list, r))
	if fit, _ := m.Room(r, c.infos[node]); fit != Fits {
		return nil, fmt.Errorf("no room on %s", node)
	}
	if err := m.Reserve(pod, r, node, m.Rank(r, c.list)); err != nil {
		return nil, err
	}
	return c.bind(pod, node), nil
}

// publish is the bound pod coming back from the API server with its annotation.
func (c *cluster) publish(m *Mirror, pod *v1.Pod) *v1.Pod {
	cards := m.Cards(pod, pod.Spec.NodeName)
	return c.update(pod, func(p *v1.Pod) {
		if len(cards) > 0 {
			annotated(p, api.AnnotationGPUDevices, choiceOf(p, p.Spec.NodeName, cards))
		}
	})
}

// calls returns the calls of a kernel function so far.
func calls(call native.Call) uint64 { return native.CallTotal(call) }
