package replay_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// dawn is when the runs of tests begin.
var dawn = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// A recorder plays a run and keeps its journal, without an engine.
type recorder struct {
	t       *testing.T
	state   *state.State
	graph   *compiled.Graph
	now     time.Time
	records []decision.Record
}

func compile(t *testing.T, yaml string) *compiled.Graph {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	return g
}

// record starts a run.
func record(t *testing.T, id workflow.RunID, yaml string, input map[string]any) *recorder {
	t.Helper()
	g := compile(t, yaml)
	r := &recorder{t: t, state: state.NewState(id, g), graph: g, now: dawn}
	r.state.Epoch = 7
	r.send(state.Start{Input: input})
	return r
}

func (r *recorder) send(m state.Message) {
	r.t.Helper()
	plan, err := planning.Step(r.state, m, r.now)
	require.NoError(r.t, err)
	rec := decision.Record{Seq: int64(len(r.records) + 1), At: r.now, Epoch: 7, Planner: planning.Version, Message: m, Decisions: plan.Decisions}
	for _, d := range plan.Decisions {
		decision.Apply(r.state, d, &rec)
	}
	r.records = append(r.records, rec)
}

// at returns the k-th token whose task runs at a node, from 0.
func (r *recorder) at(node workflow.NodeID, k int) *state.Token {
	r.t.Helper()
	for _, id := range r.state.LiveTokens() {
		if tok := r.state.Token(id); tok.Node == node && tok.Status == workflow.Dispatched {
			if k == 0 {
				return tok
			}
			k--
		}
	}
	r.t.Fatalf("nothing runs at %s", node)
	return nil
}

// complete answers the task of the k-th live token at a node, a second later.
func (r *recorder) complete(node workflow.NodeID, k int, output any) {
	r.t.Helper()
	tok := r.at(node, k)
	r.now = r.now.Add(time.Second)
	r.send(state.TaskCompleted{Token: tok.ID, Attempt: tok.Attempt, Epoch: tok.Epoch, Output: output})
}

// fail lets the task of the first live token at a node fail, a second later.
func (r *recorder) fail(node workflow.NodeID, code string) {
	r.t.Helper()
	tok := r.at(node, 0)
	r.now = r.now.Add(time.Second)
	r.send(state.TaskFailed{Token: tok.ID, Attempt: tok.Attempt, Epoch: tok.Epoch, Failure: workflow.Failure{Code: code, Message: code}})
}

func (r *recorder) recording() *replay.Recording {
	return replay.New(r.state.Run, r.graph, func(yield func(decision.Record, error) bool) {
		for _, rec := range r.records {
			if !yield(rec, nil) {
				return
			}
		}
	})
}

// order is the definition of the runs that the tests play.
const order = `
name: order
version: 3
start: validate
nodes:
  - {id: validate, task: work}
  - {id: quote, task: work, input: {of: item}}
  - {id: check, task: work}
  - {id: ship, task: work, output: {output.shipped: result}}
  - {id: approve, task: work}
  - {id: refund, task: work}
transitions:
  - {from: validate, to: quote, foreach: {collection: input.of, as: of}, siblingGroup: quotes}
  - {from: quote, to: check, synchronization: {siblingGroup: quotes, strategy: all, merge: {source: result.price, target: state.prices, strategy: append}}}
  - {from: check, to: ship, condition: result.score > 0.8}
  - {from: check, to: approve, priority: 1}
  - {from: ship, to: refund, outcome: error}
`

// playOrder plays a run of order in which check gives a score; the prices are those of the
// quotes.
func playOrder(t *testing.T, id workflow.RunID, score float64, prices ...int) *recorder {
	of := make([]any, len(prices))
	for i := range of {
		of[i] = int64(i)
	}
	r := record(t, id, order, map[string]any{"of": of})
	r.complete("validate", 0, map[string]any{"ok": true})
	for i := range prices {
		r.complete("quote", 0, map[string]any{"price": int64(prices[i])})
	}
	r.complete("check", 0, map[string]any{"score": score})
	if score > 0.8 {
		r.complete("ship", 0, "done")
	}
	return r
}

// otherEpoch returns a result as one of another life of the engine.
func otherEpoch(m state.Message) state.Message {
	result := m.(state.TaskCompleted)
	result.Epoch++
	return result
}

// bytesOf returns how much memory something takes, what is given back included.
func bytesOf(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
