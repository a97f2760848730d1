package runfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/workflow"
)

// A Checksum chains the records of a run: each is of a record and of the checksum before. So a record that was
// changed, left out, put elsewhere or taken from another run does not fit, and neither does all that follows. Large
// values are covered through their hashes, which stand in the record. It is no MAC: whoever can write the files can
// make a chain anew.
type Checksum [sha256.Size]byte

// FirstSum returns the checksum before the first record of a run. It has the id of the run in it, so that the records
// of two runs never have the same checksums.
func FirstSum(id workflow.RunID) Checksum {
	return sha256.Sum256([]byte("pawl run " + string(id)))
}

// SetBytes sets c to b. It reports false if b has not the size of a checksum.
func (c *Checksum) SetBytes(b []byte) bool {
	return copy(c[:], b) == len(c) && len(b) == len(c)
}

// SumAfter returns the checksum of the record after c. Lengths make it unambiguous.
func (c Checksum) SumAfter(e *decision.Encoded) Checksum {
	// Without the lengths, the end of the message could be moved into the decisions and give the same bytes. The two
	// texts are the only parts of varying size.
	start := make([]byte, 0, smallRecord) // on the stack
	start = append(start, c[:]...)
	for _, n := range [...]uint64{
		uint64(e.Seq), uint64(e.At.UnixMilli()), uint64(e.Epoch), uint64(e.Planner),
		uint64(len(e.Message)), uint64(len(e.Decisions)),
	} {
		start = binary.BigEndian.AppendUint64(start, n)
	}
	if len(start)+len(e.Message)+len(e.Decisions) <= smallRecord {
		return sha256.Sum256(append(append(start, e.Message...), e.Decisions...))
	}
	// A large record is hashed in pieces, between which others run.
	h := sha256.New()
	h.Write(start)
	pace.Write(h, e.Message)
	pace.Write(h, e.Decisions)
	var out Checksum
	h.Sum(out[:0])
	return out
}

// smallRecord is how many bytes are copied to be hashed at once.
const smallRecord = 2048

// An Entry is a record as the journal of a file and the log of pawl.db keep it. With a codec, Message is a sealed
// text that has all of the record, and Decisions is empty: Sum is of what is kept, so that the chain is checked
// without the key.
type Entry struct {
	decision.Encoded
	Sum        Checksum
	Spill      int64  // in the log: the number of its spill; 0 without
	SpillBytes int64  // of that
	Packed     []byte // in the log: its large values, until they are unpacked
}

// ByteSize returns about how many bytes the entry takes. The 100 stand for what a row takes besides its texts. It
// decides when to flush, and what a run is said to take.
func (e *Entry) ByteSize() int64 {
	n := len(e.Message) + len(e.Decisions) + 100
	for hash, raw := range e.Values.All() {
		n += len(hash) + len(raw)
	}
	return int64(n)
}

// LogSize returns about how many bytes the entry takes in the log.
func (e *Entry) LogSize() int64 {
	if e.Spill != 0 {
		return e.SpillBytes + 100
	}
	return e.ByteSize()
}

// CheckFollows checks that e comes next after the record with the given sequence and checksum. A reader of a journal
// or a log checks each record so before it uses it.
func (e *Entry) CheckFollows(seq int64, sum Checksum) error {
	if e.Seq != seq+1 {
		return fmt.Errorf("record %d follows record %d", e.Seq, seq)
	}
	if want := sum.SumAfter(&e.Encoded); !bytes.Equal(want[:], e.Sum[:]) {
		return fmt.Errorf("record %d does not have its checksum", e.Seq)
	}
	return nil
}
