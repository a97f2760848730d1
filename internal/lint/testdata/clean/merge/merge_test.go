package merge

import (
	"os"
	"sync"
	"testing"

	_ "github.com/pawl-run/pawl/workflow"
)

var once sync.Once

func Test(*testing.T) {
	once.Do(func() { _ = os.Getpid() })
}

func Exported() {}
