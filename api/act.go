package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/strict"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/workflow"
)

// An Operation is something that an operator does to a run: an act, with a name and a reason, which the journal keeps. In JSON the fields
// of the act stand beside do, which names it, by and reason. The same object is the body of every act: on a path of one act, such as
// /pause, do is left out, since the path says it; in a batch and in a body of /simulate, do says it.
type Operation struct {
	Act    pawl.Act
	By     string // who acts; may be left out where the host says who that is
	Reason string // in one line
}

// MarshalJSON writes the operation with its do.
func (o Operation) MarshalJSON() ([]byte, error) { return o.bodyOf(true) }

// UnmarshalJSON reads an operation that has its do.
func (o *Operation) UnmarshalJSON(text []byte) error {
	read, err := decodeAct(text, "")
	if err == nil {
		*o = *read
	}
	return err
}

// bodyOf returns the body for an act, with or without what a path of the act says itself.
func (o *Operation) bodyOf(whole bool) ([]byte, error) {
	verb, act := acts.Of(o.Act), o.Act
	if t, ok := acts.TargetOf(act); ok && !whole {
		act = acts.At(act, pawl.Target{Parked: t.Parked})
	}
	fields, err := verb.Encode(act)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{"by": o.By, "reason": o.Reason}
	if whole {
		texts["do"] = verb.Name
	}
	for name, text := range texts {
		if text == "" {
			continue
		}
		if fields[name], err = json.Marshal(text); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// decodeAct reads an act, which has no more fields than its kind: a client which sends a comment with a retry learns that nobody will
// read it. do is "" if the text says what it is; token and node are then there as well. A path says what is done and to which token: a
// body that repeats them could contradict its path.
func decodeAct(text []byte, do string) (*Operation, error) {
	var fields map[string]json.RawMessage
	if err := decodeObject(text, &fields); err != nil {
		return nil, err
	}
	var o Operation
	texts := map[string]*string{"by": &o.By, "reason": &o.Reason}
	ofPath := do != ""
	if !ofPath {
		texts["do"] = &do
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if raw, there := fields[name]; there {
			if err := acts.ReadField(name, raw, texts[name]); err != nil {
				return nil, bodyRefusal(fields, err)
			}
		}
		delete(fields, name)
	}
	verb, ok := acts.Named(do)
	if !ok {
		return nil, invalidf("there is no act %q", do)
	}
	for _, name := range []string{"token", "node"} {
		if _, there := fields[name]; there && ofPath {
			return nil, invalidf("%s takes no field %q", do, name)
		}
	}
	var err error
	if o.Act, err = verb.Decode(fields); err != nil {
		return nil, bodyRefusal(fields, err)
	}
	return &o, nil
}

// bodyRefusal returns the refusal of a body for what is wrong with its fields. A list or an object that has something of the wrong type
// in it is not blamed itself.
func bodyRefusal(fields map[string]json.RawMessage, err error) error {
	wrong := (*acts.TypeError)(nil)
	if !errors.As(err, &wrong) {
		return invalidf("%v", err)
	}
	field := fmt.Appendf(nil, "{%q: %s}", wrong.Field, fields[wrong.Field])
	path := strict.PathOf(field, func(t json.Token, end int64) bool { return end > 1 && isOfType(t, wrong.Is) })
	return invalidf("the body is not the JSON object that this path takes: %v", &acts.TypeError{Field: path, Is: wrong.Is})
}

// isOfType reports whether a value that begins with a token is of a type, as encoding/json names it: a number with its digits.
func isOfType(t json.Token, name string) bool {
	switch t.(type) {
	case float64:
		return strings.HasPrefix(name, "number")
	case string:
		return name == "string"
	case bool:
		return name == "bool"
	}
	return t == json.Delim('{') && name == "object" || t == json.Delim('[') && name == "array"
}

// mostBody bounds the body of an act, by the largest of its fields.
func mostBody(v acts.Verb) int64 {
	switch {
	case v.Defines:
		return maxBody
	case slices.ContainsFunc(v.Fields(), func(name string) bool { return slices.Contains(valueFields, name) }):
		return valueBody
	}
	return smallBody
}

// valueFields are the fields of acts that have values of any size, or long lists.
var valueFields = []string{"payload", "item", "output", "data", "message", "nodes"}

// valueOf returns a value of a body; nil if it has none.
func valueOf(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	// A nil RawMessage in an interface would not be nil to the engine, which then would see a value where the body has none. A value that
	// is there goes on as bytes: the engine parses it once, by its own rules.
	return raw
}

// actPerforms returns what does an act to the run, or the token, that the path names. The order of
// the checks is that of what costs little first: the body is read and decoded, then the target and
// the name are checked, and only replyToAct asks the engine. Rights were checked by serveRoute.
func actPerforms(v acts.Verb) func(*call) error {
	most := mostBody(v)
	return func(c *call) error {
		text, err := c.readBody(most)
		if err != nil {
			return err
		}
		o, err := decodeAct(text, v.Name)
		if err != nil {
			return err
		}
		if t, ok := acts.TargetOf(o.Act); ok {
			if t.Token, t.Node, err = c.targetNamed(); err != nil {
				return err
			}
			o.Act = acts.At(o.Act, t)
		}
		if err := c.signAct(&o.By, o.Reason); err != nil {
			return err
		}
		if err := checkBase(o.Act); err != nil {
			return err
		}
		return c.replyToAct(o)
	}
}

// checkBase refuses a patch of one run that does not say for which revision it is. The engine would answer that another patch came first.
func checkBase(a pawl.Act) error {
	if p, ok := a.(pawl.Patch); ok && p.Base == 0 {
		return invalidf("base must be the revision that the patch is for, which is 1 or more")
	}
	return nil
}

// anyToken stands in a path for the token at the node that the query names, since the name of a node may be a number.
// /tokens/-/retry?node=31 is the node named "31", and /tokens/31/retry is token 31.
const anyToken = "-"

// targetNamed returns the token of a path: its number, or the node where it is. A number above 0 is a token, everything else a node. With
// both in one request, which would be two answers to one question, the request is refused.
func (c *call) targetNamed() (workflow.TokenID, workflow.NodeID, error) {
	text, node := c.r.PathValue("token"), c.query().textOf("node")
	if node != "" && text != anyToken {
		return 0, "", invalidf("the path names the token %q, and the query the node %q: the path of a node is %q", text, node, anyToken)
	}
	if node == "" && text == anyToken {
		return 0, "", invalidf("the path has %q in place of a token: name the node where that is by ?node=NODE", text)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < math.MaxInt64 {
		return workflow.TokenID(n), "", nil
	}
	return 0, workflow.NodeID(cmp.Or(node, text)), nil
}

// signAct checks in whose name an act is, and that there is a reason for it. The journal keeps both with the record of the act, which is
// why an operator cannot leave them out. Acts of runs, forks, imports, purges and batches call this; a start only signs its name.
func (c *call) signAct(by *string, reason string) error {
	if err := c.signName(by); err != nil {
		return err
	}
	if *by == "" {
		return invalidf("by must say who acts")
	}
	if reason == "" {
		return invalidf("reason must say why")
	}
	return nil
}

// signName puts the name of the caller where none is, and refuses another's. c.who is "" where the host has no name for the caller, as on
// the socket without NarrowLocal: then the request names whoever acts, and is believed. Where the host does know, a caller cannot act as
// somebody else, not even with all rights.
func (c *call) signName(by *string) error {
	if c.who != "" && *by != "" && !isSameName(c.who, *by) {
		return refusef(http.StatusForbidden, codeForbidden, "this is in the name of %q, and comes from %q: leave by out", *by, c.who)
	}
	*by = cmp.Or(c.who, *by)
	return nil
}

// isSameName reports whether two spellings are of one name, as pawl.As and ballots take them.
func isSameName(a, b string) bool {
	one, err := texts.NormalName(a)
	other, wrong := texts.NormalName(b)
	return a == b || err == nil && wrong == nil && one == other
}

// An ActReport says what an act has done or, after a dry run or a simulation, would do. The Future is
// nil for an act that was done: the events and the journal of the run tell its consequences.
type ActReport struct {
	Run      workflow.RunID `json:"run"`
	Applied  bool           `json:"applied"`           // false: nothing was changed
	Revision int            `json:"revision,omitzero"` // revision of the definition, after a patch
	*Future
}

// commitTime bounds how long an act may take to be committed, whether or not the caller waits. Handlers detach an act from the context of
// the request (context.WithoutCancel): a caller who hangs up when the message is under way to the run would otherwise leave open whether
// it was applied, and 30 s bound what such a request can hold.
const commitTime = 30 * time.Second

// unknownIfLate returns the error of an act that was not answered within commitTime: it may be committed all the same. The message may
// wait in the queue of the run's actor, and nothing takes it out again. So the code is unknown_outcome, not timeout: a client must look
// at the journal before it repeats an act that is not safe to repeat.
func unknownIfLate(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return unknownOutcome(err)
	}
	return err
}

// unknownWhenDone returns the error of a look at what was done: no code of its own, as a caller would take it for a refusal.
func unknownWhenDone(err error) error {
	row := refusal.Of(pawl.ErrUnknown)
	return &Error{Status: row.Status, Code: row.Code, Message: unknownOutcome(err).Error(), cause: err}
}

// replyToAct does an act, or tries it where the query says dryRun. A dry run takes View and Values besides the right to act, since its
// answer quotes the data of the run; an act itself takes no right to see anything.
func (c *call) replyToAct(o *Operation) error {
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	p := &performer{engine: c.engine, run: c.runID()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), commitTime)
	defer cancel()
	if !dry {
		if err := p.performAct(ctx, o); err != nil {
			return unknownIfLate(err)
		}
		return c.reply(ActReport{Run: p.run, Applied: true, Revision: p.revision})
	}
	if err := c.requireRights(View | Values); err != nil {
		return err
	}
	// From here on the act is done to a copy, which nobody else sees and which is dropped with the
	// request. The copy is of the run as it was committed last; the run goes on meanwhile.
	var err error
	if p.copied, err = c.engine.Simulate(ctx, pawl.OfRun{Run: p.run}); err != nil {
		return err
	}
	if err := p.performAct(ctx, o); err != nil {
		return err
	}
	return c.reply(ActReport{Run: p.run, Revision: p.revision, Future: c.viewerOf(p.run).showFuture(p.copied)})
}

// A performer does acts to a run, or to a copy of it. It is what makes a dry run and an act the same code. One performer serves one
// request, or one run of a batch, and belongs to its goroutine.
type performer struct {
	engine   *pawl.Engine
	run      workflow.RunID
	copied   *pawl.Simulation // nil if the run itself is changed
	revision int              // that a patch has made; 0 without one
}

// nameIn returns a context in which an act is in somebody's name.
func (o *Operation) nameIn(ctx context.Context) context.Context {
	if o.By != "" {
		ctx = pawl.As(ctx, o.By)
	}
	return pawl.Because(ctx, o.Reason)
}

// performAct does an act in somebody's name. An empty By
// leaves the context without a name and happens in trials only: all others have called signAct.
func (p *performer) performAct(ctx context.Context, o *Operation) (err error) {
	ctx = o.nameIn(ctx)
	if p.copied != nil {
		err = p.copied.Do(ctx, o.Act)
	} else {
		err = p.engine.Do(ctx, p.run, o.Act)
	}
	if patch, ok := o.Act.(pawl.Patch); ok && err == nil {
		p.revision = patch.Base + 1
	}
	return err
}

// A Simulate is the body of a simulation on a copy of a run: acts, one after the other, and the results of the
// tasks that the copy then dispatches.
type Simulate struct {
	At      int64                      `json:"-"` // copies the run as of this record, from 1; 0: as of now. A request has it in its query
	Acts    []Operation                `json:"acts,omitzero"`
	Results map[workflow.NodeID]Result `json:"results,omitzero"` // by node; tasks at other nodes stay dispatched
}

// A Result is the result of each task at a node: an output, or the code of an error.
type Result struct {
	Output  json.RawMessage `json:"output,omitzero"`
	Code    string          `json:"code,omitzero"`
	Message string          `json:"message,omitzero"`
}

// A simulateRequest is a Simulate whose acts are still to be checked. They stay raw until decodeAct has
// compared the fields of each with its kind.
type simulateRequest struct {
	Acts    []json.RawMessage          `json:"acts"`
	Results map[workflow.NodeID]Result `json:"results"`
}

// A Future is the state that a run would reach, and the steps to it.
type Future struct {
	At      time.Time         `json:"at"`      // the time then, by the clock of the copy
	Outcome *workflow.Outcome `json:"outcome"` // the outcome, or the status so far
	Steps   []Step            `json:"steps"`   // the messages on the way, and what they decide
}

// A Step is what a run would make of one message.
type Step struct {
	Record Record          `json:"record"`
	Events []history.Event `json:"events,omitzero"`
	Notes  []history.Note  `json:"notes,omitzero"` // the reasons of the decisions
}

// showFuture returns what has become of a copy.
func (v *viewer) showFuture(s *pawl.Simulation) *Future {
	o := v.showOutcome(s.Snapshot().Outcome)
	out := &Future{At: s.Now(), Outcome: &o, Steps: []Step{}}
	for _, step := range s.Steps() {
		shown := Step{Record: v.recordOf(&step.Record), Notes: v.showNotes(step.Notes)}
		for i := range step.Events {
			shown.Events = append(shown.Events, v.eventOf(&step.Events[i]))
		}
		out.Steps = append(out.Steps, shown)
	}
	return out
}

// replyToSimulation answers what would become of a run, whose copy try makes. A simulation shows input and decisions, so it takes View
// and Values even from a caller who may act; the check comes before the copy is made, which costs.
func (c *call) replyToSimulation(id workflow.RunID, try func() (*pawl.Simulation, error)) error {
	if err := c.requireRights(View | Values); err != nil {
		return err
	}
	copied, err := try()
	if err != nil {
		return err
	}
	s, v := copied.Summary(), c.viewerOf(id)
	if s.Workflow == "" { // of a recording: only its records name the definition
		d, _, err := copied.Definition()
		if err != nil {
			return err
		}
		s.Workflow, s.Version = d.Name, d.Version
	}
	s.Outcome = v.showOutcome(s.Outcome)
	return c.reply(DryRunReport{RunSummary: s, Future: v.showFuture(copied), SentAgain: copied.SentAgain()})
}

// A DryRunReport is the run that a start, a fork or an import would make, with its Future.
type DryRunReport struct {
	pawl.RunSummary
	*Future
	SentAgain []workflow.NodeID `json:"sentAgain,omitzero"` // for a fork: the nodes whose tasks and child runs would be sent again
}

// maxActs bounds the acts of a simulation.
const maxActs = 1000

// tryActs answers what would come of acts. Nothing is changed. Tasks are played before the first act and after each one, with the results
// that the request has for their nodes; tasks of other nodes stay dispatched. So "vote, then two hours later" sees what the vote has led
// to before time passes.
func (c *call) tryActs() error {
	text, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	var q simulateRequest
	if err := decodeObject(text, &q); err != nil {
		return err
	}
	if len(q.Acts) > maxActs {
		return invalidf("there are %d acts, at most %d", len(q.Acts), maxActs)
	}
	acts := make([]*Operation, len(q.Acts))
	for i, raw := range q.Acts {
		if acts[i], err = decodeAct(raw, ""); err == nil {
			err = checkBase(acts[i].Act)
		}
		if err != nil {
			return placeRefusal(i, len(acts), err)
		}
	}
	ctx, cancel := context.WithTimeout(c.context(), commitTime)
	defer cancel()
	p := &performer{engine: c.engine, run: c.runID()}
	if p.copied, err = c.pastRun(); err == nil && p.copied == nil {
		p.copied, err = c.engine.Simulate(ctx, pawl.OfRun{Run: p.run})
	}
	if err != nil {
		return err
	}
	// A result for a node that is misspelt would change nothing, and the simulation would look as if the
	// run waited. A patch among the acts may add the node, hence a look before and one after.
	unknown := maps.Clone(q.Results) // those whose nodes there are neither before the acts nor after
	if err := dropKnown(unknown, p.copied); err != nil {
		return err
	}
	play := func() error { return p.copied.Play(ctx, resultsOf(q.Results)) }
	if err := play(); err != nil {
		return err
	}
	for i, a := range acts {
		if err := p.performAct(ctx, a); err != nil {
			return placeRefusal(i, len(acts), err)
		}
		if err := play(); err != nil {
			return err
		}
	}
	if err := dropKnown(unknown, p.copied); err != nil {
		return err
	}
	for node := range unknown {
		return invalidf("results has %q, and the run has no node of that name", string(node))
	}
	return c.reply(ActReport{Run: p.run, Revision: p.revision, Future: c.viewerOf(p.run).showFuture(p.copied)})
}

// placeRefusal says which of several acts is refused. A single act needs no place. The error is copied, as it may be shared.
func placeRefusal(i, of int, err error) error {
	if of == 1 {
		return err
	}
	e := *errorOf(err)
	e.Message = fmt.Sprintf("act %d of %d: %s", i+1, of, e.Message)
	return &e
}

// dropKnown drops the results of nodes that the definition of a copy has.
func dropKnown(results map[workflow.NodeID]Result, copied *pawl.Simulation) error {
	if len(results) == 0 {
		return nil
	}
	d, _, err := copied.Definition()
	if err != nil {
		return err
	}
	for i := range d.Nodes {
		delete(results, d.Nodes[i].ID)
	}
	return nil
}

// resultsOf performs tasks by their nodes. ErrPending leaves a task without a result dispatched, as a task that goes on.
type resultsOf map[workflow.NodeID]Result

// Execute implements pawl.Executor.
func (r resultsOf) Execute(_ context.Context, t pawl.Task) (any, error) {
	result, ok := r[t.Node]
	switch {
	case !ok:
		return nil, pawl.ErrPending
	case result.Code != "":
		return nil, pawl.TaskError{Code: result.Code, Message: result.Message}
	}
	return valueOf(result.Output), nil
}
