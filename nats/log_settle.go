package pawlnats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/store"
)

// settlePart says what has become of a message that the server refused, because of what stands
// where it belongs: nil if that is the message itself, whose answer was lost, and ErrFenced if it is
// somebody else's. If nothing stands there, an earlier copy may be under way between the servers: the
// error is one after which it is tried again. A server that no longer leads the others may not
// have what they have, so it looks some times, and takes no such server's word for a loss.
//
// It is ours if writer, part and bytes are equal: the writer's random name keeps apart two writers
// with the same entry. lost counts the looks at a server that is to be believed and that lacks even
// what l.end says was there: if all of them were such, the end of the log is gone, which is damage.
func (l *Log) settlePart(ctx context.Context, m *nats.Msg) error {
	lost := 0
	for range looksForOurs {
		s, err := l.lookAt(ctx)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		switch {
		case subjectOf(info) != l.subject:
			return l.madeAnewError()
		case info.State.FirstSeq > l.end+1: // somebody has dropped what was put there
			return l.fencedError()
		case info.State.LastSeq > l.end:
			found, err := s.GetMsg(ctx, l.end+1)
			switch {
			case err == nil && found.Header.Get(headerWriter) == l.writer && found.Header.Get(headerPart) == m.Header.Get(headerPart) && bytes.Equal(found.Data, m.Data):
				return nil
			case err == nil:
				return l.fencedError()
			case !errors.Is(err, jetstream.ErrMsgNotFound): // or it was dropped meanwhile
				return l.readError(l.end+1, err)
			}
		case info.State.LastSeq < l.end && leadsOthers(info):
			lost++
		}
		if err := pauseLook(ctx); err != nil {
			return err
		}
	}
	if lost == looksForOurs {
		return l.corruptAt(l.end, "it is missing: the servers have lost the end of the log")
	}
	return l.appendError(errUnderWay)
}

// errUnderWay says that nobody can tell yet.
var errUnderWay = errors.New("the servers have refused it, and do not have another one: it may be there or not")

// How often a message is looked for that must be there, and after which pause each.
// Together the pauses last 2.5 s; the caller of Append tries again after that.
const (
	looksForOurs = 5
	pauseOfLooks = 500 * time.Millisecond
)

// pauseLook waits between two looks; it fails with the cause of ctx.
func pauseLook(ctx context.Context) error {
	pause := time.NewTimer(pauseOfLooks)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leadsOthers reports whether a server that says what a stream has is believed: it is alone, or has
// heard of so many others a moment ago that these cannot have chosen another leader since.
//
// More than half of the servers, this one included, have to agree on a leader: if it has heard of that
// many just now, no other one can have been chosen by the rest.
func leadsOthers(info *jetstream.StreamInfo) bool {
	if info.Config.Replicas <= 1 || info.Cluster == nil {
		return true
	}
	heard := 1
	for _, r := range info.Cluster.Replicas {
		if !r.Offline && r.Active < heardOf {
			heard++
		}
	}
	return heard > info.Config.Replicas/2
}

// heardOf is less than the time for which JetStream's servers hear nothing of their leader before
// they choose another one (4 s), and more than the pause between its signs (1 s).
const heardOf = 3 * time.Second

// lookAt returns the stream as it is now.
//
// The library keeps what it got in CachedInfo, so the caller reads one state of the stream, and not
// several.
func (l *Log) lookAt(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := l.js.Stream(ctx, l.streamName())
	if err != nil {
		return nil, fmt.Errorf("look at the stream %s: %w", l.streamName(), err)
	}
	return s, nil
}

// checkStream returns an error if the stream is not the one that was taken.
//
// publishPart asks it when no stream has answered under the subject, as it is when the stream was made
// anew.
func (l *Log) checkStream(ctx context.Context) error {
	s, err := l.lookAt(ctx)
	if err == nil && subjectOf(s.CachedInfo()) != l.subject {
		err = l.madeAnewError()
	}
	return err
}

// madeAnewError says that everything that was acknowledged is gone with the old stream: it is damage
// and not a lost lease.
func (l *Log) madeAnewError() error {
	return l.corruptAt(l.end, "it is missing: the stream was deleted, and made anew")
}

// fencedError says that somebody else has taken the log: this writer must not go on.
func (l *Log) fencedError() error {
	return fmt.Errorf("%w: message %d of the stream %s is another one's", store.ErrFenced, l.end+1, l.streamName())
}
