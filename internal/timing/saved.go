package timing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxSaved is how many bytes Restore reads at most.
const MaxSaved = 256 << 20

// A savedCounters is what Save writes, as JSON. Fields may be added; a reader passes over those that it does not know.
type savedCounters struct {
	Format int           `json:"format"` // 1
	Since  time.Time     `json:"since"`
	Series []savedSeries `json:"series"`
}

// A savedSeries is one series; each ring is from the oldest on.
type savedSeries struct {
	Workflow string     `json:"workflow"`
	Node     string     `json:"node"`
	Type     string     `json:"type"`
	Now      savedSum   `json:"now"`
	Minutes  []savedSum `json:"minutes,omitempty"`
	Hours    []savedSum `json:"hours,omitempty"`
	Days     []savedSum `json:"days,omitempty"`
}

// A savedSum has each histogram as bucket, count, bucket, count and so on.
type savedSum struct {
	At     int64    `json:"at"`
	N      int64    `json:"n"`
	Failed int64    `json:"failed,omitempty"`
	Queue  []uint32 `json:"queue,omitempty"`
	Work   []uint32 `json:"work,omitempty"`
}

// Save returns all that was counted, for Restore, and whether anything was since Restore.
func (c *Counters) Save() (saved []byte, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changed {
		return nil, false
	}
	out := savedCounters{Format: 1, Since: c.since}
	for n, s := range c.of {
		out.Series = append(out.Series, savedSeries{
			Workflow: n.Workflow, Node: n.Node, Type: n.Type, Now: saveSum(&s.now),
			Minutes: saveRing(s.rings[minutes]), Hours: saveRing(s.rings[hours]), Days: saveRing(s.rings[days]),
		})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(fmt.Sprintf("timing: numbers and texts have no JSON: %v", err))
	}
	return text, true
}

func saveRing(ring []sum) (out []savedSum) {
	for i := range ring {
		out = append(out, saveSum(&ring[i]))
	}
	return out
}

func saveSum(s *sum) savedSum {
	return savedSum{At: s.at, N: s.n, Failed: s.failed, Queue: saveCells(s.queue), Work: saveCells(s.work)}
}

func saveCells(h histogram) (out []uint32) {
	for _, c := range h {
		out = append(out, uint32(c.bucket), c.n)
	}
	return out
}

var errSaved = errors.New("they are not as they were saved")

// Restore takes what Save has returned, in place of what is counted. After an error there is nothing counted.
func (c *Counters) Restore(saved []byte) error {
	var in savedCounters
	if err := json.Unmarshal(saved, &in); err != nil {
		return fmt.Errorf("%w: %w", errSaved, err)
	}
	if in.Format != 1 || len(in.Series) > MaxSeries+1 {
		return errSaved
	}
	of := map[Name]*series{}
	for i := range in.Series {
		s, err := restoreSeries(&in.Series[i])
		if err != nil {
			return err
		}
		of[s.name] = s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.last, c.since, c.changed = of, nil, in.Since, false
	return nil
}

func restoreSeries(in *savedSeries) (s *series, err error) {
	s = &series{name: Name{in.Workflow, in.Node, in.Type}}
	if s.now, err = restoreSum(&in.Now); err != nil {
		return nil, err
	}
	for i, ring := range [spans][]savedSum{in.Minutes, in.Hours, in.Days} {
		for j := range ring {
			one, err := restoreSum(&ring[j])
			if err != nil || j > 0 && one.at <= ring[j-1].At || int64(len(ring)) > spanOf[i].kept {
				return nil, errSaved
			}
			s.rings[i] = append(s.rings[i], one)
		}
	}
	return s, nil
}

func restoreSum(in *savedSum) (s sum, err error) {
	s = sum{at: in.At, n: in.N, failed: in.Failed}
	s.queue, err = restoreCells(in.Queue)
	if err == nil {
		s.work, err = restoreCells(in.Work)
	}
	if s.n < 0 || s.failed < 0 || s.failed > s.n || s.at < 0 {
		err = errSaved
	}
	return s, err
}

func restoreCells(in []uint32) (h histogram, err error) {
	for pair := range slices.Chunk(in, 2) {
		if len(pair) < 2 || pair[0] >= buckets || len(h) > 0 && uint32(h[len(h)-1].bucket) >= pair[0] {
			return nil, errSaved
		}
		h = append(h, cell{uint16(pair[0]), pair[1]})
	}
	return h, nil
}
