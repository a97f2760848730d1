package workflow

import (
	"fmt"
	"time"
)

// The reasons why a dispatched task waits while nobody performs it yet.
const (
	QueuedForSlot    = "slot"    // the engine performs as many tasks as it may at once: Options.Concurrency
	QueuedForType    = "type"    // as many tasks of its type are performed as may be: Options.Types
	QueuedForRate    = "rate"    // of its type so many tasks have begun that the next one comes later: Options.Types
	QueuedForTenant  = "tenant"  // of its tenant as many tasks are performed as may be: Options.Tenants
	QueuedForResults = "results" // its run has so many results to commit that no further task of it begins
	QueuedForWorker  = "worker"  // it is in a pool, and no worker has taken it
)

// A Queued says how a task waits that is dispatched, and that nobody performs yet.
type Queued struct {
	For   string    `json:"for"`            // slot, type, rate, tenant, results or worker
	Since time.Time `json:"since"`          // it waits in this life of the engine
	Place int       `json:"place,omitzero"` // in line, from 1, by priority and arrival: turns of runs and tenants may change it; 0 if it is not known
	Of    int       `json:"of,omitzero"`    // how many wait in that line: of its type, of its tenant, or all
}

// String says it in words.
func (q Queued) String() string { return q.Reason() + ", since " + q.Since.UTC().Format(time.RFC3339) }

// Reason says in words for what it waits and at which place, but not since when.
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
