package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Two actors of one run, which the registry does not let be: whichever commits
// behind the other's back has nothing committed, answers that the outcome is
// unknown and loads the run again. No message is lost or counts twice.
func TestTwoActorsOfARun(t *testing.T) {
	const rounds, senders = 30, 3
	e, err := Open(t.Context(), t.TempDir(), Options{Durability: ProcessCrash})
	require.NoError(t, err)
	nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{Event: "never"}}
	run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
	require.NoError(t, e.Start(t.Context(), run, nil))
	two := []*actor.Actor{e.startActor("a", nil), e.startActor("a", nil)}
	refused := 0
	var mu sync.Mutex
	for n := range rounds {
		var group sync.WaitGroup
		for k := range 2 * senders {
			group.Go(func() {
				s := state.Signal{Name: "other", Early: true, ID: fmt.Sprint(n, " ", k)}
				for {
					err := two[k%2].Ask(context.Background(), s)
					if !errors.Is(err, ErrUnknown) {
						assert.NoError(t, err)
						return
					}
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		group.Wait()
	}
	seen := map[string]int{}
	for r, err := range e.Journal(t.Context(), "a") {
		require.NoError(t, err)
		if s, ok := r.Message.(state.Signal); ok {
			seen[s.ID]++
		}
	}
	require.Len(t, seen, rounds*2*senders)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	require.Positive(t, refused, "no commit was behind another")
	require.NoError(t, e.Close(context.Background()))
	t.Logf("%d messages to two actors of a run, %d commits refused, violations: 0", rounds*2*senders, refused)
}
