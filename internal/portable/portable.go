package portable

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/strict"
	"github.com/pawl-run/pawl/workflow"
)

// The versions of the format: the first whose exports have blobs, the first whose records share values, and that
// which is written.
const (
	blobVersion   = 2
	sharedVersion = 3
	Version       = 3
)

// Start is how every export begins.
const Start = `{"export":{`

// Bounds of one export, which is in memory as a whole when it is read.
const (
	maxLine   = 256 << 20
	maxExport = 1 << 30
)

// ErrDamaged says that a text is no export, or not what was written.
var ErrDamaged = errors.New("it is no whole export")

// ErrVersion says that a newer version wrote an export.
var ErrVersion = errors.New("a newer version wrote the export: use a newer pawl")

// A Run is what an export says of a run besides its records.
type Run struct {
	ID         workflow.RunID    `json:"id"`
	Parent     workflow.RunID    `json:"parent,omitzero"` // "" without
	Root       workflow.RunID    `json:"root,omitzero"`   // the first of its ancestors; "" without
	Tenant     string            `json:"tenant,omitzero"`
	Labels     map[string]string `json:"labels,omitzero"`
	InputHash  string            `json:"inputHash,omitzero"`
	Hash       string            `json:"hash"`       // of the definition
	Definition json.RawMessage   `json:"definition"` // that it began with

	Records  []decision.Record `json:"-"`
	Redacted bool              `json:"-"` // the values of the records are only shapes
}

type header struct {
	Version  int            `json:"version"`
	Run      workflow.RunID `json:"run"`
	Redacted bool           `json:"redacted,omitzero"`
}

type record struct {
	Seq       int64                      `json:"seq"`
	At        int64                      `json:"at"` // in milliseconds since the Unix epoch
	Epoch     uint64                     `json:"epoch,omitzero"`
	Planner   int                        `json:"planner"`
	Message   json.RawMessage            `json:"message"`
	Decisions json.RawMessage            `json:"decisions"`
	Values    map[string]json.RawMessage `json:"values,omitzero"` // those that stand apart and came with no record before, by their SHA-256
}

type end struct {
	Lines  int    `json:"lines"`
	SHA256 string `json:"sha256"`
}

// A line is one of these.
type line struct {
	Export *header `json:"export,omitempty"`
	Run    *Run    `json:"run,omitempty"`
	Record *record `json:"record,omitempty"`
	Blob   *piece  `json:"blob,omitempty"`
	End    *end    `json:"end,omitempty"`
}

// A Writer writes one export.
type Writer struct {
	to      io.Writer
	sum     hash.Hash
	lines   int
	written map[[sha256.Size]byte]bool // the values that stand apart
}

// NewWriter begins the export of a run. The text is an export once Close has returned nil.
func NewWriter(to io.Writer, root workflow.RunID) (*Writer, error) {
	return newWriter(to, &header{Version: Version, Run: root})
}

func newWriter(to io.Writer, h *header) (*Writer, error) {
	w := &Writer{to: to, sum: sha256.New(), written: map[[sha256.Size]byte]bool{}}
	err := w.writeLine(line{Export: h})
	return w, err
}

// WriteRun writes a run without its records, which follow.
func (w *Writer) WriteRun(r *Run) error { return w.writeLine(line{Run: r}) }

// WriteRecord writes the next record of the run that was written last.
func (w *Writer) WriteRecord(r *decision.Record) error {
	e, err := r.Encode()
	if err != nil {
		return err
	}
	out := record{Seq: e.Seq, At: e.At.UnixMilli(), Epoch: uint64(e.Epoch), Planner: e.Planner, Message: e.Message, Decisions: e.Decisions}
	for hash, raw := range e.Values.All() {
		var sum [sha256.Size]byte
		if _, err := hex.Decode(sum[:], []byte(hash)); err != nil {
			return err
		}
		if w.written[sum] {
			continue
		}
		w.written[sum] = true
		if out.Values == nil {
			out.Values = map[string]json.RawMessage{}
		}
		out.Values[hash] = raw
	}
	return w.writeLine(line{Record: &out})
}

// Close ends the export.
func (w *Writer) Close() error {
	return w.writeLine(line{End: &end{Lines: w.lines, SHA256: hex.EncodeToString(w.sum.Sum(nil))}})
}

func (w *Writer) writeLine(l line) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // so that the bytes of values stay, which hashes were made from
	if err := e.Encode(l); err != nil {
		return err
	}
	w.lines++
	w.sum.Write(text.Bytes())
	_, err := w.to.Write(text.Bytes())
	return err
}

// Read yields the runs of all exports of a text, those of an export once its checksum was
// compared. The first error ends the list: ErrDamaged, ErrVersion, or one of the reader.
func Read(from io.Reader) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		lines := newScanner(from)
		for n := 1; ; n++ {
			x, err := readExport(lines)
			if err == nil && x == nil {
				if n == 1 {
					yield(nil, errEmpty)
				}
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("export %d: %w", n, err))
				return
			}
			for _, r := range x.runs {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

var errEmpty = fmt.Errorf("%w: it is empty", ErrDamaged)

// newScanner returns what reads lines.
func newScanner(from io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	return lines
}

// An export is one that was read.
type export struct {
	root workflow.RunID
	runs []*Run
}

// readExport reads one export; none is nil.
func readExport(lines *bufio.Scanner) (*export, error) {
	sum, size, runs := sha256.New(), 0, []*Run(nil)
	var begin header
	open := "" // the blob with more pieces to follow
	kept := values{room: maxReferred}
	for n := 0; lines.Scan(); n++ {
		text := lines.Bytes()
		var l line
		err := decodeLine(text, n, &l)
		if err != nil {
			return nil, err
		}
		if l.Blob == nil { // which is not kept
			size += len(text)
		}
		if size > maxExport {
			return nil, fmt.Errorf("%w: it has more than %d bytes", ErrDamaged, maxExport)
		}
		if l.Export != nil {
			begin = *l.Export
		}
		if open, err = followPiece(open, &l, begin.Version); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrDamaged, n+1, err)
		}
		if l.End != nil {
			if l.End.Lines != n || l.End.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
				return nil, fmt.Errorf("%w: line %d: it does not have its checksum", ErrDamaged, n+1)
			}
			if len(runs) == 0 {
				return nil, fmt.Errorf("%w: it has no run", ErrDamaged)
			}
			for _, r := range runs {
				r.Redacted = begin.Redacted
			}
			return &export{begin.Run, runs}, nil
		}
		sum.Write(text)
		sum.Write([]byte{'\n'})
		if runs, err = kept.addLine(runs, &l, begin.Version); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrDamaged, n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if size > 0 {
		return nil, fmt.Errorf("%w: its end is missing", ErrDamaged)
	}
	return nil, nil
}

// decodeLine reads line n of an export, which counts from 0.
func decodeLine(text []byte, n int, l *line) error {
	if n == 0 {
		var h struct{ Export *header }
		if !bytes.HasPrefix(text, []byte(Start)) || json.Unmarshal(text, &h) != nil || h.Export == nil || h.Export.Version < 1 {
			return fmt.Errorf("%w: it does not begin as one", ErrDamaged)
		}
		if h.Export.Version > Version {
			return fmt.Errorf("version %d: %w", h.Export.Version, ErrVersion)
		}
	}
	if err := strict.DecodeObject(text, l); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrDamaged, n+1, err)
	}
	parts := 0
	for _, there := range []bool{l.Export != nil, l.Run != nil, l.Record != nil, l.Blob != nil, l.End != nil} {
		if there {
			parts++
		}
	}
	if parts != 1 {
		return fmt.Errorf("%w: line %d: it says %d things, not one", ErrDamaged, n+1, parts)
	}
	if (l.Export != nil) != (n == 0) {
		return fmt.Errorf("%w: line %d: an export begins here", ErrDamaged, n+1)
	}
	return nil
}

// addLine adds what a line says to the runs.
func (vs *values) addLine(runs []*Run, l *line, version int) ([]*Run, error) {
	switch {
	case l.Run != nil:
		return append(runs, l.Run), nil
	case l.Record != nil:
		if len(runs) == 0 {
			return nil, errors.New("a record of no run")
		}
		r, err := vs.decode(l.Record, version)
		if err != nil {
			return nil, err
		}
		of := runs[len(runs)-1]
		if r.Seq != int64(len(of.Records))+1 {
			return nil, fmt.Errorf("record %d behind %d records", r.Seq, len(of.Records))
		}
		of.Records = append(of.Records, r)
	}
	return runs, nil
}
