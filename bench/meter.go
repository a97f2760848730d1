package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in Linux's /proc: USER_HZ is 100 everywhere.
const tick = 10 * time.Millisecond

// A meter adds up the wall-clock time of the parts of a sample that are measured, and
// what other processes did meanwhile. Without Linux's /proc it knows only the first.
type meter struct {
	begin         func() error // called before the first part
	wall, foreign time.Duration
}

// A span is what one measured part took.
type span struct {
	wall time.Duration
	cpu  time.Duration // of this process
}

func (s span) seconds() float64 { return s.wall.Seconds() }

// measureSpan runs f as a measured part of the sample.
func (m *meter) measureSpan(f func() error) (span, error) {
	if m.begin != nil {
		if err := m.begin(); err != nil {
			return span{}, err
		}
		m.begin = nil
	}
	busy, own := busyTime(), ownTime()
	begin := time.Now()
	err := f()
	s := span{wall: time.Since(begin), cpu: ownTime() - own}
	m.wall += s.wall
	m.foreign += max(busyTime()-busy-s.cpu, 0)
	return s, err
}

// foreignCores returns how many processors others kept busy in the measured parts.
func (m *meter) foreignCores() float64 {
	if m.wall == 0 {
		return 0
	}
	return m.foreign.Seconds() / m.wall.Seconds()
}

// busyTime returns the processor time that all processes have used since the machine
// was started, with what its host gave to others; 0 if the system does not tell.
func busyTime() time.Duration {
	line, _, _ := strings.Cut(readText("/proc/stat"), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal ...
	if len(fields) < 9 {
		return 0
	}
	return sumTicks(slices.Concat(fields[1:4], fields[6:9]))
}

// ownTime returns the processor time of this process and of its children that have
// ended; 0 if the system does not tell.
func ownTime() time.Duration {
	text := readText("/proc/self/stat")
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]) // from the third on
	if len(fields) < 15 {
		return 0
	}
	return sumTicks(fields[11:15])
}

func sumTicks(fields []string) time.Duration {
	sum := time.Duration(0)
	for _, f := range fields {
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}

// residentBytes returns how much memory this process has; 0 if the system does not tell.
func residentBytes() float64 {
	fields := strings.Fields(readText("/proc/self/statm"))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return float64(pages * os.Getpagesize())
}

// writtenBytes returns how many bytes this process has handed to the system to be
// written; 0 if the system does not tell.
func writtenBytes() float64 {
	var read, written float64
	_, err := fmt.Fscanf(bytes.NewBufferString(readText("/proc/self/io")), "rchar: %f\nwchar: %f\n", &read, &written)
	if err != nil {
		return 0
	}
	return written
}

// readText returns the text of a file of /proc, "" if it cannot be read.
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// medianOf returns the median, in the middle of the two nearest if they are even; 0 of none.
func medianOf(xs []float64) float64 { return (quantileOf(xs, 0.5) + quantileOf(xs, 0.4999)) / 2 }

// quantileOf returns the smallest value that is not exceeded by a share q of all.
func quantileOf(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
