package worker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// ErrTLSNeeded says that Listen was to serve other machines in clear text: with an address that
// is not a loopback one, and neither Options.TLS nor Options.PlainHTTP.
var ErrTLSNeeded = errors.New("tokens and inputs would cross the network in clear text: set Options.TLS, or Options.PlainHTTP behind a proxy that has it")

// serverTLS returns a copy of the configuration of a host that is fit to serve with; nil for nil.
func serverTLS(config *tls.Config) (*tls.Config, error) {
	switch {
	case config == nil:
		return nil, nil
	case len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil:
		return nil, &OptionError{"TLS", "it has no certificate: set Certificates, or GetCertificate to that of ReadCertificate"}
	case config.MinVersion != 0 && config.MinVersion < tls.VersionTLS12:
		return nil, &OptionError{"TLS", fmt.Sprintf("MinVersion is %s: give tls.VersionTLS12 or later, or leave it out for 1.3", tls.VersionName(config.MinVersion))}
	}
	return atLeastTLS13(config), nil
}

// atLeastTLS13 returns a copy of a configuration, with version 1.3 where it names none: in it
// each end is told why the other refuses its certificate.
func atLeastTLS13(config *tls.Config) *tls.Config {
	config = config.Clone()
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS13
	}
	return config
}

// AuthorizeCertificates returns a function for Options.Authorize that knows callers by the names
// in their client certificates: URIs, DNS names and mail addresses, or the common name of one that
// has none of these. The first with an entry counts; "*" is the entry of every other
// certificate. A Caller without a Worker is the worker of that name, so that
//
//	worker.AuthorizeCertificates(map[string]worker.Caller{"*": {Types: []string{"resize"}}})
//
// lets everyone in to whom the authority has given a certificate. The map is copied. A certificate
// counts if TLS has verified it and it has not expired since: set ClientCAs, and ClientAuth
// to tls.RequireAndVerifyClientCert, or to tls.VerifyClientCertIfGiven, which tells
// a worker without one so in an answer of the protocol.
func AuthorizeCertificates(callers map[string]Caller) func(context.Context, *http.Request) (Caller, error) {
	known := make(map[string]Caller, len(callers))
	for name, c := range callers {
		known[name] = c
	}
	return func(_ context.Context, r *http.Request) (Caller, error) {
		if r == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return Caller{}, poolErrorf(http.StatusUnauthorized, CodeUnauthorized, "there is no verified client certificate: connect with one that the pool's authority has signed")
		}
		leaf := r.TLS.VerifiedChains[0][0]
		if now := time.Now(); now.After(leaf.NotAfter) {
			return Caller{}, poolErrorf(http.StatusUnauthorized, CodeUnauthorized, "the client certificate has expired at %s: connect again with a new one", leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		names := certificateNames(leaf)
		for _, name := range append(names, every) {
			c, ok := known[name]
			if ok && c.Worker == "" {
				if c.Worker = name; name == every {
					c.Worker = names[0]
				}
				if c.Worker == every {
					continue // a certificate of that name is no key to all workers
				}
			}
			if ok && c.Worker != "" {
				return c, nil
			}
		}
		return Caller{}, poolErrorf(http.StatusForbidden, CodeForbidden, "the client certificate of %q is that of no worker of this pool", names)
	}
}

// certificateNames returns what a certificate calls its owner; there is one at least, which
// may be "".
func certificateNames(c *x509.Certificate) (names []string) {
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	names = append(append(names, c.DNSNames...), c.EmailAddresses...)
	if len(names) == 0 {
		names = []string{c.Subject.CommonName}
	}
	return names
}

// A CertificateFiles is a certificate with its key in two PEM files, which are read
// again when they have changed: whoever renews them need not restart anything. Its methods may
// be called from any goroutine. Make it with ReadCertificate.
type CertificateFiles struct {
	certificate, key string

	mu    sync.Mutex
	state [2]fileState
	pair  *tls.Certificate
}

// fileState is by what one sees that a file has changed.
type fileState struct {
	size    int64
	changed time.Time
}

// ReadCertificate reads a certificate, with the chain behind it, and its key. It fails if a file cannot
// be read, or they do not fit each other.
func ReadCertificate(certificate, key string) (*CertificateFiles, error) {
	f := &CertificateFiles{certificate: certificate, key: key}
	if err := f.refreshPair(); err != nil {
		return nil, err
	}
	return f, nil
}

// GetCertificate is for tls.Config.GetCertificate of Options.TLS. While the files
// cannot be read, or do not fit each other since one is new already, it is what they were before.
func (f *CertificateFiles) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.currentPair()
}

// GetClientCertificate is for tls.Config.GetClientCertificate of a worker, likewise.
func (f *CertificateFiles) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return f.currentPair()
}

func (f *CertificateFiles) currentPair() (*tls.Certificate, error) {
	if f == nil {
		return nil, errNoCertificate
	}
	err := f.refreshPair()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pair != nil {
		return f.pair, nil
	}
	if err == nil {
		err = errNoCertificate
	}
	return nil, err
}

var errNoCertificate = errors.New("there is no certificate: make a CertificateFiles with ReadCertificate")

// refreshPair reads the files if they are not those that were read last.
func (f *CertificateFiles) refreshPair() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var state [2]fileState
	for i, name := range []string{f.certificate, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("read a certificate: %w", err)
		}
		state[i] = fileState{info.Size(), info.ModTime()}
	}
	if f.pair != nil && state == f.state {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return fmt.Errorf("read the certificate %q with the key %q: %w", f.certificate, f.key, err)
	}
	f.pair, f.state = &pair, state
	return nil
}

// A CertificateError says that a Client and its pool cannot connect, because one of them does not
// accept the certificate of the other. Err has the words of package tls or x509.
type CertificateError struct {
	OfWorker bool   // the pool refuses that of the worker; else the worker that of the pool
	Code     string // one of the constants
	Err      error
}

// The codes of a CertificateError.
const (
	CertificateMissing   = "certificate_missing"    // the worker has sent none: set Certificates or GetClientCertificate, see NewHTTPSClient
	CertificateUnknownCA = "certificate_unknown_ca" // no authority that the other end trusts has signed it: see RootCAs, ClientCAs
	CertificateExpired   = "certificate_expired"    // or it is not valid yet, or a clock is wrong
	CertificateOtherName = "certificate_other_name" // it is not for the host in Client.URL
	CertificateRefused   = "certificate_refused"    // for another reason, which Err tells
)

// Error says whose certificate is refused, and why.
func (e *CertificateError) Error() string {
	if e.OfWorker {
		return fmt.Sprintf("%s: the pool does not accept this worker's certificate: %v", e.Code, e.Err)
	}
	return fmt.Sprintf("%s: this worker does not accept the certificate of the pool: %v", e.Code, e.Err)
}

// Unwrap returns Err.
func (e *CertificateError) Unwrap() error { return e.Err }

// certificateAlerts are the alerts of TLS with which a pool refuses a certificate, as package
// tls puts them.
var certificateAlerts = map[string]string{
	"tls: certificate required":          CertificateMissing,
	"tls: unknown certificate authority": CertificateUnknownCA,
	"tls: expired certificate":           CertificateExpired,
	"tls: bad certificate":               CertificateRefused,
	"tls: unsupported certificate":       CertificateRefused,
	"tls: revoked certificate":           CertificateRefused,
	"tls: unknown certificate":           CertificateRefused,
}

// explainTLS returns a *CertificateError if that is why a request has failed, or else the error.
func explainTLS(err error) error {
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" && certificateAlerts[remote.Err.Error()] != "" {
		return &CertificateError{OfWorker: true, Code: certificateAlerts[remote.Err.Error()], Err: err}
	}
	var refused *tls.CertificateVerificationError
	if !errors.As(err, &refused) {
		return err
	}
	var invalid x509.CertificateInvalidError
	code := CertificateRefused
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		code = CertificateUnknownCA
	case errors.As(err, new(x509.HostnameError)):
		code = CertificateOtherName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		code = CertificateExpired
	}
	return &CertificateError{Code: code, Err: err}
}

// NewHTTPSClient returns a client for Client.HTTP that connects over TLS only. In the configuration,
// RootCAs has the authority of the pool's certificate, if it is not one of the system's, and
// Certificates or GetClientCertificate (ReadCertificate) have that of the worker. It is copied; the version
// is 1.3 or later unless MinVersion says another. A failure over a certificate is a *CertificateError.
func NewHTTPSClient(config *tls.Config) *http.Client {
	if config == nil {
		config = new(tls.Config)
	}
	return &http.Client{Transport: httpsTransport{&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: atLeastTLS13(config), TLSHandshakeTimeout: handshakeTime, IdleConnTimeout: 2 * maxWait,
	}}}
}

// httpsTransport sends nothing in clear text.
type httpsTransport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t httpsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, invalidRequestf("the URL %q does not begin with https://, and the client of NewHTTPSClient sends nothing in clear text", r.URL.Redacted())
	}
	return t.Transport.RoundTrip(r)
}

// handshakeTime bounds a handshake of TLS.
const handshakeTime = 10 * time.Second
