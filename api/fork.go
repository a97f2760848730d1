package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A Fork is a new run to be made of another one, as that was after one of its records.
type Fork struct {
	To       workflow.RunID    `json:"to"`                // the id of the new run
	At       int64             `json:"at,omitzero"`       // the record; 0 is the last one after which the run had not ended
	Node     workflow.NodeID   `json:"node,omitzero"`     // in place of At: the node that is to be performed again; or
	Token    workflow.TokenID  `json:"token,omitzero"`    // one of its tokens
	InFlight workflow.InFlight `json:"inFlight,omitzero"` // for unfinished tasks: "" sends them again, park leaves them to an operator
	Results  []ForkResult      `json:"results,omitzero"`  // the results of some of them
	Again    bool              `json:"again,omitzero"`    // with Node or Token: work that has completed and cannot be kept is done again
	By       string            `json:"by,omitzero"`       // who forks the run
	Reason   string            `json:"reason"`
}

// A ForkReport is a fork that was made, and the nodes whose tasks it sent again: see pawl.Engine.SentAgain.
type ForkReport struct {
	pawl.RunSummary
	SentAgain []workflow.NodeID `json:"sentAgain,omitzero"`
}

// A ForkResult is the result of an unfinished task in a fork, which does not send the task again.
type ForkResult struct {
	Token  workflow.TokenID `json:"token,omitzero"` // the token of the task, or
	Node   workflow.NodeID  `json:"node,omitzero"`  // the node, if one task is unfinished there
	Output json.RawMessage  `json:"output,omitzero"`
}

// forkRun makes a fork: 201, or 200 if it was made so before. Node or Token make it a rerun, which performs that node again; else At
// chooses the record. As with a start, the same fork may be asked for again.
func (c *call) forkRun() error {
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	text, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	var f Fork
	if err := decodeObject(text, &f); err != nil {
		return err
	}
	if f.Node != "" && f.Token != 0 {
		return invalidf("a run is performed again from a node or from a token, not both")
	}
	if err := c.signAct(&f.By, f.Reason); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), f.By), f.Reason), commitTime)
	defer cancel()
	o := pawl.ForkOptions{At: f.At, InFlight: f.InFlight, Again: f.Again}
	for _, r := range f.Results {
		o.Results = append(o.Results, workflow.ForkResult{Token: r.Token, Node: r.Node, Output: valueOf(r.Output)})
	}
	from := pawl.Target{Run: c.runID(), Node: f.Node, Token: f.Token}
	again := f.Node != "" || f.Token != 0
	if dry {
		return c.replyToSimulation(f.To, func() (*pawl.Simulation, error) {
			return c.engine.Simulate(ctx, pawl.OfFork{From: from, To: f.To, Options: o})
		})
	}
	status := http.StatusOK
	if _, err := c.engine.Summary(ctx, f.To); errors.Is(err, pawl.ErrRunNotFound) {
		status = http.StatusCreated
	}
	if again {
		err = c.engine.Rerun(ctx, from, f.To, o)
	} else {
		err = c.engine.Fork(ctx, from.Run, f.To, o)
	}
	if err != nil {
		return unknownIfLate(err)
	}
	s, err := c.engine.Summary(ctx, f.To)
	var sent []workflow.NodeID
	if err == nil {
		sent, err = c.engine.SentAgain(ctx, f.To)
	}
	if err != nil {
		return unknownWhenDone(err)
	}
	s.Outcome = c.viewerOf(f.To).showOutcome(s.Outcome)
	return c.replyStatus(status, ForkReport{RunSummary: s, SentAgain: sent})
}

// An Import is a new run to be made of a recorded one.
type Import struct {
	From     string            `json:"from"`              // an absolute path on the machine of the engine: what replay.Find takes
	To       workflow.RunID    `json:"to"`                // the id of the new run
	At       int64             `json:"at,omitzero"`       // the record; 0 is the last one after which the run had not ended
	InFlight workflow.InFlight `json:"inFlight,omitzero"` // for unfinished tasks: "" sends them again, park leaves them to an operator
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
		return c.replyToSimulation(m.To, func() (*pawl.Simulation, error) {
			sim, err := c.engine.Simulate(ctx, pawl.OfFork{Import: rec, To: m.To, Options: o})
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
		return unknownWhenDone(err)
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

// DryRunImport returns the run that Import would make. Nothing is changed.
func (c *Client) DryRunImport(ctx context.Context, m Import) (out DryRunReport, err error) {
	q := &question{method: http.MethodPost, path: "/v1/import", body: m, query: url.Values{"dryRun": {"1"}}}
	err = c.ask(ctx, q, &out)
	return out, err
}

// exportRun answers with a run and all below it as one text. With a hook that redacts it is refused. An export is the journal itself,
// with values in every record: a hook cannot be asked about each of them, and the text could not be planned again. An error behind the first line is
// the last line of an answer that breaks off.
func (c *call) exportRun() error {
	if c.options.Redact != nil {
		return refusef(http.StatusForbidden, codeForbidden, "runs are not exported where values are redacted")
	}
	w := &exportWriter{call: c}
	q := c.query()
	o := pawl.ExportOptions{Blobs: q.flag("blobs"), AllBlobs: q.flag("allBlobs")}
	if q.err != nil {
		return q.err
	}
	err := c.engine.Export(c.context(), c.runID(), w, o)
	if err != nil && w.begun {
		text, _ := encodeJSON(errorReply{Error: c.viewerOf(c.runID()).showRefusal(err)}) // texts and numbers
		c.writePart(text)
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
	crowd.SetWriteTimeout(w.w, w.partTime())
	if !w.begun {
		w.begun = true
		setHeaders(w.w, typeLines)
		w.w.WriteHeader(http.StatusOK)
	}
	return w.w.Write(text)
}

// Export writes a run with all runs below it to w as one text, as Engine.Export does. After an error the text is
// incomplete, and readers refuse it.
func (c *Client) Export(ctx context.Context, id workflow.RunID, w io.Writer, o pawl.ExportOptions) error {
	q := aboutRun(id, "/export")
	for name, wanted := range map[string]bool{"blobs": o.Blobs, "allBlobs": o.AllBlobs} {
		if wanted {
			q.query.Set(name, "1")
		}
	}
	q.method, q.accept = http.MethodGet, typeLines
	a, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()       // it was read
	from := bufio.NewReaderSize(a.Body, 64<<10) // no limit for a line
	for begins := true; ; {
		part, err := from.ReadSlice('\n')
		if begins && bytes.HasPrefix(part, []byte(`{"error":`)) {
			var e errorReply
			if err := json.NewDecoder(io.MultiReader(bytes.NewReader(part), from)).Decode(&e); err == nil && e.Error != nil {
				return e.Error
			}
		}
		if _, failed := w.Write(part); failed != nil {
			return fmt.Errorf("export run %q: %w", string(id), failed)
		}
		switch begins = err == nil; {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("export run %q: %w", string(id), err)
		}
	}
}
