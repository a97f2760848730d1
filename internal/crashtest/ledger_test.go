package crashtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A ledger is what a host remembers of an engine, beside the engine directory:
// one line for each thing that it was told or did, synced before it goes on.
type ledger struct {
	file *os.File
	life int
}

// A what says what a line of a ledger is about.
type what string

const (
	started   what = "started"   // Start has returned nil
	begins    what = "begins"    // a task was handed to the executor
	ends      what = "ends"      // the executor is about to answer
	answered  what = "answered"  // Complete has returned nil
	cancelled what = "cancelled" // Cancel has returned nil
	ended     what = "ended"     // Wait has returned this outcome
	closed    what = "closed"    // Close has returned nil
	copying   what = "copying"   // Backup is called
	copied    what = "copied"    // Backup has returned nil
)

// An entry is one line of a ledger.
type entry struct {
	Life    int
	What    what
	Run     workflow.RunID
	Key     pawl.Key `json:",omitempty"`
	Effect  string   `json:",omitempty"`
	Attempt int      `json:",omitempty"`
	Outcome string   `json:",omitempty"`
}

func openLedger(path string, life int) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return &ledger{f, life}, err
}

// write appends a line. A ledger that cannot be kept ends the process: nothing
// that is found afterwards would mean anything.
func (l *ledger) write(e entry) {
	e.Life = l.life
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

// readLedger returns the lines of a ledger. A process that is killed may leave
// part of a last line, which counts for nothing.
func readLedger(path string) ([]entry, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []entry
	for line := range bytes.Lines(data) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("ledger: %q: %w", line, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// outcomeText says how a run ended, in all that does not depend on when.
func outcomeText(o workflow.Outcome) string {
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
