package retrace

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// WriteOTLP writes a trace as OpenTelemetry's protocol has it in JSON: the body of a request to /v1/traces of a collector
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
func (t *Trace) WriteOTLP(to io.Writer) error {
	w := bufio.NewWriter(to)
	_, _ = w.WriteString(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"pawl"}}]},` +
		`"scopeSpans":[{"scope":{"name":"github.com/pawl-run/pawl"},"spans":[`)
	for i := range t.Spans {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		text, err := json.Marshal(t.Spans[i].otlp(t.ID))
		if err != nil {
			return err
		}
		_, _ = w.WriteString("\n")
		_, _ = w.Write(text)
	}
	_, _ = w.WriteString("\n]}]}]}\n")
	return w.Flush()
}

// The messages of the protocol, as far as they are used. Integers of 64 bits are texts.
type (
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		From       string          `json:"startTimeUnixNano"`
		To         string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes"`
		Status     *otlpStatus     `json:"status,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    string  `json:"intValue,omitempty"`
		Bool   bool    `json:"boolValue,omitempty"`
	}
	otlpStatus struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
)

// The numbers of kinds and statuses.
const (
	kindInternal = 1
	kindConsumer = 5
	statusError  = 2
)

func (s *Span) otlp(trace [16]byte) otlpSpan {
	out := otlpSpan{
		TraceID: hex.EncodeToString(trace[:]), SpanID: s.ID.String(), Name: s.Name, Kind: kindInternal, Attributes: make([]otlpAttribute, 0, len(s.Attributes)+1),
		From: strconv.FormatInt(s.From.UnixNano(), 10), To: strconv.FormatInt(s.To.UnixNano(), 10),
	}
	if s.Parent != (SpanID{}) {
		out.Parent = s.Parent.String()
	}
	if s.isTask {
		out.Kind = kindConsumer
	}
	for _, a := range s.Attributes {
		out.Attributes = append(out.Attributes, otlpAttribute{a.Name, otlpOf(a.Value)})
	}
	if s.Error != "" {
		out.Attributes = append(out.Attributes, otlpAttribute{"error.type", otlpOf(s.Error)})
		out.Status = &otlpStatus{s.Error, statusError}
	}
	return out
}

func otlpOf(v any) (out otlpValue) {
	switch v := v.(type) {
	case string:
		out.String = &v
	case int64:
		out.Int = strconv.FormatInt(v, 10)
	case bool:
		out.Bool = v
	}
	return out
}

// WritePerfetto writes a trace as the events of Chrome, in JSON, which ui.perfetto.dev opens
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): each run is a process, and its tokens share as
// many threads as there were tokens at once. Instants are microseconds since the trace began.
func (t *Trace) WritePerfetto(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, `{"displayTimeUnit":"ms","otherData":{"traceId":"%x"},"traceEvents":[`, t.ID)
	p := perfetto{w: w, trace: t, runs: map[workflow.RunID]int{}}
	for i := range t.Spans {
		if i == 0 || t.Spans[i].From.Before(p.begin) {
			p.begin = t.Spans[i].From
		}
	}
	p.placeTokens()
	for i := range t.Spans {
		p.writeSpan(&t.Spans[i])
	}
	_, _ = w.WriteString("\n]}\n")
	if p.err != nil {
		return p.err
	}
	return w.Flush()
}

// A threadKey names a token, or, with the token 0, the run itself.
type threadKey struct {
	run   workflow.RunID
	token workflow.TokenID
}

// A perfetto writes a trace.
type perfetto struct {
	w     *bufio.Writer
	trace *Trace
	begin time.Time
	runs  map[workflow.RunID]int // processes, from 1
	lanes map[threadKey]int      // threads of tokens
	some  bool
	err   error
}

// firstLane is the first thread of a token; that of the run is 1.
const firstLane = 1000

// placeTokens gives each token a thread that no other has meanwhile, the lowest one that is free, and each group one.
func (p *perfetto) placeTokens() {
	p.lanes = map[threadKey]int{}
	byBegin := make([]*Span, 0, len(p.trace.Spans))
	for i := range p.trace.Spans {
		s := &p.trace.Spans[i]
		if p.runs[s.Run] == 0 {
			p.runs[s.Run] = len(p.runs) + 1
			p.writeEvent(map[string]any{"ph": "M", "name": "process_name", "pid": p.runs[s.Run], "args": map[string]any{"name": string(s.Run)}})
		}
		if s.kindOf() == "node" {
			byBegin = append(byBegin, s)
		}
	}
	slices.SortStableFunc(byBegin, func(a, b *Span) int { return a.From.Compare(b.From) })
	free := map[workflow.RunID][]time.Time{} // by thread, when the last token there has ended
	for _, s := range byBegin {
		lanes := free[s.Run]
		i := slices.IndexFunc(lanes, func(to time.Time) bool { return !to.After(s.From) })
		if i < 0 {
			i, lanes = len(lanes), append(lanes, time.Time{})
		}
		lanes[i] = s.To
		if lanes[i].Equal(s.From) {
			lanes[i] = s.From.Add(1) // two that took no time do not share it
		}
		free[s.Run] = lanes
		p.lanes[threadKey{s.Run, s.token}] = firstLane + i
	}
}

// writeSpan writes a span. Groups overlap as they like: each is an asynchronous event of its own.
func (p *perfetto) writeSpan(s *Span) {
	args := map[string]any{"spanId": s.ID.String()}
	for _, a := range s.Attributes {
		args[a.Name] = a.Value
	}
	if s.Error != "" {
		args["error.type"] = s.Error
	}
	e := map[string]any{"name": s.Name, "cat": s.kindOf(), "pid": p.runs[s.Run], "tid": 1, "ts": p.micros(s.From), "args": args}
	if s.token == 0 && s.kindOf() != "run" {
		e["ph"], e["id"] = "b", s.ID.String()
		p.writeEvent(e)
		p.writeEvent(map[string]any{"name": s.Name, "cat": s.kindOf(), "pid": p.runs[s.Run], "tid": 1, "ts": p.micros(s.To), "ph": "e", "id": s.ID.String()})
		return
	}
	e["ph"], e["dur"] = "X", s.To.Sub(s.From).Microseconds()
	if s.token != 0 {
		e["tid"] = p.lanes[threadKey{s.Run, s.token}]
	}
	p.writeEvent(e)
}

func (p *perfetto) micros(at time.Time) int64 { return at.Sub(p.begin).Microseconds() }

func (p *perfetto) writeEvent(e map[string]any) {
	text, err := json.Marshal(e)
	if err != nil {
		p.err = err
		return
	}
	if p.some {
		_ = p.w.WriteByte(',')
	}
	p.some = true
	_ = p.w.WriteByte('\n')
	_, _ = p.w.Write(text)
}
