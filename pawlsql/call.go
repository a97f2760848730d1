package pawlsql

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The kinds of calls, as they stand in the table.
const (
	KindStart  = "start"
	KindSignal = "signal"
	KindCancel = "cancel"
)

// A call is the body of a row: what the engine is given beside the id of the run. It is a format of a file: names do not change.
type call struct {
	Workflow   string               `json:"workflow,omitzero"`
	Version    int                  `json:"version,omitzero"`
	Definition *workflow.Definition `json:"definition,omitzero"`
	Tenant     string               `json:"tenant,omitzero"`
	Labels     map[string]string    `json:"labels,omitzero"`
	MetaLimits map[string]float64   `json:"metaLimits,omitzero"`
	Input      json.RawMessage      `json:"input,omitzero"`

	Name      string          `json:"name,omitzero"` // of a signal
	ID        string          `json:"id,omitzero"`
	Payload   json.RawMessage `json:"payload,omitzero"`
	Transient bool            `json:"transient,omitzero"`
	TTL       time.Duration   `json:"ttl,omitzero"`
	Early     bool            `json:"early,omitzero"`

	Reason string `json:"reason,omitzero"` // of a cancellation

	Traceparent string `json:"traceparent,omitzero"` // of the span in which the call was written
	Tracestate  string `json:"tracestate,omitzero"`
}

// Start has a run started if the transaction commits, and not at all if it does not: see pawl.Engine.Start. The run needs an id,
// under which it is started once. Start checks here whatever can be known without the engine, so that the transaction may be rolled
// back: it fails with an *ArgumentError or another error that is pawl.ErrInvalid, such as a *workflow.DefinitionError, or with that of the database. The rest,
// such as a definition that is not published or an input that its schema refuses, is found when the row is taken. Each Start checks its
// Definition, 0.1 ms a node about; a Graph has been checked when it was compiled.
func Start(ctx context.Context, tx Tx, run workflow.Run, input any) error {
	if err := checkTx(ctx, tx); err != nil {
		return err
	}
	if err := texts.CheckRunID(run.ID); err != nil {
		return err
	}
	c, err := startOf(run, input)
	if err != nil {
		return err
	}
	return tx.writeRow(ctx, KindStart, run.ID, c)
}

// Signal has a run signalled if the transaction commits: see pawl.Engine.Signal. A signal without an id gets one, so that it
// counts once however often the row is taken. A child run has an order of its own. Its errors are those of Start.
func Signal(ctx context.Context, tx Tx, run workflow.RunID, s workflow.Signal) error {
	if err := checkTx(ctx, tx); err != nil {
		return err
	}
	if err := tx.outbox.checkTarget(run); err != nil {
		return err
	}
	switch {
	case s.Name == "":
		return &ArgumentError{What: "signal", Fault: "it needs a name"}
	case !utf8.ValidString(s.Name):
		return &ArgumentError{What: "signal", Fault: fmt.Sprintf("its name is %.100q: use UTF-8", s.Name)}
	case s.TTL < 0:
		return &ArgumentError{What: "signal", Fault: fmt.Sprintf("its ttl is %v, less than 0", s.TTL)}
	}
	if err := texts.CheckCallID("signal", s.ID); err != nil {
		return err
	}
	if s.ID == "" {
		s.ID = uuid.Must(uuid.NewV7()).String()
	}
	payload, err := encodeValue("payload", s.Payload)
	if err != nil {
		return err
	}
	return tx.writeRow(ctx, KindSignal, run, &call{Name: s.Name, ID: s.ID, Payload: payload, Transient: s.Transient, TTL: s.TTL, Early: s.Early})
}

// Cancel has a run cancelled if the transaction commits: see pawl.Engine.Cancel. Its errors are those of Start.
func Cancel(ctx context.Context, tx Tx, run workflow.RunID, reason string) error {
	if err := checkTx(ctx, tx); err != nil {
		return err
	}
	if err := tx.outbox.checkTarget(run); err != nil {
		return err
	}
	return tx.writeRow(ctx, KindCancel, run, &call{Reason: strings.ToValidUTF8(reason, "\uFFFD")})
}

func checkTx(ctx context.Context, tx Tx) error {
	switch {
	case ctx == nil:
		return &ArgumentError{What: "ctx", Fault: "it is nil"}
	case tx.outbox == nil:
		return &ArgumentError{What: "tx", Fault: "it is nil: take what Outbox.In returns"}
	}
	return nil
}

// checkTarget returns an error unless an id can be that of a run that is there: of one that was started, or of a child below it.
func (b *Outbox) checkTarget(run workflow.RunID) error {
	root, child, _ := strings.Cut(string(run), "/")
	if err := texts.CheckRunID(workflow.RunID(root)); err != nil {
		return err
	}
	if len(root) < len(run) && !childPath.MatchString(child) {
		return &ArgumentError{What: "run", Fault: fmt.Sprintf("no run has the id %.300q: that of a child is such as order-42/3.1", string(run))}
	}
	if most := b.dialect.maxRun; len(run) > most {
		return &ArgumentError{What: "run", Fault: fmt.Sprintf("its id has %d bytes, at most %d in a table of this database", len(run), most)}
	}
	return nil
}

// childPath is what stands behind the id of a root run and a slash in that of a child: the token and the attempt that started it, those of the child
// below it, and so on.
var childPath = regexp.MustCompile(`^[0-9]{1,19}\.[0-9]{1,19}(/[0-9]{1,19}\.[0-9]{1,19})*$`)

// startOf returns what is kept of a run that is to be started.
func startOf(run workflow.Run, input any) (*call, error) {
	definition, err := definitionOf(run)
	if err != nil {
		return nil, err
	}
	if err := texts.CheckTenant(run.Tenant); err != nil {
		return nil, err
	}
	if key, fault := texts.LabelFault(run.Labels); fault != "" {
		return nil, &ArgumentError{What: "run", Fault: fmt.Sprintf("label %.100q: %s", key, fault)}
	}
	if err := checkMetaLimits(run.MetaLimits); err != nil {
		return nil, err
	}
	c := &call{Workflow: run.Workflow, Version: run.Version, Definition: definition, Tenant: run.Tenant, Labels: run.Labels, MetaLimits: run.MetaLimits}
	if input, err = value.ReadAll(input, maxValueBytes); err != nil {
		return nil, refusal.InvalidValue("pawlsql: input", err)
	}
	if c.Input, err = encodeValue("input", input); err != nil {
		return nil, err
	}
	switch {
	case string(c.Input) == "null": // a nil map, for instance
		c.Input = nil
	case c.Input != nil && c.Input[0] != '{':
		return nil, &ArgumentError{What: "input", Fault: "the input of a run is an object"}
	}
	return c, nil
}

// definitionOf returns the definition that stands in a call, nil for one that is published, and checks that the call has one of its forms.
func definitionOf(run workflow.Run) (*workflow.Definition, error) {
	forms := 0
	for _, given := range []bool{run.Definition != nil, run.Graph != nil, run.Workflow != ""} {
		if given {
			forms++
		}
	}
	if forms != 1 {
		return nil, &ArgumentError{What: "run", Fault: fmt.Sprintf("%q has %d of Definition, Graph and Workflow, and needs one", run.ID, forms)}
	}
	switch {
	case run.Version < 0, run.Version > 0 && run.Workflow == "":
		return nil, &ArgumentError{What: "run", Fault: fmt.Sprintf("%q has the version %d: give one of a published Workflow, or 0 for the newest", run.ID, run.Version)}
	case !utf8.ValidString(run.Workflow):
		return nil, &ArgumentError{What: "run", Fault: fmt.Sprintf("%q has the Workflow %.100q: use UTF-8", run.ID, run.Workflow)}
	case run.Graph != nil && (run.Graph.Definition == nil || run.Graph.Hash == ""):
		return nil, &ArgumentError{What: "run", Fault: fmt.Sprintf("%q has a graph that was not compiled: take what workflow.Compile returns", run.ID)}
	case run.Graph != nil:
		return run.Graph.Definition, nil
	case run.Definition != nil:
		if _, err := anySize.Compile(run.Definition); err != nil {
			return nil, fmt.Errorf("%w: run %q: %w", pawl.ErrInvalid, string(run.ID), err)
		}
	}
	return run.Definition, nil
}

// anySize leaves bounds to the engine, whose options may have wider ones than the default, but for that of the bytes of a definition, which are read
// from the row within the default.
var anySize = workflow.Bounds{Nodes: math.MaxInt32, Transitions: math.MaxInt32, Expressions: math.MaxInt32, Subschemas: math.MaxInt32}

// checkMetaLimits returns an error unless the engine takes limits of what results report.
func checkMetaLimits(meta map[string]float64) error {
	if len(meta) > amount.MaxNames {
		return &ArgumentError{What: "run", Fault: fmt.Sprintf("it has %d MetaLimits, at most %d", len(meta), amount.MaxNames)}
	}
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		one := map[string]float64{name: meta[name]}
		switch {
		case name == "" || len(name) > amount.MaxName || !utf8.ValidString(name):
			return &ArgumentError{What: "run", Fault: fmt.Sprintf("MetaLimits has the name %.100q: use 1 to %d bytes of UTF-8", name, amount.MaxName)}
		case len(amount.FromFloats(one)) == 0:
			return &ArgumentError{What: "run", Fault: fmt.Sprintf("MetaLimits[%.100q] is %v: use a number from 0 to 2^53", name, meta[name])}
		}
	}
	return nil
}

// maxValueBytes bounds an input and a payload here; the engine has its own bounds, which are lower by default.
const maxValueBytes = 16 << 20

// encodeValue returns the JSON of a value that can be encoded as JSON; nil of nil.
func encodeValue(what string, v any) (json.RawMessage, error) {
	taken, err := value.Take(v, value.Limits{Bytes: maxValueBytes})
	switch {
	case err != nil:
		return nil, refusal.InvalidValue("pawlsql: "+what, err)
	case v == nil:
		return nil, nil
	}
	return taken.Canonical(), nil
}

// writeRow inserts the row of a call.
func (tx Tx) writeRow(ctx context.Context, kind string, run workflow.RunID, c *call) error {
	c.Traceparent, c.Tracestate = traceparent.Of(ctx)
	body, err := json.Marshal(c)
	switch {
	case err != nil:
		return &ArgumentError{What: kind, Fault: err.Error()}
	case len(body) > maxValueBytes+limits.MaxDefinitionBytes:
		return &ArgumentError{What: kind, Fault: fmt.Sprintf("it has %d bytes of JSON, at most %d", len(body), maxValueBytes+limits.MaxDefinitionBytes)}
	}
	args := []any{string(run), kind, toASCII(body)}
	if tx.outbox.dialect.numbered {
		args = append(args, tx.outbox.nameChannel())
	}
	if _, err := tx.in.Exec(ctx, tx.outbox.fillText(tx.outbox.dialect.insert), args...); err != nil {
		return fmt.Errorf("pawlsql: write the %s of run %q: %w", kind, string(run), err)
	}
	return nil
}

// nameChannel names the channel where a row is notified: as the table, or by a sum of its name, since the name of a channel has less than 64 bytes.
func (b *Outbox) nameChannel() string {
	const most = 63
	if len(b.options.Calls) <= most {
		return b.options.Calls
	}
	return fmt.Sprintf("pawl_calls_%x", sha256.Sum256([]byte(b.options.Calls)))[:most]
}

// toASCII returns JSON without a character that an encoding of a database could lack or change.
func toASCII(data []byte) string {
	var out strings.Builder
	out.Grow(len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r < utf8.RuneSelf:
			out.WriteByte(data[0])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			writeUnit(&out, high)
			writeUnit(&out, low)
		default:
			writeUnit(&out, r)
		}
		data = data[n:]
	}
	return out.String()
}

// writeUnit writes a unit of UTF-16 as JSON has it.
func writeUnit(out *strings.Builder, unit rune) {
	hex := strconv.FormatInt(int64(unit), 16)
	out.WriteString(`\u0000`[:6-len(hex)])
	out.WriteString(hex)
}

// fromASCII undoes toASCII, and the escapes of json.Marshal without which there is JSON as well: so what is read has no more bytes than what Start
// has taken.
func fromASCII(data string) []byte {
	out := make([]byte, 0, len(data))
	for {
		before, _, found := strings.Cut(data, `\`)
		out = append(out, before...)
		if !found {
			return out
		}
		data = data[len(before):]
		r, n := readUnit(data), len(`\u0000`)
		if utf16.IsSurrogate(r) {
			r, n = utf16.DecodeRune(r, readUnit(data[n:])), 2*n
		}
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError && n > len(`\u0000`) {
			n = min(len(`\u`), len(data)) // it stays as it is
			out = append(out, data[:n]...)
		} else {
			out = utf8.AppendRune(out, r)
		}
		data = data[n:]
	}
}

// readUnit returns the unit of UTF-16 that a text begins with, as writeUnit has it, or -1.
func readUnit(text string) rune {
	if len(text) < len(`\u0000`) || text[:2] != `\u` {
		return -1
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit) //nolint:gosec // of 16 bits
}

// isNil reports whether an interface holds nothing, or a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
