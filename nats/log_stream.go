package pawlnats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
)

// streamName returns the name of the stream, which ClusterOptions and operators know it by.
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
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
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

// wrongStream says why a stream would lose entries, have some that nobody has appended, or answer
// with what is not so any more; "" if it would not.
//
// Each case is a setting with which an acknowledged entry could vanish, change or be read out of date;
// an operator may have made the stream.
func wrongStream(c jetstream.StreamConfig, subject string) string {
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
	case c.Compression != jetstream.NoCompression:
		return "it must not be compressed"
	case c.AllowDirect:
		return "only the server that leads may answer: it must not allow direct access"
	case c.AllowMsgCounter || c.SubjectTransform != nil:
		return "it must keep messages as they are"
	case c.Mirror != nil || len(c.Sources) > 0:
		return "it must have no messages from other streams"
	case len(c.Subjects) != 1 || c.Subjects[0] != subject && !strings.HasPrefix(c.Subjects[0], subject+".") || strings.ContainsAny(c.Subjects[0], "*>"):
		return fmt.Sprintf("its subject must be %s, or begin with it and a dot", subject)
	case c.Sealed || c.DenyPurge:
		return "it must take messages, and let old ones be dropped"
	}
	return ""
}
