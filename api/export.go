package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// exportRun answers with a run and all below it as one text. With a hook that redacts it is
// refused. An export is the journal itself, with values in every record: a hook cannot be asked
// about each of them, and the text could not be planned again.
func (c *call) exportRun() error {
	if c.options.Redact != nil {
		return refusef(http.StatusForbidden, codeForbidden, "runs are not exported where values are redacted")
	}
	w := &exportWriter{call: c}
	q := c.query()
	o := pawl.ExportOptions{Blobs: q.flag("blobs")}
	if q.err != nil {
		return q.err
	}
	err := c.engine.Export(c.context(), c.runID(), w, o)
	if err != nil && w.begun {
		panic(http.ErrAbortHandler) // so that the caller does not take it for the whole
	}
	return err
}

// An exportWriter begins an answer with the first bytes of it. Until the first byte an error can
// still be an answer with a status of its own.
type exportWriter struct {
	*call
	begun bool
}

// Write implements io.Writer.
func (w *exportWriter) Write(text []byte) (int, error) {
	setWriteTimeout(w.w)
	if !w.begun {
		w.begun = true
		setHeaders(w.w, typeLines)
		w.w.WriteHeader(http.StatusOK)
	}
	return w.w.Write(text)
}

// Export writes a run with all runs below it as one text, as Engine.Export does. After an error what was written is
// not an export.
func (c *Client) Export(ctx context.Context, id workflow.RunID, w io.Writer, o pawl.ExportOptions) error {
	q := aboutRun(id, "/export")
	if o.Blobs {
		q.query.Set("blobs", "1")
	}
	q.method, q.accept = http.MethodGet, typeLines
	a, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }() // it was read
	if _, err := io.Copy(w, a.Body); err != nil {
		return fmt.Errorf("export run %q: %w", string(id), err)
	}
	return nil
}
