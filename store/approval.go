package store

import (
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// An Approval is one that waits for people.
type Approval struct {
	Run      workflow.RunID
	Workflow string // name of the run's definition
	Token    workflow.TokenID
	Node     workflow.NodeID
	Message  string
	Approved int       // votes so far
	Rejected int       // votes so far
	Due      time.Time // it times out; zero if never
}

const (
	putApproval   = `INSERT INTO approvals (num, token, node, message, approved, rejected, due) VALUES (?, ?, ?, ?, ?, ?, ?)`
	dropApprovals = `DELETE FROM approvals WHERE num = ?`
	listApprovals = `SELECT r.id, r.workflow, a.token, a.node, a.message, a.approved, a.rejected, a.due, a.num FROM approvals a JOIN runs r ON r.num = a.num WHERE (a.num, a.token) > (?, ?) ORDER BY a.num, a.token LIMIT ?`
)

// writeApprovals brings the index up to date with the open approvals of a run,
// if they have changed, or if nobody knows what the index has.
func (r *Run) writeApprovals(db *sqlite.Conn) error {
	if r.listed && slices.Equal(r.row.Approvals, r.next.Approvals) {
		return nil
	}
	if !r.fresh {
		if _, err := db.Exec(dropApprovals, r.row.num); err != nil {
			return err
		}
	}
	for _, a := range r.next.Approvals {
		_, err := db.Exec(putApproval, r.row.num, int64(a.Token), string(a.Node), a.Message, int64(a.Approved), int64(a.Rejected), millis(a.Due))
		if err != nil {
			return err
		}
	}
	return nil
}

// Approvals yields the open approvals of all runs, oldest run first, in pages:
// commits go on in between.
func (d *Dir) Approvals() iter.Seq2[Approval, error] {
	const page = 256
	return func(yield func(Approval, error) bool) {
		num, token := int64(0), int64(0)
		for more := true; more; {
			var out []Approval
			err := d.read(func(db *sqlite.Conn) error {
				return db.Each(listApprovals, func(r *sqlite.Row) error {
					out = append(out, Approval{
						Run: workflow.RunID(r.Text(0)), Workflow: r.Text(1), Token: workflow.TokenID(r.Int64(2)), Node: workflow.NodeID(r.Text(3)),
						Message: r.Text(4), Approved: r.Int(5), Rejected: r.Int(6), Due: instant(r, 7),
					})
					num, token = r.Int64(8), r.Int64(2)
					return nil
				}, num, token, int64(page))
			})
			if err != nil {
				yield(Approval{}, err)
				return
			}
			for _, a := range out {
				if !yield(a, nil) {
					return
				}
			}
			more = len(out) == page
		}
	}
}
