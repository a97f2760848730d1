package worker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// authority signs certificates, in memory.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{certificate, key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// sign returns a certificate for a common name and 127.0.0.1, changed by edit.
func (a authority) sign(t testing.TB, name string, edit func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if edit != nil {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

// listenTLS returns an engine whose pool listens over TLS, and its URL.
func listenTLS(t *testing.T, o worker.Options) (*host, string) {
	t.Helper()
	h := start(t, replays.Dir(t), o)
	t.Cleanup(func() { h.stop(t) })
	address, err := h.pool.Listen("127.0.0.1:0")
	require.NoError(t, err)
	return h, "https://" + address.String()
}

// works has a worker run one task to its end.
func works(t *testing.T, h *host, c *worker.Client, run workflow.RunID) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- c.Run(ctx, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return c.ID, nil }})
	}()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: run, Definition: define(t, fanOut)}, items(2)))
	out, err := h.engine.Wait(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, []any{c.ID, c.ID}, out.Output["results"])
	stop()
	require.NoError(t, <-ended)
	c.HTTP.CloseIdleConnections()
}

// A pool with a certificate, workers with theirs, and each is who its certificate says.
func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t, "ca")
	h, address := listenTLS(t, worker.Options{
		TLS: &tls.Config{Certificates: []tls.Certificate{ca.sign(t, "pool", nil)}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
		Identify: worker.IdentifyCertificates(map[string]worker.Caller{
			"ann": {Worker: "ann", Types: []string{"work"}}, "spiffe://pawl/bob": {Worker: "bob", Types: []string{"*"}},
		}),
	})
	client := func(id string, c tls.Certificate) *worker.Client {
		return &worker.Client{URL: address, ID: id, HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{c}})}
	}
	works(t, h, client("ann", ca.sign(t, "ann", nil)), "r1")
	spiffe, err := url.Parse("spiffe://pawl/bob")
	require.NoError(t, err)
	bob := ca.sign(t, "ann", func(c *x509.Certificate) { c.URIs = []*url.URL{spiffe} })
	works(t, h, client("bob", bob), "r2")

	_, err = client("ann", bob).Register(t.Context(), "work")
	forbids(t, err, `in the name of worker "ann", and comes from "bob"`)
	_, err = client("ann", ca.sign(t, "ann", nil)).Register(t.Context(), "mail")
	forbids(t, err, "may not take tasks of type")
	_, err = client("eve", ca.sign(t, "eve", nil)).Register(t.Context(), "work")
	forbids(t, err, `of ["eve"] is that of no worker`)
	h.pool.Revoke("bob")
	forbids(t, client("bob", bob).Run(t.Context(), nil), "kept out")
}

// Each way in which certificates do not fit ends Run with an error that says whose and why.
func TestCertificateErrors(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	good := ca.sign(t, "pool", nil)
	for name, c := range map[string]struct {
		pool, worker tls.Certificate
		roots        authority
		ofWorker     bool
		code         string
	}{
		"no certificate":        {good, tls.Certificate{}, ca, true, "certificate_missing"},
		"of another authority":  {good, other.sign(t, "ann", nil), ca, true, "certificate_unknown_ca"},
		"expired":               {good, ca.sign(t, "ann", expired), ca, true, "certificate_expired"},
		"not for clients":       {good, ca.sign(t, "ann", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }), ca, true, "certificate_refused"},
		"pool of another":       {other.sign(t, "pool", nil), ca.sign(t, "ann", nil), ca, false, "certificate_unknown_ca"},
		"pool expired":          {ca.sign(t, "pool", expired), ca.sign(t, "ann", nil), ca, false, "certificate_expired"},
		"pool under other name": {ca.sign(t, "pool", func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"pool.example"} }), ca.sign(t, "ann", nil), ca, false, "certificate_other_name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, address := listenTLS(t, worker.Options{
				TLS:      &tls.Config{Certificates: []tls.Certificate{c.pool}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
				Identify: worker.IdentifyCertificates(map[string]worker.Caller{"*": {Types: []string{"work"}}}),
			})
			// A worker's certificate is sent even if the pool has not asked for such a one.
			present := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.worker, nil }
			ann := worker.Client{URL: address, ID: "ann", HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: c.roots.pool(), GetClientCertificate: present})}
			err := ann.Run(t.Context(), pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }})
			require.ErrorIs(t, err, worker.ErrCertificate)
			whose := "this worker does not accept the certificate of the pool"
			if c.ofWorker {
				whose = "the pool does not accept this worker's certificate"
			}
			require.ErrorContains(t, err, c.code+": "+whose+": ")
		})
	}
}

// With VerifyClientCertIfGiven a worker without a certificate gets an answer of the protocol, and one
// may identify by what it likes; a certificate that is not good is refused all the same.
func TestACertificateThatIsNotGiven(t *testing.T) {
	ca := newAuthority(t, "ca")
	h, address := listenTLS(t, worker.Options{
		TLS:      &tls.Config{Certificates: []tls.Certificate{ca.sign(t, "pool", nil)}, ClientCAs: ca.pool(), ClientAuth: tls.VerifyClientCertIfGiven},
		Identify: worker.IdentifyCertificates(map[string]worker.Caller{"*": {Types: []string{"work"}}}),
	})
	ann := worker.Client{URL: address, ID: "ann", HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: ca.pool()})}
	var e *worker.Error
	require.ErrorAs(t, ann.Run(t.Context(), pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}), &e)
	require.Equal(t, remote.CodeUnauthorized, e.Code)
	require.Contains(t, e.Message, "no verified client certificate")
	named := ca.sign(t, "", func(c *x509.Certificate) { c.DNSNames = []string{"ann"} })
	works(t, h, &worker.Client{URL: address, ID: "ann", HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{named}})}, "r")
	_, err := (&worker.Client{URL: address, ID: "ann", HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{ca.sign(t, "", nil)}})}).Register(t.Context(), "work")
	forbids(t, err, "is that of no worker")
}

// A connection may outlive the certificate that it was made with; no request does.
func TestACertificateExpiresOnAnOpenConnection(t *testing.T) {
	identify := worker.IdentifyCertificates(map[string]worker.Caller{"*": {Types: []string{"*"}}})
	ask := func(until time.Time) error {
		leaf := &x509.Certificate{DNSNames: []string{"ann"}, NotAfter: until}
		_, err := identify(&http.Request{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}})
		return err
	}
	require.NoError(t, ask(time.Now().Add(time.Hour)))
	require.ErrorContains(t, ask(time.Now().Add(-time.Hour)), "has expired at")
}

// A certificate is the worker of the name that has an entry, whatever else it is called; one
// that is called "*" is not every worker.
func TestANameOfACertificateIsOneWorker(t *testing.T) {
	callers := map[string]worker.Caller{"ann": {Types: []string{"mail"}}, "*": {Types: []string{"resize"}}}
	ask := func(names ...string) (worker.Caller, error) {
		leaf := &x509.Certificate{DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
		r := &http.Request{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}}
		return worker.IdentifyCertificates(callers)(r)
	}
	c, err := ask("bob", "ann")
	require.NoError(t, err)
	require.Equal(t, worker.Caller{Worker: "ann", Types: []string{"mail"}}, c)
	c, err = ask("bob")
	require.NoError(t, err)
	require.Equal(t, "bob", c.Worker)
	for _, names := range [][]string{{"*"}, {"*", "bob"}} {
		_, err = ask(names...)
		require.ErrorContains(t, err, "is that of no worker", "%q", names)
	}
}

// Certificates are renewed under a pool and a worker that go on.
func TestCertificatesAreReadAgain(t *testing.T) {
	old, renewed := newAuthority(t, "old"), newAuthority(t, "new")
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(c tls.Certificate) {
		der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600))
		require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	}
	config := new(tls.Config)
	require.ErrorIs(t, worker.ReadCertificate(config, certificate, key), os.ErrNotExist)
	write(old.sign(t, "pool", nil))
	require.NoError(t, worker.ReadCertificate(config, certificate, key))
	h, address := listenTLS(t, worker.Options{TLS: config, Token: "secret"})
	client := func(ca authority) *worker.Client {
		return &worker.Client{URL: address, ID: "ann", Token: "secret", HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: ca.pool()})}
	}
	works(t, h, client(old), "r1")

	require.NoError(t, os.WriteFile(certificate, []byte("half a certi"), 0o600)) // it is being written
	works(t, h, client(old), "r2")
	write(renewed.sign(t, "pool, renewed", func(c *x509.Certificate) { c.DNSNames = []string{"longer"} }))
	works(t, h, client(renewed), "r3")
	err := client(old).Run(t.Context(), nil)
	require.ErrorIs(t, err, worker.ErrCertificate)
	require.ErrorContains(t, err, "certificate_unknown_ca: ")
}

// Options that are not fit to serve with are refused when the pool is made.
func TestOptionsThatCannotBe(t *testing.T) {
	for option, o := range map[string]worker.Options{
		"Lease": {Lease: -1}, "Expiry": {Expiry: -time.Second}, "MaxWorkers": {MaxWorkers: -1}, "MaxConnections": {MaxConnections: -5}, "MaxBody": {MaxBody: -1}, "MaxBlob": {MaxBlob: -1},
		`Types["mail"]`: {Types: map[string]pawl.TypeLimit{"mail": {Concurrency: -1}, "sms": {Burst: 3}}},
		`Types["sms"]`:  {Types: map[string]pawl.TypeLimit{"mail": {Concurrency: 1}, "sms": {Burst: 3}}},
		"TLS":           {TLS: &tls.Config{}},
	} {
		pool, err := worker.New(o)
		require.Nil(t, pool)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.Contains(t, err.Error(), "worker.Options."+option+": ")
	}
	_, err := worker.New(worker.Options{TLS: &tls.Config{Certificates: make([]tls.Certificate, 1), MinVersion: tls.VersionTLS11}})
	require.ErrorContains(t, err, "MinVersion is TLS 1.1")
}

// Clear text and TLS are not confused, and nothing older than TLS 1.3 is spoken unless the host says so.
func TestTLSIsNotLeftOut(t *testing.T) {
	ca := newAuthority(t, "ca")
	certificates := []tls.Certificate{ca.sign(t, "pool", nil)}
	_, address := listenTLS(t, worker.Options{TLS: &tls.Config{Certificates: certificates}, Token: "secret"})
	_, err := (&worker.Client{URL: "http" + address[len("https"):], ID: "ann", Token: "secret", HTTP: worker.NewHTTPSClient(&tls.Config{RootCAs: ca.pool()})}).Register(t.Context(), "work")
	require.ErrorIs(t, err, pawl.ErrInvalid)

	dial := func(address string) error {
		c, err := tls.Dial("tcp", address[len("https://"):], &tls.Config{RootCAs: ca.pool(), MaxVersion: tls.VersionTLS12})
		if err == nil {
			require.NoError(t, c.Close())
		}
		return err
	}
	require.ErrorContains(t, dial(address), "protocol version")
	_, older := listenTLS(t, worker.Options{TLS: &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12}, Token: "secret"})
	require.NoError(t, dial(older))
}
