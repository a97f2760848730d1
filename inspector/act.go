package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// Errors of what a form asks for: it cannot be understood, or is over the bound of parseForm.
var (
	errAct      = errors.New("the form is not complete")
	errTooLarge = errors.New("the form is too large")
)

// An act is one kind of change that a page can ask for.
//
// Its words are those of the act on runs, but for the two answers of a vote and a fork. options names the fields that the form of the act has
// besides who and why; "" stands for no further field. makeAct makes the act of what a reader has filled in, without its target; it is nil for a
// fork, which makes a run.
type act struct {
	acts.Verb
	ofAll   string // what it can be done to all of: runs, letters or approvals, as the parameter all has it; "" for nothing
	options string // what else is asked: input, output, signal, raise, fork, patch
	makeAct func(f *actForm) pawl.Act
}

// pageActs are all that a page can ask for.
// actOf finds them by name. The order is that of the links to what is done to all runs of a list.
func pageActs() []act {
	return []act{
		{verbNamed("retry"), allOfLetters, "input", func(f *actForm) pawl.Act { return pawl.Retry{Input: f.input} }},
		{verbNamed("skip"), allOfLetters, "output", func(f *actForm) pawl.Act { return pawl.Skip{Output: f.value} }},
		{acts.Verb{Name: "approve", Title: "Approve", Past: "approved"}, allOfApprovals, "", func(f *actForm) pawl.Act { return pawl.Vote{Approved: true, By: f.By, Comment: f.Reason} }},
		{acts.Verb{Name: "reject", Title: "Reject", Past: "rejected", Danger: true}, allOfApprovals, "", func(f *actForm) pawl.Act { return pawl.Vote{By: f.By, Comment: f.Reason} }},
		{verbNamed("cancel"), allOfRuns, "", func(*actForm) pawl.Act { return pawl.Cancel{} }},
		{verbNamed("pause"), allOfRuns, "", func(*actForm) pawl.Act { return pawl.Pause{} }},
		{verbNamed("resume"), allOfRuns, "", func(*actForm) pawl.Act { return pawl.Resume{} }},
		{verbNamed("signal"), allOfRuns, "signal", func(f *actForm) pawl.Act { return pawl.Signal{Name: f.Name, ID: f.Sender, Payload: f.value} }},
		{verbNamed("raise"), "", "raise", func(f *actForm) pawl.Act { return pawl.Raise{Meta: f.meta} }},
		{acts.Verb{Name: "fork", Title: "Fork", Past: "this is the new run"}, "", "fork", nil},
		{acts.Verb{Name: "rerun", Title: "Rerun", Past: "this is the new run"}, "", "fork", nil},
		{verbNamed("patch"), "", "patch", func(f *actForm) pawl.Act {
			ops, _ := f.value.([]any) // as checkForm wants it
			return pawl.Patch{Base: int(f.At), Ops: ops}
		}},
	}
}

// verbNamed returns a row of the table of acts.
func verbNamed(name string) acts.Verb {
	v, _ := acts.Named(name)
	return v
}

// performAt does the act of a form to one target.
func (f *actForm) performAt(ctx context.Context, e *pawl.Engine, t pawl.Target) error {
	switch f.act.Name {
	case "fork":
		return e.Fork(ctx, t.Run, workflow.RunID(f.Name), f.forkOptions())
	case "rerun":
		return e.Rerun(ctx, f.rerunFrom(t), workflow.RunID(f.Name), f.forkOptions())
	}
	return e.Do(ctx, t.Run, acts.At(f.act.makeAct(f), t))
}

// forkOptions returns what the form says of a run that is to be made of another one.
func (f *actForm) forkOptions() pawl.ForkOptions {
	return pawl.ForkOptions{At: f.At, InFlight: workflow.InFlight(f.Input), Again: f.Again}
}

// rerunFrom returns from where on a run is performed again: the token of the target or, of a target that is a run, the node of the form.
func (f *actForm) rerunFrom(t pawl.Target) pawl.Target {
	if t.Token == 0 {
		t.Node = workflow.NodeID(f.Node)
	}
	return pawl.Target{Run: t.Run, Token: t.Token, Node: t.Node}
}

// actOf returns the act of a name, as an address or a form has it; nil if no act has it.
func actOf(name string) *act {
	for _, a := range pageActs() {
		if a.Name == name {
			return &a
		}
	}
	return nil
}

// An actForm is what a reader has filled in.
//
// readForm makes it, from the query of a link or from a form that was sent, and checkForm sets value from Text, and meta from Limits. Either Targets or All says
// what it is about. By is the name of the caller if the inspector knows it, whatever the form says: nobody acts in the name of another.
// input is Input as the engine has it.
type actForm struct {
	act     *act
	Targets []pawl.Target
	All     *allTargets // instead of targets
	By      string
	Reason  string
	Name    string // of a signal, or id of a new run
	At      int64  // record that is forked after, 0 is the last one; revision that is patched
	Sender  string // id of a signal
	Text    string // JSON of an output or a payload
	Input   string
	Node    string            // from which a run is performed again
	Again   bool              // also what has completed and does not follow from that node
	Inbox   bool              // it leads back there
	latest  bool              // of a patch without operations: those that lead to the latest published version
	Limits  map[string]string // to raise, as they were typed
	sent    url.Values        // all of it, if it was sent
	value   any
	meta    map[string]float64
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
		Name: strings.TrimSpace(values.Get("name")), Sender: strings.TrimSpace(values.Get("id")), Text: strings.TrimSpace(values.Get("value")), Input: values.Get("input"), Limits: readLimits(values),
	}
	switch {
	case f.act == nil:
		return nil, errNoPage
	case f.act.Defines && p.rights&api.Define == 0:
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
	f.latest = values.Get("to") == "latest"
	f.Node, f.Again = strings.TrimSpace(values.Get("node")), values.Get("again") != ""
	f.input, f.Inbox = workflow.RetryInput(f.Input), values.Get("return") == "inbox"
	// A form about all of a filter names no targets. Not all acts can be done so, and each to one kind only: nobody forks all runs.
	if all := values.Get("all"); all != "" {
		if f.act.ofAll != all {
			return nil, errNoPage
		}
		var err error
		f.All, err = p.readAll(all, values)
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
		return nil, fmt.Errorf("%w: choose what to %s", errAct, strings.ToLower(f.act.Title))
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
	if f.act.options == "raise" {
		var err error
		f.meta, err = parseLimits(f.Limits)
		return err
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
		values, err := p.parseForm(load.Reader(p.r.Body), maxForm)
		if err != nil {
			return err
		}
		f, err := p.readForm(values)
		if err != nil {
			return err
		}
		f.sent = values
		return s.performAct(p, f)
	}
	p.w.Header().Set("Allow", "GET, HEAD, POST")
	return errMethod
}

// maxForm bounds a form, in bytes.
const maxForm = 2 << 20

// parseForm reads the form that a request has sent, of at most so many bytes. Only the body counts: a link of somebody else cannot fill
// in a form with its query. Forms of no other kind are read: the files in one are put on the disk.
//
// The error is errTooLarge or errAct.
func (p *page) parseForm(body io.ReadCloser, most int64) (url.Values, error) {
	p.r.Body = http.MaxBytesReader(p.w, body, most)
	err := p.r.ParseForm()
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, fmt.Errorf("%w: it has more than %s bytes as browsers send it, and nothing was done. Act with the command pawl or through the API, or keep the value as a blob and refer to it", errTooLarge, groupDigits(int(most)))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAct, err)
	}
	return p.r.PostForm, nil
}

// formTime bounds how long one form may take, whether or not the browser still waits for the answer.
const formTime = 2 * time.Minute

// performAct does what a form asks for, once, and tells what came of it.
// It goes on though the browser has gone: nobody could say how far it came.
//
// A form that is not complete is shown again, with what is wrong. A form that is done everywhere leads back to what it was about, so that to
// load that page again does nothing again; if a target has refused it, a page tells which, with status 409.
func (s *server) performAct(p *page, f *actForm) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), formTime)
	defer cancel()
	// The engine writes who and why into the records.
	ctx = pawl.Because(pawl.As(ctx, f.By), f.Reason)
	ask, perform := s.askAct, s.performEach
	if f.All != nil {
		if err := p.takeWhere(f.All.Filter.Where); err != nil {
			return err
		}
		ask, perform = s.askAll, s.performAll
	}
	check := func() error {
		if err := f.findMissing(); err != nil || f.All == nil {
			return err
		}
		return s.checkCounted(ctx, p, f)
	}
	if err := p.performOnce(f.sent, check, func() (bool, error) { return perform(ctx, p, f) }); err != nil {
		return ask(p, f, err)
	}
	return nil
}

// findMissing says what a form lacks that is to be done.
func (f *actForm) findMissing() error {
	if err := f.checkForm(); err != nil {
		return err
	}
	switch {
	case f.By == "":
		return fmt.Errorf("%w: say who you are", errAct)
	case f.Reason == "":
		return fmt.Errorf("%w: say why", errAct)
	}
	return nil
}

// performEach does an act to one target after the other, and reports whether it may have been done to any.
func (s *server) performEach(ctx context.Context, p *page, f *actForm) (some bool, _ error) {
	f.nameSignal()
	done := 0
	var refused []effect
	for _, t := range f.Targets {
		// One refusal does not keep the others from being done: targets are independent.
		e := effect{Run: t.Run, Token: t.Token, Href: p.targetLink(t)}
		if ctx.Err() != nil {
			e.Refused = fmt.Sprintf("not tried: the %v that one form may take were over", formTime)
		} else if err := f.performAt(ctx, s.engine, t); err != nil {
			e.Refused = p.refusalText(err)
			some = some || isUncertain(err)
		} else {
			done++
			continue
		}
		refused = append(refused, e)
	}
	if len(refused) == 0 {
		return true, p.tellAfterwards(f, done)
	}
	body := actBody{Title: f.act.Title, Done: done, Past: f.act.Past, Refusals: refused}
	return some || done > 0, p.showStatus(http.StatusConflict, "acted.html", f.act.Title, "", body)
}

// refusalText says why an act was not done, or that nobody knows whether it was.
func (p *page) refusalText(err error) string {
	if isUncertain(err) {
		return "it may have been done or not, look at the run: " + p.errorAt(err)
	}
	return p.errorAt(err)
}

// isUncertain reports whether an act that has failed so may have been done all the same.
func isUncertain(err error) bool {
	return errors.Is(err, pawl.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}
