package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// An Operation is something that an operator does to a run: what Do says, with the fields that it
// takes. Each has a name and a reason, which the journal keeps. The same type is the body of every
// act: on a path of one act, such as /pause, Do is left out, since the path says it; in a batch and
// in a Trial, Do says it. decodeAct refuses a field that belongs to another act, so that a client
// which sends a comment with a retry learns that nobody will read it.
type Operation struct {
	// Do is cancel, pause, resume, signal, patch, cancelNodes, addBranch, closeGroup or, of one token, retry,
	// skip, vote, complete or fail; in a Trial also elapse.
	Do     string `json:"do,omitzero"`
	By     string `json:"by,omitzero"`     // who acts; may be left out where the host says who that is
	Reason string `json:"reason,omitzero"` // in one line

	Token workflow.TokenID `json:"token,omitzero"` // which token; or
	Node  workflow.NodeID  `json:"node,omitzero"`  // the only one at this node that waits for the act

	// Parked, of retry and skip: only if the task waits for an operator. Who acts on dead letters has read of them
	// before, and ends no attempt that somebody has begun meanwhile.
	Parked bool `json:"parked,omitzero"`

	Name      string          `json:"name,omitzero"`      // signal
	ID        string          `json:"id,omitzero"`        // signal, vote, addBranch: taken once per run, so that the request may be repeated
	Payload   json.RawMessage `json:"payload,omitzero"`   // signal
	Transient bool            `json:"transient,omitzero"` // signal: lost if nobody waits
	TTL       string          `json:"ttl,omitzero"`       // signal: kept so long, as 30m; "" is for ever
	Early     bool            `json:"early,omitzero"`     // signal: taken also if no node waits for the name

	Approved *bool           `json:"approved,omitzero"` // vote
	Comment  string          `json:"comment,omitzero"`  // vote
	Data     json.RawMessage `json:"data,omitzero"`     // vote

	Output    json.RawMessage     `json:"output,omitzero"`    // skip, complete
	Input     workflow.RetryInput `json:"input,omitzero"`     // retry: again or kept
	Code      string              `json:"code,omitzero"`      // fail
	Message   string              `json:"message,omitzero"`   // fail
	Retryable bool                `json:"retryable,omitzero"` // fail

	Base int               `json:"base,omitzero"` // patch: the revision that it is for
	Ops  []json.RawMessage `json:"ops,omitzero"`  // patch: as of RFC 6902

	Nodes  []workflow.NodeID `json:"nodes,omitzero"`  // cancelNodes
	Group  string            `json:"group,omitzero"`  // addBranch, closeGroup
	Origin workflow.TokenID  `json:"origin,omitzero"` // likewise: the token that fanned out, where several groups have the name
	Item   json.RawMessage   `json:"item,omitzero"`   // addBranch

	Elapse string `json:"elapse,omitzero"` // elapse: how much time passes, as 2h
}

// An actKind is what an act takes besides do, by and reason, and does. Only one of token and node
// is needed: a token is exact, and a node is what a person knows. The fields are names as they
// stand in JSON.
type actKind struct {
	fields   []string
	ofToken  bool // it is done to a token, which token or node names
	ofDefine bool // it takes the right Define as well
	doAct    func(context.Context, *performer, *Operation) error
}

// actElapse lets time pass in a Trial. It has no path in actPaths, and so no request does it to the
// run itself: elapseTime relies on there being a copy.
const actElapse = "elapse" // which is none to a run

// actKinds are the acts by their names. actKinds holds in one place what decodeAct checks, what the
// routes need and what is called, so that an act that is added is known to paths, batches, trials
// and the Client alike. It is never modified.
var actKinds = map[string]actKind{
	"cancel": {doAct: cancelRun},
	"pause":  {doAct: func(ctx context.Context, p *performer, _ *Operation) error { return p.engine.Pause(ctx, p.run) }},
	"resume": {doAct: func(ctx context.Context, p *performer, _ *Operation) error { return p.engine.Resume(ctx, p.run) }},
	"signal": {fields: []string{"name", "id", "payload", "transient", "ttl", "early"}, doAct: sendSignal},
	"patch":  {fields: []string{"base", "ops"}, ofDefine: true, doAct: applyPatch},
	"cancelNodes": {fields: []string{"nodes"}, doAct: func(ctx context.Context, p *performer, a *Operation) error {
		if len(a.Nodes) == 0 {
			return invalidf("nodes must name some")
		}
		return p.engine.CancelNodes(ctx, p.run, a.Nodes...)
	}},
	"addBranch": {fields: []string{"id", "group", "origin", "item"}, doAct: func(ctx context.Context, p *performer, a *Operation) error {
		return p.engine.AddBranch(ctx, pawl.GroupTarget{Run: p.run, Group: a.Group, Origin: a.Origin, ID: a.ID}, valueOf(a.Item))
	}},
	"closeGroup": {fields: []string{"group", "origin"}, doAct: func(ctx context.Context, p *performer, a *Operation) error {
		return p.engine.CloseGroup(ctx, pawl.GroupTarget{Run: p.run, Group: a.Group, Origin: a.Origin})
	}},
	"retry": {ofToken: true, fields: []string{"input", "parked"}, doAct: func(ctx context.Context, p *performer, a *Operation) error {
		return p.engine.Retry(ctx, p.targetOf(a), pawl.RetryOptions{Input: a.Input})
	}},
	"skip": {ofToken: true, fields: []string{"output", "parked"}, doAct: func(ctx context.Context, p *performer, a *Operation) error {
		return p.engine.Skip(ctx, p.targetOf(a), valueOf(a.Output))
	}},
	"vote":     {ofToken: true, fields: []string{"id", "approved", "comment", "data"}, doAct: castVote},
	"complete": {ofToken: true, fields: []string{"output"}, doAct: completeTask},
	"fail":     {ofToken: true, fields: []string{"code", "message", "retryable"}, doAct: failTask},
	actElapse:  {fields: []string{"elapse"}, doAct: elapseTime},
}

// mostBody bounds the body of an act, by the largest of its fields.
func (k *actKind) mostBody() int64 {
	switch {
	case k.ofDefine:
		return maxBody
	case slices.ContainsFunc(k.fields, func(name string) bool { return slices.Contains(valueFields, name) }):
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
	// A nil RawMessage in an interface would not be nil to the engine, which then would see a value
	// where the body has none. What is there goes on as bytes: the engine parses it once, by its
	// own rules.
	return raw
}

// actPerforms returns what does an act to the run, or the token, that the path names. The order of
// the checks is that of what costs little first: the body is read and decoded, then the target and
// the name are checked, and only replyToAct asks the engine. Rights were checked by serveRoute.
func actPerforms(do string) func(*call) error {
	kind := actKinds[do]
	most := kind.mostBody()
	return func(c *call) error {
		text, err := c.readBody(most)
		if err != nil {
			return err
		}
		a, err := decodeAct(text, do)
		if err != nil {
			return err
		}
		if actKinds[do].ofToken {
			if a.Token, a.Node, err = c.targetNamed(); err != nil {
				return err
			}
		}
		if err := c.signAct(&a.By, a.Reason); err != nil {
			return err
		}
		return c.replyToAct(a)
	}
}

// anyToken stands in a path for the token at the node that the query names, since the name of a
// node may be a number. /tokens/-/retry?node=31 is the node named "31", and /tokens/31/retry is
// token 31.
const anyToken = "-"

// targetNamed returns the token of a path: its number, or the node where it is. A number above 0 is
// a token, everything else a node. With both in one request, which would be two answers to one
// question, the request is refused.
func (c *call) targetNamed() (workflow.TokenID, workflow.NodeID, error) {
	text, node := c.r.PathValue("token"), c.query().textOf("node")
	if node != "" && text != anyToken {
		return 0, "", invalidf("the path names the token %q, and the query the node %q: the path of a node is %q", text, node, anyToken)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < math.MaxInt64 {
		return workflow.TokenID(n), "", nil
	}
	return 0, workflow.NodeID(cmp.Or(node, text)), nil
}

// signAct checks in whose name an act is, and that there is a reason for it. The journal keeps both
// with the record of the act, which is why an operator cannot leave them out. Acts of runs, forks,
// imports, purges and batches call this; a start only signs its name.
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

// signName puts the name of the caller where none is, and refuses another's. c.who is "" where the
// host has no name for the caller, as on the socket without NarrowLocal: then the request names
// whoever acts, and is believed. Where the host does know, a caller cannot act as somebody else,
// not even with all rights.
func (c *call) signName(by *string) error {
	if c.who != "" && *by != "" && c.who != *by {
		return refusef(http.StatusForbidden, codeForbidden, "this is in the name of %q, and comes from %q: leave by out", *by, c.who)
	}
	*by = cmp.Or(c.who, *by)
	return nil
}

// An Acted says what has come of an act or, if it was only tried, what would. The Future is nil for
// an act that was done: what comes of it is told by events and the journal, while that of a dry run
// is nowhere else.
type Acted struct {
	Run      workflow.RunID `json:"run"`
	Applied  bool           `json:"applied"`           // false: nothing was changed
	Revision int            `json:"revision,omitzero"` // of the definition, after a patch
	*Future
}

// commitTime bounds how long an act may take to be committed, whether or not the caller waits.
// Handlers detach an act from the context of the request (context.WithoutCancel): a caller who
// hangs up when the message is under way to the run would otherwise leave open whether it was
// applied, and 30 s bound what such a request can hold.
const commitTime = 30 * time.Second

// unknownIfLate returns the error of an act that was not answered within commitTime: it may be
// committed all the same. The message may wait in the queue of the run's actor, and nothing takes
// it out again. So the code is unknown_outcome, not timeout: a client must look at the journal
// before it repeats an act that is not safe to repeat.
func unknownIfLate(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return unknownOutcome(err)
	}
	return err
}

// replyToAct does an act, or tries it where the query says dryRun. A dry run takes View and Values
// besides the right to act, since its answer quotes the data of the run; an act itself takes no
// right to see anything.
func (c *call) replyToAct(a *Operation) error {
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	p := &performer{engine: c.engine, run: c.runID()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), commitTime)
	defer cancel()
	if !dry {
		if err := p.performAct(ctx, a); err != nil {
			return unknownIfLate(err)
		}
		return c.reply(Acted{Run: p.run, Applied: true, Revision: p.revision})
	}
	if err := c.requireRights(View | Values); err != nil {
		return err
	}
	// From here on the act is done to a copy, which nobody else sees and which is dropped with the
	// request. The copy is of the run as it was committed last; the run goes on meanwhile.
	var err error
	if p.copied, err = c.engine.Simulate(ctx, p.run); err != nil {
		return err
	}
	if err := p.performAct(ctx, a); err != nil {
		return err
	}
	return c.reply(Acted{Run: p.run, Revision: p.revision, Future: c.viewerOf(p.run).showFuture(p.copied)})
}
