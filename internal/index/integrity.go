package index

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// CheckIntegrity returns what is wrong with pawl.db as far as it can be seen without
// knowing what was in it, "" if nothing. An error says that not all of it could be
// read.
func CheckIntegrity(db *sqlite.Conn) (wrong string, err error) {
	// SQLite believes whatever the schema says.
	if wrong, err = AlteredSchema(db); err != nil || wrong != "" {
		return wrong, err
	}
	if wrong, err = IntegrityFaults(db); wrong != "" {
		wrong = "SQLite's integrity check says: " + wrong
	}
	return wrong, err
}

// AlteredSchema says which table or index of pawl.db is not what index.sql makes, ""
// if all are. The outbox may be missing.
func AlteredSchema(db *sqlite.Conn) (string, error) {
	want, err := builtSchema()
	if err != nil {
		return "", err
	}
	got, err := readSchema(db)
	if err != nil {
		return "", err
	}
	if name := "table " + outboxTable; got[name] == "" {
		delete(want, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			return fmt.Sprintf("its schema has changed: %s", name), nil
		}
	}
	if len(got) != len(want) {
		return "its schema has changed: there is more than an engine makes", nil
	}
	return "", nil
}

// builtSchema returns the schema of an empty pawl.db with an outbox.
func builtSchema() (map[string]string, error) {
	if kept := built.schema.Load(); kept != nil {
		return maps.Clone(*kept), nil
	}
	db, err := sqlite.OpenMemory(schema+outboxSchema, PageSize, ID, Version)
	if err != nil {
		return nil, err
	}
	found, err := readSchema(db)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	built.schema.Store(&found)
	return maps.Clone(found), nil
}

// comment is one of SQL, to the end of its line.
var comment = regexp.MustCompile(`--[^\n]*`)

// readSchema returns the statement that made each table and index, without comments
// and with single blanks: what those say may change without a new format.
func readSchema(db *sqlite.Conn) (map[string]string, error) {
	found := map[string]string{}
	err := db.Each(`SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema`, func(r *sqlite.Row) error {
		found[r.Text(0)+" "+r.Text(1)] = r.Text(2) + ": " + strings.Join(strings.Fields(comment.ReplaceAllString(r.Text(3), "")), " ")
		return nil
	})
	return found, err
}

const integrityCheck = `PRAGMA integrity_check(5)`

// ErrUnread says that SQLite's integrity check could not read a page.
var ErrUnread = errors.New("a page could not be read")

// unread is what the integrity check says of a page that could not be read: of one
// of a tree with SQLite's code, of one of a list without.
var unread = regexp.MustCompile(`unable to get the page\. error code=(\d+)|failed to get page \d+`)

// IsUnread reports whether the check says that it could not read a page.
func IsUnread(line string) bool {
	m := unread.FindStringSubmatch(line)
	return len(m) == 2 && (m[1] == "" || sqlite.IsIO(m[1]))
}

// IntegrityFaults returns what SQLite finds wrong with a database, "" if nothing. An
// error says that not all of it could be read.
func IntegrityFaults(db *sqlite.Conn) (string, error) {
	var lines []string
	err := db.Each(integrityCheck, func(r *sqlite.Row) error {
		line := r.Text(0)
		if IsUnread(line) {
			return fmt.Errorf("%w: %s", ErrUnread, line)
		}
		if line != "ok" {
			lines = append(lines, line)
		}
		return nil
	})
	return strings.Join(lines, ", "), err
}
