package workflow

import (
	"fmt"
	"time"
)

// The reasons why a dispatched task still waits to be performed.
const (
	QueuedForSlot    = "slot"    // as many tasks run as the engine allows: Options.Concurrency
	QueuedForType    = "type"    // as many tasks of its type run as allowed: Options.Types
	QueuedForRate    = "rate"    // so many tasks of its type have begun that the next must wait: Options.Types
	QueuedForTenant  = "tenant"  // as many tasks of its tenant run as allowed: Options.Tenants
	QueuedForResults = "results" // its run has so many uncommitted results that it starts no further task
	QueuedForWorker  = "worker"  // it is in a pool, and no worker has taken it
)

// A Queued says how a dispatched task waits to be performed.
type Queued struct {
	For   string    `json:"for"`            // slot, type, rate, tenant, results or worker
	Since time.Time `json:"since"`          // since when it waits, in this life of the engine
	Place int       `json:"place,omitzero"` // place in the queue, from 1, by priority and arrival: turns of runs and tenants may change it; 0 if unknown
	Of    int       `json:"of,omitzero"`    // how many wait in that queue: those of its type, of its tenant, or all
}

// String returns Reason and since when the task waits, in RFC 3339.
func (q Queued) String() string { return q.Reason() + ", since " + q.Since.UTC().Format(time.RFC3339) }

// Reason says in words what the task waits for, and its place in the queue if it is known.
func (q Queued) Reason() string {
	text := map[string]string{
		QueuedForSlot: "queued for a slot of the engine", QueuedForType: "queued for the limit of its type", QueuedForRate: "queued for the rate of its type",
		QueuedForTenant: "queued for the limit of its tenant", QueuedForResults: "queued until results of its run are committed", QueuedForWorker: "queued for a worker",
	}[q.For]
	if q.Place > 0 {
		text += fmt.Sprintf(", %d of %d in line", q.Place, q.Of)
	}
	return text
}
