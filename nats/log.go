package pawlnats

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/store"
)

// LogOptions configure a Log. The zero value of every field works.
type LogOptions struct {
	// Name tells the logs apart that share a NATS system: each engine directory has its own.
	// Letters, digits, _ and -, at most 32; "log" by default.
	Name string
	// Replicas is on how many servers the log is, on their disks: 1 by default; 3 where the
	// copy must outlive a server. It counts when the stream is made.
	Replicas int
	// MaxBytes bounds the stream; 0 is no bound of its own. A full one takes no further entry,
	// and loses none: what is committed waits until old entries are dropped. It counts when the
	// stream is made.
	MaxBytes int64
}

const defaultLogName = "log"

func (o LogOptions) withDefaults() (LogOptions, error) {
	if o.Name == "" {
		o.Name = defaultLogName
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	var wrong string
	switch {
	case !goodName.MatchString(o.Name):
		wrong = fmt.Sprintf("Name is %q: use 1 to 32 letters, digits, _ and -", o.Name)
	case o.Replicas < 1 || o.Replicas > 5:
		wrong = fmt.Sprintf("Replicas is %d: JetStream takes 1 to 5", o.Replicas)
	case o.MaxBytes < 0:
		wrong = fmt.Sprintf("MaxBytes is %d: it must not be negative", o.MaxBytes)
	default:
		return o, nil
	}
	return o, fmt.Errorf("%w: pawlnats.LogOptions.%s", pawl.ErrInvalid, wrong)
}

// A Log is a [store.Log] in a stream of JetStream: what [pawl.Engine.Follow] keeps there
// outlives the machine of the engine. Any number of goroutines may use it.
//
// An entry that is larger than a message may be is in several, of which the last one makes it
// count. The number of an entry is that of its last message in the stream. A writer
// has one message under way at a time and says behind which one it belongs, which the
// server checks: so nothing is appended by who has lost the log, and nothing twice.
// Entries survive what the servers survive; docs/scale.md says which settings that takes.
type Log struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	options LogOptions
	writer  string // in each message: who has appended it
	part    int    // bytes of an entry in one message, at most

	mu      sync.Mutex
	took    bool
	end     uint64 // the last message that is known to be there
	pending []byte // an entry of which some messages are there
	sent    int    // how many
}

// The headers of a message of a log.
const (
	headerWriter = "Pawl-Writer"
	headerPart   = "Pawl-Part" // "2/3", of an entry in three messages
)

// roomOfHeaders is how much of the largest message the headers and the subject may take.
const roomOfHeaders = 1 << 10

// OpenLog opens a log over a connection, which stays the caller's. It makes the stream if there is
// none. Connect with nats.MaxReconnects(-1). Errors: pawl.ErrInvalid for options that cannot
// be, or a stream that would drop entries by itself; or what JetStream says.
func OpenLog(ctx context.Context, conn *nats.Conn, o LogOptions) (*Log, error) {
	if conn == nil || ctx == nil {
		return nil, fmt.Errorf("%w: pawlnats.OpenLog without a connection or a context", pawl.ErrInvalid)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open the log %s: %w", o.Name, err)
	}
	l := &Log{js: js, options: o, writer: rand.Text(), part: max(int(conn.MaxPayload())-roomOfHeaders, roomOfHeaders)}
	if l.stream, err = l.ensureStream(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) streamName() string { return "PAWLLOG_" + l.options.Name }
func (l *Log) subject() string    { return "pawl." + l.options.Name + ".log" }

// ensureStream returns the stream, which it makes if there is none, and refuses one that may
// drop entries by itself.
func (l *Log) ensureStream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := l.js.Stream(ctx, l.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		c := jetstream.StreamConfig{
			Name: l.streamName(), Subjects: []string{l.subject()}, Storage: jetstream.FileStorage, Replicas: l.options.Replicas,
			MaxBytes: -1, Discard: jetstream.DiscardNew, DenyDelete: true,
		}
		if l.options.MaxBytes > 0 {
			c.MaxBytes = l.options.MaxBytes
		}
		s, err = l.js.CreateStream(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("make the stream %s: %w", l.streamName(), err)
	}
	if c := s.CachedInfo().Config; c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage ||
		c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxMsgsPerSubject > 0 {
		return nil, fmt.Errorf("%w: the stream %s would lose entries: it must have the storage file, the retention limits, discard new, and no bound on age or number of messages",
			pawl.ErrInvalid, l.streamName())
	}
	return s, nil
}

// Take implements [store.Log].
func (l *Log) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	if ctx == nil || makeEntry == nil {
		return store.Position{}, fmt.Errorf("%w: a log is taken with a context and what makes its entry", pawl.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		last, _, end, err := l.lastEntry(ctx)
		if err != nil {
			return store.Position{}, err
		}
		l.took, l.end, l.pending, l.sent = true, end, nil, 0
		p, err := l.appendEntry(ctx, makeEntry(last))
		if err == nil {
			return p, nil
		}
		l.took = false
		if !errors.Is(err, store.ErrFenced) { // somebody has appended meanwhile
			return store.Position{}, err
		}
	}
}

// Append implements [store.Log]. It tries once: the caller repeats it.
func (l *Log) Append(ctx context.Context, entry []byte) (store.Position, error) {
	if ctx == nil {
		return store.Position{}, fmt.Errorf("%w: append to a log without a context", pawl.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.took {
		return store.Position{}, fmt.Errorf("%w: append to a log that was not taken", pawl.ErrInvalid)
	}
	return l.appendEntry(ctx, entry)
}

// appendEntry publishes the messages of an entry that are not there yet, one after the other.
func (l *Log) appendEntry(ctx context.Context, entry []byte) (store.Position, error) {
	if l.sent > 0 && !bytes.Equal(l.pending, entry) {
		l.sent = 0 // what is there of another one does not count
	}
	l.pending = entry
	parts := max((len(entry)+l.part-1)/l.part, 1)
	for l.sent < parts {
		m := nats.NewMsg(l.subject())
		m.Data = entry[l.sent*l.part : min((l.sent+1)*l.part, len(entry))]
		m.Header.Set(headerWriter, l.writer)
		if parts > 1 {
			m.Header.Set(headerPart, fmt.Sprintf("%d/%d", l.sent+1, parts))
		}
		if err := l.publishPart(ctx, m); err != nil {
			return store.Position{}, err
		}
		l.end++
		l.sent++
	}
	l.pending, l.sent = nil, 0
	return store.PositionOf(l.end, entry), nil
}

// publishPart publishes a message behind the last one, and returns nil when it is there.
func (l *Log) publishPart(ctx context.Context, m *nats.Msg) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if !l.js.Conn().IsConnected() { // it would be sent when nobody waits any more
		return fmt.Errorf("append to the stream %s: %w", l.streamName(), nats.ErrDisconnected)
	}
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithExpectStream(l.streamName()), jetstream.WithExpectLastSequence(l.end),
		jetstream.WithRetryAttempts(0)) // a copy that arrives late is refused, and so is what would come before it
	var refused *jetstream.APIError
	switch {
	case err == nil && ack.Sequence != l.end+1:
		return l.corruptAt(l.end+1, fmt.Sprintf("the server has put it at %d", ack.Sequence))
	case err == nil:
		return nil
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return l.checkOurs(ctx, m)
	case errors.As(err, &refused) && refused.ErrorCode == codeStreamFull:
		return fmt.Errorf("%w: the stream %s: %s", store.ErrNoSpace, l.streamName(), refused.Description)
	case context.Cause(ctx) != nil:
		return fmt.Errorf("append to the stream %s: %w", l.streamName(), context.Cause(ctx))
	}
	return fmt.Errorf("append to the stream %s: %w", l.streamName(), err)
}

const (
	// appendTimeout is how long a writer waits for the answer to one message. Whoever appends
	// tries again: a short wait does no harm.
	appendTimeout = 3 * time.Second
	// codeStreamFull is JetStream's for a stream that may take no more bytes or messages.
	codeStreamFull jetstream.ErrorCode = 10077
)

// checkOurs returns nil if the message behind the last one is the one that was to be published:
// its answer was lost. Otherwise somebody else has the log. A server that no longer leads
// the others may not have that message yet, so it is looked for some times.
func (l *Log) checkOurs(ctx context.Context, m *nats.Msg) error {
	for range looksForOurs {
		found, err := l.stream.GetMsg(ctx, l.end+1)
		switch {
		case err == nil && found.Header.Get(headerWriter) == l.writer && found.Header.Get(headerPart) == m.Header.Get(headerPart) && bytes.Equal(found.Data, m.Data):
			return nil
		case err == nil:
			return l.fencedError()
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return fmt.Errorf("read message %d of the stream %s: %w", l.end+1, l.streamName(), err)
		}
		info, err := l.stream.Info(ctx)
		if err != nil {
			return fmt.Errorf("look at the stream %s: %w", l.streamName(), err)
		}
		if info.State.LastSeq > l.end { // it is dropped already
			return l.fencedError()
		}
		pause := time.NewTimer(pauseOfLooks)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
	return l.corruptAt(l.end, "it is missing: the servers have lost the end of the log")
}

// How often a message is looked for that must be there, and after which pause each.
const (
	looksForOurs = 5
	pauseOfLooks = 500 * time.Millisecond
)

func (l *Log) fencedError() error {
	return fmt.Errorf("%w: message %d of the stream %s is another one's", store.ErrFenced, l.end+1, l.streamName())
}

func (l *Log) corruptAt(seq uint64, what string) error {
	return &store.CorruptError{File: fmt.Sprintf("message %d of the stream %s", seq, l.streamName()), What: what}
}
