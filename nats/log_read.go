package pawlnats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/store"
)

// lastEntry returns the position of the last entry, the number of its first message, and that of
// the last message in the stream, behind which the next one comes.
func (l *Log) lastEntry(ctx context.Context) (last store.Position, first, end uint64, err error) {
	if err := context.Cause(ctx); err != nil {
		return last, 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil {
		return last, 0, 0, fmt.Errorf("look at the stream %s: %w", l.streamName(), err)
	}
	end = info.State.LastSeq
	for seq := end; info.State.Msgs > 0 && seq >= info.State.FirstSeq; {
		m, err := l.stream.GetMsg(ctx, seq)
		if err != nil {
			return last, 0, 0, l.readError(seq, err)
		}
		part, of, err := partOf(m.Header)
		switch {
		case err != nil:
			return last, 0, 0, l.corruptAt(seq, err.Error())
		case part > seq:
			return last, 0, 0, l.corruptAt(seq, "it says that more comes before it than there is")
		case part < of: // of an entry that its writer did not complete
			seq -= part
			continue
		}
		first = seq - of + 1
		data, err := l.dataOf(ctx, first, m)
		return store.PositionOf(seq, data), first, end, err
	}
	return store.Position{}, end + 1, end, nil
}

// dataOf returns the bytes of an entry: of the messages from first on, and of the last one.
func (l *Log) dataOf(ctx context.Context, first uint64, last *jetstream.RawStreamMsg) ([]byte, error) {
	var data []byte
	for seq := first; seq < last.Sequence; seq++ {
		m, err := l.stream.GetMsg(ctx, seq)
		if err != nil {
			return nil, l.readError(seq, err)
		}
		data = append(data, m.Data...)
	}
	return append(data, last.Data...), nil
}

func (l *Log) readError(seq uint64, err error) error {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return l.corruptAt(seq, "it is missing")
	}
	return fmt.Errorf("read message %d of the stream %s: %w", seq, l.streamName(), err)
}

// partOf returns which message of an entry one is, from 1, and of how many.
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
func (l *Log) Read(ctx context.Context, after store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if ctx == nil {
			yield(store.Entry{}, fmt.Errorf("%w: read a log without a context", pawl.ErrInvalid))
			return
		}
		err := l.readEntries(ctx, after, func(e store.Entry) bool { return yield(e, nil) })
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			yield(store.Entry{}, err)
		}
	}
}

// readTimeout is how long a reader waits for a message that is there.
const readTimeout = 30 * time.Second

// readEntries calls do with the entries behind a position, up to the last one that there is
// now, until do returns false.
func (l *Log) readEntries(ctx context.Context, after store.Position, do func(store.Entry) bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("look at the stream %s: %w", l.streamName(), err)
	}
	next, end := max(after.Seq+1, info.State.FirstSeq), info.State.LastSeq
	switch {
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
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", l.streamName(), err)
	}
	defer messages.Stop()
	var a assembler
	for ; next <= end; next++ {
		m, err := nextMessage(ctx, messages)
		if err != nil {
			return fmt.Errorf("read message %d of the stream %s: %w", next, l.streamName(), err)
		}
		at, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read message %d of the stream %s: %w", next, l.streamName(), err)
		}
		if at.Sequence.Stream != next {
			return l.corruptAt(next, "it is missing")
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

func nextMessage(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}

// An assembler puts the messages of an entry together.
type assembler struct {
	data []byte
	next uint64 // the part that is missing first
	of   uint64
}

// addPart adds a message, and reports whether the entry is whole. What was there of an entry that its
// writer did not complete is thrown away.
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
func (l *Log) Drop(ctx context.Context, upTo store.Position) error {
	if ctx == nil {
		return fmt.Errorf("%w: drop entries of a log without a context", pawl.ErrInvalid)
	}
	_, first, _, err := l.lastEntry(ctx)
	if err != nil {
		return err
	}
	if keep := min(upTo.Seq+1, first); keep > 1 {
		ctx, cancel := context.WithTimeout(ctx, streamTimeout)
		defer cancel()
		if err := l.stream.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
			return fmt.Errorf("drop entries of the stream %s: %w", l.streamName(), err)
		}
	}
	return nil
}
