// Package pawl is an embeddable engine for durable workflows. A definition is
// data: nodes and transitions, conditions in CEL, fan-out and fan-in, loops,
// subworkflows, timers, events, approvals, retries. Each run is an actor with a
// private SQLite file. A call that was acknowledged survives the death of the process
// and the loss of power.
//
//	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: handlers})
//	defer engine.Close(ctx)
//
//	run := workflow.Run{ID: "order-42", Definition: def}
//	err = engine.Start(ctx, run, input)         // durable when it returns
//	outcome, err := engine.Wait(ctx, run.ID)    // works after a restart as well
//
// # How it works
//
// A message to a run goes to pure planners (package planning), which return
// decisions as data (package decision). An applier commits them in one
// transaction (package store); only then do effects leave (package actor).
// Planners read no clock and do no I/O, so a run can be replayed from its
// journal, decision by decision.
//
// # What is promised
//
//   - An acknowledged call survives kill -9, and with PowerLoss the loss of
//     power, on a disk that honours fsync.
//   - A message is applied whole or not at all.
//   - Decisions are made exactly once. Tasks are dispatched at least once, under
//     a key that stays the same: their effects happen exactly once only if the
//     handler makes them so, by EffectKey.
//   - Recovery needs no shutdown: Open continues where the last process stopped.
//
// Not promised: exactly-once effects outside, network file systems, and that a damaged
// file loses nothing. A damaged file is refused, never followed; rescue.Repair restores the
// records that are left in it.
//
// A host need not trust the authors of definitions and inputs, if it sets the bounds that
// docs/untrusted.md lists.
//
// # Stability
//
// The API is this package with workflow, build, blob, commitlog, history, handler, worker, api, schedule and pawltest:
// their signatures name no type of other packages of pawl, but where TestFace in internal/lint
// lists one. Promised as well are aesgcm, inspector, and Open of store/folderlog.
//
// All other packages are open to read, and may change: actor, cluster, decision, merge,
// planning, replay, rescue, soundness, store, timeout, and the modules below nats. The state that
// planners plan on is internal.
//
// # Glossary
//
//   - definition: a directed graph of nodes and transitions, with a name and a
//     version. (process model, WfMC)
//   - node: a step: task, subworkflow, approval, wait, gateway, end. (activity)
//   - transition: an edge from node to node, as in WfMC, XPDL and jPDL; not a
//     transition of a Petri net.
//   - run: one execution of a definition. (process instance, case)
//   - token: one thread of execution in a run; it is at a node. Pages, the command and what
//     people read call it a thread, as models count tokens.
//   - fan-out, group, branch: a fan-out makes a group of branches; a branch is
//     everything that grew from one of them. (multiple instances)
//   - join, fan-in: where branches meet: all of them (AND-join), any
//     (discriminator) or m of n (partial join).
//   - node join: where tokens meet that came by different transitions: all
//     (AND-join) or synchronize (OR-join, general synchronizing merge).
//   - dag: a definition whose nodes run at most once, by in-degree; a step is
//     one of its nodes as a run sees it; a dead path is one not taken.
//   - child, parent, root: a run that a subworkflow node started, the run of
//     that node, and the first of all; pins are the definitions below a root.
//   - signal: an event from outside, kept until a token takes it. (trigger)
//   - approval, vote, quorum: a wait for people, what one of them says, and how
//     many must say the same.
//   - lock: a named right that one token of a run holds at a time. (critical section)
//   - straggler: a branch that still runs when its join has fired.
//   - scope: where data is visible: the run, or one branch.
//   - message: a run receives them one after another: a start, a result, an alarm,
//     a cancel.
//   - plan, decision, effect: a planner answers a message with a plan, a list of
//     decisions; each is one change to the run; an effect is a decision that also
//     sends something out of the actor, such as a task.
//   - record, journal: a message with its decisions; all of them, in sequence.
//   - attempt, key: one execution of a task, and its name.
//   - worker, pool, lease: a worker performs tasks; a pool hands them out (package
//     worker); a lease is the right to complete one, for a time. (task list, job
//     queue)
//   - simulation: a copy of a run, to try acts on. dry run: a call that only says what it would do.
//   - dead letter: a task whose attempts are used up, parked for an operator.
//   - epoch: one life of an engine on its directory.
//   - feed, outbox: a feed publishes the events of runs to others; those that are
//     committed and not published yet are in the outbox, a table of the directory.
//   - remote directory: one whose commits count when a log outside of it has them; base: a
//     complete copy of a directory, from which a log goes on. (checkpoint)
//   - to activate, to passivate: to bring a run into memory; to let it go.
//   - to flush: to write the state of a run, which its records in the log have
//     changed, to its file.
//   - backpressured: of a run so many of whose results wait to be committed that no
//     further task of it begins.
//   - stalled: of a run that makes no progress and waits for nothing.
package pawl
