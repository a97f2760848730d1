package runfile

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/state"
)

const (
	// ID is the application id in the header of a file: "pawr". It tells a file of a run from any other SQLite
	// database: a foreign file is refused.
	ID = 0x70617772
	// Version is the version of the format in the header of a file. A program that knows only lower versions refuses
	// the file.
	Version = 3
)

// A Builder builds files in memory that it keeps for the next. The zero value is ready. A worker that writes files of
// many runs, one after the other, has one: nearly all files are of about the same small size, and the memory for rows
// and pages is allocated once. It is not for several goroutines.
type Builder struct {
	// Both are nil before the first file and after one that was too large or failed.
	draft  *draft
	writer *image.Writer
}

// maxKept is the size in bytes of a file after which a builder gives its memory back. Otherwise one large file would
// have each worker hold as much for ever.
const maxKept = 256 << 10

// Build returns the bytes of a file after fill, which begins with old, or empty if that is nil. They are good until
// the next Build. old is decoded only as far as the keys of its rows; their records go into the new file as they are.
// fill writes the definition, the meta row and the changes.
func (b *Builder) Build(old []byte, fill func(Target) error) (data []byte, err error) {
	if b.draft == nil {
		b.draft, b.writer = newDraft(), new(image.Writer)
	}
	// A draft that a failed fill has left half-way is not used again.
	defer func() {
		if err != nil || len(data) > maxKept {
			*b = Builder{}
		} else {
			b.draft.clearRows()
		}
	}()
	// The old rows come first: what has changed replaces them.
	if old != nil {
		if err := b.draft.loadImage(old); err != nil {
			return nil, err
		}
	}
	if err := fill(b.draft); err != nil {
		return nil, err
	}
	return b.draft.writeTo(b.writer), nil
}

// WriteDefinition writes the definition that the run began with. It is written at each flush: a row that is there
// already stays, since revision 1 never changes. Definitions that patches have made come with the changes.
func WriteDefinition(to Target, hash, doc string) error {
	return to.runStatement(&statement{table: definitionTable, count: 1, put: func(w *rowWriter, _ int) { putDefinition(w, 1, hash, doc) }})
}

// WriteMeta writes which run the file is of, and how far it goes. It replaces the one row. With the sequence and
// checksum in it, whoever reads the file knows from which record of the log to go on, and that the file is not of
// another run or of another time. It fails if a value in the facts cannot be encoded.
func WriteMeta(to Target, m *Meta) error {
	text, err := facts.Append(nil, *m.Facts, nil)
	if err != nil {
		return err
	}
	return to.runStatement(&statement{table: metaTable, count: 1, put: func(w *rowWriter, _ int) { putMeta(w, m, text) }})
}

// WriteChanges writes everything that has changed in a state, with the records and the events of the changes. They
// are of one flush. If several have come together, they are written one after the other, the oldest first: rows
// replace each other, and data depend on the order. A Target may use all of this until the file is complete.
func WriteChanges(to Target, ch *state.Changes, entries []*Entry, told [][]decision.Told) error {
	statements := fileStatements(ch, entries, told)
	for i := range statements {
		if err := to.runStatement(&statements[i]); err != nil {
			return err
		}
	}
	return nil
}
