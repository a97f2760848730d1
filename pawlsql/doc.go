// Package pawlsql lets a host start, signal and cancel runs in a transaction of its own database, and lets a task change that
// database exactly once.
//
// An [Outbox] has two small tables in the host's database. [Start], [Signal] and [Cancel] write a row in the caller's
// transaction:
//
//	outbox, err := pawlsql.New(db, pawlsql.PostgreSQL, pawlsql.Options{})
//	...
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, item) VALUES ($1, $2)", id, item)
//	err = pawlsql.Start(ctx, outbox.In(tx), workflow.Run{ID: id, Workflow: "order"}, order)
//	err = tx.Commit()
//
// If it is rolled back nothing has happened. If it commits the engine gets the call: [Outbox.Run], in every process that has
// an engine, takes the rows of committed transactions, in the order of each run, makes the calls and deletes the rows. A call that the
// engine refuses stays as a row with the code of its error: see [Outbox.Refused], [Outbox.Retry] and [Outbox.Drop].
//
// [Once] is for handlers: it keeps the outcome of a function in the transaction in which the function works, under the key of the
// task, so that a repeated attempt has the outcome and not a second effect.
//
// PostgreSQL, MySQL, MariaDB and SQLite are supported, with any driver of database/sql; package pawlpgx has transactions and
// notifications of pgx. README.md has the guarantees, the schema and how to operate it.
package pawlsql
