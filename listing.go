package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An Approval is an open approval of any run, as Approvals lists it. Vote on it by
// Run and Token.
type Approval struct {
	Run      workflow.RunID   `json:"run"`
	Workflow string           `json:"workflow"` // name of the run's definition
	Token    workflow.TokenID `json:"token"`
	Node     workflow.NodeID  `json:"node"`
	Message  string           `json:"message"`          // what people are asked
	Input    any              `json:"input,omitzero"`   // of the node, a value of the JSON model; nil if it has none
	Approved int              `json:"approved"`         // votes so far
	Rejected int              `json:"rejected"`         // votes so far
	Due      time.Time        `json:"due,omitzero"`     // it times out; zero if never
	Trouble  string           `json:"trouble,omitzero"` // why nothing more can be said of it: its row is damaged
}

// An ApprovalFilter selects approvals. The zero value selects all.
type ApprovalFilter struct {
	Run      workflow.RunID
	Workflow string // name of the run's definition
	Node     workflow.NodeID
	Where    string // a condition on the run, as RunFilter.Where has it

	After      workflow.RunID   // those that come after AfterToken of this run; "" is from the first
	AfterToken workflow.TokenID // of the run After
	Limit      int              // at most so many; 0 is all
	Effort     time.Duration    // as RunFilter has it, of the condition
}

// Approvals lists the open approvals of all runs that fit the filter, from the index, page by page,
// oldest run first. An error ends the list: a *WhereError for a condition, ErrRunNotFound if the run of
// After was purged.
func (e *Engine) Approvals(ctx context.Context, f ApprovalFilter) iter.Seq2[Approval, error] {
	if err := e.checkUsable(ctx); err != nil {
		return func(yield func(Approval, error) bool) { yield(Approval{}, err) }
	}
	return listUntilDone(ctx, e.dir.Approvals(ctx, store.ApprovalFilter(f)), func(a store.Approval) Approval {
		return Approval{a.Run, a.Workflow, a.Token, a.Node, a.Message, a.Input, a.Approved, a.Rejected, a.Due, troubleOf(a.Damage)}
	})
}

// A DeadLetter is a task of any run that has used up its attempts and waits for an
// operator, as DeadLetters lists it. Retry or Skip it by Run and Token.
type DeadLetter struct {
	Run      workflow.RunID   `json:"run"`
	Workflow string           `json:"workflow"` // name of the run's definition
	Token    workflow.TokenID `json:"token"`
	Node     workflow.NodeID  `json:"node"`
	Task     string           `json:"task"`             // its type
	Attempts int              `json:"attempts"`         // made so far
	Failure  workflow.Failure `json:"failure"`          // of the last attempt
	Input    any              `json:"input,omitzero"`   // of the task, a value of the JSON model
	At       time.Time        `json:"at"`               // since when it waits
	Trouble  string           `json:"trouble,omitzero"` // why nothing more can be said of it: its row is damaged
}

// A DeadLetterFilter selects dead letters. The zero value selects all.
type DeadLetterFilter struct {
	Run      workflow.RunID
	Workflow string // name of the run's definition
	Node     workflow.NodeID
	Task     string // its type
	Code     string // of the last failure
	Where    string // a condition on the run, as RunFilter.Where has it

	After      workflow.RunID   // those that come after AfterToken of this run; "" is from the first
	AfterToken workflow.TokenID // of the run After
	Limit      int              // at most so many; 0 is all
	Effort     time.Duration    // as RunFilter has it, of the condition
}

// DeadLetters lists the tasks of all runs that wait for an operator (their node says exhausted: park), from the index, page by
// page, oldest run first. An error ends the list: a *WhereError for a condition, ErrRunNotFound if the run of After was purged.
func (e *Engine) DeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[DeadLetter, error] {
	if err := e.checkUsable(ctx); err != nil {
		return func(yield func(DeadLetter, error) bool) { yield(DeadLetter{}, err) }
	}
	return listUntilDone(ctx, e.dir.DeadLetters(ctx, store.DeadLetterFilter(f)), func(l store.DeadLetter) DeadLetter {
		return DeadLetter{l.Run, l.Workflow, l.Token, l.Node, l.Task, l.Attempts, l.Failure, l.Input, l.At, troubleOf(l.Damage)}
	})
}

// troubleOf returns the text of an error, "" for nil.
func troubleOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// listUntilDone yields a list of the store with the types and errors of this package, and ends it when ctx is done.
func listUntilDone[S, T any](ctx context.Context, list iter.Seq2[S, error], convert func(S) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range list {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				var none T
				yield(none, invalidWhere(closedError(err)))
				return
			}
			if !yield(convert(x), nil) {
				return
			}
		}
	}
}

// asIs converts nothing.
func asIs[T any](x T) T { return x }

// A WhereError says why a condition on runs, as in RunFilter.Where, cannot be compiled, or
// evaluated for a run. It comes with ErrInvalid.
type WhereError struct {
	Line    int            // of the condition, from 1; 0 if there is no place
	Column  int            // in code points, from 1
	Message string         // what is wrong
	Run     workflow.RunID // the run for which it is; "" if it is for every run
}

// Error returns the message, with the place and the run.
func (e *WhereError) Error() string { return (*store.WhereError)(e).Error() }

// An EffortError ends a list that has used up the Effort of its filter, such as RunFilter.Effort. There may be more: to continue,
// list with the same filter, After set to the Run of the error and AfterToken to its Token.
type EffortError struct {
	Most  time.Duration    // of a processor: the Effort
	Run   workflow.RunID   // the last one that was looked at
	Token workflow.TokenID // likewise, of a list of tokens
}

// Error says how far the list came.
func (e *EffortError) Error() string { return (*store.EffortError)(e).Error() }

// checkWhere returns the error with which a list with this condition would begin, nil for one that compiles. "" is no condition.
func checkWhere(where string) error {
	if where == "" {
		return nil
	}
	_, err := filter.Parse(where)
	return invalidWhere(err)
}

// invalidWhere adds ErrInvalid to a *WhereError.
func invalidWhere(err error) error {
	if errors.As(err, new(*WhereError)) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// fitsWhere reports whether a change is of a run for which a condition holds.
func (e *Engine) fitsWhere(c *RunChange, w *filter.Where) (bool, error) {
	if w == nil || c.Lost {
		return true, nil
	}
	fits, err := e.dir.FitsRun(w, &filter.Run{
		ID: c.Run, Workflow: c.Workflow, Version: c.Version, Status: c.Status, Labels: c.Labels, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
		Parent: c.Parent, ForkedFrom: c.ForkedFrom.Run, Tenant: c.Tenant, Seq: c.Seq, Code: c.Code,
	})
	return fits, invalidWhere(err)
}

// A LabelError says which label of a run is not one. It is ErrInvalid.
type LabelError struct {
	Key  string // "" if there are too many
	What string // is wrong
}

// Error says what is wrong with which label.
func (e *LabelError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%v: %s", ErrInvalid, e.What)
	}
	return fmt.Sprintf("%v: label %+q: %s", ErrInvalid, value.Shorten(e.Key, limits.MaxLabelKey), e.What)
}

// Unwrap returns ErrInvalid.
func (e *LabelError) Unwrap() error { return ErrInvalid }

// checkLabels returns a *LabelError of the first label that is wrong, by key.
func checkLabels(labels map[string]string) error {
	if key, what := texts.LabelFault(labels); what != "" {
		return &LabelError{key, what}
	}
	return nil
}
