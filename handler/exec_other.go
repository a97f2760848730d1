//go:build !unix

package handler

import "os/exec"

// ownGroup does nothing: there are no process groups, and the process alone is
// killed.
func ownGroup(*exec.Cmd) {}

// killGroup does nothing: what a command leaves running goes on.
func killGroup(*exec.Cmd) {}
