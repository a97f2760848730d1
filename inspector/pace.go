package inspector

import "time"

// A frameBudget is what a page may use of a processor: a small share. While the page rests it saves some of that, so that the next move
// is seen at once. A page that was just opened has saved nothing.
//
// saved is between 0 and frameSaved. A frame that costs more than was saved is paid for by a pause of frameShare times the rest. After a
// frame of 5 ms, with nothing saved, the page rests for 995 ms; after five seconds without a move the next two are free again.
type frameBudget struct {
	saved time.Duration // of a processor
	since time.Time     // from when on it saves; zero before the first frame
}

// saveUntil adds what was saved until the beginning of a frame.
//
// Only time in which frames might have been made counts: since is the end of the last pause.
func (b *frameBudget) saveUntil(begin time.Time) {
	if !b.since.IsZero() {
		b.saved = min(b.saved+max(begin.Sub(b.since), 0)/frameShare, frameSaved)
	}
}

// chargeFrame takes what a frame has used of a processor, and returns how long nothing is made after it. It took so long on the clock,
// on which waiting counts: for an answer why, for a run that is busy, for the processor itself.
//
// The pause is at least what is missing to frameEvery, and a debt is not carried beyond frameWithin.
func (b *frameBudget) chargeFrame(cost, took time.Duration) (pause time.Duration) {
	pause = max(frameEvery-took, 0)
	if b.saved -= cost; b.saved < 0 { // it is paid for while nothing is made
		pause = max(pause, min(-b.saved*frameShare, frameWithin))
		b.saved = 0
	}
	b.since = time.Now().Add(pause)
	return pause
}

// whyPause returns how long after an answer why, which took so long, the next one is not worked out.
func whyPause(took time.Duration) time.Duration { return min(whyShare*took, whyWithin) }
