package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/crowd"
)

const (
	blobTime    = time.Hour // for the body of a blob
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
	body := &uploadReader{from: http.MaxBytesReader(c.w, c.r.Body, cmp.Or(c.options.MaxBlob, defaultBlob))}
	ref, err := c.engine.PutBlob(c.context(), body, c.query().textOf("type"))
	_ = controller.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(body.err, &large):
		return refusef(http.StatusRequestEntityTooLarge, codeTooLarge, "the blob has more than %d bytes (Options.MaxBlob of package api)", large.Limit)
	case body.err != nil:
		return invalidf("the blob could not be read: %v", body.err)
	case err != nil:
		return err
	}
	return c.replyStatus(http.StatusCreated, ref)
}

// An uploadReader keeps the error of a body, which the store would take for its own.
type uploadReader struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (r *uploadReader) Read(to []byte) (int, error) {
	n, err := r.from.Read(to)
	if err != nil && err != io.EOF {
		r.err = err
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
	c.w.Header().Set("ETag", tag)
	if c.hasTag(tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	setHeaders(c.w, typeBytes)
	c.w.Header().Set("Content-Disposition", "attachment")
	if c.r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(crowd.TimedWriter{ResponseWriter: c.w, Within: writeTime}, content); err != nil {
		panic(http.ErrAbortHandler) // so that the caller does not take it for the whole
	}
	return nil
}

// PutBlob stores what r gives and returns a reference to it, as Engine.PutBlob does. It is not sent again after an error; a blob that is
// stored twice is kept once.
func (c *Client) PutBlob(ctx context.Context, r io.Reader, mediaType string) (ref blob.Ref, err error) {
	q := &question{method: http.MethodPost, path: "/v1/blobs", query: textQuery("type", mediaType), content: io.NopCloser(r)}
	err = c.ask(ctx, q, &ref)
	return ref, err
}

// OpenBlob opens a blob for reading, as Engine.OpenBlob does. Close it. Where the engine finds the blob damaged, or the connection breaks,
// reading fails before the end.
func (c *Client) OpenBlob(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	if _, err := blob.ParseRef(ref); err != nil {
		return nil, invalidf("%v", err)
	}
	a, err := c.send(ctx, &question{method: http.MethodGet, path: "/v1/blobs/" + url.PathEscape(ref.Hash), accept: typeBytes})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}
