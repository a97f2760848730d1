package planning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/recount"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A budgetRun is a fan-out whose tasks have a budget, with results in any order.
type budgetRun struct {
	*rapid.T
	s        *state.State
	seq      int64
	now      time.Time
	reported amount.Sums // by the messages that were taken
}

// take plans a message and applies its record; what is reported and reserved stays below the limit.
func (b *budgetRun) take(m state.Message) {
	plan, err := planning.Step(b.s, m, b.now)
	require.NoError(b, err)
	b.seq++
	record := decision.Record{Seq: b.seq, At: b.now, Planner: planning.Version, Message: m, Decisions: plan.Decisions}
	for _, d := range plan.Decisions {
		decision.Apply(b.s, d, &record)
	}
	require.NoError(b, recount.Invariants(b.s))
	limit, _ := b.s.MetaLimits().Named("cost")
	taken, _ := b.s.Reported.Total().Plus(b.s.Reserved()).Named("cost")
	require.LessOrEqual(b, taken.Compare(limit), 0, "%v is more than %v", taken, limit)
	require.Equal(b, b.reported, b.s.Reported.Own)
}

// act does something else than to end an attempt with its report: time passes until the next alarm, an operator skips the attempt,
// pauses, resumes, or raises the limit. It may be refused.
func (b *budgetRun) act(x *state.Token) {
	var m state.Message
	switch rapid.IntRange(0, 4).Draw(b.T, "act") {
	case 0:
		at := b.s.Alarm()
		if at.IsZero() {
			return
		}
		b.now = at
		m = state.AlarmFired{At: at.UnixMilli()}
	case 1:
		m = state.Skip{Token: x.ID}
	case 2:
		m = state.Pause{}
	case 3:
		m = state.Resume{}
	case 4:
		limit, _ := b.s.MetaLimits().Named("cost")
		m = state.Raise{Meta: amount.Sums{limit.Plus(amount.Sum{Nano: 100_000_000})}}
	}
	if _, err := planning.Step(b.s, m, b.now); err == nil {
		b.take(m)
	}
}

// However many attempts run at once, and in whatever order they end, retry, time out, are skipped or held, or report less than
// their budget, a run does not exceed its limit, and its sums are those of the messages it took.
func TestBudgetsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := fmt.Sprintf(`{name: w, start: split, limits: {meta: {cost: %v}},
			nodes: [{id: split}, {id: ask, task: model, timeout: 1m, budget: {cost: 0.3}, retry: {maxAttempts: 2, initialInterval: 1ms, exhausted: %s}}, {id: done}],
			transitions: [{from: split, to: ask, spawnCount: %d, siblingGroup: g}, {from: ask, to: done, synchronization: {siblingGroup: g, tolerate: {failures: 50}}}]}`,
			rapid.SampledFrom([]string{"0.3", "1", "2.5"}).Draw(t, "limit"), rapid.SampledFrom([]string{"fail", "park"}).Draw(t, "exhausted"), rapid.IntRange(1, 20).Draw(t, "wide"))
		b := &budgetRun{T: t, s: state.NewState("r", compile(t, text)), now: dawn}
		b.take(state.Start{})
		for range 80 {
			var out []*state.Token
			for _, id := range b.s.LiveTokens() {
				if x := b.s.Token(id); x.Status == workflow.Dispatched {
					out = append(out, x)
				}
			}
			if b.s.Status.Final() {
				break
			}
			if len(out) == 0 {
				b.act(&state.Token{})
				continue
			}
			x := rapid.SampledFrom(out).Draw(t, "token")
			if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
				b.act(x)
				continue
			}
			metadata := map[string]any{"cost": rapid.Float64Range(0, 0.3).Draw(t, "cost")}
			b.reported = b.reported.Plus(amount.Of(metadata))
			if rapid.Bool().Draw(t, "fails") {
				b.take(state.TaskFailed{Token: x.ID, Attempt: x.Attempt, Epoch: x.Epoch, Failure: workflow.Failure{Code: "busy"}, Metadata: metadata})
			} else {
				b.take(state.TaskCompleted{Token: x.ID, Attempt: x.Attempt, Epoch: x.Epoch, Metadata: metadata})
			}
		}
		if s := b.s; s.Status == workflow.RunRunning && s.CountByStatus(workflow.Dispatched) == 0 {
			require.Zero(t, s.CountByStatus(workflow.WaitingForBudget), "somebody waits for room, and nobody can give it back")
		}
	})
}
