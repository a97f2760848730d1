package lint

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// The bounds of the names of functions and methods: how long they are on average,
// in letters, and how many of a hundred are one lower-case word. The names of
// well-read Go projects have 10 to 13 letters, and 2 to 15 of a hundred are one word.
const (
	minNameLength  = 9.0
	maxOneWordRate = 25.0
)

// nameFigures are what the names of a module's functions and methods come to.
type nameFigures struct {
	functions, letters, oneWord int
	folders                     map[string][]string // of a one-word name, where it occurs
}

// namesOf counts the functions and methods of everything but tests and examples.
// main and init are not counted: the language names them.
func namesOf(t *tree) nameFigures {
	n := nameFigures{folders: map[string][]string{}}
	for _, p := range t.packages {
		if strings.HasPrefix(p.path, "examples/") {
			continue
		}
		for _, f := range p.files {
			for _, decl := range f.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || d.Name.Name == "main" || d.Name.Name == "init" {
					continue
				}
				n.count(p.path, d.Name.Name)
			}
		}
	}
	return n
}

func (n *nameFigures) count(folder, name string) {
	n.functions++
	n.letters += len(name)
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLower(r) }) {
		return
	}
	n.oneWord++
	if folders := n.folders[name]; !slices.Contains(folders, folder) {
		n.folders[name] = append(folders, folder)
	}
}

func (n *nameFigures) meanLength() float64  { return float64(n.letters) / float64(n.functions) }
func (n *nameFigures) oneWordRate() float64 { return 100 * float64(n.oneWord) / float64(n.functions) }

// checkNames refuses an unexported function name of one word in two packages: one
// word stands for one thing, and whoever looks for it finds it at once.
func checkNames(t *tree) {
	n := namesOf(t)
	for _, name := range slices.Sorted(maps.Keys(n.folders)) {
		if folders := n.folders[name]; len(folders) > 1 {
			t.reportAt(folders[0], "name", "%s is the name of a function in %s as well: say what each does", name, strings.Join(folders[1:], ", "))
		}
	}
}

// go test ./internal/lint -run TestNames -v prints the figures.
func TestNames(t *testing.T) {
	n := namesOf(loadModule(t))
	t.Logf("%d functions and methods; a name has %.1f letters on average (more than %.0f); %.1f %% are one word (less than %.0f %%)",
		n.functions, n.meanLength(), minNameLength, n.oneWordRate(), maxOneWordRate)
	assert.Greater(t, n.meanLength(), minNameLength)
	assert.Less(t, n.oneWordRate(), maxOneWordRate)
}

// A panic whose text begins with the name of a package is of that one: code that moved keeps the name of where it was.
func TestPanicsNameTheirPackage(t *testing.T) {
	source := loadModule(t)
	names := map[string]bool{}
	for _, p := range source.packages {
		for _, f := range p.files {
			names[f.Name.Name] = true
		}
	}
	for _, p := range source.packages {
		for _, f := range p.files {
			ast.Inspect(f.File, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 1 {
					if by, _, ok := strings.Cut(panicText(c), ": "); ok && names[by] {
						assert.Equal(t, f.Name.Name, by, "%s: a panic", source.fset.Position(c.Pos()))
					}
				}
				return true
			})
		}
	}
}

// panicText returns the text that a call of panic begins with, also through fmt.Sprintf; "" of all else.
func panicText(c *ast.CallExpr) string {
	if name, ok := c.Fun.(*ast.Ident); !ok || name.Name != "panic" {
		return ""
	}
	arg := c.Args[0]
	if made, ok := arg.(*ast.CallExpr); ok && len(made.Args) > 0 {
		arg = made.Args[0]
	}
	text, ok := arg.(*ast.BasicLit)
	if !ok {
		return ""
	}
	return strings.Trim(text.Value, "`\"")
}
