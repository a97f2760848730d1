// Package metertest records what an engine counts, in place of the SDK of OpenTelemetry. Tests read the figures by name and
// labels.
package metertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// An Instrument is one that was made.
type Instrument struct{ Name, Kind, Unit, Text string }

// A Provider keeps what it is told. Its zero value is ready.
type Provider struct {
	noop.MeterProvider
	mu        sync.Mutex
	made      []Instrument
	sums      map[string]float64 // of counters and of the values of histograms, by series
	counts    map[string]int     // of values
	callbacks []*registration
}

// Meter implements metric.MeterProvider.
func (p *Provider) Meter(string, ...metric.MeterOption) metric.Meter { return meter{p: p} }

// Instruments returns what was made, by name.
func (p *Provider) Instruments() []Instrument {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(slices.Values(p.made), func(a, b Instrument) int { return strings.Compare(a.Name, b.Name) })
}

// Collect asks for the gauges, and returns them by series: name{label=value,...}, with the labels sorted.
func (p *Provider) Collect(ctx context.Context) map[string]float64 {
	p.mu.Lock()
	callbacks := slices.Clone(p.callbacks)
	p.mu.Unlock()
	o := &observer{seen: map[string]float64{}}
	for _, c := range callbacks {
		if err := c.call(ctx, o); err != nil {
			panic(err)
		}
	}
	return o.seen
}

// Sums returns the sums of counters and of the values of histograms, by series.
func (p *Provider) Sums() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.sums)
}

// Counts returns how many values each series of a counter or histogram was given.
func (p *Provider) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// keepValue keeps a value.
func (p *Provider) keepValue(name string, v float64, set attribute.Set) {
	key := seriesName(name, set)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sums == nil {
		p.sums, p.counts = map[string]float64{}, map[string]int{}
	}
	p.sums[key] += v
	p.counts[key]++
}

// seriesName returns the name of a series.
func seriesName(name string, set attribute.Set) string {
	var labels []string
	for _, kv := range set.ToSlice() {
		labels = append(labels, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

// keepInstrument keeps that an instrument was made.
func (p *Provider) keepInstrument(name, kind, unit, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, Instrument{name, kind, unit, text})
}

type meter struct {
	noop.Meter
	p *Provider
}

// Int64Counter implements metric.Meter.
func (m meter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	c := metric.NewInt64CounterConfig(o...)
	m.p.keepInstrument(name, "counter", c.Unit(), c.Description())
	return counter{p: m.p, name: name}, nil
}

// Float64Counter implements metric.Meter.
func (m meter) Float64Counter(name string, o ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	c := metric.NewFloat64CounterConfig(o...)
	m.p.keepInstrument(name, "counter", c.Unit(), c.Description())
	return realCounter{p: m.p, name: name}, nil
}

// Int64ObservableCounter implements metric.Meter.
func (m meter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	c := metric.NewInt64ObservableCounterConfig(o...)
	m.p.keepInstrument(name, "counter", c.Unit(), c.Description())
	return readCounter{name: name}, nil
}

// Float64Histogram implements metric.Meter.
func (m meter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(o...)
	m.p.keepInstrument(name, "histogram", c.Unit(), c.Description())
	return histogram{p: m.p, name: name}, nil
}

// Int64ObservableGauge implements metric.Meter.
func (m meter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	c := metric.NewInt64ObservableGaugeConfig(o...)
	m.p.keepInstrument(name, "gauge", c.Unit(), c.Description())
	return wholeGauge{name: name}, nil
}

// Float64ObservableGauge implements metric.Meter.
func (m meter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	c := metric.NewFloat64ObservableGaugeConfig(o...)
	m.p.keepInstrument(name, "gauge", c.Unit(), c.Description())
	return realGauge{name: name}, nil
}

// RegisterCallback implements metric.Meter.
func (m meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	r := &registration{p: m.p, call: f}
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.callbacks = append(m.p.callbacks, r)
	return r, nil
}

type registration struct {
	noop.Registration
	p    *Provider
	call metric.Callback
}

// Unregister implements metric.Registration.
func (r *registration) Unregister() error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.callbacks = slices.DeleteFunc(r.p.callbacks, func(x *registration) bool { return x == r })
	return nil
}

type counter struct {
	noop.Int64Counter
	p    *Provider
	name string
}

// Add implements metric.Int64Counter.
func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	of := metric.NewAddConfig(o)
	c.p.keepValue(c.name, float64(n), of.Attributes())
}

type realCounter struct {
	noop.Float64Counter
	p    *Provider
	name string
}

// Add implements metric.Float64Counter.
func (c realCounter) Add(_ context.Context, v float64, o ...metric.AddOption) {
	of := metric.NewAddConfig(o)
	c.p.keepValue(c.name, v, of.Attributes())
}

type histogram struct {
	noop.Float64Histogram
	p    *Provider
	name string
}

// Record implements metric.Float64Histogram.
func (h histogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	of := metric.NewRecordConfig(o)
	h.p.keepValue(h.name, v, of.Attributes())
}

// A named instrument is one that a collection asks.
type named interface{ instrumentName() string }

type readCounter struct {
	noop.Int64ObservableCounter
	name string
}

func (c readCounter) instrumentName() string { return c.name }

func (g wholeGauge) instrumentName() string { return g.name }

type wholeGauge struct {
	noop.Int64ObservableGauge
	name string
}

type realGauge struct {
	noop.Float64ObservableGauge
	name string
}

type observer struct {
	noop.Observer
	seen map[string]float64
}

// ObserveInt64 implements metric.Observer.
func (o *observer) ObserveInt64(of metric.Int64Observable, n int64, with ...metric.ObserveOption) {
	c := metric.NewObserveConfig(with)
	o.noteValue(of.(named).instrumentName(), float64(n), c.Attributes())
}

// ObserveFloat64 implements metric.Observer.
func (o *observer) ObserveFloat64(of metric.Float64Observable, v float64, with ...metric.ObserveOption) {
	c := metric.NewObserveConfig(with)
	o.noteValue(of.(realGauge).name, v, c.Attributes())
}

// noteValue keeps a value, of which a collection has one for each series.
func (o *observer) noteValue(name string, v float64, set attribute.Set) {
	key := seriesName(name, set)
	if _, twice := o.seen[key]; twice {
		panic(key + " is observed twice")
	}
	o.seen[key] = v
}
