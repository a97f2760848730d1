package inspector

import (
	"context"
	"crypto/rand"
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
type act struct {
	name    string // in addresses
	title   string // what the reader is about to do
	past    string // what was done
	danger  bool
	define  bool   // it takes the right Define as well
	ofAll   bool   // it can be done to all runs of a filter
	options string // what else is asked: input, output, signal, fork, patch
	perform func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error
}

// acts are all that a page can ask for.
var acts = []act{
	{name: "retry", title: "Retry", past: "retried", options: "input", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Retry(ctx, t, pawl.RetryOptions{Input: f.input})
	}},
	{name: "skip", title: "Skip", past: "skipped", options: "output", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Skip(ctx, t, f.value)
	}},
	{name: "approve", title: "Approve", past: "approved", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Vote(ctx, t, workflow.Ballot{Approved: true, By: f.By, Comment: f.Reason})
	}},
	{name: "reject", title: "Reject", past: "rejected", danger: true, perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return e.Vote(ctx, t, workflow.Ballot{By: f.By, Comment: f.Reason})
	}},
	{name: "cancel", ofAll: true, title: "Cancel", past: "cancelled", danger: true, perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
		return cancelRun(ctx, e, t.Run, f.Reason)
	}},
	{name: "pause", ofAll: true, title: "Pause", past: "paused", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, _ *actForm) error {
		return e.Pause(ctx, t.Run)
	}},
	{name: "resume", ofAll: true, title: "Resume", past: "resumed", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, _ *actForm) error {
		return e.Resume(ctx, t.Run)
	}},
	{name: "signal", ofAll: true, title: "Send a signal to", past: "signalled", options: "signal", perform: func(ctx context.Context, e *pawl.Engine, t pawl.Target, f *actForm) error {
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
func cancelRun(ctx context.Context, e *pawl.Engine, id workflow.RunID, reason string) error {
	if err := e.Cancel(ctx, id, reason); err != nil {
		return err
	}
	now, err := e.Summary(ctx, id)
	if err == nil && now.Status.Final() && now.Status != workflow.RunCancelled {
		err = fmt.Errorf("%w: it is %v, and nothing is changed", pawl.ErrEnded, now.Status)
	}
	return err
}

func actOf(name string) *act {
	for i := range acts {
		if acts[i].name == name {
			return &acts[i]
		}
	}
	return nil
}

// An actForm is what a reader has filled in.
type actForm struct {
	act     *act
	Targets []pawl.Target
	All     *allRuns // instead of targets
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
	if values.Get("all") != "" {
		if !f.act.ofAll {
			return nil, errNoPage
		}
		var err error
		f.All, err = readAllRuns(values)
		return f, err
	}
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
	case f.act.options == "patch":
		if ops, _ := f.value.([]any); len(ops) == 0 || len(f.Targets) > 1 {
			return fmt.Errorf("%w: a patch of one run is a list of operations", errAct)
		}
	case f.act.options == "fork" && (f.Name == "" || len(f.Targets) > 1):
		return fmt.Errorf("%w: the new run has an id of its own", errAct)
	}
	return nil
}

// targetOf reads what a form is about: the number of a token, 0 for the run itself, a space, and
// the run.
func targetOf(text string) (pawl.Target, bool) {
	number, run, ok := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	return pawl.Target{Run: workflow.RunID(run), Token: workflow.TokenID(n)}, ok && err == nil && n >= 0 && run != ""
}

func targetText(run workflow.RunID, token workflow.TokenID) string {
	return strconv.FormatInt(int64(token), 10) + " " + string(run)
}

// An actLink leads to the page that asks whether to do it.
type actLink struct {
	Text, Href string
	Danger     bool
}

// actLinks returns the links to some acts, for those who may.
func (p *page) actLinks(run workflow.RunID, token workflow.TokenID, names ...string) (links []actLink) {
	if p.rights&api.Act == 0 {
		return nil
	}
	for _, name := range names {
		a := actOf(name)
		if a.define && p.rights&api.Define == 0 {
			continue
		}
		text := a.title
		if name == "signal" {
			text = "Signal"
		}
		links = append(links, actLink{text + "…", p.pageLink("act", "do", name, "target", targetText(run, token)), a.danger})
	}
	return links
}

// runActs returns what can be done to a run.
func (p *page) runActs(id workflow.RunID, s workflow.RunStatus) []actLink {
	switch s {
	case workflow.RunRunning:
		return p.actLinks(id, 0, "signal", "pause", "cancel")
	case workflow.RunPaused:
		return p.actLinks(id, 0, "resume", "signal", "cancel")
	case workflow.RunSuspended:
		return p.actLinks(id, 0, "resume", "cancel")
	default:
		return nil
	}
}

// tokenActs returns what can be done to a token.
func (p *page) tokenActs(id workflow.RunID, t *pawl.Token) []actLink {
	switch t.Status {
	case workflow.WaitingForOperator, workflow.Retrying:
		return p.actLinks(id, t.ID, "retry", "skip")
	case workflow.WaitingForApproval:
		return p.actLinks(id, t.ID, "approve", "reject")
	case workflow.Dispatched:
		return p.actLinks(id, t.ID, "skip")
	default:
		return nil
	}
}

// serveAct asks whether to do something, and does it.
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
		p.r.Body = http.MaxBytesReader(p.w, p.r.Body, maxForm)
		if err := p.r.ParseForm(); err != nil {
			return fmt.Errorf("%w: %w", errAct, err)
		}
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
	ctx = pawl.Because(pawl.As(ctx, f.By), f.Reason)
	if f.All != nil {
		return s.performAll(ctx, p, f)
	}
	done := 0
	var refused []effect
	for _, t := range f.Targets {
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

// afterwards returns where an act leads, with a parameter of a page: to what it was about, or, if that is much, the inbox.
func (f *actForm) afterwards(told ...string) string {
	if f.act.name == "fork" {
		return runAddress(workflow.RunID(f.Name), told...)
	}
	switch {
	case f.All != nil:
		return "runs" + queryOf(f.All.parameters(), told)
	case len(f.Targets) > 1, f.Inbox:
		return "inbox" + queryOf(nil, told)
	}
	if f.act.name == "patch" {
		told = append(told, "view", "definition")
	}
	if t := f.Targets[0]; t.Token != 0 {
		return runAddress(t.Run, append(told, "view", "token", "token", strconv.FormatInt(int64(t.Token), 10))...)
	}
	return runAddress(f.Targets[0].Run, told...)
}

// A toldText is what a page says of the act that led to it.
type toldText struct{ place, text string }

// keptTold is how many of them are remembered.
const keptTold = 256

// tellAfterwards leads to where an act leads, and has the page there say how often it was done. The
// text is kept here under a name that nobody can guess, so that no link of others makes a page say it.
func (p *page) tellAfterwards(f *actForm, done int) error {
	name := rand.Text()
	address := f.afterwards("told", name)
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	text := "It is done: " + f.act.past + "."
	if done > 1 {
		text = fmt.Sprintf("It is done: %s %s.", groupDigits(done), f.act.past)
	}
	p.s.told.keepValue(name, toldText{placeOf(u), text})
	return p.goTo(address)
}

// placeOf returns what a page is about.
func placeOf(u *url.URL) string { return strings.TrimPrefix(u.Path, "/") + " " + u.Query().Get("id") }

// findTold returns what the act that led to this page has done, for its top; "" if none has.
func (p *page) findTold() string {
	told, _ := p.s.told.find(p.r.URL.Query().Get("told"))
	if told.place != placeOf(p.r.URL) {
		return ""
	}
	return told.text
}

func (p *page) targetLink(t pawl.Target) string {
	if t.Token != 0 {
		return p.tokenLink(t.Run, t.Token)
	}
	return p.runLink(t.Run)
}
