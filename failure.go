package pawl

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A TaskError is an error that a handler chooses a code for. Definitions catch
// it by Code; a retry policy retries it if it is Retryable. The engine keeps 256
// bytes of Code, and 16 KiB of Message, as of any error's text, and replaces
// what is not UTF-8.
//
// RetryAfter, if it is more than 0, is how long the next attempt waits, in place of the
// delay of the node's retry policy: at most MaxRetryAfter, which is taken for anything
// longer. The policy still decides whether there is a next attempt.
type TaskError struct {
	Code       string
	Message    string
	Retryable  bool
	RetryAfter time.Duration
}

// MaxRetryAfter bounds TaskError.RetryAfter.
const MaxRetryAfter = 24 * time.Hour

// Error returns code and message.
func (e TaskError) Error() string { return e.Code + ": " + e.Message }

// Permanent returns err as an error that no policy retries; nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// IsPermanent says whether no policy retries a handler's error: it comes from
// Permanent, or is a TaskError that is not Retryable.
func IsPermanent(err error) bool {
	_, snoozed := snoozeOf(err)
	return err != nil && !snoozed && failureOf(err).Permanent
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// failureOf returns a handler's error as a failure. Where Error panics, as that of
// a nil pointer may, the text says so; where another of its methods does, it is a
// panic of the handler.
func failureOf(err error) (f workflow.Failure) {
	defer func() {
		if r := recover(); r != nil {
			f = workflow.Failure{Code: workflow.CodePanic, Message: storableText(fmt.Sprintf("the error %T: %v", err, r), maxMessage), Permanent: true}
		}
	}()
	var te TaskError
	var at *TaskError
	var p permanent
	switch {
	case errors.As(err, &te):
		return failureFrom(te)
	case errors.As(err, &at) && at != nil:
		return failureFrom(*at)
	}
	if f := blobFailure(err); f != nil {
		return *f
	}
	return workflow.Failure{Code: workflow.CodeError, Message: storableText(fmt.Sprint(err), maxMessage), Permanent: errors.As(err, &p)}
}

func failureFrom(e TaskError) workflow.Failure {
	return workflow.Failure{Code: storableText(e.Code, maxCode), Message: storableText(e.Message, maxMessage), Permanent: !e.Retryable}
}

// retryAfterOf returns the delay that a handler's error asks for; 0 if it asks for none.
func retryAfterOf(err error) time.Duration {
	var te TaskError
	if at := (*TaskError)(nil); !errors.As(err, &te) && errors.As(err, &at) && at != nil {
		te = *at
	}
	return min(max(te.RetryAfter, 0), MaxRetryAfter)
}

// attemptError returns the message that a handler's error is about an attempt; m says
// about which, and who says so.
func attemptError(m state.TaskFailed, err error) state.Message {
	if after, snoozed := snoozeOf(err); snoozed {
		return state.TaskSnoozed{Token: m.Token, Attempt: m.Attempt, Epoch: m.Epoch, After: after, Act: m.Act}
	}
	if m.Failure = failureOf(err); !m.Failure.Permanent {
		m.RetryAfter = retryAfterOf(err)
	}
	m.Metadata = storableMetadata(err)
	return m
}

// referenceFailure returns the failure of a result that refers to a missing blob.
func referenceFailure(err error) workflow.Failure {
	if f := blobFailure(err); f != nil {
		return *f
	}
	var re *blob.RefError
	if !errors.As(err, &re) {
		return workflow.Failure{Code: workflow.CodeError, Message: storableText(err.Error(), maxMessage)}
	}
	return workflow.Failure{Code: workflow.CodeInvalidResult, Message: storableText(err.Error(), maxMessage), Permanent: true}
}

// blobFailure returns the failure of a task that cannot have a blob; nil if err is not
// an error about a blob.
func blobFailure(err error) *workflow.Failure {
	var be *blob.Error
	if !errors.As(err, &be) {
		return nil
	}
	f := &workflow.Failure{Message: storableText(err.Error(), maxMessage)}
	switch {
	case errors.Is(be, blob.ErrMissing):
		f.Code, f.Permanent = workflow.CodeBlobMissing, true
	case errors.Is(be, blob.ErrDamaged):
		f.Code, f.Permanent = workflow.CodeBlobDamaged, true
	case errors.Is(be, blob.ErrSize):
		f.Code, f.Permanent = workflow.CodeInvalidResult, true
	default:
		f.Code = workflow.CodeError
	}
	return f
}

// Bounds of what a host says in words, in bytes; more is cut off.
const (
	maxCode    = 256
	maxMessage = 16 << 10
)

// storableText returns a text of the host as a record can hold it: UTF-8, of at most
// so many bytes. A text that cannot be stored must not stop a run.
func storableText(text string, most int) string {
	if len(text) > most {
		const more = "..."
		cut := most - len(more)
		for back := cut - utf8.UTFMax; cut > back && !utf8.RuneStart(text[cut]); cut-- {
		}
		text = text[:cut] + more
	}
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}
