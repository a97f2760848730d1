package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/nats/test/server"
)

// replicas is how many JetStream servers there are, each with all of a log.
const replicas = 3

// memberOrder is the variable that says that a process is a server: a server.Member as JSON.
const memberOrder = "PAWL_BENCH_MEMBER"

// serveMember is a server until its input ends, which is when the process that has started it ends, if this process is to be one.
func serveMember() {
	order := os.Getenv(memberOrder)
	if order == "" {
		return
	}
	var m server.Member
	err := json.Unmarshal([]byte(order), &m)
	if err == nil {
		s, failed := m.Start()
		if err = failed; err == nil {
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin) // nobody writes
			s.Shutdown()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// jetStream is a cluster of servers, each a process of its own, that sync what they acknowledge.
type jetStream struct {
	processes []*exec.Cmd
	inputs    []io.Closer
	conn      *nats.Conn
	js        jetstream.JetStream
}

func startJetStream(ctx context.Context, dir string) (j *jetStream, err error) {
	ports, err := freePorts(2 * replicas)
	if err != nil {
		return nil, err
	}
	j = &jetStream{}
	defer func() {
		if err != nil {
			j.stopServers()
		}
	}()
	var urls []string
	for i := range replicas {
		m := server.Member{Number: i, Ports: ports[:replicas], Routes: ports[replicas:], Dir: filepath.Join(dir, fmt.Sprint("nats", i))}
		if err := j.startMember(m); err != nil {
			return nil, err
		}
		urls = append(urls, fmt.Sprint("nats://127.0.0.1:", ports[i]))
	}
	if j.conn, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1)); err != nil {
		return nil, err
	}
	if j.js, err = jetstream.New(j.conn); err != nil {
		return nil, err
	}
	if err := j.awaitLeader(ctx); err != nil {
		return nil, err
	}
	return j, checkServers(ctx, urls)
}

// checkServers fails if a server does not sync what it acknowledges.
func checkServers(ctx context.Context, urls []string) error {
	conn, err := nats.Connect(strings.Join(urls, ","), nats.UserInfo("system", "system"))
	if err != nil {
		return err
	}
	defer conn.Close()
	return natslog.CheckServers(ctx, conn)
}

// startMember starts the process of a server, and returns when it says that it is ready.
func (j *jetStream) startMember(m server.Member) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	order, err := json.Marshal(m)
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env, cmd.Stderr = append(os.Environ(), memberOrder+"="+string(order)), os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	j.processes, j.inputs = append(j.processes, cmd), append(j.inputs, input)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("a NATS server has not started: %w", err)
	}
	return nil
}

// awaitLeader returns when the servers have a leader, and take streams.
func (j *jetStream) awaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, time.Second) // nobody answers a request that comes before the leader
		_, err := j.js.CreateStream(try, jetstream.StreamConfig{Name: "ready", Subjects: []string{"ready"}, Replicas: replicas})
		cancel()
		if err == nil {
			return j.js.DeleteStream(ctx, "ready")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the NATS servers have no leader: %w", err)
		}
	}
}

func (j *jetStream) stopServers() {
	if j.conn != nil {
		j.conn.Close()
	}
	for i, p := range j.processes {
		_ = j.inputs[i].Close()
		_ = p.Wait() // it is thrown away
	}
}

// openEngine opens an engine whose log is a stream that has nothing yet.
func (j *jetStream) openEngine(ctx context.Context, dir string) (engine, error) {
	if err := j.deleteStreams(ctx); err != nil {
		return nil, err
	}
	backend, err := natscluster.Open(ctx, j.conn, natscluster.Options{Name: "bench", Replicas: replicas})
	if err != nil {
		return nil, err
	}
	e, err := openPawl(ctx, dir, &backend)
	if err != nil {
		return nil, err
	}
	e.groups = func(ctx context.Context) (int64, error) {
		s, err := j.js.Stream(ctx, "PAWLLOG_bench")
		if err != nil {
			return 0, err
		}
		return int64(s.CachedInfo().State.LastSeq), nil //nolint:gosec // a number of groups
	}
	e.after = j.deleteStreams
	return e, nil
}

// deleteStreams deletes what samples have left: it would take room, and a part of the processors.
func (j *jetStream) deleteStreams(ctx context.Context) (err error) {
	names := j.js.StreamNames(ctx)
	for name := range names.Name() {
		err = errors.Join(err, j.js.DeleteStream(ctx, name))
	}
	return errors.Join(err, names.Err())
}

// freePorts returns ports where nobody listens.
func freePorts(n int) (ports []int, err error) {
	var all []net.Listener
	for range n {
		l, failed := net.Listen("tcp", "127.0.0.1:0")
		if err = failed; err != nil {
			break
		}
		all, ports = append(all, l), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range all { // only now, so that no two are the same
		err = errors.Join(err, l.Close())
	}
	return ports, err
}
