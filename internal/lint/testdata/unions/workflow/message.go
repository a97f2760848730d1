// Package workflow has no table at all.
package workflow

type start struct{}

func (start) message() {}
