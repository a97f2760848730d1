package telemetry

import (
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// Figures that parts of the program beside the engine know.
const (
	SeatsHeld     = "seats.held"     // tasks that workers hold
	SeatsFree     = "seats.free"     // tasks that they would take besides
	LeasesExpired = "leases.expired" // a number that only grows
	Viewers       = "viewers"        // of live pages
)

// figureOf says which series a figure is.
var figureOf = map[string]seriesKey{
	SeatsHeld:     {workerSeats, values{"held"}},
	SeatsFree:     {workerSeats, values{"free"}},
	LeasesExpired: {leasesExpired, values{}},
	Viewers:       {pageViewers, values{}},
}

// Errors of AddFigure.
var (
	ErrNoFigure = errors.New("there is no such figure, or nothing to read it with")
	ErrReaders  = fmt.Errorf("%d figures are observed already", maxReaders)
)

// maxReaders is how many readers there are at most: an engine has a few parts beside it.
const maxReaders = 1000

// figures are what others know. The zero value has none.
type figures struct {
	mu sync.Mutex
	of []figure
}

// A figure is one that somebody reads. A counter begins at 0 with the engine.
type figure struct {
	key  seriesKey
	read func() int64
	from int64
}

// AddFigure has collections read a figure, added to what others read of it, until Close. It fails with ErrNoFigure if nothing
// has this name, and with ErrReaders if there are too many readers. Without metrics it adds nothing.
func (m *Metrics) AddFigure(name string, read func() int64) error {
	key, ok := figureOf[name]
	if !ok || read == nil {
		return ErrNoFigure
	}
	if m == nil {
		return nil
	}
	f := figure{key: key, read: read}
	if instruments[key.of].read {
		f.from = read()
	}
	m.figures.mu.Lock()
	defer m.figures.mu.Unlock()
	if len(m.figures.of) >= maxReaders {
		return ErrReaders
	}
	m.figures.of = append(m.figures.of, f)
	return nil
}

// observeFigures tells what others know, as far as somebody does.
func (m *Metrics) observeFigures(o metric.Observer) {
	m.figures.mu.Lock()
	all := m.figures.of[:len(m.figures.of):len(m.figures.of)]
	m.figures.mu.Unlock()
	sums := map[seriesKey]int64{}
	for _, f := range all {
		sums[f.key] += f.read() - f.from
	}
	for key, n := range sums {
		if instruments[key.of].read {
			o.ObserveInt64(m.reads[key.of], n, m.series.seriesOf(key.of, key.values).observe...)
			continue
		}
		m.observeCount(o, key.of, n, key.values)
	}
}
