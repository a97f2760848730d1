// Replicas shows two processes with one PostgreSQL database that keep an engine: one has it, the other stands by and passes calls on. Under
// load, both are replaced one after the other, as a rolling deploy does, and then the one with the engine is killed again and again,
// with its directory. No order is lost, and no call fails that is repeated while nobody has the engine.
//
//	go run -C pg ./examples/replicas                    starts a PostgreSQL server, if one is installed
//	go run -C pg ./examples/replicas -db postgres://... -kills 20
//
// Read node.go, which is what a service would have; this file is its callers, and the hand that deploys and kills.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/workflow"
)

// definition is an order that is packed, waits for its payment, and is sent.
const definition = `{"name": "order", "start": "pack",
  "nodes": [{"id": "pack", "task": "work"}, {"id": "paid", "wait": {"event": "paid"}}, {"id": "send", "task": "work"}],
  "transitions": [{"from": "pack", "to": "paid"}, {"from": "paid", "to": "send"}]}`

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if order := os.Getenv(nodeOrder); order != "" {
		return serveNode(ctx, order)
	}
	flags := flag.NewFlagSet("replicas", flag.ContinueOnError)
	db := flags.String("db", "", "the `address` of a database; a server is started without")
	deploys := flags.Int("deploys", 1, "how often both processes are replaced")
	kills := flags.Int("kills", 3, "how often the process with the engine is killed, with its directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pawl-replicas-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *db == "" {
		s, err := servers.StartPostgres(nil)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // it is thrown away
		*db = s.URL("postgres")
	}
	f := &fleet{url: *db, dir: dir, stderr: stderr, nodes: map[string]*node{}}
	defer f.end()
	for _, name := range []string{"ann", "ben"} {
		if err := f.start(name); err != nil {
			return err
		}
	}
	return f.play(ctx, *deploys, *kills, stdout)
}

// callers is how many orders are under way at a time.
const callers = 4

// play deploys and kills under load, and tells what the callers have seen.
func (f *fleet) play(ctx context.Context, deploys, kills int, stdout io.Writer) error {
	if _, err := f.owner(ctx); err != nil {
		return err
	}
	var done atomic.Bool
	var orders atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for !done.Load() {
				f.note(f.placeOrder(ctx, workflow.RunID(fmt.Sprint("order-", orders.Add(1)))))
			}
		})
	}
	deployed, err := f.timeEach(ctx, deploys, f.deploy)
	killed := []time.Duration(nil)
	if err == nil {
		killed, err = f.timeEach(ctx, kills, f.killOwner)
	}
	done.Store(true)
	all.Wait()
	if err := errors.Join(err, f.failure()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "both processes were replaced %d times, and the one with the engine killed %d times, with its directory: no call failed, every order was sent\n", deploys, kills)
	fmt.Fprintf(f.stderr, "%d orders, %d calls, %d times one was repeated\n", orders.Load(), f.calls.Load(), f.repeated.Load())
	tell(f.stderr, "both replaced, the longest without an answer", deployed)
	tell(f.stderr, "killed, to the next answer", killed)
	return nil
}

// tell prints the median and the worst of some times.
func tell(w io.Writer, what string, times []time.Duration) {
	if slices.Sort(times); len(times) > 0 {
		fmt.Fprintf(w, "%s: median %v, worst %v of %d\n", what, times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond), len(times))
	}
}

// timeEach does something some times, and returns for how long no order was answered each time.
func (f *fleet) timeEach(ctx context.Context, times int, do func(context.Context) error) (out []time.Duration, err error) {
	for range times {
		f.silence.Store(0)
		if err := do(ctx); err != nil {
			return out, err
		}
		select { // both work, for a moment
		case <-time.After(time.Second):
		case <-ctx.Done():
			return out, ctx.Err()
		}
		out = append(out, time.Duration(f.silence.Load()))
	}
	return out, nil
}

// placeOrder orders something, pays it, and waits until it is sent.
func (f *fleet) placeOrder(ctx context.Context, id workflow.RunID) error {
	err := f.ask(ctx, func(c *api.Client) error {
		_, err := c.Start(ctx, id, api.Start{Definition: json.RawMessage(definition), By: "shop", Reason: "ordered"}) // once for each id
		return err
	})
	if err == nil {
		err = f.ask(ctx, func(c *api.Client) error {
			_, err := c.Do(ctx, id, api.Operation{Act: pawl.Signal{Name: "paid", ID: "payment"}, By: "bank", Reason: "it has come"}) // with an id it counts once
			return err
		})
	}
	if err == nil {
		err = f.ask(ctx, func(c *api.Client) error {
			outcome, err := c.Wait(ctx, id)
			if err == nil && outcome.Status != workflow.RunCompleted {
				err = fmt.Errorf("%s is %v", id, outcome.Status)
			}
			return err
		})
	}
	return err
}

// A fleet is the two processes, and what their callers have seen.
type fleet struct {
	url, dir string
	stderr   io.Writer

	mu     sync.Mutex
	nodes  map[string]*node
	failed error

	calls, repeated, turn atomic.Int64
	answered, silence     atomic.Int64 // when, in ns, a call was answered last; and the longest time between two answers
}

// A node is one of the processes.
type node struct {
	cmd    *exec.Cmd
	base   string
	client *api.Client
}

// patience is for how long a caller repeats a call that nobody could answer. It failed then.
const patience = 2 * time.Minute

// ask makes a call at one of the processes that are ready, in turns, as a balancer does, and repeats it, as callers do, while it is not answered.
func (f *fleet) ask(ctx context.Context, call func(*api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.calls.Add(1)
	for {
		failed := errors.New("no process is ready")
		if n := f.pick(ctx); n != nil {
			if failed = call(n.client); failed == nil {
				now := time.Now().UnixNano()
				if last := f.answered.Swap(now); last != 0 && now-last > f.silence.Load() {
					f.silence.Store(now - last)
				}
				return nil
			}
		}
		f.repeated.Add(1)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return failed
		}
	}
}

// pick returns a process that is ready, another one each time; nil if none is.
func (f *fleet) pick(ctx context.Context) *node {
	f.mu.Lock()
	var all []*node
	for _, name := range []string{"ann", "ben"} {
		if n := f.nodes[name]; n != nil {
			all = append(all, n)
		}
	}
	f.mu.Unlock()
	turn := int(f.turn.Add(1))
	for i := range all {
		if n := all[(turn+i)%len(all)]; n.answers(ctx, "/ready") {
			return n
		}
	}
	return nil
}

// answers reports whether a probe succeeds.
func (n *node) answers(ctx context.Context, probe string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.base+probe, nil)
	if err != nil {
		return false
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = a.Body.Close() // it is empty
	return a.StatusCode == http.StatusOK
}

// note keeps the first failure of a call.
func (f *fleet) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = err
	}
}

func (f *fleet) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// start starts a process, and returns when it can be asked.
func (f *fleet) start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), nodeOrder+"="+strings.Join([]string{f.url, filepath.Join(f.dir, name), name}, " ")), f.stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	base := strings.TrimSpace(line)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[name] = &node{cmd, base, api.NewClient(base, nil)}
	return nil
}

// deploy replaces both processes, one after the other: SIGTERM, and the next one when that has ended.
func (f *fleet) deploy(ctx context.Context) error {
	for _, name := range []string{"ann", "ben"} {
		n := f.nodes[name]
		if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := n.cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := f.start(name); err != nil {
			return err
		}
		if err := f.await(ctx, f.nodes[name], "/ready"); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a probe of a process to succeed.
func (f *fleet) await(ctx context.Context, n *node, probe string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !n.answers(ctx, probe) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s of %s: %w", probe, n.base, ctx.Err())
		}
	}
	return nil
}

// killOwner kills the process that has the engine with SIGKILL, removes its directory, and starts it again, with nothing, when the other one
// has the engine.
func (f *fleet) killOwner(ctx context.Context) error {
	owner, err := f.owner(ctx)
	if err != nil {
		return err
	}
	f.kill(owner)
	if err := os.RemoveAll(filepath.Join(f.dir, owner)); err != nil {
		return err
	}
	if _, err := f.owner(ctx); err != nil {
		return err
	}
	return f.start(owner)
}

// owner returns which process has the engine, and waits until one has.
func (f *fleet) owner(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		f.mu.Lock()
		nodes := make(map[string]*node, len(f.nodes))
		for name, n := range f.nodes {
			nodes[name] = n
		}
		f.mu.Unlock()
		for name, n := range nodes {
			if n.answers(ctx, "/leader") {
				return name, nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return "", errors.New("no process has the engine")
		}
	}
}

func (f *fleet) kill(name string) {
	f.mu.Lock()
	n := f.nodes[name]
	delete(f.nodes, name)
	f.mu.Unlock()
	if n != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait() // it says that it was killed
	}
}

func (f *fleet) end() {
	for _, name := range []string{"ann", "ben"} {
		f.kill(name)
	}
}
