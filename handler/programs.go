package handler

import (
	"sync"

	"github.com/pawl-run/pawl/internal/expr"
)

// programs compiles expressions and keeps those that were used of late. It has
// two generations: when the young one is full it becomes the old one, and what
// was in the old one and is not used again is gone.
type programs struct {
	most int // bytes of source, of both generations

	compiling sync.Mutex // the compiler's; never taken while mu is held
	compiler  *expr.Compiler

	mu         sync.Mutex
	young, old map[string]*expr.Program
	bytes      int // of source in the young generation
}

func newPrograms(lim expr.Limits, most int) *programs {
	return &programs{most: most, compiler: expr.NewCompiler(lim), young: map[string]*expr.Program{}}
}

// entryBytes is what an entry counts beyond its source.
const entryBytes = 64

// compileCached returns the compiled expression, from the cache if it is there. An
// expression that does not compile is not kept.
func (p *programs) compileCached(source string) (*expr.Program, error) {
	if program := p.findProgram(source); program != nil {
		return program, nil
	}
	p.compiling.Lock()
	defer p.compiling.Unlock()
	if program := p.findProgram(source); program != nil { // compiled meanwhile
		return program, nil
	}
	program, err := p.compiler.Compile(source, []string{"data"})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepProgram(source, program)
	return program, nil
}

func (p *programs) findProgram(source string) *expr.Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if program := p.young[source]; program != nil {
		return program
	}
	program := p.old[source]
	if program != nil {
		p.keepProgram(source, program)
	}
	return program
}

// keepProgram adds a program to the young generation. The lock is held.
func (p *programs) keepProgram(source string, program *expr.Program) {
	size := len(source) + entryBytes
	if p.bytes+size > p.most/2 {
		p.young, p.old, p.bytes = map[string]*expr.Program{}, p.young, 0
	}
	p.young[source] = program
	p.bytes += size
}
