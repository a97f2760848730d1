package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// orderVariable is the environment variable by which the command tells a process of
// its own what to do: the JSON of an order.
const orderVariable = "PAWL_BENCH_ORDER"

// An order is one sample, taken by a process of its own.
type order struct {
	Program    string
	PowerLoss  bool
	Sizes      sizes
	Dir        string // for engine directories; of the program's own, but for those that keep one
	CPUProfile string // a file; "" for none
	MemProfile string
}

// An answer is what the process prints, as JSON.
type answer struct {
	Values  map[string]float64
	Foreign float64 // processors that others kept busy
	Error   string
}

// A sample is an order on its way.
type sample struct {
	order
	meter
	values map[string]float64
}

// sendOrder runs a program of the bench in a process of its own.
func sendOrder(ctx context.Context, binary string, o order) (answer, error) {
	cmd, err := commandFor(ctx, binary, o)
	if err != nil {
		return answer{}, err
	}
	out, err := cmd.Output()
	var a answer
	if decoded := json.Unmarshal(out, &a); decoded != nil {
		return a, fmt.Errorf("%s: %w", o.Program, errors.Join(context.Cause(ctx), err, decoded))
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", o.Program, a.Error)
	}
	return a, nil
}

func commandFor(ctx context.Context, binary string, o order) (*exec.Cmd, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// obeyOrder is the process's side of sendOrder. It returns the status to exit with.
func obeyOrder(text string) int {
	s := sample{values: map[string]float64{}}
	err := json.Unmarshal([]byte(text), &s.order)
	if err == nil {
		err = s.takeSample(context.Background())
	}
	a := answer{Values: s.values, Foreign: s.foreignCores()}
	if err != nil {
		a.Error = err.Error()
	}
	if json.NewEncoder(os.Stdout).Encode(a) != nil {
		return 1
	}
	return 0
}

func (s *sample) takeSample(ctx context.Context) error {
	run := programs[s.Program]
	if run == nil {
		return errors.New("there is no such program")
	}
	s.begin = s.beginProfile
	return errors.Join(run(ctx, s), s.endProfiles())
}

func (s *sample) beginProfile() error {
	if s.CPUProfile == "" {
		return nil
	}
	f, err := os.Create(s.CPUProfile)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f) // which the end of the process closes
}

func (s *sample) endProfiles() error {
	pprof.StopCPUProfile()
	if s.MemProfile == "" {
		return nil
	}
	f, err := os.Create(s.MemProfile)
	if err != nil {
		return err
	}
	runtime.GC() // which a profile of allocations does not hold otherwise
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

// openEngine opens the engine that is measured.
func (s *sample) openEngine(ctx context.Context, c Config) (Engine, error) {
	c.Dir, c.PowerLoss = s.Dir, s.PowerLoss
	return pawlSystem().Open(ctx, c)
}

// killVictim starts a program in a process of its own, and kills it when it says that
// it is ready.
func (s *sample) killVictim(ctx context.Context, program string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := s.order
	o.Program, o.CPUProfile, o.MemProfile = program, "", ""
	cmd, err := commandFor(ctx, self, o)
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	if strings.TrimSpace(line) != readyLine {
		return fmt.Errorf("%s: %s: %w", program, line, err)
	}
	return nil
}

const readyLine = "ready"

// awaitKill says that the program is ready to be killed, and waits for it.
func awaitKill() error {
	fmt.Println(readyLine)
	time.Sleep(time.Minute)
	return errors.New("nobody has killed this process")
}

// poll asks until the answer is yes.
func poll(what string, ask func() (bool, error)) error {
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("in 5 minutes it did not happen: %s", what)
		}
	}
}
