package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cron is an expression of five fields: minute, hour, day of the month, month, day of the week. It speaks of times on
// the clock of a zone; an instant has one only together with the zone. Each field is the set of its values, bit n for
// value n.
//
// The language is that of the crontab of POSIX and Vixie cron: lists, ranges, steps, names. As there, a day has to fit
// one of the two fields of days if neither begins with *, and else both.
type cron struct {
	minutes, hours, days, months, weekdays uint64
	eitherDay                              bool // a day fits if one of days and weekdays has it
	elapsed                                bool // the hours are a wildcard or have a step

	free *freeDays // nil without exceptions
}

// A freeDays has the days on which exceptions leave a time of an expression: by month and day of the month, from 0, bit n for the day n
// of the week. A search passes over all others, however many exceptions there are.
type freeDays [12][31]uint8

// A cronField is one of the five.
type cronField struct {
	noun     string
	min, max int
	names    []string // from min
}

var cronFields = []cronField{
	{noun: "minute", min: 0, max: 59},
	{noun: "hour", min: 0, max: 23},
	{noun: "day of the month", min: 1, max: 31},
	{noun: "month", min: 1, max: 12, names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")},
	{noun: "day of the week", min: 0, max: 7, names: strings.Fields("SUN MON TUE WED THU FRI SAT")},
}

// macros are short forms, and what they stand for.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// maxCron bounds an expression, in bytes.
const maxCron = 1_000

// parseCron reads an expression, and refuses one that no date fits.
func parseCron(text string) (*cron, error) {
	if len(text) > maxCron {
		return nil, fmt.Errorf("%d bytes are more than %d", len(text), maxCron)
	}
	if strings.HasPrefix(text, "@") {
		long, ok := macros[strings.ToLower(text)]
		if !ok {
			return nil, fmt.Errorf("%q is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; for @every there is the field every", text)
		}
		text = long
	}
	parts := strings.Fields(text)
	switch {
	case len(parts) > 0 && strings.Contains(parts[0], "TZ="):
		return nil, errors.New("the zone is the field timezone of the schedule")
	case len(parts) == len(cronFields)+1:
		return nil, errors.New("six fields: there are neither seconds nor years, only minute, hour, day of the month, month, day of the week; for seconds there is the field every")
	case len(parts) != len(cronFields):
		return nil, fmt.Errorf("%d fields, not five: minute, hour, day of the month, month, day of the week", len(parts))
	}
	var sets [5]uint64
	for i, part := range parts {
		set, err := cronFields[i].parseField(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cronFields[i].noun, err)
		}
		sets[i] = set
	}
	const sunday, all = 1 << 7, 1<<24 - 1
	if sets[4]&sunday != 0 {
		sets[4] = sets[4]&^sunday | 1
	}
	c := &cron{minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4]}
	c.eitherDay = !isWild(parts[2]) && !isWild(parts[4])
	c.elapsed = strings.ContainsAny(parts[1], "*/") || c.hours == all
	if !c.hasDate() {
		return nil, errors.New("there is no such date: none of the months has such a day")
	}
	return c, nil
}

// isWild reports whether a field of days begins with a wildcard.
func isWild(field string) bool { return field[0] == '*' || field[0] == '?' }

// parseField reads a field: items with commas between them.
func (f *cronField) parseField(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		one, err := f.parseItem(item)
		if err != nil {
			return 0, err
		}
		set |= one
	}
	return set, nil
}

// parseItem reads *, a value, or a range, each with or without a step. A value with a step is a range to the end.
func (f *cronField) parseItem(item string) (set uint64, err error) {
	span, stepText, stepped := strings.Cut(item, "/")
	from, to := f.min, f.max
	switch low, high, isRange := strings.Cut(span, "-"); {
	case span == "*", span == "?" && strings.HasPrefix(f.noun, "day"):
		if f.names != nil && f.min == 0 {
			to = f.max - 1 // Sunday is there twice
		}
	case isRange:
		if from, err = f.parseValue(low); err != nil {
			return 0, err
		}
		if to, err = f.parseValue(high); err != nil {
			return 0, err
		}
		if to == 0 && from > 0 && f.max == 7 {
			to = 7 // a week that ends with Sunday
		}
		if from > to {
			return 0, fmt.Errorf("%q ends before it begins: write two ranges with a comma between them", item)
		}
	default:
		if from, err = f.parseValue(span); err != nil {
			return 0, err
		}
		if !stepped {
			to = from
		}
	}
	step := 1
	if stepped {
		if step, err = f.parseStep(stepText); err != nil {
			return 0, err
		}
	}
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set, nil
}

// parseStep reads what comes behind a slash. A step that reaches beyond the field would be the first value alone, which
// nobody means who writes it.
func (f *cronField) parseStep(text string) (int, error) {
	step, err := parseDigits(text)
	switch {
	case err != nil:
		return 0, err
	case step == 0:
		return 0, errors.New("a step of 0")
	case step > f.max-f.min:
		return 0, fmt.Errorf("a step of %d reaches beyond the field, which ends at %d; for other intervals there is the field every", step, f.max)
	}
	return step, nil
}

// parseValue reads a number or a name.
func (f *cronField) parseValue(text string) (int, error) {
	if i := slices.IndexFunc(f.names, func(name string) bool { return strings.EqualFold(name, text) }); i >= 0 {
		return f.min + i, nil
	}
	if text != "" && strings.Trim(text, "LW#0123456789") == "" && strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q: L, W and # are not there; a later day of a month can be found by an expression of the workflow", text)
	}
	v, err := parseDigits(text)
	if err != nil {
		return 0, err
	}
	if v < f.min || v > f.max {
		return 0, fmt.Errorf("%s is not in %d..%d", text, f.min, f.max)
	}
	return v, nil
}

// parseDigits reads digits: a sign is none of them.
func parseDigits(text string) (int, error) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q is neither a number nor a name", text)
	}
	return strconv.Atoi(text)
}

// A wall is a time on a clock without its zone, in seconds since 1970-01-01 00:00 on that clock.
type wall int64

func (w wall) date() time.Time { return time.Unix(int64(w), 0).UTC() }

const (
	minute = 60
	day    = 24 * 60 * minute
	// horizon bounds a search, in seconds: 29 February on a given weekday is at most 40 years away.
	horizon = 41 * 366 * day
)

// monthDays are the days of the months of a leap year.
var monthDays = [12]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// hasDate reports whether there is a date that fits. All dates of a leap year are looked at, on any weekday: within 40
// years each is on each.
func (c *cron) hasDate() bool {
	for i, n := range monthDays {
		hasMonth := c.months&(1<<(i+1)) != 0
		if hasMonth && (c.eitherDay || c.days&(1<<(n+1)-1) != 0) {
			return true
		}
	}
	return false
}

// fitsDay reports whether a date fits.
func (c *cron) fitsDay(t time.Time) bool {
	if c.months&(1<<t.Month()) == 0 {
		return false
	}
	days, weekdays := c.days&(1<<t.Day()) != 0, c.weekdays&(1<<t.Weekday()) != 0
	if c.eitherDay {
		return days || weekdays
	}
	return days && weekdays
}

// fitsClock reports whether a time on the clock fits; its seconds do not matter.
func (c *cron) fitsClock(w wall) bool {
	t := w.date()
	return c.minutes&(1<<t.Minute()) != 0 && c.hours&(1<<t.Hour()) != 0 && c.fitsDay(t)
}

// next returns the first time from w on, and before end, that fits, and that none of the exceptions has. It goes from day
// to day, and from month to month where no day fits.
func (c *cron) next(w, end wall, except []*cron) (wall, bool) {
	w += (minute - w%minute) % minute // to the next full minute, also before 1970, where the remainder is negative
	for w < end {
		t := w.date()
		midnight := w - wall(t.Hour()*60+t.Minute())*minute
		switch {
		case c.months&(1<<t.Month()) == 0, len(except) > 0 && !c.free.hasMonth(t.Month()):
			w = wall(time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix())
			continue
		case c.fitsDay(t) && (len(except) == 0 || c.free.hasDay(t)):
			if found, ok := c.nextOfDay(t, except); ok {
				found += midnight
				return found, found < end
			}
		}
		w = midnight + day
	}
	return 0, false
}

// nextOfDay returns the first time from t on that fits and no exception has, in seconds of its day.
func (c *cron) nextOfDay(t time.Time, except []*cron) (wall, bool) {
	from := t.Minute()
	for hour := t.Hour(); hour < 24; hour++ {
		if c.hours&(1<<hour) != 0 {
			left := c.minutes >> from << from
			for _, e := range except {
				if left == 0 {
					break
				}
				if e.hours&(1<<hour) != 0 && e.fitsDay(t) {
					left &^= e.minutes
				}
			}
			if left != 0 {
				return wall(hour*60+bits.TrailingZeros64(left)) * minute, true
			}
		}
		from = 0
	}
	return 0, false
}

// weekdaysOf returns the days of the week on which a day of a month fits, bit n for the day n.
func (c *cron) weekdaysOf(month, day int) uint8 {
	const all = 1<<7 - 1
	hasDay := c.days&(1<<day) != 0
	switch {
	case c.months&(1<<month) == 0, !hasDay && !c.eitherDay:
		return 0
	case hasDay && c.eitherDay:
		return all
	}
	return uint8(c.weekdays & all)
}

// markFree notes in each expression the days on which exceptions leave a time of it.
func markFree(crons, except []*cron) {
	if len(crons) == 0 || len(except) == 0 {
		return
	}
	for _, c := range crons {
		c.free = &freeDays{}
	}
	for i, n := range monthDays {
		for d := range n {
			var touched uint8 // by exceptions
			for _, e := range except {
				touched |= e.weekdaysOf(i+1, d+1)
			}
			for _, c := range crons {
				c.free[i][d] = c.weekdaysOf(i+1, d+1) &^ touched
			}
			for rest := touched; rest != 0; rest &= rest - 1 {
				markTouched(crons, except, i, d, rest&-rest)
			}
		}
	}
}

// markTouched is markFree for one day of a month, from 0, and the bit of a day of the week that exceptions have.
func markTouched(crons, except []*cron, month, day int, weekday uint8) {
	free := freeOf(except, month+1, day+1, weekday)
	for _, c := range crons {
		if c.weekdaysOf(month+1, day+1)&weekday == 0 {
			continue
		}
		for rest := c.hours; rest != 0; rest &= rest - 1 {
			if c.minutes&free[bits.TrailingZeros64(rest)] != 0 {
				c.free[month][day] |= weekday
				break
			}
		}
	}
}

// A dayMinutes has some minutes of a day: by hour, bit n for the minute n.
type dayMinutes [24]uint64

// freeOf returns the minutes that exceptions leave of a day of a month, given the bit of its day of the week.
func freeOf(except []*cron, month, day int, weekday uint8) (free dayMinutes) {
	for hour := range free {
		free[hour] = 1<<60 - 1
	}
	for _, e := range except {
		if e.weekdaysOf(month, day)&weekday == 0 {
			continue
		}
		for rest := e.hours; rest != 0; rest &= rest - 1 {
			free[bits.TrailingZeros64(rest)] &^= e.minutes
		}
	}
	return free
}

// nextMinute returns the first of the minutes, from one on.
func (m *dayMinutes) nextMinute(from int) (int, bool) {
	skip := from % 60
	for hour := from / 60; hour < len(m); hour++ {
		if left := m[hour] >> skip << skip; left != 0 {
			return hour*60 + bits.TrailingZeros64(left), true
		}
		skip = 0
	}
	return 0, false
}

// hasMonth reports whether exceptions leave a time in a month.
func (f *freeDays) hasMonth(m time.Month) bool {
	return slices.ContainsFunc(f[m-1][:], func(weekdays uint8) bool { return weekdays != 0 })
}

// hasDay reports whether exceptions leave a time on a day.
func (f *freeDays) hasDay(t time.Time) bool { return f[t.Month()-1][t.Day()-1]&(1<<t.Weekday()) != 0 }
