package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// MaxNames is how many names a label has at most.
	MaxNames = 200
	// Other stands for all names beyond MaxNames.
	Other = "_OTHER"
	// maxSeries is how many combinations of labels an instrument has at most, but for those of Other. It is what the SDK
	// of OpenTelemetry keeps of an instrument unless it is told otherwise.
	maxSeries = 2000
	// maxLabels is how many labels an instrument has at most.
	maxLabels = 4
)

// bounded are the labels whose values are names of the host's choice. The values of the others are in this module.
var bounded = []string{workflowLabel, typeLabel, errorLabel, tenantLabel, scheduleLabel, reportLabel}

// values are those of an instrument's labels, in the order of the table; "" is a label that is left out.
type values [maxLabels]string

// A seriesKey names one series.
type seriesKey struct {
	of     id
	values values
}

// A series has the options with which the API takes a value of one combination of labels.
type series struct {
	values  values
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

// allSeries are the series that there were so far. The zero value is ready.
type allSeries struct {
	tenants bool                        // are labels
	last    [ids]atomic.Pointer[series] // that was found

	mu    sync.RWMutex
	names map[string]map[string]bool // by label
	of    map[seriesKey]*series
	count [ids]int
}

// seriesOf returns the series of an instrument for the values of its labels. A series stands under values that are names of
// their labels, so that one which is found needs no further look.
func (a *allSeries) seriesOf(of id, v values) *series {
	if at := tenantAt[of]; at >= 0 && !a.tenants {
		v[at] = ""
	}
	// Most runs do the same as the ones before.
	if last := a.last[of].Load(); last != nil && last.values == v {
		return last
	}
	a.mu.RLock()
	s := a.of[seriesKey{of, v}]
	a.mu.RUnlock()
	if s == nil {
		return a.addSeries(of, v)
	}
	a.last[of].Store(s)
	return s
}

// tenantAt has the place of the tenant among the labels of each instrument; -1 without it.
var tenantAt = func() (at [ids]int) {
	for i := range instruments {
		at[i] = slices.Index(instruments[i].Labels, tenantLabel)
	}
	return at
}()

// valueOf returns the value of a label as far as it is known whether that is wanted.
func (a *allSeries) valueOf(label, v string) string {
	switch {
	case v == "", label == tenantLabel && !a.tenants:
		return ""
	case !slices.Contains(bounded, label), a.names[label][v], len(a.names[label]) < MaxNames:
		return v
	}
	return Other
}

// nameOf returns the name as which a label has a value, which it takes as one of its names if there is room.
func (a *allSeries) nameOf(label, v string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v = a.valueOf(label, v); v != "" {
		a.takeName(label, v)
	}
	return v
}

// takeName notes that a label has a value. The caller holds the lock.
func (a *allSeries) takeName(label, v string) {
	if a.isKnown(label, v) {
		return
	}
	if a.names == nil {
		a.names = map[string]map[string]bool{}
	}
	if a.names[label] == nil {
		a.names[label] = map[string]bool{}
	}
	a.names[label][v] = true
}

// isKnown reports whether a label has had the value.
func (a *allSeries) isKnown(label, v string) bool {
	return v == Other || !slices.Contains(bounded, label) || a.names[label][v]
}

// addSeries makes a series that is not there yet.
func (a *allSeries) addSeries(of id, v values) *series {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[seriesKey]*series{}
	}
	labels := instruments[of].Labels
	for i, label := range labels {
		if v[i] = a.valueOf(label, v[i]); v[i] != "" {
			a.takeName(label, v[i])
		}
	}
	if a.count[of] >= maxSeries && a.of[seriesKey{of, v}] == nil {
		for i, label := range labels {
			if v[i] != "" && slices.Contains(bounded, label) {
				v[i] = Other
			}
		}
	}
	key := seriesKey{of, v}
	if s := a.of[key]; s != nil {
		return s
	}
	a.count[of]++
	s := newSeries(labels, v)
	a.of[key] = s
	return s
}

// newSeries makes the options of a series.
func newSeries(labels []string, v values) *series {
	var pairs []attribute.KeyValue
	for i, label := range labels {
		if v[i] != "" {
			pairs = append(pairs, attribute.String(label, v[i]))
		}
	}
	if len(pairs) == 0 { // the API does less for no options than for an empty set
		return &series{values: v}
	}
	with := metric.WithAttributeSet(attribute.NewSet(pairs...))
	return &series{values: v, add: []metric.AddOption{with}, record: []metric.RecordOption{with}, observe: []metric.ObserveOption{with}}
}
