package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/keeping"
)

const (
	blobTime    = time.Hour // for the body of a blob, and for a part of an answer on the socket
	defaultBlob = 1 << 30   // bytes that Options.MaxBlob allows by default

	typeBytes = "application/octet-stream"
)

// putBlob stores the body as a blob and answers with the reference. The body goes to the store as it comes, so blobs are
// bounded one by one, and not together as other bodies are. Its media type stands in the query: many programs name one in the
// header that nobody has chosen.
func (c *call) putBlob() error {
	if err := c.checkCoding(); err != nil {
		return err
	}
	controller := http.NewResponseController(c.w)
	_ = controller.SetReadDeadline(time.Now().Add(blobTime)) // a host's server may not have it
	most := cmp.Or(c.options.MaxBlob, defaultBlob)
	if c.local {
		most = math.MaxInt64 // a program of the same user could write the file itself
	}
	body := &bodyReader{from: http.MaxBytesReader(c.w, c.r.Body, most)}
	ref, err := c.engine.PutBlob(c.context(), body, c.query().textOf("type"))
	_ = controller.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(body.sourceError(), &large):
		return refusef(http.StatusRequestEntityTooLarge, codeTooLarge, "the blob has more than %d bytes (Options.MaxBlob of package api)", large.Limit)
	case body.sourceError() != nil:
		return invalidf("the blob could not be read: %v", body.sourceError())
	case err != nil:
		return err
	}
	return c.replyStatus(http.StatusCreated, ref)
}

// A bodyReader is the source of a body. It keeps an error of the source, which whoever takes the body would take for its own.
type bodyReader struct {
	from   io.Reader
	shut   atomic.Bool // no further read begins
	failed atomic.Pointer[error]
}

// sourceError returns the error of the source; nil without.
func (r *bodyReader) sourceError() error {
	if failed := r.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// Read implements io.Reader.
func (r *bodyReader) Read(to []byte) (int, error) {
	if r.shut.Load() {
		return 0, io.ErrClosedPipe
	}
	n, err := r.from.Read(to)
	if err != nil && err != io.EOF {
		r.failed.Store(&err)
	}
	return n, err
}

// sendBlob answers with the content of a blob. A caller who may see values may read any blob whose hash it knows, since a hash cannot be
// guessed. With a hook that redacts it is refused, as an export is. A browser saves the content and never shows it: the content is whatever a
// handler has stored.
func (c *call) sendBlob() error {
	if c.options.Redact != nil {
		return refusef(http.StatusForbidden, codeForbidden, "blobs are not sent where values are redacted")
	}
	ref, err := blob.ParseRef(blob.Ref{Hash: c.r.PathValue("hash")})
	if err != nil {
		return invalidf("the hash: %v", err)
	}
	content, err := c.engine.OpenBlob(c.context(), ref)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it was only read
	tag := `"` + ref.Hash + `"`
	setHeaders(c.w, typeBytes)
	c.w.Header().Set("ETag", tag)
	if c.hasTag(tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.w.Header().Set("Content-Disposition", "attachment")
	if c.r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(crowd.TimedWriter{ResponseWriter: c.w, Within: c.partTime()}, content); err != nil {
		panic(http.ErrAbortHandler) // so that the caller does not take it for the whole
	}
	return nil
}

// PutBlob stores what r gives and returns a reference to it, as Engine.PutBlob does. It is not sent again after an error, which is that of r
// if r has failed; a blob that is stored twice is kept once.
func (c *Client) PutBlob(ctx context.Context, r io.Reader, mediaType string) (ref blob.Ref, err error) {
	if r == nil {
		return ref, invalidf("there is nothing to read")
	}
	body := &bodyReader{from: r}
	defer body.shut.Store(true) // the transport may read on behind an answer that refuses
	err = c.ask(ctx, &question{method: http.MethodPost, path: "/v1/blobs", query: textQuery("type", mediaType), content: io.NopCloser(body)}, &ref)
	if err != nil {
		return ref, cmp.Or(body.sourceError(), err)
	}
	return ref, nil
}

// OpenBlob opens a blob for reading, as Engine.OpenBlob does. Close it. Its content is checked on the way: reading fails before the end of a
// blob that is damaged, or where the connection breaks.
func (c *Client) OpenBlob(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	if _, err := blob.ParseRef(ref); err != nil {
		return nil, invalidf("%v", err)
	}
	a, err := c.send(ctx, &question{method: http.MethodGet, path: "/v1/blobs/" + url.PathEscape(ref.Hash), accept: typeBytes})
	if err != nil {
		return nil, err
	}
	return keeping.CheckContent(ref.Hash, a.Body), nil
}
