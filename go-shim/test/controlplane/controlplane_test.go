package controlplane_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mortise.dev/mortise/go-shim/test/controlplane"
)

// Two control planes after one another in one process: nothing of the first may leak into the second.
func TestStartServeStop(t *testing.T) {
	ctx := context.Background()
	// A directory of its own: other packages' control planes run at the same time.
	t.Setenv("TMPDIR", t.TempDir())
	for range 2 {
		cp, err := controlplane.Start(ctx, controlplane.Options{})
		require.NoError(t, err)

		config, err := cp.RESTConfig(controlplane.Admin)
		require.NoError(t, err)
		admin := kubernetes.NewForConfigOrDie(config)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		created, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Empty(t, created.Spec.Taints, "no admission plugin may taint a new node")

		path := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, cp.WriteKubeconfig(path, controlplane.Scheduler))
		config, err = clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		scheduler := kubernetes.NewForConfigOrDie(config)
		_, err = scheduler.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		require.NoError(t, err, "kube-scheduler's bootstrap role")
		err = scheduler.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{})
		require.True(t, apierrors.IsForbidden(err), "RBAC must be in force, got %v", err)

		require.NoError(t, cp.Stop())
		leftovers, err := filepath.Glob(filepath.Join(os.TempDir(), "mortise-cp-*"))
		require.NoError(t, err)
		require.Empty(t, leftovers)
		require.NoError(t, cp.Stop(), "Stop is idempotent")
	}
}
