package natscluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/internal/jet"
)

// FeedOptions configure a Feed. The zero value of every field works.
type FeedOptions struct {
	// Name tells the engines apart that share a NATS system: it is in the names of stream and
	// subjects. Letters, digits, _ and -, at most 32; "events" by default. Engines with the
	// same name publish into the same stream.
	Name string
	// Replicas is on how many servers the events are, on their disks: 1 by default.
	Replicas int
	// MaxAge and MaxBytes bound what the stream keeps: it drops the oldest events beyond them,
	// whoever has read them or not. 0 is no bound.
	MaxAge   time.Duration
	MaxBytes int64
	// Window is for how long the servers remember which events they have, and drop one that is
	// published again; 2 min by default.
	Window time.Duration
}

// HeaderTruncated is in messages whose event was too large for one: they have it without its
// data.
const HeaderTruncated = "Pawl-Truncated"

const defaultFeed = "events"

// A Feed is a [pawl.Feed] that publishes the events of runs into a stream of JetStream, each
// as the JSON of its [pawl.FeedMessage] under the subject
//
//	pawl.<name>.event.<workflow>.<run>.<type>
//
// where a workflow or run whose name is more than 64 letters, digits, _ and - stands by the
// checksum of it, and the type is two tokens, as in task.completed. The header Nats-Msg-Id is the id of the
// message: what is published again within the window is dropped by the servers. An event that
// is larger than a message may be comes without its data, and with HeaderTruncated.
type Feed struct {
	conn *nats.Conn
	js   jetstream.JetStream
	name string
}

var _ pawl.Feed = (*Feed)(nil)

// OpenFeed returns a Feed over a connection, which stays the caller's. It makes the stream PAWLEVENTS_<name>
// if it is missing; an existing stream stays as it is. Connect with nats.MaxReconnects(-1). Errors:
// pawl.ErrInvalid for options that cannot be; or what JetStream says.
//
// A stream that is there may have been made by an operator with other bounds, and may have consumers:
// it is not for a program that publishes to change it.
func OpenFeed(ctx context.Context, conn *nats.Conn, o FeedOptions) (*Feed, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: natscluster.OpenFeed without a connection", pawl.ErrInvalid)
	}
	o.Name, o.Replicas, o.Window = cmp.Or(o.Name, defaultFeed), cmp.Or(o.Replicas, 1), cmp.Or(o.Window, 2*time.Minute)
	if !jet.IsName(o.Name) || o.Replicas < 1 || o.Replicas > 5 || o.MaxAge < 0 || o.MaxBytes < 0 || o.Window < 0 {
		return nil, fmt.Errorf("%w: natscluster.FeedOptions: Name has 1 to 32 letters, digits, _ and -, Replicas is 1 to 5, and nothing is negative", pawl.ErrInvalid)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open the feed %s: %w", o.Name, err)
	}
	f := &Feed{conn: conn, js: js, name: o.Name}
	if err := f.ensureStream(ctx, o); err != nil {
		return nil, fmt.Errorf("make the stream %s: %w", f.Stream(), err)
	}
	return f, nil
}

// Stream returns the name of the stream.
func (f *Feed) Stream() string { return "PAWLEVENTS_" + f.name }

// ensureStream makes the stream if it is missing. JetStream takes no window that is longer than MaxAge, so
// the shorter one counts.
func (f *Feed) ensureStream(ctx context.Context, o FeedOptions) error {
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	_, err := f.js.Stream(ctx, f.Stream())
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	c := jetstream.StreamConfig{
		Name: f.Stream(), Subjects: []string{f.subjectOf(">")}, Storage: jetstream.FileStorage, Replicas: o.Replicas,
		MaxAge: o.MaxAge, MaxBytes: -1, Duplicates: o.Window,
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	if o.MaxAge > 0 {
		c.Duplicates = min(o.Window, o.MaxAge)
	}
	_, err = f.js.CreateStream(ctx, c)
	return err
}

// subjectOf returns the subject, or the pattern, of events.
func (f *Feed) subjectOf(of string) string { return "pawl." + f.name + ".event." + of }

// SubjectOf returns the subject of a message.
//
// A consumer may filter by workflow, by run or by type, since each has its place among the tokens.
func (f *Feed) SubjectOf(m *pawl.FeedMessage) string {
	return f.subjectOf(tokenOf(m.Workflow) + "." + tokenOf(string(m.Run)) + "." + string(m.Event.Type))
}

// tokenOf returns a name as a token of a subject: itself where NATS takes it, and otherwise a
// dollar sign, which no such name has, and its checksum.
//
// 16 bytes of the checksum are enough for names that are not chosen to collide, and keep the subject
// short.
func tokenOf(name string) string {
	if goodToken(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "$" + hex.EncodeToString(sum[:16])
}

// goodToken reports whether a name is 1 to 64 letters, digits, _ and -.
func goodToken(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Publish implements pawl.Feed: it returns nil when the stream has the message.
//
// It tries once, for the engine's feeder repeats what fails, in order. An event too large would fail
// each time and hold up all behind it; so it goes without its data, and the header says so. The id
// lets the server drop a second copy of a message whose answer was lost.
func (f *Feed) Publish(ctx context.Context, m pawl.FeedMessage) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(f.SubjectOf(&m))
	if room := int(f.conn.MaxPayload()) - jet.RoomOfHeaders - len(m.ID); room > 0 && len(text) > room {
		m.Event.Data = nil
		if text, err = json.Marshal(m); err != nil {
			return err
		}
		msg.Header.Set(HeaderTruncated, "data")
	}
	msg.Data = text
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	_, err = f.js.PublishMsg(ctx, msg, jetstream.WithMsgID(m.ID), jetstream.WithExpectStream(f.Stream()), jetstream.WithRetryAttempts(0))
	return err
}
