package pawl

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-run/pawl/internal/memo"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/workflow"
)

// maxDigests bounds how many definitions a knownDefinitions remembers, 250 bytes for each: more
// than the store keeps compiled, since a hash that is not known here is compiled whatever the store has.
var maxDigests = memo.Bounds{Entries: 1 << 13}

// A knownDefinitions knows the hashes of definitions that came before. The hash of a
// definition is that of its canonical JSON, which takes long to make; what it looks like in
// memory is told much sooner, and every Start sees whatever a caller has changed.
//
// The zero value is ready. A digest says only that two definitions in memory are the same; the
// hash of the graph is what names a definition. Two digests may have one hash, for example if a
// list is nil in one and empty in the other.
type knownDefinitions struct {
	mu     sync.Mutex
	hashes memo.Table[digest, string] // of the definitions that were compiled, by digest
	turns  map[digest]*turn           // those that are compiled now
}

// A turn is whose it is to compile a definition. Others with an equal one wait.
type turn struct {
	mu   sync.Mutex
	many int // that have it or wait for it
}

// A digest is the SHA-256 of a definition as it stands in memory.
type digest = [sha256.Size]byte

// compileOnce returns the graph of a definition: the known one of an equal definition, otherwise
// what compile makes of it. Of callers that come at once with equal definitions one compiles.
//
// It asks three times: before it waits, after it has waited, when somebody else may have
// compiled it, and, if the definition has something that no digest can be made of, by the real
// hash.
func (k *knownDefinitions) compileOnce(
	d *workflow.Definition, known func(hash string) *workflow.Graph, compile func(*workflow.Definition) (*workflow.Graph, error),
) (*workflow.Graph, error) {
	at, ok := digestOf(d)
	if !ok {
		if hash, err := d.Hash(); err == nil {
			if g := known(hash); g != nil {
				return g, nil
			}
		}
		return compile(d)
	}
	if g := known(k.hashAt(at)); g != nil {
		return g, nil
	}
	defer k.takeTurn(at)()
	if g := known(k.hashAt(at)); g != nil {
		return g, nil
	}
	g, err := compile(d)
	if err == nil {
		k.rememberHash(at, g.Hash)
	}
	return g, err
}

// takeTurn waits until nobody else compiles the definition with a digest. The caller gives
// the turn back.
//
// A turn is for one digest, so that different definitions are compiled side by side. The last
// who has it or waits for it removes it.
func (k *knownDefinitions) takeTurn(at digest) (giveBack func()) {
	k.mu.Lock()
	t := k.turns[at]
	if t == nil {
		t = &turn{}
		if k.turns == nil {
			k.turns = map[digest]*turn{}
		}
		k.turns[at] = t
	}
	t.many++
	k.mu.Unlock()
	t.mu.Lock()
	return func() {
		t.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.many--; t.many == 0 {
			delete(k.turns, at)
		}
	}
}

// hashAt returns the hash of the definition with a digest, "" if none came before.
func (k *knownDefinitions) hashAt(at digest) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	hash, _ := k.hashes.Get(at)
	return hash
}

// rememberHash keeps the hash of a definition that was compiled.
func (k *knownDefinitions) rememberHash(at digest, hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hashes.Put(at, hash, 0, maxDigests)
}

// digestOf returns the digest of a definition. It reports false if something in it is
// not of the JSON model, so that its JSON may depend on what cannot be seen here.
func digestOf(d *workflow.Definition) (digest, bool) {
	buffer := digestBuffers.Get().(*[]byte)
	w := digestWriter{hash: sha256.New(), buffer: (*buffer)[:0]}
	w.addValue(reflect.ValueOf(d).Elem())
	w.flushBuffer()
	*buffer = w.buffer
	digestBuffers.Put(buffer)
	var out digest
	w.hash.Sum(out[:0])
	return out, w.err == nil
}

// digestBuffers has the buffers of digestWriters.
var digestBuffers = sync.Pool{New: func() any {
	buffer := make([]byte, 0, digestPiece+64)
	return &buffer
}}

// digestPiece is how many bytes are hashed at a time.
const digestPiece = 4096

// A digestWriter writes values so that no two different ones look the same: each by its
// size and content, or as a zero byte if it is the zero value of its type.
//
// The size comes first, so that ["ab"] and ["a", "b"] differ; the zero byte keeps the many
// empty fields of a definition from costing more than one byte each.
type digestWriter struct {
	hash   hash.Hash
	buffer []byte
	depth  int
	err    error
	pacer  pace.Pacer
}

var (
	errForeignType = errors.New("a type that is not of the JSON model")
	errDeep        = errors.New("nested too deeply")
)

// maxDigestDepth bounds the nesting, which of a value that holds itself has no end.
const maxDigestDepth = 1000

// flushBuffer hashes what was written so far.
func (w *digestWriter) flushBuffer() {
	pace.Write(w.hash, w.buffer)
	w.buffer = w.buffer[:0]
}

// addValue writes a value whose type the reader knows.
func (w *digestWriter) addValue(v reflect.Value) {
	if w.err != nil {
		return
	}
	// What is small is gathered, since hashing each value by itself would cost more than
	// writing it.
	if len(w.buffer) > digestPiece {
		w.pacer.Spend(digestPiece / 64)
		w.flushBuffer()
	}
	switch v.Kind() {
	case reflect.String:
		w.addText(v.String())
	case reflect.Bool:
		if v.Bool() {
			w.addNumber(1)
		} else {
			w.addNumber(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.addNumber(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.addNumber(v.Uint())
	case reflect.Float32, reflect.Float64:
		w.addNumber(math.Float64bits(v.Float()))
	case reflect.Struct:
		w.addFields(v)
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		w.addReference(v)
	default:
		w.err = errForeignType
	}
}

// addFields writes the fields of a struct in their order, which both of two equal definitions
// have.
func (w *digestWriter) addFields(v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Field(i); f.IsZero() {
			w.buffer = append(w.buffer, 0)
		} else {
			w.buffer = append(w.buffer, 1)
			w.addValue(f)
		}
	}
}

// addReference writes a value that may be nil.
//
// Its depth is bounded, as a value may lead to itself.
func (w *digestWriter) addReference(v reflect.Value) {
	if v.IsNil() {
		w.buffer = append(w.buffer, 0)
		return
	}
	if w.depth++; w.depth > maxDigestDepth {
		w.err = errDeep
		return
	}
	w.buffer = append(w.buffer, 1)
	switch v.Kind() {
	case reflect.Slice:
		w.addNumber(uint64(v.Len()))
		for i := range v.Len() {
			w.addValue(v.Index(i))
		}
	case reflect.Map:
		w.addMap(v)
	case reflect.Pointer:
		w.addValue(v.Elem())
	default: // reflect.Interface
		w.addDynamic(v.Elem())
	}
	w.depth--
}

// addMap writes a map of texts.
//
// The keys are sorted, since equal maps must look the same.
func (w *digestWriter) addMap(v reflect.Value) {
	if v.Type().Key().Kind() != reflect.String {
		w.err = errForeignType
		return
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	w.addNumber(uint64(len(keys)))
	for _, key := range keys {
		w.addText(key.String())
		w.addValue(v.MapIndex(key))
	}
}

// addDynamic writes a value of any type, behind the name of its type. A type of somebody
// else may have methods that make its JSON.
func (w *digestWriter) addDynamic(v reflect.Value) {
	t := v.Type()
	switch {
	case t.PkgPath() == "" && t.Kind() <= reflect.Float64, t == reflect.TypeFor[string](),
		t == reflect.TypeFor[[]any](), t == reflect.TypeFor[map[string]any]():
		w.addText(t.String())
		w.addValue(v)
	default:
		w.err = errForeignType
	}
}

// addText writes a text behind its length; a long one goes to the hash directly.
func (w *digestWriter) addText(s string) {
	w.addNumber(uint64(len(s)))
	if len(s) > digestPiece {
		w.flushBuffer()
		pace.Write(w.hash, []byte(s))
		return
	}
	w.buffer = append(w.buffer, s...)
}

func (w *digestWriter) addNumber(n uint64) { w.buffer = binary.AppendUvarint(w.buffer, n) }
