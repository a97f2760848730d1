package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/workflow"
)

// A Start is a run to be started: of a published definition, or of one that it brings.
type Start struct {
	Workflow   string            `json:"workflow,omitzero"`   // the name of a published definition; or
	Definition json.RawMessage   `json:"definition,omitzero"` // another one, which takes the right Define
	Version    int               `json:"version,omitzero"`    // with Workflow; 0 is the latest, or the one that the run has already
	Input      json.RawMessage   `json:"input,omitzero"`      // an object
	Tenant     string            `json:"tenant,omitzero"`     // on whose behalf
	Labels     map[string]string `json:"labels,omitzero"`     // what it is about, to find it by
	By         string            `json:"by,omitzero"`         // who starts it
	Reason     string            `json:"reason,omitzero"`
}

// startRun starts a run: 201, or 200 if it was started so before. PUT may be repeated: the engine
// takes the same id, definition and input again as the same run. The right Act is enough for a
// published definition; a definition that comes with the request takes Define, which is checked
// when the body is known.
func (c *call) startRun() error {
	q := c.query()
	wait, dry := min(q.duration("wait"), maxWait), q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	text, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	var s Start
	if err := decodeObject(text, &s); err != nil {
		return err
	}
	run := workflow.Run{ID: c.runID(), Workflow: s.Workflow, Version: s.Version, Tenant: s.Tenant, Labels: s.Labels}
	if s.Definition != nil {
		if err := c.requireRights(Define); err != nil {
			return err
		}
		if s.Version != 0 {
			return invalidf("version chooses among published definitions: a definition has its own")
		}
		if run.Definition, err = workflow.ParseJSON(s.Definition); err != nil {
			return err
		}
	}
	// A caller who hangs up does not stop a start that is under way, as with acts.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), commitTime)
	defer cancel()
	if err := c.signName(&s.By); err != nil {
		return err
	}
	if ctx = pawl.Because(ctx, s.Reason); s.By != "" {
		ctx = pawl.As(ctx, s.By)
	}
	if dry {
		return c.replyToTrial(run.ID, func() (*pawl.Simulation, error) { return c.engine.SimulateStart(ctx, run, valueOf(s.Input)) })
	}
	status := http.StatusOK
	// This look only chooses between 200 and 201. Two callers who start one run at once may both
	// get 201; Start decides, and the run is one.
	if _, err := c.engine.Summary(ctx, run.ID); errors.Is(err, pawl.ErrRunNotFound) {
		status = http.StatusCreated
	}
	if err := c.engine.Start(ctx, run, valueOf(s.Input)); err != nil {
		return unknownIfLate(err)
	}
	if err := c.awaitEnd(run.ID, wait); err != nil {
		return err
	}
	summary, err := c.engine.Summary(c.context(), run.ID)
	if err != nil {
		return err
	}
	return c.replyTagged(status, c.viewerOf(run.ID).showSummary(&summary))
}

// A Published says what a definition was found to be, which is published now.
type Published struct {
	Name     string   `json:"name"`
	Version  int      `json:"version"`
	Warnings []string `json:"warnings"` // it can run all the same

	DryRun bool `json:"dryRun,omitzero"` // nothing was changed
	Known  bool `json:"known,omitzero"`  // of a dry run: the same is published already
}

// publishDefinition publishes the definition in the body under the name and version in the path.
// Where the query says dryRun it says whether it could. Name and version in the path and in the
// body must agree: the path is what proxies and logs see. A definition without a version is version
// 1.
func (c *call) publishDefinition() error {
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	text, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	d, err := workflow.ParseJSON(text)
	if err != nil {
		return err
	}
	version := max(d.Version, 1)
	if name, of := c.r.PathValue("name"), c.r.PathValue("version"); d.Name != name || of != strconv.Itoa(version) {
		return invalidf("the definition is %q version %d, and the path names %q version %q", d.Name, version, name, of)
	}
	out := Published{Name: d.Name, Version: version, Warnings: []string{}, DryRun: dry}
	var warnings []workflow.Problem
	if dry {
		out.Known, warnings, err = c.engine.DryRunPublish(c.r.Context(), d)
	} else {
		warnings, err = c.engine.Publish(c.r.Context(), d)
	}
	if err != nil {
		return err
	}
	for _, w := range warnings {
		out.Warnings = append(out.Warnings, w.String())
	}
	return c.reply(out)
}

// The bounds of the body of a request, in bytes, by what is expected in it: small is a name and a reason, a value is one of the limits of
// a run, such as an output or a payload, and all else is a definition with its input, or many acts.
const (
	smallBody = 64 << 10
	valueBody = 2 << 20
	maxBody   = 16 << 20
)

// readBody reads a body within its bounds of size and time. A body that is dribbled in would hold a
// place of the crowd for as long as its sender likes, hence the deadline. The bytes of all bodies have a bound together, and are held until
// the request is answered.
func (c *call) readBody(most int64) ([]byte, error) {
	controller := http.NewResponseController(c.w)
	_ = controller.SetReadDeadline(time.Now().Add(readTime)) // a host's server may not have it
	c.load = c.bounds.Bodies.Load(c.who)
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.load.Reader(c.r.Body), most))
	_ = controller.SetReadDeadline(time.Time{}) // the end of the connection is read as well
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refusef(http.StatusRequestEntityTooLarge, codeTooLarge, "the body has more than %d bytes", large.Limit)
	case errors.As(err, new(*crowd.BusyError)):
		return nil, err
	case err != nil:
		return nil, invalidf("the body could not be read: %v", err)
	}
	return body, nil
}
