package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// The environment variables that make this program a worker.
const (
	poolURL   = "PAWL_WORKERS_URL"
	poolToken = "PAWL_WORKERS_TOKEN"
	workerID  = "PAWL_WORKERS_ID"
)

// work is a worker process. There is no line about leases, heartbeats or
// reconnecting: Run does that. It ends with the coordinator, which holds the
// other end of its standard input.
func work(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	c := worker.Client{URL: url, Token: os.Getenv(poolToken), ID: os.Getenv(workerID), Capacity: capacity}
	return c.Run(ctx, pawl.Handlers{"square": pawl.Typed(square)})
}

func square(ctx context.Context, in struct{ N int }) (int, error) {
	select {
	case <-time.After(effort): // this is hard
		return in.N * in.N, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// A crew is the worker processes, and the hand that kills them.
type crew struct {
	url, token string
	stderr     io.Writer
	running    [processes]*exec.Cmd
	hired      int // processes ever started
	kills      int
}

// until keeps a crew, kills one of it now and then, and shows how the pool
// stands, until wait returns.
func (c *crew) until(ctx context.Context, pool *worker.Pool, wait func() (workflow.Outcome, error)) (workflow.Outcome, error) {
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
	showing := time.NewTicker(50 * time.Millisecond)
	defer showing.Stop()
	killing := time.After(mercy)
	for {
		select {
		case <-killing:
			if c.kills < most {
				killing = time.After(mercy/2 + rand.N(mercy))
			}
			victim := rand.IntN(processes)
			c.kill(victim)
			c.kills++
			if err := c.hire(victim); err != nil {
				return workflow.Outcome{}, err
			}
		case <-showing.C:
			c.show(pool.Status())
		case <-ended:
			c.show(pool.Status())
			fmt.Fprintln(c.stderr)
			return outcome, failed
		case <-ctx.Done():
			return workflow.Outcome{}, context.Cause(ctx)
		}
	}
}

// hire starts a process. Every second one comes under a new name: the tasks of
// the dead one wait until its lease runs out. The others come under their old
// name, and get at once what they held.
func (c *crew) hire(i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	id := fmt.Sprintf("worker-%d", i)
	if i%2 == 1 {
		id = fmt.Sprintf("worker-%d.%d", i, c.hired)
	}
	c.hired++
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), poolURL+"="+c.url, poolToken+"="+c.token, workerID+"="+id)
	cmd.Stderr = c.stderr
	if _, err := cmd.StdinPipe(); err != nil { // which is closed by Wait, or with this process
		return err
	}
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

// show draws one line, over and over.
func (c *crew) show(s worker.Status) {
	const width = 30
	bar := strings.Repeat("#", width*int(s.Processed)/tasks)
	fmt.Fprintf(c.stderr, "\r[%-*s] %4d done, %4d queued, %2d active, %2d leases ran out, %2d kills ", width, bar, s.Processed, s.Queued, len(s.Active), s.Expired, c.kills)
}
