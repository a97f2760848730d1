package worker

import (
	"net/http"
	"sync"
	"time"
)

// refusalPause is the time between two lines of the log about callers that are refused.
const refusalPause = time.Minute

// A refusalLog counts the requests that were refused since the log was told of them.
// told is zero before the first line. A wrong token tried a thousand times a second makes one line a
// minute, with the number.
type refusalLog struct {
	mu    sync.Mutex
	told  time.Time
	count int
}

// isDue counts a refusal, and returns how many there were since the last line, if the next
// is due.
func (l *refusalLog) isDue(now time.Time) (count int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if !l.told.IsZero() && now.Sub(l.told) < refusalPause {
		return 0, false
	}
	count, l.count, l.told = l.count, 0, now
	return count, true
}

// logRefusal tells the log of a caller whom the pool does not serve: of a wrong token nobody
// else hears.
func (p *Pool) logRefusal(r *http.Request, cause error) {
	if count, due := p.refused.isDue(time.Now()); due {
		p.options.Logger.Warn("worker: callers are refused", "address", r.RemoteAddr, "requests", count, "error", cause)
	}
}
