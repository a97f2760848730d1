// Package pg keeps the log, the bases, the blobs and the lease of engine directories in a PostgreSQL database: a
// directory outlives its machine, and two processes with one database take over from each other (package cluster).
//
//	db, err := pg.Open(ctx, "postgres://pawl@db/app", pg.Options{})
//	err = db.Migrate(ctx)
//	backend, err := db.OpenBackend(ctx, "orders")
//	node, err := cluster.Open(ctx, "data", backend, cluster.Options{Engine: options})
//
// README.md has the guarantees, the settings of the server, and what a pooler or a standby needs.
package pg
