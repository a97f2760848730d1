//go:build unix

package nodestrial

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/servers"
)

// A Fault is something that is harmed for a while. The names of those that last only shortly begin with kill.
type Fault struct {
	Name string
	Harm func(*Trial) (heal func())
}

// Faults of nodes.
var (
	KillNode     = Fault{"kill a node", func(x *Trial) func() { return x.killNode(false) }}
	LoseNode     = Fault{"kill a node, and lose its directory", func(x *Trial) func() { return x.killNode(true) }}
	StopNode     = Fault{"stop a node", func(x *Trial) func() { return x.StopProcess(x.nodes[x.drawNode()].cmd.Process) }}
	CutNode      = Fault{"cut off a node", func(x *Trial) func() { return x.HarmLinks(x.drawLinks(), servers.Link{Down: true}) }}
	HalfOpenNode = Fault{"half open links of a node", func(x *Trial) func() { return x.HarmLinks(x.drawLinks(), x.DrawHalfOpen()) }}
	SlowNode     = Fault{"slow links of a node", func(x *Trial) func() { return x.HarmLinks(x.drawLinks(), x.DrawSlow()) }}
)

// MarkHarmed notes that a fault of now harms something, and reports whether none has before.
func (x *Trial) MarkHarmed(name string) (first bool) {
	first = !x.harmed[name]
	x.harmed[name] = true
	return first
}

// CountFault counts a fault under one more name.
func (x *Trial) CountFault(name string) { x.counts[name]++ }

// drawNode draws a node that no fault of now has harmed, mostly that with the engine.
func (x *Trial) drawNode() string {
	name := x.owner
	if x.R.IntN(4) == 0 {
		name = otherNode[name]
	}
	if !x.MarkHarmed(name) {
		name = otherNode[name]
		x.MarkHarmed(name)
	}
	return name
}

// drawLinks draws a node, and returns its links to all servers, or to one.
func (x *Trial) drawLinks() []*servers.Relay {
	all := x.nodes[x.drawNode()].links
	if x.R.IntN(3) == 0 {
		return all[x.R.IntN(len(all)):][:1]
	}
	return all
}

func (x *Trial) killNode(lost bool) (heal func()) {
	name := x.drawNode()
	x.nodes[name].killProcess(x.T)
	if lost {
		require.NoError(x.T, os.RemoveAll(filepath.Join(x.dir, name)))
	}
	return func() { x.startNode(name) }
}

// StopProcess stops a process: it does not know when it wakes.
func (x *Trial) StopProcess(p *os.Process) (heal func()) {
	require.NoError(x.T, p.Signal(syscall.SIGSTOP))
	return func() { require.NoError(x.T, p.Signal(syscall.SIGCONT)) }
}

// DrawHalfOpen draws a link that is half open.
func (x *Trial) DrawHalfOpen() servers.Link {
	ways := [...]servers.Link{{Out: true}, {In: true}, {Out: true, In: true}}
	return ways[x.R.IntN(len(ways))]
}

// DrawSlow draws a link that is slow.
func (x *Trial) DrawSlow() servers.Link {
	return servers.Link{Slow: time.Duration(20+x.R.IntN(300)) * time.Millisecond}
}

// HarmLinks changes some links. Bytes that were held are passed on in the end, or swallowed.
func (x *Trial) HarmLinks(all []*servers.Relay, how servers.Link) (heal func()) {
	for _, l := range all {
		l.Set(how)
	}
	swallows := x.R.IntN(2) == 0
	return func() {
		for _, l := range all {
			if swallows {
				l.Set(servers.Link{Down: true})
			}
			l.Set(servers.Link{})
		}
	}
}
