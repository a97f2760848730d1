// Package state has no table at all.
package state

type start struct{}

func (start) isMessage() {}
