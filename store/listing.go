package store

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A listing is the row of a token in the lists of all runs from now on: in one of them,
// or, with neither, in none. Token 0 says that no token of the run is in any.
//
// It replaces whatever the lists had of that token: the commit that makes it needs not know what
// that was.
type listing struct {
	Token      workflow.TokenID
	Approval   *Approval
	DeadLetter *DeadLetter
}

// An Approval is one that waits for people.
type Approval struct {
	Run      workflow.RunID
	Workflow string
	Token    workflow.TokenID
	Node     workflow.NodeID
	Message  string
	Input    any
	Approved int
	Rejected int
	Due      time.Time
	Damage   error // a *CorruptError: nothing more can be said of it
}

// A DeadLetter is a task that has used up its attempts and waits for an
// operator.
type DeadLetter struct {
	Run      workflow.RunID
	Workflow string
	Token    workflow.TokenID
	Node     workflow.NodeID
	Task     string
	Attempts int
	Failure  workflow.Failure
	Input    any
	At       time.Time
	Damage   error // a *CorruptError: nothing more can be said of it
}

// A DeadLetterFilter selects dead letters. The zero value of a field is any. After is the place that its run has when the list
// begins, as RunFilter says of its After: if the run was purged, and its id was given to a new one, dead letters of runs before
// that one are passed over.
type DeadLetterFilter struct {
	Run      workflow.RunID
	Workflow string
	Node     workflow.NodeID
	Task     string
	Code     string
	Where    string

	After      workflow.RunID
	AfterToken workflow.TokenID
	Limit      int
	Effort     time.Duration
}

// An ApprovalFilter selects approvals. The zero value of a field is any. After is as that of a
// DeadLetterFilter.
type ApprovalFilter struct {
	Run      workflow.RunID
	Workflow string
	Node     workflow.NodeID
	Where    string

	After      workflow.RunID
	AfterToken workflow.TokenID
	Limit      int
	Effort     time.Duration
}

// Both lists have a row for each token that waits, which comes and goes with the commit that
// makes it wait, or wait no longer. So the lists of all runs are read without loading any of
// them.
const (
	putApproval = `INSERT OR REPLACE INTO approvals (num, token, node, message, input, approved, rejected, due, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	putDead     = `INSERT OR REPLACE INTO dead_letters (num, token, node, task, attempts, failure, input, at, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	dropApproval  = `DELETE FROM approvals WHERE num = ? AND token = ?`
	dropApprovals = `DELETE FROM approvals WHERE num = ?`
	dropDead      = `DELETE FROM dead_letters WHERE num = ? AND token = ?`
	dropAllDead   = `DELETE FROM dead_letters WHERE num = ?`

	listApprovals = `SELECT a.num, a.token, a.node, a.message, a.input, a.approved, a.rejected, a.due, a.crc, r.id, r.workflow
		FROM approvals a JOIN runs r ON r.num = a.num WHERE (a.num, a.token) > (?, ?) AND (a.num, a.token) <= (?, ?) ORDER BY a.num, a.token`
	listDead = `SELECT a.num, a.token, a.node, a.task, a.attempts, a.failure, a.input, a.at, a.crc, r.id, r.workflow
		FROM dead_letters a JOIN runs r ON r.num = a.num WHERE (a.num, a.token) > (?, ?) AND (a.num, a.token) <= (?, ?)
		AND (? = '' OR r.id = ?) AND (? = '' OR r.workflow = ?) AND (? = '' OR a.node = ?) AND (? = '' OR a.task = ?)
		AND (? = '' OR a.failure ->> 'code' = ?) ORDER BY a.num, a.token`

	// The rows of the next page of a list, whether or not they fit.
	nextApprovals = `SELECT num, token FROM approvals WHERE (num, token) > (?, ?) ORDER BY num, token LIMIT ?`
	nextDead      = `SELECT num, token FROM dead_letters WHERE (num, token) > (?, ?) ORDER BY num, token LIMIT ?`
	nextDeadOf    = `SELECT num, token FROM dead_letters WHERE num = (SELECT num FROM runs WHERE id = ?4) AND (num, token) > (?1, ?2) ORDER BY num, token LIMIT ?3`
)

// writeListings brings the lists of all runs up to date.
func (r *Run) writeListings(db *sqlite.Conn) error {
	for i := range r.listings {
		if err := r.writeListing(db, &r.listings[i], r.texts[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeListing writes the rows by which the lists of approvals and dead letters show one token of the run, or removes them. A
// listing with token 0 removes the rows of all tokens of the run, when none of them waits any more.
//
// A token that waits for people is not a dead letter, and may have been one before: so the row of the other list is removed in
// any case.
func (r *Run) writeListing(db *sqlite.Conn, l *listing, t listed) error {
	var err error
	drop := func(query string, token ...workflow.TokenID) {
		if err == nil && len(token) == 0 {
			_, err = db.Exec(query, r.row.Num)
		} else if err == nil {
			_, err = db.Exec(query, r.row.Num, int64(token[0]))
		}
	}
	if l.Token == 0 {
		drop(dropApprovals)
		drop(dropAllDead)
		return err
	}
	if a := l.Approval; a != nil {
		_, err = db.Exec(putApproval, index.RowWithCRC(r.row.Num,
			int64(a.Token), string(a.Node), t.first, t.input, int64(a.Approved), int64(a.Rejected), column.Millis(a.Due))...)
	} else {
		drop(dropApproval, l.Token)
	}
	if d := l.DeadLetter; d != nil && err == nil {
		_, err = db.Exec(putDead, index.RowWithCRC(r.row.Num,
			int64(d.Token), string(d.Node), d.Task, int64(d.Attempts), t.first, t.input, column.Millis(d.At))...)
	} else {
		drop(dropDead, l.Token)
	}
	return err
}

// Approvals yields the open approvals of all runs, oldest run first, in pages:
// commits go on in between. It ends with the error of ctx when that is done, and fails with ErrRunNotFound if the run that it begins after
// does not exist.
func (d *Dir) Approvals(ctx context.Context, f ApprovalFilter) iter.Seq2[Approval, error] {
	return endAfter(f.Limit, listWhere(ctx, d, d.fittingApprovals(ctx, f), listCondition{f.Where, f.Effort}, func(a *Approval) (workflow.RunID, workflow.TokenID) {
		return a.Run, a.Token
	}))
}

// takesApproval reports whether an approval fits all of the filter but Where, which is of its run and costs more.
func (f *ApprovalFilter) takesApproval(a *Approval) bool {
	return (f.Run == "" || a.Run == f.Run) && (f.Workflow == "" || a.Workflow == f.Workflow) && (f.Node == "" || a.Node == f.Node)
}

// fittingApprovals yields every open approval that fits. For a damaged row it yields the token, and what is wrong.
func (d *Dir) fittingApprovals(ctx context.Context, f ApprovalFilter) iter.Seq2[Approval, error] {
	next := func(db *sqlite.Conn, row func(*sqlite.Row) error, after listKey) error {
		return db.Each(nextApprovals, row, after.num, after.token, int64(listRows))
	}
	return listPages(ctx, d, listStart{f.After, f.AfterToken}, next, func(db *sqlite.Conn, after, last listKey, row func(Approval)) error {
		return db.Each(listApprovals, func(r *sqlite.Row) error {
			a := Approval{
				Run: workflow.RunID(r.Text(9)), Workflow: r.Text(10), Token: workflow.TokenID(r.Int64(1)), Node: workflow.NodeID(r.Text(2)),
				Approved: r.Int(5), Rejected: r.Int(6), Due: column.TimeAt(r, 7),
			}
			if !f.takesApproval(&a) {
				return nil
			}
			t, err := d.readListed(r, a.Run, 3)
			if err == nil {
				a.Message = t.first
				a.Input, err = codec.DecodeValue([]byte(t.input))
			}
			if err = d.listError(a.Run, "an approval", err); errors.Is(err, ErrCorrupt) {
				a = Approval{Run: a.Run, Workflow: a.Workflow, Token: a.Token, Node: a.Node, Damage: err}
			} else if err != nil {
				return err
			}
			row(a)
			return nil
		}, after.num, after.token, last.num, last.token)
	})
}

// DeadLetters yields the tasks of all runs that wait for an operator and fit the
// filter, oldest run first, in pages: commits go on in between. It ends with the error of ctx when that is done, and fails with ErrRunNotFound
// if the run that it begins after does not exist.
//
// Which rows are looked at is decided by next, and which of them fit by the query, so that a
// filter which few rows fit does not hold the lock for as long as it takes to find them.
func (d *Dir) DeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[DeadLetter, error] {
	next := func(db *sqlite.Conn, row func(*sqlite.Row) error, after listKey) error {
		if f.Run != "" {
			return db.Each(nextDeadOf, row, after.num, after.token, int64(listRows), string(f.Run))
		}
		return db.Each(nextDead, row, after.num, after.token, int64(listRows))
	}
	run, node := string(f.Run), string(f.Node)
	list := listPages(ctx, d, listStart{f.After, f.AfterToken}, next, func(db *sqlite.Conn, after, last listKey, row func(DeadLetter)) error {
		return db.Each(listDead, func(r *sqlite.Row) error {
			l := DeadLetter{
				Run: workflow.RunID(r.Text(9)), Workflow: r.Text(10), Token: workflow.TokenID(r.Int64(1)), Node: workflow.NodeID(r.Text(2)),
				Task: r.Text(3), Attempts: r.Int(4), At: column.TimeAt(r, 7),
			}
			t, err := d.readListed(r, l.Run, 5)
			var failure *workflow.Failure
			if err == nil {
				failure, err = column.ParseFailure(t.first)
			}
			if err == nil {
				l.Failure = *failure
				l.Input, err = codec.DecodeValue([]byte(t.input))
			}
			if err = d.listError(l.Run, "a dead letter", err); errors.Is(err, ErrCorrupt) {
				l = DeadLetter{Run: l.Run, Workflow: l.Workflow, Token: l.Token, Node: l.Node, Damage: err}
			} else if err != nil {
				return err
			}
			row(l)
			return nil
		}, after.num, after.token, last.num, last.token, run, run, f.Workflow, f.Workflow, node, node, f.Task, f.Task, f.Code, f.Code)
	})
	return endAfter(f.Limit, listWhere(ctx, d, list, listCondition{f.Where, f.Effort}, func(l *DeadLetter) (workflow.RunID, workflow.TokenID) {
		return l.Run, l.Token
	}))
}

// A listKey is where a row stands in the lists of all runs.
type listKey struct{ num, token int64 }

// A listStart is the run and the token behind which a list begins; the zero value is before the first.
type listStart struct {
	run   workflow.RunID
	token workflow.TokenID
}

// keyOf returns where a list begins. The number of the run is looked for, as a list goes by numbers, which only the index knows: the token may
// wait no longer, and the run may have ended.
func (s listStart) keyOf(ctx context.Context, d *Dir) (listKey, error) {
	if s.run == "" {
		return listKey{}, nil
	}
	row, err := d.readRowUntil(ctx, s.run)
	if err != nil && (!errors.Is(err, ErrCorrupt) || row.Num == 0) { // a damaged row has its place all the same
		return listKey{}, err
	}
	return listKey{row.Num, int64(s.token)}, nil
}

// endAfter ends a list after so many entries; 0 is all.
func endAfter[T any](limit int, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	if limit <= 0 {
		return list
	}
	return func(yield func(T, error) bool) {
		n := 0
		for x, err := range list {
			if n++; !yield(x, err) || n == limit {
				return
			}
		}
	}
}

// readListed reads the texts of a row in a list; first is the column of the first text.
//
// readListed fails if the checksum does not fit, and with ErrSealed if the texts cannot be
// opened.
func (d *Dir) readListed(r *sqlite.Row, id workflow.RunID, first int) (listed, error) {
	t := listed{r.Text(first), r.Text(first + 1)}
	if !index.CRCMatches(r, 1, 8) {
		return t, errors.New("its row has changed")
	}
	return d.openListed(id, workflow.TokenID(r.Int64(1)), t)
}

// listError returns the error of a row in a list.
func (d *Dir) listError(id workflow.RunID, what string, err error) error {
	if err == nil || errors.Is(err, ErrSealed) {
		return err
	}
	return &CorruptError{Run: id, File: d.pathOf(indexFile), What: what + " in the index is damaged", Err: err}
}

// listPages yields what query reads behind from, page by page: next reads the keys of the rows that
// are to be looked at behind one, and query those of them that fit.
//
// Rows are yielded without the lock. Rows that were read before an error come first.
func listPages[T any](ctx context.Context, d *Dir, from listStart, next func(db *sqlite.Conn, row func(*sqlite.Row) error, after listKey) error,
	query func(db *sqlite.Conn, after, last listKey, row func(x T)) error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		last, err := from.keyOf(ctx, d)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for more := true; more; {
			var out []T
			err := d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
				after, looked := last, 0
				err := next(db, func(r *sqlite.Row) error {
					looked++
					last = listKey{r.Int64(0), r.Int64(1)}
					return nil
				}, after)
				if more = looked == listRows; err != nil || looked == 0 {
					return err
				}
				return query(db, after, last, func(x T) { out = append(out, x) })
			})
			for _, x := range out {
				if !yield(x, nil) {
					return
				}
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
		}
	}
}

// listingsAt returns what a commit at an instant changes in the lists of all runs:
// of the tokens that the state's TakeListings names.
//
// For a commit it is asked once, with the state after all its records: a token that began to wait
// and ceased to within one commit is never in a list.
func listingsAt(s *state.State, at time.Time) []listing {
	ids := s.TakeListings()
	if len(ids) > 0 && s.Status.Final() {
		return []listing{{}} // nothing waits any more
	}
	out := make([]listing, len(ids))
	for i, id := range ids {
		out[i] = listingOf(s, s.Token(id), at)
	}
	return out
}

// Listings are what the records of a run, one after the other, make of the lists of all
// runs. The zero value is empty.
type Listings struct {
	last map[workflow.TokenID]listing
}

// AddRecord adds what a record at an instant has changed. s is the state after it.
//
// It is for a run whose records come all at once, from another directory: what the last of them
// left of each token is what counts. After the end of the run nothing is left.
func (l *Listings) AddRecord(s *state.State, at time.Time) {
	if l.last == nil {
		l.last = map[workflow.TokenID]listing{}
	}
	for _, x := range listingsAt(s, at) {
		if x.Token == 0 {
			clear(l.last)
		}
		l.last[x.Token] = x
	}
}

func (l *Listings) sorted() (out []listing) {
	for _, id := range slices.Sorted(maps.Keys(l.last)) {
		out = append(out, l.last[id])
	}
	return out
}

// WaitingTokens returns what the lists of all runs say of a run with the state s: its open
// approvals, and its dead letters, without the instants since when they wait.
//
// A verification compares it with the rows that the lists have.
func WaitingTokens(s *state.State) (approvals []Approval, letters []DeadLetter) {
	if s.Status.Final() {
		return nil, nil
	}
	for _, id := range s.LiveTokens() {
		l := listingOf(s, s.Token(id), time.Time{})
		if l.Approval != nil {
			approvals = append(approvals, *l.Approval)
		}
		if l.DeadLetter != nil {
			letters = append(letters, *l.DeadLetter)
		}
	}
	return approvals, letters
}

// listingOf returns how a token stands in the lists since an instant.
func listingOf(s *state.State, t *state.Token, at time.Time) listing {
	l := listing{Token: t.ID}
	switch t.Status {
	case workflow.WaitingForApproval:
		l.Approval = approvalOf(s, t)
	case workflow.WaitingForOperator:
		l.DeadLetter = deadLetterOf(s, t, at)
	default:
	}
	return l
}

// approvalOf returns a token that waits for people as the list of approvals shows it, with the votes so far.
//
// A message that the token remembers takes the place of the definition's.
func approvalOf(s *state.State, t *state.Token) *Approval {
	a := &Approval{
		Run: s.Run, Workflow: s.Graph.Definition.Name, Token: t.ID, Node: t.Node,
		Message: s.Graph.Node(t.Node).Approval.Message, Input: t.Input, Due: t.Due,
	}
	if m := t.Remembered().Message; m != "" {
		a.Message = m
	}
	for _, v := range t.Votes {
		if v.Approved {
			a.Approved++
		} else {
			a.Rejected++
		}
	}
	return a
}

func deadLetterOf(s *state.State, t *state.Token, at time.Time) *DeadLetter {
	l := &DeadLetter{
		Run: s.Run, Workflow: s.Graph.Definition.Name, Token: t.ID, Node: t.Node, Task: t.TaskAt(s.Graph.Node(t.Node)),
		Attempts: t.Attempts(), Input: t.Input, At: at,
	}
	if t.Failure != nil {
		l.Failure, l.Attempts = *t.Failure, t.Failure.Attempts
	}
	return l
}

// textsOf returns the texts of a row in the lists.
func (l *listing) textsOf() (t listed) {
	switch {
	case l.DeadLetter != nil:
		t = listed{failureText(l.DeadLetter.Failure), string(value.Encode(l.DeadLetter.Input))}
	case l.Approval != nil:
		t = listed{l.Approval.Message, string(value.Encode(l.Approval.Input))}
	}
	return t
}

func failureText(f workflow.Failure) string {
	text, _ := column.JSONText(f).(string)
	return text
}
