// Package tracing makes the spans of an engine, for a trace.TracerProvider of OpenTelemetry.
//
// # The form of a trace
//
// A run may last for weeks, and a span is exported when it ends. So no span of a run stands around the others:
//
//   - "start WORKFLOW" has the caller's span as its parent, lasts an instant, and ends when the commit of the run begins. It is the parent
//     of all that the run does. Its context is in the message that begins the run (state.Trace) and so among the facts of the run:
//     attempts after a restart or a take-over have the same parent, and it was exported before they could be. If the message is refused
//     there is no such span, as there is no such run.
//   - "task TYPE" is one attempt, around its handler, whose context is in the span. It is begun, as of the instant at which the handler
//     was, when the handler asks its context for a span, and else when the attempt is over.
//   - "wait KIND", "join", and "run WORKFLOW" are made when they have ended, with the instants of the journal. They are siblings
//     of the attempts. Tasks that workers of a pool perform are such, too: their handlers have the start span as their
//     parent, which exists whatever becomes of the engine meanwhile. If an executor of the host makes a span around the pool, that is
//     below a span of the attempt that ends, pending, when the pool has taken it.
//
// A child run has the trace of its parent. A run whose start is longer ago than Options.LinkAfter has attempts and waits that begin
// traces of their own, each with a link to the start, since back ends keep no trace open for so long; a child of such a run, and a fork,
// have a start span of their own that links to that of the other run. A run that was started without a provider has no start
// span: its spans begin traces, without links.
//
// # Promises
//
// A span is made by a commit. Replays, simulations, Why, plans of forks and Open make none. The span of an attempt ends when its result is committed, with the instant at which the
// handler had returned. Its outcome is that of the journal, whatever the handler has returned; if nobody knows whether the commit took
// effect (ErrUnknown), it may be cancelled, as metrics count it. Waits and runs are made behind the commit that has ended them. So a crash loses the spans of commits
// that nobody has told the exporter of, and none comes twice: an attempt that is performed again after a crash has ended no
// span before. Spans below which a handler has none, and those of waits and runs, are told many at a time (a lateList), and are lost with what
// the exporter had not sent. Two exceptions follow from what a handler did: an attempt that Close has interrupted has a span, since its handler's
// own spans are below it, and another when it is performed again; and so has one that returned ErrPending and is handed out again
// after a restart. A call of Start whose commit fails, or is interrupted by a crash, has made a start span; repeated, it makes
// another. A caller who leaves before the refusal leaves one, too. A fork has a start span before it is asked whether there is room for it.
//
// # Bounds
//
// The instants at which waits have begun are kept in memory, up to maxStays of them. Where a wait is older
// than this life of the engine, the events of the run tell when it ends, read in the background, of up to maxReads runs at a time, for up
// to maxUnread waits. Beyond these bounds waits have no span.
//
// Values of runs never get into spans: only ids, names, counts and codes of errors, and the attributes gen_ai.* of the metadata
// that handlers report.
//
// # Cost
//
// Without a provider the Tracer is nil, whose methods do nothing and allocate nothing. A span costs the SDK about 3 us; what comes on top
// are the two above, which spare half of the allocations, and the waking of the processor of spans for each.
package tracing
