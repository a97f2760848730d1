// Package timing counts how long the attempts of tasks wait and work, so that an engine can say so without a metrics back end.
//
// A Counters has a series for each combination of workflow, node and task type, and for the whole runs of each workflow, at most MaxSeries,
// and one for all others of either kind. A series
// has the sums of the last 60 minutes, 48 hours and 31 days of UTC in which something ended: a minute that is over is added to its
// hour and its day. A sum has how many attempts ended and failed, and two histograms, of the time in the queue and of the work.
//
// The buckets of a histogram are logarithmic, eight for each power of two, from 16 µs to 52 days. A quantile is the harmonic mean of
// the bounds of its bucket, and so at most one part in 17 beside the true one. A sum that is over has some one byte for each bucket that
// counts something, in memory as in the file: a series that counts 50 to 100 attempts an hour or a minute all the time takes some 20 KB, and
// 500 such series take 8 MB of the file.
//
// A Ledger adds up what journals tell of any time, which no counter has any more.
//
// Nothing here reads a clock or starts a goroutine. OpenFile and KeepFile read and write the file of an engine directory; all else is in
// memory.
package timing
