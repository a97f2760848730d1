package pawl

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/workflow"
)

// An Event tells what has changed in a run. Engine.Events lists them: those of
// a run are numbered from 1 without gaps.
type Event = decision.Event

// An EventType names what happened, as in task.completed. Its values are the
// constants of package workflow, from [workflow.EventWorkflowStarted] on.
type EventType = workflow.EventType

// A Record is one message that a run has taken, with the decisions on it.
// Engine.Journal lists them. The types of its message are internal: print it.
type Record = decision.Record
