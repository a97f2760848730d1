//go:build linux && amd64

package power

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Tracer follows all threads of a child and notes what it does to files below
// a folder, in the order in which the calls return.
//
// One goroutine runs Run; ops is behind mu, so that others see how far it is. entered and fault are Run's own.
type Tracer struct {
	root, ledger string

	mu      sync.Mutex
	ops     []Op
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

// NewTracer returns a tracer of what is below root, whose operations follow on some. A write to a file called ledger is Acknowledged.
func NewTracer(root, ledger string, ops []Op) *Tracer {
	return &Tracer{root: root, ledger: ledger, ops: ops, entered: map[int]call{}}
}

// Ops returns the operations so far.
func (tr *Tracer) Ops() []Op {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clip(tr.ops)
}

func (tr *Tracer) addOp(o Op) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.ops = append(tr.ops, o)
}

// Run starts a child and follows it until it ends, as it does by itself with the status 0 or by SIGKILL. It fails with ErrNoTrace if no child can be traced here.
func (tr *Tracer) Run(cmd *exec.Cmd) error {
	runtime.LockOSThread() // a thread traces what it has started
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoTrace, err)
	}
	tr.pid = cmd.Process.Pid
	status, err := tr.followChild()
	_ = cmd.Process.Release() // it has been waited for
	switch {
	case err != nil:
		return fmt.Errorf("trace: %w", err)
	case tr.fault != nil:
		return fmt.Errorf("trace: %w", tr.fault)
	case status.Signaled() && status.Signal() == unix.SIGKILL:
		return nil
	case !status.Exited() || status.ExitStatus() != 0:
		return fmt.Errorf("the child ended with %#x", uint32(status))
	}
	return nil
}

// followChild runs the child until it ends.
func (tr *Tracer) followChild() (status unix.WaitStatus, err error) {
	if _, err := unix.Wait4(tr.pid, &status, unix.WNOTHREAD, nil); err != nil {
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
			tid, err = unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil) // those of this thread
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
		signal = tr.handleStop(tid, status, known)
	}
}

// handleStop handles a stop of a thread and returns the signal that it is to have.
func (tr *Tracer) handleStop(tid int, status unix.WaitStatus, known map[int]bool) int {
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP|0x80:
		c, inside := tr.entered[tid]
		if delete(tr.entered, tid); inside {
			tr.leaveCall(tid, c)
		} else {
			tr.enterCall(tid)
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

// enterCall notes a call that a thread is about to make. A thread that has been
// killed meanwhile, since another one ended the process, makes none.
func (tr *Tracer) enterCall(tid int) {
	c := call{covers: len(tr.Ops())}
	if err := unix.PtraceGetRegs(tid, &c.regs); err != nil {
		if err != unix.ESRCH {
			tr.fault = fmt.Errorf("registers of thread %d: %w", tid, err)
		}
		return
	}
	r := &c.regs
	switch r.Orig_rax {
	case unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_TRUNCATE:
		c.paths[0] = tr.readPath(at, r.Rdi)
	case unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK:
		c.paths = [2]string{tr.readPath(at, r.Rdi), tr.readPath(at, r.Rsi)}
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT:
		c.paths[0] = tr.readPath(r.Rdi, r.Rsi)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		c.paths = [2]string{tr.readPath(r.Rdi, r.Rsi), tr.readPath(r.Rdx, r.R10)}
	}
	tr.entered[tid] = c
}

// at is AT_FDCWD as an argument.
const at = 1<<64 - 100

// readPath reads a path that is relative to a directory.
func (tr *Tracer) readPath(dir, address uint64) string {
	text, _, ok := bytes.Cut(tr.readMemory(address, 4096), []byte{0})
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

// readMemory reads at most n bytes of the child.
func (tr *Tracer) readMemory(address uint64, n int) []byte {
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
func (tr *Tracer) descriptor(fd uint64) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, int32(fd)))
	return name
}

// positionOf returns where an open file is read or written next.
func (tr *Tracer) positionOf(fd uint64) (at int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tr.pid, int32(fd)))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "pos:%d", &at)
	}
	if err != nil {
		tr.fault = fmt.Errorf("position of descriptor %d: %w", fd, err)
	}
	return at
}

// isWatched reports whether a path is of interest.
func (tr *Tracer) isWatched(path string) bool {
	return strings.HasPrefix(path, tr.root+"/") && !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, " (deleted)")
}

// leaveCall notes what a call that has returned has done.
func (tr *Tracer) leaveCall(tid int, c call) {
	var after unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &after); err != nil || int64(after.Rax) < 0 {
		return // it has failed, and done nothing
	}
	if c.paths[0] != "" {
		if tr.isWatched(c.paths[0]) || tr.isWatched(c.paths[1]) {
			tr.noteNames(c)
		}
		return
	}
	switch c.regs.Orig_rax {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS,
		unix.SYS_FALLOCATE, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE:
		if path := tr.descriptor(c.regs.Rdi); tr.isWatched(path) || path == tr.root {
			tr.noteFile(c, path, int64(after.Rax))
		}
	}
}

// noteNames notes a call that takes names.
func (tr *Tracer) noteNames(c call) {
	o := Op{Path: c.paths[0], To: c.paths[1]}
	flags := c.regs.Rdx
	switch c.regs.Orig_rax {
	case unix.SYS_OPEN, unix.SYS_OPENAT:
		if c.regs.Orig_rax == unix.SYS_OPEN {
			flags = c.regs.Rsi
		}
		if flags&unix.O_CREAT != 0 {
			o.Kind = Created
			tr.addOp(o)
		}
		if flags&unix.O_TRUNC != 0 {
			tr.addOp(Op{Kind: CutTo, Path: o.Path})
		}
		return
	case unix.SYS_MKDIR, unix.SYS_MKDIRAT:
		o.Kind = MadeDir
	case unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_UNLINKAT:
		o.Kind = Removed
	case unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		o.Kind = Renamed
	case unix.SYS_LINK, unix.SYS_LINKAT:
		o.Kind = Linked
	default:
		tr.fault = fmt.Errorf("system call %d of %s is not known to the tracer", c.regs.Orig_rax, o.Path)
		return
	}
	tr.addOp(o)
}

// noteFile notes a call that takes an open file.
func (tr *Tracer) noteFile(c call, path string, result int64) {
	o := Op{Path: path, Covers: c.covers}
	switch c.regs.Orig_rax {
	case unix.SYS_WRITE:
		o.Kind, o.Data, o.At = Wrote, tr.readMemory(c.regs.Rsi, int(result)), tr.positionOf(c.regs.Rdi)-result
		if filepath.Base(path) == tr.ledger {
			o.Kind = Acknowledged
		}
	case unix.SYS_PWRITE64:
		o.Kind, o.Data, o.At = Wrote, tr.readMemory(c.regs.Rsi, int(result)), int64(c.regs.R10)
	case unix.SYS_FTRUNCATE:
		o.Kind, o.At = CutTo, int64(c.regs.Rsi)
	case unix.SYS_FALLOCATE: // of a new file
		o.Kind, o.At = CutTo, int64(c.regs.Rdx+c.regs.R10)
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		o.Kind = Synced
	case unix.SYS_SYNCFS:
		o.Kind = SyncedAll
	default:
		tr.fault = fmt.Errorf("system call %d on %s is not known to the tracer", c.regs.Orig_rax, path)
		return
	}
	o.Durable = o.Kind == Wrote && tr.isSynced(c.regs.Rdi)
	tr.addOp(o)
}

// isSynced reports whether what is written to an open file is synced with the call.
func (tr *Tracer) isSynced(fd uint64) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tr.pid, int32(fd)))
	_, flags, _ := strings.Cut(string(text), "flags:")
	flags, _, _ = strings.Cut(flags, "\n")
	n, _ := strconv.ParseInt(strings.TrimSpace(flags), 8, 64)
	return n&unix.O_DSYNC != 0
}
