//go:build amd64 || arm64

package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A class is what a system call does.
type class string

const (
	reads  class = "read"
	writes class = "write"
	cuts   class = "cut" // or made longer
	syncs  class = "sync"
	names  class = "name" // makes, renames and removes
	opens  class = "open" // what exists
	looks  class = "look" // at what a name stands for
)

// A call is a system call that a child is about to make in its directory.
type call struct {
	class class
	path  string // below the directory
}

func (c call) String() string { return string(c.class) + " " + c.path }

// A verdict is what becomes of a call. The zero value lets it pass.
type verdict struct {
	errno unix.Errno      // it fails with this
	short bool            // a write: the first half is written, and counts
	torn  bool            // a write: the first half is written
	kill  bool            // the process dies instead
	until <-chan struct{} // it has to wait; nil: it need not
}

// A supervisor answers for the system calls of a child.
type supervisor struct {
	listener int
	stop     [2]int // a pipe that ends serve
	kill     func()
	late     sync.WaitGroup // answers that come later
	done     chan struct{}

	mu    sync.Mutex
	root  string // calls outside pass
	judge func(call) verdict
}

func supervise(listener int, kill func()) (*supervisor, error) {
	s := &supervisor{listener: listener, kill: kill, done: make(chan struct{})}
	if err := unix.Pipe2(s.stop[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	go s.serve() // until close
	return s, nil
}

// set has judge decide about every call below root, one at a time.
func (s *supervisor) set(root string, judge func(call) verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root, s.judge = root, judge
}

// close ends the supervision of a child that is gone.
func (s *supervisor) close() error {
	err := unix.Close(s.stop[1])
	<-s.done
	s.late.Wait()
	return errors.Join(err, unix.Close(s.stop[0]), unix.Close(s.listener))
}

func (s *supervisor) serve() {
	defer close(s.done)
	fds := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}, {Fd: int32(s.stop[0]), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[1].Revents != 0 || fds[0].Revents&unix.POLLIN == 0 && fds[0].Revents != 0 {
			return // all of its threads are gone, or nobody cares
		}
		var n notif
		if fds[0].Revents == 0 || s.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != 0 {
			continue // the thread has died
		}
		s.answer(&n)
	}
}

func (s *supervisor) ioctl(request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), request, uintptr(arg))
	return errno
}

func (s *supervisor) answer(n *notif) {
	s.mu.Lock()
	c, ok := s.read(n)
	var v verdict
	if ok && s.judge != nil {
		v = s.judge(c)
	}
	s.mu.Unlock()
	if v.until == nil {
		s.reply(n, v)
		return
	}
	s.late.Go(func() {
		<-v.until
		s.reply(n, v)
	})
}

func (s *supervisor) reply(n *notif, v verdict) {
	r := notifResp{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	wrote := int64(0)
	if v.short || v.torn {
		wrote = s.half(n)
	}
	switch {
	case v.kill:
		s.kill()
		return
	case v.short && wrote > 0:
		r = notifResp{id: n.id, val: wrote}
	case v.errno != 0:
		r = notifResp{id: n.id, errno: -int32(v.errno)}
	}
	_ = s.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // of a thread that has died nobody takes it
}

// half writes the first half of what a pwrite would write, and returns how much
// that is.
func (s *supervisor) half(n *notif) int64 {
	if uintptr(n.nr) != unix.SYS_PWRITE64 || n.args[2] < 2 {
		return 0
	}
	data := make([]byte, n.args[2]/2)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.pid))
	if err != nil {
		return 0
	}
	defer memory.Close()
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", n.pid, n.args[0]), os.O_WRONLY, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	if _, err := memory.ReadAt(data, int64(n.args[1])); err != nil {
		return 0
	}
	wrote, _ := file.WriteAt(data, int64(n.args[3])) // what could not be written is not
	return int64(wrote)
}

// read returns what a call is about, and whether that is in the directory.
func (s *supervisor) read(n *notif) (call, bool) {
	var c call
	var path string
	switch nr := uintptr(n.nr); nr {
	case unix.SYS_READ, unix.SYS_PREAD64:
		c.class, path = reads, s.ofDescriptor(n, n.args[0])
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		c.class, path = writes, s.ofDescriptor(n, n.args[0])
	case unix.SYS_FTRUNCATE:
		c.class, path = cuts, s.ofDescriptor(n, n.args[0])
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS:
		c.class, path = syncs, s.ofDescriptor(n, n.args[0])
	case statAt:
		c.class, path = looks, s.ofName(n, n.args[0], n.args[1])
	case unix.SYS_OPENAT:
		c.class, path = opens, s.ofName(n, n.args[0], n.args[1])
		if n.args[2]&unix.O_CREAT != 0 {
			c.class = names
		}
	case unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		c.class, path = names, s.ofName(n, n.args[0], n.args[1])
	default: // one of legacy
		c.class, path = names, s.ofName(n, uint64(uint32(0xffffff9c)), n.args[0])
		if legacyOpen(nr) && n.args[1]&unix.O_CREAT == 0 {
			c.class = opens
		}
	}
	below, ok := strings.CutPrefix(path, s.root)
	c.path = strings.TrimPrefix(below, "/")
	return c, ok && s.root != "" && (below == "" || below[0] == '/')
}

func (s *supervisor) ofDescriptor(n *notif, fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(uint32(fd))))
	if err != nil {
		return ""
	}
	return path
}

func (s *supervisor) ofName(n *notif, dir, address uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.pid))
	if err != nil {
		return ""
	}
	defer memory.Close()
	text := make([]byte, 4096)
	got, _ := memory.ReadAt(text, int64(address)) // it may end before so much
	name, _, ok := bytes.Cut(text[:got], []byte{0})
	switch {
	case !ok:
		return ""
	case filepath.IsAbs(string(name)):
		return filepath.Clean(string(name))
	case int32(uint32(dir)) == unix.AT_FDCWD:
		at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", n.pid))
		return filepath.Join(at, string(name))
	}
	return filepath.Join(s.ofDescriptor(n, dir), string(name))
}

// after returns a channel that is closed after a time.
func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}
