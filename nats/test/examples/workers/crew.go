package main

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// serverURL is the environment variable that makes this program a worker.
const serverURL = "PAWL_NATS_WORKERS_URL"

// work is a worker process. There is no line about leases, heartbeats or reconnecting: Run does that.
func work(ctx context.Context, url string) error {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.Timeout(time.Minute))
	if err != nil {
		return err
	}
	defer conn.Close()
	w := &natspool.Worker{Conn: conn, Capacity: capacity}
	return w.Run(ctx, pawl.Handlers{"square": square})
}

func square(ctx context.Context, t pawl.Task) (any, error) {
	var in struct{ N int }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	select {
	case <-time.After(effort): // this is hard
		return in.N * in.N, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A crew is the worker processes, and the hand that kills them.
type crew struct {
	url     string
	stderr  io.Writer
	running [processes]*exec.Cmd
	kills   int
}

// until keeps a crew, and kills one of it now and then, until wait returns.
func (c *crew) until(ctx context.Context, wait func() (workflow.Outcome, error)) (workflow.Outcome, error) {
	defer c.dismiss()
	for i := range c.running {
		if err := c.hire(i); err != nil {
			return workflow.Outcome{}, err
		}
	}
	var outcome workflow.Outcome
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outcome, failed = wait()
	}()
	killing := time.NewTicker(mercy)
	defer killing.Stop()
	for {
		select {
		case <-killing.C:
			if c.kills == most {
				continue
			}
			victim := rand.IntN(processes)
			c.kill(victim)
			c.kills++
			if err := c.hire(victim); err != nil {
				return outcome, err
			}
		case <-ended:
			return outcome, failed
		case <-ctx.Done():
			return outcome, context.Cause(ctx)
		}
	}
}

// hire starts a process.
func (c *crew) hire(i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serverURL+"="+c.url)
	cmd.Stderr = c.stderr
	c.running[i] = cmd
	return cmd.Start()
}

// kill ends a process with SIGKILL: it can tell nobody.
func (c *crew) kill(i int) {
	if cmd := c.running[i]; cmd != nil && cmd.Process != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
	}
}

func (c *crew) dismiss() {
	for i := range c.running {
		c.kill(i)
	}
}
