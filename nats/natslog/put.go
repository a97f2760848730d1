package natslog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/nats/internal/jet"
	"github.com/pawl-run/pawl/timeout"
)

// headerBlob is a header of each chunk: the name of the object that it was sent for. Chunks without it are those of
// other programs, or older ones.
const headerBlob = "Pawl-Blob"

// Bounds of a Put.
const (
	maxPutFailures = 4              // after which it fails, with a pause of pauseOfLooks after each
	maxPutChanges  = 100            // how often others may be faster: 9 s with the pauses after each
	maxPutTime     = 12 * time.Hour // from the first chunk to the description: deleteLost waits for twice that time
)

// changeBackoff is the pause after somebody else was faster. Several servers refuse a description also while one before it is not on all of them,
// where nobody can see it yet.
var changeBackoff = timeout.Backoff{First: time.Millisecond, Max: 100 * time.Millisecond}

// Put implements [blob.Store]. A blob that is there, and whole, is read and not sent again; then it needs hardly any room. Another one
// takes the place of what was there once the servers have all of it. A Put that fails takes no blob away.
//
// The name of an object is its hash, which is known only at the end of the content, and so the content
// is kept until then, in memory or in a temporary file.
func (b *Blobs) Put(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
	if r == nil {
		return "", 0, &blob.Error{Err: fs.ErrInvalid, Detail: "a blob is put with a reader"}
	}
	sum := sha256.New()
	spool, err := spoolBytes(io.TeeReader(contextReader{ctx, r}, sum))
	if err != nil {
		return "", 0, &blob.Error{Err: err}
	}
	defer spool.remove()
	u := &upload{of: b, spool: spool, name: hex.EncodeToString(sum.Sum(nil)), digest: jetstream.GetObjectDigestValue(sum)}
	hash = hashScheme + u.name
	if err := u.putContent(ctx); err != nil {
		return "", 0, blobError(hash, err)
	}
	return hash, spool.size, nil
}

// A contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader. It asks before each part; a Read of the reader below that blocks is not
// interrupted.
func (r contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// A spool holds bytes whose hash must be known before they are sent.
type spool struct {
	io.ReadSeeker
	size int64
	file *os.File // nil if they are in memory
}

// spoolBytes reads all of a reader: up to inMemory bytes into memory, more into a temporary file,
// which remove deletes. After an error there is no file left.
//
// Only io.EOF itself is the end: a connection that broke may have an error that wraps it.
func spoolBytes(r io.Reader) (*spool, error) {
	var head strings.Builder
	n, err := io.CopyN(&head, r, inMemory)
	if err == io.EOF { //nolint:errorlint // see above
		return &spool{ReadSeeker: strings.NewReader(head.String()), size: n}, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "pawl-blob-*")
	if err != nil {
		return nil, err
	}
	s := &spool{ReadSeeker: f, file: f}
	if s.size, err = io.Copy(f, io.MultiReader(strings.NewReader(head.String()), r)); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// remove deletes the temporary file, if there is one.
func (s *spool) remove() {
	if s.file != nil {
		_ = s.file.Close() // it was written for this
		_ = os.Remove(s.file.Name())
	}
}

// An upload is one Put of a content whose hash is known.
//
// Its chunks are under an id of their own. They become those of the blob by the description that names them,
// which is published behind the one that was looked at: the server refuses it if there is another one by then. Chunks that
// did not become those of the blob are deleted, unless a description of them may still come.
type upload struct {
	of     *Blobs
	spool  *spool
	name   string
	digest string

	looked   bool
	before   uint64    // the description that was there when it began
	id       string    // of its chunks, once all of them are there; "" before
	chunks   uint32    // how many they are
	begun    time.Time // when the first was sent
	replaces string    // the id that the description would replace; "" for none
	unsure   bool      // a description was sent, and not answered
	done     bool      // the blob has the chunks
}

// Conditions of an upload.
var (
	errOvertaken = errors.New("others put or delete the blob all the time")
	errDisorder  = errors.New("the servers have put its chunks into another order")
	errUnknown   = fmt.Errorf("no answer within %v: it may be there or not", jet.Timeout)
	errLongPut   = fmt.Errorf("the blob was not put within %v", maxPutTime)
)

// putContent puts the content, and tries some times where the servers do not answer, as while they choose a leader.
func (u *upload) putContent(ctx context.Context) error {
	defer u.deleteUnused(ctx)
	var short time.Duration
	for failures, changes := 0, 0; ; {
		err := u.tryPut(ctx)
		pause := pauseOfLooks
		switch {
		case err == nil:
			return nil
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case isFinal(err):
			return err
		case errors.Is(err, errOvertaken):
			changes++
			short = changeBackoff.Next(short)
			pause = short
		default:
			failures++
		}
		if failures == maxPutFailures || changes == maxPutChanges {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isFinal reports whether a failure would come again at once.
func isFinal(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, errLongPut) || isNoSpace(err)
}

// isNoSpace reports whether something may take no more bytes.
func isNoSpace(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && slices.Contains(codesOfNoSpace[:], refused.ErrorCode)
}

// deleteUnused deletes the chunks of an upload that are not those of the blob, and never will be. The others are
// deleteLost's.
func (u *upload) deleteUnused(ctx context.Context) {
	if u.id != "" && !u.done && !u.unsure {
		u.of.deleteChunks(ctx, u.id)
	}
}

// deleteChunks deletes the chunks of an id, also where ctx has ended. If it fails deleteLost does it.
func (b *Blobs) deleteChunks(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jet.Timeout)
	defer cancel()
	_ = b.stream.Purge(ctx, jetstream.WithPurgeSubject(b.chunksOf(&jetstream.ObjectInfo{NUID: id})))
}

// tryPut looks at the blob, and makes it that of the content unless it is: errOvertaken says that somebody else has changed it meanwhile.
//
// A whole blob is described anew, in the same words, which gives it another time. If somebody else has put it since this Put began, its time is
// late enough. A blob that cannot be read is not whole.
func (u *upload) tryPut(ctx context.Context) error {
	d, err := u.of.describeObject(ctx, u.name)
	if err != nil && !errors.Is(err, jetstream.ErrBadObjectMeta) {
		return err
	}
	if !u.looked {
		u.looked, u.before = true, d.seq
	}
	if u.id != "" && d.info.NUID == u.id { // the answer was lost
		return u.finishPut(ctx)
	}
	if u.isWhole(ctx, &d) {
		if d.seq > u.before {
			return nil
		}
		return u.publishDescription(ctx, d.data, d.seq)
	}
	if u.id == "" {
		if err := u.sendChunks(ctx); err != nil {
			return err
		}
	}
	if time.Since(u.begun) > maxPutTime {
		return errLongPut
	}
	text, err := json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: u.name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: u.chunkSize()}},
		Bucket:     u.of.bucket, NUID: u.id, Size: uint64(u.spool.size), Chunks: u.chunks, Digest: u.digest, //nolint:gosec // what was read
	})
	if err != nil {
		return err
	}
	u.replaces = d.info.NUID
	if err := u.publishDescription(ctx, text, d.seq); err != nil {
		u.unsure = u.unsure || !errors.Is(err, errOvertaken) && !isNoSpace(err)
		return err
	}
	return u.finishPut(ctx)
}

// finishPut deletes the chunks that the blob had before.
func (u *upload) finishPut(ctx context.Context) error {
	u.done = true
	if u.replaces != "" {
		u.of.deleteChunks(ctx, u.replaces)
	}
	return nil
}

// isWhole reports whether an object has the content, every byte of it.
func (u *upload) isWhole(ctx context.Context, d *description) bool {
	if !d.isThere() || d.info.Size != uint64(u.spool.size) { //nolint:gosec // what was read
		return false
	}
	if there, err := u.of.countChunks(ctx, &d.info); err != nil || there != uint64(d.info.Chunks) {
		return false
	}
	r, err := u.of.openObject(ctx, hashScheme+u.name, &d.info)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }()         // it was only read
	defer context.AfterFunc(ctx, r.cancel)() // a chunk that is waited for as well
	_, err = io.Copy(io.Discard, r)
	return err == nil
}

// publishDescription publishes a description behind the last one: errOvertaken says that this is not the last one any more.
func (u *upload) publishDescription(ctx context.Context, text []byte, behind uint64) error {
	m := nats.NewMsg(u.of.aboutOf(u.name))
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Data = text
	_, err := u.of.publishBehind(ctx, m, behind)
	return err
}

// publishBehind publishes a message behind the last one of its subject: errOvertaken says that this is not the last one any more.
//
// It does not send while the connection is down: the client would keep the message, and send it when nobody waits for
// it any more.
func (b *Blobs) publishBehind(ctx context.Context, m *nats.Msg, behind uint64) (*jetstream.PubAck, error) {
	if err := b.checkConnection(); err != nil {
		return nil, err
	}
	waits, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	ack, err := b.js.PublishMsg(waits, m, jetstream.WithExpectStream(b.streamName()),
		jetstream.WithExpectLastSequencePerSubject(behind), jetstream.WithRetryAttempts(0))
	switch {
	case jet.IsChanged(err):
		return nil, errOvertaken
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case err != nil && waits.Err() != nil:
		return nil, errUnknown
	}
	return ack, err
}

// checkConnection fails while nothing that is sent would arrive.
func (b *Blobs) checkConnection() error {
	switch conn := b.js.Conn(); {
	case conn.IsClosed():
		return nats.ErrConnectionClosed
	case !conn.IsConnected():
		return nats.ErrDisconnected
	}
	return nil
}

// chunkSize returns how many bytes a chunk has, but for the last one.
func (u *upload) chunkSize() uint32 {
	most := max(u.of.js.Conn().MaxPayload()-jet.RoomOfHeaders, jet.RoomOfHeaders)
	return uint32(min(most, chunkSize)) //nolint:gosec // a small number
}

// sendChunks sends the content under a new id, and returns when the servers have all of it, in its order. After an error
// nothing of it stays, if the servers answer.
//
// A chunk that is refused or not answered may be behind the next one when it is sent again, or there twice: all of them are sent again, under
// another id. Each has its own bytes, which nobody changes while they are on the way.
func (u *upload) sendChunks(ctx context.Context) error {
	if _, err := u.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	id, size, begun := rand.Text(), int64(u.chunkSize()), time.Now()
	s := &sending{}
	for left := u.spool.size; left > 0 && s.err == nil; left -= min(size, left) {
		m := nats.NewMsg(u.of.chunksOf(&jetstream.ObjectInfo{NUID: id}))
		m.Header.Set(headerBlob, u.name)
		m.Data = make([]byte, min(size, left))
		if _, s.err = io.ReadFull(u.spool, m.Data); s.err == nil {
			s.err = u.of.checkConnection()
		}
		if s.err != nil {
			break
		}
		future, err := u.of.js.PublishMsgAsync(m, jetstream.WithExpectStream(u.of.streamName()), jetstream.WithRetryAttempts(0))
		if err != nil {
			s.err = err
			break
		}
		s.awaitChunks(ctx, chunksAhead-1)
		s.underWay = append(s.underWay, future)
	}
	if s.err == nil {
		s.awaitChunks(ctx, 0)
	}
	if s.err != nil {
		s.settleChunks(ctx)
		u.of.deleteChunks(ctx, id)
		return s.err
	}
	u.id, u.chunks, u.begun, u.unsure = id, s.there, begun, false
	return nil
}

// A sending has the chunks that are on their way.
type sending struct {
	underWay []jetstream.PubAckFuture // in the order of the chunks
	there    uint32                   // how many the servers have
	last     uint64                   // of these
	err      error                    // the first
}

// awaitChunks waits until at most so many chunks are under way, or one has failed.
func (s *sending) awaitChunks(ctx context.Context, most int) {
	for s.err == nil && len(s.underWay) > most {
		select {
		case ack := <-s.underWay[0].Ok():
			if ack.Sequence <= s.last {
				s.err = errDisorder
			}
			s.last = ack.Sequence
			s.there++
		case s.err = <-s.underWay[0].Err():
		case <-ctx.Done():
			s.err = context.Cause(ctx)
			return
		}
		s.underWay = s.underWay[1:]
	}
}

// settleChunks waits for what is still under way, so that it can be deleted.
func (s *sending) settleChunks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jet.Timeout)
	defer cancel()
	for _, f := range s.underWay {
		select {
		case <-f.Ok():
		case <-f.Err(): //nolint:errcheck // another one was first
		case <-ctx.Done():
			return
		}
	}
}

// Bounds of what All deletes.
const (
	lostAfter = 2 * maxPutTime // an upload whose chunks are older is over
	maxLost   = 100            // how many ids it looks at in one All, besides those of the blobs
)

// deleteLost deletes the chunks of uploads that did not come to their end. It leaves alone what comes from other programs. If it fails,
// the next All tries again.
//
// A list may be of a server that is behind the others: the leader is asked about each that is not in it. Which ones it looks at, if there are many, is by chance.
func (b *Blobs) deleteLost(ctx context.Context, objects []*jetstream.ObjectInfo) {
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter("$O."+b.bucket+".C.>"))
	if err != nil {
		return
	}
	for _, o := range objects {
		delete(info.State.Subjects, b.chunksOf(o))
	}
	looks := 0
	for subject := range info.State.Subjects {
		if looks++; looks > maxLost || ctx.Err() != nil {
			return
		}
		last, err := b.stream.GetLastMsgForSubject(ctx, subject)
		if err != nil || last.Header.Get(headerBlob) == "" || info.TimeStamp.Sub(last.Time) < b.hook.EraseAfter(lostAfter) {
			continue
		}
		if d, err := b.describeObject(ctx, last.Header.Get(headerBlob)); err == nil && (!d.isThere() || b.chunksOf(&d.info) != subject) {
			_ = b.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
	}
}
