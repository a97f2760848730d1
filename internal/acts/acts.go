// Package acts is the table of the acts on runs, by which each surface calls them: the HTTP API, the inspector, the command and
// scenario files. It reads acts from JSON and writes them.
package acts

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/value"
)

// A Verb is a kind of [pawl.Act]: how surfaces call it, and what they have to know of it.
type Verb struct {
	Name    string // in JSON: cancelNodes
	Path    string // below that of a run in the HTTP API, with {token} if it is done to a token; "" of one that is only tried
	Title   string // of what somebody is about to do: Cancel
	Past    string // of what was done: cancelled
	Many    Many   // what it may be done to all of
	Danger  bool   // it ends something for good
	Defines bool   // it changes what the run executes
	act     reflect.Type
}

// Many is what an act may be done to all of.
type Many uint8

// The values of Many.
const (
	None Many = iota
	Runs
	DeadLetters
	Approvals
)

// A table has a row for each act.
type table struct{ rows []Verb }

// verbs are all acts. An act that is added gets a row here.
var verbs = &table{[]Verb{
	{Name: "cancel", Path: "/cancel", Title: "Cancel", Past: "cancelled", Many: Runs, Danger: true, act: reflect.TypeFor[pawl.Cancel]()},
	{Name: "pause", Path: "/pause", Title: "Pause", Past: "paused", Many: Runs, act: reflect.TypeFor[pawl.Pause]()},
	{Name: "resume", Path: "/resume", Title: "Resume", Past: "resumed", Many: Runs, act: reflect.TypeFor[pawl.Resume]()},
	{Name: "signal", Path: "/signals", Title: "Send a signal to", Past: "signalled", Many: Runs, act: reflect.TypeFor[pawl.Signal]()},
	{Name: "patch", Path: "/patches", Title: "Patch", Past: "patched", Many: Runs, Defines: true, act: reflect.TypeFor[pawl.Patch]()},
	{Name: "cancelNodes", Path: "/cancel-nodes", Title: "Cancel nodes of", Past: "cancelled", Many: Runs, Danger: true, act: reflect.TypeFor[pawl.CancelNodes]()},
	{Name: "addBranch", Path: "/branches", Title: "Add a branch to", Past: "added", act: reflect.TypeFor[pawl.AddBranch]()},
	{Name: "closeGroup", Path: "/close-group", Title: "Close a fan-out of", Past: "closed", act: reflect.TypeFor[pawl.CloseGroup]()},
	{Name: "raise", Path: "/raise", Title: "Raise limits of", Past: "raised", act: reflect.TypeFor[pawl.Raise]()},
	{Name: "retry", Path: "/tokens/{token}/retry", Title: "Retry", Past: "retried", Many: DeadLetters, act: reflect.TypeFor[pawl.Retry]()},
	{Name: "skip", Path: "/tokens/{token}/skip", Title: "Skip", Past: "skipped", Many: DeadLetters, act: reflect.TypeFor[pawl.Skip]()},
	{Name: "vote", Path: "/tokens/{token}/vote", Title: "Vote on", Past: "voted", Many: Approvals, act: reflect.TypeFor[pawl.Vote]()},
	{Name: "complete", Path: "/tokens/{token}/complete", Title: "Complete", Past: "completed", act: reflect.TypeFor[pawl.Complete]()},
	{Name: "fail", Path: "/tokens/{token}/fail", Title: "Fail", Past: "failed", Danger: true, act: reflect.TypeFor[pawl.Fail]()},
	{Name: "elapse", Title: "Let time pass in", Past: "passed", act: reflect.TypeFor[pawl.Elapse]()},
}}

// All returns all kinds of acts.
func All() []Verb { return slices.Clone(verbs.rows) }

// NamesOf returns the names of what may be done to all of these.
func NamesOf(of Many) (names []string) {
	for _, v := range verbs.rows {
		if v.Many == of {
			names = append(names, v.Name)
		}
	}
	return names
}

// Of returns the kind of an act, the zero value of nil.
func Of(a pawl.Act) Verb {
	for _, v := range verbs.rows {
		if v.act == reflect.TypeOf(a) {
			return v
		}
	}
	return Verb{}
}

// Named returns the kind of act of a name; ok is false if no act has it.
func Named(name string) (v Verb, ok bool) {
	i := slices.IndexFunc(verbs.rows, func(v Verb) bool { return v.Name == name })
	if i < 0 {
		return v, false
	}
	return verbs.rows[i], true
}

// OfToken reports whether the act is done to a token, which its [pawl.Target] names.
func (v Verb) OfToken() bool { return strings.Contains(v.Path, "{token}") }

// eachField yields the fields of the act by their names in JSON.
func (v Verb) eachField(yield func(name string, f reflect.StructField) bool) {
	if v.act == nil {
		return
	}
	for _, f := range reflect.VisibleFields(v.act) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" || name == "run" || name == "parked" && v.Many != DeadLetters {
			continue
		}
		if !yield(name, f) {
			return
		}
	}
}

// Fields returns the names of the fields that the act has in JSON.
func (v Verb) Fields() (names []string) {
	for name := range v.eachField {
		names = append(names, name)
	}
	return names
}

// Decode returns the act with these fields, each as it stands in JSON. Values stay JSON, and are read when the act is done. The
// error says what is wrong with the fields, in words of JSON, and is a *TypeError where one has another type.
func (v Verb) Decode(fields map[string]json.RawMessage) (pawl.Act, error) {
	for name := range fields {
		if !slices.Contains(v.Fields(), name) {
			return nil, fmt.Errorf("%s takes no field %q", v.Name, name)
		}
	}
	act := reflect.New(v.act).Elem()
	for name, f := range v.eachField {
		into := act.FieldByIndex(f.Index)
		raw, there := fields[name]
		if there {
			if err := decodeField(into, name, raw); err != nil {
				return nil, err
			}
		}
		if needs := f.Tag.Get("needs"); needs != "" && (!there || string(raw) == `""` || string(raw) == "null" || isNothing(into)) {
			return nil, errors.New(needs)
		}
	}
	out, _ := act.Interface().(pawl.Act)
	if t, ok := targetOfAct(act); ok && t.Token != 0 && t.Node != "" {
		return nil, fmt.Errorf("%s is done to a token: name it or its node, not both", v.Name)
	}
	return out, nil
}

// isNothing reports whether a field that must say something says nothing: false and no time at all are something.
func isNothing(field reflect.Value) bool {
	if field.Kind() == reflect.Slice || field.Kind() == reflect.Map {
		return field.Len() == 0
	}
	return field.Kind() != reflect.Bool && field.Type() != durations && field.IsZero()
}

// decodeField reads a field of an act.
func decodeField(into reflect.Value, name string, raw json.RawMessage) error {
	switch p := into.Addr().Interface().(type) {
	case *any:
		*p = raw
		return nil
	case *[]any:
		var list []json.RawMessage
		if err := ReadField(name, raw, &list); err != nil {
			return err
		}
		for _, one := range list {
			*p = append(*p, one)
		}
		return nil
	case *time.Duration:
		var text string
		if err := ReadField(name, raw, &text); err != nil || text == "" {
			return err
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("%s is %q: it must be a duration such as \"30s\"", name, text)
		}
		*p = d
		return nil
	default:
		return ReadField(name, raw, p)
	}
}

// A TypeError says that a field of an act is of another type in JSON.
type TypeError struct{ Field, Is string }

// Error names the field and the type.
func (e *TypeError) Error() string {
	return fmt.Sprintf("the field %q cannot be of type %s", e.Field, e.Is)
}

// ReadField reads a field of JSON. The error is a *TypeError if it is of another type.
func ReadField(name string, raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return &TypeError{name, wrong.Value}
	}
	return err
}

// durations are written as texts, such as 1h30m.
var durations = reflect.TypeFor[time.Duration]()

// Encode returns the fields of an act as Decode reads them. It reads the output of a Complete, which may be a reader as in the engine.
func (v Verb) Encode(a pawl.Act) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if c, ok := a.(pawl.Complete); ok {
		read, err := value.ReadAll(c.Output, limits.MaxMergedBytes)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		c.Output = read
		a = c
	}
	of := reflect.ValueOf(a)
	for name, f := range v.eachField {
		x := of.FieldByIndex(f.Index)
		if x.IsZero() && strings.HasSuffix(f.Tag.Get("json"), ",omitzero") {
			continue
		}
		raw, err := encodeField(x)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if string(raw) != "null" {
			out[name] = raw
		}
	}
	return out, nil
}

// encodeField encodes a field of an act: values of the host as the engine takes them, and JSON as it stands.
func encodeField(x reflect.Value) ([]byte, error) {
	v := x.Interface()
	if d, ok := v.(time.Duration); ok {
		v = d.String()
	}
	if _, raw := v.(json.RawMessage); raw || x.Kind() != reflect.Interface && x.Type() != reflect.TypeFor[[]any]() {
		return json.Marshal(v)
	}
	taken, err := value.Take(v, value.Limits{Bytes: limits.MaxMergedBytes})
	return taken.Canonical(), err
}

// Once returns the act under an id, if it is one that counts once under an id and has none.
func Once(a pawl.Act, id string) pawl.Act {
	out := reflect.New(reflect.TypeOf(a)).Elem()
	out.Set(reflect.ValueOf(a))
	if f := out.FieldByName("ID"); f.IsValid() && f.IsZero() {
		f.SetString(id)
	}
	act, _ := out.Interface().(pawl.Act)
	return act
}

// TargetOf returns the token that an act is done to; ok is false if it is done to a run.
func TargetOf(a pawl.Act) (t pawl.Target, ok bool) {
	if a == nil {
		return t, false
	}
	return targetOfAct(reflect.ValueOf(a))
}

func targetOfAct(act reflect.Value) (t pawl.Target, ok bool) {
	if act.Kind() != reflect.Struct {
		return t, false
	}
	if f := act.FieldByName("Target"); f.IsValid() {
		t, ok = f.Interface().(pawl.Target)
	}
	return t, ok
}

// At returns the act, done to another token; an act on a run is returned as it is.
func At(a pawl.Act, t pawl.Target) pawl.Act {
	if _, ok := TargetOf(a); !ok {
		return a
	}
	out := reflect.New(reflect.TypeOf(a)).Elem()
	out.Set(reflect.ValueOf(a))
	out.FieldByName("Target").Set(reflect.ValueOf(t))
	act, _ := out.Interface().(pawl.Act)
	return act
}
