//go:build unix

package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const loopback = "127.0.0.1"

// readyTime is how long a server may take until it answers or has ended, on a machine that does much else.
const readyTime = time.Minute

// A Server is a server and its files. Its methods are for one goroutine at a time.
type Server struct {
	// Port is where it listens, on 127.0.0.1, in all its lives.
	Port int
	// Dir has its files; the user that it runs as owns them.
	Dir string

	name     string
	run      []string       // the command that starts it
	shutdown syscall.Signal // ends it in order
	account  *account
	ready    func() error // nil once it takes connections
	process  *exec.Cmd    // nil while it does not run
	ended    chan struct{}
	guard    io.Closer
}

// Start starts it again after Kill or Shutdown, and returns when it takes connections.
func (s *Server) Start() error {
	if s.process != nil {
		return fmt.Errorf("%s runs already", s.name)
	}
	deadline := time.Now().Add(readyTime)
	for {
		again, err := s.try(deadline)
		if err == nil || !again || time.Now().After(deadline) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// try starts the process once. again says that it ended at once: what a killed one leaves for a moment, such as its
// port or its shared memory, keeps a new one from starting.
func (s *Server) try(deadline time.Time) (again bool, err error) {
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	cmd := s.account.command(s.Dir, s.run[0], s.run[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start %s: %w", s.name, err)
	}
	if s.guard, err = guard(cmd.Process.Pid, s.Dir); err != nil {
		return false, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	s.process, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed most of the time
		close(s.ended)
	}()
	for {
		if err = s.ready(); err == nil {
			return false, nil
		}
		select {
		case <-s.ended:
			s.forgetProcess()
			return true, fmt.Errorf("%s ended at its start: %s", s.name, s.lastWords())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("%s does not answer: %w: %s", s.name, err, s.lastWords())
			return false, errors.Join(err, s.Kill())
		}
	}
}

// Kill kills all processes of the server with SIGKILL, as the death of its machine would, but for what was written and not synced.
func (s *Server) Kill() error {
	if s.process == nil {
		return nil
	}
	pid := s.process.Process.Pid
	if err := s.process.Process.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	children := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended meanwhile
	}
	if err := s.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	deadline := time.Now().Add(readyTime)
	for slices.ContainsFunc(children, lives) {
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of %s live %v after SIGKILL: %v", s.name, readyTime, children)
		}
		<-time.After(time.Millisecond)
	}
	return nil
}

// Shutdown ends the server in order, and returns when it has ended.
func (s *Server) Shutdown() error {
	if s.process == nil {
		return nil
	}
	return s.Signal(s.shutdown)
}

// Signal sends a signal that ends the server, such as SIGQUIT for an immediate shutdown of PostgreSQL, and returns
// when it has ended.
func (s *Server) Signal(signal syscall.Signal) error {
	if s.process == nil {
		return fmt.Errorf("%s does not run", s.name)
	}
	if err := s.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", s.name, err)
	}
	select {
	case <-s.ended:
	case <-time.After(readyTime):
		return fmt.Errorf("%s has not ended %v after %v: %s", s.name, readyTime, signal, s.lastWords())
	}
	s.forgetProcess()
	return nil
}

// PID returns the process that was started, for SIGSTOP and SIGCONT; 0 while it does not run.
func (s *Server) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.Process.Pid
}

// Close kills the server and removes its files.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.Dir)) }

// Log returns what the server has written to its log.
func (s *Server) Log() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	return string(data), err
}

// CloseAfter closes the server after a test, and shows the end of its log if the test has failed.
func (s *Server) CloseAfter(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %s", s.name, s.lastWords())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *Server) forgetProcess() {
	_ = s.guard.Close() // it ends either way
	s.process, s.guard = nil, nil
}

// lastWords returns the end of the log.
func (s *Server) lastWords() string {
	log, err := s.Log()
	if err != nil {
		return err.Error()
	}
	return log[max(0, len(log)-2000):]
}

// A guardian is a process that ends when this one does, and kills a server or removes files then.
type guardian struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// guard starts the guardian of a server.
func guard(pid int, dir string) (io.Closer, error) {
	return startGuardian(`kill -KILL "$1"; rm -rf "$2"`, strconv.Itoa(pid), dir)
}

// startGuardian starts a guardian, which runs a script in the end. It reads from a pipe whose other end only this process has.
func startGuardian(script string, args ...string) (io.Closer, error) {
	cmd := exec.Command("sh", append([]string{"-c", "trap '' INT TERM HUP; read -r x; " + script, "guard"}, args...)...)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guardian of a server: %w", err)
	}
	return &guardian{cmd, pipe}, nil
}

// Close ends the guardian without an effect.
func (g *guardian) Close() error {
	err := g.cmd.Process.Kill()
	_ = g.cmd.Wait() // it was killed
	return errors.Join(err, g.pipe.Close())
}

// childrenOf returns the processes that a process has started; none where there is no /proc.
func childrenOf(pid int) (children []int) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, f := range folders {
		child, err := strconv.Atoi(filepath.Base(f))
		if err != nil {
			continue
		}
		if _, parent := statOf(child); parent == strconv.Itoa(pid) {
			children = append(children, child)
		}
	}
	return children
}

// lives reports whether a process has not ended, whether or not anybody has asked how it did.
func lives(pid int) bool {
	state, _ := statOf(pid)
	return state != "" && state != "Z" && state != "X"
}

// statOf returns the state and the parent of a process, as /proc tells them.
func statOf(pid int) (state, parent string) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	// The name, in parentheses, may have any character; the state and the parent stand behind it.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 2 {
		return "", ""
	}
	return string(fields[0]), string(fields[1])
}

// An account is the user as whom a server runs: nil if that of this process.
type account struct{ uid, gid uint32 }

// accountOf returns the account of a user if this process is of root.
func accountOf(name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // none is needed
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &account{uint32(uid), uint32(gid)}, nil
}

// command returns a command that the account runs in a directory, with temporary files there as well: it may have none in those of
// this process.
func (a *account) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "TMPDIR=") }) // of clients
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
	return cmd
}

// directory makes a directory that the account owns: in memory where there is /dev/shm, unless TMPDIR chooses another
// place to which the account has a way.
func (a *account) directory(name string) (string, error) {
	return a.directoryIn(os.Getenv("TMPDIR"), name)
}

// firstPlace is what TMPDIR is before a test changes it.
var firstPlace = os.Getenv("TMPDIR")

// directoryIn is directory, with what TMPDIR chooses.
func (a *account) directoryIn(chosen, name string) (string, error) {
	places := []string{"/dev/shm", "/tmp"}
	if chosen != "" {
		places = slices.Insert(places, 0, chosen)
	}
	place := os.TempDir()
	if i := slices.IndexFunc(places, a.reaches); i >= 0 {
		place = places[i]
	}
	dir, err := os.MkdirTemp(place, "pawl-"+name+"-")
	if err == nil && a != nil {
		err = os.Chown(dir, int(a.uid), int(a.gid))
	}
	return dir, err
}

// reaches reports whether a place is a folder, and others than its owner may go through the folders that lead there.
func (a *account) reaches(place string) bool {
	path, err := filepath.Abs(place)
	if err != nil {
		return false
	}
	for {
		s, err := os.Stat(path)
		if err != nil || !s.IsDir() || a != nil && s.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
}

// A template is the files that all servers of a kind begin with. They are made once in a process, as that takes longer than a
// start.
type template struct {
	name  string
	mu    sync.Mutex
	dir   string    // "" until they are made
	guard io.Closer // removes them when this process ends
}

// copyTo copies the files to the folder data of a directory. command returns what makes them.
func (t *template) copyTo(a *account, dir string, command func(data string) []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dir == "" {
		made, err := a.directoryIn(firstPlace, t.name)
		if err != nil {
			return err
		}
		words := command(filepath.Join(made, "data"))
		if err = a.prepare(made, words[0], words[1:]...); err == nil {
			t.guard, err = startGuardian(`rm -rf "$1"`, made)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(made))
		}
		t.dir = made
	}
	return a.prepare(dir, "cp", "-Rp", filepath.Join(t.dir, "data"), filepath.Join(dir, "data"))
}

// prepare runs a command that makes files of a server.
func (a *account) prepare(dir, name string, args ...string) error {
	cmd := a.command(dir, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}

var ports sync.Mutex

// FreePort returns a port where nobody listens. It is below those that systems give to clients, so that none of them
// takes it while the server is dead.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := 10_000 + rand.IntN(10_000)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}

// answersAt returns nil if somebody accepts a connection, and, where the server speaks first, says something.
func answersAt(port int, first bool) error {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	if first {
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, make([]byte, 5))
	}
	return err
}

// requiredVariable, set to "required", lets a test fail where a server is not installed.
const requiredVariable = "PAWL_SERVERS"

func require(t testing.TB, name string, missing error) {
	t.Helper()
	if missing == nil {
		return
	}
	if os.Getenv(requiredVariable) == "required" {
		t.Fatalf("%s: %v", name, missing)
	}
	t.Skipf("SKIPPED: %s: %v", name, missing)
}

// findProgram returns the path of a program: that of PATH, or the last that the patterns find.
func findProgram(program string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(p, program))
		if err != nil {
			return "", err
		}
		if len(paths) > 0 {
			return paths[len(paths)-1], nil
		}
	}
	return "", fmt.Errorf("%s is not installed", program)
}
