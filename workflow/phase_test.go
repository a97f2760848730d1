package workflow

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The run's state machine, as SEMANTICS has it: from everything that goes on a
// run may end; the end is final; only a run that is held is resumed.
func TestRunMoves(t *testing.T) {
	const last = MoveCancel
	for s := RunCreated; s <= RunCancelled; s++ {
		for m := MoveStart; m <= last; m++ {
			to, err := s.Next(m)
			goesOn := s == RunRunning || s == RunPaused
			held := s == RunPaused || s == RunSuspended
			want := false
			switch m {
			case MoveStart:
				want = s == RunCreated
			case MovePause:
				want = s == RunRunning
			case MoveSuspend, MoveComplete, MoveFail, MoveExpire:
				want = goesOn
			case MoveResume:
				want = held
			case MoveCancel:
				want = goesOn || s == RunSuspended
			}
			require.Equal(t, want, err == nil, "%v %v", s, m)
			if err != nil {
				require.Equal(t, s, to)
				require.ErrorContains(t, err, s.String())
				require.ErrorContains(t, err, m.String())
			}
		}
		for m := MoveStart; s.Final() && m <= last; m++ {
			_, err := s.Next(m)
			require.Error(t, err)
		}
	}
}
