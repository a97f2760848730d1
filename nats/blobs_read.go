package pawlnats

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/blob"
)

// Open implements [blob.Store].
//
// The first chunk of a small blob is fetched at once, so that a damaged one fails here if it can.
// Reading is bound to the reader's own context, which Close cancels: the ctx of Open may end before.
func (b *Blobs) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	name, err := nameOf(hash)
	if err != nil {
		return nil, err
	}
	info, err := b.objects.GetInfo(ctx, name)
	if err != nil {
		return nil, blobError(hash, err)
	}
	r := &blobReader{of: b, hash: hash, name: name, subject: b.chunksOf(info), missing: uint64(info.Chunks), sum: sha256.New()}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	switch {
	case r.missing == 0:
	case r.missing <= chunksAlone:
		err = r.getChunk()
	default:
		err = r.beginChunks()
	}
	if err != nil {
		r.cancel()
		return nil, blobError(hash, err)
	}
	return r, nil
}

// chunksOf returns the subject of an object's chunks.
func (b *Blobs) chunksOf(o *jetstream.ObjectInfo) string { return "$O." + b.bucket + ".C." + o.NUID }

// A blobReader reads a blob and checks it at the end.
// Either consumer and chunks are set, or chunks are fetched one by one from next on. missing falls
// with every chunk that was taken, and at 0, when left is used up, sum has seen everything.
type blobReader struct {
	of         *Blobs
	hash, name string
	subject    string // of its chunks
	ctx        context.Context
	cancel     context.CancelFunc
	consumer   jetstream.Consumer        // nil if the chunks are got one by one
	chunks     jetstream.MessagesContext // of the consumer
	next       uint64                    // number behind that of the last chunk that was got
	missing    uint64                    // chunks that are to come
	left       []byte                    // of the last one
	sum        hash.Hash
}

// beginChunks has all chunks sent, some ahead.
//
// The consumer says how many messages it will send: if these are not as many as the object has chunks,
// the blob is damaged, which is told before anything is read. Where it fails, the consumer is deleted.
func (r *blobReader) beginChunks() (err error) {
	r.consumer, err = r.of.js.OrderedConsumer(r.ctx, r.of.streamName(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{r.subject}})
	if err != nil {
		return err
	}
	there := r.consumer.CachedInfo().NumPending
	if there == r.missing {
		if r.chunks, err = r.consumer.Messages(append([]jetstream.PullMessagesOpt{jetstream.PullMaxMessages(chunksAhead)}, signsOfConsumer...)...); err == nil {
			return nil
		}
	} else {
		err = fmt.Errorf("%w: it has %d of its %d chunks", blob.ErrDamaged, there, r.missing)
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
			if hex.EncodeToString(r.sum.Sum(nil)) != r.name {
				return 0, &blob.Error{Hash: r.hash, Err: blob.ErrDamaged}
			}
			return 0, io.EOF
		}
		err := error(nil)
		if r.chunks == nil {
			err = r.getChunk()
		} else if m, failed := nextMessage(r.ctx, r.chunks); failed != nil {
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

// All implements [blob.Store].
//
// The list is read as a whole first, and sorted: the order of the stream is that of the last Puts.
func (b *Blobs) All(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		objects, err := b.list(ctx)
		if err != nil {
			yield(blob.Info{}, blobError("", err))
			return
		}
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
			if !yield(infoOf(hash, o), nil) {
				return
			}
		}
	}
}

// list returns what the bucket has. The object store lists as well, but waits without an end for what is lost under way.
//
// It reads the last message of each object's subject until the server says that none is pending. An
// object without pending messages at the beginning is an empty bucket, where to wait for a message
// would wait in vain.
func (b *Blobs) list(ctx context.Context) (objects []*jetstream.ObjectInfo, err error) {
	consumer, err := b.js.OrderedConsumer(ctx, b.streamName(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"$O." + b.bucket + ".M.>"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return nil, err
	}
	defer deleteConsumer(b.js, b.streamName(), consumer)
	if consumer.CachedInfo().NumPending == 0 {
		return nil, nil
	}
	messages, err := consumer.Messages(signsOfConsumer...)
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for {
		m, err := nextMessage(ctx, messages)
		if err != nil {
			return nil, err
		}
		at, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		info := &jetstream.ObjectInfo{}
		if err := json.Unmarshal(m.Data(), info); err != nil {
			return nil, fmt.Errorf("%w: %w", jetstream.ErrBadObjectMeta, err)
		}
		if info.ModTime = at.Timestamp; !info.Deleted {
			objects = append(objects, info)
		}
		if at.NumPending == 0 {
			return objects, nil
		}
	}
}
