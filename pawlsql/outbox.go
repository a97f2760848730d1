package pawlsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
)

// Options configure an outbox. The zero value of every field works.
type Options struct {
	// Calls and Effects are the names of the tables, with that of a schema before it where the tables are not in the one of the
	// connection: pawl_calls and pawl_effects by default. They differ in more than case. Two engines need tables of their own, unless both may make
	// any call and the ids of their runs differ.
	Calls, Effects string
	// Poll is the time between two looks for calls, where nobody has said that there are some, and no pause or lease of one ends sooner; 1 s by
	// default. While more than a thousand calls that are due wait for others of their runs, a call amid them may be found 5 s later.
	Poll time.Duration
	// Lease is how long a process that has died keeps others from the calls that it had taken, by the clock of the database; 10 s
	// by default, at least 100 ms. A call of the engine is given up, and repeated, after half of it.
	Lease time.Duration
	// Listen is called by Run to be told of calls sooner than Poll would find them: it calls wake whenever the channel is notified, until ctx is done; package
	// pawlpgx has such a function. Run calls it again if it fails. nil polls only.
	Listen func(ctx context.Context, channel string, wake func()) error
	// Logger gets what no caller can be told; slog.Default() by default.
	Logger *slog.Logger
}

// An Outbox is where the calls of transactions wait for the engine: two tables of a database of the host. Its methods may be
// called from any goroutine.
type Outbox struct {
	db      *sql.DB
	dialect *dialect
	kind    Dialect
	options Options
	woken   chan struct{}
}

// New returns the outbox of a database. It asks the database nothing: Migrate makes the tables. A process that only writes
// calls has one as well. It fails with an *ArgumentError.
func New(db *sql.DB, kind Dialect, o Options) (*Outbox, error) {
	d := dialects[kind]
	switch {
	case db == nil:
		return nil, &ArgumentError{What: "db", Fault: "it is nil"}
	case d == nil:
		return nil, &ArgumentError{What: "dialect", Fault: fmt.Sprintf("%.100q is none: use PostgreSQL, MySQL or SQLite", string(kind))}
	case o.Poll < 0 || o.Lease < 0:
		return nil, &ArgumentError{What: "Options", Fault: fmt.Sprintf("Poll is %v and Lease %v: they are not negative", o.Poll, o.Lease)}
	case o.Lease > 0 && o.Lease < minLease:
		return nil, &ArgumentError{What: "Options.Lease", Fault: fmt.Sprintf("it is %v, and at least %v", o.Lease, minLease)}
	}
	if o.Calls == "" {
		o.Calls = "pawl_calls"
	}
	if o.Effects == "" {
		o.Effects = "pawl_effects"
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Lease == 0 {
		o.Lease = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := errors.Join(checkName("Options.Calls", o.Calls), checkName("Options.Effects", o.Effects)); err != nil {
		return nil, err
	}
	if kind == SQLite && strings.Contains(o.Calls+o.Effects, ".") {
		return nil, &ArgumentError{What: "Options", Fault: "a table of SQLite is in no schema"}
	}
	if strings.EqualFold(o.Calls, o.Effects) || strings.EqualFold(o.Effects, o.Calls+"_version") { // SQLite, and MySQL on some systems, see no case
		return nil, &ArgumentError{What: "Options", Fault: fmt.Sprintf("Calls is %q and Effects %q: they have tables of their own, whose names differ in more than case", o.Calls, o.Effects)}
	}
	return &Outbox{db: db, dialect: d, kind: kind, options: o, woken: make(chan struct{}, 1)}, nil
}

const minLease = 100 * time.Millisecond

// Wake has Run look for calls at once: a process that has committed some spares them the time until the next poll. It says nothing to
// other processes.
func (b *Outbox) Wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// An ArgumentError says what is wrong with an argument. It is pawl.ErrInvalid for errors.Is.
type ArgumentError struct {
	What  string // the argument
	Fault string
}

// Error names the argument.
func (e *ArgumentError) Error() string { return "pawlsql: " + e.What + ": " + e.Fault }

// Unwrap returns pawl.ErrInvalid.
func (e *ArgumentError) Unwrap() error { return pawl.ErrInvalid }

// A Tx is a transaction of the caller and the outbox whose tables it can write.
type Tx struct {
	outbox *Outbox
	in     Statements
}

// Statements are a transaction as this package uses it. In has those of database/sql, and package pawlpgx those of pgx.
type Statements interface {
	// Exec executes a statement, and returns how many rows it has changed.
	Exec(ctx context.Context, statement string, args ...any) (rows int64, err error)
	// QueryRow reads the first row of a result; found is false if it is empty.
	QueryRow(ctx context.Context, statement string, args []any, into ...any) (found bool, err error)
}

// A Queryer is what *sql.Tx has, and the transactions of most libraries that are built on it. *sql.DB and *sql.Conn have it as well: with
// them each call is a transaction of its own.
type Queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// In returns a transaction of the caller for [Start], [Signal], [Cancel] and [Once].
func (b *Outbox) In(tx Queryer) Tx {
	if b == nil || isNil(tx) {
		return Tx{}
	}
	return Tx{b, standard{tx}}
}

// With is In for other transactions than those of database/sql.
func (b *Outbox) With(s Statements) Tx {
	if b == nil || isNil(s) {
		return Tx{}
	}
	return Tx{b, s}
}

// standard are the statements of database/sql.
type standard struct{ q Queryer }

func (s standard) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := s.q.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (s standard) QueryRow(ctx context.Context, statement string, args []any, into ...any) (found bool, err error) {
	rows, err := s.q.QueryContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if found = rows.Next(); found {
		err = rows.Scan(into...)
	}
	return found && err == nil, errors.Join(err, rows.Err())
}
