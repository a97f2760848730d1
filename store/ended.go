package store

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// An EndedRun is a run without a parent that has ended, as far as a purge asks for it.
type EndedRun struct {
	Run      workflow.RunID
	Workflow string // name of the definition
	Status   workflow.RunStatus
	At       time.Time // of its end
}

const (
	endedUp = `SELECT ended_at, num, id, workflow, status, parent FROM runs INDEXED BY runs_ended
		WHERE ended_at IS NOT NULL AND ended_at >= ?1 AND (ended_at, num) > (?1, ?2) ORDER BY ended_at, num LIMIT ?3`
	endedDown = `SELECT ended_at, num, id, workflow, status, parent FROM runs INDEXED BY runs_ended
		WHERE ended_at IS NOT NULL AND ended_at <= ?1 AND (ended_at, num) < (?1, ?2) ORDER BY ended_at DESC, num DESC LIMIT ?3`
)

// Ended yields the runs without a parent that have ended, in the order of their ends, or
// with newest in the opposite one, in pages: commits go on in between. The rows are not
// compared with their checksums: look at the head of a run before you act on it.
//
// Retention and purges go through it, page by page, and purge what they have read: the next page
// goes on behind an instant and a number, whether or not those runs are there still.
func (d *Dir) Ended(newest bool) iter.Seq2[EndedRun, error] {
	query, at, num := endedUp, int64(math.MinInt64), int64(math.MinInt64)
	if newest {
		query, at, num = endedDown, math.MaxInt64, math.MaxInt64
	}
	return func(yield func(EndedRun, error) bool) {
		for looked := listRows; looked == listRows; {
			var page []EndedRun
			looked = 0
			err := d.readMovedRuns(context.Background(), (*redoRun).hasEnded, func(db *sqlite.Conn) error {
				return db.Each(query, func(r *sqlite.Row) error {
					looked++
					at, num = r.Int64(0), r.Int64(1)
					if r.Text(5) == "" {
						page = append(page, EndedRun{workflow.RunID(r.Text(2)), r.Text(3), workflow.RunStatus(r.Int64(4)), column.TimeAt(r, 0)})
					}
					return nil
				}, at, num, int64(listRows))
			})
			for _, run := range page {
				if !yield(run, nil) {
					return
				}
			}
			if err != nil {
				yield(EndedRun{}, err)
				return
			}
		}
	}
}
