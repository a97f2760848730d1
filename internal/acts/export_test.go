package acts

import (
	"reflect"
	"testing"

	"github.com/pawl-run/pawl"
)

// Add adds a row to the table until the test ends.
func Add(t *testing.T, v Verb, a pawl.Act) { verbs.addRow(t, v, a) }

func (table *table) addRow(t *testing.T, v Verb, a pawl.Act) {
	v.act = reflect.TypeOf(a)
	before := table.rows
	table.rows = append(table.rows[:len(before):len(before)], v)
	t.Cleanup(func() { table.rows = before })
}
