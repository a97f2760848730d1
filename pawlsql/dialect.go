package pawlsql

import (
	"fmt"
	"strconv"
	"strings"
)

// A Dialect is the SQL of a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql" // and MariaDB
	SQLite     Dialect = "sqlite"
)

// A dialect is what the statements differ in.
type dialect struct {
	quote  string // around a name
	exists string // reports whether a table is there: with the schema, or "", and the name
	now    string // microseconds since 1970 by the clock of the server
	insert string // of a call: run, kind, body and, for PostgreSQL, the channel that is notified

	// An INSERT with these, before and behind its values, keeps a key that is there as it is.
	ignore, ignored string
	// A SELECT with this behind it finds rows that have committed since the transaction began.
	current string
	// The rows of the given ids that may be claimed: without waiting for other claims where that can be said.
	claimable func(ids string) string
	// Behind the name of the table in an UPDATE of rows by their ids: a planner that reads all rows in place of those would wait for the
	// open transactions of hosts. A DELETE has no such words, and is oneByOne.
	byKey string
	// Behind the alias b of the calls: those from the first one of the run r.run on, by run and id. A condition that several indexes
	// serve has a planner choose by its statistics, and read all calls again for each run where these are old.
	fromRun string
	// Behind the alias b of the calls: those of the run r.run from the call r.id on, by run and id as well.
	fromHead string
	oneByOne bool
	numbered bool // parameters are $1, $2
	maxRun   int  // the longest id of a run, in bytes: as the column has it
}

const plainInsert = `INSERT INTO {calls} (run, kind, body, created) VALUES (?, ?, ?, {now})`

// longestRun bounds the id of a child run where the column has no bound. It is an entry of an index: a page of PostgreSQL has 2,704 bytes for it. An id
// has 255 bytes, and some 10 more for each of 16 levels of children.
const longestRun = 1024

var dialects = map[Dialect]*dialect{
	PostgreSQL: {
		quote: `"`, numbered: true, maxRun: longestRun, fromRun: ` WHERE b.run >= r.run`, fromHead: ` WHERE (b.run, b.id) >= (r.run, r.id) AND b.run <= r.run`,
		exists:  `SELECT CASE WHEN to_regclass(CASE WHEN CAST(? AS text) = '' THEN '' ELSE quote_ident(?) || '.' END || quote_ident(?)) IS NULL THEN 0 ELSE 1 END`,
		now:     `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)`,
		insert:  `WITH written AS (` + plainInsert + ` RETURNING id) SELECT pg_notify(?, '') FROM written`,
		ignored: ` ON CONFLICT DO NOTHING`,
		claimable: func(ids string) string {
			return `id IN (SELECT id FROM {calls} WHERE id IN (` + ids + `) AND state = 0 AND due <= {now} ORDER BY id FOR UPDATE SKIP LOCKED)`
		},
	},
	MySQL: {
		quote: "`", maxRun: 255, insert: plainInsert, ignore: ` IGNORE`, current: ` LOCK IN SHARE MODE`,
		byKey: ` FORCE INDEX (PRIMARY)`, oneByOne: true, fromRun: ` FORCE INDEX ({byRun}) WHERE b.run = r.run`,
		fromHead:  ` FORCE INDEX ({byRun}) WHERE b.run = r.run AND b.id >= r.id`,
		exists:    `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = CASE WHEN ? = '' THEN DATABASE() ELSE ? END AND table_name = ?`,
		now:       `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
		claimable: func(ids string) string { return `id IN (` + ids + `)` },
	},
	SQLite: {
		quote: `"`, maxRun: longestRun, insert: plainInsert, ignored: ` ON CONFLICT DO NOTHING`, fromRun: ` WHERE b.run >= r.run`,
		fromHead:  ` WHERE (b.run, b.id) >= (r.run, r.id) AND b.run <= r.run`,
		exists:    `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND ? = ? AND name = ?`,
		now:       `CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000`,
		claimable: func(ids string) string { return `id IN (` + ids + `)` },
	},
}

// quoteName quotes a name, which may have one of a schema before it: checkName has seen it, and no quote is in it.
func (d *dialect) quoteName(of string) string {
	return d.quote + strings.ReplaceAll(of, ".", d.quote+"."+d.quote) + d.quote
}

// plainName returns the name of a table without that of its schema.
func plainName(of string) string { return of[strings.LastIndexByte(of, '.')+1:] }

// fillText returns a statement with the names of the tables, the clock, and parameters as the database has them. No value of a
// caller is ever part of a text.
func (b *Outbox) fillText(statement string) string {
	d := b.dialect
	s := strings.NewReplacer("{calls}", d.quoteName(b.options.Calls), "{effects}", d.quoteName(b.options.Effects), "{version}", d.quoteName(b.options.Calls+"_version"), "{now}", d.now,
		"{byKey}", d.byKey, "{byRun}", d.quote+plainName(b.options.Calls)+"_run"+d.quote).Replace(statement)
	if !d.numbered {
		return s
	}
	var out strings.Builder
	for n := 1; ; n++ {
		before, behind, found := strings.Cut(s, "?")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("$" + strconv.Itoa(n))
		s = behind
	}
}

// fillTextOf is fillText of a statement for a list of ids, {ids}, and returns the parameters of the list. Lists have lengths that are powers
// of two, filled up with the last id, so that there are few texts, which drivers keep prepared.
func (b *Outbox) fillTextOf(statement string, ids []int64) (text string, list []any) {
	n := 1
	for n < len(ids) {
		n *= 2
	}
	for i := range n {
		list = append(list, ids[min(i, len(ids)-1)])
	}
	return b.fillText(strings.ReplaceAll(statement, "{ids}", strings.TrimSuffix(strings.Repeat("?, ", n), ", "))), list
}

// maxName is the longest name of a table: names of indexes, which are longer, have 63 bytes in PostgreSQL.
const maxName = 40

// checkName returns an error unless a name of a table is made of ASCII letters, digits and _, begins with no digit, and has one name
// of a schema before it at most.
func checkName(what, name string) error {
	parts := strings.Split(name, ".")
	good := len(parts) <= 2
	for _, p := range parts {
		good = good && p != "" && len(p) <= maxName && strings.Trim(p, nameLetters) == "" && (p[0] < '0' || p[0] > '9')
	}
	if good {
		return nil
	}
	return &ArgumentError{What: what, Fault: fmt.Sprintf("the name of the table is %.100q: use letters of ASCII, digits and _, at most %d, not a digit first, such as pawl_calls or app.pawl_calls", name, maxName)}
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
