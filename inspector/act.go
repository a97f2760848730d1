package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// errAct says that what a form asks for cannot be understood.
var errAct = errors.New("the form is not complete")

// An act is one kind of change that a page can ask for.
//
// options names the fields of the form that the act has besides who and why; "" is none. perform does it for one target, with the name and
// the reason in its context. The same perform is called on a copy of the run to show what would come of it, so it must do all by the engine
// and ctx alone.
type act struct {
	name    string // in addresses
	title   string // what the reader is about to do
	past    string // what was done
	danger  bool
	define  bool   // it takes the right Define as well
	ofAll   string // what it can be done to all of: runs, letters or approvals, as the parameter all has it; "" is none
	options string // what else is asked: input, output, signal, fork, patch
	perform func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error
}

// acts are all that a page can ask for.
// actOf finds them by name. The order is that of the links to what is done to all runs of a list.
var acts = []act{
	{name: "retry", ofAll: allOfLetters, title: "Retry", past: "retried", options: "input", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Retry(ctx, t, pawl.RetryOptions{Input: f.input})
	}},
	{name: "skip", ofAll: allOfLetters, title: "Skip", past: "skipped", options: "output", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Skip(ctx, t, f.value)
	}},
	{name: "approve", ofAll: allOfApprovals, title: "Approve", past: "approved", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Vote(ctx, t, workflow.Ballot{Approved: true, By: f.By, Comment: f.Reason})
	}},
	{name: "reject", ofAll: allOfApprovals, title: "Reject", past: "rejected", danger: true, perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Vote(ctx, t, workflow.Ballot{By: f.By, Comment: f.Reason})
	}},
	{name: "cancel", ofAll: allOfRuns, title: "Cancel", past: "cancelled", danger: true, perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return cancelRun(ctx, e, t.Run, f)
	}},
	{name: "pause", ofAll: allOfRuns, title: "Pause", past: "paused", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, _ *actForm) error {
		return e.Pause(ctx, t.Run)
	}},
	{name: "resume", ofAll: allOfRuns, title: "Resume", past: "resumed", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, _ *actForm) error {
		return e.Resume(ctx, t.Run)
	}},
	{name: "signal", ofAll: allOfRuns, title: "Send a signal to", past: "signalled", options: "signal", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Signal(ctx, t.Run, workflow.Signal{Name: f.Name, ID: f.Sender, Payload: f.value})
	}},
	{name: "fork", title: "Fork", past: "this is the new run", options: "fork", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Fork(ctx, t.Run, workflow.RunID(f.Name), pawl.ForkOptions{At: f.At, InFlight: workflow.InFlight(f.Input)})
	}},
	{name: "patch", title: "Patch", past: "patched", options: "patch", define: true, perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		ops, _ := f.value.([]any) // as checkForm wants it
		_, err := e.Patch(ctx, t.Run, pawl.Patch{Base: int(f.At), Ops: ops})
		return err
	}},
}

// cancelRun cancels a run. For the engine it is no error that the run has ended: whoever asks here is told so, unless it was cancelled.
//
// A run may end between the page that asks and the form that comes back: to say that it is done would be a lie.
func cancelRun(ctx context.Context, e *pawl.Engine, id workflow.RunID, f *actForm) error {
	if err := e.Cancel(ctx, id, f.Reason); err != nil {
		return err
	}
	now, err := f.copied.Summary(), error(nil)
	if f.copied == nil {
		now, err = e.Summary(ctx, id)
	}
	if err == nil && now.Status.Final() && now.Status != workflow.RunCancelled {
		err = fmt.Errorf("%w: it is %v, and nothing is changed", pawl.ErrEnded, now.Status)
	}
	return err
}

// actOf returns the act of a name, as an address or a form has it; nil if there is none.
func actOf(name string) *act {
	for i := range acts {
		if acts[i].name == name {
			return &acts[i]
		}
	}
	return nil
}

// An actForm is what a reader has filled in.
//
// readForm makes it, from the query of a link or from a form that was sent, and checkForm sets value from Text. Either Targets or All says
// what it is about. By is the name of the caller if the inspector knows it, whatever the form says: nobody acts in the name of another.
// input is Input as the engine has it.
type actForm struct {
	act     *act
	copied  *pawl.Simulation // on which it is tried; nil if it is done
	Targets []pawl.Target
	All     *allTargets // instead of targets
	By      string
	Reason  string
	Name    string // of a signal, or id of a new run
	At      int64  // record that is forked after, 0 is the last one; revision that is patched
	Sender  string // id of a signal
	Text    string // JSON of an output or a payload
	Input   string
	Inbox   bool // it leads back there
	value   any
	input   workflow.RetryInput
}

// maxTargets bounds what one form is about.
const maxTargets = 200

// readForm reads a form. Its errors are errAct.
//
// An act or a target that does not exist is errNoPage, since a page of this inspector never links to one; what a reader may mend is
// errAct, and comes back with the form. Rights are checked here for what an act needs beyond Act, which serveAct has checked.
func (p *page) readForm(values url.Values) (*actForm, error) {
	f := &actForm{
		act: actOf(values.Get("do")), By: p.who, Reason: strings.TrimSpace(values.Get("reason")),
		Name: strings.TrimSpace(values.Get("name")), Sender: strings.TrimSpace(values.Get("id")), Text: strings.TrimSpace(values.Get("value")), Input: values.Get("input"),
	}
	switch {
	case f.act == nil:
		return nil, errNoPage
	case f.act.define && p.rights&api.Define == 0:
		return nil, errForbidden
	}
	// The inspector does not know its callers: then the reader says who acts.
	if p.who == "" {
		f.By = strings.TrimSpace(values.Get("by"))
	}
	if text := values.Get("at"); text != "" {
		var err error
		if f.At, err = strconv.ParseInt(text, 10, 64); err != nil || f.At < 0 {
			return nil, fmt.Errorf("%w: at is %q: it must be the number of a record or, of a patch, of a revision", errAct, text)
		}
	}
	f.input, f.Inbox = workflow.RetryInput(f.Input), values.Get("return") == "inbox"
	// A form about all of a filter names no targets. Not all acts can be done so, and each to one kind only: nobody forks all runs.
	if all := values.Get("all"); all != "" {
		if f.act.ofAll != all {
			return nil, errNoPage
		}
		var err error
		f.All, err = readAll(all, values)
		return f, err
	}
	// Each target is a check box of a list, or the parameter of a link.
	for _, text := range values["target"] {
		t, ok := targetOf(text)
		if !ok {
			return nil, errNoPage
		}
		f.Targets = append(f.Targets, t)
	}
	switch {
	case len(f.Targets) == 0:
		return nil, fmt.Errorf("%w: choose what to %s", errAct, strings.ToLower(f.act.title))
	case len(f.Targets) > maxTargets:
		return nil, fmt.Errorf("%w: at most %d at once", errAct, maxTargets)
	}
	return f, nil
}

// checkForm says what is missing for the act itself. It reads the value.
//
// It is called before an act is done, and before a patch is tried. Numbers stay as they are written: a float would round large ones. The
// decoder alone would take what stands behind the first value, so the text must be valid as a whole.
func (f *actForm) checkForm() error {
	if f.Text != "" {
		d := json.NewDecoder(strings.NewReader(f.Text))
		d.UseNumber()
		if !json.Valid([]byte(f.Text)) || d.Decode(&f.value) != nil {
			return fmt.Errorf("%w: the value is not JSON: texts stand in quotation marks", errAct)
		}
	}
	switch {
	case f.act.options == "signal" && f.Name == "":
		return fmt.Errorf("%w: a signal has a name", errAct)
	// A patch is of the revision of one run, and an empty one would change nothing.
	case f.act.options == "patch":
		if ops, _ := f.value.([]any); len(ops) == 0 || len(f.Targets) > 1 {
			return fmt.Errorf("%w: a patch of one run is a list of operations", errAct)
		}
	case f.act.options == "fork" && (f.Name == "" || len(f.Targets) > 1):
		return fmt.Errorf("%w: the new run has an id of its own", errAct)
	}
	return nil
}

// serveAct asks whether to do something, and does it.
//
// A GET shows what would come of it, and a POST of the same fields does it. servePage has refused requests from other origins before.
func (s *server) serveAct(p *page) error {
	if p.rights&api.Act == 0 {
		return errForbidden
	}
	switch p.r.Method {
	case http.MethodGet, http.MethodHead:
		f, err := p.readForm(p.r.URL.Query())
		if err != nil {
			return err
		}
		if f.All != nil {
			return s.askAll(p, f, nil)
		}
		return s.askAct(p, f, nil)
	case http.MethodPost:
		// A form of two megabytes has room for a large patch, and no more.
		load := s.bounds.Bodies.Load(p.who)
		defer load.Leave()
		p.r.Body = http.MaxBytesReader(p.w, load.Reader(p.r.Body), maxForm)
		if err := p.r.ParseForm(); err != nil {
			return fmt.Errorf("%w: %w", errAct, err)
		}
		// Only the body counts: a link of somebody else cannot fill in a form with its query.
		f, err := p.readForm(p.r.PostForm)
		if err != nil {
			return err
		}
		return s.performAct(p, f)
	}
	p.w.Header().Set("Allow", "GET, HEAD, POST")
	return errMethod
}

// maxForm bounds a form, in bytes.
const maxForm = 2 << 20

// formTime bounds how long one form may take, whether or not the browser still waits for the answer.
const formTime = 2 * time.Minute

// performAct does what a form asks for, to one target after the other, and tells what came of it.
// It goes on though the browser has gone: nobody could say how far it came.
//
// A form that is not complete is shown again, with what is wrong. One that is done everywhere leads back to what it was about, so that to
// load that page again does nothing again; if a target has refused it, a page tells which, with status 409.
func (s *server) performAct(p *page, f *actForm) error {
	err := f.checkForm()
	switch {
	case err != nil:
	case f.By == "":
		err = fmt.Errorf("%w: say who you are", errAct)
	case f.Reason == "":
		err = fmt.Errorf("%w: say why", errAct)
	}
	switch {
	case err != nil && f.All != nil:
		return s.askAll(p, f, err)
	case err != nil:
		return s.askAct(p, f, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), formTime)
	defer cancel()
	// The engine writes who and why into the records.
	ctx = pawl.Because(pawl.As(ctx, f.By), f.Reason)
	if f.All != nil {
		return s.performAll(ctx, p, f)
	}
	done := 0
	var refused []effect
	for _, t := range f.Targets {
		// One refusal does not keep the others from being done: targets are independent.
		e := effect{Run: t.Run, Token: t.Token, Href: p.targetLink(t)}
		if ctx.Err() != nil {
			e.Refused = fmt.Sprintf("not tried: the %v that one form may take were over", formTime)
		} else if err := f.act.perform(ctx, s.engine, t, f); err != nil {
			e.Refused = refusalText(err)
		} else {
			done++
			continue
		}
		refused = append(refused, e)
	}
	if len(refused) == 0 {
		return p.tellAfterwards(f, done)
	}
	body := actBody{Title: f.act.title, Done: done, Past: f.act.past, Refusals: refused}
	return p.showStatus(http.StatusConflict, "acted.html", f.act.title, "", body)
}

// refusalText says why an act was not done, or that nobody knows whether it was.
func refusalText(err error) string {
	if errors.Is(err, pawl.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) {
		return "it may have been done or not, look at the run: " + err.Error()
	}
	return err.Error()
}
