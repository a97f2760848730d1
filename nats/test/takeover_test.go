package natstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	pawlcluster "github.com/pawl-run/pawl/cluster"
	pawlnats "github.com/pawl-run/pawl/nats"
	"github.com/pawl-run/pawl/workflow"
)

// A cell changes only for who knows what it is.
func TestCell(t *testing.T) {
	s := startServer(t)
	open := func() *pawlnats.Cell {
		c, err := pawlnats.OpenCell(t.Context(), connect(t, s.ClientURL()), pawlnats.CellOptions{Bucket: "b", Key: "k"})
		require.NoError(t, err)
		return c
	}
	a, b := open(), open()
	value, revision, err := a.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, value)
	require.Zero(t, revision)
	first, err := a.Write(t.Context(), []byte("one"), 0)
	require.NoError(t, err)
	_, err = b.Write(t.Context(), []byte("two"), 0)
	require.ErrorIs(t, err, pawlcluster.ErrChanged)
	value, revision, err = b.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "one", string(value))
	require.Equal(t, first, revision)
	second, err := b.Write(t.Context(), []byte("two"), first)
	require.NoError(t, err)
	_, err = a.Write(t.Context(), []byte("three"), first)
	require.ErrorIs(t, err, pawlcluster.ErrChanged)
	_, revision, err = a.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, second, revision)
	for _, o := range []pawlnats.CellOptions{{Key: "k"}, {Bucket: "b"}, {Bucket: "b", Key: "k", Replicas: 9}} {
		_, err = pawlnats.OpenCell(t.Context(), connect(t, s.ClientURL()), o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err = pawlnats.OpenCluster(t.Context(), connect(t, s.ClientURL()), pawlnats.ClusterOptions{Name: strings.Repeat("x", 30)})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// openNode opens a node of a cluster whose runs are of fanOut.
func openNode(conn *nats.Conn, dir, name string, report func(pawlcluster.Status)) (*pawlcluster.Node, error) {
	b, err := pawlnats.OpenCluster(context.Background(), conn, pawlnats.ClusterOptions{Replicas: 3})
	if err != nil {
		return nil, err
	}
	return pawlcluster.Open(context.Background(), filepath.Join(dir, name), b, pawlcluster.Options{
		Node: name, Term: 2 * time.Second, Report: report,
		API:    api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "", 0, errors.New("nobody") }},
		Engine: pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": number}},
	})
}

// saysAcked is what a process that is a node prints before the id of a run.
const saysAcked = "acked "

// nodeAsProcess is a node that starts run after run while it has the engine, and prints those that were acknowledged.
func nodeAsProcess(order string) int {
	url, dir, name := "", "", ""
	if _, err := fmt.Sscan(order, &url, &dir, &name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	changed := make(chan struct{}, 1)
	report := func(pawlcluster.Status) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	n, err := openNode(conn, dir, name, report)
	for began := time.Now(); err != nil && time.Since(began) < time.Minute; n, err = openNode(conn, dir, name, report) {
		fmt.Fprintln(os.Stderr, "once more:", err) // the servers may look for a leader
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	def, err := workflow.ParseYAML([]byte(fanOut))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		e := n.Engine()
		for e == nil {
			<-changed
			e = n.Engine()
		}
		id := workflow.RunID(fmt.Sprintf("%s-%d-%d", name, os.Getpid(), i))
		if e.Start(context.Background(), workflow.Run{ID: id, Definition: def}, items(3)) == nil {
			fmt.Println(saysAcked + string(id))
		}
	}
}

// Nodes are processes that are killed, with their directory or without, or stopped for a while, and servers are killed. Every run whose start was
// acknowledged is there in the end, and ends.
func TestNodesAreKilled(t *testing.T) {
	kills := 3
	if os.Getenv("PAWL_TEST") == "release" {
		kills = 100
	}
	c := startCluster(t)
	dir, acked := t.TempDir(), make(chan string, 1<<16)
	start := func(name string) process {
		cmd, out := childThatPrints(t, nodeOrder+"="+strings.Join([]string{c.url(), dir, name}, " "))
		read := make(chan struct{})
		go func() { // until it is killed
			defer close(read)
			for line := ""; ; {
				var err error
				if line, err = out.ReadString('\n'); err != nil {
					return
				}
				if id, ok := strings.CutPrefix(line, saysAcked); ok {
					acked <- strings.TrimSpace(id)
				}
			}
		}()
		return process{cmd, func() {
			require.NoError(t, cmd.Process.Kill())
			<-read         // before Wait closes what it is read from
			_ = cmd.Wait() // it says that it was killed
		}}
	}
	names := []string{"a", "b"}
	nodes := map[string]process{}
	for _, name := range names {
		nodes[name] = start(name)
	}
	var ids []workflow.RunID
	await := func(n int, after time.Time) { // runs of a life that began after that
		for range n {
			select {
			case id := <-acked:
				ids = append(ids, workflow.RunID(id))
			case <-time.After(2 * time.Minute):
				t.Fatal("nobody takes over")
			}
		}
		if n > 1 {
			t.Logf("%d runs acknowledged, the last %d within %v", len(ids), n, time.Since(after).Round(time.Millisecond))
		}
	}
	awaitOther := func(owner string) {
		for ownerOf(ids[len(ids)-1]) == owner {
			await(1, time.Now())
		}
	}
	await(20, time.Now())
	for i := range kills {
		owner := ownerOf(ids[len(ids)-1])
		for len(acked) > 0 { // of before
			id := workflow.RunID(<-acked)
			ids, owner = append(ids, id), ownerOf(id)
		}
		killed := time.Now()
		if i%3 == 1 { // it stands still, and does not know when it wakes
			require.NoError(t, nodes[owner].cmd.Process.Signal(syscall.SIGSTOP))
			awaitOther(owner)
			require.NoError(t, nodes[owner].cmd.Process.Signal(syscall.SIGCONT))
			await(20, killed)
			continue
		}
		nodes[owner].kill()
		if i%3 == 0 {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, owner)))
		}
		c.restart(t, i%3)
		awaitOther(owner)
		await(20, killed)
		nodes[owner] = start(owner)
	}
	for _, name := range names {
		nodes[name].kill()
	}
	for len(acked) > 0 {
		ids = append(ids, workflow.RunID(<-acked))
	}
	conn := connect(t, c.url())
	changed := make(chan struct{}, 64)
	n, err := openNode(conn, t.TempDir(), "last", func(pawlcluster.Status) { changed <- struct{}{} })
	require.NoError(t, err)
	for n.Engine() == nil {
		<-changed
	}
	for _, id := range ids {
		out, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err, "%s was acknowledged", id)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	require.NoError(t, n.Close(t.Context()))
	t.Logf("%d runs acknowledged, %d kills and stops of nodes, most with one of a server: 0 missing", len(ids), kills)
}

// A process is a node that is one.
type process struct {
	cmd  *exec.Cmd
	kill func()
}

// ownerOf returns the node that has started a run.
func ownerOf(id workflow.RunID) string {
	name, _, _ := strings.Cut(string(id), "-")
	return name
}
