package api

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// An Import is a new run to be made of a recorded one.
type Import struct {
	From     string            `json:"from"`              // an absolute path on the machine of the engine: what replay.Find takes
	To       workflow.RunID    `json:"to"`                // the id of the new run
	At       int64             `json:"at,omitzero"`       // the record; 0 is the last one after which the run had not ended
	InFlight workflow.InFlight `json:"inFlight,omitzero"` // what becomes of tasks that were out: "" sends them again, park leaves them to an operator
	By       string            `json:"by,omitzero"`       // who imports the run
	Reason   string            `json:"reason"`
}

// importTime bounds how long a recording is read, and planned again.
const importTime = 10 * time.Minute

// importRun makes a run of a recorded one: 201, or 200 if it was made so before. It takes the right
// Files, since From is a path on the machine of the engine. A file that cannot be read there is a
// mistake of the request (400), while a run that the file does not have is 404.
func (c *call) importRun() error {
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	text, err := c.readBody(smallBody)
	if err != nil {
		return err
	}
	var m Import
	if err := decodeObject(text, &m); err != nil {
		return err
	}
	if !filepath.IsAbs(m.From) {
		return invalidf("from is %q: it must be an absolute path", m.From)
	}
	if err := c.signAct(&m.By, m.Reason); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), m.By), m.Reason), importTime)
	defer cancel()
	// The recording is open until the answer is written, as it is read again while the run is made.
	rec, err := c.engine.OpenRecording(m.From)
	switch {
	case err == nil:
	case errors.Is(err, pawl.ErrRunNotFound):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return invalidf("the recording cannot be read where the engine is: %v", err)
	default:
		return invalidf("the recording cannot be read: %v", err)
	}
	defer rec.Close()
	o := pawl.ForkOptions{At: m.At, InFlight: m.InFlight}
	if dry {
		return c.replyToTrial(m.To, func() (*pawl.Simulation, error) {
			sim, err := c.engine.SimulateImport(ctx, rec, m.To, o)
			return sim, importRefusal(err)
		})
	}
	status := http.StatusOK
	if _, err := c.engine.Summary(ctx, m.To); errors.Is(err, pawl.ErrRunNotFound) {
		status = http.StatusCreated
	}
	if err := c.engine.Import(ctx, rec, m.To, o); err != nil {
		return unknownIfLate(importRefusal(err))
	}
	s, err := c.engine.Summary(ctx, m.To)
	if err != nil {
		return err
	}
	return c.replyStatus(status, c.viewerOf(m.To).showSummary(&s))
}

// importRefusal says what is wrong with a recording that was read.
func importRefusal(err error) error {
	if errors.Is(err, replay.ErrRedacted) {
		return invalidf("%v", err)
	}
	return err
}

// Import makes a run of a recorded one that the engine can read, as Engine.Import does.
func (c *Client) Import(ctx context.Context, m Import) (pawl.RunSummary, error) {
	var s pawl.RunSummary
	err := c.ask(ctx, &question{method: http.MethodPost, path: "/v1/import", body: m, acts: true}, &s)
	return s, err
}

// DryRunImport says what Import would make. Nothing is changed.
func (c *Client) DryRunImport(ctx context.Context, m Import) (out Tried, err error) {
	q := &question{method: http.MethodPost, path: "/v1/import", body: m, query: url.Values{"dryRun": {"1"}}}
	err = c.ask(ctx, q, &out)
	return out, err
}
