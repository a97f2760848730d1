package natstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/power"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/nats/test/server"
	"github.com/pawl-run/pawl/store"
)

// Losses of power of real servers: each is a process under a tracer, which notes every call that changes a file or syncs one. A model of
// a disk plays them up to a moment, and loses what was not synced by then, as it likes. A new server on what is left must have
// what was acknowledged by that moment.

// A poweredServer is a server under a tracer.
type poweredServer struct {
	tracer *power.Tracer
	cmd    *exec.Cmd
	dir    string
	ended  chan error
}

// startPowered starts a server under a tracer.
func startPowered(t *testing.T, dir string, environment ...string) *poweredServer {
	t.Helper()
	s := &poweredServer{tracer: power.NewTracer(dir, "", nil), cmd: exec.Command(os.Args[0]), dir: dir, ended: make(chan error, 1)}
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), environment...), os.Stderr
	said, write, err := os.Pipe()
	require.NoError(t, err)
	s.cmd.Stdout = write
	go func() { s.ended <- s.tracer.Run(s.cmd) }() // until it is killed
	ready := make(chan error, 1)
	go func() {
		_, err := said.Read(make([]byte, len("ready\n")))
		ready <- err
	}()
	select {
	case err := <-ready:
		require.NoError(t, err)
	case err := <-s.ended:
		if errors.Is(err, power.ErrNoTrace) {
			t.Skipf("LOSSES OF POWER ARE NOT TESTED: %v", err)
		}
		require.NoError(t, err, "the server has ended")
	}
	require.NoError(t, errors.Join(said.Close(), write.Close()))
	return s
}

// kill ends a server, and returns what it has done.
func (s *poweredServer) kill(t *testing.T) []power.Op {
	t.Helper()
	require.NoError(t, s.cmd.Process.Kill())
	require.NoError(t, <-s.ended)
	return s.tracer.Ops()
}

// An ackedEntry is one that was acknowledged, and how much each server had done by then.
type ackedEntry struct {
	seq  uint64
	text string
	done []int
}

// appendEntries takes a log and appends entries to it, small ones and some larger ones.
func appendEntries(t *testing.T, url string, replicas, n int, r *rand.Rand, servers []*poweredServer) (acked []ackedEntry) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close()
	l := openReplicated(t, conn, natslog.Options{Name: "power", Replicas: replicas})
	note := func(p store.Position, text string) {
		e := ackedEntry{seq: p.Seq, text: text}
		for _, s := range servers {
			e.done = append(e.done, len(s.tracer.Ops()))
		}
		acked = append(acked, e)
	}
	note(takeLog(t, l, "open"), "open")
	for i := range n {
		text := fmt.Sprint("entry ", i, " ", strings.Repeat("x", r.IntN([]int{20, 200, 20_000}[r.IntN(3)])))
		p, err := appendEntry(t.Context(), l, []byte(text))
		require.NoError(t, err)
		note(p, text)
	}
	return acked
}

// readWhole returns the entries of a log by their numbers, once somebody answers.
func readWhole(t *testing.T, url string, replicas int) (got map[uint64]string, failed error) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close()
	var l *natslog.Log
	require.Eventually(t, func() bool {
		l, failed = natslog.Open(t.Context(), conn, natslog.Options{Name: "power", Replicas: replicas})
		return failed == nil
	}, patience, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		got, failed = map[uint64]string{}, nil
		for e, err := range l.Read(t.Context(), store.Position{}) {
			if failed = err; err == nil {
				got[e.Seq] = string(e.Data)
			}
		}
		return failed == nil || errors.Is(failed, store.ErrCorrupt)
	}, patience, 100*time.Millisecond)
	return got, failed
}

// lost returns how many of the entries that were acknowledged when each server had done so much are gone or others. The entries that are
// there must have been appended, each in its place.
func lost(t *testing.T, acked []ackedEntry, got map[uint64]string, done []int) (n int) {
	t.Helper()
	for _, e := range acked {
		switch text, ok := got[e.seq]; {
		case ok && text != e.text:
			require.Fail(t, "an entry is another one", "%d: %.40q, not %.40q", e.seq, text, e.text)
		case !ok && e.isBefore(done):
			n++
		}
	}
	return n
}

// isBefore reports whether an entry was acknowledged before servers had done more than so much.
func (e *ackedEntry) isBefore(done []int) bool {
	for i := range done {
		if e.done[i] > done[i] {
			return false
		}
	}
	return true
}

// powerTrials is how often the power goes.
func powerTrials(quick, release int) int {
	if os.Getenv("PAWL_TEST") == "release" {
		return release
	}
	return quick
}

// A server that syncs has what it acknowledged whenever its power goes; one that does not has lost some of it.
func TestLossOfPowerOfAServer(t *testing.T) {
	for _, synced := range []bool{true, false} {
		t.Run(fmt.Sprint("synced=", synced), func(t *testing.T) {
			if !synced {
				harness.InTurn(t, 2)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 8))
			dir, port := t.TempDir(), freePort(t)
			environment := []string{serverPort + "=" + strconv.Itoa(port), serverDir + "=" + filepath.Join(dir, "files")}
			if synced {
				environment = append(environment, serverSyncs+"=1")
			}
			s := startPowered(t, dir, environment...)
			acked := appendEntries(t, natsURL(port), 1, 60, r, []*poweredServer{s})
			ops := s.kill(t)
			total, refused, trials := 0, 0, powerTrials(12, 300)
			for range trials {
				k := acked[0].done[0] + r.IntN(len(ops)-acked[0].done[0]+1)
				left := t.TempDir()
				losePower(t, ops[:k], dir, left, r)
				f, err := server.Start(-1, filepath.Join(left, "files"))
				require.NoError(t, err)
				got, err := readWhole(t, f.ClientURL(), 1)
				f.Shutdown()
				f.WaitForShutdown()
				if err != nil {
					refused++
				}
				gone := lost(t, acked, got, []int{k})
				total += gone
				if synced {
					require.NoError(t, err)
					require.Zero(t, gone, "of the entries that were acknowledged by operation %d of %d", k, len(ops))
				}
			}
			t.Logf("%d operations, %d entries; %d losses of power: %d acknowledged entries were gone, %d logs refused", len(ops), len(acked), trials, total, refused)
			require.True(t, synced || total > 0, "a server that does not sync loses nothing: nothing is tested here")
		})
	}
}

// losePower writes what is left of a server's files.
func losePower(t *testing.T, ops []power.Op, from, to string, r *rand.Rand) {
	t.Helper()
	d := power.NewDisk(from)
	d.Journaled = true
	for i, o := range ops {
		d.Play(o, i)
	}
	l := power.DrawLoss(len(ops), r)
	require.NoError(t, l.Lose(d, to))
}

// Three servers that sync have what a log in three replicas acknowledged, also if all of them lose their power at once.
func TestLossOfPowerOfAllServers(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	c := newCluster(t)
	var servers []*poweredServer
	for _, m := range c.members {
		order, err := json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(m.Dir, 0o700))
		servers = append(servers, startPowered(t, m.Dir, clusterOf+"="+string(order)))
	}
	c.awaitLeader(t)
	acked := appendEntries(t, c.url(), 3, 60, r, servers)
	var all [][]power.Op
	for _, s := range servers {
		all = append(all, s.kill(t))
	}
	total, trials := 0, powerTrials(1, 60)
	for range trials {
		at := acked[r.IntN(len(acked))] // the moment at which it was acknowledged
		left := newCluster(t)
		for i, m := range left.members {
			require.NoError(t, os.Mkdir(m.Dir, 0o700))
			losePower(t, all[i][:at.done[i]], servers[i].dir, m.Dir, r)
		}
		left.start(t)
		got, err := readWhole(t, left.url(), 3)
		require.NoError(t, err)
		total += lost(t, acked, got, at.done)
		left.stop(t)
	}
	t.Logf("%d, %d and %d operations, %d entries; %d losses of power: %d acknowledged entries were gone", len(all[0]), len(all[1]), len(all[2]), len(acked), trials, total)
	require.Zero(t, total)
}
