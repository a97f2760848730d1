package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Memory is the path of a database in memory, private to its connection.
const Memory = ":memory:"

// driverConn is what the driver's connections can do.
type driverConn interface {
	driver.Conn
	driver.ExecerContext
	driver.ConnPrepareContext
	Serialize() ([]byte, error)
	Deserialize([]byte) error
	NewBackup(string) (*sqlite.Backup, error)
	sqlite.FileControl
	sqlite.DBStatus
}

// driverStmt is what the driver's statements can do.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// A Conn is a connection to one database. Only one goroutine may use it at a
// time.
type Conn struct {
	conn  driverConn
	stmts map[string]driverStmt // by text
	args  []driver.NamedValue   // reused
	tape  *Tape                 // that notes what is executed; nil if none does
}

// Open opens the database at path, which must exist unless it is [Memory], and
// runs pragmas, a script, in its order.
func Open(path, pragmas string) (*Conn, error) { return openConn(path, "rw", pragmas, false) }

// OpenKeeping is Open for a database whose write-ahead log stays until
// [Conn.KeepWAL] says otherwise, also if OpenKeeping fails half-way.
func OpenKeeping(path, pragmas string) (*Conn, error) { return openConn(path, "rw", pragmas, true) }

// OpenReadOnly is Open for a database, and a write-ahead log, that must stay as
// they are, whatever they hold.
func OpenReadOnly(path, pragmas string) (*Conn, error) { return openConn(path, "ro", pragmas, false) }

func openConn(path, mode, pragmas string, keep bool) (*Conn, error) {
	c, err := openURI(uriOf(path, mode), pragmas, keep)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return c, nil
}

func openURI(uri, pragmas string, keep bool) (*Conn, error) {
	connector, err := sqlite.NewConnector(uri)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: raw.(driverConn), stmts: map[string]driverStmt{}}
	if keep {
		err = c.KeepWAL(true)
	}
	if err == nil {
		err = c.Script(pragmas)
	}
	if err != nil {
		return nil, closeAfter(c, err)
	}
	return c, nil
}

// uriOf returns the URI of an existing file: SQLite makes a missing file
// otherwise.
func uriOf(path, mode string) string {
	if path == Memory {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path, OmitHost: true, RawQuery: "mode=" + mode}
	return u.String()
}

func closeAfter(c *Conn, err error) error {
	_ = c.Close() // err is what the caller has to know
	return err
}

// Close finalizes the statements and closes the connection.
func (c *Conn) Close() error {
	for _, s := range c.stmts {
		_ = s.Close() // repeats the error of the last execution
	}
	c.stmts = nil
	return c.conn.Close()
}

// Script runs any number of statements without parameters.
func (c *Conn) Script(text string) error {
	_, err := c.conn.ExecContext(context.Background(), text, nil)
	return err
}

// Exec runs one statement and returns how many rows it changed. Arguments are
// nil, int64, float64, string or []byte. The statement stays prepared under its
// text, which must therefore be a constant.
func (c *Conn) Exec(text string, args ...driver.Value) (int64, error) {
	s, err := c.prepared(text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), c.bindArgs(args))
	if err != nil {
		return 0, err
	}
	rows, err := r.RowsAffected()
	if err == nil && c.tape != nil {
		err = c.tape.addStatement(text, args, rows)
	}
	return rows, err
}

// ExecEach runs one statement that writes and answers with the rows that it changed, as
// Each does.
func (c *Conn) ExecEach(text string, row func(*Row) error, args ...driver.Value) error {
	rows := int64(0)
	err := c.Each(text, func(r *Row) error { rows++; return row(r) }, args...)
	if err == nil && c.tape != nil {
		err = c.tape.addStatement(text, args, rows)
	}
	return err
}

// Each runs one query, as Exec does, and calls row with each row of the answer.
// An error of row, and a value that is not of the type that row asked for, ends
// it. row must not use c.
func (c *Conn) Each(text string, row func(*Row) error, args ...driver.Value) error {
	s, err := c.prepared(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.bindArgs(args))
	if err != nil {
		return err
	}
	err = eachRow(rows, row)
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return err
}

func eachRow(rows driver.Rows, row func(*Row) error) error {
	r := Row{columns: rows.Columns()}
	r.values = make([]driver.Value, len(r.columns))
	for {
		err := rows.Next(r.values)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = row(&r)
		}
		if err == nil {
			err = r.err
		}
		if err != nil {
			return err
		}
	}
}

// One runs a query and calls row with the first row of the answer. It reports
// whether there was one.
func (c *Conn) One(text string, row func(*Row) error, args ...driver.Value) (bool, error) {
	found := false
	err := c.Each(text, func(r *Row) error {
		if found {
			return nil
		}
		found = true
		return row(r)
	}, args...)
	return found, err
}

func (c *Conn) prepared(text string) (driverStmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	raw, err := c.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	s := raw.(driverStmt)
	c.stmts[text] = s
	return s, nil
}

func (c *Conn) bindArgs(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// Serialize returns the bytes of the database file as the connection sees it,
// changes of an open transaction included.
func (c *Conn) Serialize() ([]byte, error) { return c.conn.Serialize() }

// Deserialize makes data, which must be the bytes of a database file, the
// database of a connection to [Memory].
func (c *Conn) Deserialize(data []byte) error { return c.conn.Deserialize(data) }

// memoryPragmas prepare a database that is built in memory. Nobody trusts it
// before its bytes are synced.
const memoryPragmas = `PRAGMA page_size=%d; %s PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA trusted_schema=OFF; PRAGMA application_id=%d; PRAGMA user_version=%d;`

// OpenMemory opens an empty database in memory with a schema, and the page size,
// application id and version of its file.
func OpenMemory(schema string, page, id, version int) (*Conn, error) {
	return openMemory("", schema, page, id, version)
}

func openMemory(pragma, schema string, page, id, version int) (*Conn, error) {
	return Open(Memory, fmt.Sprintf(memoryPragmas, page, pragma, id, version)+schema)
}

// NewDatabase returns the bytes of an empty database. It has no map of its pages, by which SQLite could give free ones back: a read of
// that map that fails would be told as damage.
func NewDatabase(schema string, page, id, version int) ([]byte, error) {
	c, err := openMemory("", schema, page, id, version)
	if err != nil {
		return nil, err
	}
	data, err := c.Serialize()
	if closed := c.Close(); err == nil {
		err = closed
	}
	return data, err
}

// errorCode returns the primary result code of err, 0 if SQLite did not report it.
func errorCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// IsFull reports whether the disk, or the database, is full.
func IsFull(err error) bool {
	var e *sqlite.Error
	return errorCode(err) == lib.SQLITE_FULL || errors.As(err, &e) && e.Code() == lib.SQLITE_IOERR_SHMSIZE
}

// IsReadOnly reports whether the process may not write into the database, or beside it.
func IsReadOnly(err error) bool { return errorCode(err) == lib.SQLITE_READONLY }

// IsIO reports whether a result code, in decimal, is an I/O error.
func IsIO(decimal string) bool {
	c, err := strconv.Atoi(decimal)
	return err == nil && c&0xff == lib.SQLITE_IOERR
}

// IsBusy reports whether somebody else holds the database.
func IsBusy(err error) bool {
	c := errorCode(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// IsDamaged reports whether the database is not one, or not in order.
func IsDamaged(err error) bool {
	c := errorCode(err)
	return c == lib.SQLITE_CORRUPT || c == lib.SQLITE_NOTADB
}
