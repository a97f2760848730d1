package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/remote"
)

// blobTime is how long one blob may take on its way.
// It is much longer than readTimeout, since 1 GiB over a slow line takes long; a worker that sends
// nothing is kept from holding its connection for ever all the same.
const blobTime = time.Hour

// putBlob is pawl.Task.Put over HTTP. The worker must hold the task.
//
// The blob goes to the pool in the body of one request, is not kept in memory at either end by this
// package, and is not sent again after a failure: the reader may have been read.
func (c *Client) putBlob(ctx context.Context, t pawl.Task, r io.Reader, mediaType string) (blob.Ref, error) {
	query := url.Values{"worker": {c.ID}, "key": {string(t.Key)}, "type": {mediaType}}
	if _, closes := r.(io.Closer); closes {
		r = io.NopCloser(r) // the reader is the handler's
	}
	response, err := c.sendRequest(ctx, http.MethodPost, "blobs?"+query.Encode(), r)
	if err != nil {
		return blob.Ref{}, err
	}
	defer response.Body.Close()
	var ref blob.Ref
	if err := json.NewDecoder(io.LimitReader(response.Body, remote.MaxRef)).Decode(&ref); err != nil {
		return blob.Ref{}, fmt.Errorf("blobs: the answer is not JSON: %w", err)
	}
	return ref, nil
}

// openBlob is pawl.Task.Open over HTTP: a blob that is missing or damaged is the *blob.Error that it is
// in the engine's process.
//
// A damaged blob is mostly found at its end. The pool cannot say so in an answer that has begun, and so
// the content is compared with its hash here as well. A connection that breaks fails the reading.
func (c *Client) openBlob(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	query := url.Values{"hash": {ref.Hash}, checkedQuery: {"true"}}
	response, err := c.sendRequest(ctx, http.MethodGet, "blobs?"+query.Encode(), nil)
	if err != nil {
		return nil, explainBlob(ref.Hash, err)
	}
	return keeping.CheckContent(ref.Hash, response.Body), nil
}

// checkedQuery is the parameter of a worker that compares the content with the hash: the pool need not
// break its connection where the blob is damaged.
const checkedQuery = "checked"

// explainBlob returns a refusal to open a blob as an error about the blob, if it is one.
func explainBlob(hash string, err error) error {
	var refused *Error
	if !errors.As(err, &refused) || refused.foreign {
		return err
	}
	switch refused.Code {
	case remote.CodeNotFound:
		return &blob.Error{Hash: hash, Err: blobRefusal{blob.ErrMissing, refused}}
	case remote.CodeDamaged:
		return &blob.Error{Hash: hash, Err: blobRefusal{blob.ErrDamaged, refused}}
	}
	return err
}

// A blobRefusal is an error of package blob that a pool has answered with.
type blobRefusal struct {
	error
	refused *Error
}

// Unwrap returns the error and the answer.
func (b blobRefusal) Unwrap() []error { return []error{b.error, b.refused} }

// sendRequest sends one request and returns the answer if it is not a refusal.
//
// All calls of a Client go through it. An answer with a status other than 200 is read and closed here
// and becomes the *Error that the pool has sent; what is no answer of a pool, such as the page of a
// proxy, becomes an *Error with its status. The caller closes the body of the response that it gets.
func (c *Client) sendRequest(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	name, _, _ := strings.Cut(path, "?")
	pool, err := url.Parse(c.URL)
	if err != nil || pool.Host == "" || pool.Scheme != "http" && pool.Scheme != "https" {
		return nil, invalidRequestf("Client.URL is %q: it must be the address of the pool, such as http://127.0.0.1:8080", c.URL)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/v1/"+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case body != nil && name == "blobs":
		r.Header.Set("Content-Type", "application/octet-stream") // the query has the type that the handler gave
	case body != nil:
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.instance != "" {
		r.Header.Set(instanceHeader, c.instance)
	}
	response, err := cmp.Or(c.HTTP, http.DefaultClient).Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, explainTLS(err))
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	var refused errorReply
	if json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&refused) != nil || refused.Error == nil {
		e := poolErrorf(response.StatusCode, remote.CodeInvalid, "%s: the answer is %s, not one of a pool", name, response.Status)
		e.foreign = true
		return nil, e
	}
	return nil, refused.Error
}

// serveBlobs takes a blob from the holder of a task (POST), or gives one (GET), or says
// whether it is there (HEAD). The path has no JSON body, and so no postHandler around it.
func (p *Pool) serveBlobs(w http.ResponseWriter, r *http.Request) {
	var err error
	switch r.Method {
	case http.MethodPost:
		err = p.receiveBlob(w, r)
	case http.MethodGet, http.MethodHead:
		err = p.sendBlob(w, r)
	default:
		err = wrongMethod(w, "GET, HEAD, POST", r)
	}
	if err != nil {
		writeError(w, err)
	}
}

// receiveBlob stores a blob in the name of a task. Only who holds the task may put
// one: it is that task, as the
// engine dispatched it, which stores the blob.
func (p *Pool) receiveBlob(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	t, err := p.taskHeldBy(r.Context(), q.Get("worker"), pawl.Key(q.Get("key")))
	if err != nil {
		return err
	}
	crowd.SetReadTimeout(w, blobTime)
	body := http.MaxBytesReader(w, r.Body, p.options.MaxBlob)
	ref, err := t.Put(r.Context(), body, q.Get("type"))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return poolErrorf(http.StatusRequestEntityTooLarge, remote.CodeTooLarge, "the blob has more than %d bytes (Options.MaxBlob): store it elsewhere and send a resultRef", large.Limit)
	case errors.Is(err, pawl.ErrInvalid): // a media type that no reference can have, which stays so
		return invalidRequestf("%v", err)
	case err != nil:
		return poolErrorf(http.StatusServiceUnavailable, remote.CodeBusy, "the blob could not be stored, try again: %v", err)
	}
	writeReply(w, http.StatusOK, ref)
	return nil
}

// taskHeldBy returns a task that a remote worker holds, by the key that it got.
//
// It is asked by paths that need the task itself, blobs and Once, and not only its key. Like a
// heartbeat it renews the lease, and makes a worker the holder of a key that nobody holds. Three
// answers are told apart: another holds it (ErrNotHolder), the attempt is over (errStale), and the
// engine, opened again a moment ago, has not dispatched the task yet, which passes: busy.
func (p *Pool) taskHeldBy(ctx context.Context, id string, tagged pawl.Key) (pawl.Task, error) {
	if err := p.checkSender(ctx, id); err != nil {
		return pawl.Task{}, err
	}
	tags, err := p.awaitTags(ctx)
	if err != nil {
		return pawl.Task{}, err
	}
	k, err := tags.untagKey(id, tagged)
	if err != nil {
		return pawl.Task{}, err
	}
	p.mu.Lock()
	err = p.mayHoldKey(id)
	at, task, engine := keyUnknown, pawl.Task{}, p.engine
	if err == nil {
		at = p.queue.holdKey(id, k, time.Now())
		p.deliverTasks()
	}
	if i := p.queue.items[k]; at == keyHeld && i.known {
		task = i.task
	}
	p.mu.Unlock()
	over := at == keyCompleted
	switch {
	case err != nil:
		return pawl.Task{}, err
	case at == keyHeldByOther, at == keyCompletedByOther:
		return pawl.Task{}, p.refuseKey(ctx, k)
	case at == keyUnknown && engine != nil:
		over, _ = p.heartbeatEngine(ctx, engine, heartbeat{worker: id, key: k}, at) // no details are refused
	}
	switch {
	case over:
		return pawl.Task{}, errStale
	case task.Key == "": // in this life of the engine
		return pawl.Task{}, poolErrorf(http.StatusServiceUnavailable, remote.CodeBusy, "the engine has not dispatched this task again yet: try again")
	}
	return task, nil
}

// sendBlob sends the content of a blob. Any worker that the pool serves may read any blob whose hash
// it knows; a hash cannot be guessed. The status is sent before the content is read to its end, so a
// failure behind it can only be shown by breaking the connection, unless the content is damaged and the
// worker compares it with the hash.
func (p *Pool) sendBlob(w http.ResponseWriter, r *http.Request) error {
	crowd.SetReadTimeout(w, 0)
	q := r.URL.Query()
	ref, err := blob.ParseRef(map[string]any{"$blob": q.Get("hash"), "size": int64(0)})
	if err != nil {
		return invalidRequestf("hash: %v", err)
	}
	engine, err := p.awaitEngine(r.Context())
	if err != nil {
		return err
	}
	content, err := engine.OpenBlob(r.Context(), ref)
	switch {
	case errors.Is(err, blob.ErrMissing):
		return poolErrorf(http.StatusNotFound, remote.CodeNotFound, "%v: send the $blob of a reference as it came", err)
	case errors.Is(err, blob.ErrDamaged):
		return poolErrorf(http.StatusInternalServerError, remote.CodeDamaged, "%v", err)
	case err != nil:
		return poolErrorf(http.StatusServiceUnavailable, remote.CodeBusy, "the blob could not be opened, try again: %v", err)
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return nil // nothing is read that would not be sent
	}
	_, err = io.Copy(crowd.TimedWriter{ResponseWriter: w, Within: writeTimeout}, content)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		p.options.Logger.Warn("worker: a blob was not sent whole", "blob", ref.Hash, "error", err)
		if !errors.Is(err, blob.ErrDamaged) || q.Get(checkedQuery) != "true" {
			panic(http.ErrAbortHandler) // breaks the connection, so that the reader fails as well
		}
	}
	crowd.SetWriteTimeout(w, 0)
	return nil
}
