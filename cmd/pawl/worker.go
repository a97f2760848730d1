package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/worker"
)

var workerVerb = verb{
	name:    "worker",
	help:    "Perform tasks of pools with ready-made handlers, until it is interrupted.",
	example: []string{"pawl worker http://127.0.0.1:8080 --token-file token --host api.example.com", "pawl worker https://pool.example:8443 --ca ca.pem --certificate ann.pem --certificate-key ann.key --id ann --program convert"},
	command: func() command { return new(workerCommand) },
}

// A workerCommand is a worker of one pool or several. The same types, id, token and capacity go for each pool of URL; Capacity is for each of them,
// so two pools mean up to twice as many tasks at once.
type workerCommand struct {
	URL       []string      `arg:"" name:"url" help:"The addresses of the pools, as http://127.0.0.1:8080."`
	ID        string        `name:"id" placeholder:"ID" help:"The id of the worker: no two of a pool have the same. That of the machine and the process, with a random end, if this is not given."`
	Types     []string      `placeholder:"TYPE" help:"The types of tasks that it takes; all that it can perform, if this is not given."`
	Capacity  int           `default:"4" placeholder:"N" help:"How many tasks of a pool it performs at once; 4, if this is not given."`
	Host      []string      `placeholder:"HOST" help:"A host that tasks of type http may ask, at a public address. Without one there is no such type."`
	Program   []string      `placeholder:"PROGRAM" help:"A program that tasks of type exec may run. Without one there is no such type."`
	Grace     time.Duration `default:"20s" placeholder:"DURATION" help:"How long tasks may go on when it is interrupted; then they are given back. 20s, if this is not given."`
	TokenFile string        `placeholder:"FILE" help:"The token of the pools. Without it, PAWL_WORKER_TOKEN has it, if there is one."`

	CA             string `name:"ca" placeholder:"FILE" help:"The authority of the certificates of the pools, as PEM; those of the system, if this is not given."`
	Certificate    string `placeholder:"FILE" help:"The certificate of the worker, as PEM. It is read again when it changes."`
	CertificateKey string `placeholder:"FILE" help:"Its key."`
	PlainHTTP      bool   `name:"plain-http" help:"Send token and results to other machines in clear text."`
	jsonFlag
}

// An addressError says what is wrong with the address of a pool.
type addressError struct{ address, problem string }

// Error names the address.
func (e *addressError) Error() string {
	return fmt.Sprintf("%q is not the address of a pool: %s", e.address, e.problem)
}

// A joined worker is what the command prints when a pool has taken it.
type joined struct {
	Pool     string   `json:"pool"`
	Worker   string   `json:"worker"`
	Types    []string `json:"types"`
	Capacity int      `json:"capacity"`
}

// String returns it for people.
func (j joined) String() string {
	return fmt.Sprintf("%s works for %s: %s, %d at once. Interrupt ends it.", j.Worker, j.Pool, strings.Join(j.Types, ", "), j.Capacity)
}

// runCommand works for all pools, until it is interrupted or one refuses it. Tasks that it holds then go on, in working, for Grace.
func (c *workerCommand) runCommand(ctx context.Context, con *console) error {
	handlers, err := readyHandlers(c.Host, c.Program)
	if err != nil {
		return err
	}
	clients, err := c.makeClients(con, handlers)
	if err != nil {
		return err
	}
	taking, drain := context.WithCancel(ctx)
	defer drain()
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	context.AfterFunc(taking, func() { time.AfterFunc(c.Grace, abandon) })
	var group sync.WaitGroup
	var mu sync.Mutex // guards what is written, and failed
	var failed error
	for _, client := range clients {
		group.Go(func() {
			err := joinPool(taking, client)
			if err == nil && taking.Err() == nil {
				mu.Lock()
				con.writeLine(c.JSON, joined{client.URL, client.ID, client.Types, client.Capacity})
				mu.Unlock()
				client.Drain = taking.Done()
				err = client.Run(working, handlers)
			}
			if err != nil {
				drain() // the others finish what they hold
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, explainPool(client.URL, err))
			}
		})
	}
	group.Wait()
	return failed
}

// joinPool registers with a pool, which client.Run does again. A pool that is not up yet is asked each second until it answers, or
// ctx is done. A refusal, such as of a wrong token, is returned: no patience changes it.
func joinPool(ctx context.Context, client *worker.Client) error {
	for told := false; ; told = true {
		_, err := client.Register(ctx, client.Types...)
		if err == nil || isRefusal(err) {
			return err
		}
		if !told && ctx.Err() == nil {
			client.Logger.Warn("the pool does not answer, and is asked until it does", "pool", client.URL, "error", err)
		}
		if pauseFor(ctx, testhook.From(ctx).MaxNap(time.Second)) != nil {
			return nil
		}
	}
}

// isRefusal reports whether a pool answers, and does not take the worker. 500 and above, and 429, pass with time, as does a connection that cannot be
// made; any other answer of the pool will be the same the next time. A certificate counts as a refusal, since another answer needs another
// configuration.
func isRefusal(err error) bool {
	refused := (*worker.Error)(nil)
	return errors.Is(err, worker.ErrCertificate) || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests
}

// explainPool says which pool has refused, and that access was denied if so. The exit status is
// that of fs.ErrPermission where the pool does not let the worker in.
func explainPool(address string, err error) error {
	err = fmt.Errorf("%s: %w", address, err)
	unknown := errors.Is(err, &worker.Error{Code: remote.CodeUnauthorized})
	if unknown {
		err = fmt.Errorf("%w: --token-file names the file that has it", err)
	}
	if unknown || errors.Is(err, &worker.Error{Code: remote.CodeForbidden}) || errors.Is(err, worker.ErrCertificate) {
		return &toldError{err.Error(), errors.Join(fs.ErrPermission, err)}
	}
	return err
}

// makeClients returns a client for each pool, once all of the command line is checked: types that are given must be among the handlers.
func (c *workerCommand) makeClients(con *console, h pawl.Handlers) ([]*worker.Client, error) {
	switch {
	case c.Capacity < 1:
		return nil, fmt.Errorf("--capacity: %d is less than 1", c.Capacity)
	case c.Grace < 0:
		return nil, fmt.Errorf("--grace: %v is less than 0", c.Grace)
	}
	types := slices.Clone(c.Types)
	if types == nil {
		types = slices.Collect(maps.Keys(h))
	}
	slices.Sort(types)
	for _, name := range types {
		if h[name] == nil {
			return nil, fmt.Errorf("--types: it cannot perform tasks of type %q: there are transform, http with --host, and exec with --program", name)
		}
	}
	token, err := c.readToken()
	if err != nil {
		return nil, err
	}
	secure, err := c.secureClient()
	if err != nil {
		return nil, err
	}
	if c.ID == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("--id: give one, the machine has no name: %w", err)
		}
		c.ID = fmt.Sprintf("%s-%d-%s", name, os.Getpid(), rand.Text()[:8]) // containers of one host may share name and number
	}
	logger := slog.New(slog.NewTextHandler(con.Errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var out []*worker.Client
	for _, address := range c.URL {
		u, err := c.checkAddress(address)
		if err != nil {
			return nil, err
		}
		client := &worker.Client{URL: strings.TrimSuffix(address, "/"), ID: c.ID, Token: token, Capacity: c.Capacity, Types: types, Logger: logger}
		if u.Scheme == "https" {
			client.HTTP = secure
		}
		out = append(out, client)
	}
	return out, nil
}

// checkAddress says what is wrong with the address of a pool. Each mistake has an answer of its own. The token must not stand in the address, which
// is logged and seen in lists of processes, and must not cross a network in clear text unless the user says so.
func (c *workerCommand) checkAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, &addressError{address, "it must be such as http://127.0.0.1:8080 or https://pool.example:8443"}
	case u.User != nil:
		return nil, &addressError{u.Redacted(), "leave out the name and the password, and give --token-file"}
	case u.RawQuery != "" || u.Fragment != "":
		return nil, &addressError{address, "leave out what stands behind the path"}
	case strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1"):
		return nil, &addressError{address, "leave out /v1"}
	case u.Scheme == "http" && (c.CA != "" || c.Certificate != ""):
		return nil, &addressError{address, "certificates are for https"}
	case u.Scheme == "http" && !c.PlainHTTP && !loopback.IsLoopback(net.JoinHostPort(u.Hostname(), "80")):
		return nil, &addressError{address, "token and results would cross the network in clear text: use https, or --plain-http where nobody else is on it"}
	}
	return u, nil
}

// readToken returns the token of the pools: that of the file, else that of PAWL_WORKER_TOKEN; ""
// without either. A file with more than one line is refused: it is probably another file.
func (c *workerCommand) readToken() (string, error) {
	if c.TokenFile == "" {
		return os.Getenv("PAWL_WORKER_TOKEN"), nil
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("--token-file: %s does not hold one token, in one line", c.TokenFile)
	}
	return token, nil
}

// secureClient returns what connects with the certificates of the command line. The certificate is read again for new connections, so one that is
// renewed needs no restart of the worker; the authority is read once.
func (c *workerCommand) secureClient() (*http.Client, error) {
	if (c.Certificate == "") != (c.CertificateKey == "") {
		return nil, errors.New("--certificate and --certificate-key go together")
	}
	config := new(tls.Config)
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s has no certificate as PEM", c.CA)
		}
	}
	if c.Certificate != "" {
		if err := worker.ReadCertificate(config, c.Certificate, c.CertificateKey); err != nil {
			return nil, err
		}
	}
	return worker.NewHTTPSClient(config), nil
}
