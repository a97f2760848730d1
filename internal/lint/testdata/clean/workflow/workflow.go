// Package workflow is clean.
package workflow

import (
	_ "github.com/pawl-run/pawl/internal/codec"
	_ "github.com/pawl-run/pawl/merge"
)

type (
	// A Message is sealed.
	Message interface{ isMessage() }
	// Start is a variant.
	Start struct{}
	// Cancel is a variant.
	Cancel struct{}
)

func (Start) isMessage()   {}
func (*Cancel) isMessage() {}

var messageVariants = []Message{Start{}, &Cancel{}}
