package natstest

import (
	"bufio"
	"encoding/json"
	"fmt"
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
	"github.com/pawl-run/pawl/workflow"
)

// Nodes and servers are processes that are killed, with their directory or without, or stopped for a while, and what lies between them is
// cut, swallows or takes long: a drawn deck of faults, one or two of them at a time. All that was acknowledged is there in the end, nothing
// of it twice, and when a fault is over somebody answers within half a minute.
func TestNodesThroughFaults(t *testing.T) {
	trials, decks, most := 1, 1, 8
	if os.Getenv("PAWL_TEST") == "release" { // 1,000 times SIGKILL, 200 times SIGSTOP, 700 faults of the network
		trials, decks, most = 20, 5, len(deckOfFaults)
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

// A nodesTrial is nodes and servers that are harmed, and what the test knows of them.
type nodesTrial struct {
	t      *testing.T
	r      *rand.Rand
	c      *cluster
	dir    string
	rebase time.Duration
	nodes  map[string]*node
	said   chan saying

	owner               string // who has acknowledged last
	begun, acked, ended map[workflow.RunID]bool
	failed              []string        // the last words about it
	harmed              map[string]bool // nodes and servers, by the faults of now
	counts              map[string]int  // of faults
	last                time.Time       // when a call was answered
	answer, recovery    time.Duration   // the longest: of one call, and from the end of faults to the next answer
	silence             time.Duration   // the longest between two answers
}

// A node is a process, and how it reaches the servers.
type node struct {
	cmd   *exec.Cmd
	links []*servers.Relay
	read  chan struct{} // closed when all that it said is read
}

// A saying is a line that a node has printed.
type saying struct {
	node, word, rest string
}

func newNodesTrial(t *testing.T, r *rand.Rand) *nodesTrial {
	x := &nodesTrial{
		t: t, r: r, c: startRelayedCluster(t), dir: t.TempDir(), nodes: map[string]*node{}, said: make(chan saying, 1<<16), counts: map[string]int{},
		begun: map[workflow.RunID]bool{}, acked: map[workflow.RunID]bool{}, ended: map[workflow.RunID]bool{},
	}
	for _, name := range []string{"a", "b"} {
		n := &node{}
		for _, port := range x.c.members[0].Ports {
			n.links = append(n.links, servers.StartRelay(t, port))
		}
		x.nodes[name] = n
	}
	t.Cleanup(func() {
		for _, n := range x.nodes {
			n.kill(t)
		}
	})
	return x
}

// start starts the process of a node.
func (x *nodesTrial) start(name string) {
	n := x.nodes[name]
	var urls []string
	for _, l := range n.links {
		urls = append(urls, natsURL(l.Port))
	}
	order, err := json.Marshal(nodeOrder{URL: strings.Join(urls, ","), Dir: x.dir, Name: name, Rebase: x.rebase})
	require.NoError(x.t, err)
	var out *bufio.Reader
	n.cmd, out = childThatPrints(x.t, nodeOf+"="+string(order))
	n.read = make(chan struct{})
	go func(read chan struct{}) { // until it is killed
		defer close(read)
		for {
			line, err := out.ReadString('\n')
			if err != nil {
				return // with the half of a line
			}
			word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			x.said <- saying{name, word, rest}
		}
	}(n.read)
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
		answered := time.Unix(0, at+took)
		if !x.last.IsZero() {
			x.silence = max(x.silence, answered.Sub(x.last))
		}
		x.last = answered
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

// mostRecovery is how long nobody may answer when all faults are over.
const mostRecovery = 30 * time.Second

// enoughAnswers is how many calls are acknowledged between faults.
const enoughAnswers = 10

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
				x.recovery = max(x.recovery, took)
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
	x.last, x.recovery = time.Time{}, 0 // from here on
	for n := range decks {
		deck := slices.Clone(deckOfFaults)
		x.r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for deck = deck[:min(most, len(deck))]; len(deck) > 0; {
			some := deck[:min(len(deck), 1+x.r.IntN(2))]
			deck = deck[len(some):]
			x.harm(some)
		}
		x.t.Logf("%d of %d: %v; %d runs acknowledged, %d ended, slowest answer %v, longest silence %v, slowest recovery %v",
			n+1, decks, x.counts, len(x.acked), len(x.ended), x.answer, x.silence, x.recovery)
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
	for _, f := range some {
		heals = append(heals, f.harm(x))
		x.counts[f.name]++
	}
	<-time.After(time.Duration(x.r.IntN(mostTime(some))) * time.Millisecond)
	for _, heal := range heals {
		heal()
	}
	x.await(time.Now())
}

// mostTime returns for how many milliseconds faults last at most.
func mostTime(all []fault) int {
	if slices.ContainsFunc(all, func(f fault) bool { return !strings.HasPrefix(f.name, "kill") }) {
		return 3000 // an owner that does not know that it has lost the lease
	}
	return 600
}

// A fault is something that is harmed for a while.
type fault struct {
	name string
	harm func(*nodesTrial) (heal func())
}

// deckOfFaults has ten kills and two stops.
var deckOfFaults = slices.Concat(
	slices.Repeat([]fault{{"kill a node", func(x *nodesTrial) func() { return x.killNode(false) }}}, 3),
	slices.Repeat([]fault{{"kill a node, and lose its directory", func(x *nodesTrial) func() { return x.killNode(true) }}}, 2),
	slices.Repeat([]fault{{"kill a server", (*nodesTrial).killServer}}, 5),
	[]fault{
		{"stop a node", (*nodesTrial).stopNode},
		{"stop a server", (*nodesTrial).stopServer},
		{"cut off a node", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfNode(), servers.Link{Down: true}) }},
		{"half open links of a node", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfNode(), x.halfOpen()) }},
		{"slow links of a node", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfNode(), x.slow()) }},
		{"cut off a server", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfServer(), servers.Link{Down: true}) }},
		{"half open links of a server", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfServer(), x.halfOpen()) }},
		{"slow links of a server", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfServer(), x.slow()) }},
		{"cut between two servers", func(x *nodesTrial) func() { return x.harmLinks(x.linksOfTwoServers(), servers.Link{Down: true}) }},
	},
)

// someNode draws a node that no fault of now has harmed, mostly that with the engine.
func (x *nodesTrial) someNode() string {
	name := x.owner
	if x.r.IntN(4) == 0 {
		name = otherNode[name]
	}
	if x.harmed[name] {
		name = otherNode[name]
	}
	x.harmed[name] = true
	return name
}

var otherNode = map[string]string{"a": "b", "b": "a"}

// someServer draws a server that no fault of now has harmed.
func (x *nodesTrial) someServer() int {
	i := x.r.IntN(3)
	for ; x.harmed[fmt.Sprint(i)]; i = (i + 1) % 3 {
	}
	x.harmed[fmt.Sprint(i)] = true
	return i
}

func (x *nodesTrial) killNode(lost bool) (heal func()) {
	name := x.someNode()
	x.nodes[name].kill(x.t)
	if lost {
		require.NoError(x.t, os.RemoveAll(filepath.Join(x.dir, name)))
	}
	return func() { x.start(name) }
}

func (x *nodesTrial) killServer() (heal func()) {
	i := x.someServer()
	kill(x.t, x.c.processes[i])
	return func() { x.c.processes[i] = x.c.startMember(x.t, i) }
}

func (x *nodesTrial) stopNode() (heal func()) { return x.stop(x.nodes[x.someNode()].cmd) }

func (x *nodesTrial) stopServer() (heal func()) { return x.stop(x.c.processes[x.someServer()]) }

// stop stops a process: it does not know when it wakes.
func (x *nodesTrial) stop(c *exec.Cmd) (heal func()) {
	require.NoError(x.t, c.Process.Signal(syscall.SIGSTOP))
	return func() { require.NoError(x.t, c.Process.Signal(syscall.SIGCONT)) }
}

// linksOfNode returns the links of a node to all servers, or to one.
func (x *nodesTrial) linksOfNode() []*servers.Relay {
	all := x.nodes[x.someNode()].links
	if x.r.IntN(3) == 0 {
		return all[x.r.IntN(3):][:1]
	}
	return all
}

// linksOfServer returns the links between a server and the others.
func (x *nodesTrial) linksOfServer() (all []*servers.Relay) {
	i := x.r.IntN(3)
	for ends, r := range x.c.routes {
		if ends[0] == i || ends[1] == i {
			all = append(all, r)
		}
	}
	return all
}

func (x *nodesTrial) linksOfTwoServers() []*servers.Relay {
	i := x.r.IntN(3)
	j := (i + 1) % 3
	return []*servers.Relay{x.c.routes[[2]int{i, j}], x.c.routes[[2]int{j, i}]}
}

func (x *nodesTrial) halfOpen() servers.Link {
	ways := [...]servers.Link{{Out: true}, {In: true}, {Out: true, In: true}}
	return ways[x.r.IntN(len(ways))]
}

func (x *nodesTrial) slow() servers.Link {
	return servers.Link{Slow: time.Duration(20+x.r.IntN(300)) * time.Millisecond}
}

// harmLinks changes some links. Bytes that were held are passed on in the end, or swallowed.
func (x *nodesTrial) harmLinks(all []*servers.Relay, how servers.Link) (heal func()) {
	for _, l := range all {
		l.Set(how)
	}
	swallows := x.r.IntN(2) == 0
	return func() {
		for _, l := range all {
			if swallows {
				l.Set(servers.Link{Down: true})
			}
			l.Set(servers.Link{})
		}
	}
}
