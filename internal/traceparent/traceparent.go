// Package traceparent reads and writes W3C Trace Context (https://www.w3.org/TR/trace-context/), and carries it between contexts
// and headers. It takes the place of the propagators of OpenTelemetry, which come with the global ones.
package traceparent

import (
	"context"
	"encoding/hex"
	"net/http"

	"go.opentelemetry.io/otel/trace"
)

// The names of the headers, and of the variables of the environment that OpenTelemetry has for programs.
const (
	Header      = "traceparent"
	StateHeader = "tracestate"
	Variable    = "TRACEPARENT"
	StateVar    = "TRACESTATE"
)

// The length of a traceparent of version 00, which those of later versions begin with, and that of the longest tracestate.
const (
	length   = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	maxState = 512
)

// Format returns the headers of a span; "" of one that is not valid. A tracestate of more than 512 bytes is left out.
func Format(sc trace.SpanContext) (parent, state string) {
	if !sc.IsValid() {
		return "", ""
	}
	id, span := sc.TraceID(), sc.SpanID()
	text := append(make([]byte, 0, length), "00-"...)
	text = append(hex.AppendEncode(text, id[:]), '-')
	text = append(hex.AppendEncode(text, span[:]), '-')
	text = hex.AppendEncode(text, []byte{byte(sc.TraceFlags())})
	if state = sc.TraceState().String(); len(state) > maxState {
		state = ""
	}
	return string(text), state
}

// Parse returns the span that headers name, as one of another process; one that is not valid if parent is not a traceparent. As the
// standard asks, a text that is no tracestate is left out.
func Parse(parent, state string) trace.SpanContext {
	var raw [1 + 16 + 8 + 1]byte
	if len(parent) < length || len(parent) > length && (parent[:2] == "00" || parent[length] != '-') {
		return trace.SpanContext{}
	}
	at := 0
	for _, part := range [...]struct{ from, to int }{{0, 2}, {3, 35}, {36, 52}, {53, 55}} {
		if part.to < length && parent[part.to] != '-' || !isLowerHex(parent[part.from:part.to]) {
			return trace.SpanContext{}
		}
		n, err := hex.Decode(raw[at:], []byte(parent[part.from:part.to]))
		if at += n; err != nil {
			return trace.SpanContext{}
		}
	}
	if raw[0] == 0xff {
		return trace.SpanContext{}
	}
	c := trace.SpanContextConfig{TraceID: trace.TraceID(raw[1:17]), SpanID: trace.SpanID(raw[17:25]), TraceFlags: trace.TraceFlags(raw[25]), Remote: true}
	if len(state) <= maxState {
		c.TraceState, _ = trace.ParseTraceState(state)
	}
	sc := trace.NewSpanContext(c)
	if !sc.IsValid() {
		return trace.SpanContext{}
	}
	return sc
}

// isLowerHex reports whether a text has no capital letters, which the standard refuses.
func isLowerHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 'A' && c <= 'F' {
			return false
		}
	}
	return true
}

// Of returns the headers of the span that a context is in; "" outside of any.
func Of(ctx context.Context) (parent, state string) {
	return Format(trace.SpanContextFromContext(ctx))
}

// SetHeaders sets the headers of a request that is made in a context, if that is in a span.
func SetHeaders(ctx context.Context, h http.Header) {
	parent, state := Of(ctx)
	if parent == "" {
		return
	}
	h.Set(Header, parent)
	if state != "" {
		h.Set(StateHeader, state)
	}
}

// With returns a context in the span that headers name, to which a handler's own spans belong; ctx itself if they name none.
func With(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	sc := Parse(parent, state)
	if !sc.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}
