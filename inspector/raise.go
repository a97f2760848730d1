package inspector

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/workflow"
)

// limitPrefix begins the names of the fields of a form that say what a limit of reports is raised to.
const limitPrefix = "limit."

// A limitField asks for the new value of a limit, which has a value now.
type limitField struct{ Name, Now, Text string }

// readLimits returns the fields that say what limits are raised to, by the names of the limits.
func readLimits(values url.Values) map[string]string {
	out := map[string]string{}
	for key := range values {
		if name, ok := strings.CutPrefix(key, limitPrefix); ok && values.Get(key) != "" {
			out[name] = strings.TrimSpace(values.Get(key))
		}
	}
	return out
}

// parseLimits returns what a form raises limits to. Its errors are errAct.
func parseLimits(texts map[string]string) (map[string]float64, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("%w: say which limit is raised", errAct)
	}
	out := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		number, err := strconv.ParseFloat(texts[name], 64)
		if err != nil {
			return nil, fmt.Errorf("%w: the limit of %s is no number", errAct, name)
		}
		out[name] = number
	}
	return out, nil
}

// limitFields returns the fields of a form for the limits of a run.
func (s *server) limitFields(p *page, id workflow.RunID, texts map[string]string) []limitField {
	ov, err := s.engine.Overview(p.r.Context(), id)
	if err != nil { // the effects say so
		return nil
	}
	var out []limitField
	for _, name := range slices.Sorted(maps.Keys(ov.MetaLimits)) {
		now := numberText(ov.MetaLimits[name])
		text, ok := texts[name]
		if !ok {
			text = now
		}
		out = append(out, limitField{name, now, text})
	}
	return out
}

// numberText returns a number with all its digits.
func numberText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// reportText says what results have reported, and of which limits; "" if they have not, or for those who may not see values.
func (p *page) reportText(meta, below, limits map[string]float64) string {
	if !p.seesTexts() {
		return ""
	}
	total := amount.FromFloats(meta).Plus(amount.FromFloats(below)).Floats()
	names := slices.Concat(slices.Collect(maps.Keys(total)), slices.Collect(maps.Keys(limits)))
	slices.Sort(names)
	var out []string
	for _, name := range slices.Compact(names) {
		text := name + " " + numberText(total[name])
		if limit, ok := limits[name]; ok {
			text += " of " + numberText(limit)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
