package planning

import (
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// retryAt returns when the next attempt of a failed token is due, if its budget allows one;
// after, if it is more than 0, is the delay that the task has asked for. The budget is the
// attempts since Base. The delay is a pure function of run, token and attempt, jitter
// included, so that a replay comes to the same.
func (p *planner) retryAt(t *state.Token, n *compiled.Node, f *workflow.Failure, after time.Duration) (time.Time, bool) {
	// None, if it was the node's input that failed.
	made := t.Attempt - t.Base
	if made < 1 || made >= n.Retry.MaxAttempts || !retriesFailure(n.Node.Retry, f) {
		return time.Time{}, false
	}
	delay := n.Retry.Delay(string(p.s.Run), int64(t.ID), made)
	if after > 0 {
		delay = after
	}
	p.addNote(t.ID, "", "attempt %d of %d failed with %s: again in %v", made, n.Retry.MaxAttempts, f.Code, delay)
	return timeout.Instant(p.now.Add(delay)), true
}

// taskSnoozed lets a task wait that asks to be called again, so often as the limit allows;
// beyond it the attempt has failed. A snooze is no failure: it uses up no attempt of the
// retry budget, and needs no retry policy.
func (p *planner) taskSnoozed(m state.TaskSnoozed) error {
	t := p.runningAttempt(attemptKey{m.Token, m.Attempt, m.Epoch})
	if t == nil {
		return snoozedOrStale(p.s, m)
	}
	p.keepDetails(t, m.Details)
	t = p.s.Token(t.ID)
	if most := p.s.Graph.Limits.Snoozes; t.Remembered().Snoozes >= most {
		f := limitFailure("snoozes", most, "times that the task asks to be called again")
		p.failAttempt(t, &f, false)
		return nil
	}
	p.decide(decision.SnoozeTask{Token: t.ID, Due: timeout.Instant(p.now.Add(m.After))})
	return nil
}

// snoozedOrStale answers a snooze of an attempt that does not run: nil if it was taken
// before, state.ErrStale otherwise. A token in a back-off without a failure is one that a
// snooze has put there.
func snoozedOrStale(s *state.State, m state.TaskSnoozed) error {
	t := s.Token(m.Token)
	if t != nil && t.Status == workflow.Retrying && t.Failure == nil && t.Attempt == m.Attempt && t.Epoch == m.Epoch {
		return nil
	}
	return state.ErrStale
}

// retriesFailure reports whether a policy retries a failure at all. The executor may say that
// another attempt is of no use, and the definition may name codes.
func retriesFailure(r *workflow.RetrySpec, f *workflow.Failure) bool {
	return !f.Permanent && !slices.Contains(r.NonRetryable, f.Code)
}
