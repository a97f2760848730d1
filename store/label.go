package store

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

const (
	putLabel    = `INSERT INTO labels (num, key, value, crc) VALUES (?, ?, ?, ?)`
	someOfLabel = `SELECT 1 FROM labels WHERE key = ?1 AND value = ?2 LIMIT ?3`
	countLabel  = `SELECT count(*) FROM (` + someOfLabel + `)`
)

// inLabel leads to the runs with a label: its queries take the key as well.
var inLabel = runOrder{
	`SELECT num FROM labels WHERE key = ?4 AND value = ?3 AND num > ?1 ORDER BY num LIMIT ?2`,
	`SELECT num FROM labels WHERE key = ?4 AND value = ?3 AND num < ?1 ORDER BY num DESC LIMIT ?2`,
}

// putLabels lists the labels of a new run, by which it is found.
func putLabels(db *sqlite.Conn, num int64, labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, err := db.Exec(putLabel, index.RowWithCRC(num, key, labels[key])...); err != nil {
			return err
		}
	}
	return nil
}

// A label of a filter, and how many runs have it, up to maxGathered.
//
// The number is found once, for the list: looked at are the runs that the rarest label leads to.
type label struct {
	key, value string
	runs       int64
}

// chooseLabel finds which label of the filter the fewest runs have.
//
// It stops counting where a label is no help, and more than that need not be told apart.
func (l *runList) chooseLabel(ctx context.Context) error {
	if len(l.filter.Labels) == 0 {
		return nil
	}
	return l.d.readRuns(ctx, func(db *sqlite.Conn) error {
		for _, key := range slices.Sorted(maps.Keys(l.filter.Labels)) {
			v, n := l.filter.Labels[key], int64(0)
			_, err := db.One(countLabel, func(r *sqlite.Row) error { n = r.Int64(0); return nil }, key, v, int64(maxGathered))
			if err != nil {
				return err
			}
			if l.label == nil || n < l.label.runs {
				l.label = &label{key, v, n}
			}
		}
		return nil
	})
}

// labelIsRarer reports whether the label leads to fewer runs than the statuses, the workflow
// and the tenant do. It says the same for all pages.
func (l *runList) labelIsRarer() bool {
	if l.labelled == 0 {
		f, n := &l.filter, l.label.runs
		l.labelled = 1
		if len(f.Status) > 0 && l.d.counts.countOf("", f.Status) < n || f.Workflow != "" && l.d.counts.countOf(f.Workflow, nil) < n || f.Tenant != "" && n == maxGathered {
			l.labelled = -1
		}
	}
	return l.labelled > 0
}

// labelList returns labels as the queries of lists take them: a list of pairs.
func labelList(labels map[string]string) string {
	list := make([][2]string, 0, len(labels))
	for key, v := range labels {
		list = append(list, [2]string{key, v})
	}
	text, _ := json.Marshal(list) //nolint:errchkjson // texts
	return string(text)
}
