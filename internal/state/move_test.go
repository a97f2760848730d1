package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// The run's state machine, as SEMANTICS has it: from everything that goes on a
// run may end; the end is final; only a run that is held is resumed.
func TestRunMoves(t *testing.T) {
	const last = MoveCancel
	for s := workflow.RunCreated; s <= workflow.RunCancelled; s++ {
		for m := MoveStart; m <= last; m++ {
			to, err := m.From(s)
			goesOn := s == workflow.RunRunning || s == workflow.RunPaused
			held := s == workflow.RunPaused || s == workflow.RunSuspended
			want := false
			switch m {
			case MoveStart:
				want = s == workflow.RunCreated
			case MovePause:
				want = s == workflow.RunRunning
			case MoveSuspend, MoveComplete, MoveFail, MoveExpire:
				want = goesOn
			case MoveResume:
				want = held
			case MoveCancel:
				want = goesOn || s == workflow.RunSuspended
			}
			require.Equal(t, want, err == nil, "%v %v", s, m)
			if err != nil {
				require.Equal(t, s, to)
				require.ErrorContains(t, err, s.String())
				require.ErrorContains(t, err, m.String())
			}
		}
		for m := MoveStart; s.Final() && m <= last; m++ {
			_, err := m.From(s)
			require.Error(t, err)
		}
	}
}
