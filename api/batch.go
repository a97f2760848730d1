package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// batchActs are what may be done to many runs with one request. A patch is for the revision that each of them has.
var batchActs = []string{"cancel", "pause", "resume", "signal", "patch"}

// A Batch says what one request has done to runs that fit a filter and have not ended, or would do.
type Batch struct {
	Applied bool         `json:"applied"`         // false: nothing was changed
	Runs    int          `json:"runs"`            // those that it was done to, or would be
	Changed int          `json:"changed"`         // runs that took it
	Left    int          `json:"left"`            // runs that had ended meanwhile, or were purged
	Refused []RunRefusal `json:"refused"`         // runs that did not take it
	Cursor  string       `json:"cursor,omitzero"` // with which the same request goes on; "" when all runs are done
}

// A RunRefusal says why a run did not take what was done to many.
type RunRefusal struct {
	Run   workflow.RunID `json:"run"`
	Error *Error         `json:"error"`
}

// doBatch does an act to the runs that fit a filter, one after the other, the oldest first: to at most as many as the
// limit says, or for so long. Where the query says dryRun it counts them all.
func (c *call) doBatch() error {
	q := c.query()
	f, limit, dry, all := q.runFilter(), q.limit(), q.flag("dryRun"), q.flag("all")
	if q.err != nil {
		return q.err
	}
	if slices.ContainsFunc(f.Status, workflow.RunStatus.Final) {
		return invalidf("runs that have ended cannot be changed: status must be running, paused or suspended")
	}
	a, err := c.readBatchAct()
	if err != nil {
		return err
	}
	if !dry && !all && !c.choosesRuns() {
		return invalidf("this would be done to every run that has not ended: choose, such as by workflow, or say all=1; dryRun=1 counts them")
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), batchTime)
	defer cancel()
	act := func(r *pawl.RunSummary) (bool, error) { return true, c.actOnOne(r.Run, *a) }
	if f.Limit = limit; dry {
		f.Limit, act = 0, func(*pawl.RunSummary) (bool, error) { return false, nil }
	}
	report, err := c.engine.ActOnAll(ctx, f, act)
	runs := report.Changed + report.Left + report.Refused
	late := err != nil && ctx.Err() != nil && !errors.Is(err, pawl.ErrUnknown)
	switch {
	case errors.Is(err, pawl.ErrRunNotFound):
		return invalidf("the cursor is of a run that was purged: begin anew")
	case late && dry:
		return refusef(http.StatusServiceUnavailable, codeTimeout, "there are more than %d runs: choose fewer", runs)
	case late && runs == 0:
		return refusef(http.StatusServiceUnavailable, codeTimeout, "no run was found in %v: choose by what an index has, such as workflow and status", batchTime)
	case err != nil && !late && dry:
		return err
	case err != nil && !late:
		e := *errorOf(err)
		e.batch = batchOf(&report, false)
		return &e
	}
	return c.reply(batchOf(&report, dry))
}

// choosesRuns reports whether the query has a parameter of a filter.
func (c *call) choosesRuns() bool {
	for name := range c.r.URL.Query() {
		if !slices.Contains([]string{"limit", "cursor", "dryRun", "all"}, name) {
			return true
		}
	}
	return false
}

// batchOf returns what a report says, or, if nothing was to be changed, how many runs there are.
func batchOf(r *pawl.ManyReport, dry bool) *Batch {
	out := &Batch{Applied: !dry, Runs: r.Changed + r.Left + r.Refused, Changed: r.Changed, Refused: []RunRefusal{}}
	if dry {
		return out
	}
	out.Left, out.Cursor = r.Left, string(r.Cursor)
	for _, one := range r.Errors {
		out.Refused = append(out.Refused, RunRefusal{one.Run, errorOf(one.Err)})
	}
	return out
}

// batchTime is how long one request goes on with the next run.
const batchTime = 20 * time.Second

// readBatchAct reads what is to be done, and in whose name.
func (c *call) readBatchAct() (*Operation, error) {
	text, err := c.readBody()
	if err != nil {
		return nil, err
	}
	a, err := decodeAct(text, "")
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(batchActs, a.Do):
		return nil, invalidf("%s is not done to many runs: %s are", a.Do, strings.Join(batchActs, ", "))
	case a.Base != 0:
		return nil, invalidf("a patch of many runs has no base: it is for the revision that each of them has")
	case actKinds[a.Do].ofDefine:
		if err := c.requireRights(Define); err != nil {
			return nil, err
		}
	}
	return a, c.signAct(&a.By, a.Reason)
}

// actOnOne does the act to one run.
func (c *call) actOnOne(run workflow.RunID, a Operation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), commitTime)
	defer cancel()
	if a.Do == "patch" {
		_, revision, err := c.engine.Definition(ctx, run)
		if err != nil {
			return err
		}
		a.Base = revision
	}
	p := &performer{engine: c.engine, run: run}
	return unknownIfLate(p.performAct(ctx, &a))
}

// DoAll does something to the runs that fit a filter and have not ended, the oldest first, to at most as many as its
// Limit says, and adds up what the requests have come to. The Cursor is "" unless an error or the limit has stopped it: with
// an error, what was done until then is returned too, and DoAll goes on with it from the Cursor as RunFilter.After, "" being the beginning.
// o.Do is cancel, pause, resume, signal or patch.
func (c *Client) DoAll(ctx context.Context, f pawl.RunFilter, o Operation) (Batch, error) {
	sum := Batch{Applied: true, Refused: []RunRefusal{}}
	for {
		step := f
		step.Limit = min(max(0, f.Limit-sum.Runs), maxLimit)
		next, err := c.askBatch(ctx, step, o, false)
		if e := (*Error)(nil); errors.As(err, &e) && e.batch != nil {
			next = *e.batch
		} else if err != nil {
			sum.Cursor = string(step.After)
			return sum, err
		}
		sum.Runs, sum.Changed, sum.Left = sum.Runs+next.Runs, sum.Changed+next.Changed, sum.Left+next.Left
		sum.Refused, sum.Cursor = append(sum.Refused, next.Refused...), next.Cursor
		if err != nil {
			return sum, err
		}
		if next.Cursor == "" || f.Limit > 0 && sum.Runs >= f.Limit {
			return sum, nil
		}
		f.After = workflow.RunID(next.Cursor)
	}
}

// CountAll says to how many runs DoAll would do something. Nothing is changed.
func (c *Client) CountAll(ctx context.Context, f pawl.RunFilter, o Operation) (Batch, error) {
	out, err := c.askBatch(ctx, f, o, true)
	if f.Limit > 0 {
		out.Runs = min(out.Runs, f.Limit)
	}
	return out, err
}

func (c *Client) askBatch(ctx context.Context, f pawl.RunFilter, o Operation, dry bool) (out Batch, err error) {
	q := &question{method: http.MethodPost, path: "/v1/batch", query: queryOf(f), body: o, acts: !dry}
	q.query.Set("all", "1") // a filter of a Go program is no parameter that was forgotten
	if dry {
		q.query.Set("dryRun", "1")
	} else if f.Limit > 0 {
		q.query.Set("limit", strconv.Itoa(f.Limit))
	}
	err = c.ask(ctx, q, &out)
	return out, err
}
