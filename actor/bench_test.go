package actor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
)

// A sink is a store that encodes what it is given, and forgets it.
type sink struct{ graph *compiled.Graph }

func (s sink) Load() (*state.State, int64, []decision.Event, error) {
	return state.NewState("r", s.graph), 0, nil, nil
}

func (s sink) Commit(_ *state.State, records []decision.Record, _ []decision.Blob, _ []decision.Told) error {
	for _, r := range records {
		if _, err := r.Encode(); err != nil {
			return err
		}
	}
	return nil
}

func (s sink) Flush(_ state.Changes, _ [][]decision.Told, done func(error)) { done(nil) }
func (s sink) Unflushed() (records int, bytes int64, roomy bool)            { return 0, 0, false }
func (s sink) Bytes() int64                                                 { return 0 }
func (s sink) Close() error                                                 { return nil }

// BenchmarkChain measures what a chain of 1,000 tasks costs outside of its store: planning, applying,
// encoding, and the turns of the actor.
func BenchmarkChain(b *testing.B) {
	const length = 1000
	text := &strings.Builder{}
	text.WriteString("name: chain\nstart: n0\nnodes:\n")
	for i := range length {
		fmt.Fprintf(text, "  - {id: n%d, task: work}\n", i)
	}
	text.WriteString("transitions:\n")
	for i := range length - 1 {
		fmt.Fprintf(text, "  - {from: n%d, to: n%d}\n", i, i+1)
	}
	s := sink{graph(b, text.String())}
	b.ReportAllocs()
	for b.Loop() {
		var sent actor.Dispatch
		a := actor.New("r", s, &office{perform: func(x actor.Dispatch) { sent = x }}, options())
		go a.Run(b.Context())
		require.NoError(b, a.Ask(b.Context(), state.Start{}))
		require.NoError(b, a.Look(b.Context(), func(*state.State, int64) {})) // the turn is over
		for range length {
			require.NoError(b, deliverTo(a)(b.Context(), completed(sent)))
		}
		<-a.Done()
	}
}
