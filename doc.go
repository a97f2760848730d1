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
// Not promised: exactly-once side effects, support for network file systems, or full recovery
// of damaged files. A damaged file is refused, never used; rescue.Repair restores the records
// that can still be read in it.
//
// A host need not trust the authors of definitions and inputs if it sets the bounds that
// docs/untrusted.md lists.
//
// # Stability
//
// The API is this package with workflow, build, blob, commitlog, history, handler, worker, api, schedule and pawltest:
// their signatures name no type of other packages of pawl. Promised as well are aesgcm, inspector, and Open of
// store/folderlog.
//
// All other packages are open to read, and may change: actor, cluster, decision, merge,
// planning, replay, rescue, soundness, store, timeout, and the modules nats, pg and pawlsql. The
// state that planners plan on is internal.
//
// # Glossary
//
//   - definition: a directed graph of nodes and transitions, with a name and a
//     version. (process model, WfMC)
//   - node: a step: task, subworkflow, approval, wait, gateway, end. (activity)
//   - transition: an edge from node to node, as in WfMC, XPDL and jPDL; not a
//     transition of a Petri net.
//   - run: one execution of a definition. (process instance, case)
//   - token: one thread of execution in a run; it is at a node. Pages, commands and the
//     documentation say thread, because "token" means something else to users of language models.
//   - fan-out, group, branch: a fan-out makes a group of branches; a branch is
//     everything that grew from one of them. (multiple instances)
//   - join, fan-in: where branches meet: all of them (AND-join), any
//     (discriminator) or m of n (partial join).
//   - node join: where tokens meet that came by different transitions: all
//     (AND-join) or synchronize (OR-join, general synchronizing merge).
//   - dag: a definition whose nodes run at most once, each as soon as its incoming
//     transitions allow it; a step is the state of one node in one run; a dead path
//     is a path that was not taken.
//   - child, parent, root: a run that a subworkflow node started, the run of
//     that node, and the topmost run; pins: the versions of child definitions,
//     fixed when the root run starts.
//   - signal: an event from outside, kept until a token takes it. (trigger)
//   - approval, vote, quorum: a wait for the decision of people, the answer of one
//     of them, and how many equal answers decide it.
//   - lock: a named right that one token of a run holds at a time. (critical section)
//   - straggler: a branch that still runs when its join has fired.
//   - scope: where data is visible: the run, or one branch.
//   - message: an input to a run, such as a start, a result, an alarm or a cancel; a
//     run handles one message at a time.
//   - plan, decision, effect: a planner answers a message with a plan, a list of
//     decisions; each is one change to the run; an effect is a decision that also
//     sends something out of the actor, such as a task.
//   - record, journal: a message with its decisions; all records of a run, in sequence.
//   - attempt, key: one execution of a task, and its name.
//   - worker, pool, lease: a worker performs tasks; a pool hands them out (package
//     worker); a lease is the right to complete a task, for a limited time. (task
//     list, job queue)
//   - simulation: a copy of a run, to try acts on. dry run: a call that only says what it would do.
//   - dead letter: a task whose attempts are used up, parked for an operator.
//   - epoch: one life of an engine on its directory.
//   - feed, outbox: a feed publishes the events of runs to other systems; events that
//     are committed and not yet published are in the outbox, a table of the directory.
//   - remote directory: a directory whose commits become valid once an external log holds
//     them; base: a full copy, to which later log entries apply. (checkpoint)
//   - to activate, to passivate: to load a run into memory; to drop it from memory.
//   - to flush: to write the state of a run to its file, and so move it out of the log.
//   - backpressured: a run with so many results waiting to be committed that it begins no
//     further task.
//   - stalled: a run that makes no progress and waits for nothing.
package pawl
