package pawl

import (
	"errors"
	"maps"

	"github.com/pawl-run/pawl/internal/value"
)

// WithMetadata returns err with metadata about the attempt that failed, such as what a call
// of a model has cost: it is kept as metadata on task.retrying, task.failed or task.parked, and may be as large
// as that of a Result. nil stays nil. A handler may also return a Result beside its error; only its metadata
// count. A Snooze and ErrPending keep none.
func WithMetadata(err error, metadata map[string]any) error {
	if err == nil {
		return nil
	}
	return &metadataError{err, metadata}
}

// ErrorMetadata returns the metadata of an error that comes from WithMetadata, or wraps one;
// nil if there are none, or if asking the error panics.
func ErrorMetadata(err error) (metadata map[string]any) {
	defer func() {
		if recover() != nil { // what failureOf makes of that is the failure
			metadata = nil
		}
	}()
	var m *metadataError
	if !errors.As(err, &m) {
		return nil
	}
	return maps.Clone(m.metadata)
}

type metadataError struct {
	error
	metadata map[string]any
}

func (m *metadataError) Unwrap() error { return m.error }

// withResultMetadata returns the error of a handler with the metadata of the Result beside it, if
// the error has none of its own.
func withResultMetadata(output any, err error) error {
	if r, ok := output.(Result); ok && r.Metadata != nil && ErrorMetadata(err) == nil {
		return WithMetadata(err, r.Metadata)
	}
	return err
}

// storableMetadata returns the metadata of a failed attempt as a message can have them. Metadata that are no
// value, or too large, must not hide the failure: a text that says what is wrong with them is kept instead.
func storableMetadata(err error) map[string]any {
	metadata := ErrorMetadata(err)
	if metadata == nil {
		return nil
	}
	v, wrong := value.Normalize(metadata, metadataLimits)
	if wrong != nil {
		return map[string]any{"invalid_metadata": storableText(wrong.Error(), maxMessage)}
	}
	out, _ := v.(map[string]any)
	return out
}
