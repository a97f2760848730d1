// Package decision has a variant that its table lacks.
package decision

// A Decision is sealed.
type Decision interface{ evolveState() }

type (
	// CreateToken is listed.
	CreateToken struct{}
	// CancelToken is not.
	CancelToken struct{}
)

func (CreateToken) evolveState() {}
func (CancelToken) evolveState() {}
