package worker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/remote"
)

// ErrTLSNeeded says that Listen would serve other machines in clear text: the address is not a
// loopback one, and neither Options.TLS nor Options.PlainHTTP is set.
var ErrTLSNeeded = errors.New("tokens and inputs would cross the network in clear text: set Options.TLS, or Options.PlainHTTP behind a proxy that has it")

// serverTLS returns a copy of the configuration of a host that is fit to serve with; nil for nil.
func serverTLS(config *tls.Config) (*tls.Config, error) {
	switch {
	case config == nil:
		return nil, nil
	case len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil:
		return nil, optionError("TLS", "it has no certificate: set Certificates, or call ReadCertificate")
	case config.MinVersion != 0 && config.MinVersion < tls.VersionTLS12:
		return nil, optionError("TLS", fmt.Sprintf("MinVersion is %s: give tls.VersionTLS12 or later, or leave it out for 1.3", tls.VersionName(config.MinVersion)))
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

// IdentifyCertificates returns a function for Options.Identify that knows callers by the names
// in their client certificates: URIs, DNS names and mail addresses, or the common name of a
// certificate without these. The first name with an entry counts; "*" is the entry of all other
// certificates. A Caller without a Worker is the worker of that name, or else of the first, so that
//
//	worker.IdentifyCertificates(map[string]worker.Caller{"*": {Types: []string{"resize"}}})
//
// lets everyone in to whom the authority has given a certificate. The map is copied. A certificate
// counts if TLS has verified it and it has not expired since: set ClientCAs, and ClientAuth
// to tls.RequireAndVerifyClientCert, or to tls.VerifyClientCertIfGiven, which lets the pool
// answer a worker without a certificate with 401.
func IdentifyCertificates(callers map[string]Caller) func(*http.Request) (Caller, error) {
	known := maps.Clone(callers)
	return func(r *http.Request) (Caller, error) {
		if r == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return Caller{}, poolErrorf(http.StatusUnauthorized, remote.CodeUnauthorized, "there is no verified client certificate: connect with one that the pool's authority has signed")
		}
		leaf := r.TLS.VerifiedChains[0][0]
		if now := time.Now(); now.After(leaf.NotAfter) {
			return Caller{}, poolErrorf(http.StatusUnauthorized, remote.CodeUnauthorized, "the client certificate has expired at %s: connect again with a new one", leaf.NotAfter.UTC().Format(time.RFC3339))
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
		return Caller{}, poolErrorf(http.StatusForbidden, remote.CodeForbidden, "the client certificate of %q is that of no worker of this pool", names)
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

// A certificateFiles is a certificate with its key in two PEM files.
type certificateFiles struct {
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

// ReadCertificate makes into, the configuration of a pool or of a worker, present the certificate in a PEM file, with the
// chain behind it, whose key is in another file. The files are read again when they have changed, so that a renewal needs no
// restart; while they cannot be read, or only one of them is new, the previous certificate is presented.
// It fails if a file cannot be read now, or the key is not that of the certificate.
func ReadCertificate(into *tls.Config, certificate, key string) error {
	f := &certificateFiles{certificate: certificate, key: key}
	if err := f.refreshPair(); err != nil {
		return err
	}
	into.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.currentPair(), nil }
	into.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.currentPair(), nil }
	return nil
}

// currentPair returns the certificate as it is now, or the last one that could be read.
func (f *certificateFiles) currentPair() *tls.Certificate {
	_ = f.refreshPair() // the former one is presented meanwhile
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pair
}

// refreshPair reads the files if they are not those that were read last.
func (f *certificateFiles) refreshPair() error {
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

// ErrCertificate says that a Client and its pool cannot connect, because one of them does not
// accept the certificate of the other. The text of the error begins with a code, such as certificate_expired, and says which of the two.
var ErrCertificate = errors.New("a certificate is not accepted")

// A certificateError is an ErrCertificate. err has the words of package tls or x509.
type certificateError struct {
	OfWorker bool   // the pool refuses that of the worker; else the worker that of the pool
	Code     string // one of the constants
	Err      error
}

// The codes of a certificateError.
const (
	certificateMissing   = "certificate_missing"    // the worker has sent none: set Certificates or GetClientCertificate, see NewHTTPSClient
	certificateUnknownCA = "certificate_unknown_ca" // no authority that the other end trusts has signed it: see RootCAs, ClientCAs
	certificateExpired   = "certificate_expired"    // or it is not valid yet, or a clock is wrong
	certificateOtherName = "certificate_other_name" // it is not for the host in Client.URL
	certificateRefused   = "certificate_refused"    // for another reason, which Err tells
)

// Error says whose certificate is refused, and why.
func (e *certificateError) Error() string {
	if e.OfWorker {
		return fmt.Sprintf("%s: the pool does not accept this worker's certificate: %v", e.Code, e.Err)
	}
	return fmt.Sprintf("%s: this worker does not accept the certificate of the pool: %v", e.Code, e.Err)
}

// Is reports that it is ErrCertificate.
func (e *certificateError) Is(target error) bool { return target == ErrCertificate }

// Unwrap returns Err.
func (e *certificateError) Unwrap() error { return e.Err }

// certificateAlerts are the alerts of TLS with which a pool refuses a certificate, as package
// tls puts them.
var certificateAlerts = map[string]string{
	"tls: certificate required":          certificateMissing,
	"tls: unknown certificate authority": certificateUnknownCA,
	"tls: expired certificate":           certificateExpired,
	"tls: bad certificate":               certificateRefused,
	"tls: unsupported certificate":       certificateRefused,
	"tls: revoked certificate":           certificateRefused,
	"tls: unknown certificate":           certificateRefused,
}

// explainTLS returns an ErrCertificate if that is why a request has failed, or else the error.
func explainTLS(err error) error {
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" && certificateAlerts[remote.Err.Error()] != "" {
		return &certificateError{OfWorker: true, Code: certificateAlerts[remote.Err.Error()], Err: err}
	}
	var refused *tls.CertificateVerificationError
	if !errors.As(err, &refused) {
		return err
	}
	var invalid x509.CertificateInvalidError
	code := certificateRefused
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		code = certificateUnknownCA
	case errors.As(err, new(x509.HostnameError)):
		code = certificateOtherName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		code = certificateExpired
	}
	return &certificateError{Code: code, Err: err}
}

// NewHTTPSClient returns a client for Client.HTTP that connects over TLS only. Its RootCAs have the
// authority of the pool's certificate, unless the system has it, and Certificates or GetClientCertificate
// (ReadCertificate) have the worker's certificate. config is copied; nil is an empty one. The version is 1.3
// or later unless MinVersion says another. A failure over a certificate is an ErrCertificate.
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
