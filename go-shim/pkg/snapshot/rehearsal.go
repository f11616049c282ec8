package snapshot

import "k8s.io/apimachinery/pkg/types"

// Rehearse takes the pods for gone, also where nodes still report their cards in use, until the returned function is
// called: what kube-scheduler's snapshot does when it takes pods out to see what would fit. A Sync must follow the call of
// that function, as it must follow the end of the snapshot's mutations. For the scheduling goroutine.
func (m *Mirror) Rehearse(pods []types.UID) (end func()) {
	away := make(map[string]bool, len(pods))
	for _, pod := range pods {
		away[string(pod)] = true
	}
	m.away.Store(&away)
	return func() { m.away.Store(nil) }
}

func (m *Mirror) awayPods() map[string]bool {
	if away := m.away.Load(); away != nil {
		return *away
	}
	return nil
}
