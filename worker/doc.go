// Package worker hands the tasks of an engine to workers: functions of this
// process, and programs in any language that join over HTTP. A Pool is the
// coordinator, and the engine's executor:
//
//	pool, err := worker.New(worker.Options{NoToken: true}) // serves this machine
//	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: pool})
//	pool.Attach(engine) // results go there
//
//	err = pool.Start(worker.Registration{ID: "here", Capacity: 4}, pawl.Handlers{"resize": resize})
//	address, err := pool.Listen("127.0.0.1:8080") // or mount pool.Handler() yourself
//
// and in another process
//
//	c := worker.Client{URL: "http://127.0.0.1:8080", ID: "there", Capacity: 4}
//	err := c.Run(ctx, pawl.Handlers{"resize": resize})
//
// # What holds
//
//   - The queue is derived: it holds the tasks that the engine has dispatched,
//     and nothing of it is stored. When the engine is opened again it dispatches
//     what is unfinished, under the same keys, and the queue stands again.
//   - Tenants take turns at each type. Within a tenant, tasks are handed out by
//     priority, lower first, and then in the order in which the engine dispatched
//     them.
//   - A worker takes the types it registers for; "*" takes every type. A worker in
//     this process gets work up to its capacity when it registers, and at every
//     completion; a remote one gets it by polling alone. A worker that registers
//     again keeps the tasks that it holds and gets no more than its capacity leaves.
//   - A worker holds a task under a lease (60 s by default), which it renews by
//     heartbeat. A lease that expires puts the task back to the head of the queue
//     of its type, under the same key. A key has at most one live lease.
//   - Only the holder can complete a task. If nobody holds it, because the
//     coordinator was restarted, the first worker that heartbeats or completes it
//     becomes the holder. The pool answers a completion when the result is committed;
//     a repeated completion gets the same answer, and changes nothing.
//   - A task that is over, since its run was cancelled or it timed out, leaves the queue
//     at once; its holder is told at its next contact.
//   - Nothing is lost between assignment and delivery: a worker that polls names
//     the tasks on which it works, and gets again those under its lease that it
//     does not name.
//   - A handler is a function of pawl.Handlers, whose Task has the same methods in every
//     process. Large data goes by reference: Task.Put and Task.Open.
//   - Task.Once keeps outcomes in the engine's directory, for the workers of every process:
//     see pawl.Task.Once.
//
// Delivery is at least once: a worker that dies, or loses its lease, may have
// done its work. Task.EffectKey is the same in every delivery of one task.
//
// # How it is built
//
// The queue (tasks by type, leases, limits, workers) is a plain struct without goroutine,
// lock or clock: every method takes the time, and what it hands out is left in
// a list. An operation costs O(log n) in the number of queued tasks, and
// nothing in the number of workers. Pool puts a lock, a timer and the engine
// around it, Pool.Handler the protocol (worker/protocol.md), Client is the other end.
//
// In the code a queue holds the tasks that wait and those that workers hold, a workerState says
// what the queue knows of a worker, and a keyState what a key is to a worker.
package worker
