package pawlnats

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// withDefaults returns the options as a Log uses them, or pawl.ErrInvalid with the field that cannot
// be.
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
// An entry that is larger than a message may be is in several, and the last one makes it count. The
// number of an entry is that of its last message in the stream. A writer has one message under way at
// a time and says behind which one it belongs, which the server checks: so a writer that has lost the
// log appends nothing, and nothing is there twice. A stream that was deleted and made anew has
// another subject: a writer that had taken the old one appends nothing to it. Entries survive what
// the servers survive; docs/scale.md says which settings that takes.
//
// mu is held for a whole Append, as one message at a time is under way; known is outside of it, for
// readers. took is true from a Take that succeeded. If part is not 0, an entry with the sum pending
// was not appended to its end, and sent of its messages are there: the caller repeats Append with the
// same entry, which goes on behind them, with the same size of a part, whatever the server's largest
// message is by then.
type Log struct {
	js      jetstream.JetStream
	options LogOptions
	writer  string        // in each message: who has appended it
	known   atomic.Uint64 // the last message that this Log has seen to be there, since it took the stream

	mu      sync.Mutex
	took    bool
	subject string   // of the stream that was taken: another one of that name has another
	end     uint64   // the last message that is known to be there
	pending [32]byte // sum of an entry with perhaps some messages there
	part    int      // bytes of it in one message, at most; 0 if there is no such entry
	sent    int      // how many of its messages are there
}

// The headers of a message of a log.
const (
	headerWriter = "Pawl-Writer"
	headerPart   = "Pawl-Part" // "2/3", of an entry in three messages
)

// roomOfHeaders is how much of the largest message the headers and the subject may take.
// The server counts headers, and the header that says which sequence is expected comes from the client
// library.
const roomOfHeaders = 1 << 10

// OpenLog opens a log over a connection, which stays the caller's. It makes the stream if it is
// missing. Connect with nats.MaxReconnects(-1). Errors: pawl.ErrInvalid for options that cannot
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
	l := &Log{js: js, options: o, writer: rand.Text()}
	if err := l.ensureStream(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Take implements [store.Log].
//
// It appends an entry of its own, made for the position behind which it comes: with that the writer
// before finds something where its next message belongs, and is fenced. If somebody else appends in
// between, it looks again and makes another entry. subject is taken over with it: a stream that is
// deleted and made anew later has another one.
func (l *Log) Take(ctx context.Context, makeEntry func(store.Position) []byte) (store.Position, error) {
	if ctx == nil || makeEntry == nil {
		return store.Position{}, fmt.Errorf("%w: a log is taken with a context and what makes its entry", pawl.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		last, err := l.lastEntry(ctx)
		if err != nil {
			return store.Position{}, err
		}
		l.took, l.subject, l.end, l.part = true, last.subject(), last.end, 0
		l.known.Store(last.end)
		p, err := l.appendEntry(ctx, makeEntry(last.position))
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
//
// After an error other than ErrFenced the entry may be there or not. To append the same bytes again is
// safe: settlePart finds out. A different entry behind such an error leaves the parts that are there
// without an end, and readers throw them away.
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
//
// The position is that of the last message, whose sequence is l.end once it is there. An empty entry
// is one empty message. mu is held.
func (l *Log) appendEntry(ctx context.Context, entry []byte) (store.Position, error) {
	p := store.PositionOf(0, entry)
	if l.part == 0 || l.pending != p.Sum { // what is there of another one does not count
		l.pending, l.sent = p.Sum, 0
		l.part = max(int(l.js.Conn().MaxPayload())-roomOfHeaders, roomOfHeaders)
	}
	parts := max((len(entry)+l.part-1)/l.part, 1)
	for l.sent < parts {
		m := nats.NewMsg(l.subject)
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
		l.known.Store(l.end)
	}
	p.Seq, l.part = l.end, 0
	return p, nil
}

// publishPart publishes a message behind the last one, and returns nil when it is there.
//
// The message is there once or not at all, whatever the answer says: it is accepted only directly
// behind l.end. It does not send while the connection is down, because the client would keep it and
// send it later, when this writer has gone on. A refusal over the sequence may be of our own message,
// sent before, whose answer was lost.
func (l *Log) publishPart(ctx context.Context, m *nats.Msg) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	switch conn := l.js.Conn(); {
	case conn.IsClosed():
		return l.appendError(nats.ErrConnectionClosed)
	case !conn.IsConnected(): // it would be sent when nobody waits any more
		return l.appendError(nats.ErrDisconnected)
	}
	waits, cancel := context.WithTimeoutCause(ctx, appendTimeout, errSilent)
	defer cancel()
	ack, err := l.js.PublishMsg(waits, m, jetstream.WithExpectStream(l.streamName()), jetstream.WithExpectLastSequence(l.end),
		jetstream.WithRetryAttempts(0)) // a copy that arrives late is refused, and so is what would come before it
	var refused *jetstream.APIError
	switch {
	case err == nil && ack.Sequence != l.end+1:
		return l.corruptAt(l.end+1, fmt.Sprintf("the server has put it at %d", ack.Sequence))
	case err == nil:
		return nil
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return l.settlePart(ctx, m)
	case errors.As(err, &refused) && slices.Contains(codesOfNoSpace[:], refused.ErrorCode):
		return fmt.Errorf("%w: the stream %s: %s", store.ErrNoSpace, l.streamName(), refused.Description)
	case errors.Is(err, jetstream.ErrNoStreamResponse): // nobody leads it, or it is another one
		return cmp.Or(l.checkStream(ctx), l.appendError(err))
	case context.Cause(waits) != nil:
		return l.appendError(context.Cause(waits))
	}
	return l.appendError(err)
}

// errSilent says that the servers are silent.
var errSilent = fmt.Errorf("no answer within %v: it may be there or not", appendTimeout)

// appendError wraps an error that leaves it open whether the message is there.
func (l *Log) appendError(err error) error {
	return fmt.Errorf("append to the stream %s: %w", l.streamName(), err)
}

// appendTimeout is how long a writer waits for the answer to one message. The caller tries again: a
// short wait does no harm.
const appendTimeout = 3 * time.Second

// codesOfNoSpace are JetStream's for what may take no more bytes: a stream, an account, a server, its disk.
var codesOfNoSpace = [...]jetstream.ErrorCode{10077, 10002, 10023, 10047}

// corruptAt returns the error that a message is not what it must be; it is store.ErrCorrupt, and
// nobody repairs that here.
func (l *Log) corruptAt(seq uint64, what string) error {
	return &store.CorruptError{File: fmt.Sprintf("message %d of the stream %s", seq, l.streamName()), What: what}
}
