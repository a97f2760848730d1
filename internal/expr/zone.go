package expr

import (
	"regexp"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// offset is the form of the time zones which are not read from files.
var offset = regexp.MustCompile(`^[+-]?[0-9]{2}:[0-9]{2}$`)

// hasZone reports whether a call is an accessor of a timestamp with a time zone.
//
// The accessors without a zone are in UTC, and need no check.
func hasZone(c interpreter.InterpretableCall) bool {
	if len(c.Args()) != 2 {
		return false
	}
	switch c.Function() {
	case overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear,
		overloads.TimeGetDayOfMonth, overloads.TimeGetDate, overloads.TimeGetDayOfWeek,
		overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds,
		overloads.TimeGetMilliseconds:
		return true
	default:
		return false
	}
}

// checkZone refuses time zones by name: their rules come with the machine.
//
// The database of zones differs from machine to machine and from year to year: a run that is
// replayed elsewhere would decide differently.
func checkZone(v ref.Val) ref.Val {
	switch zone := textOf(v); {
	case zone == "", zone == "UTC", offset.MatchString(zone):
		return nil
	default:
		return types.NewErr("time zone %.40q: only UTC and offsets such as +02:00 are known here", zone)
	}
}
