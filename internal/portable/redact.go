package portable

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
)

// Redact writes the exports of a text again, without the values in them: see RedactRecord. The hash of a run's input,
// its tenant and the values of its labels go as well. An export is in memory as a whole. Errors: those of Read, that
// of to.
func Redact(to io.Writer, from io.Reader) error {
	lines := newScanner(from)
	for n := 1; ; n++ {
		x, err := readExport(lines)
		if err != nil {
			return fmt.Errorf("export %d: %w", n, err)
		}
		if x == nil {
			if n == 1 {
				return errEmpty
			}
			return nil
		}
		if err := x.redact(to); err != nil {
			return err
		}
	}
}

// redact writes the export without values.
func (x *export) redact(to io.Writer) error {
	w, err := newWriter(to, &header{Version: Version, Run: x.root, Redacted: true})
	if err != nil {
		return err
	}
	for _, r := range x.runs {
		without := *r
		without.InputHash, without.Tenant, without.Labels = "", hideText(r.Tenant), nil
		if r.Labels != nil {
			without.Labels = map[string]string{}
		}
		for k, v := range r.Labels {
			without.Labels[k] = hideText(v)
		}
		if err := w.WriteRun(&without); err != nil {
			return err
		}
		for i := range r.Records {
			rec, err := RedactRecord(&r.Records[i])
			if err == nil {
				err = w.WriteRecord(&rec)
			}
			if err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// keptTexts are the texts of records that stay, by type and field: they name what the definition has, or the engine
// makes them. All others go, so that a field that is new says nothing until it is listed.
var keptTexts = map[string]bool{
	"Failure.Code": true, "Pin.Name": true, "Pin.Hash": true, "Group.Name": true, "DispatchTask.Task": true, "StartChild.Definition": true,
	"StartChild.Chosen": true, "RenewInput.Chosen": true, "TaskMemory.Chosen": true,
	"SetData.Path": true, "AppendData.Path": true, "MergeBranches.Path": true, "FireGroup.Path": true, "TakeLock.Lock": true, "Token.Holds": true,
	"Sum.Name": true, "AddBranch.Group": true, "CloseGroup.Group": true, "DecideApproval.Cause": true,
	"Signal.Name": true, "AwaitEvent.Names": true, "KeepSignal.Name": true, "TakeSignal.Name": true, "LoseSignal.Name": true, "RejectSignal.Name": true,
}

// keptValues are the values of records that stay: what a patch says is part of the definition.
var keptValues = map[string]bool{"PatchRun.Definition": true, "Patch.Ops": true}

// RedactRecord returns a copy of a record in which values are only shapes: each text is as many x as
// it has bytes, each number 0, each truth value false. Keys of objects, lengths of lists, ids, times, counts, codes of failures, names
// that a definition has, and patches stay.
func RedactRecord(r *decision.Record) (decision.Record, error) {
	out := *r
	v, err := redactValue(reflect.ValueOf(&out.Message).Elem(), "")
	if err != nil {
		return out, err
	}
	reflect.ValueOf(&out.Message).Elem().Set(v)
	v, err = redactValue(reflect.ValueOf(out.Decisions), "")
	if err == nil {
		reflect.ValueOf(&out.Decisions).Elem().Set(v)
	}
	return out, err
}

var errUnknownKind = errors.New("a record has a value of a kind that cannot be redacted")

// redactValue returns a copy of v without values. field is the name of its field, and "" inside a value of the JSON model, which goes
// as a whole.
func redactValue(v reflect.Value, field string) (reflect.Value, error) {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return out, nil
		}
		if v.NumMethod() == 0 {
			field = "" // a value of the JSON model
			if v.Elem().Kind() == reflect.Float64 {
				out.Set(reflect.ValueOf(int64(0))) // whole numbers are no floats there
				return out, nil
			}
		}
		return setRedacted(out, v.Elem(), field, func(x reflect.Value) { out.Set(x) })
	case reflect.Pointer:
		if v.IsNil() {
			return out, nil
		}
		out.Set(reflect.New(v.Type().Elem()))
		return setRedacted(out, v.Elem(), field, func(x reflect.Value) { out.Elem().Set(x) })
	case reflect.Struct:
		return redactStruct(v)
	case reflect.Map:
		return redactMap(v, field)
	case reflect.Slice:
		if v.IsNil() {
			return out, nil
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			if _, err := setRedacted(out, v.Index(i), field, func(x reflect.Value) { out.Index(i).Set(x) }); err != nil {
				return out, err
			}
		}
		return out, nil
	case reflect.String:
		if field != "" && (v.Type() != reflect.TypeFor[string]() || keptTexts[field]) {
			return v, nil
		}
		out.SetString(hideText(v.String()))
		return out, nil
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Uint8:
		if field != "" {
			return v, nil
		}
		return out, nil
	default:
		return out, fmt.Errorf("%w: %v", errUnknownKind, v.Type())
	}
}

// setRedacted calls set with v without values, and returns out.
func setRedacted(out, v reflect.Value, field string, set func(reflect.Value)) (reflect.Value, error) {
	x, err := redactValue(v, field)
	if err == nil {
		set(x)
	}
	return out, err
}

// redactStruct returns a struct with all fields that are written without values, and the others zero.
func redactStruct(v reflect.Value) (reflect.Value, error) {
	t := v.Type()
	if t == reflect.TypeFor[time.Time]() {
		return v, nil
	}
	out := reflect.New(t).Elem()
	for i := range t.NumField() {
		f := t.Field(i)
		name := t.Name() + "." + f.Name
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		if keptValues[name] {
			out.Field(i).Set(v.Field(i))
			continue
		}
		if _, err := setRedacted(out, v.Field(i), name, func(x reflect.Value) { out.Field(i).Set(x) }); err != nil {
			return out, err
		}
	}
	return out, nil
}

// redactMap returns a map with the same keys.
func redactMap(v reflect.Value, field string) (reflect.Value, error) {
	out := reflect.New(v.Type()).Elem()
	if v.IsNil() {
		return out, nil
	}
	out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
	for _, k := range v.MapKeys() {
		if _, err := setRedacted(out, v.MapIndex(k), field, func(x reflect.Value) { out.SetMapIndex(k, x) }); err != nil {
			return out, err
		}
	}
	return out, nil
}

func hideText(text string) string { return strings.Repeat("x", len(text)) }
