package worker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
)

// keyTags put tags on the keys that remote workers get: KEY.TAG, where the tag is a MAC of
// the worker's id and the key. So a key proves that the pool gave it to the worker who
// shows it, also after a restart, when the pool does not know yet who holds what. In
// other hands it is worth nothing, and neither is one that never was in the pool. The
// bytes are the secret of the MAC.
type keyTags []byte

// tagPurpose is what the secret is for.
const tagPurpose = "worker: tags of keys"

// tagBytes is how much of a MAC is in a tag: 128 bits.
const tagBytes = 16

// tagKey returns a key as the worker gets it.
func (s keyTags) tagKey(worker string, k pawl.Key) pawl.Key {
	return k + "." + pawl.Key(s.tagOf(worker, k))
}

// untagKey returns the engine's key, or ErrNotHolder if the pool has not given the key to
// this worker.
//
// The comparison takes the same time for every wrong tag.
func (s keyTags) untagKey(worker string, tagged pawl.Key) (pawl.Key, error) {
	at := strings.LastIndexByte(string(tagged), '.')
	if at < 0 || !hmac.Equal([]byte(tagged[at+1:]), []byte(s.tagOf(worker, tagged[:at]))) {
		return "", ErrNotHolder
	}
	return tagged[:at], nil
}

// tagOf returns the tag of a key for a worker, whose id has no control characters.
// The zero byte parts the two, since no id has one: otherwise the id "a" with the key "bc" had the tag
// of "ab" with "c".
func (s keyTags) tagOf(worker string, k pawl.Key) string {
	h := hmac.New(sha256.New, s)
	h.Write([]byte(worker + "\x00" + string(k)))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:tagBytes])
}

// untagKeys returns the engine's keys, and those of the list that the pool has not given
// to this worker.
func (s keyTags) untagKeys(worker string, tagged []pawl.Key) (keys, foreign []pawl.Key) {
	for _, k := range tagged {
		if raw, err := s.untagKey(worker, k); err == nil {
			keys = append(keys, raw)
		} else {
			foreign = append(foreign, k)
		}
	}
	return keys, foreign
}

// tagAll adds keys, as the worker gets them, to a list.
func (s keyTags) tagAll(to []pawl.Key, worker string, keys []pawl.Key) []pawl.Key {
	for _, k := range keys {
		to = append(to, s.tagKey(worker, k))
	}
	return to
}

// tagTasks gives the keys of tasks their tags.
func (s keyTags) tagTasks(worker string, tasks []remote.TaskMessage) []remote.TaskMessage {
	for i := range tasks {
		tasks[i].Key = s.tagKey(worker, tasks[i].Key)
	}
	return tasks
}

// awaitTags returns the tags of the pool's engine, once there is one.
func (p *Pool) awaitTags(ctx context.Context) (keyTags, error) {
	if _, err := p.awaitEngine(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tags, nil
}
