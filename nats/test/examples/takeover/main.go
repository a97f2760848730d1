// Takeover shows three processes that keep one engine directory: one of them has the engine, and when it is killed, with
// its directory, another one goes on where it was. Orders that wait for their payment are not lost, and callers ask whichever process
// they reach. The NATS server is in this process; the program runs itself again as the nodes.
//
//	go run -C nats/test ./examples/takeover
//
// Read node.go, which is what a service would have, then this file, which is its callers and the hand that kills it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/nats/test/server"
	"github.com/pawl-run/pawl/workflow"
)

const (
	orders = 20
	kills  = 3
)

// definition is an order that is packed, waits for its payment, and is sent.
const definition = `{"name": "order", "start": "pack",
  "nodes": [{"id": "pack", "task": "work"}, {"id": "paid", "wait": {"event": "paid"}}, {"id": "send", "task": "work"}],
  "transitions": [{"from": "pack", "to": "paid"}, {"from": "paid", "to": "send"}]}`

func main() {
	if err := run(context.Background(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "takeover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stdout, stderr io.Writer) error {
	if order := os.Getenv(nodeOrder); order != "" {
		return serveNode(ctx, order)
	}
	dir, err := os.MkdirTemp("", "pawl-nats-takeover-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := server.Start(-1, filepath.Join(dir, "nats"))
	if err != nil {
		return err
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	f := &fleet{url: s.ClientURL(), dir: dir, stdout: stdout, stderr: stderr, nodes: map[string]*node{}}
	defer f.end()
	for _, name := range []string{"ann", "ben", "cat"} {
		if err := f.start(name); err != nil {
			return err
		}
	}
	for i := range orders {
		id := workflow.RunID(fmt.Sprint("order-", i))
		err := f.ask(ctx, func(c *api.Client) error {
			_, err := c.Start(ctx, id, api.Start{Definition: json.RawMessage(definition), By: "shop", Reason: "ordered"})
			return err
		})
		if err != nil {
			return err
		}
		if i%(orders/kills) == 0 && f.killed < kills {
			if err := f.killOwner(ctx); err != nil {
				return err
			}
		}
	}
	for i := range orders {
		if err := f.payAndWait(ctx, workflow.RunID(fmt.Sprint("order-", i))); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d orders, all of them sent; the node that had them was killed %d times, with its directory\n", orders, f.killed)
	return nil
}

// payAndWait pays an order, and waits until it is sent.
func (f *fleet) payAndWait(ctx context.Context, id workflow.RunID) error {
	return f.ask(ctx, func(c *api.Client) error {
		pay := api.Operation{Act: pawl.Signal{Name: "paid", ID: "payment"}, By: "bank", Reason: "it has come"} // with an id it counts once
		if _, err := c.Do(ctx, id, pay); err != nil {
			return err
		}
		outcome, err := c.Wait(ctx, id)
		if err == nil && outcome.Status != workflow.RunCompleted {
			err = fmt.Errorf("%s is %v", id, outcome.Status)
		}
		return err
	})
}

// A fleet is the processes that are nodes.
type fleet struct {
	url, dir       string
	stdout, stderr io.Writer
	nodes          map[string]*node
	killed         int
}

// A node is such a process.
type node struct {
	cmd    *exec.Cmd
	client *api.Client
}

// start starts a node, and returns when it can be asked.
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
	address, err := bufio.NewReader(pipe).ReadString('\n')
	f.nodes[name] = &node{cmd, api.NewClient(strings.TrimSpace(address), nil)}
	return err
}

// patience is for how long somebody asks again whom nobody could answer.
const patience = time.Minute

// ask asks one node after the other, whichever has the engine, until one has an answer: while a node takes over nobody has.
func (f *fleet) ask(ctx context.Context, question func(*api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var failed error
		for _, n := range f.nodes {
			err := question(n.client)
			if err == nil {
				return nil
			}
			failed = errors.Join(failed, err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return failed
		}
	}
}

// killOwner kills the node that has the engine with SIGKILL, removes its directory, and starts it again, with nothing, when another one has
// the engine.
func (f *fleet) killOwner(ctx context.Context) error {
	owner, err := f.owner(ctx)
	if err != nil {
		return err
	}
	f.kill(owner)
	f.killed++
	delete(f.nodes, owner)
	if err := os.RemoveAll(filepath.Join(f.dir, owner)); err != nil {
		return err
	}
	killed := time.Now()
	next, err := f.owner(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(f.stdout, "%s had the engine and is killed; %s goes on\n", owner, next)
	fmt.Fprintf(f.stderr, "after %v\n", time.Since(killed).Round(time.Millisecond))
	return f.start(owner)
}

// owner returns which node has the engine.
func (f *fleet) owner(ctx context.Context) (owner string, err error) {
	err = f.ask(ctx, func(c *api.Client) error {
		info, err := c.Engine(ctx)
		for name, n := range f.nodes {
			if err == nil && n.cmd.Process.Pid == info.PID {
				owner = name
			}
		}
		return err
	})
	return owner, err
}

func (f *fleet) kill(name string) {
	if n := f.nodes[name]; n != nil && n.cmd.Process != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait() // it says that it was killed
	}
}

func (f *fleet) end() {
	for name := range f.nodes {
		f.kill(name)
	}
}
