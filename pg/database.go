package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/commitlog"
)

// Options configure a Database. The zero value of every field works.
type Options struct {
	// Schema is where the tables are; "pawl" by default. Prefix, none by default, stands before the name of each table. Both are
	// lower-case letters, digits and _, at most 32, and begin with no digit.
	Schema string
	Prefix string
	// Configure, which may be nil, changes how the pool connects: certificates, passwords that change, how many connections. The pool is the
	// Database's own.
	Configure func(*pgxpool.Config)
	// Unsafe lets the server run without fsync, which loses and damages data when its machine crashes: for tests.
	Unsafe bool
}

// withDefaults returns the options as a Database uses them, or pawl.ErrInvalid with the field that cannot be.
func (o Options) withDefaults() (Options, error) {
	o.Schema = cmp.Or(o.Schema, "pawl")
	switch {
	case !goodTable.MatchString(o.Schema):
		return o, fmt.Errorf("%w: pg.Options.Schema is %q: use 1 to 32 lower-case letters, digits and _, the first no digit", pawl.ErrInvalid, o.Schema)
	case o.Prefix != "" && !goodTable.MatchString(o.Prefix):
		return o, fmt.Errorf("%w: pg.Options.Prefix is %q: use at most 32 lower-case letters, digits and _, the first no digit", pawl.ErrInvalid, o.Prefix)
	}
	return o, nil
}

var (
	goodTable = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)
	goodName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
)

// A Database is what keeps logs, blobs and leases: tables of a PostgreSQL database. Any number of goroutines may use it.
type Database struct {
	pool    *pgxpool.Pool
	options Options
	names   *strings.Replacer // of the tables, in statements
	answers time.Duration     // answerTimeout, but in tests
}

// Open connects to a database, such as postgres://user@host/name or what else pgx takes. With several hosts it takes the one that is written to.
// Errors: pawl.ErrInvalid for options that cannot be; ErrUnsafeServer if the server runs without fsync; or what PostgreSQL says.
//
// Each call of a method is one statement and one transaction, so that a pooler may stand between.
func Open(ctx context.Context, url string, o Options) (*Database, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: pg.Open: %w", pawl.ErrInvalid, err)
	}
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // no statement that has a name: a pooler would not know it
	if c.ConnConfig.ValidateConnect == nil {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if o.Configure != nil {
		o.Configure(c)
	}
	noteLostWaits(c.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	d := &Database{pool: pool, options: o, names: newNames(o), answers: answerTimeout}
	report, err := d.Check(ctx)
	if err == nil && len(report.Unsafe) > 0 && !o.Unsafe {
		err = fmt.Errorf("%w: %s", ErrUnsafeServer, strings.Join(report.Unsafe, "; "))
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return d, nil
}

// newNames returns what puts the names of tables into statements, which have those of the zero Options. A schema may be a word of SQL, such as
// user, and is quoted; behind its point every word is a name.
func newNames(o Options) *strings.Replacer {
	schema := pgx.Identifier{o.Schema}.Sanitize()
	return strings.NewReplacer("'pawl'", "'"+schema+"'", "SCHEMA pawl;", "SCHEMA "+schema+";", "pawl.", schema+"."+o.Prefix)
}

// Close closes the connections. Engines whose logs it keeps must be closed before.
func (d *Database) Close() {
	if d != nil && d.pool != nil {
		d.pool.Close()
	}
}

// OpenBackend returns what the nodes of a cluster share: the log of a name, the stores of blobs <name>-bases and <name>-blobs, and a lease. Each
// engine directory has a name of its own: letters, digits, _ and -, at most 24. Errors: those of OpenLog.
func (d *Database) OpenBackend(ctx context.Context, name string) (b cluster.Backend, err error) {
	if len(name) > maxBackend {
		return b, fmt.Errorf("%w: the name of a pg backend is %q: use at most %d letters, digits, _ and -", pawl.ErrInvalid, name, maxBackend)
	}
	newLog := func(ctx context.Context) (commitlog.Log, error) { return d.OpenLog(ctx, name) }
	if _, err := newLog(ctx); err != nil {
		return b, err
	}
	bases, err := d.OpenBlobs(ctx, name+"-bases")
	if err != nil {
		return b, err
	}
	blobs, err := d.OpenBlobs(ctx, name+"-blobs")
	if err != nil {
		return b, err
	}
	lease, err := d.OpenCell(ctx, name)
	if err != nil {
		return b, err
	}
	return cluster.Backend{NewLog: newLog, Bases: bases, Blobs: blobs, Lease: lease}, nil
}

// maxBackend leaves room in a name for what is added to it.
const maxBackend = 24

// errNoDatabase is that of methods of a Database that Open has not returned.
var errNoDatabase = fmt.Errorf("%w: a pg.Database is made by pg.Open", pawl.ErrInvalid)

// checkTables fails unless the tables are there, in the version of this program, and the name can be one.
func (d *Database) checkTables(ctx context.Context, name string) error {
	if !goodName.MatchString(name) {
		return fmt.Errorf("%w: the name is %q: use 1 to 32 letters, digits, _ and -", pawl.ErrInvalid, name)
	}
	return d.checkVersion(ctx)
}

// checkVersion fails unless the tables are there, in the version of this program.
func (d *Database) checkVersion(ctx context.Context) error {
	if d == nil || d.pool == nil {
		return errNoDatabase
	}
	version, err := d.readVersion(ctx)
	switch {
	case err != nil:
		return err
	case version < len(migrations):
		return fmt.Errorf("%w: they are of version %d, and this program needs %d: call Migrate", ErrNoTables, version, len(migrations))
	case version > len(migrations):
		return fmt.Errorf("%w: the tables are of version %d, and this program knows %d", pawl.ErrVersion, version, len(migrations))
	}
	return nil
}

// readVersion returns the version of the tables; 0 without tables.
func (d *Database) readVersion(ctx context.Context) (version int, err error) {
	err = d.queryRow(ctx, `SELECT version FROM pawl.version`, nil, &version)
	if errors.Is(err, ErrNoTables) || errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return version, err
}
