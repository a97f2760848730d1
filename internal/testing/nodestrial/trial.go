//go:build unix

package nodestrial

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/workflow"
)

// A Setting is what the nodes of a trial share.
type Setting struct {
	Term time.Duration // of the lease
	Deck []Fault       // is drawn from
	// Links returns the links of a new node to the servers, and the address behind them.
	Links func() (links []*servers.Relay, address string)
	// Open opens what the nodes share, on a way that nothing harms. It may fail while servers that were harmed come back.
	Open func() (cluster.Backend, error)
	// CheckLog checks that nobody has appended behind the opening of another one, and that no entry is missing.
	CheckLog func()
}

// Figures say how much a trial does: how many trials, how many decks of faults each, and how many faults of a deck at most.
// When faults are over somebody must answer within Recovery.
type Figures struct {
	Trials, Decks, Most int
	Recovery            time.Duration
}

// Run plays trials at the same time: one or two faults of a drawn deck at a time.
func Run(t *testing.T, f Figures, start func(t *testing.T) Setting) {
	for n := range f.Trials {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			x := newTrial(t, rand.New(rand.NewPCG(seed, 6)), start(t))
			x.rebase = time.Duration(n%2) * 5 * time.Second // of the others all of the log is there in the end
			x.recovery = f.Recovery
			x.playDecks(f.Decks, f.Most)
		})
	}
}

// A Trial is nodes and servers that are harmed, and what the test knows of them.
type Trial struct {
	T *testing.T
	R *rand.Rand

	setting  Setting
	dir      string
	rebase   time.Duration
	recovery time.Duration // at most
	nodes    map[string]*node
	said     chan saying

	owner               string // who has acknowledged last
	begun, acked, ended map[workflow.RunID]bool
	failed              []string        // the last words about it
	harmed              map[string]bool // nodes and servers, by the faults of now
	counts              map[string]int  // of faults
	last                time.Time       // when a call was answered
	answer, silence     time.Duration   // the longest: of one call, and between two answers
	recoveries          []time.Duration // from the end of faults to the next answer
}

// A node is a process, and how it reaches the servers.
type node struct {
	cmd     *exec.Cmd
	links   []*servers.Relay
	address string
	read    chan struct{} // closed when all that it said is read
}

// A saying is a line that a node has printed.
type saying struct{ node, word, rest string }

// The nodes, and which one is the other.
var otherNode = map[string]string{"a": "b", "b": "a"}

func newTrial(t *testing.T, r *rand.Rand, s Setting) *Trial {
	x := &Trial{
		T: t, R: r, setting: s, dir: t.TempDir(), nodes: map[string]*node{}, said: make(chan saying, 1<<16), counts: map[string]int{},
		begun: map[workflow.RunID]bool{}, acked: map[workflow.RunID]bool{}, ended: map[workflow.RunID]bool{},
	}
	for name := range otherNode {
		n := &node{}
		n.links, n.address = s.Links()
		x.nodes[name] = n
	}
	t.Cleanup(func() {
		for _, n := range x.nodes {
			n.killProcess(t)
		}
	})
	return x
}

// startNode starts the process of a node.
func (x *Trial) startNode(name string) {
	n := x.nodes[name]
	order, err := json.Marshal(nodeOrder{Address: n.address, Dir: x.dir, Name: name, Term: x.setting.Term, Rebase: x.rebase})
	require.NoError(x.T, err)
	self, err := os.Executable()
	require.NoError(x.T, err)
	n.cmd = exec.Command(self)
	n.cmd.Env, n.cmd.Stderr = append(os.Environ(), variable+"="+string(order)), os.Stderr
	out, err := n.cmd.StdoutPipe()
	require.NoError(x.T, err)
	require.NoError(x.T, n.cmd.Start())
	n.read = make(chan struct{})
	go x.readLines(name, out, n.read) // until it is killed
}

func (x *Trial) readLines(name string, from io.Reader, read chan struct{}) {
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

// killProcess ends the process of a node with SIGKILL, if there is one.
func (n *node) killProcess(t *testing.T) {
	if n.cmd == nil {
		return
	}
	require.NoError(t, n.cmd.Process.Kill())
	<-n.read         // before Wait closes what it is read from
	_ = n.cmd.Wait() // it says that it was killed
	n.cmd = nil
}

// noteSaying notes what a node has said. It returns when a call began that was acknowledged.
func (x *Trial) noteSaying(s saying) (began time.Time) {
	switch s.word {
	case saysBegun:
		x.begun[workflow.RunID(s.rest)] = true
	case saysEnded:
		x.ended[workflow.RunID(s.rest)] = true
	case saysAcked:
		var id string
		var at, took int64
		_, err := fmt.Sscan(s.rest, &id, &at, &took)
		require.NoError(x.T, err)
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
func (x *Trial) noteAll() {
	for len(x.said) > 0 {
		x.noteSaying(<-x.said)
	}
}

// enoughAnswers is how many calls are acknowledged between faults.
const enoughAnswers = 10

// awaitAnswers waits until some calls are acknowledged that began after an instant, the first of them within the time of a
// recovery unless there was no fault yet: processes, servers and engines have to start then.
func (x *Trial) awaitAnswers(after time.Time) {
	answers := 0
	late := time.NewTimer(4 * x.recovery)
	defer late.Stop()
	for {
		select {
		case s := <-x.said:
			if !x.noteSaying(s).After(after) {
				continue
			}
			if answers++; answers == 1 {
				took := time.Since(after)
				x.recoveries = append(x.recoveries, took)
				assert.True(x.T, len(x.counts) == 0 || took < x.recovery, "nobody has answered for %v:\n%s", took, strings.Join(x.failed, "\n"))
			}
			if answers == enoughAnswers {
				return
			}
		case <-late.C:
			for _, n := range x.nodes {
				_ = n.cmd.Process.Signal(syscall.SIGQUIT) // it prints what its goroutines wait for
				<-n.read
			}
			require.Fail(x.T, "nobody answers", "%s", strings.Join(x.failed, "\n"))
		}
	}
}

// playDecks plays some decks of faults, or the first faults of one.
func (x *Trial) playDecks(decks, most int) {
	for name := range x.nodes {
		x.startNode(name)
	}
	x.awaitAnswers(time.Now())
	x.last, x.recoveries = time.Time{}, nil // from here on
	for n := range decks {
		deck := slices.Clone(x.setting.Deck)
		x.R.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for deck = deck[:min(most, len(deck))]; len(deck) > 0; {
			some := deck[:min(len(deck), 1+x.R.IntN(2))]
			deck = deck[len(some):]
			x.harmFor(some)
		}
		slices.Sort(x.recoveries)
		x.T.Logf("%d of %d: %v; %d runs acknowledged, %d ended, slowest answer %v, longest silence %v, recovery at the median %v, slowest %v",
			n+1, decks, x.counts, len(x.acked), len(x.ended), x.answer, x.silence, x.recoveries[len(x.recoveries)/2], x.recoveries[len(x.recoveries)-1])
	}
	for _, n := range x.nodes {
		n.killProcess(x.T)
	}
	x.noteAll()
	x.checkRest()
	x.T.Logf("%d runs acknowledged, 0 missing", len(x.acked))
}

// harmFor has some faults happen at a time, until they are over and somebody answers.
func (x *Trial) harmFor(some []Fault) {
	x.noteAll()
	x.harmed = map[string]bool{}
	var heals []func()
	most := 600 * time.Millisecond
	for _, f := range some {
		if !strings.HasPrefix(f.Name, "kill") {
			most = x.setting.Term + time.Second // an owner that does not know that it has lost the lease
		}
		heals = append(heals, f.Harm(x))
		x.counts[f.Name]++
	}
	<-time.After(time.Duration(x.R.Int64N(int64(most))))
	for _, heal := range heals {
		heal()
	}
	x.awaitAnswers(time.Now())
}
