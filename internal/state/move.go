package state

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// A RunMove is what moves a run from one status to another: the typed events of its state machine. A decision that
// changes the status names its move, and not the status that it leads to: the table has the last word.
type RunMove uint8

// The moves of a run.
const (
	MoveStart RunMove = iota
	MovePause
	MoveSuspend // an internal fault
	MoveResume  // from a pause, or a fault
	MoveComplete
	MoveFail
	MoveExpire // its time is up
	MoveCancel
)

var runMoveNames = [...]string{"start", "pause", "suspend", "resume", "complete", "fail", "expire", "cancel"}

// String returns the text form, e.g. start.
func (m RunMove) String() string { return runMoveNames[m] }

// runMoves is the run's state machine: where each move leads from each status.
// Moves that are not listed cannot happen.
var runMoves = [...]map[RunMove]workflow.RunStatus{
	workflow.RunCreated: {MoveStart: workflow.RunRunning},
	workflow.RunRunning: {
		MovePause: workflow.RunPaused, MoveSuspend: workflow.RunSuspended, MoveComplete: workflow.RunCompleted,
		MoveFail: workflow.RunFailed, MoveExpire: workflow.RunTimedOut, MoveCancel: workflow.RunCancelled,
	},
	workflow.RunPaused: {
		MoveResume: workflow.RunRunning, MoveSuspend: workflow.RunSuspended, MoveComplete: workflow.RunCompleted,
		MoveFail: workflow.RunFailed, MoveExpire: workflow.RunTimedOut, MoveCancel: workflow.RunCancelled,
	},
	workflow.RunSuspended: {MoveResume: workflow.RunRunning, MoveCancel: workflow.RunCancelled},
	workflow.RunCompleted: {}, workflow.RunFailed: {}, workflow.RunTimedOut: {}, workflow.RunCancelled: {},
}

// From returns where m leads from s, and an error that names both if it cannot
// happen there.
func (m RunMove) From(s workflow.RunStatus) (workflow.RunStatus, error) {
	if int(s) < len(runMoves) {
		if to, ok := runMoves[s][m]; ok {
			return to, nil
		}
	}
	return s, fmt.Errorf("a run that is %v cannot %v", s, m)
}
