package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// pauseRun holds back what the run would dispatch. A pause that changes nothing is no error
// and no decision. An operator who pauses a run that is paused by its parent takes it over:
// the parent's resuming does not end that.
func (p *planner) pauseRun(m state.Pause) error {
	if p.s.Status == workflow.RunPaused && (m.Parent || !p.s.ParentPauses) {
		return nil
	}
	if p.s.Status == workflow.RunPaused {
		p.decide(decision.ResumeRun{}) // from now on it is held by its own operator
	}
	p.decide(decision.PauseRun{Parent: m.Parent})
	return nil
}

// resumeRun lets a paused or suspended run continue. The tokens that were held back
// begin, in the order in which they came; the engine sends again what the run waits
// for.
//
// A parent that resumes changes nothing in a child that an operator has paused, nor in one
// that runs.
func (p *planner) resumeRun(m state.Resume) error {
	switch {
	case p.s.Status == workflow.RunRunning && m.Parent, p.s.Status == workflow.RunPaused && m.Parent && !p.s.ParentPauses:
		return nil
	case p.s.Status != workflow.RunPaused && p.s.Status != workflow.RunSuspended:
		return state.ErrNotLive
	}
	p.decide(decision.ResumeRun{})
	// The line is collected first, because beginning takes tokens out of it.
	for _, t := range slices.Collect(p.s.TokensInLine(state.WaitKey{Kind: state.LineHeld})) {
		if t = p.s.Token(t.ID); !t.Held || !t.Live() {
			continue // what began before it has ended it
		}
		if hasBegun(t) {
			p.beginNextAttempt(t)
			continue
		}
		p.entries = append(p.entries, entry{token: t.ID, result: t.Input})
	}
	// Locks that were given back during the pause were granted to nobody.
	for i := range p.s.Graph.Definition.Nodes {
		if lock := p.s.Graph.Definition.Nodes[i].Lock; lock != "" {
			p.grantLock(lock)
		}
	}
	return nil
}

// grantLock gives a lock that is free to the token that has waited for it longest.
//
// The token begins in the same plan, so that no time passes in which a lock is free and
// somebody waits.
func (p *planner) grantLock(lock string) {
	if p.s.Status == workflow.RunPaused || p.s.LockHolder(lock) != 0 || p.hasStopped() {
		return
	}
	t := p.s.FirstInLine(state.WaitKey{Kind: state.LineLock, Name: lock})
	if t == nil {
		return
	}
	p.decide(decision.TakeLock{Token: t.ID, Lock: lock})
	p.entries = append(p.entries, entry{token: t.ID, result: t.Input})
}
