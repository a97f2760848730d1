package natspool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/internal/jet"
)

// Options configure a pool. The zero value of every field works.
type Options struct {
	// Name tells the engines apart that share a NATS system: it is in the names of stream and
	// subjects, and no two engines may have the same. Letters, digits, _ and -, at most 32;
	// "tasks" by default.
	Name string
	// Lease is how long a worker holds a task without a sign of life; 60 s by default, at
	// least 1 s.
	Lease time.Duration
	// Replicas is on how many servers the stream is, in memory: 1 by default; 3 where there
	// are three servers, so that the loss of one needs no republishing.
	Replicas int
	// Types bound how many tasks of a type are held at once, by all workers on all machines
	// together. "*" is for each of the types that have none of their own; none is no bound.
	Types map[string]int
	// Republish is the time between two rounds in which the pool publishes what is out and
	// held by nobody; 1 min by default.
	Republish time.Duration
	// Logger gets what no caller can be told; slog.Default() by default.
	Logger *slog.Logger
}

const defaultName = "tasks"

// goodType finds the types that NATS takes in names and subjects. A type has no hyphen, which consumerOf uses.
var goodType = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

// withDefaults returns the options as a pool uses them, or pawl.ErrInvalid with the first field that
// cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Republish == 0 {
		o.Republish = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case !jet.IsName(o.Name):
		return o, invalidOption("Name", "%q: use 1 to 32 letters, digits, _ and -", o.Name)
	case o.Lease < time.Second:
		return o, invalidOption("Lease", "%v: it must be at least 1s", o.Lease)
	case o.Replicas < 1 || o.Replicas > 5:
		return o, invalidOption("Replicas", "%d: JetStream takes 1 to 5", o.Replicas)
	case o.Republish < time.Second:
		return o, invalidOption("Republish", "%v: it must be at least 1s", o.Republish)
	}
	for name, most := range o.Types {
		if most < 1 {
			return o, invalidOption("Types", "%q has the bound %d: it must be at least 1", name, most)
		}
	}
	return o, nil
}

// invalidOption returns the error about a field of Options.
func invalidOption(option, format string, args ...any) error {
	return fmt.Errorf("%w: natspool.Options.%s is "+format, append([]any{pawl.ErrInvalid, option}, args...)...)
}

// boundOf returns how many tasks of a type are held at once; -1 for no bound.
func (o Options) boundOf(taskType string) int {
	if most, ok := o.Types[taskType]; ok {
		return most
	}
	if most, ok := o.Types["*"]; ok {
		return most
	}
	return -1
}

// names are those of one engine's stream, consumers and subjects.
// The Options.Name is in all of them, so engines with different names never meet.
type names string

// stream returns the name of the stream of tasks.
func (n names) stream() string { return "PAWL_" + string(n) }

// tasks is the pattern of the subjects of all tasks.
func (n names) tasks() string { return "pawl." + string(n) + ".task.>" }

// tasksOf is the pattern of the subjects of a type's tasks.
func (n names) tasksOf(taskType string) string {
	return "pawl." + string(n) + ".task." + consumerOf(taskType) + ".*.*"
}

// task is the subject of one attempt.
//
// The same attempt always has the same subject, whatever its key has in it, so that the stream, which
// keeps one message of a subject, refuses a second copy.
func (n names) task(taskType string, c class, k pawl.Key) string {
	sum := sha256.Sum256([]byte(k))
	return n.tasksOfClass(taskType, c, hex.EncodeToString(sum[:16]))
}

// tasksOfClass is the subject of a type's task of one class, and with "*" their pattern.
func (n names) tasksOfClass(taskType string, c class, which string) string {
	return "pawl." + string(n) + ".task." + consumerOf(taskType) + "." + strconv.Itoa(int(c)) + "." + which
}

// call is the subject of requests to the pool: done, beat or once.
func (n names) call(what string) string { return "pawl." + string(n) + "." + what }

// drop is the subject of notices about tasks that are no longer wanted.
func (n names) drop() string { return "pawl." + string(n) + ".drop" }

// consumerOf returns the name of a type's consumer: the type where NATS takes it as a name, and
// otherwise its checksum behind a hyphen, which no plain name has.
func consumerOf(taskType string) string {
	if goodType.MatchString(taskType) {
		return taskType
	}
	sum := sha256.Sum256([]byte(taskType))
	return "type-" + hex.EncodeToString(sum[:16])
}
