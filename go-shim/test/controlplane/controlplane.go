package controlplane

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

const (
	startTimeout = 90 * time.Second
	stopTimeout  = 30 * time.Second
)

var loopback = net.IPv4(127, 0, 0, 1)

// Identity is a user of the control plane, as its client certificate names it.
type Identity struct {
	User   string
	Groups []string
}

var (
	// Admin may do everything.
	Admin = Identity{User: "mortise-admin", Groups: []string{"system:masters"}}
	// Scheduler has the rights that RBAC's bootstrap policy gives to kube-scheduler.
	Scheduler = Identity{User: "system:kube-scheduler"}
)

// Options of Start. The zero value is usable.
type Options struct {
	// APIServerFlags are added to kube-apiserver's flags and override them.
	APIServerFlags []string
}

// ControlPlane is a running etcd and kube-apiserver.
type ControlPlane struct {
	dir       string
	etcd      *embed.Etcd
	server    *apiServer
	cancel    context.CancelFunc
	authority *authority
}

// Start brings up etcd and kube-apiserver and returns when the API answers and the bootstrap RBAC roles exist. The caller
// must call Stop. Cancelling ctx ends a start that is under way, not a control plane that has started.
func Start(ctx context.Context, opts Options) (_ *ControlPlane, err error) {
	// Unix socket paths are limited to about 100 bytes, so the directory has a short name of its own.
	dir, err := os.MkdirTemp("", "mortise-cp-")
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cp := &ControlPlane{dir: dir, cancel: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, cp.Stop())
		}
	}()

	files, err := writeServerFiles(dir)
	if err != nil {
		return nil, err
	}
	cp.authority = files.clientAuthority
	etcd, endpoint, err := startEtcd(ctx, dir)
	if err != nil {
		return nil, err
	}
	cp.etcd = etcd
	cp.server, err = startAPIServer(runCtx, files, endpoint, opts.APIServerFlags)
	if err != nil {
		return nil, err
	}
	if err := cp.waitReady(ctx); err != nil {
		return nil, err
	}
	return cp, nil
}

// waitReady returns when the API server reports ready and serves the namespace that everything else is created in.
func (cp *ControlPlane) waitReady(ctx context.Context) error {
	config, err := cp.RESTConfig(Admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-cp.server.done:
			cp.server.done <- err
			return false, fmt.Errorf("kube-apiserver stopped while starting: %w", err)
		default:
		}
		if _, last = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); last != nil {
			return false, nil
		}
		_, last = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if last != nil && !apierrors.IsNotFound(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver at %s did not become ready: %w", cp.server.address, errors.Join(err, last))
	}
	return nil
}

// RESTConfig returns a client configuration without rate limits for id. Typed clients made from it speak protobuf.
func (cp *ControlPlane) RESTConfig(id Identity) (*rest.Config, error) {
	cert, key, err := cp.authority.issue(certutil.Config{
		CommonName:   id.User,
		Organization: id.Groups,
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            "https://" + cp.server.address,
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.authority.pem, CertData: cert, KeyData: key},
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		QPS: -1,
	}, nil
}

// WriteKubeconfig writes a self-contained kubeconfig for id, for components that run as their own process.
func (cp *ControlPlane) WriteKubeconfig(path string, id Identity) error {
	config, err := cp.RESTConfig(id)
	if err != nil {
		return err
	}
	const name = "mortise"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*kubeconfig, path)
}

// WriteServingCert writes a certificate and key for a server on the loopback address and returns their paths. Clients that
// use this control plane's RESTConfig trust it.
func (cp *ControlPlane) WriteServingCert(dir, name string) (certPath, keyPath string, err error) {
	cert, key, err := cp.authority.issue(certutil.Config{
		CommonName: name,
		AltNames:   certutil.AltNames{DNSNames: []string{"localhost"}, IPs: []net.IP{loopback}},
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return "", "", err
	}
	certPath, keyPath = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	return certPath, keyPath, errors.Join(os.WriteFile(certPath, cert, 0o600), os.WriteFile(keyPath, key, 0o600))
}

// Stop ends kube-apiserver and etcd and removes everything they wrote. It may be called more than once.
func (cp *ControlPlane) Stop() error {
	cp.cancel()
	var err error
	if cp.server != nil {
		select {
		case <-cp.server.done:
		case <-time.After(stopTimeout):
			err = fmt.Errorf("kube-apiserver did not stop within %s", stopTimeout)
		}
		cp.server = nil
	}
	if cp.etcd != nil {
		cp.etcd.Close()
		cp.etcd = nil
	}
	return errors.Join(err, os.RemoveAll(cp.dir))
}
