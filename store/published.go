package store

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A Published names a definition that is published.
type Published struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Hash    string `json:"hash"` // of its content
}

const getPublishedAfter = `SELECT name, version, hash, crc FROM published WHERE (name, version) > (?1, ?2) ORDER BY name, version LIMIT 256`

// AllPublished yields the published definitions of this name, of every name if it is "", by name and version,
// page by page. An error ends the list: of a damaged row ErrCorrupt, of ctx its own.
//
// A page begins behind the last name and version, so what is published meanwhile may be listed or
// not.
func (d *Dir) AllPublished(ctx context.Context, name string) iter.Seq2[Published, error] {
	return func(yield func(Published, error) bool) {
		last := Published{Name: name}
		for {
			var page []Published
			err := d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
				return db.Each(getPublishedAfter, func(r *sqlite.Row) error {
					if !index.CRCMatches(r, 1, 3) {
						return &CorruptError{File: d.pathOf(indexFile), What: fmt.Sprintf("the row of %s version %d, which is published, has changed", r.Text(0), r.Int64(1))}
					}
					page = append(page, Published{r.Text(0), r.Int(1), r.Text(2)})
					return nil
				}, last.Name, int64(last.Version))
			})
			if err != nil {
				yield(Published{}, err)
				return
			}
			for _, p := range page {
				if name != "" && p.Name != name || !yield(p, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last = page[len(page)-1]
		}
	}
}
