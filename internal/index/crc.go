package index

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// Rows of pawl.db that no other checksum covers have their own: SQLite believes
// whatever a page says that has come from the disk. (A record has its place in the
// chain of its run, a definition its hash, and the epoch its copy in the lock record.) A
// row of runs has one for each part that is written by itself.
//
// A checksum is a CRC-32C of the row's key and of the values before it, each after a
// byte for its type and its length. It finds every change within 32 bits that follow
// each other, and all but one in 2^32 of the others.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WithCRC returns values and their checksum, in the row with a key.
func WithCRC(key driver.Value, values ...driver.Value) []driver.Value {
	return append(values, CRCOf(key, values))
}

// RowWithCRC returns the key, values and their checksum.
func RowWithCRC(key driver.Value, values ...driver.Value) []driver.Value {
	return append([]driver.Value{key}, WithCRC(key, values...)...)
}

// CRCMatches reports whether the column last holds the checksum of those from first
// on, in the row whose key is in column 0.
func CRCMatches(r *sqlite.Row, first, last int) bool {
	values := r.Values()
	crc, ok := values[last].(int64)
	return ok && crc == CRCOf(values[0], values[first:last])
}

// CRCOf returns the checksum of values in the row with a key.
func CRCOf(key driver.Value, values []driver.Value) int64 {
	c := rowCRC{buffer: make([]byte, 0, 128)}
	c.addValue(key)
	for _, v := range values {
		c.addValue(v)
	}
	return int64(crc32.Update(c.sum, castagnoli, c.buffer))
}

// A rowCRC is the checksum of the values so far.
type rowCRC struct {
	sum    uint32
	buffer []byte // bytes that are not in sum yet: crc32 gets them together, in memory that is reused
}

// addValue adds a value to a checksum, as SQLite has it or would have it.
func (c *rowCRC) addValue(v driver.Value) {
	kind := byte(0)
	var number uint64
	var data []byte
	switch v := v.(type) {
	case nil:
	case int64:
		kind, number = 1, uint64(v)
	case float64, time.Time: // never written; in a table that is not ours
		kind = 2
	case string:
		kind, number, data = 3, uint64(len(v)), column.Bytes(v)
	case []byte:
		kind, number, data = 4, uint64(len(v)), v
	default:
		panic(fmt.Sprintf("index: a column of type %T", v))
	}
	c.buffer = binary.BigEndian.AppendUint64(append(c.buffer, kind), number)
	if len(data) <= cap(c.buffer)/2 {
		c.buffer = append(c.buffer, data...)
		return
	}
	c.sum = crc32.Update(crc32.Update(c.sum, castagnoli, c.buffer), castagnoli, data)
	c.buffer = c.buffer[:0]
}

// A CheckedTable has rows with a checksum.
type CheckedTable struct {
	Name    string
	Rows    string // a query for key, values and checksum of all rows
	Derived bool   // the journals of runs tell what its rows say

	optional bool // it may be missing
}

// CheckedTables are the tables whose rows have one checksum each: all but that of the runs,
// whose rows have several, and those whose rows something else proves.
var CheckedTables = []CheckedTable{
	{"published", `SELECT name, version, hash, crc FROM published`, false, false},
	{"outcomes", `SELECT key, value, at, crc FROM outcomes`, false, false},
	{"labels", `SELECT num, key, value, crc FROM labels`, true, false},
	{"approvals", `SELECT num, token, node, message, input, approved, rejected, due, crc FROM approvals`, true, false},
	{"dead_letters", `SELECT num, token, node, task, attempts, failure, input, at, crc FROM dead_letters`, true, false},
	{"run_counts", `SELECT workflow, status, runs, crc FROM run_counts`, true, false},
	{"purged_definitions", `SELECT hash, crc FROM purged_definitions`, true, false},
	{"blob_refs", `SELECT hash, num, artifact, crc FROM blob_refs`, true, false},
	{outboxTable, `SELECT id, run, workflow, version, tenant, tag, at, seq, count, bytes, events, crc FROM outbox`, false, true},
}

// EachRow calls row with every row, if a pawl.db has the table.
func (c *CheckedTable) EachRow(db *sqlite.Conn, row func(*sqlite.Row) error) error {
	if c.optional {
		if has, err := HasOutbox(db); err != nil || !has {
			return err
		}
	}
	return db.Each(c.Rows, row)
}

// DescribeChange says what is wrong with a row, "" if nothing.
func (c *CheckedTable) DescribeChange(r *sqlite.Row) string {
	if CRCMatches(r, 1, len(r.Values())-1) {
		return ""
	}
	if c.optional {
		return fmt.Sprintf("a row of its table %s has changed: number %d", c.Name, r.Int64(0))
	}
	return fmt.Sprintf("a row of its table %s has changed: %s", c.Name, keyText(r.Values()[0]))
}

// keyText is the key of a row for a message: text, or the number of a run.
func keyText(key driver.Value) string {
	if n, ok := key.(int64); ok {
		return fmt.Sprintf("run number %d", n)
	}
	return fmt.Sprintf("%.100q", key)
}

// ChangedRow says which row of pawl.db is not what was written there, "" if all are.
func ChangedRow(db *sqlite.Conn) (wrong string, err error) {
	c := changeFinder{db: db}
	c.lookAtRuns(RunColumns)
	for i := range CheckedTables {
		c.lookAtTable(&CheckedTables[i])
	}
	c.lookAtSecret()
	return c.wrong, c.err
}

// ChangedRowOn is ChangedRow of the rows on some pages, and of all rows of small tables. It
// passes over the rows of other tables that something else proves.
func ChangedRowOn(db *sqlite.Conn, pages iter.Seq[[]byte]) (wrong string, err error) {
	rows := map[int][]int64{} // keys, by how many columns the row has
	for p := range pages {
		for _, r := range sqlite.LeafRows(p) {
			rows[r.Columns] = append(rows[r.Columns], r.Key)
		}
	}
	runs, outcomes := rows[runColumns], rows[outcomeColumns]
	c := changeFinder{db: db}
	for some := range slices.Chunk(runs, changedOnce) {
		c.lookAtRuns(RunColumns+`WHERE num IN (SELECT value FROM json_each(?))`, keyList(some, 1))
		c.lookAtRows(refsTable, refsTable.Rows+` WHERE num IN (SELECT value FROM json_each(?))`, keyList(some, 1))
		c.lookAtRows(labelsTable, labelsTable.Rows+` WHERE num IN (SELECT value FROM json_each(?))`, keyList(some, 1))
	}
	for some := range slices.Chunk(outcomes, changedOnce) {
		c.lookAtRows(outcomesTable, outcomesTable.Rows+` WHERE id IN (SELECT value FROM json_each(?))`, keyList(some, 1))
		c.lookAtRows(refsTable, refsTable.Rows+` WHERE num IN (SELECT value FROM json_each(?))`, keyList(some, -1))
	}
	for i := range CheckedTables {
		if t := &CheckedTables[i]; t != refsTable && t != labelsTable && t != outcomesTable {
			c.lookAtTable(t)
		}
	}
	c.lookAtSecret()
	return c.wrong, c.err
}

const (
	outcomeColumns = 5 // of a row of outcomes
	changedOnce    = 4096
)

// runColumns is how many columns a row of runs has.
var runColumns = strings.Count(RunColumns, ",") + 1

// The tables that grow with the runs that have ended, or with the keys of outcomes.
var (
	outcomesTable = &CheckedTables[1]
	labelsTable   = &CheckedTables[2]
	refsTable     = &CheckedTables[7]
)

// keyList returns keys, each times a sign, as a query takes them that has IN a list.
func keyList(keys []int64, sign int64) string {
	list := []byte{'['}
	for i, k := range keys {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, sign*k, 10)
	}
	return string(append(list, ']'))
}

// A changeFinder looks for the first row that is not what was written.
type changeFinder struct {
	db    *sqlite.Conn
	wrong string
	err   error
}

func (c *changeFinder) keep(wrong string) {
	if c.wrong == "" {
		c.wrong = wrong
	}
}

// lookAtRuns looks at rows of runs.
func (c *changeFinder) lookAtRuns(query string, args ...driver.Value) {
	if c.err != nil {
		return
	}
	c.err = c.db.Each(query, func(r *sqlite.Row) error {
		for _, p := range rowParts {
			if !CRCMatches(r, p.first, p.crc) {
				c.keep(fmt.Sprintf("the row of run %.100q is damaged", r.Text(1)))
			}
		}
		return nil
	}, args...)
}

// lookAtTable looks at all rows of another table.
func (c *changeFinder) lookAtTable(t *CheckedTable) {
	if c.err == nil {
		c.err = t.EachRow(c.db, func(r *sqlite.Row) error { c.keep(t.DescribeChange(r)); return nil })
	}
}

// lookAtRows looks at some rows of another table.
func (c *changeFinder) lookAtRows(t *CheckedTable, query string, args ...driver.Value) {
	if c.err == nil {
		c.err = c.db.Each(query, func(r *sqlite.Row) error { c.keep(t.DescribeChange(r)); return nil }, args...)
	}
}

func (c *changeFinder) lookAtSecret() {
	if c.err != nil {
		return
	}
	_, err := ReadSecret(c.db)
	if c.err = err; errors.Is(err, ErrDamagedSecret) {
		c.keep(err.Error())
		c.err = nil
	}
}
