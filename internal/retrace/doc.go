// Package retrace makes the trace of a run from its journal, afterwards: also of runs whose spans nobody has recorded.
//
// # The form
//
// Unlike the spans that an engine makes while it works (internal/tracing), these are nested, for the ends are known:
//
//	run order
//	└ join g                 a fan-out, until its branches have met
//	  └ node quote           a token, from when it was made until it ended
//	    ├ task quote         an attempt, from when somebody began to perform it
//	    ├ wait operator
//	    └ run below          a child run
//
// # Identity
//
// The trace has the id under which the run was started, and "run order" has the start span as its parent, so that a back end shows both
// together. Where the run has no trace, the id is a hash of the id of its root. The ids of spans are hashes of the run and the
// token, group or attempt: made again, a trace is the same, byte for byte. Neither depends on whether a provider was there.
//
// A span of what goes on ends with the last record, and has the attribute pawl.unfinished. Instants are those of the journal, in whole
// milliseconds; the begin of an attempt is known where its result has come. Values of the run are never told.
//
// # Cost
//
// The journal is applied once, not planned. A run of 10,000 branches has some 30,000 spans, in memory.
package retrace
