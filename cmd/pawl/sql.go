package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl/replay"
)

var sqlVerb = verb{
	name: "sql",
	help: "Ask recorded runs in SQL, which only reads: runs, journal, events, tokens, attempts and branches.",
	example: []string{
		"pawl sql 'select status, count(*) from runs group by 1'",
		"pawl sql 'select node, max(elapsed) from attempts group by 1' order-42 2026-11.pawl",
	},
	command: func() command { return new(sqlCommand) },
}

// A sqlCommand asks recorded runs.
type sqlCommand struct {
	Query  string   `arg:"" optional:"" help:"One query in SQL, as of SQLite."`
	Paths  []string `arg:"" optional:"" name:"file-dir-or-run" help:"Files of runs, folders of them, engine directories, or ids of runs in the directory. The default is the directory."`
	Schema bool     `help:"Write the tables, and what their columns mean."`
	recordedFlag
}

// errNoQuery says that nothing is asked.
var errNoQuery = errors.New("there is no query: pawl sql --schema writes the tables")

// runCommand answers the query from what can be read. The query is prepared before runs are read, so a mistake in it is told at
// once. If only some runs can be read, the answer is written and the error still makes the exit status.
func (c *sqlCommand) runCommand(ctx context.Context, con *console) error {
	if c.Schema && c.JSON {
		con.writeLine(true, map[string]string{"schema": replay.QuerySchema})
		return nil
	}
	if c.Schema {
		_, err := fmt.Fprint(con.Out, replay.QuerySchema)
		return err
	}
	if c.Query == "" {
		return errNoQuery
	}
	q, err := replay.NewQuery(c.Query)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // it is in memory
	paths := c.Paths
	if len(paths) == 0 {
		paths = []string{c.Dir}
	}
	var g gathered
	var unread error
	err = con.whileWorking("reading runs", func() error {
		g, unread = c.eachRecording(ctx, con, paths, q.Add)
		return context.Cause(ctx)
	})
	switch {
	case err != nil:
		return errors.Join(err, unread)
	case g.read == 0 && unread != nil:
		return unread // an answer from nothing would be none
	}
	if err = c.writeAnswer(ctx, con, q, g.read); err == nil {
		con.saySources(c.JSON, g.from)
	}
	return errors.Join(err, unread)
}

// writeAnswer writes the rows: as objects, or as a table. JSON is written row by row; a table is
// kept whole, since its widths depend on all rows.
func (c *sqlCommand) writeAnswer(ctx context.Context, con *console, q *replay.Query, runs int) error {
	if c.JSON {
		var names []string
		return q.Answer(ctx, func(columns []string) error {
			names = columns
			return checkNames(columns)
		}, func(values []any) error { return con.writeRow(names, values) })
	}
	var rows [][]string
	err := q.Answer(ctx, func(columns []string) error {
		rows = append(rows, columns)
		return nil
	}, func(values []any) error {
		cells := make([]string, len(values))
		for i, v := range values {
			cells[i] = cellText(v)
		}
		rows = append(rows, cells)
		return nil
	})
	if err != nil {
		return err
	}
	if con.holdsTable(rows) {
		con.printColumns(rows)
	} else {
		con.printFields(rows)
	}
	con.printLine("%s of %s", pluralText(len(rows)-1, "row"), pluralText(runs, "run"))
	return nil
}

// checkNames fails if two columns have one name, which an object cannot have twice.
func checkNames(columns []string) error {
	for i, name := range columns {
		if slices.Contains(columns[:i], name) {
			return fmt.Errorf("two columns are called %q: give one another name, with AS", name)
		}
	}
	return nil
}

// writeRow writes an object, whose fields are in the order of the columns.
func (con *console) writeRow(columns []string, values []any) error {
	var line bytes.Buffer
	for i, name := range columns {
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		text, err := json.Marshal(values[i])
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		line.WriteByte("{,"[min(i, 1)])
		line.Write(key)
		line.WriteByte(':')
		line.Write(text)
	}
	line.WriteString("}\n")
	_, err := jsonWriter{con.Out}.Write(line.Bytes())
	return err
}

// cellText returns a value of SQLite in a table. NULL is empty, a blob is as SQLite writes it, and
// a number has no more digits than it needs.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}
