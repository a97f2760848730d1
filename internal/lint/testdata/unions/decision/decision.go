// Package decision has a variant that its table lacks.
package decision

// A Decision is sealed.
type Decision interface{ decision() }

type (
	// CreateToken is listed.
	CreateToken struct{}
	// CancelToken is not.
	CancelToken struct{}
)

func (CreateToken) decision() {}
func (CancelToken) decision() {}
