package worker

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/taskqueue"
)

// Options configure a pool. The zero value of every field works; New refuses values that
// are negative or cannot hold.
type Options struct {
	// Lease is how long a worker holds a task without a heartbeat; 60 s by
	// default.
	Lease time.Duration
	// Expiry is how long the pool remembers a worker that holds nothing and sends
	// nothing; 5 min by default.
	Expiry time.Duration
	// Types bound how tasks are handed out, by task type. The bound of "*" holds for
	// each type without a bound of its own.
	Types map[string]pawl.TypeLimit
	// MaxWorkers is how many workers may be registered; 10,000 by default.
	MaxWorkers int
	// Token is the text that remote workers must send as "Authorization: Bearer TOKEN". A
	// caller that has it may be any worker, and take every type. A pool that serves remote
	// workers has exactly one of Token, Identify and NoToken; otherwise it serves nobody.
	Token string
	// Identify says which worker sends a request, and which types it may take: by a token
	// for each worker (IdentifyTokens), by a client certificate (IdentifyCertificates), or as the
	// host likes.
	// It is called for every request, from many goroutines, and should answer at once. No worker can
	// poll, complete, renew, leave, store or keep anything in the name of another. An *Error
	// is answered as it is; any other error is answered 401, without its text.
	Identify func(*http.Request) (Caller, error)
	// NoToken serves all requests from a loopback address to a loopback host. It must not be
	// set behind a proxy on this machine, from which all requests then come.
	NoToken bool
	// TLS configures what Listen serves, from version 1.3 on unless MinVersion is 1.2. Its
	// GetCertificate is asked for every connection, so that certificates are renewed without a
	// restart (ReadCertificate); ClientCAs and ClientAuth ask workers for certificates
	// (IdentifyCertificates). New copies it. Without TLS and PlainHTTP, Listen serves loopback addresses only.
	TLS *tls.Config
	// PlainHTTP lets Listen serve other addresses without TLS: behind a proxy that has it, or
	// in a network that nobody else can read or write.
	PlainHTTP bool
	// MaxConnections is how many connections Listen has open at once; 2,000 by default. At the
	// bound a new one replaces the oldest on which no request was served, or else is closed. A
	// worker has about two: set it by the number of workers, and below the process's limit of open files.
	MaxConnections int
	// MaxBody bounds the body of a request, in bytes; 2 MiB by default. All bodies held at once may take 64 times as much, or 128 MiB if
	// that is more, and those of one caller with a name three quarters of it; beyond that, a request is answered 503.
	MaxBody int64
	// MaxBlob bounds a blob that a remote worker stores, in bytes; 1 GiB by
	// default.
	MaxBlob int64
	// Logger gets what no caller can be told, such as that tasks have waited for 10 s
	// and no worker takes their type; slog.Default() by default.
	Logger *slog.Logger
}

// withDefaults returns the options as a pool uses them, or pawl.ErrInvalid.
//
// 0 always means the default, so a bound cannot be switched off; New calls it once, and the pool never
// changes its options.
func (o Options) withDefaults() (Options, error) {
	if err := o.checkValues(); err != nil {
		return o, err
	}
	var err error
	if o.TLS, err = serverTLS(o.TLS); err != nil {
		return o, err
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	if o.Expiry == 0 {
		o.Expiry = 5 * time.Minute
	}
	if o.MaxWorkers == 0 {
		o.MaxWorkers = 10_000
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 2000
	}
	if o.MaxBody == 0 {
		o.MaxBody = 2 << 20
	}
	if o.MaxBlob == 0 {
		o.MaxBlob = 1 << 30
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// checkValues returns pawl.ErrInvalid for the first option that cannot be used.
//
// The types are looked at in order of their names, so the same options always give the same error.
func (o *Options) checkValues() error {
	for _, n := range []struct {
		option string
		value  int64
		text   string
	}{
		{"Lease", int64(o.Lease), o.Lease.String()}, {"Expiry", int64(o.Expiry), o.Expiry.String()},
		{"MaxWorkers", int64(o.MaxWorkers), strconv.Itoa(o.MaxWorkers)}, {"MaxConnections", int64(o.MaxConnections), strconv.Itoa(o.MaxConnections)},
		{"MaxBody", o.MaxBody, strconv.FormatInt(o.MaxBody, 10)}, {"MaxBlob", o.MaxBlob, strconv.FormatInt(o.MaxBlob, 10)},
	} {
		if n.value < 0 {
			return optionError(n.option, "it is "+n.text+": give what is above zero, or leave it out for the default")
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(o.Types)) {
		if problem := taskqueue.Limit(o.Types[kind]).Fault(kind); problem != "" {
			return optionError(fmt.Sprintf("Types[%q]", kind), problem)
		}
	}
	return nil
}
