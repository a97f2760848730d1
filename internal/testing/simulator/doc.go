// Package simulator plays drawn workflows on the real engine and real files in
// virtual time, with everything that may go wrong drawn from one seed. All of it
// is in the tests of this package:
//
//   - generator draws definitions: structured nets of every kind of node, group
//     and join, dags, parents and children, and changes to them that may make no
//     sense.
//   - world owns time. It lets one thing happen at a time: an actor takes what has
//     come for it, the executor answers a task, an operator acts, time passes, the
//     process crashes.
//   - executor performs tasks: it answers late, twice, with errors, panics and
//     invalid values, or not at all.
//   - act is something that an operator, a host or a stranger does to a run. Before it is done it is tried on
//     a simulation of the run, and the record and the answer that it leads to are compared with those of the trial.
//   - model replays the journal of one run, record by record as they are committed,
//     and checks what must hold after each.
//   - original is a run without faults that is forked as of each of its records. Its messages come to the fork,
//     which must end as it did.
//
// A life of a seed has two phases. In the first, the safety phase, anything may
// happen. In the second, the liveness phase, faults stop, everything that a run
// waits for comes, and every run must end.
//
// Everything that happens is a line of the trace, and the same seed gives the same
// trace, whatever the scheduler does: messages are delivered one after another, and
// who is where when the process crashes is decided by virtual time. Each line is drawn for the number of its step, so that a shorter life is
// a prefix of a longer one: that is how a failure is shrunk.
package simulator
