package planning_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/forking"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A rerun keeps a result for a token of the same descent and for no other, and sends nothing again that has completed in the
// forked run and has the same descent here, unless it is refused.
func TestRerunKeepsResultsByDescent(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		p := newPlayer(t, drawNet(t))
		p.failures = rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "failures")
		if _, err := p.send(state.Start{Input: map[string]any{"n": int64(1)}}); err != nil {
			t.Fatalf("%v", err)
		}
		for most := rapid.IntRange(2, 60).Draw(t, "most"); !p.state.Status.Final() && len(p.journal) < most; {
			m := p.draw(t)
			if c, ok := m.(state.TaskCompleted); ok {
				c.Metadata = map[string]any{"of": int64(c.Token)} // by which the result is known in the fork
				m = c
			}
			if _, err := p.send(m); err != nil {
				break // a skip whose output does not fit
			}
		}
		records := recordsOf(p)
		source, err := store.NewForkSource(store.Head{Run: "r", Status: p.state.Status}, p.graph, records)
		if err != nil {
			t.Fatalf("%v", err)
		}
		was := descents(p.graph, records)
		for range 4 {
			m := state.RunForked{Run: "f", From: workflow.ForkPoint{Run: "r"}, Token: workflow.TokenID(rapid.IntRange(1, int(p.state.NextToken)-1).Draw(t, "token"))}
			f, err := forking.Plan(source, m, epoch0, p.now.Add(time.Hour))
			var ended *forking.Error
			var limit *workflow.LimitError
			switch {
			case errors.Is(err, refusal.ErrAgain), errors.As(err, &ended), errors.As(err, &limit):
			case err != nil:
				t.Fatalf("rerun from %v: %v", m.Token, err)
			default:
				checkRerun(t, p, f, was)
			}
		}
	})
}

// recordsOf returns the journal of a player.
func recordsOf(p *player) (records []decision.Record) {
	for _, e := range p.journal {
		r, err := e.Decode(e.Values.Lookup)
		if err != nil {
			p.t.Fatalf("decode record %d: %v", e.Seq, err)
		}
		records = append(records, r)
	}
	return records
}

// checkRerun checks what a rerun of the run of a player has kept and sent, given the descents of the run's tokens.
func checkRerun(t *rapid.T, p *player, f *forking.Fork, was map[workflow.TokenID]string) {
	is, made := descents(p.graph, f.Records), f.Records[len(f.Records)-1].Decisions
	for _, d := range made {
		var id workflow.TokenID
		var metadata map[string]any
		switch d := d.(type) {
		case decision.CompleteToken:
			id, metadata = d.Token, d.Metadata
		case decision.AwaitSiblings:
			id, metadata = d.Token, d.Metadata
		default: // completes no node
		}
		if of, ok := metadata["of"].(int64); ok && was[workflow.TokenID(of)] != is[id] {
			t.Fatalf("rerun from %v: the result of t%d is that of %v:\n%s", f.Message.Token, of, id, text(decision.Plan{Decisions: made}))
		}
	}
	if from := f.State.Token(f.Message.Token); from == nil || from.Status != workflow.Dispatched {
		return // it went on in the record that made it, or a join has cancelled it
	}
	for id := workflow.GroupID(1); id < p.state.NextGroup; id++ {
		if g := p.state.Group(id); g.Phase == workflow.Fired && g.Ended+g.Failed > 0 {
			return // its join may have waited for the token, although its descent does not say so
		}
	}
	open, known := map[string]int{}, map[string]bool{}
	for id, descent := range was {
		known[descent] = true
		if s := p.state.Token(id).Status; id == f.Message.Token || s != workflow.Completed && s != workflow.WaitingForSiblings {
			open[descent]++
		}
	}
	for _, id := range f.State.LiveTokens() {
		if f.State.Token(id).Status != workflow.Dispatched || !known[is[id]] {
			continue
		}
		if open[is[id]]--; open[is[id]] < 0 {
			t.Fatalf("rerun from %v: %v is sent again:\n%s", f.Message.Token, id, text(decision.Plan{Decisions: made}))
		}
	}
}

// descents returns from what the tokens of a run have come: equal texts are equal ways. The tokens that meet at a join are part
// of it.
func descents(g *compiled.Graph, records []decision.Record) map[workflow.TokenID]string {
	s, out := state.NewState("r", g), map[workflow.TokenID]string{}
	note := func(id workflow.TokenID, from ...any) {
		out[id] = fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(from...))))
	}
	var met []string // at the join behind which the next token continues
	for i := range records {
		for _, d := range records[i].Decisions {
			switch d := d.(type) {
			case decision.FireGroup:
				met = append([]string{"fired"}, arrivals(s, d.Group, out)...)
			case decision.FailGroup:
				met = []string{"failed", d.Failure.Code}
			case decision.FailBranch:
				met = nil
			case decision.FireJoin:
				for _, id := range d.Tokens {
					met = append(met, out[id])
				}
				slices.Sort(met)
			case decision.CreateToken:
				parent := out[d.Token.Parent]
				if len(met) > 0 && met[0] != "fired" && met[0] != "failed" {
					parent = "" // it is one of them
				}
				note(d.Token.ID, d.Token.Node, parent, met)
				met = nil
			case decision.CreateBranches:
				for i := range d.Group.Total {
					note(d.Group.First+workflow.TokenID(i), d.Group.Name, i, out[d.Group.Origin])
				}
			default: // makes no token
			}
			decision.Apply(s, d, &records[i])
		}
	}
	return out
}

// arrivals returns the descents of the tokens that have come to the join of a group, by branch.
func arrivals(s *state.State, id workflow.GroupID, descent map[workflow.TokenID]string) (out []string) {
	for i := range s.Group(id).Total {
		sc := workflow.Scope{Group: id, Branch: i}
		if s.Branch(sc).Status != state.BranchArrived {
			continue
		}
		for _, id := range s.TokensInScope(sc) {
			if t := s.Token(id); t.Scope == sc && t.Status == workflow.WaitingForSiblings {
				out = append(out, fmt.Sprint(i, descent[id]))
			}
		}
	}
	return out
}
