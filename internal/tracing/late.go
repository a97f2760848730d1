package tracing

import (
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/pace"
)

// A span that is made when its work is over is not told to the provider at once, but together with others: the provider's processor, which batches
// spans for an exporter, wakes a goroutine for the first span of a batch, and that costs more than the span. A crash loses the spans that are not told yet,
// as it loses those that the exporter has not sent.
const (
	latePause = 50 * time.Millisecond // from the first of them until all are told
	maxLate   = 256                   // that are kept, unless others are being told
	mostLate  = 64 * maxLate          // that are kept in any case
)

// A lateList has the spans that are not told yet. The zero value has none.
type lateList struct {
	mu     sync.Mutex
	list   []func()
	timer  *time.Timer
	closed bool // none is kept any more

	telling sync.Mutex // held while spans are told: close waits for it
}

// tellLater keeps a span until others are told, or tells it and all that are kept. No lock of the engine may be held.
func (l *lateList) tellLater(tell func()) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		tell()
		return
	}
	l.list = append(l.list, tell)
	many := len(l.list)
	switch {
	case many > 1: // it is on
	case l.timer == nil:
		l.timer = time.AfterFunc(latePause, l.tellAll)
	default:
		l.timer.Reset(latePause)
	}
	l.mu.Unlock()
	switch {
	case many >= mostLate:
		l.tellAll()
	case many >= maxLate && l.telling.TryLock(): // a processor of spans may have come here itself
		defer l.telling.Unlock()
		l.tellKept()
	}
}

// tellAll tells the spans that are kept, in the order in which they came.
func (l *lateList) tellAll() {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.tellKept()
}

// tellKept is tellAll for the holder of the lock telling.
func (l *lateList) tellKept() {
	l.mu.Lock()
	list := l.list
	l.list = nil
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	for i, tell := range list {
		pace.Few(i) // the run that has come to the last of them, and whoever commits, would wait for all
		tell()
	}
}

// close tells the spans that are kept, and keeps none from now on.
func (l *lateList) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.tellAll()
}
