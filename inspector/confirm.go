package inspector

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/workflow"
)

// An effect is what an act would do to one target.
//
// It is also what has come of an act that was refused. Refused says why it would not be done; Unseen, that nobody has tried, since there
// are too many targets or the form says too little; Nothing, that it would change nothing. Before and After are the statuses of the run.
type effect struct {
	Run     workflow.RunID
	Token   workflow.TokenID
	Node    workflow.NodeID
	Href    string
	Target  string // as the form has it
	Refused string
	Again   []string // of a fork: nodes whose tasks and child runs it sends again
	Words   []string // what the run would do, as people say it
	Events  []effectEvent
	More    int
	Nothing bool
	Unseen  bool // it was not tried
	New     bool // another run would be made
	Before  workflow.RunStatus
	After   workflow.RunStatus

	difference // of a patch: the definition as it would be, and was
}

// An effectEvent is what the run would tell.
//
// Data are shown only as far as the reader may see them.
type effectEvent struct {
	Class string
	Type  workflow.EventType
	Node  workflow.NodeID
	Token workflow.TokenID
	Data  string
}

// An actBody is the page that asks whether to do something and, with Done and Refusals alone, the one that tells what was refused. Asked,
// Instead and Opposite are only set for an answer to one approval.
type actBody struct {
	Act      string
	Title    string
	Past     string
	Danger   bool
	Options  string
	Form     *actForm
	AskBy    bool
	Error    string
	Effects  []effect
	All      *allTargets // instead of one or more; Effects are of the first of them
	Tried    int         // how many of the effects were tried
	Busy     bool        // others were not, as too many whole runs are read at once
	Blind    bool        // none was, as the reader may not see what comes of values
	Back     string
	Signals  []string // that the run waits for
	Nodes    []string // from which it can be performed again
	Limits   []limitField
	Done     int
	Refusals []effect

	Asked    *approvalRow // what an answer is about
	Instead  []effect     // of the other answer
	Opposite string       // what that is called: rejected
}

// The bounds of what is tried, and of what is shown of it.
// Each target that is tried copies a run into memory, so only a few are.
const (
	triedTargets = 5
	effectEvents = 24
)

// askAct shows what would come of an act, and asks for a reason. Nothing is changed.
//
// wrong is why the same form was not done just now, nil if it was not sent yet. The values that the reader has filled in are on the page
// again.
func (s *server) askAct(p *page, f *actForm, wrong error) error {
	// A patch is of the revision that the reader has seen. The form carries it, so that the engine refuses the patch if somebody
	// else has patched the run meanwhile.
	if f.act.Name == "patch" && f.At == 0 {
		_, revision, err := s.engine.Definition(p.r.Context(), f.Targets[0].Run)
		if err != nil {
			return err
		}
		f.At = int64(revision)
	}
	var nothing error // that leads to the latest version
	if f.latest && f.Text == "" && wrong == nil {
		if f.Text, nothing = s.migrationOf(p, f.Targets[0].Run); nothing != nil && !errors.Is(nothing, errAct) {
			return nothing
		}
	}
	if f.act.options == "fork" && f.Name == "" && wrong == nil {
		f.Name = string(s.freeID(p, f.Targets[0].Run))
	}
	b := p.actBodyOf(f)
	if b.Back = p.targetLink(f.Targets[0]); f.Inbox {
		b.Back = p.pageLink("inbox")
	}
	status := p.tellWrong(&b, f, wrong)
	if nothing != nil { // a link has led here: it is no error of the reader
		_ = p.tellWrong(&b, f, nothing)
	}
	if err := s.addEffects(p, f, &b, f.Targets); err != nil {
		return err
	}
	if err := s.addOpposite(p, f, &b); err != nil {
		return err
	}
	return p.showStatus(status, "act.html", f.act.Title, "", &b)
}

// Asks reports whether the form has to say more before anything can be tried: then its filled button shows what would happen, and does nothing.
func (b *actBody) Asks() bool { return b.Options != "" && b.Tried == 0 && !b.Busy && !b.Blind }

// Of returns how many the act would be done to.
func (b *actBody) Of() int {
	if b.All != nil {
		return b.All.Count
	}
	return len(b.Effects)
}

// Look returns what the button says that shows what would happen.
func (b *actBody) Look() string {
	if b.Options == "patch" {
		return "Show what it would change"
	}
	return "Show what would happen"
}

// Button returns what the button says that does it: a verb, and what it is done to.
func (b *actBody) Button() string {
	if b.Act == "rerun" || b.Act == "fork" {
		return "Make the new run"
	}
	n := len(b.Effects)
	if b.All != nil {
		n = b.All.Count
	}
	noun := nounOf(b.Form.act.ofAll)
	if n > 1 {
		return b.Title + " the " + noun[1]
	}
	return b.Title + " the " + noun[0]
}

// freeID proposes an id for a run that is made of another one: that of the other, as far as it has room, and a number, from 2.
func (s *server) freeID(p *page, of workflow.RunID) workflow.RunID {
	base := strings.ReplaceAll(string(of), "/", "-") // that of a child
	base = strings.ToValidUTF8(base[:min(len(base), limits.MaxRunID-len("-2"))], "")
	for n := 2; n < 10; n++ {
		id := workflow.RunID(fmt.Sprintf("%s-%d", base, n))
		if _, err := s.engine.Summary(p.r.Context(), id); errors.Is(err, pawl.ErrRunNotFound) {
			return id
		}
	}
	return ""
}

// opposites are the answers to an approval.
var opposites = map[string]string{"approve": "reject", "reject": "approve"}

// addOpposite adds to the page of an answer what was asked, and what the other answer would do.
//
// A reader who answers is to see both futures, and not only the one that the link has named.
func (s *server) addOpposite(p *page, f *actForm, b *actBody) (err error) {
	name := opposites[f.act.Name]
	if name == "" || len(f.Targets) > 1 {
		return nil
	}
	// It stays nil if the approval is not open any more; the effects then say that it is refused.
	if b.Asked, err = s.findApproval(p, f.Targets[0]); err != nil {
		return err
	}
	// A copy of the form with the other act is tried in the same way.
	other, of := *f, actBody{}
	other.act = actOf(name)
	err = s.addEffects(p, &other, &of, f.Targets)
	b.Instead, b.Opposite = of.Effects, other.act.Past
	return err
}

// actBodyOf returns the page that asks whether to do something.
func (p *page) actBodyOf(f *actForm) actBody {
	return actBody{Act: f.act.Name, Title: f.act.Title, Danger: f.act.Danger, Options: f.act.options, Form: f, AskBy: p.who == "", All: f.All}
}

// tellWrong says what is wrong with a form, if anything is, and returns the status of the page.
//
// A form that comes by GET may be prefilled with a value; if that is wrong it is said as well, but the page is no error of the reader.
func (p *page) tellWrong(b *actBody, f *actForm, wrong error) int {
	status := http.StatusOK
	if errors.Is(wrong, errMore) || errors.Is(wrong, errSentBefore) {
		status = http.StatusConflict
	} else if wrong != nil {
		status = http.StatusBadRequest
	} else if f.Text != "" || len(f.Limits) > 0 {
		wrong = f.checkForm()
	}
	if wrong != nil {
		b.Error = strings.TrimPrefix(p.errorAt(wrong), errAct.Error()+": ")
	}
	return status
}

// addEffects tries an act on the first targets, and offers the signals for which the first of them waits, or its limits.
//
// All targets are in the list, so that the form has them, but only triedTargets are tried. For a single target an error is that of the
// page: there is nothing to be shown. If one of several is gone, the page only tells that. An act with a value is not tried for
// those who see no values: conditions would tell them, one after the other.
func (s *server) addEffects(p *page, f *actForm, b *actBody, targets []pawl.Target) error {
	b.Blind = f.choosesValue() && p.rights&api.Values == 0
	for i, t := range targets {
		e := effect{Run: t.Run, Token: t.Token, Href: p.targetLink(t), Target: targetText(t), Unseen: true, New: f.act.options == "fork"}
		if i < triedTargets && f.isComplete() && !b.Blind {
			err := s.tryAct(p, f, t, &e)
			// A reader who needs to act can: only what would come of it is not shown.
			if errors.As(err, new(*crowd.BusyError)) {
				b.Busy = true
				b.Effects = append(b.Effects, e)
				continue
			}
			if err != nil && len(f.Targets) == 1 {
				return err
			}
			if b.Tried++; err != nil { // such as that it was purged meanwhile
				e.Refused = p.errorAt(err)
			}
		}
		b.Effects = append(b.Effects, e)
	}
	switch {
	case len(targets) == 0:
	case f.act.options == "signal":
		b.Signals = s.signalNames(p, targets[0].Run)
	case f.act.options == "raise":
		b.Limits = s.limitFields(p, targets[0].Run, f.Limits)
	}
	if f.act.Name == "rerun" && len(targets) > 0 && targets[0].Token == 0 {
		return s.addRerunNodes(p, b, targets[0].Run)
	}
	return nil
}

// choosesValue reports whether the reader chooses a value for the act.
func (f *actForm) choosesValue() bool {
	return slices.Contains([]string{"output", "signal", "raise", "patch"}, f.act.options)
}

// isComplete reports whether a form says enough for the act to be tried.
//
// The name of the reader and the reason are not needed for that.
func (f *actForm) isComplete() bool {
	switch f.act.options {
	case "signal":
		return f.Name != ""
	case "patch", "raise":
		return f.checkForm() == nil
	}
	return f.act.Name != "rerun" || f.Node != "" || f.Targets[0].Token != 0
}

// tryAct lets an act happen to a copy of the run.
//
// A refusal of the engine is part
// of the effect; the error is of the run that cannot be copied.
func (s *server) tryAct(p *page, f *actForm, t pawl.Target, e *effect) error {
	if f.act.options == "fork" {
		return s.tryFork(p, f, t, e)
	}
	sim, err := p.simulate(p.r.Context(), t.Run)
	if err != nil {
		return err
	}
	e.Unseen = false
	before := sim.Snapshot()
	e.Before = before.Status
	// The effect says at which node the token is.
	for i := range before.Tokens {
		if before.Tokens[i].ID == t.Token {
			e.Node = before.Tokens[i].Node
		}
	}
	// The form of the page is not to get a name that its reader has not given.
	try := *f
	if try.By == "" {
		try.By = "you"
	}
	ctx := pawl.Because(pawl.As(p.r.Context(), try.By), try.Reason)
	// The definition before the patch is needed to draw what it changes.
	was := (*workflow.Definition)(nil)
	if f.act.Name == "patch" {
		if was, _, err = sim.Definition(); err != nil {
			return err
		}
	}
	// The engine would refuse it: that is what the reader is to know before the form is sent.
	if err := sim.Do(ctx, acts.At(f.act.makeAct(&try), t)); err != nil {
		e.Refused = p.errorAt(err)
		return nil
	}
	if was != nil {
		if err := p.addPatched(e, sim, was); err != nil {
			return err
		}
	}
	p.addSteps(e, sim)
	return nil
}

// tryFork makes the new run in memory. A fork that has no id yet is tried under one that no run has.
//
// It is not the run itself that changes, so there is no Before.
func (s *server) tryFork(p *page, f *actForm, t pawl.Target, e *effect) error {
	by, id := cmp.Or(f.By, "you"), workflow.RunID(cmp.Or(f.Name, "fork-"+rand.Text()))
	if err := p.takeWhole(); err != nil {
		return err
	}
	e.Unseen = false
	from := pawl.Target{Run: t.Run}
	if f.act.Name == "rerun" {
		from = f.rerunFrom(t)
	}
	sim, err := s.engine.Simulate(pawl.As(p.r.Context(), by), pawl.OfFork{From: from, To: id, Options: f.forkOptions()})
	if errors.Is(err, pawl.ErrRunNotFound) {
		return err
	}
	if err != nil {
		e.Refused = p.errorAt(err)
		return nil
	}
	for _, n := range sim.SentAgain() {
		e.Again = append(e.Again, string(n))
	}
	p.addSteps(e, sim)
	return nil
}

// addSteps tells what has been decided in a copy, and how it stands.
//
// The events are those that the run would tell, the first effectEvents of them; More counts the rest.
func (p *page) addSteps(e *effect, sim *pawl.Simulation) {
	var words effectWords
	for _, step := range sim.Steps() {
		for i := range step.Events {
			ev := &step.Events[i]
			words.addEvent(ev)
			if len(e.Events) == effectEvents {
				e.More++
				continue
			}
			e.Events = append(e.Events, effectEvent{eventClass(ev.Type), ev.Type, ev.Node, ev.Token, shortText(p.eventData(e.Run, ev), 200)})
		}
	}
	e.Words, e.After = words.Lines(), sim.Snapshot().Status
	e.Nothing = len(e.Events) == 0
}

// addPatched draws what a patch has made of the definition of a copy.
//
// The tokens on it stand where they would after the patch.
func (p *page) addPatched(e *effect, sim *pawl.Simulation, was *workflow.Definition) error {
	is, _, err := sim.Definition()
	if err != nil {
		return err
	}
	var graphs [2]*compiled.Graph
	for i, d := range []*workflow.Definition{was, is} {
		if graphs[i], err = compiled.Compile(compiled.Boundless(), d); err != nil {
			return err
		}
	}
	ov := sim.Overview()
	e.difference, err = p.drawDifference(graphs[0], graphs[1], p.diagramRun(&ov), func(id workflow.NodeID) string {
		return p.runLink(e.Run, "view", "tokens", "node", string(id))
	})
	return err
}

// addRerunNodes offers the nodes to which the run has come.
func (s *server) addRerunNodes(p *page, b *actBody, id workflow.RunID) error {
	ov, err := s.engine.Overview(p.r.Context(), id)
	for _, n := range ov.Nodes {
		if tallyOf(n.Tokens).Total() > 0 {
			b.Nodes = append(b.Nodes, string(n.Node))
		}
	}
	return err
}

// signalNames returns the events that a run declares, and those for which its nodes wait.
//
// They are suggestions for the form: a run that cannot be read has none, and any other name may be written.
func (s *server) signalNames(p *page, id workflow.RunID) (names []string) {
	d, _, err := s.engine.Definition(p.r.Context(), id)
	if err != nil {
		return nil
	}
	names = slices.Clone(d.Signals)
	for i := range d.Nodes {
		w := d.Nodes[i].Wait
		if w == nil {
			continue
		}
		// A wait is for one event, or for any of several.
		for _, one := range slices.Concat(w.Any, []workflow.WaitSpec{*w}) {
			if one.Event != "" && !slices.Contains(names, one.Event) {
				names = append(names, one.Event)
			}
		}
	}
	return names
}
