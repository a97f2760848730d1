package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/nats/internal/jet"
	"github.com/pawl-run/pawl/store"
)

// A lastEntry is the last entry of a log.
// end is more than position.Seq if a writer has left an entry without its last message. Without any
// entry the position is zero and first is end+1.
type lastEntry struct {
	position store.Position
	first    uint64 // number of its first message
	end      uint64 // of the last message in the stream, behind which the next one comes
	stream   jetstream.Stream
}

// subject returns the subject of the stream that was looked at.
func (e lastEntry) subject() string { return subjectOf(e.stream.CachedInfo()) }

// lastEntry returns the last entry, and reads all of it where its sum is wanted. It looks again if somebody has dropped messages
// meanwhile.
//
// A message that is missing is damage, unless the beginning of the stream has moved since: then Drop
// was faster, and the next look sees less. It ends, since each round needs another beginning, and with
// its ctx.
func (l *Log) lastEntry(ctx context.Context, summed bool) (last lastEntry, err error) {
	if err := context.Cause(ctx); err != nil {
		return last, err
	}
	s, err := l.lookAt(ctx)
	for err == nil {
		if last, err = l.lastEntryOf(ctx, s, summed); !errors.Is(err, store.ErrCorrupt) {
			break
		}
		first, damage := s.CachedInfo().State.FirstSeq, err
		if s, err = l.lookAt(ctx); err == nil && s.CachedInfo().State.FirstSeq == first {
			err = damage
		}
	}
	return last, err
}

// lastEntryOf goes back from the end of a stream to the last message that ends an entry, and reads
// that entry where its sum is wanted. It jumps over the parts of an entry without an end, to before its
// first one: part 2 of 3 at 17 means that 16 is part 1, and 15 ends another entry.
func (l *Log) lastEntryOf(ctx context.Context, s jetstream.Stream, summed bool) (lastEntry, error) {
	info := s.CachedInfo()
	end := info.State.LastSeq
	none := lastEntry{first: end + 1, end: end, stream: s}
	for seq := end; info.State.Msgs > 0 && seq >= info.State.FirstSeq; {
		m, err := getMessage(ctx, s, seq)
		if err != nil {
			return none, l.readError(seq, err)
		}
		part, of, err := partOf(m.Header)
		switch {
		case err != nil:
			return none, l.corruptAt(seq, err.Error())
		case part > seq:
			return none, l.corruptAt(seq, "it says that more comes before it than there is")
		case part < of: // of an entry that its writer did not complete
			seq -= part
			continue
		}
		last := lastEntry{store.Position{Seq: seq}, seq - of + 1, end, s}
		if summed {
			data, err := l.dataOf(ctx, s, m, of)
			if err != nil {
				return none, err
			}
			last.position = store.PositionOf(seq, data)
		}
		return last, nil
	}
	return none, nil
}

// getMessage gets a message, for which alone it waits for so long: an entry may have many.
func getMessage(ctx context.Context, s jetstream.Stream, seq uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	return s.GetMsg(ctx, seq)
}

// dataOf returns the bytes of an entry in so many messages; last is the last one.
//
// They stand directly one after the other: a writer has one message under way, and another writer's
// would have been refused.
func (l *Log) dataOf(ctx context.Context, s jetstream.Stream, last *jetstream.RawStreamMsg, of uint64) ([]byte, error) {
	var data []byte
	for seq := last.Sequence - of + 1; seq < last.Sequence; seq++ {
		m, err := getMessage(ctx, s, seq)
		if err != nil {
			return nil, l.readError(seq, err)
		}
		data = append(data, m.Data...)
	}
	return append(data, last.Data...), nil
}

// readError returns why a message could not be read: one that is missing where there must be one is
// damage.
func (l *Log) readError(seq uint64, err error) error {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return l.corruptAt(seq, "it is missing")
	}
	return fmt.Errorf("read message %d of the stream %s: %w", seq, l.streamName(), err)
}

// partOf returns which message of an entry one is, from 1, and of how many.
//
// The header must be exactly what a writer makes: a number with a sign or a zero before it was written
// by somebody else.
func partOf(h nats.Header) (part, of uint64, err error) {
	text := h.Get(headerPart)
	if text == "" {
		return 1, 1, nil
	}
	if n, err := fmt.Sscanf(text, "%d/%d", &part, &of); n != 2 || err != nil || part < 1 || part > of || fmt.Sprintf("%d/%d", part, of) != text {
		return 0, 0, fmt.Errorf("its header %s is %q", headerPart, text)
	}
	return part, of, nil
}

// Read implements [store.Log].
//
// The end is that of when it begins. It needs no Take: a follower reads what another process appends.
func (l *Log) Read(ctx context.Context, after store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		err := l.readEntries(ctx, after, func(e store.Entry) bool { return yield(e, nil) })
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			yield(store.Entry{}, err)
		}
	}
}

// signOfConsumer is how often a consumer that has nothing to send gives a sign. A consumer that has given no sign for twice that
// time, because its server is gone, is made anew.
const signOfConsumer = time.Second

var signsOfConsumer = []jetstream.PullMessagesOpt{jetstream.PullExpiry(4 * signOfConsumer), jetstream.PullHeartbeat(signOfConsumer)}

// deleteConsumer deletes a consumer that nobody needs any more. By itself it would stay for minutes, and a stream has at most a
// thousand.
func deleteConsumer(js jetstream.JetStream, stream string, c jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.Background(), signOfConsumer)
	defer cancel()
	_ = js.DeleteConsumer(ctx, stream, c.CachedInfo().Name) // if that fails it goes by itself
}

// readTimeout is how long a reader waits for a message that is there.
const readTimeout = 30 * time.Second

// readEntries calls do with the entries behind a position, up to the last one that there is
// now, until do returns false.
//
// known is read before the stream is looked at: a server that has less than what this Log has seen is
// behind the others, and its word would make acknowledged entries disappear. A position is checked
// against the first message that is there: if what follows it has been dropped, the reader has lost
// its place, and needs another base. The ordered consumer sends messages in order, without gaps, and
// is made anew by the library where its server is lost.
func (l *Log) readEntries(ctx context.Context, after store.Position, do func(store.Entry) bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	known := l.known.Load()
	s, err := l.lookAt(ctx)
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	next, end := max(after.Seq+1, info.State.FirstSeq), info.State.LastSeq
	switch {
	case end < known: // the server may lead the others no longer
		return fmt.Errorf("read the stream %s: the server has %d messages, and there were %d", l.streamName(), end, known)
	case info.State.Msgs == 0 || next > end:
		return nil
	case after.Seq != 0 && next != after.Seq+1:
		return l.corruptAt(after.Seq+1, "it is missing")
	}
	consumer, err := l.js.OrderedConsumer(ctx, l.streamName(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next,
	})
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", l.streamName(), err)
	}
	defer deleteConsumer(l.js, l.streamName(), consumer)
	messages, err := consumer.Messages(signsOfConsumer...)
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", l.streamName(), err)
	}
	defer messages.Stop()
	var a assembler
	for ; next <= end; next++ {
		m, err := nextMessage(ctx, messages, readTimeout)
		if err != nil {
			return fmt.Errorf("read message %d of the stream %s: %w", next, l.streamName(), err)
		}
		at, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read message %d of the stream %s: %w", next, l.streamName(), err)
		}
		if at.Sequence.Stream != next {
			return l.missingError(ctx, next)
		}
		whole, err := a.addPart(m)
		if err != nil {
			return l.corruptAt(next, err.Error())
		}
		if whole && !do(store.Entry{Seq: next, Data: a.data}) {
			return nil
		}
	}
	return nil
}

// missingError says why a reader has not got a message that was there when it began.
//
// Whether it was dropped or is damage shows in where the stream begins now.
func (l *Log) missingError(ctx context.Context, seq uint64) error {
	s, err := l.lookAt(ctx)
	switch {
	case err != nil:
		return err
	case s.CachedInfo().State.FirstSeq > seq:
		return fmt.Errorf("read message %d of the stream %s: it was dropped meanwhile: read again", seq, l.streamName())
	}
	return l.corruptAt(seq, "it is missing")
}

// nextMessage waits for the next message, for so long at most.
func nextMessage(ctx context.Context, messages jetstream.MessagesContext, most time.Duration) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}

// An assembler puts the messages of an entry together.
// The zero value waits for a part 1. data is of the entry that is being read, and stays the caller's
// after it was whole: the next entry gets another slice.
type assembler struct {
	data []byte
	next uint64 // the part that is missing first
	of   uint64
}

// addPart adds a message, and reports whether the entry is whole. The parts of an entry that its
// writer did not complete are thrown away.
//
// A part 1 always begins an entry, also in the middle of another one, whose writer died or was fenced.
// Any other part must be the one that is expected.
func (a *assembler) addPart(m jetstream.Msg) (whole bool, err error) {
	part, of, err := partOf(m.Headers())
	switch {
	case err != nil:
		return false, err
	case part == 1:
		a.data = nil
	case part != a.next || of != a.of:
		return false, fmt.Errorf("it is part %d of %d, and what comes before it is not part %d", part, of, part-1)
	}
	a.data, a.next, a.of = append(a.data, m.Data()...), part+1, of
	return part == of, nil
}

// Drop implements [store.Log]. It leaves the last entry, behind which the next one comes.
//
// Without the last entry nobody could tell behind which position the next one comes. The stream that
// was taken is compared first: in one that was made anew
// the same numbers are other entries.
func (l *Log) Drop(ctx context.Context, upTo store.Position) error {
	last, err := l.lastEntry(ctx, false)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.took && l.subject != last.subject() {
		err = l.madeAnewError() // its numbers are others
	}
	l.mu.Unlock()
	if keep := min(upTo.Seq+1, last.first); keep > 1 && err == nil {
		ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
		defer cancel()
		if err = last.stream.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
			err = fmt.Errorf("drop entries of the stream %s: %w", l.streamName(), err)
		}
	}
	return err
}
