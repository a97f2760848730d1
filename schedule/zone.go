package schedule

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // the zones of machines that have none; 450 KB of the binary
)

// zoneName is the form of the names of the IANA database.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// isOfMachine reports whether a name is that of a zone which files of one machine may have beside the IANA database: localtime is the
// zone of the machine, posixrules that of a distributor, and those below right count leap seconds.
func isOfMachine(name string) bool {
	name = strings.ToLower(name) // some file systems take any case
	return name == "localtime" || name == "posixrules" || strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/")
}

// loadZone returns a zone of the IANA database; "" is UTC. Local is refused: it is another zone on another machine.
func loadZone(name string) (*time.Location, error) {
	switch {
	case name == "" || name == "UTC":
		return time.UTC, nil
	case name == "Local":
		return nil, errors.New("the zone Local is another on each machine: name one of the IANA database, such as Europe/Berlin")
	case !zoneName.MatchString(name):
		return nil, fmt.Errorf("%.60q is not a name of the IANA database, such as Europe/Berlin", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%.60q is not in the database of time zones", name)
	}
	return zone, nil
}

// A period is a time in which a zone has one offset, in seconds since 1970: from start on, and before end. behind and
// ahead are the offsets before and after it.
type period struct {
	start, end            int64
	behind, offset, ahead int64
}

// The ends of a period that has none.
const (
	noStart = math.MinInt64 / 4
	noEnd   = math.MaxInt64 / 4
)

// periodAt returns the period in which an instant is. Transitions at which only the name of the zone changes are ends of
// a period as well, and harmless.
func periodAt(unix int64, zone *time.Location) period {
	t := time.Unix(unix, 0).In(zone)
	start, end := t.ZoneBounds()
	// In the years for which a zone has only a rule, package time ends a period after 365 days of the year at the latest.
	// On 31 December of a leap year that is not later than t.
	if !end.IsZero() && end.Unix() <= unix {
		end = time.Unix(unix-mod(unix, day)+day, 0).In(zone)
	}
	p := period{start: noStart, end: noEnd, offset: offsetOf(t)}
	p.behind, p.ahead = p.offset, p.offset
	if !start.IsZero() {
		p.start, p.behind = start.Unix(), offsetOf(start.Add(-time.Second))
	}
	if !end.IsZero() {
		p.end, p.ahead = end.Unix(), offsetOf(end)
	}
	return p
}

func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return int64(offset)
}
