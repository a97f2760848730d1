package decision

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A line builds the text of one decision: a verb and its fields. Golden tests
// and traces rely on it.
//
// A line has a verb, the ids of its subject, and fields; fields without a value are left out:
//
//	dispatch-task t1 task=work attempt=1 input={"n":1} due=2030-01-01T00:01:00.000Z
//
// The journal does not hold this text, so that it may change; but then the scripts in
// planning/testdata change with it.
type line struct{ strings.Builder }

// newLine begins the text of a decision with its verb and the ids of its subject.
func newLine(verb string, args ...any) *line {
	l := &line{}
	l.WriteString(verb)
	for _, a := range args {
		fmt.Fprintf(l, " %s", value.EscapeControls(fmt.Sprint(a)))
	}
	return l
}

// addField appends key=text unless text is empty. All that is written behind the ids comes
// down to it, but for flags, which have a key alone.
func (l *line) addField(key, text string) *line {
	if text != "" {
		fmt.Fprintf(l, " %s=%s", value.EscapeControls(key), value.EscapeControls(text))
	}
	return l
}

// addJSON appends key=value as JSON, shortened, unless v is nil.
func (l *line) addJSON(key string, v any) *line {
	if v == nil {
		return l
	}
	return l.addValue(key, v)
}

// addValue appends key=value as JSON, shortened, for a value where nil says something. It
// stops after 120 bytes and says how many there were, so that a trace of large values stays
// readable. The cut may be inside a character, whose bytes are dropped.
func (l *line) addValue(key string, v any) *line {
	const most = 120
	text := string(value.Encode(v))
	if len(text) > most {
		text = fmt.Sprintf("%s...(%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
	}
	return l.addField(key, text)
}

// addObject appends key=value as JSON unless m is nil. It exists beside addJSON because a nil
// map in a variable of type any is not nil, and would be written as null.
func (l *line) addObject(key string, m map[string]any) *line {
	if m == nil {
		return l
	}
	return l.addJSON(key, m)
}

// addSums appends key=name:number, and so on, unless there are none.
func (l *line) addSums(key string, sums amount.Sums) *line {
	texts := make([]string, len(sums))
	for i, x := range sums {
		texts[i] = x.Name + ":" + x.String()
	}
	return l.addField(key, strings.Join(texts, ","))
}

// addTime appends key=instant unless t is zero. Instants of planners are whole milliseconds,
// so that nothing is lost.
func (l *line) addTime(key string, t time.Time) *line {
	if t.IsZero() {
		return l
	}
	return l.addField(key, t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// addFlag appends key if it is on.
func (l *line) addFlag(key string, on bool) *line {
	if on {
		l.WriteString(" " + key)
	}
	return l
}

// addScope appends the branch unless sc is outside any group.
func (l *line) addScope(sc workflow.Scope) *line {
	if sc.Group == 0 {
		return l
	}
	return l.addField("in", sc.String())
}

// addFailure appends the code and message of f unless it is nil. The rest of a failure, such
// as its node and attempts, is left out: the line names the token.
func (l *line) addFailure(f *workflow.Failure) *line {
	if f == nil {
		return l
	}
	text := f.Code
	if f.Message != "" {
		text += " (" + f.Message + ")"
	}
	return l.addField("error", text)
}

// joinNames returns texts joined by commas. They keep their order, which is that of the
// definition or of the caller.
func joinNames[T ~string](xs []T) string {
	texts := make([]string, len(xs))
	for i, x := range xs {
		texts[i] = string(x)
	}
	return strings.Join(texts, ",")
}

// timeText is the text of an instant, in events too.
func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

// appendTime appends what timeText returns of a time in UTC, without reading the layout for the years that have four digits.
func appendTime(text []byte, t time.Time) []byte {
	year, month, day := t.Date()
	if year < 1000 || year > 9999 {
		return t.AppendFormat(text, timeLayout)
	}
	hour, minute, second := t.Clock()
	two := func(n int, behind byte) { text = append(text, '0'+byte(n/10), '0'+byte(n%10), behind) }
	text = append(strconv.AppendInt(text, int64(year), 10), '-')
	two(int(month), '-')
	two(day, 'T')
	two(hour, ':')
	two(minute, ':')
	two(second, '.')
	ms := t.Nanosecond() / 1_000_000
	return append(text, '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

const timeLayout = "2006-01-02T15:04:05.000Z"
