package controlplane

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// authority signs the certificates of one control plane.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

func newAuthority(commonName string) (*authority, error) {
	cert, key, err := pkiutil.NewCertificateAuthority(&pkiutil.CertConfig{
		Config:              certutil.Config{CommonName: commonName},
		EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256,
	})
	if err != nil {
		return nil, fmt.Errorf("creating certificate authority %q: %w", commonName, err)
	}
	return &authority{cert: cert, key: key, pem: pkiutil.EncodeCertPEM(cert)}, nil
}

// issue signs a certificate for config.CommonName and returns it and its key as PEM.
func (a *authority) issue(config certutil.Config) (certPEM, keyPEM []byte, err error) {
	cert, key, err := pkiutil.NewCertAndKey(a.cert, a.key, &pkiutil.CertConfig{
		Config:              config,
		EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("issuing certificate %q: %w", config.CommonName, err)
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding key of %q: %w", config.CommonName, err)
	}
	return pkiutil.EncodeCertPEM(cert), keyPEM, nil
}

// serverFiles are the paths that kube-apiserver's flags name.
type serverFiles struct {
	clientCA, frontProxyCA        string
	serverCert, serverKey         string
	frontProxyCert, frontProxyKey string
	serviceAccountKey             string
	clientAuthority               *authority
}

// writeServerFiles creates the certificates of one control plane below dir.
func writeServerFiles(dir string) (*serverFiles, error) {
	clientAuthority, err := newAuthority("mortise-test-ca")
	if err != nil {
		return nil, err
	}
	frontProxyAuthority, err := newAuthority("mortise-test-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	serverCert, serverKey, err := clientAuthority.issue(certutil.Config{
		CommonName: "kube-apiserver",
		AltNames:   certutil.AltNames{DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPs: []net.IP{loopback}},
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	proxyCert, proxyKey, err := frontProxyAuthority.issue(certutil.Config{
		CommonName: frontProxyName,
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("creating service account key: %w", err)
	}

	f := &serverFiles{clientAuthority: clientAuthority}
	for _, file := range []struct {
		path *string
		name string
		data []byte
	}{
		{&f.clientCA, "ca.crt", clientAuthority.pem},
		{&f.frontProxyCA, "front-proxy-ca.crt", frontProxyAuthority.pem},
		{&f.serverCert, "apiserver.crt", serverCert},
		{&f.serverKey, "apiserver.key", serverKey},
		{&f.frontProxyCert, "front-proxy.crt", proxyCert},
		{&f.frontProxyKey, "front-proxy.key", proxyKey},
		{&f.serviceAccountKey, "service-account.key", serviceAccountKey},
	} {
		*file.path = filepath.Join(dir, file.name)
		if err := os.WriteFile(*file.path, file.data, 0o600); err != nil {
			return nil, err
		}
	}
	return f, nil
}
