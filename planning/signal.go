package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// takeKept completes a wait with the oldest kept event, of any of the names, that matches.
// Events whose time is up are lost.
//
// Signals that do not match stay kept, for another wait.
func (p *planner) takeKept(t *state.Token, n *compiled.Node, names []string, v vars) bool {
	for k := range p.s.KeptSignalsOf(names...) {
		switch {
		case k.Expired(p.now):
			p.decide(decision.LoseSignal{Seq: k.Seq, Name: k.Name})
		case p.wantsEvent(t, n, k.Name, k.Payload, v):
			p.decide(decision.TakeSignal{Token: t.ID, Seq: k.Seq, Name: k.Name})
			p.completeNode(p.s.Token(t.ID), completion{output: eventOutput(k.Name, k.Payload)})
			return true
		}
	}
	return false
}

// wantsEvent reports whether an event matches what a token waits for. An error in match is no
// match; it is told. A wait for any of several may name the same event twice with different
// matches: one that holds is enough.
func (p *planner) wantsEvent(t *state.Token, n *compiled.Node, name string, payload any, v vars) bool {
	v.payload, v.signalled = payload, true
	for i := range n.Waits {
		w := &n.Waits[i]
		switch {
		case w.Event != name:
			continue
		case p.overBudget() != nil:
			return false
		case w.Match == nil:
			return true
		}
		ok, err := w.Match.EvalBool(v)
		if err != nil {
			p.decide(decision.RejectSignal{Token: t.ID, Name: name, Failure: *evalFailure(w.Match, err)})
			continue
		}
		if ok {
			return true
		}
	}
	return false
}

// deliverSignal gives an event to the token that has waited for it longest, or keeps
// it. An id counts once. An event that would be kept is refused if no node waits for its
// name; one that would not is lost, and told so.
//
// At most one token takes it. The others that wait for the name go on waiting, also if it
// would have matched theirs.
func (p *planner) deliverSignal(m state.Signal) error {
	if err := p.refuseValue(m.Payload); err != nil {
		return err
	}
	// Known before: the sender repeats itself, whatever became of the first.
	if m.ID != "" && p.s.KnowsSignal(m.ID) {
		return nil
	}
	if _, known := slices.BinarySearch(p.s.Graph.Signals, m.Name); !known && !m.Early && !m.Transient {
		d := p.s.Graph.Definition
		return &workflow.SignalError{Run: p.s.Run, Name: m.Name, Known: p.s.Graph.Signals, Workflow: d.Name, Version: max(d.Version, 1)}
	}
	d := decision.KeepSignal{Seq: p.s.NextSignal, Name: m.Name, ID: m.ID, Done: true}
	// First come, first served; a token whose match does not hold is passed over.
	for t := range p.s.TokensInLine(state.WaitKey{Kind: state.LineEvent, Name: m.Name}) {
		n := p.s.Graph.Node(t.Node)
		v := vars{p: p, scope: t.Scope, token: t, result: t.Input, bound: true, caught: t.Caught}
		if !p.wantsEvent(t, n, m.Name, m.Payload, v) {
			continue
		}
		p.decide(d)
		p.decide(decision.TakeSignal{Token: t.ID, Seq: d.Seq, Name: m.Name})
		p.completeNode(p.s.Token(t.ID), completion{output: eventOutput(m.Name, m.Payload)})
		return nil
	}
	if m.Transient {
		p.decide(d)
		p.decide(decision.LoseSignal{Seq: d.Seq, Name: m.Name})
		return nil
	}
	// The planner makes room only when no room is left.
	if p.unkeptSignal(m.Payload) != nil {
		p.loseExpired()
	}
	if err := p.unkeptSignal(m.Payload); err != nil {
		return err
	}
	d.Payload, d.Done = m.Payload, false
	d.Due = timeout.Deadline(p.now, m.TTL)
	p.decide(d)
	return nil
}

// unkeptSignal returns why a signal with a payload cannot be kept beside those that are, nil
// if it can. The sender is refused, and may try again: the run itself goes on.
func (p *planner) unkeptSignal(payload any) error {
	most, bytes := p.s.Graph.Limits.SignalBytes, p.s.KeptSignalBytes()+value.Size(payload)
	switch {
	case p.s.KeptSignals() >= limits.MaxSignals:
		return &workflow.LimitError{Limit: "signals", Max: limits.MaxSignals}
	case bytes > most:
		return &workflow.LimitError{Limit: limits.SignalBytes, Max: int64(most), Got: int64(bytes)}
	}
	return nil
}

// loseExpired makes room for a signal. No alarm removes signals whose time is up: the step
// that finds them does.
func (p *planner) loseExpired() {
	for _, k := range p.s.ExpiredSignals(p.now) {
		p.decide(decision.LoseSignal{Seq: k.Seq, Name: k.Name})
	}
}
