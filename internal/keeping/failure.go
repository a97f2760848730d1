package keeping

import (
	"errors"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/workflow"
)

// ReferenceFailure returns the failure of a result that refers to a missing blob.
func ReferenceFailure(err error) workflow.Failure {
	if f := BlobFailure(err); f != nil {
		return *f
	}
	var re *blob.RefError
	if !errors.As(err, &re) {
		return workflow.Failure{Code: workflow.CodeError, Message: texts.Storable(err.Error(), texts.MaxMessage)}
	}
	return workflow.Failure{Code: workflow.CodeInvalidResult, Message: texts.Storable(err.Error(), texts.MaxMessage), Permanent: true}
}

// BlobFailure returns the failure of a task that cannot have a blob; nil if err is not
// an error about a blob.
func BlobFailure(err error) *workflow.Failure {
	var be *blob.Error
	if !errors.As(err, &be) {
		return nil
	}
	f := &workflow.Failure{Message: texts.Storable(err.Error(), texts.MaxMessage)}
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
