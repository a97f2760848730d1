package pawlnats

import (
	"encoding/json"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
)

// The requests of a worker, and the answer.
type (
	// Worker is the id of the sender. The pool believes
	// it: the permissions of NATS decide who may publish here.
	doneMessage struct {
		Worker string `json:"worker"`
		remote.Completion
	}
	beatMessage struct {
		Worker  string          `json:"worker"`
		Key     pawl.Key        `json:"key"`
		Claim   bool            `json:"claim,omitempty"` // the task was just delivered
		Details json.RawMessage `json:"details,omitempty"`
		Blob    string          `json:"blob,omitempty"` // hash of one that the task has put
	}
	onceMessage struct {
		Worker string `json:"worker"`
		remote.OnceMessage
	}
	dropMessage struct {
		Key pawl.Key `json:"key"`
	}
	reply struct {
		Status  string            `json:"status"`
		Message string            `json:"message,omitempty"`
		Once    *remote.OnceReply `json:"once,omitempty"`
	}
)

// The values of Status in a reply.
const (
	statusTaken   = "taken"   // it is committed, or the task is wanted
	statusOver    = "over"    // the attempt is over: drop it
	statusOther   = "other"   // another worker holds it
	statusInvalid = "invalid" // not what the request takes
	statusBusy    = "busy"    // ask again
)
