package ownertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// childRole makes the test binary a child: an engine, or what another test has it
// be.
const childRole = "PAWL_OWNERTEST_ROLE"

// patience is how long a process may take for one thing before it counts as stuck.
const patience = 60 * time.Second

func child(role string) error {
	switch role {
	case "engine":
		return serve()
	case "memory":
		return useMemory()
	}
	return fmt.Errorf("no role %q", role)
}

// A command is one line that a child is sent; it answers with one line.
type command struct {
	Do    string // open, work, stream, read, close
	Dir   string // of the engine
	By    string // name of the child, for the ids of its runs
	Count int    // runs, or hits of a failpoint
	Point string // failpoint: where open waits, or stream stops the process
	Until bool   // open again while the directory is locked
}

// A reply is how a command went.
type reply struct {
	Said  string // opened, locked, holding, worked, died, closed, failed
	Error string
	Took  time.Duration
	Tries int
	Fence bool // the error is ErrFenced
}

// A served is an engine in a child.
type served struct {
	by      string
	hook    testhook.Hook // of the engine
	engine  *pawl.Engine
	ledger  *os.File
	serial  int
	release chan struct{} // what a held failpoint waits for
	mu      sync.Mutex    // of the answers
}

// serve answers commands until there are no more. It looks for the next while one
// is held at a failpoint.
func serve() error {
	s := &served{release: make(chan struct{})}
	s.hook.SetGatherRuns(4) // files are made while there is work
	lines := bufio.NewScanner(os.Stdin)
	var busy sync.WaitGroup
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		if c.Do == "release" {
			s.release <- struct{}{}
			continue
		}
		busy.Wait()
		busy.Go(func() {
			begin := time.Now()
			r := s.do(c)
			r.Took = time.Since(begin)
			s.say(r)
		})
	}
	busy.Wait()
	return lines.Err()
}

func (s *served) say(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Println(string(text))
	}
	if err != nil {
		panic(err)
	}
}

func failed(said string, err error) reply {
	return reply{Said: said, Error: err.Error(), Fence: errors.Is(err, pawl.ErrFenced)}
}

func (s *served) do(c command) reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch c.Do {
	case "open":
		return s.open(ctx, c)
	case "work":
		for range c.Count {
			if err := s.run(ctx); err != nil {
				return failed("died", err)
			}
		}
		return reply{Said: "worked"}
	case "stream":
		return s.stream(c)
	case "host":
		return s.host(c)
	case "read":
		if _, err := os.ReadFile(filepath.Join(c.Dir, "pawl.db")); err != nil {
			return failed("failed", err)
		}
		return reply{Said: "read"}
	case "close":
		err := s.engine.Close(ctx)
		if err != nil {
			return failed("closed", err)
		}
		return reply{Said: "closed"}
	}
	return failed("failed", fmt.Errorf("no command %q", c.Do))
}

// stream makes one run after the other until this process has been stopped at the n-th hit of a failpoint, and some more when
// it goes on. It may be stopped for as long as a test takes for several things.
func (s *served) stream(c command) reply {
	var stopped atomic.Bool
	defer s.hook.OnHit(stopAt(c.Point, int64(c.Count), &stopped))()
	for made, more := 0, 50; made < 2000 && more > 0; made++ {
		if stopped.Load() {
			more--
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
		err := s.run(ctx)
		cancel()
		if err != nil {
			return failed("died", err)
		}
	}
	return reply{Said: "worked"}
}

// open opens an engine. At the n-th hit of a failpoint it waits for release.
func (s *served) open(ctx context.Context, c command) reply {
	if c.Point != "" {
		var hits atomic.Int64
		defer s.hook.OnHit(func(name string) {
			if name == c.Point && hits.Add(1) == int64(c.Count) {
				s.say(reply{Said: "holding"})
				<-s.release
			}
		})()
	}
	var err error
	if s.ledger == nil {
		s.by = c.By
		if s.ledger, err = os.OpenFile(ledgerOf(c.Dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return failed("failed", err)
		}
	}
	tries := 0
	for {
		tries++
		var e *pawl.Engine
		e, err = pawl.Open(testhook.With(ctx, &s.hook), c.Dir, pawl.Options{LockWait: -1, IdleAfter: 2 * time.Millisecond, Executor: pawl.Handlers{"*": echo}})
		if err == nil {
			s.engine = e
			return reply{Said: "opened", Tries: tries}
		}
		if !errors.Is(err, pawl.ErrLocked) || !c.Until {
			break
		}
		select {
		case <-time.After(time.Millisecond): // nothing tells that the lock is free
		case <-ctx.Done():
			return failed("failed", ctx.Err())
		}
	}
	if errors.Is(err, pawl.ErrLocked) {
		return reply{Said: "locked", Error: err.Error(), Tries: tries}
	}
	return failed("failed", err)
}

func echo(_ context.Context, t pawl.Task) (any, error) { return string(t.Run), nil }

var work = witness.MustParse(`name: work
start: a
nodes: [{id: a, task: t}, {id: b, task: t, output: {output.by: result}}]
transitions: [{from: a, to: b}]`)

// ledgerOf is the ledger of an engine directory: what hosts were told, beside it.
func ledgerOf(dir string) string { return filepath.Clean(dir) + ".ledger" }

// note appends a line to the ledger, for good. The ledger is in memory with the
// directory, or synced as it is.
func (s *served) note(what string, id workflow.RunID) error {
	_, err := fmt.Fprintf(s.ledger, "%s %s\n", what, id)
	return err
}

// run starts a run and waits for its end, and keeps in the ledger what it was
// told of it.
func (s *served) run(ctx context.Context) error {
	s.serial++
	id := workflow.RunID(fmt.Sprintf("%s-%d-%d", s.by, os.Getpid(), s.serial))
	if err := s.note("asks", id); err != nil {
		return err
	}
	if err := s.engine.Start(ctx, workflow.Run{ID: id, Definition: work}, nil); err != nil {
		return err
	}
	if err := s.note("started", id); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // an engine that was fenced tells nobody
	defer cancel()
	out, err := s.engine.Wait(short, id)
	if errors.Is(err, context.DeadlineExceeded) {
		probe := id + "-probe"
		if err := s.note("asks", probe); err != nil {
			return err
		}
		return s.engine.Start(ctx, workflow.Run{ID: probe, Definition: work}, nil)
	}
	if err == nil {
		err = out.Err()
	}
	if err != nil {
		return err
	}
	return s.note("ended", id)
}

// stopAt returns a hook that stops this process at the n-th hit of a failpoint,
// as SIGSTOP from outside would, and notes it.
func stopAt(point string, n int64, stopped *atomic.Bool) func(string) {
	var hits atomic.Int64
	return func(name string) {
		if name == point && hits.Add(1) == n {
			stopped.Store(true)
			if err := stopSelf(); err != nil {
				panic(err)
			}
		}
	}
}

// readLedger returns the runs in a ledger by what was said of them.
func readLedger(dir string) (map[string][]workflow.RunID, error) {
	data, err := os.ReadFile(ledgerOf(dir))
	if err != nil {
		return nil, err
	}
	out := map[string][]workflow.RunID{}
	for line := range strings.Lines(string(data)) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[what] = append(out[what], workflow.RunID(id))
	}
	return out, nil
}
