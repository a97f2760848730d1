//go:build linux && amd64

package damagetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl/internal/harness"
)

// A tracer follows all threads of a child and notes what it does to files below
// a directory, in the order in which the calls return.
type tracer struct {
	root    string // what is of interest
	ops     []op
	entered map[int]call // calls under way, by thread
	pid     int
	fault   error
}

// A call is one that a thread has entered.
type call struct {
	regs   unix.PtraceRegs
	paths  [2]string
	covers int // operations that had returned by then
}

// traced runs a child under the tracer until it ends, and returns ops with its
// operations added.
func traced(t *testing.T, root string, ops []op, env ...string) []op {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0])
	cmd.Env = harness.Environment(env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skipf("LOSSES OF POWER ARE NOT TESTED: no child can be traced here: %v", err)
	}
	tr := &tracer{root: root, ops: ops, entered: map[int]call{}, pid: cmd.Process.Pid}
	status, err := tr.follow()
	_ = cmd.Process.Release() // it has been waited for
	switch {
	case err != nil:
		t.Fatalf("trace: %v", err)
	case tr.fault != nil:
		t.Fatalf("trace: %v", tr.fault)
	case !status.Exited() || status.ExitStatus() != 0:
		t.Fatalf("the child ended with %#x", uint32(status))
	}
	return tr.ops
}

// follow runs the child until it ends.
func (tr *tracer) follow() (status unix.WaitStatus, err error) {
	if _, err := unix.Wait4(tr.pid, &status, 0, nil); err != nil {
		return status, err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(tr.pid, options); err != nil {
		return status, err
	}
	known := map[int]bool{tr.pid: true}
	tid, signal := tr.pid, 0
	for {
		if err := unix.PtraceSyscall(tid, signal); err != nil && err != unix.ESRCH {
			return status, err
		}
		for {
			tid, err = unix.Wait4(-1, &status, unix.WALL, nil)
			if err == unix.EINTR {
				continue
			}
			if err != nil || tid == tr.pid && (status.Exited() || status.Signaled()) {
				return status, err
			}
			if status.Stopped() {
				break
			}
		}
		signal = tr.stopped(tid, status, known)
	}
}

// stopped handles a stop of a thread and returns the signal that it is to have.
func (tr *tracer) stopped(tid int, status unix.WaitStatus, known map[int]bool) int {
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP|0x80:
		c, inside := tr.entered[tid]
		if delete(tr.entered, tid); inside {
			tr.left(tid, c)
		} else {
			tr.enters(tid)
		}
		return 0
	case sig == unix.SIGTRAP: // a thread was made
		return 0
	case sig == unix.SIGSTOP && !known[tid]: // the thread begins
		known[tid] = true
		return 0
	default:
		return int(sig)
	}
}

// enters notes a call that a thread is about to make. A thread that has been
// killed meanwhile, since another one ended the process, makes none.
func (tr *tracer) enters(tid int) {
	c := call{covers: len(tr.ops)}
	if err := unix.PtraceGetRegs(tid, &c.regs); err != nil {
		if err != unix.ESRCH {
			tr.fault = fmt.Errorf("registers of thread %d: %w", tid, err)
		}
		return
	}
	r := &c.regs
	switch r.Orig_rax {
	case unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_TRUNCATE:
		c.paths[0] = tr.path(at, r.Rdi)
	case unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK:
		c.paths = [2]string{tr.path(at, r.Rdi), tr.path(at, r.Rsi)}
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT:
		c.paths[0] = tr.path(r.Rdi, r.Rsi)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		c.paths = [2]string{tr.path(r.Rdi, r.Rsi), tr.path(r.Rdx, r.R10)}
	}
	tr.entered[tid] = c
}

// at is AT_FDCWD as an argument.
const at = 1<<64 - 100

// path reads a path that is relative to a directory.
func (tr *tracer) path(dir, address uint64) string {
	text, _, ok := bytes.Cut(tr.memory(address, 4096), []byte{0})
	if !ok {
		tr.fault = fmt.Errorf("a path that does not end: %q", text)
	}
	if name := string(text); filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	if int32(dir) == unix.AT_FDCWD {
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", tr.pid))
		return filepath.Join(cwd, string(text))
	}
	return filepath.Join(tr.descriptor(dir), string(text))
}

// memory reads at most n bytes of the child.
func (tr *tracer) memory(address uint64, n int) []byte {
	out := make([]byte, n)
	got := 0
	for got < n {
		size := min(n-got, 4096-int(address+uint64(got))%4096) // to the end of the page
		local := []unix.Iovec{{Base: &out[got], Len: uint64(size)}}
		remote := []unix.RemoteIovec{{Base: uintptr(address) + uintptr(got), Len: size}}
		m, err := unix.ProcessVMReadv(tr.pid, local, remote, 0)
		if err != nil || m == 0 {
			break
		}
		got += m
	}
	return out[:got]
}

// descriptor returns the path of an open file.
func (tr *tracer) descriptor(fd uint64) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, int32(fd)))
	return name
}

// position returns where an open file is read or written next.
func (tr *tracer) position(fd uint64) (at int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tr.pid, int32(fd)))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "pos:%d", &at)
	}
	if err != nil {
		tr.fault = fmt.Errorf("position of descriptor %d: %w", fd, err)
	}
	return at
}

// inside reports whether a path is of interest.
func (tr *tracer) inside(path string) bool {
	return strings.HasPrefix(path, tr.root+"/") && !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, " (deleted)")
}

func (tr *tracer) left(tid int, c call) {
	var after unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &after); err != nil || int64(after.Rax) < 0 {
		return // it has failed, and done nothing
	}
	if c.paths[0] != "" {
		if tr.inside(c.paths[0]) || tr.inside(c.paths[1]) {
			tr.named(c)
		}
		return
	}
	switch c.regs.Orig_rax {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS,
		unix.SYS_FALLOCATE, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE:
		if path := tr.descriptor(c.regs.Rdi); tr.inside(path) || path == tr.root {
			tr.opened(c, path, int64(after.Rax))
		}
	}
}

// named notes a call that takes names.
func (tr *tracer) named(c call) {
	o := op{path: c.paths[0], to: c.paths[1]}
	flags := c.regs.Rdx
	switch c.regs.Orig_rax {
	case unix.SYS_OPEN, unix.SYS_OPENAT:
		if c.regs.Orig_rax == unix.SYS_OPEN {
			flags = c.regs.Rsi
		}
		if flags&unix.O_CREAT != 0 {
			o.kind = created
			tr.ops = append(tr.ops, o)
		}
		if flags&unix.O_TRUNC != 0 {
			tr.ops = append(tr.ops, op{kind: cutTo, path: o.path})
		}
		return
	case unix.SYS_MKDIR, unix.SYS_MKDIRAT:
		o.kind = madeDir
	case unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_UNLINKAT:
		o.kind = removed
	case unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		o.kind = renamed
	case unix.SYS_LINK, unix.SYS_LINKAT:
		o.kind = linked
	default:
		tr.fault = fmt.Errorf("system call %d of %s is not known to the tracer", c.regs.Orig_rax, o.path)
		return
	}
	tr.ops = append(tr.ops, o)
}

// opened notes a call that takes an open file.
func (tr *tracer) opened(c call, path string, result int64) {
	o := op{path: path, covers: c.covers}
	switch c.regs.Orig_rax {
	case unix.SYS_WRITE:
		o.kind, o.data, o.at = wrote, tr.memory(c.regs.Rsi, int(result)), tr.position(c.regs.Rdi)-result
		if filepath.Base(path) == ledgerFile {
			o.kind = acknowledged
		}
	case unix.SYS_PWRITE64:
		o.kind, o.data, o.at = wrote, tr.memory(c.regs.Rsi, int(result)), int64(c.regs.R10)
	case unix.SYS_FTRUNCATE:
		o.kind, o.at = cutTo, int64(c.regs.Rsi)
	case unix.SYS_FALLOCATE: // of a new file
		o.kind, o.at = cutTo, int64(c.regs.Rdx+c.regs.R10)
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		o.kind = synced
	case unix.SYS_SYNCFS:
		o.kind = syncedAll
	default:
		tr.fault = fmt.Errorf("system call %d on %s is not known to the tracer", c.regs.Orig_rax, path)
		return
	}
	tr.ops = append(tr.ops, o)
}
