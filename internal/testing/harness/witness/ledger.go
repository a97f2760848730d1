package witness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A Ledger is what a host remembers of an engine, beside the engine directory:
// one line for each thing that it was told or did, synced before it goes on.
type Ledger struct {
	file *os.File
	Life int // the number of the life that writes it
}

// A What says what a line of a ledger is about.
type What string

// The kinds of lines of a ledger.
const (
	Started   What = "started"   // Start has returned nil
	Begins    What = "begins"    // a task was handed to the executor
	Ends      What = "ends"      // the executor is about to answer
	Answered  What = "answered"  // Complete has returned nil
	Cancelled What = "cancelled" // Cancel has returned nil
	Ended     What = "ended"     // Wait has returned this outcome
	Closed    What = "closed"    // Close has returned nil
	Copying   What = "copying"   // Backup is called
	Copied    What = "copied"    // Backup has returned nil
)

// An Entry is one line of a ledger.
type Entry struct {
	Life    int
	What    What
	Run     workflow.RunID
	Key     pawl.Key `json:",omitempty"`
	Effect  string   `json:",omitempty"`
	Attempt int      `json:",omitempty"`
	Outcome string   `json:",omitempty"`
}

// OpenLedger opens the ledger at path, which is made if it does not exist, for the
// life with this number.
func OpenLedger(path string, life int) (*Ledger, error) {
	f, err := OpenLines(path)
	return &Ledger{f, life}, err
}

// OpenLines opens a file to which processes that may be killed append lines, one at a time, and
// makes it if it does not exist. Part of a last line is cut off, so that the next one does not
// go on from it: a write that crosses a page ends there if its process is killed.
func OpenLines(path string) (*os.File, error) {
	whole, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(int64(len(whole))); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// ReadLines returns the whole lines of such a file; none if it does not exist. Part of a last line
// counts for nothing: the call that was to write it had not returned.
func ReadLines(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return data[:bytes.LastIndexByte(data, '\n')+1], nil
}

// Write appends a line. A ledger that cannot be kept ends the process: nothing
// that is found afterwards would mean anything.
func (l *Ledger) Write(e Entry) {
	e.Life, e.Key = l.Life, nameOf(e.Key)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		panic(fmt.Sprintf("ledger: %v", err))
	}
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }

// ReadLedger returns the entries of a ledger.
func ReadLedger(path string) ([]Entry, error) {
	data, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for line := range bytes.Lines(data) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("ledger: %q: %w", line, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// OutcomeText says how a run ended, in all that does not depend on when.
func OutcomeText(o workflow.Outcome) string {
	text, err := json.Marshal(struct {
		Status    string
		Output    map[string]any
		Failure   *workflow.Failure
		Artifacts int `json:",omitzero"`
	}{o.Status.String(), o.Output, o.Failure, len(o.Artifacts)})
	if err != nil {
		panic(fmt.Sprintf("outcome of %q: %v", string(o.Run), err))
	}
	return string(text)
}
