//go:build !unix

package handler

import "os/exec"

// ownGroup does nothing: there are no process groups, and the process alone is
// killed.
func ownGroup(*exec.Cmd) {}

// killGroup does nothing: processes that a command leaves running go on.
func killGroup(*exec.Cmd) {}

// hasGroup says that there is no group.
func hasGroup(*exec.Cmd) bool { return false }
