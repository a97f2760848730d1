//go:build unix

package ownertest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// held are the failpoints of Open at which the winner of a race is held, with the
// hits of each, in order: from the first the directory is locked.
var held = []struct {
	point string
	hits  int
}{{"open.step", 2}, {"open.step", 3}, {"open.step", 4}, {"mark.torn", 1}, {"open.epoch", 1}, {"mark.torn", 2}, {"recover.begin", 1}, {"recover.wake", 1}}

// TestRacesOfProcesses has three processes open one directory at the same
// instant, again and again. One wins; the others get ErrLocked at once, and
// change nothing: the winner is held where it is, and nothing in the directory
// differs after they have tried. In a third of the races they try until it is
// their turn instead. Everything that one of them was told is there in the end.
func TestRacesOfProcesses(t *testing.T) {
	harness.InTurn(t, 4)
	const perDir = 20
	r := rand.New(rand.NewPCG(*seed, 14))
	var ps []*process
	for i := range 3 {
		ps = append(ps, begin(t, fmt.Sprint("p", i)))
	}
	races := harness.Figure(3*len(held)/2, 200, 5000)
	refused, identical, turns, acks, slowest := 0, 0, 0, 0, time.Duration(0)
	at := map[string]int{}
	for n := 0; n < races; {
		dir := filepath.Join(harness.Workspace(t), "engine")
		for i := 0; i < perDir && n < races; i, n = i+1, n+1 {
			if n%3 == 2 {
				refused += takeTurns(t, ps, dir)
				turns += len(ps)
				continue
			}
			at := held[at1(at, r)]
			lost, took := raceOnce(t, ps, dir, command{Do: "open", Dir: dir, Point: at.point, Count: at.hits})
			refused, identical, slowest = refused+lost, identical+1, max(slowest, took)
		}
		for _, p := range ps {
			p.kill() // their ledgers are of this directory
		}
		acks += settled(t, dir, nil)
		for i := range ps {
			ps[i] = begin(t, fmt.Sprint("p", i))
		}
	}
	for _, h := range held {
		require.Positive(t, at[h.point], "nobody was held at %s", h.point)
	}
	require.Less(t, slowest, patience/4)
	t.Logf("%d races of %d processes: %d refusals, the slowest after %v; %d with the winner held, the directory identical; %d turns taken; %d acks, violations: 0; held at %v",
		races, len(ps), refused, slowest, identical, turns, acks, at)
}

// at1 draws where the winner is held: at first, everywhere in turn.
func at1(at map[string]int, r *rand.Rand) int {
	i := 0
	for _, n := range at {
		i += n
	}
	if i >= len(held) {
		i = r.IntN(len(held))
	}
	at[held[i].point]++
	return i
}

// raceOnce has all open a directory, with the winner held.
func raceOnce(t *testing.T, ps []*process, dir string, open command) (refused int, slowest time.Duration) {
	for _, p := range ps {
		p.send(open)
	}
	var winner *process
	for _, p := range ps {
		r := p.next()
		switch r.Said {
		case "holding":
			require.Nil(t, winner, "two processes have locked the directory")
			winner = p
		default:
			require.Equal(t, "locked", r.Said, r.Error)
			refused, slowest = refused+1, max(slowest, r.Took)
		}
	}
	require.NotNil(t, winner, "nobody has won")
	before := contents(t, dir)
	again := command{Do: "open", Dir: dir}
	for _, p := range ps {
		if p != winner {
			p.must("locked", again)
			refused++
		}
	}
	require.Equal(t, before, contents(t, dir), "a loser has changed the directory")
	winner.send(command{Do: "release"})
	require.Equal(t, "opened", winner.next().Said)
	winner.send(command{Do: "work", Count: 2})
	for _, p := range ps {
		if p != winner {
			p.must("locked", again)
			refused++
		}
	}
	r := winner.next()
	require.Equal(t, "worked", r.Said, r.Error)
	winner.must("closed", command{Do: "close"})
	return refused, slowest
}

// takeTurns has all open a directory until they have it, work and close.
func takeTurns(t *testing.T, ps []*process, dir string) (refused int) {
	for _, p := range ps {
		p.send(command{Do: "open", Dir: dir, Until: true})
		p.send(command{Do: "work", Count: 1})
		p.send(command{Do: "close"})
	}
	for _, p := range ps {
		r := p.next()
		require.Equal(t, "opened", r.Said, r.Error)
		refused += r.Tries - 1
		r = p.next()
		require.Equal(t, "worked", r.Said, r.Error)
		require.Equal(t, "closed", p.next().Said)
	}
	return refused
}
