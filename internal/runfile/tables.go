package runfile

import (
	_ "embed" // the schema
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/sqlite"
)

//go:embed file.sql
var fileSchema string

// A table is where rows go, and how; verb is what SQLite would be told. Tables with rowids have an integer as their key, and those without have keys of
// several columns or of a text.
type table struct {
	verb    string // INSERT, or INSERT OR REPLACE for rows that change
	name    string
	columns int
	key     string // the columns that its rows are in the order of, which are its first ones
	keys    int    // how many those are in a table without rowids, otherwise 0
}

const (
	// A second row with the same key is an error, takes the place of the first, or is left out.
	once    = "INSERT INTO "
	replace = "INSERT OR REPLACE INTO "
	unless  = "INSERT OR IGNORE INTO "
)

var (
	// The numbers of columns, and which of them are keys, are those of file.sql.
	metaTable       = &table{replace, "meta", 9, "one", 0}
	definitionTable = &table{unless, "definition", 3, "revision", 0}
	tokensTable     = &table{replace, "tokens", 22, "id", 0}
	groupsTable     = &table{replace, "groups", 23, "id", 0}
	itemsTable      = &table{replace, "items", 3, "grp, idx", 2}
	branchesTable   = &table{replace, "branches", 4, "grp, branch", 2}
	dataTable       = &table{replace, "data", 5, "grp, branch, path, idx", 4}
	journalTable    = &table{once, "journal", 7, "seq", 0}
	valsTable       = &table{unless, "vals", 2, "hash", 1}
	signalsTable    = &table{replace, "signals", 6, "seq", 0}
	stepsTable      = &table{replace, "steps", 4, "node", 1}
	eventsTable     = &table{once, "events", 8, "seq", 0}
)

// allTables are the tables of a file.
var allTables = []*table{
	metaTable, definitionTable, tokensTable, groupsTable, signalsTable, stepsTable, itemsTable,
	branchesTable, dataTable, journalTable, valsTable, eventsTable,
}

// An object is a table or a view as the schema of a file has it. Its rows, and the view in place of a table without
// any, are put in when a file is written.
type object struct {
	image.Object
	table *table // nil for a view
}

// hint stands behind the first line of the schema of each file, for whoever asks SQLite for it. The comments of file.sql
// would take ten pages, of the fourteen that a small file has.
const hint = " -- docs/format.md of pawl explains the tables"

// noRows stands behind a view in place of a table.
const noRows = " -- no rows"

// objects has the schema of a file: what is in file.sql, without its comments.
var objects = parseSchema(fileSchema)

// parseSchema takes the statements of file.sql apart, so that there is one place in which the schema is written down.
// It knows only what that file has: a statement ends with a semicolon at the end of a line, -- begins a comment,
// columns stand one a line.
func parseSchema(text string) (out []object) {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.Join(strings.Fields(line), " "); line == "" {
			continue
		}
		lines = append(lines, strings.TrimSuffix(line, ";"))
		if !strings.HasSuffix(line, ";") {
			continue
		}
		// The first line is CREATE TABLE or CREATE VIEW, and the name.
		words := strings.Fields(lines[0])
		if len(out) == 0 {
			lines[0] += hint
		}
		o := object{Object: image.Object{Type: strings.ToLower(words[1]), Name: words[2], SQL: strings.Join(lines, "\n")}}
		for _, t := range allTables {
			if t.name == o.Name {
				o.table, o.Keyed, o.Empty = t, t.keys > 0, emptyView(t.name, lines[1:len(lines)-1])
			}
		}
		out, lines = append(out, o), nil
	}
	return out
}

// emptyView returns a view with the columns of a table, and no rows. An empty table takes a page, and a small file
// would have more pages of that kind than others.
func emptyView(name string, columns []string) string {
	var names, nulls []string
	for _, c := range columns {
		if word, _, _ := strings.Cut(c, " "); word != "PRIMARY" {
			names, nulls = append(names, word), append(nulls, "0")
		}
	}
	return "CREATE VIEW " + name + " (" + strings.Join(names, ", ") + ") AS SELECT " + strings.Join(nulls, ", ") + " WHERE 0" + noRows
}

// ForeignObject tells of a view, a trigger or a virtual table in the schema of a file that no engine makes, "" if there is none: SQLite would
// execute it for whoever reads the file, and it may have no end. Damage of the text of a table is for the reader to find.
func ForeignObject(c *sqlite.Conn) (wrong string, err error) {
	const all = `SELECT CAST(name AS TEXT), CAST(sql AS TEXT) FROM sqlite_schema WHERE sql IS NOT NULL`
	err = c.Each(all, func(r *sqlite.Row) error {
		text := r.Text(1)
		isOurs := func(o object) bool { return text == o.SQL || text == o.Empty }
		if !strings.HasPrefix(text, "CREATE TABLE ") && !slices.ContainsFunc(objects, isOurs) {
			wrong = fmt.Sprintf("an engine makes no %q in its schema", r.Text(0))
		}
		return nil
	})
	return wrong, err
}
