package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
)

// ErrUnsafeServers says that what the servers have acknowledged may be lost.
var ErrUnsafeServers = errors.New("the NATS servers may lose what they have acknowledged")

// testedVersion is the oldest version of the server that natslog is tested with.
// Older servers may be right as well; nobody has tried.
var testedVersion = [3]int{2, 15, 2}

const (
	knownAnswer   = 5 * time.Second // how long to wait for a server that there must be: the first, and others of its cluster
	unknownAnswer = time.Second     // and for any further one
)

// A serverReport is what a server says of its JetStream.
// It has the fields that count of the answer to $SYS.REQ.SERVER.PING.JSZ. meta_cluster is there only
// for a server of a cluster, with the number of its servers.
type serverReport struct {
	Server struct {
		Name      string `json:"name"`
		Version   string `json:"ver"`
		JetStream bool   `json:"jetstream"`
	} `json:"server"`
	Data struct {
		Config struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
		Cluster *struct {
			Size     int `json:"cluster_size"`
			Replicas []struct {
				Name string `json:"name"`
			} `json:"replicas"`
		} `json:"meta_cluster"`
	} `json:"data"`
}

// CheckServers asks the servers of a NATS system how they keep streams, over a connection of the
// system account. It returns nil if each of them syncs what it acknowledges (sync_interval: always), so that a
// Log survives the loss of power of all of them. Otherwise the error is ErrUnsafeServers and names
// each server and what is wrong: it does not sync, is older than what natslog is tested with, or does
// not answer, or says that none has JetStream. Other errors: pawl.ErrInvalid (no connection), or why nobody
// could be asked.
//
// A server that does not answer is missing from the reports; a cluster's size, as those that answer
// tell it, shows that.
func CheckServers(ctx context.Context, system *nats.Conn) error {
	if system == nil {
		return fmt.Errorf("%w: natslog.CheckServers without a connection", pawl.ErrInvalid)
	}
	reports, err := askServers(ctx, system)
	if err != nil {
		return fmt.Errorf("ask the NATS servers: %w", err)
	}
	var problems []string
	for _, r := range reports {
		if p := r.problem(); p != "" {
			problems = append(problems, r.Server.Name+" "+p)
		}
	}
	switch size, answered := sizeOfCluster(reports), countStreaming(reports); {
	case answered == 0:
		problems = append(problems, "no server that answers has JetStream")
	case size > answered:
		problems = append(problems, fmt.Sprintf("%d of %d servers of the cluster do not answer", size-answered, size))
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return fmt.Errorf("%w: %s", ErrUnsafeServers, strings.Join(problems, "; "))
}

// sizeOfCluster returns the largest size of a cluster that servers tell; 0 if there is none.
func sizeOfCluster(reports []serverReport) (size int) {
	for _, r := range reports {
		if r.Data.Cluster != nil {
			size = max(size, r.Data.Cluster.Size)
		}
	}
	return size
}

// countStreaming returns how many of the servers that have answered have JetStream: the size of a cluster counts no other.
func countStreaming(reports []serverReport) (n int) {
	for _, r := range reports {
		if r.Server.JetStream {
			n++
		}
	}
	return n
}

// askServers returns what the servers say, until one of them is silent for too long.
//
// Nobody knows how many servers there are, so it waits for each further one, as long as answers come
// within a second of each other, or five while fewer have come than the cluster has servers.
func askServers(ctx context.Context, system *nats.Conn) ([]serverReport, error) {
	answers, err := system.SubscribeSync(system.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be gone
	if err := system.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", answers.Subject, []byte(`{"config":true}`)); err != nil {
		return nil, err
	}
	var reports []serverReport
	for {
		wait := unknownAnswer
		if countStreaming(reports) < max(sizeOfCluster(reports), 1) {
			wait = knownAnswer
		}
		answer, err := nextAnswerOf(ctx, answers, wait)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err != nil && len(reports) > 0 && errors.Is(err, context.DeadlineExceeded) {
			return reports, nil
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
			return nil, errors.New("no server answers: it takes a connection of the system account")
		}
		if err != nil {
			return nil, err
		}
		var r serverReport
		if err := json.Unmarshal(answer.Data, &r); err != nil {
			return nil, fmt.Errorf("its answer: %w", err)
		}
		reports = append(reports, r)
	}
}

// nextAnswerOf waits for one answer, no longer than wait.
func nextAnswerOf(ctx context.Context, answers *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return answers.NextMsgWithContext(ctx)
}

// problem says why a server may lose what it has acknowledged, or "".
//
// Versions are compared as numbers, part by part; what cannot be read as a version counts as too old.
func (r *serverReport) problem() string {
	var v [3]int
	_, err := fmt.Sscanf(r.Server.Version, "%d.%d.%d", &v[0], &v[1], &v[2])
	switch {
	case !r.Server.JetStream:
		return "" // it has no streams
	case err != nil || slices.Compare(v[:], testedVersion[:]) < 0:
		return fmt.Sprintf("is version %s, older than %d.%d.%d", r.Server.Version, testedVersion[0], testedVersion[1], testedVersion[2])
	case !r.Data.Config.SyncAlways:
		return "does not sync what it acknowledges: set sync_interval: always in the block jetstream of its configuration"
	}
	return ""
}
