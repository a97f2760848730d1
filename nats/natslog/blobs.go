package natslog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/nats/internal/jet"
)

// BlobsOptions configure Blobs. The zero value of every field works.
type BlobsOptions struct {
	// Bucket is the name of the object store. Letters, digits, _ and -, at most 32;
	// "pawl" by default. The bases of each log need a bucket of their own.
	Bucket string
	// Replicas is on how many servers the blobs are, on their disks: 1 by default. It counts
	// when the bucket is made.
	Replicas int
	// MaxBytes bounds the bucket; 0 is no bound of its own. Nothing can be put into a full
	// one. It counts when the bucket is made.
	MaxBytes int64
}

// Blobs is a [blob.Store] in an object store of NATS: for the bases of [pawl.Engine.Follow], beside a
// Log, or for whatever else takes such a store. A blob is an object whose name is the
// hash of its content. Any number of goroutines and processes may use one bucket.
//
// A read of a damaged blob while the same bytes are put again may fail, and is to be repeated.
//
// It writes what the client library of NATS writes, in its layout: a bucket is the stream
// OBJ_<bucket>, an object's content is in messages under $O.<bucket>.C.<id>, each under a new id,
// and its description in one under $O.<bucket>.M.<name in base64>. All of it is done on the stream
// itself, where the library would wait without an end, lose a race, or describe what the servers have
// not taken.
type Blobs struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	bucket string
	hook   *testhook.Hook
}

var _ blob.Store = (*Blobs)(nil)

const (
	defaultBucket = "pawl"
	hashScheme    = "sha256:"
	// inMemory is how large a blob may be that is put without a temporary file.
	inMemory = 1 << 20
	// chunkSize is how large a chunk is: that of the client library.
	chunkSize = 128 << 10
	// chunksAhead is how many chunks of a blob are asked for, or sent, at a time.
	chunksAhead = 16
	// chunksAlone is how many chunks a blob has at most whose chunks are asked for one by one.
	chunksAlone = 4
)

// OpenBlobs opens a bucket over a connection, which stays the caller's. It makes the bucket if it is
// missing. Errors: pawl.ErrInvalid for options that cannot be, or a bucket that would lose or hide blobs; or what JetStream says.
//
// A bucket that deletes by age is refused, since a blob must stay until Delete: an engine that follows
// may need a base months later. So is one that allows direct access, as the buckets of other clients of NATS do: a server that is
// behind the others would say that a blob is missing. The command nats stream edit OBJ_<bucket> --no-allow-direct changes that.
func OpenBlobs(ctx context.Context, conn *nats.Conn, o BlobsOptions) (*Blobs, error) {
	o.Bucket, o.Replicas = cmp.Or(o.Bucket, defaultBucket), cmp.Or(o.Replicas, 1)
	var wrong string
	switch {
	case conn == nil:
		wrong = "OpenBlobs without a connection"
	case !jet.IsName(o.Bucket):
		wrong = fmt.Sprintf("BlobsOptions.Bucket is %q: use 1 to 32 letters, digits, _ and -", o.Bucket)
	case o.Replicas < 1 || o.Replicas > 5:
		wrong = fmt.Sprintf("BlobsOptions.Replicas is %d: JetStream takes 1 to 5", o.Replicas)
	case o.MaxBytes < 0:
		wrong = fmt.Sprintf("BlobsOptions.MaxBytes is %d: it must not be negative", o.MaxBytes)
	}
	if wrong != "" {
		return nil, fmt.Errorf("%w: natslog.%s", pawl.ErrInvalid, wrong)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(2*jet.Timeout))
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", o.Bucket, err)
	}
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	b := &Blobs{js: js, bucket: o.Bucket, hook: testhook.From(ctx)}
	b.stream, err = js.Stream(ctx, b.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		b.stream, err = b.makeBucket(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", o.Bucket, err)
	}
	if wrong := findRisk(b.stream.CachedInfo().Config); wrong != "" {
		return nil, fmt.Errorf("%w: the bucket %s, the stream %s, cannot keep blobs: %s", pawl.ErrInvalid, o.Bucket, b.streamName(), wrong)
	}
	return b, nil
}

// streamName returns the name of the bucket's stream, which the library gives it.
func (b *Blobs) streamName() string { return "OBJ_" + b.bucket }

// makeBucket makes the object store, as jetstream does, but for its stream, which answers from its leader only: what was put is there
// for everybody. It is made so at once: whoever opened it before a change would ask the others for ever.
func (b *Blobs) makeBucket(ctx context.Context, o BlobsOptions) (jetstream.Stream, error) {
	c := jetstream.StreamConfig{
		Name: b.streamName(), Subjects: []string{"$O." + o.Bucket + ".C.>", "$O." + o.Bucket + ".M.>"},
		Storage: jetstream.FileStorage, Replicas: o.Replicas, MaxBytes: -1, Discard: jetstream.DiscardNew, AllowRollup: true,
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	s, err := b.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was faster
		return b.js.Stream(ctx, b.streamName())
	}
	return s, err
}

// nameOf returns the name of the object with a hash.
//
// Only one spelling of a hash is taken: two spellings would be two objects.
func nameOf(hash string) (string, error) {
	digits, ok := strings.CutPrefix(hash, hashScheme)
	if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(digits) != digits {
		return "", &blob.Error{Hash: hash, Err: fs.ErrInvalid, Detail: "not sha256: and 64 lower-case hexadecimal digits"}
	}
	return digits, nil
}

// blobError returns an error of the object store as one of package blob.
//
// A caller asks for ErrMissing and ErrDamaged of package blob, and need not know NATS. Anything else,
// such as no answer, stays as it is below the *blob.Error.
func blobError(hash string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrBadObjectMeta):
		err = fmt.Errorf("%w: %w", blob.ErrDamaged, err)
	}
	return &blob.Error{Hash: hash, Err: err}
}

// A description is the last message about an object. The zero value is that of one without any.
type description struct {
	info jetstream.ObjectInfo
	data []byte // of the message
	seq  uint64 // of the message
}

// isThere reports whether the object is there: it was described, and not deleted since.
func (d *description) isThere() bool { return d.info.NUID != "" && !d.info.Deleted }

// describeObject returns the description of an object, or the zero value. If nobody can read it the error is
// jetstream.ErrBadObjectMeta, and seq is right.
//
// The id becomes part of a subject, so it must be one word: a wildcard would be the chunks of others.
func (b *Blobs) describeObject(ctx context.Context, name string) (d description, err error) {
	m, err := b.stream.GetLastMsgForSubject(ctx, b.aboutOf(name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.data, d.seq = m.Data, m.Sequence
	if err := json.Unmarshal(m.Data, &d.info); err != nil || d.info.NUID == "" || strings.ContainsAny(d.info.NUID, ".*> \t\r\n") {
		return description{seq: m.Sequence}, jetstream.ErrBadObjectMeta
	}
	d.info.ModTime = m.Time
	return d, nil
}

// describeBlob returns the description of a blob, or blob.ErrMissing.
func (b *Blobs) describeBlob(ctx context.Context, name string) (description, error) {
	d, err := b.describeObject(ctx, name)
	if err == nil && !d.isThere() {
		err = blob.ErrMissing
	}
	return d, err
}

// aboutOf returns the subject of an object's description.
func (b *Blobs) aboutOf(name string) string {
	return "$O." + b.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// objectOf is the inverse of aboutOf, and "" for a subject that nothing has made so.
func (b *Blobs) objectOf(subject string) string {
	name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, b.aboutOf("")))
	if err != nil {
		return ""
	}
	return string(name)
}

// chunksOf returns the subject of an object's chunks.
func (b *Blobs) chunksOf(o *jetstream.ObjectInfo) string { return "$O." + b.bucket + ".C." + o.NUID }

// countChunks returns how many chunks of an object are there, as the leader of the stream says.
func (b *Blobs) countChunks(ctx context.Context, o *jetstream.ObjectInfo) (uint64, error) {
	if o.Chunks == 0 {
		return 0, nil
	}
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.chunksOf(o)))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[b.chunksOf(o)], nil
}

// errChunks says that an object has another number of chunks than its description says.
func errChunks(there uint64, o *jetstream.ObjectInfo) error {
	return fmt.Errorf("%w: it has %d of its %d chunks", blob.ErrDamaged, there, o.Chunks)
}

// Stat implements [blob.Store]. A blob that lacks some of its chunks is blob.ErrDamaged: to put it again mends it.
//
// It costs two requests. The chunks of a blob that is deleted or put anew meanwhile go as well, so it looks again,
// until it finds the same description twice.
func (b *Blobs) Stat(ctx context.Context, hash string) (blob.Info, error) {
	name, err := nameOf(hash)
	if err != nil {
		return blob.Info{}, err
	}
	for before := uint64(0); ; {
		d, err := b.describeBlob(ctx, name)
		if err != nil {
			return blob.Info{}, blobError(hash, err)
		}
		switch there, err := b.countChunks(ctx, &d.info); {
		case err != nil:
			return blob.Info{}, blobError(hash, err)
		case there == uint64(d.info.Chunks):
			return infoOf(hash, &d.info), nil
		case d.seq == before:
			return blob.Info{}, blobError(hash, errChunks(there, &d.info))
		}
		before = d.seq
	}
}

// infoOf returns what the description of an object says, in the terms of package blob.
func infoOf(hash string, o *jetstream.ObjectInfo) blob.Info {
	return blob.Info{Hash: hash, Size: int64(o.Size), Time: o.ModTime} //nolint:gosec // what was put
}

// Delete implements [blob.Store]. The mark that an object is deleted names the message behind which it
// comes, which the server checks: a Put in between wins.
//
// The steps are in this order: the mark, under the condition that nothing was put since; then the
// chunks; then the mark itself. After the mark no reader finds the object, so its chunks can go. A
// process that dies in between leaves a mark, and perhaps chunks, which All deletes; never a
// description without its chunks. A last message at or after "before" means that somebody has put the
// blob again and counts on it: it stays.
func (b *Blobs) Delete(ctx context.Context, hash string, before time.Time) (bool, error) {
	name, err := nameOf(hash)
	if err != nil {
		return false, err
	}
	d, err := b.describeObject(ctx, name)
	if err != nil {
		return false, blobError(hash, err)
	}
	b.hook.Hit("bucket.described")
	info := d.info
	if !d.isThere() || !info.ModTime.Before(before) {
		return false, nil
	}
	info.Deleted, info.Size, info.Chunks, info.Digest, info.ModTime = true, 0, 0, "", time.Time{}
	m := nats.NewMsg(b.aboutOf(name))
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	if m.Data, err = json.Marshal(info); err != nil {
		return false, blobError(hash, err)
	}
	ack, err := b.publishBehind(ctx, m, d.seq)
	if errors.Is(err, errOvertaken) {
		return false, nil
	}
	if err == nil {
		err = b.stream.Purge(ctx, jetstream.WithPurgeSubject(b.chunksOf(&info)))
	}
	if err == nil { // the mark, unless something was put behind it
		err = b.stream.Purge(ctx, jetstream.WithPurgeSubject(m.Subject), jetstream.WithPurgeSequence(ack.Sequence+1))
	}
	return err == nil, blobError(hash, err)
}

// Open implements [blob.Store].
//
// The first chunk of a small blob is fetched at once, so that a damaged one fails here if it can.
// Reading is bound to the reader's own context, which Close cancels: the ctx of Open may end before.
func (b *Blobs) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	name, err := nameOf(hash)
	if err != nil {
		return nil, err
	}
	d, err := b.describeBlob(ctx, name)
	if err != nil {
		return nil, blobError(hash, err)
	}
	r, err := b.openObject(ctx, hash, &d.info)
	if err != nil {
		return nil, blobError(hash, err)
	}
	return r, nil
}

// openObject returns the reader of an object that should have the content of a hash.
func (b *Blobs) openObject(ctx context.Context, hash string, info *jetstream.ObjectInfo) (*blobReader, error) {
	r := &blobReader{of: b, hash: hash, subject: b.chunksOf(info), missing: uint64(info.Chunks), sum: sha256.New()}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err := error(nil)
	switch {
	case r.missing == 0:
	case r.missing <= chunksAlone:
		err = r.getChunk()
	default:
		err = r.beginChunks(info)
	}
	if err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// A blobReader reads a blob and checks it at the end.
// Either consumer and chunks are set, or chunks are fetched one by one from next on. missing falls
// with every chunk that was taken, and at 0, when left is used up, sum has seen everything.
type blobReader struct {
	of       *Blobs
	hash     string
	subject  string // of its chunks
	ctx      context.Context
	cancel   context.CancelFunc
	consumer jetstream.Consumer        // nil if the chunks are got one by one
	chunks   jetstream.MessagesContext // of the consumer
	next     uint64                    // number behind that of the last chunk that was got
	missing  uint64                    // chunks that are to come
	left     []byte                    // of the last one
	sum      hash.Hash
}

// beginChunks has all chunks sent, some ahead.
//
// The consumer says how many messages it will send: if these are not as many as the object has chunks, and the leader of the stream says
// the same, the blob is damaged, which is told before anything is read. The consumer may be on a server that is behind. Where it fails, the
// consumer is deleted.
func (r *blobReader) beginChunks(info *jetstream.ObjectInfo) (err error) {
	r.consumer, err = r.of.js.OrderedConsumer(r.ctx, r.of.streamName(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{r.subject}})
	if err != nil {
		return err
	}
	there := r.consumer.CachedInfo().NumPending
	if there != r.missing {
		there, err = r.of.countChunks(r.ctx, info)
	}
	switch {
	case err != nil:
	case there == r.missing:
		if r.chunks, err = r.consumer.Messages(append([]jetstream.PullMessagesOpt{jetstream.PullMaxMessages(chunksAhead)}, signsOfConsumer...)...); err == nil {
			return nil
		}
	default:
		err = errChunks(there, info)
	}
	deleteConsumer(r.of.js, r.of.streamName(), r.consumer)
	return err
}

// getChunk gets the next chunk by itself: a consumer for it would cost more.
//
// The server finds the next message of the subject from next on, so other messages in between do not
// matter.
func (r *blobReader) getChunk() error {
	m, err := r.of.stream.GetMsg(r.ctx, r.next, jetstream.WithGetMsgSubject(r.subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("%w: %d of its chunks are missing", blob.ErrDamaged, r.missing)
	}
	if err == nil {
		r.next = m.Sequence + 1
		r.takeChunk(m.Data)
	}
	return err
}

// takeChunk makes a chunk the one that is read from, and counts it in.
func (r *blobReader) takeChunk(chunk []byte) {
	r.left = chunk
	r.sum.Write(chunk)
	r.missing--
}

// Read returns the next bytes; at the end io.EOF, or that the blob is damaged.
//
// The hash is compared once all chunks were read, and so the bytes before have been given out already:
// only io.EOF says that they were right.
func (r *blobReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 && len(p) > 0 {
		if r.missing == 0 {
			if hashScheme+hex.EncodeToString(r.sum.Sum(nil)) != r.hash {
				return 0, &blob.Error{Hash: r.hash, Err: blob.ErrDamaged}
			}
			return 0, io.EOF
		}
		err := error(nil)
		if r.chunks == nil {
			err = r.getChunk()
		} else if m, failed := nextMessage(r.ctx, r.chunks, readTimeout); failed != nil {
			err = failed
		} else {
			r.takeChunk(m.Data())
		}
		if err != nil {
			return 0, &blob.Error{Hash: r.hash, Err: err, Detail: "read its next chunk"}
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Close ends the reading.
func (r *blobReader) Close() error {
	if r.chunks != nil {
		r.chunks.Stop()
		deleteConsumer(r.of.js, r.of.streamName(), r.consumer)
		r.chunks = nil
	}
	r.cancel()
	return nil
}

// All implements [blob.Store]. It also deletes chunks that no blob has, a day after they were sent: those of Puts and Deletes
// that did not come to their end. Damaged blobs are in it, so that they can be deleted. One whose description cannot be read is yielded with an error.
//
// The list is read as a whole first, and sorted: the order of the stream is that of the last Puts.
func (b *Blobs) All(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		objects, damaged, err := b.listObjects(ctx)
		if err != nil {
			yield(blob.Info{}, blobError("", err))
			return
		}
		b.deleteLost(ctx, objects)
		slices.SortFunc(objects, func(x, y *jetstream.ObjectInfo) int { return cmp.Compare(x.Name, y.Name) })
		for _, o := range objects {
			hash := hashScheme + o.Name
			if _, err := nameOf(hash); err != nil {
				continue // somebody else's
			}
			if err := context.Cause(ctx); err != nil {
				yield(blob.Info{}, &blob.Error{Err: err})
				return
			}
			if !yield(infoOf(hash, o), blobError(hash, damaged[o.Name])) {
				return
			}
		}
	}
}

// listObjects returns what the bucket has, and by their names what is wrong with those whose description cannot be read: they have nothing but a name and a
// time. The object store lists as well, but waits without an end for what is lost under way.
//
// It reads the last message of each object's subject until the server says that none is pending. A bucket without pending messages at the
// beginning is empty.
func (b *Blobs) listObjects(ctx context.Context) (objects []*jetstream.ObjectInfo, damaged map[string]error, err error) {
	damaged = map[string]error{}
	consumer, err := b.js.OrderedConsumer(ctx, b.streamName(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"$O." + b.bucket + ".M.>"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return nil, nil, err
	}
	defer deleteConsumer(b.js, b.streamName(), consumer)
	if consumer.CachedInfo().NumPending == 0 {
		return nil, nil, nil
	}
	messages, err := consumer.Messages(signsOfConsumer...)
	if err != nil {
		return nil, nil, err
	}
	defer messages.Stop()
	var last jetstream.MsgMetadata
	for {
		m, err := nextPending(ctx, consumer, messages, &last)
		if err != nil || m == nil {
			return objects, damaged, err
		}
		info := &jetstream.ObjectInfo{}
		if err := json.Unmarshal(m.Data(), info); err != nil {
			name := b.objectOf(m.Subject())
			info = &jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name}}
			damaged[name] = fmt.Errorf("%w: %w", jetstream.ErrBadObjectMeta, err)
		}
		if info.ModTime = last.Timestamp; !info.Deleted {
			objects = append(objects, info)
		}
		if last.NumPending == 0 {
			return objects, damaged, nil
		}
	}
}

// nextPending returns the next message of a consumer and keeps in last what it says of itself; nil if none is left. Messages that the
// consumer was made for may be deleted before it sends them: nobody tells the reader, so the server is asked where none comes.
func nextPending(ctx context.Context, consumer jetstream.Consumer, messages jetstream.MessagesContext, last *jetstream.MsgMetadata) (jetstream.Msg, error) {
	// After the first look it waits for longer than it takes to make a consumer anew that gives no sign.
	for late, most := time.Now().Add(readTimeout), signOfConsumer/10; ; most = 3 * signOfConsumer {
		m, err := nextMessage(ctx, messages, most)
		if err == nil {
			at, err := m.Metadata()
			if err == nil {
				*last = *at
			}
			return m, err
		}
		if !errors.Is(err, context.DeadlineExceeded) || context.Cause(ctx) != nil || time.Now().After(late) {
			return nil, err
		}
		info, failed := consumer.Info(ctx)
		if failed != nil {
			continue // the consumer may be gone with its server
		}
		came := uint64(0) // of the messages that this consumer has sent
		if info.Name == last.Consumer {
			came = last.Sequence.Consumer
		}
		if info.NumPending == 0 && info.Delivered.Consumer == came {
			return nil, nil
		}
	}
}
