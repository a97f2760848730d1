package natslog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/internal/jet"
	"github.com/pawl-run/pawl/store"
)

// Options configure a Log. The zero value of every field works.
type Options struct {
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

const defaultName = "log"

// withDefaults returns the options as a Log uses them, or pawl.ErrInvalid with the field that cannot
// be.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	var wrong string
	switch {
	case !jet.IsName(o.Name):
		wrong = fmt.Sprintf("Name is %q: use 1 to 32 letters, digits, _ and -", o.Name)
	case o.Replicas < 1 || o.Replicas > 5:
		wrong = fmt.Sprintf("Replicas is %d: JetStream takes 1 to 5", o.Replicas)
	case o.MaxBytes < 0:
		wrong = fmt.Sprintf("MaxBytes is %d: it must not be negative", o.MaxBytes)
	default:
		return o, nil
	}
	return o, fmt.Errorf("%w: natslog.Options.%s", pawl.ErrInvalid, wrong)
}

// A Log is a [store.Log] in a stream of JetStream: what [pawl.Engine.Follow] keeps there
// outlives the machine of the engine. Any number of goroutines may use it.
//
// An entry that is larger than a message may be is in several, and the last one makes it count. The
// number of an entry is that of its last message in the stream. A writer has one message under way at
// a time and says behind which one it belongs, which the server checks: so a writer that has lost the
// log appends nothing, and nothing is there twice. A stream that was deleted and made anew has
// another subject: a writer that had taken the old one appends nothing to it. Entries survive what
// the servers survive; nats/README.md says which settings that takes.
//
// mu is held for a whole Append, as one message at a time is under way; known is outside of it, for
// readers. took is true from a Take that succeeded. If part is not 0, an entry with the sum pending
// was not appended to its end, and sent of its messages are there: the caller repeats Append with the
// same entry, which goes on behind them, with the same size of a part, whatever the server's largest
// message is by then.
type Log struct {
	js      jetstream.JetStream
	options Options
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

// Open opens a log over a connection, which stays the caller's. It makes the stream if it is
// missing. Connect with nats.MaxReconnects(-1). Errors: pawl.ErrInvalid for options that cannot
// be, or a stream that would drop entries by itself; or what JetStream says.
func Open(ctx context.Context, conn *nats.Conn, o Options) (*Log, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: natslog.Open without a connection", pawl.ErrInvalid)
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
	if makeEntry == nil {
		return store.Position{}, fmt.Errorf("%w: a log is taken with what makes its entry", pawl.ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		last, err := l.lastEntry(ctx, true)
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
		l.part = max(int(l.js.Conn().MaxPayload())-jet.RoomOfHeaders, jet.RoomOfHeaders)
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
	case jet.IsChanged(err):
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

// streamName returns the name of the stream, which package natscluster and operators know it by.
func (l *Log) streamName() string { return "PAWLLOG_" + l.options.Name }

// subjectOf returns the subject of a log's stream.
//
// A log's stream has one; wrongStream refuses others when the log is opened.
func subjectOf(info *jetstream.StreamInfo) string { return strings.Join(info.Config.Subjects, " ") }

// ensureStream makes the stream if it is missing, and refuses one that may lose entries, or have
// others. Each stream that it makes has a subject of its own.
//
// The subject has a random end, so that a writer that took the stream before it was deleted cannot
// append to the new one, whose sequence numbers would begin anew. Messages cannot be deleted one by
// one (DenyDelete), only from the front, by Drop.
func (l *Log) ensureStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	subject := "pawl." + l.options.Name + ".log"
	s, err := l.js.Stream(ctx, l.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		c := jetstream.StreamConfig{
			Name: l.streamName(), Subjects: []string{subject + "." + rand.Text()}, Storage: jetstream.FileStorage, Replicas: l.options.Replicas,
			MaxBytes: -1, Discard: jetstream.DiscardNew, DenyDelete: true,
		}
		if l.options.MaxBytes > 0 {
			c.MaxBytes = l.options.MaxBytes
		}
		if s, err = l.js.CreateStream(ctx, c); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was faster
			s, err = l.js.Stream(ctx, l.streamName())
		}
	}
	if err != nil {
		return fmt.Errorf("make the stream %s: %w", l.streamName(), err)
	}
	if wrong := wrongStream(s.CachedInfo().Config, subject); wrong != "" {
		return fmt.Errorf("%w: the stream %s cannot be a log: %s", pawl.ErrInvalid, l.streamName(), wrong)
	}
	return nil
}

// wrongStream says why a stream cannot be a log; "" if it can.
func wrongStream(c jetstream.StreamConfig, subject string) string {
	switch wrong := findRisk(c); {
	case wrong != "":
		return wrong
	case c.Compression != jetstream.NoCompression:
		return "it must not be compressed"
	case len(c.Subjects) != 1 || c.Subjects[0] != subject && !strings.HasPrefix(c.Subjects[0], subject+".") || strings.ContainsAny(c.Subjects[0], "*>"):
		return fmt.Sprintf("its subject must be %s, or begin with it and a dot", subject)
	}
	return ""
}

// findRisk says why a stream would lose messages, have some that nobody has sent, or answer
// with what is not so any more; "" if it would not.
//
// Each case is a setting with which an acknowledged message could vanish, change or be read out of date;
// an operator may have made the stream.
func findRisk(c jetstream.StreamConfig) string {
	switch {
	case c.Storage != jetstream.FileStorage:
		return "it must have the storage file"
	case c.Retention != jetstream.LimitsPolicy:
		return "it must have the retention limits"
	case c.Discard != jetstream.DiscardNew:
		return "it must discard what is new, not what is old"
	case c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxMsgsPerSubject > 0:
		return "it must have no bound on the age or the number of messages"
	case c.MaxMsgSize > 0:
		return "it must have no bound on the size of a message"
	case c.NoAck:
		return "it must acknowledge messages"
	case c.PersistMode != jetstream.DefaultPersistMode:
		return "it acknowledges what it has not written: it must have the default persist mode"
	case c.AllowDirect:
		return "only the server that leads may answer: it must not allow direct access"
	case c.AllowMsgCounter || c.SubjectTransform != nil:
		return "it must keep messages as they are"
	case c.Mirror != nil || len(c.Sources) > 0:
		return "it must have no messages from other streams"
	case c.Sealed || c.DenyPurge:
		return "it must take messages, and let old ones be dropped"
	}
	return ""
}

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
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
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
