// Package schedule has the data of schedules, which start runs on time, and
// computes their instants. A schedule names a workflow and says when its runs
// begin: by cron, at intervals, some time after the end of the previous run, or
// at given instants.
//
//	schedules:
//	  - id: nightly
//	    workflow: {name: report}
//	    cron: ["0 2 * * *"]
//	    timezone: Europe/Berlin
//	    input: {day: fire.date}
//
// [Parse] reads such a file, [Check] names every problem with its place, and
// [Compile] makes the [Timetable] of a schedule, which knows its next [Firing].
//
// # Daylight-saving changes
//
// A time on the clock may be missing, as 02:30 is where clocks jump from 02:00
// to 03:00, and may be there twice. Unless a schedule says otherwise in dst, a
// cron expression with fixed hours fires as many hours after midnight as on
// other days if its time is missing (02:30 becomes 03:30), and once, the first
// time, if its time is there twice. An expression whose hours are a wildcard or
// have a step follows the clock as it runs: it fires whenever the clock shows
// its time, so that an hourly one misses no hour and fires in both that have
// the same name. No instant fires twice.
//
// # Purity
//
// The package has no clock, no randomness and no state. Its results depend on
// its arguments and on the database of time zones: the machine's, or the copy in
// this package on a machine without one. Since the database changes between
// releases, planners and expressions never compute such instants: an
// engine computes one here and writes it down.
package schedule
