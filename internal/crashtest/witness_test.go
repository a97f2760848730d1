package crashtest

import "github.com/pawl-run/pawl/internal/crashtest/witness"

type (
	ledger   = witness.Ledger
	entry    = witness.Entry
	snapshot = witness.Snapshot
)

const (
	started   = witness.Started
	begins    = witness.Begins
	ends      = witness.Ends
	answered  = witness.Answered
	cancelled = witness.Cancelled
	ended     = witness.Ended
	closed    = witness.Closed
	copying   = witness.Copying
	copied    = witness.Copied
)

var (
	openLedger  = witness.OpenLedger
	readLedger  = witness.ReadLedger
	outcomeText = witness.OutcomeText
	take        = witness.Take
	takeFrom    = witness.TakeFrom
	check       = witness.Check
	repeated    = witness.Repeated
)
