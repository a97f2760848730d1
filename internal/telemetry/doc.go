// Package telemetry counts what an engine does, for a metric.MeterProvider of OpenTelemetry.
//
// # Names
//
// A Metrics has the instruments of one engine. A nil *Metrics counts nothing: every method of it does nothing on nil, which is
// all that an engine without a provider pays. The table instruments says, for each instrument, its name, kind, unit, labels
// and meaning; docs/metrics.md has a row for each, and a test holds both together. Nobody else in the module names an
// instrument. The spans of an engine are made in internal/tracing.
//
// There are two kinds of figures:
//
//   - Counters and histograms say what has happened. The engine calls a method when it has: Committed after a commit, TaskEnded
//     when an attempt is over, and so on. They are of this life of this process: add them up over processes.
//   - Gauges say what stands. A collection calls Sources, which answer from memory, under locks that are held for moments and
//     never while the disk works. No metric reads the database, and a disk that hangs does not keep a collection waiting.
//
// # Promises
//
// Runs and attempts are counted after the commit that decides about them, from the events of its records: a change that a
// crash has taken back was never counted, a task that is sent again after a restart counts once, and a message that the run
// has refused does not count. So the counters of all lives of a directory add up to what the journals of its runs say,
// but for a commit whose outcome nobody knows (ErrUnknown) and for what was committed by a process that died before it
// counted. A replay, a simulation and Why count nothing, since they commit nothing.
//
// # Labels
//
// A label whose values are names of the host's choice (workflow, task.type, error.type, report.name, tenant) has at most MaxNames values
// in a life of the engine; each further name counts as Other. An instrument has at most maxSeries combinations of labels; from
// then on all names of a new one are Other. The ids of runs, tokens and keys are never labels. Tenants are labels only if
// Options.Tenants says so.
//
// # Cost
//
// Attribute sets are made once for each combination of labels and kept with the options that the API takes, so that an event
// allocates nothing here. A method takes a lock for readers, looks up each label and the combination, and calls the API. The SDK takes
// longer for that than everything here: so the histograms of what an engine does itself get a part of their values if there are more than
// MaxSamples a second (a sampler), and records are counted when they are collected.
package telemetry
