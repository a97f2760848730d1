//go:build !(linux && amd64)

package power

import "os/exec"

// A Tracer would follow a child; here none can be followed.
type Tracer struct{}

// NewTracer returns a tracer that follows nobody.
func NewTracer(string, string, []Op) *Tracer { return &Tracer{} }

// Ops returns nothing.
func (*Tracer) Ops() []Op { return nil }

// Run fails with ErrNoTrace.
func (*Tracer) Run(*exec.Cmd) error { return ErrNoTrace }
