package portable

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
)

// maxReferred bounds the values of one export where each counts as often as a record refers to it: as much as one run may
// write. Few bytes can refer to a large value a million times, and whoever writes the records again, redacts them or plans them again
// meets it each time.
const maxReferred = 4 << 30

// values are those of an export that stand apart, each as it was decoded when it came: records share it.
type values struct {
	known map[string]*shared // by their SHA-256
	room  int                // bytes that may still be referred to
}

// A shared is one value.
type shared struct {
	value any
	size  int
	used  bool // by a record
}

// decode returns the record of a line of a version of the format.
//
// In the first versions every record has its values itself. Since then the first record that refers to a value has it, so that a value
// that comes twice, or with a record that does not refer to it, was not written by a Writer.
func (vs *values) decode(r *record, version int) (decision.Record, error) {
	if vs.known == nil || version < sharedVersion {
		vs.known = map[string]*shared{}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		if err := vs.takeValue(name, r.Values[name]); err != nil {
			return decision.Record{}, err
		}
	}
	e := decision.Encoded{
		Seq: r.Seq, At: time.UnixMilli(r.At).UTC(), Epoch: state.Epoch(r.Epoch), Planner: r.Planner, Message: r.Message, Decisions: r.Decisions, Values: &codec.Values{},
	}
	out, err := e.Decode(vs.lookup)
	if err != nil || version < sharedVersion {
		return out, err
	}
	for name := range r.Values {
		if !vs.known[name].used {
			return out, fmt.Errorf("the record does not refer to its value %s", name)
		}
	}
	return out, nil
}

// takeValue keeps a value that comes with a record.
func (vs *values) takeValue(name string, raw json.RawMessage) error {
	if vs.known[name] != nil {
		return fmt.Errorf("the value %s comes twice", name)
	}
	if sum := pace.Sum256(raw); hex.EncodeToString(sum[:]) != name {
		return fmt.Errorf("value %.40q is not what was written", name)
	}
	v, err := codec.DecodeValue(raw)
	if err != nil {
		return fmt.Errorf("value %s: %w", name, err)
	}
	vs.known[name] = &shared{value: v, size: len(raw)}
	return nil
}

var errReferred = errors.New("the values that records refer to are too large together")

// lookup returns the value with a hash, which came with this record or one before it.
func (vs *values) lookup(hash string) (any, error) {
	v := vs.known[hash]
	if v == nil {
		return nil, fmt.Errorf("no value with the hash %.64s", hash)
	}
	if vs.room -= v.size; vs.room < 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", errReferred, maxReferred)
	}
	v.used = true
	return v.value, nil
}
