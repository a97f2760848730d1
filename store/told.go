package store

import (
	"errors"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// encodeEvents returns events as the outbox has them: a JSON list of lists, each of the eventFields
// and, unless it is nil, the data.
//
// The position of a field says which one it is, which keeps the rows small.
func encodeEvents(events []decision.Event) string { return string(value.Encode(listEvents(events))) }

func listEvents(events []decision.Event) []any {
	list := make([]any, len(events))
	for i := range events {
		e := &events[i]
		fields := []any{e.Seq, e.Record, e.At.UnixMilli(), string(e.Type), int64(e.Token), string(e.Node), int64(e.Group)}
		if e.Data != nil {
			fields = append(fields, e.Data)
		}
		list[i] = fields
	}
	return list
}

// eventFields is how many fields an event has at least.
const eventFields = 7

var errNoEvents = errors.New("it is no list of events")

// parseEvents is the inverse of encodeEvents.
//
// A list without events is refused, since no row was ever written without.
func parseEvents(text string) ([]decision.Event, error) {
	v, err := codec.DecodeValue([]byte(text))
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	out := make([]decision.Event, len(list))
	for i := range list {
		fields, _ := list[i].([]any)
		if len(fields) < eventFields {
			return nil, errNoEvents
		}
		f := fieldReader{fields: fields}
		out[i] = decision.Event{
			Seq: f.numberAt(0), Record: f.numberAt(1), At: time.UnixMilli(f.numberAt(2)).UTC(), Type: workflow.EventType(f.textAt(3)),
			Token: workflow.TokenID(f.numberAt(4)), Node: workflow.NodeID(f.textAt(5)), Group: workflow.GroupID(f.numberAt(6)),
		}
		if len(fields) > eventFields {
			data, ok := fields[eventFields].(map[string]any)
			out[i].Data, f.bad = data, f.bad || !ok
		}
		if f.bad {
			return nil, errNoEvents
		}
	}
	if len(out) == 0 {
		return nil, errNoEvents
	}
	return out, nil
}

// A fieldReader reads the fields of an event until one is bad.
type fieldReader struct {
	fields []any
	bad    bool
}

func (f *fieldReader) numberAt(i int) int64 {
	n, ok := f.fields[i].(int64)
	f.bad = f.bad || !ok
	return n
}

func (f *fieldReader) textAt(i int) string {
	s, ok := f.fields[i].(string)
	f.bad = f.bad || !ok
	return s
}
