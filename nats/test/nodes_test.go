package natstest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	pawlcluster "github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natscluster"
)

// Nodes and servers are processes that are killed, with their directory or without, or stopped for a while, and what lies between them is
// cut, swallows or takes long. All that was acknowledged is there in the end, nothing of it twice, and when a fault is over somebody answers within
// half a minute, if the machine is not busy.
func TestNodesThroughFaults(t *testing.T) {
	f := nodestrial.Figures{Trials: 1, Decks: 1, Most: 5, Recovery: 2 * time.Minute}
	if os.Getenv("PAWL_TEST") == "release" { // 1,000 times SIGKILL, 200 times SIGSTOP, 700 faults of the network
		f = nodestrial.Figures{Trials: 20, Decks: 5, Most: 100, Recovery: 30 * time.Second}
	}
	nodestrial.Run(t, f, func(t *testing.T) nodestrial.Setting {
		c := startRelayedCluster(t)
		return nodestrial.Setting{
			Term: 2 * time.Second, Deck: deckOf(c),
			Links: func() (links []*servers.Relay, address string) {
				var urls []string
				for _, port := range c.members[0].Ports {
					r := servers.StartRelay(t, port)
					links, urls = append(links, r), append(urls, natsURL(r.Port))
				}
				return links, strings.Join(urls, ",")
			},
			Open: func() (pawlcluster.Backend, error) {
				return natscluster.Open(t.Context(), connect(t, c.url()), natscluster.Options{Replicas: 3})
			},
			CheckLog: func() { checkWriters(t, connect(t, c.url())) },
		}
	})
}

// connectNode connects a process that is a node.
func connectNode(ctx context.Context, address string) (b pawlcluster.Backend, err error) {
	conn, err := nats.Connect(address, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return b, err
	}
	if b, err = natscluster.Open(ctx, conn, natscluster.Options{Replicas: 3}); err != nil {
		conn.Close()
	}
	return b, err
}

// deckOf returns faults of nodes and servers: ten kills and two stops among them.
func deckOf(c *cluster) []nodestrial.Fault {
	harmLinks := func(links func(*nodestrial.Trial) []*servers.Relay, how func(*nodestrial.Trial) servers.Link) func(*nodestrial.Trial) func() {
		return func(x *nodestrial.Trial) func() { return x.HarmLinks(links(x), how(x)) }
	}
	down := func(*nodestrial.Trial) servers.Link { return servers.Link{Down: true} }
	return slices.Concat(
		slices.Repeat([]nodestrial.Fault{nodestrial.KillNode}, 3),
		slices.Repeat([]nodestrial.Fault{nodestrial.LoseNode}, 2),
		slices.Repeat([]nodestrial.Fault{{Name: "kill a server", Harm: c.killServer}}, 5),
		[]nodestrial.Fault{
			nodestrial.StopNode, nodestrial.CutNode, nodestrial.HalfOpenNode, nodestrial.SlowNode,
			{Name: "stop a server", Harm: func(x *nodestrial.Trial) func() { return x.StopProcess(c.processes[drawServer(x)].Process) }},
			{Name: "cut off a server", Harm: harmLinks(c.linksOfServer, down)},
			{Name: "half open links of a server", Harm: harmLinks(c.linksOfServer, (*nodestrial.Trial).DrawHalfOpen)},
			{Name: "slow links of a server", Harm: harmLinks(c.linksOfServer, (*nodestrial.Trial).DrawSlow)},
			{Name: "cut between two servers", Harm: harmLinks(c.linksOfTwoServers, down)},
		},
	)
}

// drawServer draws a server that no fault of now has harmed.
func drawServer(x *nodestrial.Trial) int {
	i := x.R.IntN(3)
	for ; !x.MarkHarmed(fmt.Sprint(i)); i = (i + 1) % 3 {
	}
	return i
}

func (c *cluster) killServer(x *nodestrial.Trial) (heal func()) {
	i := drawServer(x)
	kill(x.T, c.processes[i])
	return func() { c.processes[i] = c.startMember(x.T, i) }
}

// linksOfServer returns the links between a server and the others.
func (c *cluster) linksOfServer(x *nodestrial.Trial) (all []*servers.Relay) {
	i := x.R.IntN(3)
	for ends, r := range c.routes {
		if ends[0] == i || ends[1] == i {
			all = append(all, r)
		}
	}
	return all
}

func (c *cluster) linksOfTwoServers(x *nodestrial.Trial) []*servers.Relay {
	i := x.R.IntN(3)
	j := (i + 1) % 3
	return []*servers.Relay{c.routes[[2]int{i, j}], c.routes[[2]int{j, i}]}
}

// checkWriters checks that nobody has appended behind the opening of another one, and that no message is missing.
func checkWriters(t *testing.T, conn *nats.Conn) {
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	var s jetstream.Stream
	again(t, func() (err error) { s, err = js.Stream(t.Context(), "PAWLLOG_pawl"); return err })
	state := s.CachedInfo().State
	require.Zero(t, state.NumDeleted)
	var consumer jetstream.Consumer
	again(t, func() (err error) {
		consumer, err = js.OrderedConsumer(t.Context(), "PAWLLOG_pawl", jetstream.OrderedConsumerConfig{HeadersOnly: true})
		return err
	})
	messages, err := consumer.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	gone, last, lives := map[string]bool{}, "", 0
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		m, err := messages.Next(jetstream.NextContext(ctx))
		cancel()
		require.NoError(t, err)
		at, err := m.Metadata()
		require.NoError(t, err)
		require.Equal(t, seq, at.Sequence.Stream)
		writer := m.Headers().Get("Pawl-Writer")
		require.False(t, gone[writer], "message %d is of an owner who had lost the log", seq)
		if writer != last {
			gone[last], last, lives = true, writer, lives+1
		}
	}
	t.Logf("the log has %d messages of %d owners, one after the other", state.Msgs, lives)
}
