package pg_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/workflow"
)

// Two nodes and their server are processes that are killed, nodes with their directory or without, or stopped, and what lies between them is cut,
// swallows or takes long: a drawn deck of faults, one or two at a time. All that was acknowledged is there in the end, nothing of it twice, and when
// a fault is over somebody answers within half a minute.
func TestNodesThroughFaults(t *testing.T) {
	trials, decks, most := 1, 1, 5
	if os.Getenv("PAWL_TEST") == "release" { // 300 times SIGKILL of nodes, 100 kills and restarts of servers
		trials, decks, most = 5, 10, len(deckOfFaults)
	}
	for n := range trials {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			x := newNodesTrial(t, rand.New(rand.NewPCG(seed, 6)))
			x.rebase = time.Duration(n%2) * 5 * time.Second // of the others all of the log is there in the end
			x.play(decks, most)
		})
	}
}

// A nodesTrial is two nodes and a server that are harmed, and what the test knows of them.
type nodesTrial struct {
	t      *testing.T
	r      *rand.Rand
	server *servers.Postgres
	dir    string
	rebase time.Duration
	nodes  map[string]*node
	said   chan saying

	owner               string // who has acknowledged last
	begun, acked, ended map[workflow.RunID]bool
	failed              []string        // the last words about it
	harmed              map[string]bool // nodes and the server, by the faults of now
	counts              map[string]int  // of faults
	answer, recovery    time.Duration   // the longest: of one call, and from the end of faults to the next answer
	recoveries          []time.Duration
}

// A node is a process, and how it reaches the server.
type node struct {
	cmd  *exec.Cmd
	link *servers.Relay
	read chan struct{} // closed when all that it said is read
}

// A saying is a line that a node has printed.
type saying struct{ node, word, rest string }

func newNodesTrial(t *testing.T, r *rand.Rand) *nodesTrial {
	x := &nodesTrial{
		t: t, r: r, server: startServer(t, nil), dir: t.TempDir(), nodes: map[string]*node{}, said: make(chan saying, 1<<16), counts: map[string]int{},
		begun: map[workflow.RunID]bool{}, acked: map[workflow.RunID]bool{}, ended: map[workflow.RunID]bool{},
	}
	migrated(t, x.server.URL("postgres"))
	for _, name := range []string{"a", "b"} {
		x.nodes[name] = &node{link: servers.StartRelay(t, x.server.Port)}
	}
	t.Cleanup(func() {
		for _, n := range x.nodes {
			n.kill(t)
		}
	})
	return x
}

// urlThrough returns the address of a database behind a relay.
func urlThrough(link *servers.Relay, database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&connect_timeout=2", link.Port, database)
}

// start starts the process of a node.
func (x *nodesTrial) start(name string) {
	n := x.nodes[name]
	order, err := json.Marshal(nodeOrder{URL: urlThrough(n.link, "postgres"), Dir: x.dir, Name: name, Rebase: x.rebase})
	require.NoError(x.t, err)
	self, err := os.Executable()
	require.NoError(x.t, err)
	n.cmd = exec.Command(self)
	n.cmd.Env, n.cmd.Stderr = append(os.Environ(), nodeOf+"="+string(order)), os.Stderr
	out, err := n.cmd.StdoutPipe()
	require.NoError(x.t, err)
	require.NoError(x.t, n.cmd.Start())
	n.read = make(chan struct{})
	go x.readLines(name, out, n.read) // until it is killed
}

func (x *nodesTrial) readLines(name string, from io.Reader, read chan struct{}) {
	defer close(read)
	for out := bufio.NewReader(from); ; {
		line, err := out.ReadString('\n')
		if err != nil {
			return // with the half of a line
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		x.said <- saying{name, word, rest}
	}
}

// kill ends the process of a node with SIGKILL, if there is one.
func (n *node) kill(t *testing.T) {
	if n.cmd == nil {
		return
	}
	require.NoError(t, n.cmd.Process.Kill())
	<-n.read         // before Wait closes what it is read from
	_ = n.cmd.Wait() // it says that it was killed
	n.cmd = nil
}

// note notes what a node has said. It returns when a call began that was acknowledged.
func (x *nodesTrial) note(s saying) (began time.Time) {
	switch s.word {
	case saysBegun:
		x.begun[workflow.RunID(s.rest)] = true
	case saysEnded:
		x.ended[workflow.RunID(s.rest)] = true
	case saysAcked:
		var id string
		var at, took int64
		_, err := fmt.Sscan(s.rest, &id, &at, &took)
		require.NoError(x.t, err)
		x.acked[workflow.RunID(id)], x.owner = true, s.node
		x.answer = max(x.answer, time.Duration(took))
		return time.Unix(0, at)
	default:
		x.failed = append(x.failed[max(0, len(x.failed)-30):], fmt.Sprint(time.Now().Format("15:04:05.000 "), s.node, ": ", s.word, " ", s.rest))
	}
	return time.Time{}
}

// noteAll notes what was said so far.
func (x *nodesTrial) noteAll() {
	for len(x.said) > 0 {
		x.note(<-x.said)
	}
}

// mostRecovery is how long nobody may answer when all faults are over, and enoughAnswers how many calls are acknowledged between faults.
const (
	mostRecovery  = 30 * time.Second
	enoughAnswers = 10
)

// await waits until some calls are acknowledged that began after an instant.
func (x *nodesTrial) await(after time.Time) {
	answers := 0
	late := time.NewTimer(4 * mostRecovery)
	defer late.Stop()
	for {
		select {
		case s := <-x.said:
			if !x.note(s).After(after) {
				continue
			}
			if answers++; answers == 1 {
				took := time.Since(after)
				x.recovery, x.recoveries = max(x.recovery, took), append(x.recoveries, took)
				assert.Less(x.t, took, mostRecovery, "nobody has answered:\n%s", strings.Join(x.failed, "\n"))
			}
			if answers == enoughAnswers {
				return
			}
		case <-late.C:
			for _, n := range x.nodes {
				_ = n.cmd.Process.Signal(syscall.SIGQUIT) // it prints what its goroutines wait for
				<-n.read
			}
			require.Fail(x.t, "nobody answers", "%s", strings.Join(x.failed, "\n"))
		}
	}
}

// play plays some decks of faults, or the first faults of one.
func (x *nodesTrial) play(decks, most int) {
	for name := range x.nodes {
		x.start(name)
	}
	x.await(time.Now())
	x.recovery, x.recoveries = 0, nil // from here on
	for n := range decks {
		deck := slices.Clone(deckOfFaults)
		x.r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for deck = deck[:min(most, len(deck))]; len(deck) > 0; {
			some := deck[:min(len(deck), 1+x.r.IntN(2))]
			deck = deck[len(some):]
			x.harm(some)
		}
		slices.Sort(x.recoveries)
		x.t.Logf("%d of %d: %v; %d runs acknowledged, %d ended, slowest answer %v, recovery at the median %v, slowest %v",
			n+1, decks, x.counts, len(x.acked), len(x.ended), x.answer, x.recoveries[len(x.recoveries)/2], x.recovery)
	}
	for _, n := range x.nodes {
		n.kill(x.t)
	}
	x.noteAll()
	x.check()
	x.t.Logf("%d runs acknowledged, 0 missing", len(x.acked))
}

// harm has some faults happen at a time, until they are over and somebody answers.
func (x *nodesTrial) harm(some []fault) {
	x.noteAll()
	x.harmed = map[string]bool{}
	var heals []func()
	most := 500
	for _, f := range some {
		if !strings.HasPrefix(f.name, "kill") {
			most = 2000 // an owner that does not know that it has lost the lease
		}
		heals = append(heals, f.harm(x))
		x.counts[f.name]++
	}
	<-time.After(time.Duration(x.r.IntN(most)) * time.Millisecond)
	for _, heal := range heals {
		heal()
	}
	x.await(time.Now())
}

// A fault is something that is harmed for a while.
type fault struct {
	name string
	harm func(*nodesTrial) (heal func())
}

// deckOfFaults has six kills of nodes, and two of the server.
var deckOfFaults = slices.Concat(
	slices.Repeat([]fault{{"kill a node", func(x *nodesTrial) func() { return x.killNode(false) }}}, 4),
	slices.Repeat([]fault{{"kill a node, and lose its directory", func(x *nodesTrial) func() { return x.killNode(true) }}}, 2),
	slices.Repeat([]fault{{"kill the server", (*nodesTrial).killServer}}, 2),
	[]fault{
		{"stop a node", (*nodesTrial).stopNode},
		{"cut off a node", func(x *nodesTrial) func() { return x.harmLink(servers.Link{Down: true}) }},
		{"half open link of a node", func(x *nodesTrial) func() {
			ways := [...]servers.Link{{Out: true}, {In: true}, {Out: true, In: true}}
			return x.harmLink(ways[x.r.IntN(len(ways))])
		}},
		{"slow link of a node", func(x *nodesTrial) func() {
			return x.harmLink(servers.Link{Slow: time.Duration(20+x.r.IntN(200)) * time.Millisecond})
		}},
	},
)

// someNode draws a node that no fault of now has harmed, mostly that with the engine.
func (x *nodesTrial) someNode() string {
	other := map[string]string{"a": "b", "b": "a"}
	name := x.owner
	if x.r.IntN(4) == 0 {
		name = other[name]
	}
	if x.harmed[name] {
		name = other[name]
	}
	x.harmed[name] = true
	return name
}

func (x *nodesTrial) killNode(lost bool) (heal func()) {
	name := x.someNode()
	x.nodes[name].kill(x.t)
	if lost {
		require.NoError(x.t, os.RemoveAll(filepath.Join(x.dir, name)))
	}
	return func() { x.start(name) }
}

// killServer ends the server in one of three ways: all its processes by SIGKILL, by an immediate shutdown, or in order. A deck has two of these at
// a time perhaps: the second one finds it dead.
func (x *nodesTrial) killServer() (heal func()) {
	if x.harmed["server"] {
		return func() {}
	}
	x.harmed["server"] = true
	way := x.r.IntN(3)
	switch way {
	case 0:
		require.NoError(x.t, x.server.Kill())
	case 1:
		require.NoError(x.t, x.server.Signal(syscall.SIGQUIT))
	case 2:
		require.NoError(x.t, x.server.Shutdown())
	}
	x.counts["server: "+[]string{"SIGKILL", "immediate shutdown", "restart"}[way]]++
	return func() { require.NoError(x.t, x.server.Start()) }
}

// stopNode stops a process: it does not know when it wakes.
func (x *nodesTrial) stopNode() (heal func()) {
	p := x.nodes[x.someNode()].cmd.Process
	require.NoError(x.t, p.Signal(syscall.SIGSTOP))
	return func() { require.NoError(x.t, p.Signal(syscall.SIGCONT)) }
}

// harmLink changes the link of a node. Bytes that were held are passed on in the end, or swallowed.
func (x *nodesTrial) harmLink(how servers.Link) (heal func()) {
	link := x.nodes[x.someNode()].link
	link.Set(how)
	swallows := x.r.IntN(2) == 0
	return func() {
		if swallows {
			link.Set(servers.Link{Down: true})
		}
		link.Set(servers.Link{})
	}
}

// An answer of an append that was lost on its way leaves the entry in doubt, and it is there once when it is appended again; a link that is slow loses
// nothing.
func TestAnswersOfALogThatAreLost(t *testing.T) {
	url := migrated(t, newDatabase(t))
	link := servers.StartRelay(t, shared.server.Port)
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	l := openLog(t, open(t, urlThrough(link, name), pg.Options{}), "lost")
	takeLog(t, l, "open")
	appendEntry(t, l, "1") // the connection knows the statement from then on
	link.Set(servers.Link{In: true})
	ended := make(chan error)
	go func() {
		_, err := l.Append(t.Context(), []byte("2"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return queryText(t, url, `SELECT count(*)::text FROM pawl.entries`) == "3" }, time.Minute, time.Millisecond)
	link.Set(servers.Link{Down: true})
	require.Error(t, <-ended)
	_, err := l.Append(t.Context(), []byte("2"))
	require.Error(t, err)
	link.Set(servers.Link{Slow: 5 * time.Millisecond})
	require.Eventually(t, func() bool {
		_, err = l.Append(t.Context(), []byte("2"))
		return err == nil
	}, time.Minute, time.Millisecond)
	appendEntry(t, l, "3")
	requireEntries(t, l, "1 open", "2 1", "3 2", "4 3")
}
