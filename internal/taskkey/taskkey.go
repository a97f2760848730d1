// Package taskkey writes and reads the keys under which hosts and workers know the
// attempts of tasks.
package taskkey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// ErrMalformed says that a text is no key.
var ErrMalformed = errors.New("not a task key")

// ErrForged says that a key was not made with the secret.
var ErrForged = errors.New("a task key that this directory did not make")

// An Attempt is what a key names: one attempt of one task, dispatched in one life of
// the engine.
type Attempt struct {
	Run    workflow.RunID
	Token  workflow.TokenID
	Number int // from 1
	Epoch  state.Epoch
}

// macBytes is how much of a MAC is in a key: 128 bits.
const macBytes = 16

// A Signer makes the keys of a directory, and knows them again. Any number of goroutines may use it.
type Signer struct{ keyed sync.Pool } // of *keyed

// A keyed has what a MAC takes, and used again takes nothing more.
type keyed struct {
	hash hash.Hash // HMAC-SHA-256 that has taken the secret and nothing else
	key  []byte    // in the making
	sum  [sha256.Size]byte
}

// NewSigner returns the signer of a directory's secret, which it takes in once.
func NewSigner(secret []byte) *Signer {
	secret = bytes.Clone(secret)
	return &Signer{sync.Pool{New: func() any { return &keyed{hash: hmac.New(sha256.New, secret)} }}}
}

// Key returns the text RUN#TOKEN.ATTEMPT.EPOCH.MAC. The MAC, HMAC-SHA-256 of what is
// before it, keeps whoever has one key from making another.
func (s *Signer) Key(a Attempt) string {
	k := s.keyed.Get().(*keyed)
	defer s.keyed.Put(k)
	k.key = a.appendName(k.key[:0])
	mac := k.macOf(k.key)
	k.key = base64.RawURLEncoding.AppendEncode(append(k.key, '.'), mac)
	return string(k.key)
}

// Name returns the text RUN#TOKEN.ATTEMPT.EPOCH: a key without its MAC.
func (a Attempt) Name() string { return string(a.appendName(nil)) }

// appendName appends what Name returns; the epoch is as its String writes it.
func (a Attempt) appendName(to []byte) []byte {
	to = append(append(to, a.Run...), '#')
	to = append(strconv.AppendInt(to, int64(a.Token), 10), '.')
	to = append(strconv.AppendInt(to, int64(a.Number), 10), '.')
	return value.AppendHex(to, uint64(a.Epoch))
}

// macOf returns the MAC of a name, which is good until the next one.
func (k *keyed) macOf(named []byte) []byte {
	_, _ = k.hash.Write(named) // it never fails
	k.hash.Sum(k.sum[:0])
	k.hash.Reset()
	return k.sum[:macBytes]
}

// AttemptOf returns what a key names, and whether it is one. It does not look at who made it: Parse does.
func AttemptOf(key string) (Attempt, bool) {
	named, _, ok := cutLast(key, '.')
	a, good := parseName(named)
	return a, ok && good
}

// Parse returns what a key names, or ErrMalformed or ErrForged. A key has one spelling:
// who compares keys as texts, as a pool of workers does, tells attempts apart by them.
func (s *Signer) Parse(key string) (Attempt, error) {
	named, mac, ok := cutLast(key, '.')
	a, good := parseName(named)
	if !ok || !good || len(mac) != base64.RawURLEncoding.EncodedLen(macBytes) {
		return Attempt{}, ErrMalformed
	}
	k := s.keyed.Get().(*keyed)
	defer s.keyed.Put(k)
	if want := k.macOf([]byte(named)); !hmac.Equal([]byte(mac), base64.RawURLEncoding.AppendEncode(nil, want)) {
		return Attempt{}, ErrForged
	}
	return a, nil
}

func parseName(named string) (a Attempt, ok bool) {
	run, rest, ok := cutLast(named, '#')
	parts := strings.Split(rest, ".")
	if !ok || run == "" || len(parts) != 3 {
		return a, false
	}
	token, err1 := strconv.ParseInt(parts[0], 10, 64)
	number, err2 := strconv.Atoi(parts[1])
	epoch, err3 := strconv.ParseUint(parts[2], 16, 64)
	a = Attempt{workflow.RunID(run), workflow.TokenID(token), number, state.Epoch(epoch)}
	return a, err1 == nil && err2 == nil && err3 == nil && a.Name() == named
}

func cutLast(text string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(text, sep)
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+1:], true
}
