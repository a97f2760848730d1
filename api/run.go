package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/workflow"
)

// maxWait bounds how long a request waits for a run to end. The Client asks again as long as the
// run goes on, so Client.Wait has no bound of its own.
const maxWait = 5 * time.Minute

// A runPage is a page of runs.
type runPage struct {
	Runs   []any  `json:"runs"`
	Cursor string `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listRuns answers the runs that fit a filter: a page, or all of them a line each. A cursor is the id of the last run of a page. That run
// can be purged before the next page is asked for; then nobody knows where the list was, and the caller lists anew.
func (c *call) listRuns() error {
	q := c.query()
	f := q.runFilter()
	switch q.textOf("order") {
	case "", "oldest":
	case "newest":
		f.Newest = true
	default:
		q.refuse("order", "oldest or newest")
	}
	f.Sort = q.textOf("sort")
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	show := func(s *pawl.RunSummary) any { return c.viewerOf(s.Run).showSummary(s) }
	if c.acceptsType(typeLines, typeJSON) {
		return refuseCursor(c.replyLines(mapList(c.engine.Runs(c.context(), f), show)))
	}
	f.Limit, f.Effort = limit+1, c.effort
	page, more, err := readPage(c.engine.Runs(c.context(), f), limit)
	stopped := (*pawl.EffortError)(nil)
	if err != nil && !errors.As(err, &stopped) {
		return refuseCursor(err)
	}
	out := runPage{Runs: make([]any, len(page))}
	for i := range page {
		out.Runs[i] = show(&page[i])
	}
	switch {
	case more:
		out.Cursor = string(page[limit-1].Run)
	case stopped != nil:
		out.Cursor = string(stopped.Run)
	}
	return c.reply(out)
}

// showRun answers how a run stands, when it has ended or the time to wait for that is over. A wait that is over is no error: the answer
// is the run as it stands, and the caller sees by its status whether it has ended.
func (c *call) showRun() error {
	q := c.query()
	wait := min(q.duration("wait"), maxWait)
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	if err := c.awaitEnd(id, wait); err != nil {
		return err
	}
	s, err := c.readSummary(id)
	if err != nil {
		return err
	}
	return c.replyTagged(http.StatusOK, c.viewerOf(id).showSummary(&s))
}

// awaitEnd waits for a run to end, for so long, and then asks once more who the caller is. The engine tells the end of a run only after it
// is committed, so a summary that is read next shows it.
func (c *call) awaitEnd(id workflow.RunID, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.context(), wait)
	defer cancel()
	_, err := c.engine.Wait(ctx, id)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return c.checkAgain()
	}
	return err
}

// context returns the context of a request that may take long. It ends when the socket is closed. A
// handler of a host has no closing: there the context of the request is all, and the host ends its
// own streams. The cause tells a stream that the engine closes, in place of a caller who is gone.
func (c *call) context() context.Context {
	if c.closing == nil {
		return c.r.Context()
	}
	ctx, cancel := context.WithCancelCause(c.r.Context())
	go func() { // until the request has ended
		select {
		case <-c.closing:
			cancel(pawl.ErrClosed)
		case <-ctx.Done():
		}
	}()
	return ctx
}

// showOverview answers a run in numbers: tokens counted at each node, and not one by one.
func (c *call) showOverview() error {
	id := c.runID()
	o, err := c.readOverview(id)
	if err != nil {
		return err
	}
	o.Outcome = c.viewerOf(id).showOutcome(o.Outcome)
	return c.replyTagged(http.StatusOK, o)
}

// A tokenPage is a page of the tokens of a run.
type tokenPage struct {
	Tokens []any            `json:"tokens"`
	After  workflow.TokenID `json:"after,omitzero"` // of the next page; 0 if this is the last
}

// listTokens answers tokens that fit a filter: a page, or all of them a line each. Tokens come by
// their number, and new ones have higher numbers: pages by After repeat none while the run goes on.
func (c *call) listTokens() error {
	q := c.query()
	f := pawl.TokenFilter{
		Node: workflow.NodeID(q.textOf("node")), Status: q.tokenStatuses(), Group: workflow.GroupID(q.number("group")), After: workflow.TokenID(q.number("after")),
	}
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	show := c.viewerOf(id).showToken
	tokens, err := c.readTokens(id, f)
	if err != nil {
		return err
	}
	if c.acceptsType(typeLines, typeJSON) {
		return c.replyLines(mapList(tokens, show))
	}
	page, more, err := readPage(tokens, limit)
	if err != nil {
		return err
	}
	out := tokenPage{Tokens: make([]any, len(page))}
	for i := range page {
		out.Tokens[i] = show(&page[i])
	}
	if more {
		out.After = page[limit-1].ID
	}
	return c.reply(out)
}

// Data are the values of a run.
type Data struct {
	Seq         int64          `json:"record"` // sequence of the last record
	Input       map[string]any `json:"input,omitzero"`
	State       map[string]any `json:"state,omitzero"`
	Output      map[string]any `json:"output,omitzero"`      // of a run that has completed
	OutputSoFar map[string]any `json:"outputSoFar,omitzero"` // what a run that has not ended has written to its output
}

// showData answers the values of a run. It reads the whole of the run, which is why it is among wholeRunPaths.
func (c *call) showData() error {
	id := c.runID()
	s, err := c.readSnapshot(id)
	if err != nil {
		return err
	}
	v := c.viewerOf(id)
	return c.replyTagged(http.StatusOK, Data{
		Seq: s.Seq, Input: v.showObject("input", s.Input), State: v.showObject("state", s.State),
		Output: v.showObject("output", s.Output), OutputSoFar: v.showObject("output", s.OutputSoFar),
	})
}

// A RunDefinition is the definition that a run has now, or had at a revision.
type RunDefinition struct {
	Revision   int                  `json:"revision"` // 1, and one more for every patch
	Definition *workflow.Definition `json:"definition"`
}

// showDefinition answers the definition that the run has, or had, with its revision: a patch
// changes that of one run, and not what is published.
func (c *call) showDefinition() error {
	d, revision, err := c.readDefinition(c.runID())
	if err != nil {
		return err
	}
	return c.reply(RunDefinition{revision, d})
}

// An eventPage is a page of the events of a run.
type eventPage struct {
	Events []any `json:"events"`
	After  int64 `json:"after"` // sequence of the last one: what comes next has a higher one
	More   bool  `json:"more"`  // whether there are more now
}

// A recordPage is a page of the journal of a run.
type recordPage struct {
	Records []any `json:"records"`
	After   int64 `json:"after"` // sequence of the last one
	More    bool  `json:"more"`
}

// listEvents answers events behind a sequence: a page, or a stream until the run has ended.
func (c *call) listEvents() error {
	return listEntries(c, c.engine.Events, entryKind[history.Event]{
		show:   c.viewerOf(c.runID()).showEvent,
		seqOf:  func(e *history.Event) (seq, record int64) { return e.Seq, e.Record },
		pageOf: func(events []any, after int64, more bool) any { return eventPage{events, after, more} },
	})
}

// listJournal answers records behind a sequence: a page, or a stream until the run has ended.
func (c *call) listJournal() error {
	return listEntries(c, c.engine.Journal, entryKind[pawl.Record]{
		show:   c.viewerOf(c.runID()).showRecord,
		seqOf:  func(r *pawl.Record) (seq, record int64) { return r.Seq, r.Seq },
		pageOf: func(records []any, after int64, more bool) any { return recordPage{records, after, more} },
	})
}

// An entryKind says how one kind of entries that a run has in sequence is answered. Events and records differ in little else than their
// types and in that an event has a sequence of its own and another of its record; one record makes several events, or none.
type entryKind[E any] struct {
	show   func(*E) any
	seqOf  func(*E) (seq, record int64) // its own sequence, and that of the record that made it
	pageOf func(entries []any, after int64, more bool) any
}

// listEntries answers the entries of a run behind a sequence: a stream until the run has ended, or
// what stands there now, a line each or as a page. The query parameter at names a record in both
// cases, while after and the cursor are in the sequence of the entries themselves.
func listEntries[E any](c *call, read func(context.Context, workflow.RunID, pawl.EventsOptions) iter.Seq2[E, error], kind entryKind[E]) error {
	id := c.runID()
	after, limit, err := c.readPosition()
	if err != nil {
		return err
	}
	last, err := c.lastRecord(id)
	if err != nil {
		return err
	}
	// The id of a frame is what a browser sends back as Last-Event-ID when the stream has broken, and readPosition begins behind it.
	if c.acceptsType(typeStream, typeLines, typeJSON) {
		return c.stream(id, func(ctx context.Context) iter.Seq2[frame, error] {
			return framesOf(read(ctx, id, pawl.EventsOptions{After: after, Follow: true}), func(e *E) frame {
				seq, _ := kind.seqOf(e)
				return frame{seq, kind.show(e)}
			})
		})
	}
	entries := firstEntries(read(c.context(), id, pawl.EventsOptions{After: after}), func(e *E) bool {
		_, record := kind.seqOf(e)
		return record <= last
	})
	if c.acceptsType(typeLines, typeJSON) {
		return c.replyLines(mapList(entries, kind.show))
	}
	page, more, err := readPage(entries, limit)
	if err != nil {
		return err
	}
	out := make([]any, len(page))
	for i := range page {
		out[i] = kind.show(&page[i])
		after, _ = kind.seqOf(&page[i])
	}
	return c.reply(kind.pageOf(out, after, more))
}

// readPosition returns behind which sequence a page or a stream begins, and how long a page is. The header wins over the query: an
// EventSource opens the same URL again, with the after that it had at first.
func (c *call) readPosition() (after int64, limit int, err error) {
	q := c.query()
	after, limit = q.number("after"), q.limit()
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		if after, err = parseSequence(last); err != nil {
			return 0, 0, err
		}
	}
	return after, limit, q.err
}

// A Start is a run to be started: of a published definition, or of one that it brings.
type Start struct {
	Workflow   string            `json:"workflow,omitzero"`   // the name of a published definition; or
	Definition json.RawMessage   `json:"definition,omitzero"` // a definition in place of it, which takes the right Define
	Version    int               `json:"version,omitzero"`    // with Workflow; 0 is the latest, or the one that the run has already
	Input      json.RawMessage   `json:"input,omitzero"`      // an object
	Tenant     string            `json:"tenant,omitzero"`     // the customer or team for which it runs
	Labels     map[string]string `json:"labels,omitzero"`     // to find the run by
	By         string            `json:"by,omitzero"`         // who starts it
	Reason     string            `json:"reason,omitzero"`

	MetaLimits map[string]float64 `json:"metaLimits,omitzero"` // bounds on the sums that its results report, by name
}

// startRun starts a run: 201, or 200 if it was started so before. PUT may be repeated: the engine takes the same id, definition and input
// again as the same run. The right Act is enough for a published definition; a definition that comes with the request takes Define, which
// is checked when the body is known. Once the run is started no error of the wait says otherwise.
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
	run := workflow.Run{ID: c.runID(), Workflow: s.Workflow, Version: s.Version, Tenant: s.Tenant, Labels: s.Labels, MetaLimits: s.MetaLimits}
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
		return c.replyToSimulation(run.ID, func() (*pawl.Simulation, error) {
			sim, err := c.engine.Simulate(ctx, pawl.OfStart{Run: run, Input: valueOf(s.Input)})
			return sim, ofOwnInput(err)
		})
	}
	status := http.StatusOK
	// This look only chooses between 200 and 201. Two callers who start one run at once may both
	// get 201; Start decides, and the run is one.
	if _, err := c.engine.Summary(ctx, run.ID); errors.Is(err, pawl.ErrRunNotFound) {
		status = http.StatusCreated
	}
	if err := c.engine.Start(ctx, run, valueOf(s.Input)); err != nil {
		return unknownIfLate(ofOwnInput(err))
	}
	if err := c.awaitEnd(run.ID, wait); err != nil && c.checkAgain() != nil {
		c.rights = 0 // the run is started all the same, and its values are not for this caller
	}
	summary, err := c.engine.Summary(context.WithoutCancel(ctx), run.ID)
	if err != nil {
		return unknownWhenDone(err)
	}
	return c.replyTagged(status, c.viewerOf(run.ID).showSummary(&summary))
}

// A PublishReport is about a definition that was published or, after a dry run, could be.
type PublishReport struct {
	Name     string   `json:"name"`
	Version  int      `json:"version"`
	Warnings []string `json:"warnings"` // a run can start all the same

	DryRun bool `json:"dryRun,omitzero"` // nothing was changed
	Known  bool `json:"known,omitzero"`  // for a dry run: the same definition is published already
}

// publishDefinition publishes the definition in the body under the name and version in the path. Where the query says dryRun it
// says whether it could. Name and version in the path and in the body must agree: the path is what proxies and logs see. A
// definition without a version is version 1.
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
	d, err := c.parseDefinition(text)
	if err != nil {
		return err
	}
	version := max(d.Version, 1)
	if name, of := c.r.PathValue("name"), c.r.PathValue("version"); d.Name != name || of != strconv.Itoa(version) {
		return invalidf("the definition is %q version %d, and the path names %q version %q", d.Name, version, name, of)
	}
	out := PublishReport{Name: d.Name, Version: version, Warnings: []string{}, DryRun: dry}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), commitTime)
	defer cancel()
	var warnings []workflow.Problem
	if dry {
		out.Known, warnings, err = c.engine.DryRunPublish(ctx, d)
	} else {
		warnings, err = c.engine.Publish(ctx, d)
		err = unknownIfLate(err)
	}
	if err != nil {
		return err
	}
	for _, w := range warnings {
		out.Warnings = append(out.Warnings, w.String())
	}
	return c.reply(out)
}

// yamlTypes are the media types of YAML: that of RFC 9512, and what programs sent before it.
var yamlTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}

// parseDefinition reads the definition that is a body: as YAML if the Content-Type says that, else as JSON.
func (c *call) parseDefinition(text []byte) (*workflow.Definition, error) {
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")) // "" of one that cannot be read
	if slices.Contains(yamlTypes, kind) {
		return workflow.ParseYAML(text)
	}
	return workflow.ParseJSON(text)
}

// The bounds of the body of a request, in bytes, by what is expected in it: small is a name and a reason, a value is one of the limits of
// a run, such as an output or a payload, and all else is a definition with its input, or many acts.
const (
	smallBody = 64 << 10
	valueBody = 2 << 20
	maxBody   = 16 << 20
)

// checkCoding refuses a body that is packed.
func (c *call) checkCoding() error {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return refusef(http.StatusUnsupportedMediaType, codeInvalid, "the body is encoded as %q: send it as it is, without Content-Encoding", coding)
	}
	return nil
}

// readBody reads a body within its bounds of size and time. A body that is dribbled in would hold a place of the crowd for as long as its
// sender likes, hence the deadline. The bytes of all bodies have a bound together, and are held until the request is answered.
func (c *call) readBody(most int64) ([]byte, error) {
	if err := c.checkCoding(); err != nil {
		return nil, err
	}
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

// A branchPage is a page of the branches of a run.
type branchPage struct {
	Branches []any  `json:"branches"`
	Cursor   string `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listBranches answers branches by group and index. A cursor is that of the last one: GROUP:INDEX.
// The engine lists all branches; the branches up to the cursor are left out here.
func (c *call) listBranches() error {
	q := c.query()
	f := pawl.BranchFilter{Group: workflow.GroupID(q.number("group")), Status: q.textOf("status")}
	var last struct {
		group workflow.GroupID
		index int
	}
	last.index = -1
	if text := q.textOf("cursor"); text != "" {
		// A cursor that does not read back as itself, as "1:2x", is refused: Sscanf would stop before the x.
		if _, err := fmt.Sscanf(text, "%d:%d", &last.group, &last.index); err != nil || cursorOf(last.group, last.index) != text {
			q.refuse("cursor", "one that a page has")
		}
	}
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	show := c.viewerOf(id).showBranch
	branches, err := c.readBranches(id, f)
	if err != nil {
		return err
	}
	branches = keepEntries(branches, func(b *pawl.BranchView) bool {
		return b.Group > last.group || b.Group == last.group && b.Index > last.index
	})
	if c.acceptsType(typeLines, typeJSON) {
		return c.replyLines(mapList(branches, show))
	}
	page, more, err := readPage(branches, limit)
	if err != nil {
		return err
	}
	out := branchPage{Branches: make([]any, len(page))}
	for i := range page {
		out.Branches[i] = show(&page[i])
	}
	if more {
		out.Cursor = cursorOf(page[limit-1].Group, page[limit-1].Index)
	}
	return c.reply(out)
}

func cursorOf(group workflow.GroupID, index int) string { return fmt.Sprintf("%d:%d", group, index) }

// A signalPage is a page of the signals that a run keeps.
type signalPage struct {
	Signals []any `json:"signals"`
	After   int64 `json:"after,omitzero"` // of the next page; 0 if this is the last
}

// listSignals answers the signals that the run keeps until a token takes them, by their sequence.
// A signal that is taken between two pages is not on the later ones.
func (c *call) listSignals() error {
	after, limit, err := c.readPosition()
	if err != nil {
		return err
	}
	id := c.runID()
	show := c.viewerOf(id).showSignal
	kept, err := c.readSignals(id)
	if err != nil {
		return err
	}
	signals := keepEntries(kept, func(s *pawl.KeptSignal) bool { return s.Seq > after })
	if c.acceptsType(typeLines, typeJSON) {
		return c.replyLines(mapList(signals, show))
	}
	page, more, err := readPage(signals, limit)
	if err != nil {
		return err
	}
	out := signalPage{Signals: make([]any, len(page))}
	for i := range page {
		out.Signals[i] = show(&page[i])
	}
	if more {
		out.After = page[limit-1].Seq
	}
	return c.reply(out)
}
