// Package natspool gives the tasks of one engine to workers on many machines, over a work queue of
// NATS JetStream. A Pool is the executor of the engine; a Worker performs tasks with the
// same pawl.Handlers as everywhere. nats/README.md has the settings, and what is lost when.
//
//	pool, err := natspool.New(ctx, conn, natspool.Options{})
//	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: pool})
//	pool.Attach(engine)
//
// (the nodes of a cluster have cluster.Options.Pool for that) and on any other machine:
//
//	err := (&natspool.Worker{Conn: conn, Capacity: 8}).Run(ctx, handlers)
//
// The engine's directory is the truth, and the stream, which is in the memory of the servers, a
// copy of what is out: the pool publishes it again when it is lost. The first result of
// an attempt counts, however many workers had it.
package natspool
