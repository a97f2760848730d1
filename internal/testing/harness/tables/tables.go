// Package tables changes the tables of a pawl.db for tests.
package tables

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// crcParts are queries for the parts of rows that have a checksum, by table.
func crcParts() map[string][]string {
	columns := strings.Split(strings.TrimSuffix(strings.TrimPrefix(index.RunColumns, "SELECT"), " FROM runs "), ",")
	parts := map[string][]string{}
	first := 1 // behind num
	for i, column := range columns {
		if strings.HasSuffix(column, "_crc") {
			parts["runs"] = append(parts["runs"], "SELECT num, "+strings.Join(columns[first:i+1], ", ")+" FROM runs")
			first = i + 1
		}
	}
	for _, c := range index.CheckedTables {
		parts[c.Name] = []string{c.Rows}
	}
	return parts
}

// SumAgain makes the checksums of all rows of pawl.db fit what is in them.
func SumAgain(t testing.TB, db *sqlite.Conn) {
	parts := crcParts()
	if has, err := index.HasOutbox(db); err == nil && !has {
		delete(parts, "outbox")
	}
	for table, queries := range parts {
		for _, query := range queries {
			query = strings.Join(strings.Fields(query), " ")
			columns := strings.Split(strings.TrimSuffix(strings.TrimPrefix(query, "SELECT "), " FROM "+table), ", ")
			var rows [][]driver.Value
			require.NoError(t, db.Each(query, func(r *sqlite.Row) error {
				rows = append(rows, slices.Clone(r.Values()))
				return nil
			}))
			last := len(columns) - 1
			text := fmt.Sprintf(`UPDATE %s SET %s = ? WHERE %s IS ?`, table, columns[last], strings.Join(columns[:last], " IS ? AND "))
			for _, row := range rows {
				_, err := db.Exec(text, append([]driver.Value{index.CRCOf(row[0], row[1:last])}, row[:last]...)...)
				require.NoError(t, err)
			}
		}
	}
}
