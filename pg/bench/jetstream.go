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
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/nats/test/server"
)

// patience is how long the servers may take for what is not measured: by default a client waits 5 s, which a busy machine needs.
const patience = 2 * time.Minute

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
	if j.conn, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.Timeout(patience)); err != nil {
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
	conn, err := nats.Connect(strings.Join(urls, ","), nats.UserInfo("system", "system"), nats.Timeout(patience))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := time.Second; ; pause *= 2 {
		try, cancel := context.WithTimeout(ctx, pause) // nobody answers a request that comes before the leader
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
	backend, err := j.openBackend(ctx)
	if err != nil {
		return nil, err
	}
	e, err := openPawl(ctx, dir, &backend)
	if err != nil {
		return nil, err
	}
	e.groups = func(ctx context.Context) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		s, err := j.js.Stream(ctx, "PAWLLOG_bench")
		if err != nil {
			return 0, err
		}
		return int64(s.CachedInfo().State.LastSeq), nil //nolint:gosec // a number of groups
	}
	e.after = j.deleteStreams
	return e, nil
}

// openBackend makes the streams of an engine. It is done again until the servers have answered in time.
func (j *jetStream) openBackend(ctx context.Context) (cluster.Backend, error) {
	late := time.Now().Add(patience)
	for {
		b, err := natscluster.Open(ctx, j.conn, natscluster.Options{Name: "bench", Replicas: replicas})
		if err == nil || ctx.Err() != nil || time.Now().After(late) {
			return b, err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// deleteStreams deletes what samples have left: it would take room, and a part of the processors.
func (j *jetStream) deleteStreams(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	names := j.js.StreamNames(ctx)
	for name := range names.Name() {
		err = errors.Join(err, j.js.DeleteStream(ctx, name))
	}
	return errors.Join(err, names.Err())
}

// freePorts returns ports where nobody listens, and which systems give to no client.
func freePorts(n int) (ports []int, err error) {
	for len(ports) < n {
		port, err := servers.FreePort()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
