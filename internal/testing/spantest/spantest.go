// Package spantest records the spans of an engine, in place of the SDK of OpenTelemetry. As with a synchronous exporter, a span is told
// when it ends: a file gets it as a line, which the death of the process does not take away.
package spantest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A Span is one that has ended.
type Span struct {
	Name       string         `json:"name"`
	Kind       string         `json:"kind"`
	Trace      string         `json:"trace"`
	ID         string         `json:"id"`
	Parent     string         `json:"parent,omitempty"` // "" of a root
	State      string         `json:"state,omitempty"`
	Links      []string       `json:"links,omitempty"` // TRACE/ID
	Begin      time.Time      `json:"begin"`
	End        time.Time      `json:"end"`
	Error      string         `json:"error,omitempty"` // the description of the status error
	Attributes map[string]any `json:"attributes"`
}

// A Provider keeps what it is told. Its zero value is ready.
type Provider struct {
	noop.TracerProvider
	To io.Writer // gets each span that ends as a line; nil without

	mu    sync.Mutex
	begun int
	ended []Span
	grown chan struct{} // closed by the next span that ends; nil if nobody waits
}

// Tracer implements trace.TracerProvider.
func (p *Provider) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{p: p} }

// Spans returns the spans that have ended, in the order in which they did.
func (p *Provider) Spans() []Span {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ended)
}

// Begun returns how many spans were begun.
func (p *Provider) Begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// Named returns the spans of a name.
func (p *Provider) Named(name string) (out []Span) {
	return slices.DeleteFunc(p.Spans(), func(s Span) bool { return s.Name != name })
}

// patience is how long Await waits before it fails.
const patience = 5 * time.Minute

// Await returns the spans of a name as soon as there are so many: an engine tells what came of a commit before the spans of the commit end.
func (p *Provider) Await(t testing.TB, name string, count int) []Span {
	t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		if p.grown == nil {
			p.grown = make(chan struct{})
		}
		grown := p.grown
		p.mu.Unlock()
		if found := p.Named(name); len(found) >= count {
			return found
		}
		select {
		case <-grown:
		case <-late:
			require.FailNow(t, "spans are missing", "%d %s wanted among %v", count, name, Names(p.Spans()))
		}
	}
}

// Find returns the only span of a name, for which it waits.
func (p *Provider) Find(t testing.TB, name string) Span {
	t.Helper()
	found := p.Await(t, name, 1)
	require.Len(t, found, 1, "%s among %v", name, Names(p.Spans()))
	return found[0]
}

// Names returns how many spans there are of each name, as text.
func Names(spans []Span) string {
	counts := map[string]int{}
	for i := range spans {
		counts[spans[i].Name]++
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%d %s; ", counts[name], name)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// ReadLines returns the spans that a file has.
func ReadLines(t testing.TB, text string) (out []Span) {
	t.Helper()
	for line := range strings.Lines(text) {
		var s Span
		require.NoError(t, json.Unmarshal([]byte(line), &s))
		out = append(out, s)
	}
	return out
}

// RequireWhole fails if the parent of a span, or what it links to, is not among the spans, or comes after it; but for those of outside, as
// TRACE/ID. No id is there twice.
func RequireWhole(t testing.TB, spans []Span, outside ...string) {
	t.Helper()
	known := map[string]bool{}
	for _, id := range outside {
		known[id] = true
	}
	for i := range spans {
		s := &spans[i]
		require.False(t, known[s.Trace+"/"+s.ID], "%s twice", s.Name)
		if s.Parent != "" {
			require.True(t, known[s.Trace+"/"+s.Parent], "the parent of %s %v is missing", s.Name, s.Attributes)
		}
		for _, link := range s.Links {
			require.True(t, known[link], "what %s links to is missing", s.Name)
		}
		require.False(t, s.End.Before(s.Begin), "%s ends before it begins", s.Name)
		known[s.Trace+"/"+s.ID] = true
	}
}

type tracer struct {
	noop.Tracer
	p *Provider
}

// Start implements trace.Tracer.
func (r tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	s := &span{p: r.p, told: Span{Name: name, Kind: c.SpanKind().String(), Begin: c.Timestamp(), Attributes: map[string]any{}}}
	parent := trace.SpanContextFromContext(ctx)
	of := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}
	if c.NewRoot() || !parent.IsValid() {
		_, _ = rand.Read(of.TraceID[:])
	} else {
		of.TraceID, of.TraceState, of.TraceFlags = parent.TraceID(), parent.TraceState(), parent.TraceFlags()
		s.told.Parent, s.told.State = parent.SpanID().String(), parent.TraceState().String()
	}
	_, _ = rand.Read(of.SpanID[:])
	s.sc = trace.NewSpanContext(of)
	s.told.Trace, s.told.ID = s.sc.TraceID().String(), s.sc.SpanID().String()
	for _, l := range c.Links() {
		s.told.Links = append(s.told.Links, l.SpanContext.TraceID().String()+"/"+l.SpanContext.SpanID().String())
	}
	s.SetAttributes(c.Attributes()...)
	if s.told.Begin.IsZero() {
		s.told.Begin = time.Now()
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.begun++
	return trace.ContextWithSpan(ctx, s), s
}

type span struct {
	noop.Span
	p  *Provider
	sc trace.SpanContext

	mu   sync.Mutex
	told Span
}

// SpanContext implements trace.Span.
func (s *span) SpanContext() trace.SpanContext { return s.sc }

// IsRecording implements trace.Span.
func (s *span) IsRecording() bool { return true }

// TracerProvider implements trace.Span.
func (s *span) TracerProvider() trace.TracerProvider { return s.p }

// SetAttributes implements trace.Span.
func (s *span) SetAttributes(kv ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range kv {
		s.told.Attributes[string(a.Key)] = a.Value.AsInterface()
	}
}

// SetStatus implements trace.Span.
func (s *span) SetStatus(code codes.Code, description string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code == codes.Error {
		s.told.Error = description
	}
}

// End implements trace.Span.
func (s *span) End(opts ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(opts...)
	s.mu.Lock()
	if s.told.End = c.Timestamp(); s.told.End.IsZero() {
		s.told.End = time.Now()
	}
	told := s.told
	s.mu.Unlock()
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.ended = append(s.p.ended, told)
	if s.p.grown != nil {
		close(s.p.grown)
		s.p.grown = nil
	}
	if s.p.To != nil {
		line, _ := json.Marshal(told)
		_, _ = s.p.To.Write(append(line, '\n'))
	}
}
