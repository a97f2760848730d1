//go:build unix

package handler

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives the command a process group of its own, which is killed as a
// whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}

// killGroup kills what a command that has ended left running in its group. The
// number of the group is not given to another process while the group has one.
// If it is empty, there is usually nothing of that number.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// hasGroup says whether a process is left in the group of a command that has ended: a process that was killed is there, and
// has its files open, until it has had a processor once more.
func hasGroup(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }
