package runfile

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/pace"
)

// WriteFile writes a large file to an empty one, with what old has, unless that is nil, and what fill writes. Neither
// is ever in memory: fill only says what there is to write, and then the tables are written one after the other,
// their old rows and the new ones in the order of their keys.
func WriteFile(to io.WriterAt, old *File, fill func(Target) error) error {
	m := merger{old: old, statements: map[*table][]statement{}}
	if err := fill(&m); err != nil {
		return err
	}
	out := image.NewStream(to, largePage)
	for i := range objects {
		t := objects[i].table
		err := out.WriteObject(&objects[i].Object, func(w *image.TableWriter) error {
			m.to = w
			return m.writeTable(t)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", objects[i].Name, err)
		}
	}
	return out.Finish(image.Header{ApplicationID: ID, UserVersion: Version})
}

// A merger is a Target that keeps statements until all are known, and then writes table by table what they make of the
// old file.
type merger struct {
	old        *File
	statements map[*table][]statement
	to         *image.TableWriter
	record     []byte
}

// runStatement implements Target.
func (m *merger) runStatement(s *statement) error {
	m.statements[s.table] = append(m.statements[s.table], *s)
	return nil
}

// writeTable writes a table: its old rows, but for those that are replaced or deleted, and the new ones.
func (m *merger) writeTable(t *table) error {
	statements, deleted := m.statements[t], deletions(nil)
	if t == dataTable {
		statements, deleted = sortedData(statements)
	}
	fresh, err := newLineup(t, statements)
	if err == nil && m.old != nil {
		err = m.writeOld(t, fresh, deleted.sweepKeys())
	}
	for err == nil && fresh.first != nil {
		err = m.writeFirst(fresh)
	}
	return err
}

// writeOld writes the old rows of a table, and the new ones that come before or between them.
func (m *merger) writeOld(t *table, fresh *lineup, deleted *sweep) error {
	var columns []image.Value
	return m.old.image.Rows(t.name, image.Start{}, func(id int64, record []byte) (bool, error) {
		key := rowKey{a: id}
		if t.keys > 0 {
			var err error
			if columns, err = image.DecodeKey(columns[:0], record, t.keys); err != nil {
				return false, err
			}
			key = keyOf(columns)
		}
		order := -1
		for fresh.first != nil {
			if order = key.compare(&fresh.first.key); order <= 0 {
				break
			}
			if err := m.writeFirst(fresh); err != nil {
				return false, err
			}
		}
		if fresh.first != nil && order == 0 {
			switch t.verb {
			case once:
				return false, errTwice(t, &key)
			case replace:
				return true, nil // the new row is written when the next one comes, or at the end
			case unless:
				if err := fresh.dropFirst(); err != nil {
					return false, err
				}
			}
		}
		if deleted.covers(&key, 0) {
			return true, nil
		}
		return true, m.to.Add(id, record)
	})
}

// writeFirst writes the first of the new rows.
func (m *merger) writeFirst(fresh *lineup) error {
	columns, id := fresh.first.row.columns, int64(0)
	if fresh.table.keys == 0 {
		// SQLite keeps NULL in the record where the rowid is.
		id, columns[0] = columns[0].Int64(), image.Value{}
	}
	m.record = image.AppendRecord(m.record[:0], columns)
	if err := m.to.Add(id, m.record); err != nil {
		return err
	}
	return fresh.dropFirst()
}

// A lineup has the new rows of a table, from some statements, in the order of their keys.
type lineup struct {
	table *table
	feeds []*feed // that have a row; the later ones were written later
	first *feed   // with the row that is next; nil at the end
}

// A feed is a statement with its next row.
type feed struct {
	statement
	next int // the row behind that one
	row  rowWriter
	key  rowKey
}

func newLineup(t *table, statements []statement) (*lineup, error) {
	l := &lineup{table: t}
	for i := range statements {
		f := &feed{statement: statements[i]}
		if more, err := f.nextRow(); err != nil {
			return nil, err
		} else if more {
			l.feeds = append(l.feeds, f)
		}
	}
	err := l.chooseFirst()
	return l, err
}

// nextRow makes the next row, and reports whether there is one.
func (f *feed) nextRow() (bool, error) {
	if f.next == f.count {
		return false, nil
	}
	f.row.beginRow()
	f.put(&f.row, f.next)
	before := f.key
	f.key = keyOf(f.row.columns[:max(f.table.keys, 1)])
	if f.next > 0 && before.compare(&f.key) >= 0 {
		return false, fmt.Errorf("%s: row %v does not come behind row %v", f.table.name, f.key, before)
	}
	f.next++
	return true, nil
}

// chooseFirst finds the first row. If several have one key, the rule of the table chooses.
func (l *lineup) chooseFirst() error {
	l.first = nil
	for _, f := range l.feeds {
		if l.first == nil {
			l.first = f
			continue
		}
		switch order := f.key.compare(&l.first.key); {
		case order == 0 && l.table.verb == once:
			return errTwice(l.table, &f.key)
		case order < 0, order == 0 && l.table.verb == replace:
			l.first = f
		}
	}
	return nil
}

// dropFirst goes on to the row behind the first, with another key.
func (l *lineup) dropFirst() error {
	key := l.first.key
	for i := 0; i < len(l.feeds); {
		f := l.feeds[i]
		more := true
		if f.key == key {
			var err error
			if more, err = f.nextRow(); err != nil {
				return err
			}
		}
		if more {
			i++
		} else {
			l.feeds = slices.Delete(l.feeds, i, i+1)
		}
	}
	return l.chooseFirst()
}

// sortedData returns the one statement that has those rows of some statements which are left when all are done, in
// the order of their keys, and what they delete of the rows that were there before.
func sortedData(statements []statement) ([]statement, deletions) {
	type write struct {
		key      rowKey
		from, at int // of the statements, and of its rows
	}
	var writes []write
	var deleted deletions
	for i := range statements {
		s := &statements[i]
		for _, r := range s.deleted {
			deleted = append(deleted, deletion{r, i + 1})
		}
		for at := range s.count {
			pace.Each(at)
			writes = pace.Push(writes, write{s.key(at), i, at})
		}
	}
	compare := func(a, b write) int { return a.key.compare(&b.key) }
	if !slices.IsSortedFunc(writes, compare) {
		slices.SortStableFunc(writes, compare)
	}
	left, gone := writes[:0], deleted.sweepKeys()
	for i, w := range writes {
		pace.Each(i)
		isLast := i+1 == len(writes) || writes[i+1].key != w.key
		if isLast && !gone.covers(&w.key, w.from+1) {
			left = append(left, w)
		}
	}
	put := func(w *rowWriter, i int) { statements[left[i].from].put(w, left[i].at) }
	return addRows(nil, dataTable, len(left), put), deleted
}

// A deletion deletes a range of rows that were written before it.
type deletion struct {
	keyRange
	at int // when, by the number of its statement
}

// deletions are those of one table. For any two ranges, one is part of the other, or they have no key in common:
// scopes, paths in them and the keys below a path are like that.
type deletions []deletion

// A sweep goes through keys in their order and says which are deleted.
type sweep struct {
	ahead deletions // by where they begin, the larger first
	open  deletions // that the last key was in, or may be: each is part of the one before
}

// sweepKeys returns one that has not begun.
func (d deletions) sweepKeys() *sweep {
	ahead := slices.Clone(d)
	slices.SortStableFunc(ahead, func(a, b deletion) int {
		return cmp.Or(a.from.compare(&b.from), b.before.compare(&a.before))
	})
	return &sweep{ahead: ahead}
}

// covers reports whether a row that was written with some statement is deleted by a later one; 0 is before all
// statements. The key is not smaller than that of the call before.
func (s *sweep) covers(key *rowKey, written int) bool {
	for len(s.ahead) > 0 && s.ahead[0].from.compare(key) <= 0 {
		s.closeBefore(&s.ahead[0].from)
		next := s.ahead[0]
		if n := len(s.open); n > 0 { // what is around it deletes as well
			next.at = max(next.at, s.open[n-1].at)
		}
		s.open, s.ahead = append(s.open, next), s.ahead[1:]
	}
	s.closeBefore(key)
	n := len(s.open)
	return n > 0 && s.open[n-1].at > written
}

// closeBefore drops the ranges that end before a key.
func (s *sweep) closeBefore(key *rowKey) {
	for n := len(s.open); n > 0 && s.open[n-1].before.compare(key) <= 0; n-- {
		s.open = s.open[:n-1]
	}
}
