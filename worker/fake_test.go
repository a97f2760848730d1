package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	harness.VerifyTestMain(m)
}

// A fake is an engine as a pool sees it: it takes one result per key.
type fake struct {
	mu      sync.Mutex
	pool    *Pool
	order   int64
	open    map[pawl.Key]context.CancelFunc
	results map[pawl.Key]any // an output, or an error
	beats   map[pawl.Key]int
	err     error        // of every call
	refuses func() error // answers the next result in the place of take; nil without
}

// newPool returns a pool with a fake engine. It is closed at the end.
func newPool(t *testing.T, o Options) (*Pool, *fake) {
	t.Helper()
	o.NoToken = o.Token == "" && o.Identify == nil
	p := mustNew(o)
	f := newFake(p)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p, f
}

func newFake(p *Pool) *fake {
	f := &fake{pool: p, open: map[pawl.Key]context.CancelFunc{}, results: map[pawl.Key]any{}, beats: map[pawl.Key]int{}}
	p.attachEngine(f)
	return f
}

// dispatch sends tasks named by their keys.
func (f *fake) dispatch(kind string, keys ...pawl.Key) {
	for _, k := range keys {
		f.send(pawl.Task{Key: k, Type: kind})
	}
}

func (f *fake) send(task pawl.Task) {
	f.mu.Lock()
	f.order++
	task.Order, task.Run, task.Node = f.order, "run", "node"
	ctx, cancel := context.WithCancel(context.Background())
	f.open[task.Key] = cancel
	f.mu.Unlock()
	_, _ = f.pool.Execute(ctx, task)
}

// know opens an attempt that is not dispatched yet in this life.
func (f *fake) know(k pawl.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[k] = func() {}
}

// end ends an attempt from elsewhere: it timed out, or its run was cancelled.
func (f *fake) end(k pawl.Key) {
	f.mu.Lock()
	cancel := f.open[k]
	delete(f.open, k)
	f.mu.Unlock()
	cancel()
}

func (f *fake) take(k pawl.Key, result any) error {
	f.mu.Lock()
	if refuse := f.refuses; refuse != nil {
		f.refuses = nil
		f.mu.Unlock()
		return refuse()
	}
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if _, again := f.results[k]; again {
		return nil
	}
	cancel := f.open[k]
	if cancel == nil {
		return pawl.ErrStale
	}
	delete(f.open, k)
	f.results[k] = result
	cancel()
	return nil
}

func (f *fake) Complete(_ context.Context, k pawl.Key, output any) error {
	if r, ok := output.(pawl.Result); ok && r.Metadata == nil && r.Artifacts == nil {
		output = r.Output
	}
	return f.take(k, output)
}

func (f *fake) Fail(_ context.Context, k pawl.Key, cause error) error { return f.take(k, cause) }

func (f *fake) Heartbeat(_ context.Context, k pawl.Key, _ any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats[k]++
	if f.err == nil && f.open[k] == nil {
		return pawl.ErrStale
	}
	return f.err
}

func (f *fake) OpenBlob(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	switch ref.Hash {
	case damaged:
		return io.NopCloser(io.MultiReader(strings.NewReader("other"), iotest.ErrReader(&blob.Error{Hash: damaged, Err: blob.ErrDamaged}))), nil
	case broken:
		return io.NopCloser(io.MultiReader(strings.NewReader("other"), iotest.ErrReader(&blob.Error{Hash: broken, Err: io.ErrNoProgress}))), nil
	case folder:
		return nil, &blob.Error{Hash: folder, Err: blob.ErrDamaged, Detail: "no regular file"}
	}
	if ref.Hash == large {
		return io.NopCloser(io.LimitReader(wanted{ctx}, 64<<20)), nil
	}
	return nil, blob.ErrMissing
}

func (f *fake) DeriveSecret(purpose string) ([]byte, error) { return []byte(purpose), nil }

// wanted reads zeros while somebody listens.
type wanted struct{ ctx context.Context }

func (r wanted) Read(p []byte) (int, error) { return len(p), r.ctx.Err() }

// large is a blob of 64 MiB.
const large = "sha256:1123456789012345678901234567890123456789012345678901234567890123"

// damaged is a blob whose content is that of another, folder one that cannot be opened, and broken one that cannot be read.
const (
	damaged = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	folder  = "sha256:2123456789012345678901234567890123456789012345678901234567890123"
	broken  = "sha256:3123456789012345678901234567890123456789012345678901234567890123"
)

func (f *fake) result(k pawl.Key) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.results[k]
}

// direct is a transport that calls a pool, without a network. Its worker says the keys of
// the engine: they get their tags on the way, and lose them on the way back.
type direct struct{ pool *Pool }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := make(chan *http.Response, 1)
	in := r.Clone(r.Context())
	in.RemoteAddr = "127.0.0.1:1"
	if in.Body != nil && in.URL.Path != "/v1/blobs" {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return nil, err
		}
		text := d.pool.tagText(string(body))
		in.Body, in.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	in.URL.RawQuery = d.pool.tagQuery(in.URL.Query())
	go func() {
		w := httptest.NewRecorder()
		d.pool.Handler().ServeHTTP(w, in)
		if text := untagText(w.Body.String()); in.URL.Path != "/v1/blobs" {
			w.Body = bytes.NewBufferString(text)
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		}
		answer <- w.Result()
	}()
	select {
	case a := <-answer:
		return a, nil
	case <-r.Context().Done():
		<-answer
		return nil, r.Context().Err()
	}
}

var (
	workerIn = regexp.MustCompile(`"worker": ?"([^"]*)"`)
	keysIn   = regexp.MustCompile(`"(?:key|keys|holding|drop|details)": ?(?:"[^"]*"|\[(?:"[^"]*",? ?)+\]|\{"[^"]*":)`)
	keyIn    = regexp.MustCompile(`([\[{,:] ?)"([^"]*)"`)
)

// tagText returns a message whose keys have the tags of its worker.
func (p *Pool) tagText(message string) string {
	worker := workerIn.FindStringSubmatch(message)
	if worker == nil {
		return message
	}
	return eachKey(message, func(k string) string { return string(p.tags.tagKey(worker[1], pawl.Key(k))) })
}

// untagText returns an answer whose keys have no tags.
func untagText(answer string) string {
	return eachKey(answer, func(k string) string { return k[:max(strings.LastIndexByte(k, '.'), 0)] })
}

func eachKey(message string, change func(string) string) string {
	return keysIn.ReplaceAllStringFunc(message, func(field string) string {
		return keyIn.ReplaceAllStringFunc(field, func(at string) string {
			part := keyIn.FindStringSubmatch(at)
			return part[1] + `"` + change(part[2]) + `"`
		})
	})
}

func (p *Pool) tagQuery(q url.Values) string {
	if q.Has("key") {
		q.Set("key", string(p.tags.tagKey(q.Get("worker"), pawl.Key(q.Get("key")))))
	}
	return q.Encode()
}

func client(p *Pool, id string, capacity int) *Client {
	return &Client{URL: "http://127.0.0.1:1", ID: id, Capacity: capacity, HTTP: &http.Client{Transport: direct{p}}}
}

// joined returns a client that has registered.
func joined(t *testing.T, p *Pool, id string, capacity int, types ...string) *Client {
	t.Helper()
	c := client(p, id, capacity)
	lease, err := c.Register(t.Context(), types...)
	require.NoError(t, err)
	require.Equal(t, p.options.Lease, lease)
	return c
}

// poll returns the keys that a poll without waiting gets.
func poll1(t *testing.T, c *Client, holding ...pawl.Key) []pawl.Key {
	t.Helper()
	polled, err := c.Poll(t.Context(), 0, holding...)
	require.NoError(t, err)
	keys := []pawl.Key{}
	for _, task := range polled.Tasks {
		keys = append(keys, task.Key)
	}
	return keys
}

func done(t *testing.T, c *Client, k pawl.Key, output any) {
	t.Helper()
	require.NoError(t, c.Complete(t.Context(), pawl.Task{Key: k}, output, nil))
}

func keysOf(n int) []pawl.Key {
	keys := make([]pawl.Key, n)
	for i := range keys {
		keys[i] = pawl.Key(fmt.Sprintf("k%d", i+1))
	}
	return keys
}

// ask sends a raw request.
func ask(p *Pool, method, path, body string, header ...string) (int, *Error) {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
	if body != "" {
		r = httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(p.tagText(body)))
	}
	r.URL.RawQuery = p.tagQuery(r.URL.Query())
	r.RemoteAddr = "127.0.0.1:1"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		if header[i] == "From" {
			r.RemoteAddr = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	var e errorReply
	if json.Unmarshal(w.Body.Bytes(), &e) != nil {
		return w.Code, &Error{Code: "not JSON", Message: w.Body.String()}
	}
	return w.Code, e.Error
}

// mustNew is New with options that are good.
func mustNew(o Options) *Pool {
	p, err := New(o)
	if err != nil {
		panic(err)
	}
	return p
}
